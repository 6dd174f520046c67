## kernel reduce_spread: out[kept] = the sum of squared distances from the mean, y the mean
##
## layout   as of reduce.mako, axes sorted by x's strides; y has strides of its own, 0 where reduced
## param    of: plain|root       what is kept of the sum: itself, or its square root
## param    ctype: str           element type of all arrays
## param    mean: bool           divide the sum first
## param    flat: int|long       type of sizes and flat indices: long where need be
## param    group: int           work-items of a group, a power of two
## param    reduce_items: int    of these, how many share one output, a power of two
## param    kept_fast: bool      neighbouring work-items take neighbouring outputs
## param    kept_rank: int       number of kept axes
## param    reduced_rank: int    number of reduced axes
## param    value: str           an element
## param    squares: bool        sum squares of distances, and in shift distances; else elements
## arg      outs: flat           number of outputs
## arg      parts: int           1: a group has all elements of its outputs
## arg      part_stride: long    not read
## arg      total: flat          reduced elements of each output
## arg      part_size: flat      the same
## % for i in range(kept_rank):
## arg      kept_size{i}: flat   for each kept axis its size
## arg      kept_x{i}: long      and its strides in x
## arg      kept_y{i}: long      and y
## arg      kept_out{i}: long    and out
## % endfor
## % for i in range(reduced_rank):
## arg      reduced_size{i}: flat  for each reduced axis its size
## arg      reduced_x{i}: long     and its strides in x
## arg      reduced_y{i}: long     and y: 0
## % endfor
## arg      out: out ctype
## arg      y: out ctype
## arg      x: in ctype
## % if mean:
## arg      divisor: ctype
## % endif
## launch   a group takes (group / reduce_items) outputs
## numerics the mean is known before distances are taken, and what its rounding adds to their
##          squares is subtracted; sums of items are joined in a fixed order
<%namespace name="lib" file="/lib/fold.mako"/>
<%namespace name="reduce" file="reduce.mako"/>
<%def name="term(value, ctype, squares)">
% if squares:
            {
                const ${ctype} gap = ${value} - center;
                shift += gap;
                result += gap * gap;
            }
% else:
            result += ${value};
% endif
</%def>
<%def name="sum_of(squares, ctype, flat, reduce_items, reduced_rank)">
<% in_flight = 8 %>
    result = 0;
    if (at < outs) {
        ${flat} i = lane;
% if reduced_rank == 1:
        for (; i + ${(in_flight - 1) * reduce_items} < total; i += ${in_flight * reduce_items}) {
% for n in range(in_flight):
            const ${ctype} v_${n} = x[x_start + (i + ${n * reduce_items}) * reduced_x0];
% endfor
% for n in range(in_flight):
            ${term(f"v_{n}", ctype, squares)}
% endfor
        }
% endif
        for (; i < total; i += ${reduce_items}) {
            long x_at = x_start;
            ${reduce.decode("i", flat, "reduced", reduced_rank, {"x_at": "x"})}
            ${term("x[x_at]", ctype, squares)}
        }
    }
</%def>
<%def name="reduce_spread(
    of, ctype, mean, flat, group, reduce_items, kept_fast, kept_rank, reduced_rank)">
<% kept_items = group // reduce_items %>
${lib.join("sum", ctype, 1)}
__kernel void reduce_spread(...)
{
    __local ${ctype} partial[${group}];
    out += out_offset;
    y += y_offset;
    ${lib.places(reduce_items, kept_items, kept_fast)}
    const ${flat} at = get_group_id(0) * ${kept_items} + kept;
    long x_start = x_offset, y_at = 0, out_at = 0;
    ${reduce.decode("at", flat, "kept", kept_rank,
        {"x_start": "x", "y_at": "y", "out_at": "out"})}
    ${ctype} result, center = 0, shift = 0;
    ${sum_of(False, ctype, flat, reduce_items, reduced_rank)}
    partial[lane * ${kept_items} + kept] = result;
    ${lib.tree("sum", "partial", reduce_items, kept_items)}
    center = partial[kept] / total;
    barrier(CLK_LOCAL_MEM_FENCE);
    ${sum_of(True, ctype, flat, reduce_items, reduced_rank)}
    partial[lane * ${kept_items} + kept] = shift;
    ${lib.tree("sum", "partial", reduce_items, kept_items)}
    shift = partial[kept];
    barrier(CLK_LOCAL_MEM_FENCE);
    partial[lane * ${kept_items} + kept] = result;
    ${lib.tree("sum", "partial", reduce_items, kept_items)}
    if (lane == 0 && at < outs) {
        y[y_at] = center;
        result = partial[kept];
        result -= isinf(result) ? 0 : shift * (shift / total);
        result = (result < 0 ? 0 : result)${" / divisor" if mean else ""};
        out[out_at] = ${"sqrt(result)" if of == "root" else "result"};
    }
}
</%def>
