## kernel conv_parts: filters as conv_implicit reads them, and the sum of slices that it wrote
##
## param    ctype: str            OpenCL element type
## param    transposed: bool      rows of what is packed are the filters' input channels
## param    group_size: int       work-items of a group
## param    lanes: int            items that share a result, a power of two
## param    bias: bool            whether there is a bias
## param    activation: str|None  applied last
##
## def      conv_pack
## arg      packed: out ctype[groups][taps][channels][rows]
## arg      filters: in ctype  (groups * rows, channels, taps), transposed (groups * channels, rows,
##                             taps)
## arg      rows, channels: int
## arg      taps: int          elements of one channel of a filter
## arg      total: int         groups * channels * rows
##
## def      conv_sum
## arg      out: out ctype[size]
## arg      parts: in ctype[slices][size]
## % if bias:
## arg      bias: in ctype[features]
## % endif
## arg      size: int          elements of out
## arg      slices: int        parts
## arg      taps: int          parts lie as [taps][size / taps], out as [size / taps][taps]
## arg      plane: int         neighbours in out with the same bias
## arg      features: int      elements of bias
##
## launch   conv_pack: global (total rounded up,); conv_sum: global (size rounded up * lanes,)
## numerics conv_sum: lane l adds slices l, l + lanes ... in order, then lanes are added in a tree
<%namespace name="epilogue" file="/lib/epilogue.mako"/>
<%def name="conv_pack(ctype, transposed, group_size)">
__attribute__((reqd_work_group_size(${group_size}, 1, 1)))
__kernel void conv_pack(...)
{
    const int at = get_global_id(0), row = at % rows, channel = at / rows % channels,
        group = at / rows / channels;
    if (at < total) {
% if transposed:
        filters += filters_offset + (((long)group * channels + channel) * rows + row) * taps;
% else:
        filters += filters_offset + (((long)group * rows + row) * channels + channel) * taps;
% endif
        packed += packed_offset + ((long)group * taps * channels + channel) * rows + row;
        #pragma unroll 9
        for (int tap = 0; tap < taps; tap++)
            packed[(long)tap * channels * rows] = filters[tap];
    }
}
</%def>
<%def name="conv_sum(ctype, group_size, lanes, bias, activation)">
__attribute__((reqd_work_group_size(${group_size}, 1, 1)))
__kernel void conv_sum(...)
{
    const int self = get_local_id(0), i =
        get_group_id(0) * ${group_size // lanes} + self % ${group_size // lanes};
    ${ctype} sum = 0;
    if (i < size) {
        #pragma unroll 8
        for (int slice = self / ${group_size // lanes}; slice < slices; slice += ${lanes})
            sum += parts[parts_offset + (long)slice * size + i];
    }
% if lanes > 1:
    __local ${ctype} sums[${group_size}];
    sums[self] = sum;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int reach = ${group_size // 2}; reach >= ${group_size // lanes}; reach /= 2) {
        if (self < reach)
            sums[self] += sums[self + reach];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    sum = sums[self];
% endif
    if (i < size && self < ${group_size // lanes}) {
        const int at = i % (size / taps) * taps + i / (size / taps);
% if bias:
        sum += bias[bias_offset + at / plane % features];
% endif
        out[out_offset + at] = ${epilogue.activate(activation, "sum", ctype)};
    }
}
</%def>
