## kernel gemm_any: out = activation(alpha * a @ b + beta * out + bias), one work-item per element
##
## For the element types and the empty sums that the fast kernels leave out, and for the last step of
## a product whose sums were cut into slices.
##
## layout   any strides
## param    ctype: str           element type
## param    sum_type: str        type of the sums, of alpha and of beta
## param    group: int           work-items of a group
## param    bias: None|'m'|'n'   the axis bias lies along
## param    activation: None|str see lib/epilogue.mako
## arg      total, m, n, k: int  elements of out in all, and sizes
## arg      out: inout ctype, strides out_m, out_n
## arg      a: in ctype, strides a_m, a_k
## arg      b: in ctype, strides b_k, b_n
## arg      bias: in ctype, stride bias_step
## arg      alpha, beta: sum_type   out is read only where beta != 0
## arg      inner: int           batch item z lies at z / inner * *_outer + z % inner * *_inner
## arg      partial: in sum_type[slices][total]
## arg      slices: int          of partial
## launch   global (total rounded up,), local (group,)
## numerics sums run over k, or over the slices, in order
<%namespace name="epilogue" file="lib/epilogue.mako"/>
<%def name="gemm_any(ctype, sum_type, group, bias, activation)">
__kernel void gemm_any(
    const int total, const int m, const int n, const int k,
    __global ${ctype} *out, const long out_offset,
    __global const ${ctype} *restrict a, const long a_offset,
    __global const ${ctype} *restrict b, const long b_offset,
% if bias:
    __global const ${ctype} *restrict bias, const long bias_offset, const long bias_step,
% endif
    const ${sum_type} alpha, const ${sum_type} beta,
    const long out_m, const long out_n, const long a_m, const long a_k, const long b_k, const long b_n,
    const int inner, const long out_outer, const long out_inner,
    const long a_outer, const long a_inner, const long b_outer, const long b_inner)
{
    const int index = get_global_id(0);
    if (index >= total)
        return;
    const int column = index % n, row = index / n % m, item = index / n / m;
    a += a_offset + item / inner * a_outer + item % inner * a_inner + row * a_m;
    b += b_offset + item / inner * b_outer + item % inner * b_inner + column * b_n;
    out += out_offset + item / inner * out_outer + item % inner * out_inner + row * out_m + column * out_n;
    ${sum_type} sum = 0;
    for (int i = 0; i < k; i++)
        sum += (${sum_type})a[i * a_k] * (${sum_type})b[i * b_k];
    ${finish(ctype, sum_type, bias, activation)}
}
</%def>
##
<%def name="gemm_slices(ctype, sum_type, group, bias, activation)">
__kernel void gemm_slices(
    const int total, const int m, const int n, const int slices,
    __global ${ctype} *out, const long out_offset,
    __global const ${sum_type} *restrict partial, const long partial_offset,
% if bias:
    __global const ${ctype} *restrict bias, const long bias_offset, const long bias_step,
% endif
    const ${sum_type} alpha, const ${sum_type} beta,
    const long out_m, const long out_n, const int inner, const long out_outer, const long out_inner)
{
    const int index = get_global_id(0);
    if (index >= total)
        return;
    const int column = index % n, row = index / n % m, item = index / n / m;
    partial += partial_offset + index;
    out += out_offset + item / inner * out_outer + item % inner * out_inner + row * out_m + column * out_n;
    ${sum_type} sum = 0;
    for (int s = 0; s < slices; s++)
        sum += partial[(long)s * total];
    ${finish(ctype, sum_type, bias, activation)}
}
</%def>
##
<%def name="finish(ctype, sum_type, bias, activation)">\
${sum_type} x = alpha * sum;
    if (beta != 0)
        x += beta * (${sum_type})*out;
% if bias:
    x += (${sum_type})bias[bias_offset + ${"row" if bias == "m" else "column"} * bias_step];
% endif
    *out = (${ctype})${epilogue.activate(activation, "x", sum_type)};
</%def>
