## kernel pointwise: y_j[i] = expression_j(x_0[i], x_1[i], ..., s_0, ...), operands of any strides
##
## math     any expressions of expr/; several outputs share one pass over the inputs
## layout   operands are broadcast and strided; the common axes are collapsed on the host to one
##          inner axis and `outer` others
## param    statements: tuple[str]    C declarations of temporaries
## param    results: tuple[str]       C text of each output's value
## param    functions: tuple[str]     elementary functions of float that they call
## param    compute: str              C type the expressions are computed in
## param    outputs: tuple[(str, str)]  type in memory (of C, or bfloat16) and inner step of each
##                                    output: "unit", "none" or "any"; "flat" where few elements
##                                    lie behind those of the row before
## param    inputs: tuple[(str, str, bool)]  the same of each input, and whether it holds booleans
## param    scalars: int              number of run-time scalars
## param    outer: int                number of outer axes
## param    index: int|long           C type of positions
## param    few: int                  elements along the inner axis, so few that a group has several
##                                    rows; or 0
## param    outside: str              C expression: the item has no element along other axes
## param    operand: str              name of an output or an input
## param    step: str                 its inner step
## % for j, (ctype, step) in enumerate(outputs):
## arg      y_{j}: out ctype, may alias
## % if step == "any":
## arg      y_{j}_inner: index     its inner step
## % endif
## % for a in range(outer):
## arg      y_{j}_step_{a}: index  its step along outer axis a
## % endfor
## % endfor
## % for j, (ctype, step, boolean) in enumerate(inputs):
## arg      x_{j}: in ctype, may alias
## % if step == "any":
## arg      x_{j}_inner: index     its inner step
## % endif
## % for a in range(outer):
## arg      x_{j}_step_{a}: index  its step along outer axis a
## % endfor
## % endfor
## % for a in range(outer):
## arg      size_{a}: index        elements along outer axis a
## % endfor
## % for j in range(scalars):
## arg      s_{j}: compute         scalar j
## % endfor
## arg      n: index               elements along the inner axis
## launch   global (>= n, >= product of size_a); with `few` (>= n times the last size_a, >= product
##          of the others); any local size; no local memory
## numerics contraction off, no relaxed mathematics: fusing expressions does not change a bit
<%namespace name="elementary" file="/lib/elementary.mako"/>
<%namespace name="stored" file="/lib/stored.mako"/>
<%namespace name="prelude" file="/lib/prelude.mako"/>
<%def name="position(operand, step, outer)">
    const long ${operand}_at = ${operand}_offset
% if step == "flat":
        + place
% elif step != "none":
        + i ${"" if step == "unit" else "* %s_inner" % operand}
% endif
% for a in range(outer - (step == "flat")):
        + o${a} * ${operand}_step_${a}
% endfor
        ;
</%def>
<%def name="decode(outer, index, outside)">
    /* One way out: with two PoCL makes no vectors of items. */
% if outer:
    ${index} o = (${index})get_global_id(1);
    % for a in range(outer - 1, 0, -1):
    const ${index} o${a} = o % size_${a};
    o /= size_${a};
    % endfor
    const ${index} o0 = o;
    if (${outside} || o0 >= size_0) return;
% else:
    if (${outside}) return;
% endif
</%def>
<%def name="pointwise(
    statements, results, functions, compute, outputs, inputs, scalars, outer, index, few)">
#pragma OPENCL FP_CONTRACT OFF
${elementary.define(functions, compute, 1)}
% if few:
${prelude.side_by_side()}
SIDE_BY_SIDE
% endif
__kernel void pointwise(...)
{
% if few:
    /* A division by a number that the compiler knows is no obstacle to vectors of items. */
    const int place = get_global_id(0), o${outer - 1} = (uint)place / ${few};
    const int i = place - ${few} * o${outer - 1};
    ${decode(outer - 1, index, f"o{outer - 1} >= size_{outer - 1}")}
% else:
    const ${index} i = (${index})get_global_id(0);
    ${decode(outer, index, "i >= n")}
% endif
% for j, (ctype, step, boolean) in enumerate(inputs):
    ${position("x_%d" % j, step, outer)}
    % if boolean:
    const int v_${j} = x_${j}[x_${j}_at] != 0;
    % else:
    ${stored.load(ctype, compute, "v_%d" % j, "x_%d" % j, "x_%d_at" % j)}
    % endif
% endfor
% for statement in statements:
    ${statement}
% endfor
% for j, (ctype, step) in enumerate(outputs):
    ${position("y_%d" % j, step, outer)}
    ${stored.store(ctype, "y_%d" % j, "y_%d_at" % j, results[j])}
% endfor
}
</%def>
