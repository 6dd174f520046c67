## lib group_scan: sums of what the items of a group before each have
##
## param group: int           work-items of the group
<%def name="scan_group(group)">
/* The sum of the values of the items before this one. */
int scan_group(__local int *sums, const int value)
{
    const int item = get_local_id(0);
    sums[item] = value;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int step = 1; step < ${group}; step *= 2) {
        const int before = item >= step ? sums[item - step] : 0;
        barrier(CLK_LOCAL_MEM_FENCE);
        sums[item] += before;
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    return sums[item] - value;
}
</%def>
