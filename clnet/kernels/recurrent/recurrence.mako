## kernel recurrence: all steps of a recurrent layer in one launch, and the walk back over them
##
## A group owns `rows` examples of one layer and takes all steps of theirs: examples know nothing of
## each other, so that no group waits for another. States and the gates' shares of a step lie in
## local memory; the weights lie there, too, or come through the caches in every step, each read for
## all rows at once. An item may keep the first of its weights in registers: local memory gives a
## unit 32 of them at a time. What an item reads of a step from global memory is on its way before
## the product.
##
## math     forward: share = h @ columns + bias, then the states, by `results` of the gates' shares
##          of the sequence g_<gate>, those of the state s_<gate>, and the state c
## math     backward: `results` of these and of the gradients of each state, a_<state> that arrived
##          and r_<state> that ran back, are the gates' gradients (those of the sequence's shares,
##          then the others' where they differ), and the last state's, which does not run through
##          gates; h's runs back by slopes @ weight, by gates, added to that where h is this state
## param    size: int                 of a state, a multiple of 4
## param    gates: int                of a cell
## param    states: int               of a cell; the first is h
## param    rows: int                 examples of a group
## param    slices: int               parts of a sum, which different items make; of 4 terms each
## param    near: bool                the weights lie in local memory, but for those held
## param    held: int                 terms of an item's sum whose weights are in registers, a
##                                    multiple of 4; not 0: there is an item for each part
## param    group: int                work-items of it
## param    biased: bool              the states' shares have a bias
## param    arrived: tuple[bool]      for each state, whether gradients of it arrived
## param    apart: bool               the shares' gradients differ
## param    statements: tuple[str]    C declarations of temporaries
## param    results: tuple[str]       C text of what is stored
## param    functions: tuple[str]     elementary functions that they call
## param    u: int                    which of an item's elements
## def      recurrence
## arg      steps, n: int
## arg      backwards: int            whether the last step comes first
## arg      x: in float[steps][layers][n][gates * size]
## arg      columns: in float[layers][size][gates * size]
## % if biased:
## arg      bias: in float[layers][gates * size]
## % endif
## % for k in range(states):
## arg      first_{k}: in float[layers][n][size]
## % endfor
## % for k in range(states):
## arg      y_{k}: out float[steps][layers][n][size]
## % endfor
## arg      shares: out float[steps][layers][n][gates * size]
## def      recurrence_backward
## arg      steps, n: int
## arg      backwards: int
## arg      x: in float[steps][layers][n][gates * size]
## arg      weight: in float[layers][gates * size][size]
## arg      shares: in float[steps][layers][n][gates * size]
## arg      first: in float[layers][n][size]         the last of the states
## arg      made: in float[steps][layers][n][size]   of it, too
## % for k in range(sum(arrived)):
## arg      gy_{k}: in float[steps][layers][n][size]
## % endfor
## arg      gx: out float[steps][layers][n][gates * size]
## % if apart:
## arg      gshares: out float[steps][layers][n][gates * size]
## % endif
## % for k in range(states):
## arg      g_{k}: out float[layers][n][size]       of the first states
## % endfor
## launch   (groups of rows * group items, layers), groups of group
## numerics products add in the order of the states, slice by slice (backward: gate by gate)
<%namespace name="elementary" file="/lib/elementary.mako"/>
<%namespace name="lib" file="/lib/step_product.mako"/>
<%def name="recurrence(
    size, gates, states, rows, slices, group, near, held, biased, statements, results,
    functions)">
<% each = -(-rows * size // group) %>
${elementary.define(functions, "float", 1)}
__attribute__((reqd_work_group_size(${group}, 1, 1)))
__kernel void recurrence(...)
{
    __local float h[${rows * size}] __attribute__((aligned(16)));
    __local float parts[${slices * rows * gates * size}] __attribute__((aligned(16)));
    const int item = get_local_id(0), layer = get_group_id(1), layers = get_num_groups(1);
    const int from = get_group_id(0) * ${rows}, count = min(${rows}, n - from) * ${size};
    const long row = (long)layer * n + from, all = (long)layers * n;
    ${lib.staged(size, gates, slices, group, near, held, "columns", True)}
    x += x_offset + row * ${gates * size};
    shares += shares_offset + row * ${gates * size};
% for k in range(states):
    first_${k} += first_${k}_offset + row * ${size};
    y_${k} += y_${k}_offset + row * ${size};
% endfor
    for (int at = item; at < ${rows * size}; at += ${group})
        h[at] = at < count ? first_0[at] : 0;
% for u in range(each):
    const int at_${u} = item + ${u * group}, j_${u} = at_${u} % ${size};
    const int place_${u} = at_${u} / ${size} * ${gates * size} + j_${u};
    float c_${u} = at_${u} < count ? first_${states - 1}[at_${u}] : 0;
% endfor
    for (int number = 0; number < steps; number++) {
        const long step = (backwards ? steps - 1 - number : number) * all;
% for u in range(each):
        float ${", ".join(f"g_{gate}_{u} = 0" for gate in range(gates))};
        if (at_${u} < count) {
% for gate in range(gates):
            g_${gate}_${u} = x[step * ${gates * size} + place_${u} + ${gate * size}];
% endfor
        }
% endfor
        barrier(CLK_LOCAL_MEM_FENCE);
        ${lib.product(size, gates, rows, slices, group, near, held, True)}
        barrier(CLK_LOCAL_MEM_FENCE);
% for u in range(each):
        if (at_${u} < count) {
% for gate in range(gates):
            const float g_${gate} = g_${gate}_${u};
            const float s_${gate} = ${" + ".join(
                "parts[place_%d + %d]" % (u, (p * rows * gates + gate) * size)
                for p in range(slices))}
% if biased:
                + bias[bias_offset + layer * ${gates * size} + ${gate * size} + j_${u}]
% endif
                ;
            shares[step * ${gates * size} + place_${u} + ${gate * size}] = s_${gate};
% endfor
            const float c = c_${u};
% for statement in statements:
            ${statement}
% endfor
            h[at_${u}] = ${results[0]};
            y_0[step * ${size} + at_${u}] = h[at_${u}];
% for k in range(1, states):
            y_${k}[step * ${size} + at_${u}] = ${results[k]};
% endfor
            c_${u} = ${results[-1]};
        }
% endfor
    }
}
</%def>
<%def name="recurrence_backward(
    size, gates, states, rows, slices, group, near, held, arrived, apart, statements, results,
    functions)">
