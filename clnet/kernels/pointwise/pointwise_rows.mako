## kernel pointwise_rows: y_j[i] = expression_j(x_0[i], x_1[i], ...), rows of any length in vectors
##
## math     any expressions of expr/, as in pointwise.mako
## layout   along the inner axis operands are dense or move by steps, and inputs may stay; the end
##          of a row that fills no vector is computed as one, of which some lanes are stored
## param    statements: tuple[str]    C declarations of temporaries
## param    results: tuple[str]       C text of each output's value
## param    functions: tuple[str]     elementary functions that they call
## param    lanes: int                elements of a vector: 4, 8 or 16
## param    outputs: tuple[(str, str)]  type in memory (float, half or bfloat16) of each output, and
##                                    its inner step: "unit" or "any"
## param    inputs: tuple[(str, str)]  the same of each input, whose step may be "none", too
## param    scalars: int              number of run-time scalars
## param    outer: int                number of outer axes
## param    ragged: bool              the row, and so an item's share, may end within a vector
## param    operand: str              name of an output or an input
## param    ctype: str                its type in memory
## % for j, (ctype, step) in enumerate(outputs):
## arg      y_{j}: out ctype, may alias
## % if step == "any":
## arg      y_{j}_inner: int     its inner step
## % endif
## % for a in range(outer):
## arg      y_{j}_step_{a}: int  its step along outer axis a
## % endfor
## % endfor
## % for j, (ctype, step) in enumerate(inputs):
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
## arg      s_{j}: float         scalar j
## % endfor
## arg      n: int               elements along the inner axis
## arg      share: int           of these, how many an item takes; whole vectors
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
</%def>
##
## A vector of which some lanes are there, each a step further.
<%def name="some(ctype, lanes)">
<% bits = "float" if ctype == "float" else "ushort" %>
inline float${lanes} some_${ctype}(
    __global const ${pointed(ctype)} *from, const int step, const int lanes)
{
    __global const ${bits} *x = (__global const ${bits} *)from;
    ${bits}${lanes} v = 0;
% for lane in range(lanes):
    if (lanes > ${lane}) v.s${"%x" % lane} = x[(long)step * ${lane}];
% endfor
    return ${"v" if ctype == "float" else f"widened_{ctype}(v)"};
}
</%def>
##
## Some lanes are stored, each a step further.
<%def name="keep(ctype, lanes)">
<% bits = "float" if ctype == "float" else "ushort" %>
inline void keep_${ctype}(
    __global ${pointed(ctype)} *to, const float${lanes} x, const int step, const int lanes)
{
    __global ${bits} *y = (__global ${bits} *)to;
    const ${bits}${lanes} v = ${"x" if ctype == "float" else f"narrowed_{ctype}(x)"};
% for lane in range(lanes):
    if (lanes > ${lane}) y[(long)step * ${lane}] = v.s${"%x" % lane};
% endfor
}
</%def>
<%def name="pointed(ctype)" filter="trim">
${"ushort" if ctype == "bfloat16" else ctype}
</%def>
<%def name="pointwise_rows(
    statements, results, functions, lanes, outputs, inputs, scalars, outer, ragged)">
#pragma OPENCL FP_CONTRACT OFF
typedef float${lanes} __attribute__((aligned(4))) vector;
${prelude.elementwise()}
${elementary.define(functions, "float", lanes)}
${stored.vectors([ctype for ctype, _ in (*outputs, *inputs)], lanes)}
% for ctype in ("float", "half", "bfloat16"):
% if any(own == ctype and (step == "any" or ragged and step == "unit") for own, step in inputs):
${some(ctype, lanes)}
% endif
% endfor
% for ctype in sorted({ctype for ctype, step in outputs if ragged or step == "any"}):
${keep(ctype, lanes)}
% endfor
__kernel void pointwise_rows(...)
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
% for j in range(len(results)):
        __global ${pointed(outputs[j][0])} *to_${j} = ${start("y_%d" % j, outer)};
% endfor
% for j, (ctype, step) in enumerate(inputs):
        __global const ${pointed(ctype)} *from_${j} = ${start("x_%d" % j, outer)};
    % if step == "none":
        const float${lanes} v_${j} = ${stored.read(ctype, f"from_{j}", False, lanes)};
    % endif
% endfor
        for (int i = from; i < end; i += ${lanes}) {
% if ragged:
            const int left = end - i < ${lanes} ? end - i : ${lanes};
% else:
    % if any(step == "any" for _, step in (*outputs, *inputs)):
            const int left = ${lanes};
    % endif
% endif
% for j, (ctype, step) in enumerate(inputs):
    % if step == "unit":
        % if ragged:
            const float${lanes} v_${j} = left == ${lanes}
                ? ${stored.read(ctype, f"from_{j} + i", True, lanes)}
                : some_${ctype}(from_${j} + i, 1, left);
        % else:
            const float${lanes} v_${j} = ${stored.read(ctype, f"from_{j} + i", True, lanes)};
        % endif
    % elif step == "any":
            const float${lanes} v_${j} =
                some_${ctype}(from_${j} + (long)i * x_${j}_inner, x_${j}_inner, left);
    % endif
% endfor
% for statement in statements:
            ${statement}
% endfor
% for j, result in enumerate(results):
            const float${lanes} found_${j} = ${result};
% endfor
% for j, (ctype, step) in enumerate(outputs):
    % if step == "any":
            keep_${ctype}(to_${j} + (long)i * y_${j}_inner, found_${j}, y_${j}_inner, left);
    % else:
        % if ragged:
            if (left < ${lanes}) keep_${ctype}(to_${j} + i, found_${j}, 1, left); else
        % endif
            ${stored.write(ctype, f"to_{j} + i", f"found_{j}", lanes)}
    % endif
% endfor
        }
    }
}
</%def>
