## kernel pointwise_vectors: y_j[i] = expression_j(x_0[i], x_1[i], ...), one vector at a time
##
## math     any expressions of expr/, as in pointwise.mako
## layout   the inner axis is one vector; along the next axis, the run, an operand moves on or stays
##          (a value for each channel of a blocked array, whose innermost axis is a block of
##          channels); what stays is read once for a whole run
## param    statements: tuple[str]    C declarations of temporaries
## param    results: tuple[str]       C text of each output's value
## param    functions: tuple[str]     elementary functions that they call
## param    lanes: int                elements of the inner axis: 4, 8 or 16
## param    outputs: tuple[str]       type in memory of each output: float, half or bfloat16;
##                                    of truth values uchar, and the result is a mask
## param    inputs: tuple[(str, bool, bool)]  the same of each input, whether it moves along the
##                                    run, and whether it does along the inner axis
## param    scalars: int              number of run-time scalars
## param    outer: int                number of axes before the run
## param    stream: bool              outputs go past the caches; they lie at whole vectors
## param    operand: str              name of an output or an input
## param    ctype: str                type of its elements in memory
## % for j, ctype in enumerate(outputs):
## arg      y_{j}: out ctype, may alias
## arg      y_{j}_run: int       its step along the run
## % for a in range(outer):
## arg      y_{j}_step_{a}: int  its step along outer axis a
## % endfor
## % endfor
## % for j, (ctype, moves, wide) in enumerate(inputs):
## arg      x_{j}: in ctype, may alias
## arg      x_{j}_run: int       its step along the run
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
## arg      n: int               elements along the run
## arg      share: int           of these, how many an item takes
## launch   global (n / share, product of size_a), groups of one
## numerics contraction off, no relaxed mathematics: the bits of pointwise.mako
<%namespace name="prelude" file="/lib/prelude.mako"/>
<%namespace name="elementary" file="/lib/elementary.mako"/>
<%namespace name="stored" file="/lib/stored.mako"/>
<%def name="start(operand, outer)">
    ${operand} += ${operand}_offset
% for a in range(outer):
        + (long)o${a} * ${operand}_step_${a}
% endfor
        ;
</%def>
<%def name="register(ctype, lanes)" filter="trim">
${"int" if ctype == "uchar" else "float"}${lanes}
</%def>
<%def name="pointwise_vectors(
    statements, results, functions, lanes, outputs, inputs, scalars, outer, stream)">
#pragma OPENCL FP_CONTRACT OFF
typedef float${lanes} __attribute__((aligned(4))) vector;
% if stream:
${prelude.stream("float", lanes)}
% endif
${prelude.elementwise()}
${elementary.define(functions, "float", lanes)}
${stored.vectors([*outputs, *(ctype for ctype, _, _ in inputs)], lanes)}
${stored.truths([*outputs, *(ctype for ctype, _, _ in inputs)], lanes)}
__kernel void pointwise_vectors(...)
{
    const int from = get_global_id(0) * share, end = min(n, from + share);
% if outer:
    int o = get_global_id(1);
    % for a in range(outer - 1, 0, -1):
    const int o${a} = o % size_${a};
    o /= size_${a};
    % endfor
    const int o0 = o;
% endif
% for j in range(len(results)):
    ${start("y_%d" % j, outer)}
% endfor
% for j, (ctype, moves, wide) in enumerate(inputs):
    ${start("x_%d" % j, outer)}
    % if not moves:
    const ${register(ctype, lanes)} v_${j} = ${stored.read(ctype, f"x_{j}", wide, lanes)};
    % endif
% endfor
    for (int i = from; i < end; i++) {
% for j, (ctype, moves, wide) in enumerate(inputs):
    % if moves:
        const ${register(ctype, lanes)} v_${j} =
            ${stored.read(ctype, f"x_{j} + (long)i * x_{j}_run", wide, lanes)};
    % endif
% endfor
% for statement in statements:
        ${statement}
% endfor
% for j, result in enumerate(results):
    % if stream:
        stream(${result}, (__global float${lanes} *)(y_${j} + (long)i * y_${j}_run));
    % else:
        ${stored.write(outputs[j], f"y_{j} + (long)i * y_{j}_run", result, lanes)}
    % endif
% endfor
    }
}
</%def>
