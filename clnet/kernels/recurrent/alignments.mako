## kernel alignments: all ways through the states of a sequence, step by step
##
## The states of connectionist temporal classification (Graves et al. 2006, section 4.1) stand in a
## row, blanks between classes: blank 0, class 0, blank 1 ... A way stays, goes on by one, or skips
## a blank between classes that differ. In each step it emits what belongs to its state. Blanks and
## classes lie apart, so that neighbours are lanes of a vector.
##
## math     alpha[t, s] = log(sum over s' of exp(alpha[t-1, s'])) + what s emits, s' from which a
##          way leads to s; at first blank 0 and class 0 are open
## param    ctype: str                 float or double
## param    group: int                 work-items of a sequence
## param    lanes: int                 of a vector; 1 in groups
## param    never: float               stands for log(0)
## param    check: bool                a target that is no class is reported
## param    wide: int                  lanes of a function
## param    at: str                    C expression, the place of the first lane
## param    left: str                  C expression, states of the class before
## arg      steps, n, size, classes, blank: int
## def      alignments
## arg      losses: out ctype[n], may alias  minus the logarithm of what all ways amount to
## arg      alpha: inout ctype[steps][n][2][size + 1], may alias  of blanks and of classes
## arg      codes: inout int[n][size], may alias  classes twice, and 1 if the blank may be skipped
## arg      targets: in long[n][size]
## def      alignments_backward
## arg      out: inout ctype[steps][n][2][size + 1], may alias  the gradient to what is emitted
## arg      g: in ctype[n]             that of the losses
## def      alignments_classes
## arg      out: inout ctype[steps][n][classes]  zeros; the gradients of states are added
## arg      states: in ctype[steps][n][2][size + 1]
## def      alignments_backward
## arg      alpha: in ctype[steps][n][2][size + 1]
## def      alignments_backward, alignments_classes
## arg      codes: in int[n][size]
## def      alignments, alignments_backward
## arg      emitted: in ctype[steps][n][classes]
## def      all
## arg      input_lengths: in long[n]  steps of a sequence
## arg      target_lengths: in long[n]
## def      alignments
## % if check:
## arg      fault: inout int, may alias  where to report
## arg      site: int                  its number
## % endif
## launch   a group a sequence; alignments_classes: an item a step of a sequence
## numerics the largest of the three is subtracted; what is below `never` is `never`, and has no
##          gradient. A class's gradient is added up in the order of states
<%namespace name="elementary" file="/lib/elementary.mako"/>
<%namespace name="faults" file="/lib/fault.mako"/>
<%def name="begin(group)">
    const int which = get_group_id(0), item = get_local_id(0);
    const int end = (int)clamp(input_lengths[input_lengths_offset + which], 0l, (long)steps);
    const int most = (int)clamp(target_lengths[target_lengths_offset + which], 0l, (long)size);
    const long states = (long)n * 2 * (size + 1), row = (long)n * classes;
    const long first = (long)which * 2 * (size + 1);
    emitted += emitted_offset + (long)which * classes;
    codes += codes_offset + (long)which * size;
</%def>
##
## What both directions compute of some states: `joined` adds ways, `share` is a state's part of
## one that it leads to, whose gradient is `g`, and `picked` what classes emit.
<%def name="define(ctype, lanes, never)">
% for wide in sorted({1, lanes}):
<%
    real = ctype if wide == 1 else f"{ctype}{wide}"
    whole = "int" if wide == 1 else f"int{wide}"
    suffix = wide if wide > 1 else ""
    exp, log = ("exp", "log") if ctype == "double" else (f"clnet_exp{suffix}", f"clnet_log{suffix}")
