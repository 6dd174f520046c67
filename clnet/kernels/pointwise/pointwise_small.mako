## kernel pointwise_small: y_j[i] = expression_j(x_0[i], x_1[i], ..., s_0, ...), few elements
##
## math     any expressions of expr/; several outputs share one pass over the inputs
## layout   one axis or two of any steps, dense arrays included: one kernel serves all layouts
## param    statements: tuple[str]    C declarations of temporaries
## param    results: tuple[str]       C text of each output's value
## param    functions: tuple[str]     elementary functions of float that they call
## param    compute: str              C type the expressions are computed in
## param    outputs: tuple[str]       type in memory (of C, or bfloat16) of each output
## param    inputs: tuple[(str, bool)]  the same of each input, and whether it holds booleans
## param    scalars: int              number of run-time scalars
## param    operand: str              name of an output or an input
## param    number: int               its place among outputs and inputs
## % for j, ctype in enumerate(outputs):
## arg      y_{j}: out ctype, may alias
## % endfor
## % for j, (ctype, boolean) in enumerate(inputs):
## arg      x_{j}: in ctype, may alias
## % endfor
## % for k in range((len(outputs) + len(inputs) + 1) // 2):
## arg      steps_{k}: long  of operands 2k and 2k + 1, 16 bits each, the lowest first: the
##                                    inner and the outer step of one, and of the other
## % endfor
## % for j in range(scalars):
## arg      s_{j}: compute   scalar j
## % endfor
## arg      n: int           elements along the inner axis
## arg      total: int       elements
## launch   global >= total; any local size; no local memory
## numerics as pointwise
<%namespace name="elementary" file="/lib/elementary.mako"/>
<%namespace name="stored" file="/lib/stored.mako"/>
<%def name="position(operand, number)">
<%
    steps, low = f"steps_{number // 2}", number % 2 * 32
%>
    const long ${operand}_at = ${operand}_offset
        + i * (short)(${steps} >> ${low}) + o * (short)(${steps} >> ${low + 16});
</%def>
<%def name="pointwise_small(statements, results, functions, compute, outputs, inputs, scalars)">
#pragma OPENCL FP_CONTRACT OFF
${elementary.define(functions, compute, 1)}
__kernel void pointwise_small(...)
{
    const int at = (int)get_global_id(0);
    if (at >= total) return;
    const int o = at / n;
    const int i = at - o * n;
% for j, (ctype, boolean) in enumerate(inputs):
    ${position("x_%d" % j, len(outputs) + j)}
    % if boolean:
    const int v_${j} = x_${j}[x_${j}_at] != 0;
    % else:
    ${stored.load(ctype, compute, "v_%d" % j, "x_%d" % j, "x_%d_at" % j)}
    % endif
% endfor
% for statement in statements:
    ${statement}
% endfor
% for j, ctype in enumerate(outputs):
    ${position("y_%d" % j, j)}
    ${stored.store(ctype, "y_%d" % j, "y_%d_at" % j, results[j])}
% endfor
}
</%def>
