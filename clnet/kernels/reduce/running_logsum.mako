## kernel running_logsum: log of the sum of exp of an element and all before it
##
## math     a sum is kept as (most, part) = part * exp(most); y = most + log(part).
##          sum[i] = gy[i] + exp(y[i] - y[i + 1]) sum[i + 1]; gx[i] = exp(x[i] - y[i]) sum[i]
## layout   dense (outer, n, inner), along n
## param    ctype: str                 element type
## param    total: str                 type of an item's sum
## param    group: int                 work-items of a line, a power of two
## arg      n: int
## def      running_logsum_items
## arg      lines, inner: int
## def      running_logsum_items, running_logsum_group
## arg      y: out ctype[outer][n][inner]
## arg      x: in ctype[outer][n][inner]
## def      logsum_back_items
## arg      lines, inner: int
## def      logsum_back_items, logsum_back_group
## arg      gx: out ctype[outer][n][inner]
## arg      gy: in ctype[outer][n][inner]
## arg      x: in ctype[outer][n][inner]
## arg      y: in ctype[outer][n][inner]
## launch   items: an item a line. group: a group a line, whose inner is 1
## numerics no overflow, infinities as they are; a NaN stays from where it is on. Items add in
##          order, on CPUs doubles, groups by doubling
<%def name="joined(ctype)">
${ctype} scaled(const ${ctype} part, const ${ctype} from, const ${ctype} to)
{
    ## Equal infinities: their difference would be NaN.
    return from == to ? part : part * exp(from - to);
}
${ctype} larger(const ${ctype} a, const ${ctype} b)
{
    return a >= b || isnan(a) ? a : b;
}
</%def>
<%def name="running_logsum_items(ctype, total)">
${joined(ctype)}
__kernel void running_logsum_items(...)
{
    const int line = get_global_id(0);
    if (line >= lines)
        return;
    const long start = (long)(line / inner) * n * inner + line % inner;
    x += x_offset + start;
    y += y_offset + start;
    ${ctype} most = -INFINITY;
    ${total} part = 0;
    for (int i = 0; i < n; ++i) {
        const long at = (long)i * inner;
        const ${ctype} value = x[at];
        ## One exp for both cases: the smaller by the larger.
        const ${ctype} ratio = value == most ? 1 : exp(-fabs(value - most));
        part = value > most ? part * ratio + 1 : part + ratio;
        most = larger(most, value);
        y[at] = most + log((${ctype})part);
    }
}
</%def>
<%def name="running_logsum_group(ctype, group)">
${joined(ctype)}
__kernel void running_logsum_group(...)
{
    __local ${ctype} mosts[${group}];
    __local ${ctype} parts[${group}];
    const int item = get_local_id(0);
    x += x_offset + (long)get_group_id(0) * n;
    y += y_offset + (long)get_group_id(0) * n;
    ${ctype} carried = -INFINITY;
    ${ctype} carried_part = 0;
    for (int first = 0; first < n; first += ${group}) {
        const int i = first + item;
        ${ctype} most = i < n ? x[i] : -INFINITY;
        ${ctype} part = i < n;
        mosts[item] = most;
        parts[item] = part;
% for step in [1 << k for k in range(group.bit_length() - 1)]:
        barrier(CLK_LOCAL_MEM_FENCE);
        if (item >= ${step}) {
            const ${ctype} before = mosts[item - ${step}];
            const ${ctype} top = larger(most, before);
            part = scaled(parts[item - ${step}], before, top) + scaled(part, most, top);
            most = top;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        mosts[item] = most;
        parts[item] = part;
% endfor
        barrier(CLK_LOCAL_MEM_FENCE);
        ${ctype} top = larger(carried, most);
        if (i < n)
            y[i] = top + log(scaled(carried_part, carried, top) + scaled(part, most, top));
        ## All that came up to here is carried on by every item.
        const ${ctype} last = mosts[${group - 1}];
        top = larger(carried, last);
        carried_part = scaled(carried_part, carried, top) + scaled(parts[${group - 1}], last, top);
        carried = top;
        barrier(CLK_LOCAL_MEM_FENCE);
    }
}
</%def>
<%def name="logsum_back_items(ctype)">
${joined(ctype)}
__kernel void logsum_back_items(...)
{
    const int line = get_global_id(0);
    if (line >= lines)
        return;
    const long start = (long)(line / inner) * n * inner + line % inner;
    gx += gx_offset + start;
    gy += gy_offset + start;
    x += x_offset + start;
    y += y_offset + start;
    ${ctype} sum = 0;
    ${ctype} after = y[(long)(n - 1) * inner];
    for (int i = n - 1; i >= 0; --i) {
        const long at = (long)i * inner;
        const ${ctype} here = y[at];
        sum = gy[at] + scaled(sum, here, after);
        gx[at] = exp(x[at] - here) * sum;
        after = here;
    }
}
</%def>
<%def name="logsum_back_group(ctype, group)">
${joined(ctype)}
__kernel void logsum_back_group(...)
{
    __local ${ctype} weights[${group}];
    __local ${ctype} sums[${group}];
    const int item = get_local_id(0);
    const long start = (long)get_group_id(0) * n;
    gx += gx_offset + start;
    gy += gy_offset + start;
    x += x_offset + start;
    y += y_offset + start;
    ${ctype} carried = 0;
    for (int first = 0; first < n; first += ${group}) {
        const int i = n - 1 - first - item;
        const int at = max(i, 0);
        const ${ctype} here = y[at];
        ${ctype} weight = scaled(1, here, y[min(at + 1, n - 1)]);
        ${ctype} sum = gy[at];
        weights[item] = weight;
        sums[item] = sum;
% for step in [1 << k for k in range(group.bit_length() - 1)]:
        barrier(CLK_LOCAL_MEM_FENCE);
        if (item >= ${step}) {
            sum += weight * sums[item - ${step}];
            weight *= weights[item - ${step}];
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        weights[item] = weight;
        sums[item] = sum;
% endfor
        barrier(CLK_LOCAL_MEM_FENCE);
        if (i >= 0)
            gx[i] = exp(x[i] - here) * (sum + weight * carried);
        carried = sums[${group - 1}] + weights[${group - 1}] * carried;
        barrier(CLK_LOCAL_MEM_FENCE);
    }
}
</%def>