%>
${elementary.define(("exp", "log"), ctype, wide)}
inline ${real} joined${wide}(const ${real} a, const ${real} b, const ${real} c, const ${real} emits)
{
    ${real} top = a > b ? a : b;
    top = top > c ? top : c;
    const ${real} sum = ${exp}(a - top) + ${exp}(b - top) + ${exp}(c - top);
    const ${real} found = top + ${log}(sum) + emits;
    return found < (${real})(${never}) ? (${real})(${never}) : found;
}
inline ${real} both${wide}(const ${real} a, const ${real} b, const ${real} emits)
{
    const ${real} top = a > b ? a : b;
    const ${real} found = top + ${log}(${exp}(a - top) + ${exp}(b - top)) + emits;
    return found < (${real})(${never}) ? (${real})(${never}) : found;
}
inline ${real} share${wide}(
    const ${real} from, const ${real} to, const ${real} emits, const ${real} g)
{
    return to <= (${real})(${never / 2}) ? (${real})(0) : g * ${exp}(from - (to - emits));
}
inline ${real} picked${wide}(__global const ${ctype} *from, const ${whole} code)
{
% if wide == 1:
    return from[code >> 1];
% else:
    return (${real})(${", ".join(f"from[code.s{lane:x} >> 1]" for lane in range(wide))});
% endif
}
% endfor
</%def>
<%def name="load(wide, at)">${f"*({at})" if wide == 1 else f"vload{wide}(0, {at})"}</%def>
<%def name="onward(wide, at, ctype, never, left)">
        {
<% real = ctype if wide == 1 else f"{ctype}{wide}" %>
            const ${"int" if wide == 1 else f"int{wide}"} code = ${load(wide, f"codes + {at}")};
            const ${real} blank_before = ${load(wide, f"before + {at}")};
            const ${real} class_before = ${load(wide, f"before + size + 1 + {at}")};
            const ${real} left = ${left};
            const ${real} skipped = (code & 1) != 0 ? left : (${real})(${never});
            const ${real} to_blank = both${wide}(blank_before, left, emits);
            const ${real} to_class = joined${wide}(
                class_before, blank_before, skipped, picked${wide}(emitted, code));
% if wide == 1:
            alpha[${at}] = to_blank;
            alpha[size + 1 + ${at}] = to_class;
% else:
            vstore${wide}(to_blank, 0, alpha + ${at});
            vstore${wide}(to_class, 0, alpha + size + 1 + ${at});
% endif
        }
</%def>
<%def name="alignments(ctype, group, lanes, never, check)">
typedef ${ctype} real;
${faults.define(check)}
${define(ctype, lanes, never)}
__kernel void alignments(...)
{
    ${begin(group)}
    alpha += alpha_offset + first;
    targets += targets_offset + (long)which * size;
    for (int j = item; j < size; j += ${group}) {
        const long at = j < most ? targets[j] : blank, limit = classes;
        const bool inside = at >= 0 && at < limit;
        ${faults.index(check, False, "(long)which * size + j", "true")}
        codes[j] = (inside ? (int)at : 0) << 1
            | (inside && j > 0 && at != blank && at != targets[j - 1]);
    }
    barrier(CLK_GLOBAL_MEM_FENCE);
    for (int j = item; j <= most; j += ${group}) {
        const real open = emitted[j < most ? codes[j] >> 1 : blank], closed = ${never};
        alpha[j] = j == 0 ? fmax(emitted[blank], closed) : closed;
        alpha[size + 1 + j] = j == 0 && j < most ? fmax(open, closed) : closed;
    }
    for (int t = 1; t < end; ++t) {
        barrier(CLK_GLOBAL_MEM_FENCE);
        __global const real *const before = alpha;
        alpha += states;
        emitted += row;
        const real emits = emitted[blank];
% if group > 1:
        for (int j = item; j < most; j += ${group})
            ${onward(1, "j", ctype, never, f"j > 0 ? before[size + j] : ({ctype}){never}")}
        if (item == most % ${group})
            alpha[most] = both1(
                before[most], most > 0 ? before[size + most] : (real)${never}, emits);
% else:
        if (most > 0)
            ${onward(1, "0", ctype, never, f"({ctype}){never}")}
        int j = 1;
% if lanes > 1:
        if (most > ${lanes}) /* the last vector may compute again what the one before did */
            for (; j < most; j += ${lanes}) {
                const int k = min(j, most - ${lanes});
                ${onward(lanes, "k", ctype, never, f"vload{lanes}(0, before + size + k)")}
            }
% endif
        for (; j < most; ++j)
            ${onward(1, "j", ctype, never, "before[size + j]")}
        alpha[most] = both1(before[most], most > 0 ? before[size + most] : (real)${never}, emits);
% endif
    }
    barrier(CLK_GLOBAL_MEM_FENCE);
    if (item == 0) /* of no steps: certain where no class is */
        losses[losses_offset + which] = end == 0 ? (most == 0 ? 0 : -(real)${never})
            : -both1(alpha[most], most > 0 ? alpha[size + most] : (real)${never}, 0);
}
</%def>
<%def name="backward(wide, at, ctype)">
            {
<% real = ctype if wide == 1 else f"{ctype}{wide}" %>
                const ${"int" if wide == 1 else f"int{wide}"} code = ${load(wide, f"codes + {at}")};
                const ${real} from_blank = ${load(wide, f"from + {at}")};
                const ${real} from_class = ${load(wide, f"from + classed + {at}")};
                const ${real} to_blank = ${load(wide, f"to + {at}")};
                const ${real} to_class = ${load(wide, f"to + classed + {at}")};
                const ${real} to_next = ${load(wide, f"to + 1 + {at}")};
                const ${real} g_class = ${load(wide, f"above + classed + {at}")};
                const ${real} emits_class = picked${wide}(emits, code);
                ${real} of_class = share${wide}(from_class, to_class, emits_class, g_class)
                    + share${wide}(from_class, to_next, emits[blank],
                                   ${load(wide, f"above + 1 + {at}")});
                const ${real} of_blank = share${wide}(from_blank, to_blank, emits[blank],
                                                      ${load(wide, f"above + {at}")})
                    + share${wide}(from_blank, to_class, emits_class, g_class);
% if wide > 1:
                const int${wide} next = ${load(wide, f"codes + 1 + {at}")};
                const ${real} skipped = share${wide}(
                    from_class, ${load(wide, f"to + classed + 1 + {at}")},
                    picked${wide}(emits, next), ${load(wide, f"above + classed + 1 + {at}")});
                of_class += (next & 1) != 0 ? skipped : (${real})(0);
                vstore${wide}(of_blank, 0, here + ${at});
                vstore${wide}(of_class, 0, here + classed + ${at});
% else:
                if (${at} + 1 < most && (codes[${at} + 1] & 1))
                    of_class += share1(from_class, to[classed + 1 + ${at}],
                                       picked1(emits, codes[${at} + 1]),
                                       above[classed + 1 + ${at}]);
                here[${at}] = of_blank;
                here[classed + ${at}] = of_class;
% endif
            }
