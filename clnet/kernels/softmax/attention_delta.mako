## kernel attention_delta: delta[row] = sum of gy[row] * y[row]
##
## Eight items share a row, and read runs of eight elements.
##
## layout   rows of gy and y begin at multiples of 16 bytes and are dense; delta is dense
## param    ctype: 'half'|'bfloat16'|'float'   element type
## arg      total: int                 rows of all heads
## arg      rows, heads: int
## arg      size: int                  elements of a row, a multiple of 8
## arg      gy_image, gy_head, gy_row, y_image, y_head, y_row: long    strides
## arg      delta: out float[total]
## arg      gy: in ctype[total, size]
## arg      y: in ctype[total, size]
## launch   8 items a row, in groups of 64
## numerics sums in float: every eighth run by the same item, then runs' elements, then items
<%def name="attention_delta(ctype)">
<% element = "float" if ctype == "float" else "ushort" %>
inline float8 read_run(__global const ${element} *from)
{
% if ctype == "float":
    return (float8)(*(__global const float4 *)from, *(__global const float4 *)(from + 4));
% elif ctype == "half":
    return vload_half8(0, (__global const half *)from);
% else:
    return as_float8(convert_uint8(vload8(0, from)) << 16);
% endif
}
__attribute__((reqd_work_group_size(64, 1, 1)))
__kernel void attention_delta(...)
{
    __local float sums[64];
    const int self = get_local_id(0), row = get_group_id(0) * 8 + self / 8;
    float8 sum = 0;
    if (row < total) {
        const int image = row / rows / heads, head = row / rows % heads, own = row % rows;
        __global const ${element} *left = (__global const ${element} *)gy + gy_offset
            + image * gy_image + head * gy_head + own * gy_row;
        __global const ${element} *right = (__global const ${element} *)y + y_offset
            + image * y_image + head * y_head + own * y_row;
        for (int e = self % 8 * 8; e < size; e += 64)
            sum += read_run(left + e) * read_run(right + e);
    }
    const float4 four = sum.lo + sum.hi;
    sums[self] = four.x + four.y + four.z + four.w;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (self % 8 == 0 && row < total) {
        float whole = 0;
        for (int i = 0; i < 8; i++)
            whole += sums[self + i];
        delta[delta_offset + row] = whole;
    }
}
</%def>
