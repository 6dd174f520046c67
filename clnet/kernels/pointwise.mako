## kernel pointwise: y_j[i] = expression_j(x_0[i], x_1[i], ..., s_0, ...), for broadcast and strided operands
##
## math     any expressions of expr/; several outputs share one pass over the inputs
## layout   the common axes are collapsed on the host to one inner axis and `outer` others
## param    statements: tuple[str]    C declarations of temporaries
## param    results: tuple[str]       C text of each output's value
## param    compute: str              C type the expressions are computed in
## param    outputs: tuple[(str, str)]  type in memory (of C, or bfloat16) and inner step of each output:
##                                    "unit", "none" or "any"
## param    inputs: tuple[(str, str, bool)]  the same of each input, and whether it holds booleans
## param    scalars: int              number of run-time scalars
## param    outer: int                number of outer axes
## param    index: int|long           C type of positions
## arg      y_j: out array j
## arg      y_j_inner: its inner step, present when it is "any"
## arg      y_j_step_a: its step along outer axis a
## arg      x_j: in array j
## arg      x_j_inner: its inner step, present when it is "any"
## arg      x_j_step_a: its step along outer axis a
## arg      n: elements along the inner axis
## arg      size_a: elements along outer axis a
## arg      s_j: scalar j
## launch   global (>= n, >= product of size_a); any local size; no local memory
## numerics contraction off, no relaxed mathematics: fusing expressions does not change a bit
<%namespace name="stored" file="lib/stored.mako"/>
<%def name="position(operand, step, outer)">
    const long ${operand}_at = ${operand}_offset
% if step != "none":
        + i ${"" if step == "unit" else "* %s_inner" % operand}
% endif
% for a in range(outer):
        + o${a} * ${operand}_step_${a}
% endfor
        ;
</%def>
<%def name="operand(name, ctype, step, outer, index, qualifier)">
    __global ${qualifier}${'ushort' if ctype == 'bfloat16' else ctype} *${name}, const long ${name}_offset,
% if step == "any":
    const ${index} ${name}_inner,
% endif
% for a in range(outer):
    const ${index} ${name}_step_${a},
% endfor
</%def>
<%def name="pointwise(statements, results, compute, outputs, inputs, scalars, outer, index)">
#pragma OPENCL FP_CONTRACT OFF
__kernel void pointwise(
% for j, (ctype, step) in enumerate(outputs):
    ${operand("y_%d" % j, ctype, step, outer, index, "")}
% endfor
% for j, (ctype, step, boolean) in enumerate(inputs):
    ${operand("x_%d" % j, ctype, step, outer, index, "const ")}
% endfor
% for a in range(outer):
    const ${index} size_${a},
% endfor
% for j in range(scalars):
    const ${compute} s_${j},
% endfor
    const ${index} n)
{
    const ${index} i = (${index})get_global_id(0);
% if outer:
    ${index} o = (${index})get_global_id(1);
    % for a in range(outer - 1, 0, -1):
    const ${index} o${a} = o % size_${a};
    o /= size_${a};
    % endfor
    const ${index} o0 = o;
    if (i >= n || o0 >= size_0) return;
% else:
    if (i >= n) return;
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
