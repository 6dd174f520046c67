## kernel gemm_laid: an operand of a product, copied so that steps of k lie densely, in parts
##
## Part 0 is the operand, or its elements rounded to TF32, and part 1 what rounding left of them,
## as lib/tf32_parts.mako says. Behind the steps of k zeros fill a part.
##
## layout   to: dense; from: any strides, fast where either axis is dense
## param    element: 'ushort'|'float'
## param    parts: 1|2
## param    along: 'k'|'tile'    axis of from that neighbouring items read along
## arg      rows: int            along the axis that is not k
## arg      k: int
## arg      pitch: int           elements of a part of a row
## arg      to: out element[batch][rows][parts][pitch]
## arg      from: in element
## arg      row_step, k_step: long   strides of from
## arg      inner: int           batch item z lies at z / inner * outer_step + z % inner *
##                               inner_step
## arg      outer_step, inner_step: long
## launch   global (columns * 32, lines * 8, batch), local (32, 8, 1); a group copies 32 by 32
## numerics the parts' sum differs from the operand by 2^-23 of it, or by a denormal number
<%namespace name="parts_of" file="/lib/tf32_parts.mako"/>
<%def name="gemm_laid(element, parts, along)">
__attribute__((reqd_work_group_size(32, 8, 1)))
__kernel void gemm_laid(...)
{
    const int x = get_local_id(0), y = get_local_id(1), item = get_global_id(2);
    const int row0 = get_group_id(1) * 32, step0 = get_group_id(0) * 32;
    __global const ${element} *source = from + from_offset + item / inner * outer_step
        + item % inner * inner_step;
    __global ${element} *target = to + to_offset + (long)item * rows * ${parts} * pitch;
% if along == "tile":
    __local ${element} held[32][33];
    for (int e = y; e < 32; e += 8) {
        const int row = row0 + x, step = step0 + e;
        held[e][x] = row < rows && step < k ? source[row * row_step + step * k_step] : 0;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
% endif
    for (int e = y; e < 32; e += 8) {
        const int row = row0 + e, step = step0 + x;
        if (row < rows && step < pitch) {
% if along == "tile":
            const ${element} value = held[x][e];
% else:
            const ${element} value = step < k ? source[row * row_step + step * k_step] : 0;
% endif
            __global ${element} *out = target + (long)row * ${parts} * pitch + step;
% if parts == 2:
            ${parts_of.stored("out", "pitch", "value")}
% else:
            out[0] = value;
% endif
        }
    }
}
</%def>