</%def>
<%def name="alignments_backward(ctype, group, lanes, never)">
typedef ${ctype} real;
${define(ctype, lanes, never)}
__kernel void alignments_backward(...)
{
    ${begin(group)}
    const int classed = size + 1;
    out += out_offset + first;
    alpha += alpha_offset + first;
    for (int t = end - 1; t >= 0; --t) {
        __global real *const here = out + t * states;
        __global const real *const from = alpha + t * states;
        if (t == end - 1) {
            const real by_blank = from[most], g_here = -g[g_offset + which];
            const real by_class = most > 0 ? from[size + most] : (real)${never};
            const real all = both1(by_blank, by_class, 0);
            for (int j = item; j <= most; j += ${group}) {
                here[j] = j == most ? share1(by_blank, all, 0, g_here) : 0;
                here[classed + j] = j == most - 1 ? share1(by_class, all, 0, g_here) : 0;
            }
        } else {
            __global const real *const above = here + states, *const to = from + states;
            __global const real *const emits = emitted + (t + 1) * row;
            int j = item;
% if lanes > 1:
            if (most > ${lanes}) /* the last vector may compute again what the one before did */
                for (; j < most - 1; j += ${lanes}) {
                    const int k = min(j, most - 1 - ${lanes});
                    ${backward(lanes, "k", ctype)}
                }
            j = min(j, max(most - 1, 0));
% endif
            for (; j < most; j += ${group})
                ${backward(1, "j", ctype)}
            if (item == most % ${group})
                here[most] = share1(from[most], to[most], emits[blank], above[most]);
        }
        barrier(CLK_GLOBAL_MEM_FENCE);
    }
}
</%def>
<%def name="alignments_classes(ctype)">
__kernel void alignments_classes(...)
{
    const int i = get_global_id(0), which = i % n;
    if (i >= steps * n || i / n >= input_lengths[input_lengths_offset + which])
        return;
    const int most = (int)clamp(target_lengths[target_lengths_offset + which], 0l, (long)size);
    out += out_offset + (long)i * classes;
    states += states_offset + (long)i * 2 * (size + 1);
    codes += codes_offset + (long)which * size;
    ${ctype} sum = states[0];
    for (int j = 0; j < most; ++j) {
        out[codes[j] >> 1] += states[size + 1 + j];
        sum += states[j + 1];
    }
    out[blank] += sum;
}
</%def>
