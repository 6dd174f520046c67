## kernel integer_pack: filters of 8 bits in the order in which integer_conv reads them, and a table
##
##      packed[group][panel][step][lane]     an int of `numbers` channels of a tap
##      table[0][group][panel][lane]         the bias, [1] the filter's sum, [2] its scale
##
## param   numbers: int             numbers in an int: 4 bytes or 2 shorts
## param   lanes: int               filters of a panel
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
##
## launch  one item for each int of packed
<%def name="integer_pack(numbers, lanes)">
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
    for (int i = 0; i < ${numbers}; i++) {
        const int k = step * ${numbers} + i, c = k % icp;
        if (c < icg && in_group < ocg)
            word |= (filter[c * taps + k / icp] & ${255 if numbers == 4 else 65535})
                << (i * ${32 // numbers});
    }
    packed[packed_offset + item] = word;
    if (step == 0) {
        int sum = 0;
        if (in_group < ocg)
            for (int k = 0; k < icg * taps; k++)
                sum += filter[k];
        table += table_offset + panel * ${lanes} + lane;
        table[0] = in_group < ocg ? bias[bias_offset + oc] : 0;
        table[entries] = sum;
        table[2 * entries] = in_group < ocg ? as_int(scale[scale_offset + oc]) : 0;
    }
}
</%def>
