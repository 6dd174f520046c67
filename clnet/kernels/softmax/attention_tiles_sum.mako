## kernel attention_tiles_sum: the gradient to q of the pieces that attention_tiles_grad_kv stored
##
## layout   rows of gq are dense, and lie anywhere; piece is dense
## param    ctype: str              element type
## param    head: int               elements of a row
## param    own: int                keys of a group
## param    width: 1|4              elements that are added at once
## param    causal: bool            a row has pieces of the groups up to that of its own number only
## arg      rows, heads: int
## arg      groups: int             of keys
## arg      image, head_step, row_step: long    strides of gq
## arg      scale: ctype
## arg      gq: out ctype[batch, rows, head]
## arg      piece: in ctype[groups, batch, rows, head]
## launch   an item for so many elements of a head, batch
## numerics sums in the order of the groups
<%def name="attention_tiles_sum(ctype, head, own, width, causal)">
<% several = ctype if width == 1 else f"{ctype}{width}" %>
__kernel void attention_tiles_sum(...)
{
    const int row = get_global_id(0) / ${head // width}, e = get_global_id(0) % ${head // width};
    const int batch = get_global_id(1);
    if (row >= rows)
        return;
    const long all = (long)get_global_size(1) * rows * ${head};
    __global const ${ctype} *from = piece + piece_offset + ((long)batch * rows + row) * ${head}
        + e * ${width};
    const int limit = ${f"min(groups, row / {own} + 1)" if causal else "groups"};
    ${several} sum = 0;
    for (int i = 0; i < limit; i++)
        sum += *(__global const ${several} *)(from + i * all);
    *(__global ${several} *)(gq + gq_offset + batch / heads * image + batch % heads * head_step
        + row * row_step + e * ${width}) = sum * scale;
}
</%def>
