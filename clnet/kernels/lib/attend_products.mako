## lib attend_products: products of attention on matrix units
##
## What an item holds of operands and sums is the layout of mma.sync, see lib/matrix.mako. Rows lie
## in local memory one after another. Emulated, operands' registers go through `a_held` and
## `b_held`, which lib/attend_matrix.mako declares, see lib/matrix_emulated.mako.
##
## param ctype: 'half'|'bfloat16'|'float'  element type; float is rounded to TF32
## param unit: MatrixUnit     see device/matrix_units.py
## param names: list          registers
## param sums: str            name of the sums, of row block {i} and columns {j}
## param held: str            name of operands' registers, of step {s}, row block {i} and {r}; or ""
## param a: str               tile of the own rows, from which they are read otherwise
## param b: str               tile of the others
## param rows: int            blocks of 16 own rows
## param columns: int         blocks of 8 columns of the sums, or of the terms
## param steps: int           of 32 bytes of terms
## param turned: bool         whether terms lie along the other tile's rows, else in them
## param first: str           C expression, the others' first row in the tile
## param a_pitch, b_pitch: int    the same of a and b
## param name: str            of the tile in local memory
## param lie: str             C expression, where a row of a matrix begins, of item {0}
## param r: int               number of a matrix
## param at: str              C expression, an address in local memory, or a place in a tile
## param bytes: int           from there
<%namespace name="plain" file="/lib/matrix_emulated.mako"/>
##
## sums += own rows times others, in steps of 32 bytes of terms.
<%def name="products(
    ctype, unit, sums, rows, columns, steps, held, a, a_pitch, b, b_pitch, first, turned)">
<%
    pairs = range(0, columns, 2)
    own = lambda s, i, r: held.format(s=s, i=i, r=r) if held else f"a{s % 2}_{i}_{r}"
    other = lambda s, j, r: f"b{s}_{j + r // 2}_{r % 2}"
    run, nbytes = (4, 4) if ctype == "float" else (8, 2)
    apart = ctype == "float" and turned
    if turned:
        lie, step_at, column_at = "({0} & 15) * %d + ({0} >> 4) * 8" % b_pitch, 16 * b_pitch, 8
        if apart:
            lie, step_at = "({0} %% 4 * 2) * %d + {0} / 4" % b_pitch, 8 * b_pitch
    else:
        lie = "(({0} & 7) + ({0} >> 4) * 8) * %d + ({0} >> 3 & 1) * %d" % (b_pitch, run)
        step_at, column_at = 2 * run, 8 * b_pitch
    a_lie = "(patch * %d + ({0} & 15)) * %d + ({0} >> 4) * %d" % (16 * rows, a_pitch, run)
%>
    {
% if not unit.emulated:
% if apart:
        __local const float *const b_at = ${b} + (${first}) * ${b_pitch} + ${lie.format("lane")};
% else:
        const uint b_at = (uint)(size_t)(${b} + (${first}) * ${b_pitch} + ${lie.format("lane")});
% endif
% if not held:
        const uint a_at = (uint)(size_t)(${a} + ${a_lie.format("lane")});
        uint ${", ".join(f"a{p}_{i}_{r}" for p in range(2) for i in range(rows) for r in range(4))};
% endif
        ## Operands of the next products come in during the products.
% for turn in range(steps * len(pairs) + 1):
% if turn < steps * len(pairs):
<%
    s = turn // len(pairs)
    j = turn % len(pairs) * 2
%>
% if j == 0 and not held:
% for i in range(rows):
        ${matrices(ctype, "a_at", nbytes * (16 * i * a_pitch + 2 * run * s), False,
            [own(s, i, r) for r in range(4)])}
% endfor
% endif
        uint ${", ".join(other(s, j, r) for r in range(4))};
% if apart:
% for r in range(4):
        ${other(s, j, r)} = rounded(
            b_at[${s * step_at + j * column_at + r // 2 * 8 + r % 2 * b_pitch}]);
% endfor
% else:
        ${matrices(ctype, "b_at", nbytes * (s * step_at + j * column_at), turned,
            [other(s, j, r) for r in range(4)])}
% endif
% endif
% if turn > 0:
<%
    s = (turn - 1) // len(pairs)
    j = (turn - 1) % len(pairs) * 2
%>
% for c in range(2):
% for i in range(rows):
        asm volatile("mma.sync.aligned.${unit.call} "
            "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
            : ${", ".join('"+f"(%s[%d])' % (sums.format(i=i, j=j + c), r) for r in range(4))}
            : ${", ".join('"r"(%s)' % own(s, i, r) for r in range(4))},
            "r"(${other(s, j, 2 * c)}), "r"(${other(s, j, 2 * c + 1)}));
% endfor
% endfor
% endif
% endfor
% else:
        __local const element *const b_rows = ${b} + (${first}) * ${b_pitch};
% for s in range(steps):
% for i in range(rows):
% for r in range(4):
% if held:
        a_held[patch][${4 * i + r}][lane] = ${own(s, i, r)};
% else:
        a_held[patch][${4 * i + r}][lane] = ${emulated(
            ctype, a, a_lie, 16 * i * a_pitch + 2 * run * s, r, False)};
% endif
% endfor
% endfor
% for j in pairs:
% for r in range(4):
% if apart:
        ${plain.b_place(j + r // 2, r % 2)} = rounded(b_rows[${lie.format("lane")}
            + ${s * step_at + j * column_at + r // 2 * 8 + r % 2 * b_pitch}]);
% else:
        ${plain.b_place(j + r // 2, r % 2)} = ${emulated(
            ctype, "b_rows", lie, s * step_at + j * column_at, r, turned)};
% endif
% endfor
% endfor
        barrier(CLK_LOCAL_MEM_FENCE);
        ${plain.products(ctype, sums, rows, columns)}
        barrier(CLK_LOCAL_MEM_FENCE);
% endfor
% endif
    }
</%def>
##
## Four matrices of 8 rows of 16 bytes; each eight items say where the rows of one begin.
<%def name="matrices(ctype, at, bytes, turned, names)">
    asm volatile("ldmatrix.sync.aligned.m8n8.x4${".trans" if turned else ""}.shared.b16 "
        "{%0, %1, %2, %3}, [%4 + ${bytes}];" : ${", ".join('"=r"(%s)' % each for each in names)}
        : "r"(${at}) : "memory");
% if ctype == "float":
% for each in names:
    ${each} = rounded(as_float(${each}));
% endfor
% endif
</%def>
##
## What the item gets of the matrix numbered r, whose rows lie where its eight items say.
<%def name="emulated(ctype, name, lie, at, r, turned)" filter="trim">
<%
    first = "(%d + lane %% 4 * 2)" if turned else "(%d + lane / 4)"
    second = "(%d + lane %% 4 * 2 + 1)"
%>
% if ctype == "float":
rounded(${name}[${at} + ${lie.format(first % (8 * r))} + lane % 4])
% elif turned:
${name}[${at} + ${lie.format(first % (8 * r))} + lane / 4]
            | (uint)${name}[${at} + ${lie.format(second % (8 * r))} + lane / 4] << 16
% else:
*(__local const uint *)(${name} + ${at} + ${lie.format(first % (8 * r))} + lane % 4 * 2)
% endif
</%def>
