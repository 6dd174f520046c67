## kernel recurrence_step: a step of a recurrent layer in one launch, and a step of the walk back
##
## A group owns `rows` examples of one layer and `columns` elements of their states, with all gates.
## Its items make the product (lib/step_tiles.mako); then each finishes some elements.
##
## math     forward: share = h @ columns + bias, then the states, as recurrence.mako says
## math     backward: h's gradient = slopes @ weight, of the step behind, and what ran back past the
##          gates where h is the only state; then this step's gates', as recurrence.mako says
## param    size: int                 of a state, a multiple of 4
## param    gates: int                of a cell
## param    states: int               of a cell; the first is h
## param    rows: int                 examples of a group
## param    columns: int              elements of a state that a group makes, a multiple of 4
## param    down, across: int         rows and columns of an item's sums, of each gate forward
## param    slices: int               items that share a sum, a power of two above 1
## param    chunk: int                terms of a tile, four times the slices or a multiple
## param    ahead: int                tiles that are on their way while one is multiplied
## param    group: int                work-items of a group: rows * columns / down / across * slices
## param    room: int                 elements of local memory
## param    patches: bool             see lib/step_tiles.mako
## param    aligned: bool             arrays begin at multiples of four elements
## param    biased: bool              the states' shares have a bias
## param    arrived: tuple[bool]      for each state, whether gradients of it arrived
## param    apart: bool               the shares' gradients differ
## param    statements: tuple[str]    C declarations of temporaries
## param    results: tuple[str]       C text of what is stored
## param    functions: tuple[str]     elementary functions that they call
## def      recurrence_step
## arg      n: int
## arg      x: in float[layers][n][gates * size]
## arg      columns: in float[layers][size][gates * size]
## % if biased:
## arg      bias: in float[layers][gates * size]
## % endif
## % for k in range(states):
## arg      last_{k}: in float[layers][n][size]
## % endfor
## % for k in range(states):
## arg      y_{k}: out float[layers][n][size]
## % endfor
## arg      shares: out float[layers][n][gates * size]
## def      recurrence_step_backward
## arg      n: int
## arg      slopes: in float[layers][n][gates * size]   the states' shares' of the step behind
## arg      weight: in float[layers][gates * size][size]
## arg      x: in float[layers][n][gates * size]
## arg      shares: in float[layers][n][gates * size]
## arg      before: in float[layers][n][size]           the last of the states that this step read
## % for k in range(sum(arrived)):
## arg      gy_{k}: in float[layers][n][size]
## % endfor
## arg      back: inout float[layers][n][size]          its gradient that does not run through gates
## arg      gx: out float[layers][n][gates * size]
## % if apart:
## arg      gshares: out float[layers][n][gates * size]
## % endif
## launch   (groups of rows * group items, groups of columns, layers), groups of group
## numerics terms of a slice add in their order, tile after tile; then those of slice s and of slice
##          s + slices / 2, and these sums in order
<%namespace name="elementary" file="/lib/elementary.mako"/>
<%namespace name="tiles" file="/lib/step_tiles.mako"/>
<%def name="recurrence_step(
    size, gates, states, rows, columns, down, across, slices, chunk, ahead, group, room,
    patches, aligned,
    biased, statements, results, functions)">
