## kernel pointwise_lines: y_j[i] = expression_j(x_0[i], x_1[i], ...), a loop along rows of any type
##
## math     any expressions of expr/, as in pointwise.mako
## layout   along the inner axis operands are dense or move by steps, and inputs may stay
## param    statements: tuple[str]    C declarations of temporaries
## param    results: tuple[str]       C text of each output's value
## param    functions: tuple[str]     elementary functions of float that they call
## param    compute: str              C type the expressions are computed in
## param    outputs: tuple[(str, str)]  type in memory (of C, or bfloat16) and inner step of each
##                                    output: "unit" or "any"
## param    inputs: tuple[(str, str, bool)]  the same of each input, whose step may be "none", too,
##                                    and whether it holds booleans
## param    scalars: int              number of run-time scalars
## param    outer: int                number of outer axes
## param    operand: str              name of an output or an input
## param    step: str                 its inner step
## param    j: int                    number of an input
## param    ctype: str                type of its elements in memory
## param    boolean: bool             whether it holds booleans
## % for j, (ctype, step) in enumerate(outputs):
## arg      y_{j}: out ctype, may alias
## % if step == "any":
## arg      y_{j}_inner: int     its inner step
## % endif
## % for a in range(outer):
## arg      y_{j}_step_{a}: int  its step along outer axis a
## % endfor
## % endfor
## % for j, (ctype, step, boolean) in enumerate(inputs):
## arg      x_{j}: in ctype, may alias
## % if step == "any":
## arg      x_{j}_inner: int     its inner step
## % endif
## % for a in range(outer):
## arg      x_{j}_step_{a}: int  its step along outer axis a
## % endfor
## % endfor
## % for a in range(outer):
## arg      size_{a}: int        elements along outer axis a
## % endfor
## % for j in range(scalars):
## arg      s_{j}: compute       scalar j
## % endfor
## arg      n: int               elements along the inner axis
## arg      share: int           of these, how many an item takes
## arg      count: int           rows: product of size_a
## arg      rows: int            of these, how many an item takes
## launch   global (n / share, count / rows), groups of one
## numerics contraction off, no relaxed mathematics: the bits of pointwise.mako
<%namespace name="elementary" file="/lib/elementary.mako"/>
<%namespace name="stored" file="/lib/stored.mako"/>
<%namespace name="prelude" file="/lib/prelude.mako"/>
<%def name="start(operand, outer)">
        ${operand} + ${operand}_offset
% for a in range(outer):
            + (long)o${a} * ${operand}_step_${a}
% endfor
            ;
</%def>
<%def name="read(j, ctype, step, boolean, compute)">
<% place = {"unit": "i", "none": "0"}.get(step, f"(long)i * x_{j}_inner") %>
% if boolean:
        const int v_${j} = from_${j}[${place}] != 0;
% else:
        ${stored.load(ctype, compute, f"v_{j}", f"from_{j}", place)}
% endif
</%def>
<%def name="pointwise_lines(
    statements, results, functions, compute, outputs, inputs, scalars, outer)">
#pragma OPENCL FP_CONTRACT OFF
${prelude.elementwise()}
${elementary.define(functions, compute, 1)}
${prelude.in_lanes()}
__kernel void pointwise_lines(...)
{
    const int from = get_global_id(0) * share, end = min(n, from + share);
    const int first = get_global_id(1) * rows, last = min(count, first + rows);
    for (int row = first; row < last; row++) {
% if outer:
        int o = row;
    % for a in range(outer - 1, 0, -1):
        const int o${a} = o % size_${a};
        o /= size_${a};
    % endfor
        const int o0 = o;
% endif
% for j, (ctype, step) in enumerate(outputs):
        __global ${stored.memory(ctype)} *to_${j} = ${start("y_%d" % j, outer)}
% endfor
% for j, (ctype, step, boolean) in enumerate(inputs):
        __global const ${stored.memory(ctype)} *from_${j} = ${start("x_%d" % j, outer)}
    % if step == "none":
        ${read(j, ctype, step, boolean, compute)}
    % endif
% endfor
        /* Elements are independent: each is read before it is written, and no other is it. */
        IN_LANES
        for (int i = from; i < end; ++i) {
% for j, (ctype, step, boolean) in enumerate(inputs):
    % if step != "none":
        ${read(j, ctype, step, boolean, compute)}
    % endif
% endfor
% for statement in statements:
            ${statement}
% endfor
% for j, (ctype, step) in enumerate(outputs):
            ${stored.store(ctype, f"to_{j}", "i" if step == "unit" else f"(long)i * y_{j}_inner",
                results[j])}
% endfor
        }
    }
}
</%def>
