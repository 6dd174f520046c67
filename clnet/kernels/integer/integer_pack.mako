## kernel integer_pack: filters of 8 bits in the order in which integer_conv reads them, and a table
##
##      packed[group][panel][step][lane]     an int of four channels of a tap, steps in twos
##      table[0][group][panel][lane]         the bias, [1] the filter's sum, [2] its scale,
##      table[3]                             of a panel's first lane: its filters are small
##
## Small are filters whose products with any x, two by two of two steps, fit in 16 bits in their
## sums (DOT2 of device/integer_dot.py).
##
## param   lanes: int               filters of a panel
## def     integer_pack
## arg     total: int               ints of packed
## arg     packed: out int[total]
## arg     table: out int
## arg     w: in char               (groups * ocg, icg, taps)
## arg     bias: in int             (groups * ocg)
## arg     scale: in float          (groups * ocg)
## arg     entries: int             of a row of the table
## arg     panels: int              of a group
## arg     steps: int               ints of a filter
## arg     ocg, icg, icp: int       filters and channels of a group; channels of a tap, padded
## arg     taps: int
## def     integer_small
## arg     count: int               panels of all groups
## arg     table: out int
## arg     packed: in int
## arg     entries, steps: int      as above
##
## launch  one item for each int of packed, those of a panel's first step make its table; one for
##         each panel behind that
## One number of a filter; 0 behind its last.
<%def name="integer_pack(lanes)">
inline int number(__global const char *filter, const int k, const int icg, const int icp,
    const int taps)
{
    const int c = k % icp, tap = k / icp;
    return c < icg && tap < taps ? filter[c * taps + tap] : 0;
}
__kernel void integer_pack(...)
{
    const int item = get_global_id(0);
    if (item >= total)
        return;
    const int lane = item % ${lanes}, step = item / ${lanes} % steps;
    const int panel = item / ${lanes} / steps, in_group = panel % panels * ${lanes} + lane;
    const int oc = panel / panels * ocg + in_group;
    __global const char *filter = w + w_offset + (long)oc * icg * taps;
    int word = 0;
    for (int i = 0; i < 4 && in_group < ocg; i++)
        word |= (number(filter, step * 4 + i, icg, icp, taps) & 255) << (i * 8);
    packed[packed_offset + item] = word;
    if (step == 0) {
        int sum = 0;
        for (int k = 0; k < icg * taps && in_group < ocg; k++)
            sum += filter[k];
        table += table_offset + panel * ${lanes} + lane;
        table[0] = in_group < ocg ? bias[bias_offset + oc] : 0;
        table[entries] = sum;
        table[2 * entries] = in_group < ocg ? as_int(scale[scale_offset + oc]) : 0;
    }
}
</%def>
<%def name="integer_small(lanes)">
__kernel void integer_small(...)
{
    const int panel = get_global_id(0);
    if (panel >= count)
        return;
    __global const int *w = packed + packed_offset + (long)panel * steps * ${lanes};
    int small = 1;
    for (int k = 0; k < steps; k += 2, w += ${2 * lanes})
        for (int lane = 0; lane < ${lanes}; lane++)
            for (int part = 0; part < 32; part += 16) {
                int above = 0, below = 0;
                for (int i = 0; i < 4; i++) {
                    const int word = w[lane + i / 2 * ${lanes}];
                    const int value = word << (24 - part - i % 2 * 8) >> 24;
                    above += max(value, 0);
                    below += min(value, 0);
                }
                small &= above * 255 < 32768 && below * 255 >= -32768;
            }
    table[table_offset + 3 * entries + panel * ${lanes}] = small;
}
</%def>
