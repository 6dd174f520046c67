## kernel recurrence_ring: a step of a recurrent layer, whose tiles come in by asynchronous copies
##
## A group owns `rows` examples of one layer and `columns` elements of their states, with all gates.
## Tiles of both operands go around the registers into a ring of stages, so that these hold sums
## alone, and a unit has room for four times 32 items for each of its schedulers. What the gates
## read comes in beside the first stage. Operands begin at multiples of four elements.
##
## math     share = h @ columns + bias, then the states, as recurrence.mako says
## param    size: int                 of a state, a multiple of 4
## param    gates: int                of a cell
## param    states: int               of a cell; the first is h
## param    ring: Ring               shapes, see recurrence_ring.py
## param    biased: bool              the states' shares have a bias
## param    statements: tuple[str]    C declarations of temporaries
## param    results: tuple[str]       C text of what is stored
## param    functions: tuple[str]     elementary functions that they call
## param    k: str|int                the first term
## param    slot: str|int             a stage
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
## launch   (groups of rows * group items, groups of columns, layers), groups of group
## numerics as recurrence_step
<%namespace name="elementary" file="/lib/elementary.mako"/>
<%namespace name="tiles" file="/lib/step_tiles.mako"/>
<%namespace name="core" file="/lib/tile.mako"/>
<%def name="recurrence_ring(
    size, gates, states, ring, biased, statements, results, functions)">
<%
    rows, columns, chunk, stages = ring.rows, ring.columns, ring.chunk, ring.stages
    wide, ahead = gates * columns, (ring.stages - 1) * ring.chunk
%>
${elementary.define(functions, "float", 1)}
${core.functions(ring, "float")}
__attribute__((reqd_work_group_size(${ring.group}, 1, 1)))
__kernel void recurrence_ring(...)
{
    ${tiles.begin(rows, columns, ring.room)}
    __local float read[${ring.read}] __attribute__((aligned(16)));
    __local float *const read_c = read + ${rows * wide};
    x += x_offset + row * ${gates * size};
    shares += shares_offset + row * ${gates * size};
% for k in range(states):
    last_${k} += last_${k}_offset + row * ${size};
    y_${k} += y_${k}_offset + row * ${size};
% endfor
    ${read_own(size, gates, states, ring)}
    ${tiles.item_place(rows, columns, ring.down, ring.across, True)}
    __local float *const a_tile = room, *const b_tile = room + ${stages * rows * ring.pitch};
    const int a_line = item / ${chunk // 4}, a_term = item % ${chunk // 4} * 4;
    const int b_line = item / ${wide // 4}, b_part = item % ${wide // 4} * 4;
    const int b_column = column_from + b_part % ${columns};
    __global const float *a_from = last_0 + (long)a_line * ${size} + a_term;
    __global const float *b_from = columns + columns_offset
        + ((long)layer * ${size} + b_line) * ${gates * size} + b_part / ${columns} * ${size}
        + b_column;
    // The first of an item's terms that it does not read; none where its columns are beyond.
    const int a_end = ${size} - a_term;
    const int b_end = b_column < ${size} ? ${size} - b_line : 0;
% for r in range(ring.down):
    float${ring.across} ${", ".join(f"sum_{r}_{gate} = 0" for gate in range(gates))};
% endfor
% for stage in range(stages - 1):
% if stage * chunk < size:
    ${copies(size, gates, ring, stage * chunk, stage)}
% endif
    ${core.commit(ring)}
% endfor
    int slot = 0, free = ${stages - 1};
    for (int k = 0; k < ${size}; k += ${chunk}) {
        ${core.arrived(ring)}
        if (k + ${ahead} < ${size}) {
            ${copies(size, gates, ring, f"k + {ahead}", "free")}
        }
        ${core.commit(ring)}
        ${tiles.multiply(rows, columns, ring.down, ring.across, ring.slices, chunk, gates,
            ring.deep)}
        slot = slot == ${stages - 1} ? 0 : slot + 1;
        free = free == ${stages - 1} ? 0 : free + 1;
    }
    ${tiles.gather(rows, columns, ring.down, ring.across, ring.slices, gates)}
% for u in range(-(-rows * columns // ring.group)):
    {
        ${tiles.place(size, gates, rows, columns, ring.group, u)}
        if (inside_${u}) {
            const float c = read_c[at_${u}];
% for gate in range(gates):
            const float g_${gate} = read[at_${u} / ${columns} * ${wide} + at_${u} % ${columns}
                + ${gate * columns}];
            const float s_${gate} = ${tiles.whole(rows, columns, ring.slices, gates, gate, u)}
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
    }
% endfor
}
</%def>
##
## Start bringing in what the gates read: the sequence's shares, and the last of the states.
<%def name="read_own(size, gates, states, ring)">
<% columns, wide, group = ring.columns, gates * ring.columns, ring.group %>
    for (int at = item; at < ${ring.rows * wide // 4}; at += ${group}) {
        const int line = at / ${wide // 4}, part = at % ${wide // 4} * 4;
        const int column = column_from + part % ${columns};
        copy_4(read + at * 4, x + line * ${gates * size} + part / ${columns} * ${size} + column,
            line < count && column < ${size});
    }
    for (int at = item; at < ${ring.rows * columns // 4}; at += ${group}) {
        const int line = at / ${columns // 4}, column = column_from + at % ${columns // 4} * 4;
        copy_4(read_c + at * 4, last_${states - 1} + line * ${size} + column,
            line < count && column < ${size});
    }
</%def>
##
## Start bringing a stage in, from term `k` on: rows of h, and lines of the weights.
<%def name="copies(size, gates, ring, k, slot)">
<%
    rows, columns, group, chunk = ring.rows, ring.columns, ring.group, ring.chunk
    wide, pitch = gates * columns, ring.pitch
    a_jump, b_jump = group // (chunk // 4), group // (wide // 4)
%>
% for i in range(-(-rows // a_jump)):
<% more, partial = i * a_jump, (i + 1) * a_jump > rows or a_jump * chunk // 4 < group %>
% if partial:
    if (a_line < ${min(rows - more, a_jump)})
% endif
        copy_4(a_tile + (${slot} * ${rows} + a_line + ${more}) * ${pitch} + a_term,
            a_from + (${k}) + ${more * size}, a_line < count - ${more} && ${k} < a_end);
% endfor
% for i in range(-(-chunk // b_jump)):
<% more, partial = i * b_jump, (i + 1) * b_jump > chunk or b_jump * wide // 4 < group %>
% if partial:
    if (b_line < ${min(chunk - more, b_jump)})
% endif
        copy_4(b_tile + (${slot} * ${chunk} + b_line + ${more}) * ${wide} + b_part,
            b_from + (long)(${k} + ${more}) * ${gates * size}, ${k} + ${more} < b_end);
% endfor
</%def>