<% each = -(-rows * columns // group) %>
${elementary.define(functions, "float", 1)}
__attribute__((reqd_work_group_size(${group}, 1, 1)))
__kernel void recurrence_step(...)
{
    ${tiles.begin(rows, columns, room)}
    x += x_offset + row * ${gates * size};
    shares += shares_offset + row * ${gates * size};
% for k in range(states):
    last_${k} += last_${k}_offset + row * ${size};
    y_${k} += y_${k}_offset + row * ${size};
% endfor
    __global const float *const a = last_0;
    __global const float *const b = columns + columns_offset + (long)layer * ${gates * size * size};
% for u in range(each):
    ${tiles.place(size, gates, rows, columns, group, u)}
    float c_${u} = 0, ${", ".join(f"g_{gate}_{u} = 0" for gate in range(gates))};
    if (inside_${u}) {
        c_${u} = last_${states - 1}[own_${u}];
% for gate in range(gates):
        g_${gate}_${u} = x[gate_${u} + ${gate * size}];
% endfor
    }
% endfor
    ${tiles.product(size, rows, columns, down, across, slices, chunk, ahead, group, patches,
        aligned, size, gates)}
% for u in range(each):
    if (inside_${u}) {
        const float c = c_${u};
% for gate in range(gates):
        const float g_${gate} = g_${gate}_${u};
        const float s_${gate} = ${tiles.whole(rows, columns, slices, gates, gate, u)}
% if biased:
            + bias[bias_offset + layer * ${gates * size} + ${gate * size} + column_${u}]
% endif
            ;
        shares[gate_${u} + ${gate * size}] = s_${gate};
% endfor
% for statement in statements:
        ${statement}
% endfor
% for k in range(states):
        y_${k}[own_${u}] = ${results[k]};
% endfor
    }
% endfor
}
</%def>
<%def name="recurrence_step_backward(
    size, gates, states, rows, columns, down, across, slices, chunk, ahead, group, room,
    patches, aligned,
    arrived, apart, statements, results, functions)">
<% each = -(-rows * columns // group) %>
${elementary.define(functions, "float", 1)}
__attribute__((reqd_work_group_size(${group}, 1, 1)))
__kernel void recurrence_step_backward(...)
{
    ${tiles.begin(rows, columns, room)}
    x += x_offset + row * ${gates * size};
    shares += shares_offset + row * ${gates * size};
    gx += gx_offset + row * ${gates * size};
% if apart:
    gshares += gshares_offset + row * ${gates * size};
% endif
    before += before_offset + row * ${size};
    back += back_offset + row * ${size};
% for k in range(sum(arrived)):
    gy_${k} += gy_${k}_offset + row * ${size};
% endfor
    __global const float *const a = slopes + slopes_offset + row * ${gates * size};
    __global const float *const b = weight + weight_offset + (long)layer * ${gates * size * size};
% for u in range(each):
    ${tiles.place(size, gates, rows, columns, group, u)}
    float back_${u} = 0, before_${u} = 0;
    float ${", ".join(f"x_{gate}_{u} = 0, s_{gate}_{u} = 0" for gate in range(gates))};
    float ${", ".join(f"arrived_{k}_{u} = 0" for k in range(states))};
    if (inside_${u}) {
        back_${u} = back[own_${u}];
        before_${u} = before[own_${u}];
% for gate in range(gates):
        x_${gate}_${u} = x[gate_${u} + ${gate * size}];
        s_${gate}_${u} = shares[gate_${u} + ${gate * size}];
% endfor
% for k in range(states):
% if arrived[k]:
        arrived_${k}_${u} = gy_${sum(arrived[:k])}[own_${u}];
% endif
% endfor
    }
% endfor
    ${tiles.product(size, rows, columns, down, across, slices, chunk, ahead, group, patches,
        aligned, gates * size, 1)}
% for u in range(each):
    if (inside_${u}) {
% for gate in range(gates):
        const float g_${gate}_ = x_${gate}_${u}, s_${gate}_ = s_${gate}_${u};
% endfor
        const float c_ = before_${u};
% for k in range(states):
        const float a_${k}_ = arrived_${k}_${u};
% endfor
        const float r_0_ = ${f"back_{u} + " if states == 1 else ""}${tiles.whole(
            rows, columns, slices, 1, 0, u)};
% if states > 1:
        const float r_1_ = back_${u};
% endif
% for statement in statements:
        ${statement}
% endfor
% for gate in range(gates):
        gx[gate_${u} + ${gate * size}] = ${results[gate]};
% if apart:
        gshares[gate_${u} + ${gate * size}] = ${results[gates + gate]};
% endif
% endfor
        back[own_${u}] = ${results[-1]};
    }
% endfor
}
</%def>
