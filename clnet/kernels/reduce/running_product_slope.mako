## kernel running_product_slope: the gradient of running products, from the end of a line
##
## math     s[i] = gy[i] + x[i + 1] s[i + 1];  gx[i] = y[i - 1] s[i], where y is x's running product
## layout   dense (outer, n, inner), along n
## param    ctype: str                 element type
## param    group: int                 work-items of a line, a power of two
## arg      n: int
## def      running_product_slope_items
## arg      lines, inner: int
## def      running_product_slope_items, running_product_slope_group
## arg      gx: out ctype[outer][n][inner]
## arg      gy: in ctype[outer][n][inner]
## arg      x: in ctype[outer][n][inner]
## arg      y: in ctype[outer][n][inner]
## launch   items: an item a line. group: a group a line, whose inner is 1
## numerics items: in order; group: steps of a part are joined in pairs, parts in order
<%def name="running_product_slope_items(ctype)">
__kernel void running_product_slope_items(...)
{
    const int line = get_global_id(0);
    if (line >= lines)
        return;
    const long start = (long)(line / inner) * n * inner + line % inner;
    gx += gx_offset + start;
    gy += gy_offset + start;
    x += x_offset + start;
    y += y_offset + start;
    ${ctype} slope = 0, factor = 0;
    for (int i = n - 1; i >= 0; --i) {
        const long at = (long)i * inner;
        slope = gy[at] + factor * slope;
        gx[at] = i > 0 ? y[at - inner] * slope : slope;
        factor = x[at];
    }
}
</%def>
<%def name="running_product_slope_group(ctype, group)">
__kernel void running_product_slope_group(...)
{
    __local ${ctype} slopes[${group}], factors[${group}];
    const int item = get_local_id(0);
    const long start = (long)get_group_id(0) * n;
    gx += gx_offset + start;
    gy += gy_offset + start;
    x += x_offset + start;
    y += y_offset + start;
    for (int first = 0; first < n; first += ${group}) {
        const int i = n - 1 - first - item;
        ${ctype} slope = i >= 0 ? gy[i] : 0, factor = i >= 0 && i + 1 < n ? x[i + 1] : 0;
        ## The first item goes on from the last one of the part behind.
        if (item == 0 && first > 0)
            slope += factor * slopes[${group - 1}];
        barrier(CLK_LOCAL_MEM_FENCE);
        slopes[item] = slope;
        factors[item] = factor;
% for step in [1 << k for k in range(group.bit_length() - 1)]:
        barrier(CLK_LOCAL_MEM_FENCE);
        if (item >= ${step}) {
            slope += factor * slopes[item - ${step}];
            factor *= factors[item - ${step}];
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        slopes[item] = slope;
        factors[item] = factor;
% endfor
        if (i >= 0)
            gx[i] = i > 0 ? y[i - 1] * slope : slope;
        barrier(CLK_LOCAL_MEM_FENCE);
    }
}
</%def>
