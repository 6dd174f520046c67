## kernel reduce_pairs: out[kept] = sum over reduced of what is made of x[kept, reduced] and y there
##
## layout   as of reduce.mako, axes sorted by x's strides; y has strides of its own
## param    of: product|apart|gap|decay  what is summed: x * y, x - y, its square, or exp(x - y)
## param    ctype: str           element type of all arrays
## param    mean: bool           divide the result
## param    flat: int|long       type of sizes and flat indices: long where need be
## param    group: int           work-items of a group, a power of two
## param    reduce_items: int    of these, how many share one output, a power of two
## param    kept_fast: bool      neighbouring work-items take neighbouring outputs
## param    kept_rank: int       number of kept axes
## param    reduced_rank: int    number of reduced axes
## arg      outs: flat           number of outputs
## arg      parts: int           parts of each output
## arg      part_stride: long    step in out from part to part
## arg      total: flat          reduced elements of each output
## arg      part_size: flat      reduced elements of a part
## % for i in range(kept_rank):
## arg      kept_size{i}: flat   for each kept axis its size
## arg      kept_x{i}: long      and its strides in x
## arg      kept_y{i}: long      and y
## arg      kept_out{i}: long    and out
## % endfor
## % for i in range(reduced_rank):
## arg      reduced_size{i}: flat  for each reduced axis its size
## arg      reduced_x{i}: long     and its strides in x
## arg      reduced_y{i}: long     and y
## % endfor
## arg      out: out ctype
## arg      x: in ctype
## arg      y: in ctype
## % if mean:
## arg      divisor: ctype
## % endif
## launch   a group takes (group / reduce_items) outputs of one part
## numerics partial results of parts are joined in a fixed order
<%namespace name="lib" file="/lib/fold.mako"/>
<%namespace name="reduce" file="reduce.mako"/>
<%def name="reduce_pairs(
    of, ctype, mean, flat, group, reduce_items, kept_fast, kept_rank, reduced_rank)">
<% kept_items, in_flight = group // reduce_items, 8 %>
${lib.join("sum", ctype, 1)}
inline ${ctype} made_of(const ${ctype} v, const ${ctype} w)
{
<% terms = {"product": "v * w", "apart": "v - w", "gap": "(v - w) * (v - w)"} %>
    return ${terms.get(of, "exp(v - w)")};
}
__kernel void reduce_pairs(...)
{
    __local ${ctype} partial[${group}];
    out += out_offset;
    ${lib.places(reduce_items, kept_items, kept_fast)}
    const int part = get_group_id(0) % parts;
    const ${flat} at = get_group_id(0) / parts * ${kept_items} + kept;
    long x_start = x_offset, y_start = y_offset, out_at = part * part_stride;
    ${reduce.decode("at", flat, "kept", kept_rank,
        {"x_start": "x", "y_start": "y", "out_at": "out"})}
    ${ctype} result = 0;
    if (at < outs) {
        const ${flat} end = min((part + 1) * part_size, total);
        ${flat} i = part * part_size + lane;
% if reduced_rank == 1:
        for (; i + ${(in_flight - 1) * reduce_items} < end; i += ${in_flight * reduce_items}) {
% for n in range(in_flight):
            const ${ctype} v_${n} = x[x_start + (i + ${n * reduce_items}) * reduced_x0],
                w_${n} = y[y_start + (i + ${n * reduce_items}) * reduced_y0];
% endfor
% for n in range(in_flight):
            result += made_of(v_${n}, w_${n});
% endfor
        }
% endif
        for (; i < end; i += ${reduce_items}) {
            long x_at = x_start, y_at = y_start;
            ${reduce.decode("i", flat, "reduced", reduced_rank, {"x_at": "x", "y_at": "y"})}
            result += made_of(x[x_at], y[y_at]);
        }
    }
    partial[lane * ${kept_items} + kept] = result;
    ${lib.tree("sum", "partial", reduce_items, kept_items)}
    if (lane == 0 && at < outs)
        out[out_at] = partial[kept]${" / divisor" if mean else ""};
}
</%def>