<% each = -(-rows * size // group) %>
${elementary.define(functions, "float", 1)}
__attribute__((reqd_work_group_size(${group}, 1, 1)))
__kernel void recurrence_backward(...)
{
    __local float slopes[${rows * gates * size}] __attribute__((aligned(16)));
    __local float parts[${slices * rows * gates * size}] __attribute__((aligned(16)));
    const int item = get_local_id(0), layer = get_group_id(1), layers = get_num_groups(1);
    const int from = get_group_id(0) * ${rows}, count = min(${rows}, n - from) * ${size};
    const long row = (long)layer * n + from, all = (long)layers * n;
    ${lib.staged(size, gates, slices, group, near, held, "weight", False)}
    x += x_offset + row * ${gates * size};
    shares += shares_offset + row * ${gates * size};
    gx += gx_offset + row * ${gates * size};
% if apart:
    gshares += gshares_offset + row * ${gates * size};
% endif
    first += first_offset + row * ${size};
    made += made_offset + row * ${size};
% for k in range(sum(arrived)):
    gy_${k} += gy_${k}_offset + row * ${size};
% endfor
% for k in range(states):
    g_${k} += g_${k}_offset + row * ${size};
% endfor
    for (int at = item; at < ${rows * gates * size}; at += ${group}) slopes[at] = 0;
    for (int at = item; at < ${slices * rows * gates * size}; at += ${group}) parts[at] = 0;
% for u in range(each):
    const int at_${u} = item + ${u * group};
    const int place_${u} = at_${u} / ${size} * ${gates * size} + at_${u} % ${size};
    float back_${u} = 0;
% endfor
    for (int number = 0; number < steps; number++) {
        const int t = backwards ? number : steps - 1 - number;
        const long step = t * all, before = (backwards ? t + 1 : t - 1) * all;
% for u in range(each):
        float ${", ".join(f"x_{gate}_{u} = 0, s_{gate}_{u} = 0" for gate in range(gates))};
        float ${", ".join(f"a_{k}_{u} = 0" for k in range(states))}, m_${u} = 0;
        if (at_${u} < count) {
% for gate in range(gates):
            x_${gate}_${u} = x[step * ${gates * size} + place_${u} + ${gate * size}];
            s_${gate}_${u} = shares[step * ${gates * size} + place_${u} + ${gate * size}];
% endfor
% for k in range(states):
% if arrived[k]:
            a_${k}_${u} = gy_${sum(arrived[:k])}[step * ${size} + at_${u}];
% endif
% endfor
            m_${u} = number + 1 < steps ? made[before * ${size} + at_${u}] : first[at_${u}];
        }
% endfor
        if (number > 0) {
            ${lib.product(size, gates, rows, slices, group, near, held, False)}
        }
        barrier(CLK_LOCAL_MEM_FENCE);
% for u in range(each):
        if (at_${u} < count) {
% for gate in range(gates):
            const float g_${gate}_ = x_${gate}_${u}, s_${gate}_ = s_${gate}_${u};
% endfor
            const float c_ = m_${u};
% for k in range(states):
            const float a_${k}_ = a_${k}_${u};
% endfor
            ${run_back(size, gates, states, rows, slices, u)}
% if states > 1:
            const float r_1_ = back_${u};
% endif
% for statement in statements:
            ${statement}
% endfor
% for gate in range(gates):
            gx[step * ${gates * size} + place_${u} + ${gate * size}] = ${results[gate]};
            slopes[place_${u} + ${gate * size}] = ${results[gates * apart + gate]};
% if apart:
            gshares[step * ${gates * size} + place_${u} + ${gate * size}] =
                slopes[place_${u} + ${gate * size}];
% endif
% endfor
            back_${u} = ${results[-1]};
        }
% endfor
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    ${lib.product(size, gates, rows, slices, group, near, held, False)}
    barrier(CLK_LOCAL_MEM_FENCE);
% for u in range(each):
    if (at_${u} < count) {
        ${run_back(size, gates, states, rows, slices, u)}
        g_0[at_${u}] = r_0_;
% if states > 1:
        g_1[at_${u}] = back_${u};
% endif
    }
% endfor
}
</%def>
##
## The gradient that has run back to h so far.
<%def name="run_back(size, gates, states, rows, slices, u)">
            const float r_0_ = ${"back_%d + " % u if states == 1 else ""}${" + ".join(
                "parts[place_%d + %d]" % (u, (p // gates * rows * gates + p % gates) * size)
                for p in range(slices * gates))};
</%def>
