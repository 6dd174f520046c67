## kernel avg_pool_grad: to each element of a plane its share of the gradients of windows' means
##
## layout _strips: `sh` rows of gx are a step. Of a strip of steps the gradients of windows, each
##        over the elements of its window, come into local memory, with zeros around them where no
##        window is: so rows have no edges, and a vector of windows gives a vector of columns for
##        each phase. What is made waits in local memory, too, where a row may run over its ends,
##        and goes from there to gx in one piece.
##
## param  ctype: str                 type of the elements
## param  real: str                  type they are summed in
## param  include_pad: bool          padding counts in the mean (_strips has it as an argument)
## param  divisor: int               what was divided by instead, or 0 (of _strips an argument)
## param  kh, kw, sh, sw, ph, pw: int  height and width of the window, steps from window to window,
##                                  padding above and before
## param  lanes: int                 elements of a vector
## param  room: int                  elements of local memory
## param  stream: bool               gx goes past the caches; it begins at a line, which a vector
##                                   fills
## param  phase: int                 row of a step
## param  down: int                  windows that begin in different rows and lie over one element
## param  across: int                windows that begin in different columns and lie over one
##                                   element
## param  axis: str                  y or x
## param  o: str                     C expression, the window's number along the axis
## param  k: int                     elements of a window along the axis
## param  s: int                     step from window to window along the axis
## param  p: int                     padding along the axis
## param  size: str                  C expression, elements of the plane along the axis
## def    avg_pool_gradient
## arg    rows: int                 rows of gx
## arg    out_h, out_w, height, width: int
## arg    gx: out ctype[rows][width]
## arg    gy: in ctype
## def    avg_pool_gradient_strips
## arg    planes: int
## arg    planes_each: int          planes of an item
## arg    strip, out_h, out_w: int  steps of a strip
## arg    height, width: int
## arg    include_pad: int
## arg    divisor: int
## arg    gx: out ctype
## arg    gy: in ctype
##
## launch   one item per element; _strips: one item for planes_each, groups of one
## numerics sums in the windows' order; _strips: along rows of windows, then down, each gradient
##          times the reciprocal of its window's height and width first: the same bits every run
<%namespace name="vectors" file="/lib/vector.mako"/>
<%namespace name="plane" file="/lib/plane.mako"/>
<%namespace name="prelude" file="/lib/prelude.mako"/>
<%def name="avg_pool_gradient(ctype, real, include_pad, divisor, kh, kw, sh, sw, ph, pw)">
__kernel void avg_pool_gradient(...)
{
    ${plane.visit(False, "width")}
        const int at_y = row % height;
        __global const ${ctype} *source = gy + gy_offset + row / height * (out_h * out_w);
        const int last_y = min((at_y + ${ph}) / ${sh}, out_h - 1);
        const int last_x = min((column + ${pw}) / ${sw}, out_w - 1);
        ${real} sum = 0;
        for (int oy = max((at_y + ${ph}) / ${sh} - ${(kh - 1) // sh}, 0); oy <= last_y; ++oy)
            for (int ox = max((column + ${pw}) / ${sw} - ${(kw - 1) // sw}, 0); ox <= last_x;
                ++ox) {
            ${plane.share(include_pad, divisor, kh, kw, sh, sw, ph, pw)}
                if (at_y >= top && at_y < bottom && column >= left && column < right)
                    sum += source[oy * out_w + ox] / count;
            }
        gx[gx_offset + row * width + column] = sum;
    }
}
</%def>
<%def name="avg_pool_gradient_strips(
    ctype, kh, kw, sh, sw, ph, pw, lanes, room, stream)">
<% down, across = (kh - 1) // sh + 1, (kw - 1) // sw + 1 %>
${vectors.types(ctype, lanes)}
${vectors.zip(ctype, lanes)}
${prelude.spill(ctype, lanes, stream)}
${prelude.fetch_ahead()}
__kernel void avg_pool_gradient_strips(...)
{
    __local ${ctype} memory[${room}] __attribute__((aligned(64)));
    const int steps_y = (height - 1 + ${ph}) / ${sh} + 1, steps_x = (width - 1 + ${pw}) / ${sw} + 1;
    /* Windows of a row that reach the plane, and a row of their gradients with zeros around. */
    const int windows = min(out_w, steps_x), wide = steps_x + ${across + lanes};
    __local ${ctype} *const shares = memory;
    __local ${ctype} *const grads = memory + wide + ${across - 1};
    __local ${ctype} *const made = memory + wide * (strip + ${down}) + ${pw};
    for (int i = wide; i < wide * (strip + ${down}) + ${pw}; ++i)
        memory[i] = 0;
    for (int ox = 0; ox < windows; ++ox) {
        ${counted("x", "ox", kw, sw, pw, "width")}
        shares[ox] = divisor ? 1 : 1 / (${ctype})count_x;
    }
    const int first = get_global_id(0) * planes_each, last = min(first + planes_each, planes);
    for (int plane = first; plane < last; ++plane)
        for (int from = 0; from < steps_y; from += strip) {
            const int steps = min(strip, steps_y - from);
            for (int r = 0; r < steps + ${down - 1}; ++r) {
                const int oy = from + r - ${down - 1};
                __global const ${ctype} *const source =
                    gy + gy_offset + (plane * out_h + oy) * (long)out_w;
                __local ${ctype} *const to = grads + r * wide;
                if (oy >= 0 && oy < out_h) {
                    ${counted("y", "oy", kh, sh, ph, "height")}
                    const ${ctype} share = 1 / (${ctype})(divisor ? divisor : count_y);
                    if (windows >= ${lanes})
                        for (int at = 0; at < windows; at += ${lanes}) {
                            const int i = min(at, windows - ${lanes});
                            FETCH_AHEAD(source + i + 1024);
                            *(__local vector *)(to + i) =
                                *(__global const vector *)(source
                                + i) * (share * *(__local const vector *)(shares + i));
                        }
                    else
                        for (int i = 0; i < windows; ++i)
                            to[i] = source[i] * (share * shares[i]);
                } else
                    for (int i = 0; i < windows; ++i)
                        to[i] = 0;
            }
            const int begin = max(from * ${sh} - ${ph}, 0),
                end = min((from + steps) * ${sh} - ${ph}, height);
            for (int i = 0; i < steps; ++i) {
                __local const ${ctype} *const over = grads + (i + ${down - 1}) * wide;
% for phase in range(sh):
                {
                    const int row = (from + i) * ${sh} + ${phase - ph};
                    __local ${ctype} *const to = made + (row - begin) * width;
                    if (row >= begin && row < end) {
                        ${made_row(phase, ctype, down, across, kh, kw, sh, sw, pw, lanes)}
                    }
                }
% endfor
            }
            spill(gx + gx_offset, (plane * height + begin) * (long)width, made,
                (end - begin) * width);
        }
}
</%def>
##
## How many elements a window counts along an axis.
<%def name="counted(axis, o, k, s, p, size)">
        const int begin_${axis} = ${o} * ${s} - ${p}, pad_${axis} = include_pad ? ${p} : 0;
        const int count_${axis} =
            min(begin_${axis} + ${k}, ${size} + pad_${axis}) - max(begin_${axis}, -pad_${axis});
</%def>
##
## A row, vectors of steps at a time. It begins with what lies before the plane: there the row
## before ends, so that is put back.
<%def name="made_row(phase, ctype, down, across, kh, kw, sh, sw, pw, lanes)">
% for q in range(pw):
                        const ${ctype} before_${q} = to[${q - pw}];
% endfor
                        for (int x = 0; x < steps_x; x += ${lanes}) {
% for j in range(across):
                            const ${ctype}${lanes} window_${j} = ${(
                                " + ".join(
                                    f"*(__local const vector *)(over - {r} * wide + x - {j})"
                                    for r in range(down) if phase + r * sh < kh) or "0")};
% endfor
% for p in range(sw):
                            const ${ctype}${lanes} step_${p} =
                                ${" + ".join(f"window_{j}" for j in range(across)
                                if p + j * sw < kw) or "0"};
% endfor
% if sw == 1:
                            *(__local vector *)(to + x - ${pw}) = step_0;
% elif sw == 2:
                            *(__local vector *)(to + 2 * x - ${pw}) = zip_lo(step_0, step_1);
                            *(__local vector *)(to + 2 * x + ${lanes - pw}) =
                                zip_hi(step_0, step_1);
% else:
% for p in range(sw):
% for lane in range(lanes):
                            to[x * ${sw} + ${lane * sw + p - pw}] = step_${p}.s${"%x" % lane};
% endfor
% endfor
% endif
                        }
% for q in range(pw):
                        to[${q - pw}] = before_${q};
% endfor
</%def>
