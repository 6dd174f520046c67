## kernel gemm_any: out = activation(alpha * a @ b + beta * out + bias), one work-item per element
##
## For the element types and the empty sums that the fast kernels leave out, and for the last step
## of a product whose sums were cut into slices.
##
## layout   any strides
## param    ctype: str           element type
## param    sum_type: str        type of the sums, of alpha and of beta
## param    flat: int|long        type of a flat index, long beyond 2^31 elements
## param    group: int           work-items of a group
## param    width: int           elements an item of gemm_slices_dense adds, a power of two
## param    bias: None|'m'|'n'   the axis bias lies along
## param    activation: None|str see lib/epilogue.mako
## param    finish: FinishParams|None  of gemm_slices_dense, see lib/finish.mako
## def      gemm_any
## arg      total: {flat}                  elements of out
## arg      m: int                         rows of out
## arg      n: int                         columns of out
## arg      k: int                         length of the sums
## arg      out: inout ctype, may alias    read only where beta != 0
## arg      a: in ctype
## arg      b: in ctype
## % if bias:
## arg      bias: in ctype
## arg      bias_step: long                its stride
## % endif
## arg      alpha: sum_type                factor of the product
## arg      beta: sum_type                 factor of what out holds
## arg      out_m, out_n, a_m, a_k, b_k, b_n: long  strides of the matrices
## arg      inner: int                     batch item z lies at z / inner * *_outer + z % inner *
##                                         *_inner
## arg      out_outer, out_inner, a_outer, a_inner, b_outer, b_inner: long
## def      gemm_slices
## arg      total: int                     elements of out
## arg      m: int                         rows
## arg      n: int                         columns
## arg      slices: int                    of partial
## arg      out: inout ctype, may alias    read only where beta != 0
## arg      partial: in sum_type           partial[slices][total]
## % if bias:
## arg      bias: in ctype
## arg      bias_step: long                its stride
## % endif
## arg      alpha: sum_type                factor of the sums
## arg      beta: sum_type                 factor of what out holds
## arg      out_m, out_n: long
## arg      inner: int                     as above
## arg      out_outer, out_inner: long
## def      gemm_slices_dense
## arg      total: int                     elements of out
## arg      slices: int                    of partial
## arg      out: inout ctype, may alias    dense
## arg      partial: in ctype              partial[slices][total]
## % if bias:
## arg      m: int                         rows
## arg      n: int                         columns, a multiple of width
## arg      bias: in ctype
## arg      bias_step: long                any if width is 1, else 1 along n
## % endif
## % if finish:
## % for j in range(1, len(finish.wide.results)):
## arg      y_{j}: inout ctype, may alias  these three as finish says
## % endfor
## % for j in range(finish.reads):
## arg      x_{j}: in ctype, may alias
## % endfor
## % for j in range(finish.scalars):
## arg      s_{j}: ctype
## % endfor
## % endif
## arg      alpha: ctype                   factor of the sums
## arg      beta: ctype                    factor of what out holds
## launch   global (items rounded up,), local (group,); an item for each element, or for `width` of
##          them
## numerics sums run over k, or over the slices, in order
<%namespace name="vectors_of" file="/lib/vector.mako"/>
<%namespace name="epilogue" file="/lib/epilogue.mako"/>
<%namespace name="finishing" file="/lib/finish.mako"/>
<%def name="gemm_any(ctype, sum_type, flat, group, bias, activation)">
__kernel void gemm_any(...)
{
    const ${flat} index = get_global_id(0);
    if (index >= total)
        return;
    const int column = index % n, row = index / n % m, item = index / n / m;
    a += a_offset + item / inner * a_outer + item % inner * a_inner + row * a_m;
    b += b_offset + item / inner * b_outer + item % inner * b_inner + column * b_n;
    out += out_offset + item / inner * out_outer + item % inner * out_inner + row * out_m
        + column * out_n;
    ${sum_type} sum = 0;
    for (int i = 0; i < k; i++)
        sum += (${sum_type})a[i * a_k] * (${sum_type})b[i * b_k];
    ${finish(ctype, sum_type, bias, activation)}
}
</%def>
##
<%def name="gemm_slices(ctype, sum_type, group, bias, activation)">
__kernel void gemm_slices(...)
{
    const int index = get_global_id(0);
    if (index >= total)
        return;
    const int column = index % n, row = index / n % m, item = index / n / m;
    partial += partial_offset + index;
    out += out_offset + item / inner * out_outer + item % inner * out_inner + row * out_m
        + column * out_n;
    ${sum_type} sum = 0;
    for (int s = 0; s < slices; s++)
        sum += partial[(long)s * total];
    ${finish(ctype, sum_type, bias, activation)}
}
</%def>
##
## The same where out lies as densely as its partial sums, and a vector of it is within one row: a
## bias needs one coordinate, the rest none.
<%def name="gemm_slices_dense(ctype, width, group, bias, activation, finish)">
<% type = ctype if width == 1 else f"{ctype}{width}" %>
% if width > 1:
${vectors_of.types(ctype, width)}
% endif
${finishing.functions(finish, ctype, width, "vector")}
__kernel void gemm_slices_dense(...)
{
    int index = get_global_id(0) * ${width};
    partial += partial_offset;
    out += out_offset;
    ${finishing.begin(finish, 0)}
% if bias:
    bias += bias_offset + ${"index / n % m" if bias == "m" else "index % n"} * bias_step;
% endif
% if width > 1:
    if (index + ${width} <= total) {
        ${type} sum = 0;
        for (int s = 0; s < slices; s++)
            sum += *(__global const vector *)(partial + (long)s * total + index);
        ${type} x = alpha * sum;
        if (beta != 0)
            x += beta * *(__global const vector *)(out + index);
% if bias:
        x += *${"(__global const vector *)" if bias == "n" else ""}bias;
% endif
% if finish:
        finish_${width}(${epilogue.activate(activation, "x", type)},
            out + index${finishing.of(finish,
            "*(__global const vector *)(x_{} + index)")}${finishing.passed(finish, "index")});
% else:
        *(__global vector *)(out + index) = ${epilogue.activate(activation, "x", type)};
% endif
        return;
    }
% endif
    for (const int end = index + ${width} < total ? index + ${width} : total; index < end;
        index++) {
        ${ctype} sum = 0;
        #pragma unroll 8
        for (int s = 0; s < slices; s++)
            sum += partial[(long)s * total + index];
        ${ctype} x = alpha * sum;
        if (beta != 0)
            x += beta * out[index];
% if bias:
        x += *bias;
% endif
% if finish:
        finish_1(${epilogue.activate(activation, "x", ctype)},
            out + index${finishing.of(finish, "x_{}[index]")}${finishing.passed(finish, "index")});
% else:
        out[index] = ${epilogue.activate(activation, "x", ctype)};
% endif
    }
}
</%def>
##
<%def name="finish(ctype, sum_type, bias, activation)">
${sum_type} x = alpha * sum;
    if (beta != 0)
        x += beta * (${sum_type})*out;
% if bias:
    x += (${sum_type})bias[bias_offset + ${"row" if bias == "m" else "column"} * bias_step];
% endif
    *out = (${ctype})${epilogue.activate(activation, "x", sum_type)};
</%def>
