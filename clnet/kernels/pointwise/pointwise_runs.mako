## kernel pointwise_runs: y_j[i] = expression_j(x_0[i], x_1[i], ...), four elements of an item
##
## math     any expressions of expr/, as in pointwise.mako
## layout   along the inner axis an operand is dense, in aligned runs of four, or stays (a value for
##          each channel); positions of all axes are one range of items, so that short axes leave
##          none of them idle
## param    statements: tuple[str]    C declarations of temporaries
## param    results: tuple[str]       C text of each output's value
## param    functions: tuple[str]     elementary functions that they call
## param    outputs: tuple[str]       type in memory (float, half or bfloat16) of each output
## param    inputs: tuple[(str, bool)]  the same of each input, and whether it moves along the inner
##                                    axis
## param    scalars: int              number of run-time scalars
## param    outer: int                number of axes before the inner one
## param    rows: int                 positions along a single outer axis that an item takes; of
##                                    inputs that stay along it, it reads one
## param    stays: tuple[bool]        whether an input stays along it
## param    row: int                  of an item's
## param    operand: str              name of an output or an input
## % for j, ctype in enumerate(outputs):
## arg      y_{j}: out ctype, may alias
## % for a in range(outer):
## arg      y_{j}_step_{a}: int  its step along outer axis a
## % endfor
## % endfor
## % for j, (ctype, moves) in enumerate(inputs):
## arg      x_{j}: in ctype, may alias
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
## arg      n: int               elements along the inner axis, a multiple of four
## arg      items: int           n / 4 * product of size_a; of several rows, by their number
## launch   global (items rounded up,), any local size
## numerics contraction off, no relaxed mathematics: the bits of pointwise.mako
<%namespace name="elementary" file="/lib/elementary.mako"/>
<%namespace name="stored" file="/lib/stored.mako"/>
<%def name="moved(operand, outer, rows, row)" filter="trim">
% if rows > 1:
(long)(base + ${row} < size_0 ? base + ${row} : base) * ${operand}_step_0
% else:
0
% for a in range(outer):
        + (long)o${a} * ${operand}_step_${a}
% endfor
% endif
</%def>
<%def name="pointwise_runs(
    statements, results, functions, outputs, inputs, scalars, outer, rows, stays)">
#pragma OPENCL FP_CONTRACT OFF
${elementary.define(functions, "float", 1)}
${stored.fours([*outputs, *(ctype for ctype, _ in inputs)])}
__kernel void pointwise_runs(...)
{
    const int item = get_global_id(0);
    if (item >= items) return;
    const int runs = n / 4, i = item % runs * 4;
% if rows > 1:
    const int base = item / runs * ${rows};
% elif outer:
    int o = item / runs;
% for a in range(outer - 1, 0, -1):
    const int o${a} = o % size_${a};
    o /= size_${a};
% endfor
    const int o0 = o;
% endif
% for row in range(rows):
% for j, (ctype, moves) in enumerate(inputs):
% if row == 0 or not stays[j]:
% if not moves:
    const long at_${j}_${row} = x_${j}_offset + ${moved("x_%d" % j, outer, rows, row)};
    ${stored.load(ctype, "float", "run_%d_%d" % (j, row), "x_%d" % j, "at_%d_%d" % (j, row))}
% elif ctype == "float":
    const float4 run_${j}_${row} = *(__global const float4 *)(
        x_${j} + x_${j}_offset + ${moved("x_%d" % j, outer, rows, row)} + i);
% else:
    const float4 run_${j}_${row} = wide_${ctype}(
        x_${j} + x_${j}_offset + ${moved("x_%d" % j, outer, rows, row)} + i);
% endif
% endif
% endfor
% endfor
% for row in range(rows):
    {
    float4 ${", ".join("result_%d" % j for j in range(len(results)))};
% for lane in range(4):
    {
% for j, (ctype, moves) in enumerate(inputs):
        const float v_${j} = run_${j}_${0 if stays[j] else row}${f".s{lane}" if moves else ""};
% endfor
% for statement in statements:
        ${statement}
% endfor
% for j, result in enumerate(results):
        result_${j}.s${lane} = ${result};
% endfor
    }
% endfor
% if rows > 1:
    if (base + ${row} < size_0) {
% endif
% for j, ctype in enumerate(outputs):
% if ctype == "float":
    *(__global float4 *)(
        y_${j} + y_${j}_offset + ${moved("y_%d" % j, outer, rows, row)} + i) = result_${j};
% else:
    store_${ctype}(result_${j},
        y_${j} + y_${j}_offset + ${moved("y_%d" % j, outer, rows, row)} + i);
% endif
% endfor
% if rows > 1:
    }
% endif
    }
% endfor
}
</%def>
