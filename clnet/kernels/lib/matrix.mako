## lib matrix: products of small matrices by 32 items at once, or as many as the device's unit has
##
## Units of the way "builtin" are in lib/matrix_builtin.mako. PTX's multiplies 16 rows by 8 columns
## by 32 bytes of steps; what an item holds of operands and sums is the layout of mma.sync:
##
##     a<p>_<i>_<r>  rows i * 16 + lane / 4 (r even) and 8 more (r odd), steps lane % 4 (r < 2) and
##                   half the unit's steps more: one step of float, two neighbouring ones of 16 bits
##     b<p>_<j>_<r>  column j * 8 + lane / 4, the same steps
##     acc_<i>_<j>   rows as a's, columns j * 8 + lane % 4 * 2 and the next: two of the first row,
##                   two of the other
##
## There are two sets p of operands, so that those of the next step come in during the products.
##
## Emulated, the same registers go through local memory, `a_held`, `b_held` and `read_at`, and the
## products are computed from there, see lib/matrix_emulated.mako.
##
## param ctype: 'half'|'bfloat16'|'float'  element type; float may be rounded to TF32
## param unit: MatrixUnit     see device/matrix_units.py
## param tile: MatrixTile     shapes, see gemm_matrix.py
## param element: str         type of elements in local memory: ushort or float
## param stages: int          of the ring in local memory
## param step: int            of the unit's products of a tile
## param steps: int           of them
## param a_loads: MatrixLoads how a comes in
## param b_loads: MatrixLoads how b comes in
## param a_along: 'tile'|'k'  axis of a that is dense
## param b_along: 'tile'|'k'  the same of b
## param name: 'a'|'b'        the operand
## param base: str            place in a stage, in C
## param turned: bool         whether [step][row] is read as [row][step]
## param names: list          registers
<%namespace name="builtin" file="/lib/matrix_builtin.mako"/>
<%namespace name="plain" file="/lib/matrix_emulated.mako"/>
<%namespace name="sums_of" file="/lib/matrix_sums.mako"/>
##
## Operands and sums of an item, and where the emulation keeps them.
<%def name="declared(unit, tile, element)">
% if unit.way == "builtin":
${builtin.declared(unit, tile, element)}
% if unit.emulated:
% for name, held, across in (("a", unit.a, tile.rows(unit)), ("b", unit.b, tile.columns(unit))):
    __local ${element} ${name}_held[${tile.patches}][${across}][${unit.lanes}][${held.count}];
% endfor
% endif
% else:
% if unit.emulated:
    ${plain.held(tile.patches, tile.rows(unit), tile.columns(unit))}
    __local int read_at[${tile.patches}][32];
% endif
% for i in range(tile.rows(unit)):
    uint ${", ".join(f"a{p}_{i}_{r}" for p in range(2) for r in range(4))};
% for j in range(tile.columns(unit)):
    float acc_${i}_${j}[4] = {0, 0, 0, 0};
% endfor
% endfor
% for j in range(tile.columns(unit)):
    uint ${", ".join(f"b{p}_{j}_{r}" for p in range(2) for r in range(2))};
% endfor
% endif
</%def>
##
## All products of a tile, in steps of the unit.
<%def name="multiplied(ctype, unit, tile, steps, a_loads, b_loads, a_along, b_along)">
% if unit.way == "builtin":
% for step in range(steps):
${builtin.operands_of(ctype, unit, tile, step, a_loads, b_loads, a_along, b_along)}
${builtin.products(unit, tile)}
% endfor
% else:
% for step in range(-1, steps):
% if step + 1 < steps:
${operands_of(ctype, unit, tile, step + 1, a_loads, b_loads, a_along, b_along)}
% endif
% if step >= 0:
${products(ctype, unit, tile, step)}
% endif
% endfor
% endif
</%def>
##
## Bring in the operands of one of the unit's steps, into the set of its parity.
<%def name="operands_of(ctype, unit, tile, step, a_loads, b_loads, a_along, b_along)">
<% p, unit_k = step % 2, unit.steps %>
% if ctype == "float":
% for i in range(tile.rows(unit)):
<%
    rows, steps = f"self_m + {i * 16} + lane / 4", f"{step * unit_k} + lane % 4"
    base = a_loads.place(a_along, rows, steps)
    row_8 = 8 * a_loads.pitch if a_along == "k" else 8
    step_4 = 4 if a_along == "k" else 4 * a_loads.pitch
%>
    {
        const int at = a_base + ${base};
        a${p}_${i}_0 = rounded(a_tile[at]);
        a${p}_${i}_1 = rounded(a_tile[at + ${row_8}]);
        a${p}_${i}_2 = rounded(a_tile[at + ${step_4}]);
        a${p}_${i}_3 = rounded(a_tile[at + ${row_8 + step_4}]);
    }
% endfor
% for j in range(tile.columns(unit)):
<%
    rows, steps = f"self_n + {j * 8} + lane / 4", f"{step * unit_k} + lane % 4"
    base = b_loads.place(b_along, rows, steps)
    step_4 = 4 if b_along == "k" else 4 * b_loads.pitch
%>
    {
        const int at = b_base + ${base};
        b${p}_${j}_0 = rounded(b_tile[at]);
        b${p}_${j}_1 = rounded(b_tile[at + ${step_4}]);
    }
% endfor
% else:
% for i in range(tile.rows(unit)):
<%
    eight = "(lane & 15)" if a_along == "k" else "(lane >> 3 & 1) * 8"
    rows = f"self_m + {i * 16} + {eight}"
    eight = "(lane >> 4) * 8" if a_along == "k" else "(lane & 7) + (lane >> 4) * 8"
    base = a_loads.place(a_along, rows, f"{step * unit_k} + {eight}")
%>
    ${read_matrices(unit, "a", base, a_along == "tile", [f"a{p}_{i}_{r}" for r in range(4)])}
% endfor
% for j in range(0, tile.columns(unit), 2):
<%
    eight = "(lane & 7) + (lane >> 4) * 8" if b_along == "k" else "(lane >> 4) * 8"
    rows = f"self_n + {j * 8} + {eight}"
    eight = "(lane >> 3 & 1) * 8" if b_along == "k" else "(lane & 15)"
    base = b_loads.place(b_along, rows, f"{step * unit_k} + {eight}")
%>
    ${read_matrices(unit, "b", base, b_along == "tile", [
        f"b{p}_{j + r // 2}_{r % 2}" for r in range(4)])}
% endfor
% endif
</%def>
##
## Four matrices of 8 by 8; each eight items say where the rows of one begin.
<%def name="read_matrices(unit, name, base, turned, names)">
% if not unit.emulated:
    asm volatile("ldmatrix.sync.aligned.m8n8.x4${".trans" if turned else ""}.shared.b16 "
        "{%0, %1, %2, %3}, [%4];" : ${", ".join('"=r"(%s)' % each for each in names)}
        : "r"((uint)(size_t)&${name}_tile[${name}_base + ${base}]) : "memory");
% else:
    read_at[patch][lane] = ${name}_base + ${base};
    barrier(CLK_LOCAL_MEM_FENCE);
% for r in range(4):
% if turned:
    ${names[r]} = ${name}_tile[read_at[patch][${8 * r} + lane % 4 * 2] + lane / 4]
        | (uint)${name}_tile[read_at[patch][${8 * r} + lane % 4 * 2 + 1] + lane / 4] << 16;
% else:
    ${names[r]} = *(__local const uint *)&${name}_tile[
        read_at[patch][${8 * r} + lane / 4] + lane % 4 * 2];
% endif
% endfor
    barrier(CLK_LOCAL_MEM_FENCE);
% endif
</%def>
##
## acc_<i>_<j> += a<p>_<i> * b<p>_<j>, all of them.
<%def name="products(ctype, unit, tile, step)">
<% p = step % 2 %>
% if not unit.emulated:
% for i in range(tile.rows(unit)):
% for j in range(tile.columns(unit)):
    asm volatile("mma.sync.aligned.${unit.call} "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : ${", ".join('"+f"(acc_%d_%d[%d])' % (i, j, r) for r in range(4))}
        : ${", ".join('"r"(a%d_%d_%d)' % (p, i, r) for r in range(4))},
        "r"(b${p}_${j}_0), "r"(b${p}_${j}_1));
% endfor
% endfor
% else:
% for i in range(tile.rows(unit)):
% for r in range(4):
    a_held[patch][${4 * i + r}][lane] = a${p}_${i}_${r};
% endfor
% endfor
% for j in range(tile.columns(unit)):
% for r in range(2):
    ${plain.b_place(j, r)} = b${p}_${j}_${r};
% endfor
% endfor
    barrier(CLK_LOCAL_MEM_FENCE);
${plain.products(ctype, "acc_{i}_{j}", tile.rows(unit), tile.columns(unit))}
    barrier(CLK_LOCAL_MEM_FENCE);
% endif
</%def>
##
## Functions that read and store elements, and what the unit needs before the kernel.
<%def name="functions(ctype, element, unit, stages)">
% if not unit.emulated:
${unit.before}
% endif
% if unit.way == "ptx":
${copies(element, unit, stages)}
% endif
${sums_of.elements(ctype, element, unit.way == "ptx" and not unit.emulated)}
% if unit.rounds:
inline uint rounded(const float x)
{
% if unit.way == "ptx" and not unit.emulated:
    uint bits;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(x));
    return bits;
% else:
    return isfinite(x) ? as_uint(x) + 0x1000 & 0xffffe000 : as_uint(x);
% endif
}
% endif
% if unit.way == "builtin" and unit.emulated:
${builtin.wide(ctype, element)}
% elif unit.emulated:
${plain.functions(ctype)}
% endif
</%def>
##
## PTX's copies, which go on while items multiply.
<%def name="copies(element, unit, stages)">
inline void copy_run(__local ${element} *to, __global const ${element} *from, const bool valid)
{
% if not unit.emulated:
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
        :: "r"((uint)(size_t)to), "l"(from), "r"(valid ? 16 : 0));
% else:
    for (int e = 0; e < ${4 if element == "float" else 8}; e++)
        to[e] = valid ? from[e] : 0;
% endif
}
inline void copies_end(void)
{
% if not unit.emulated:
    asm volatile("cp.async.commit_group;" ::: "memory");
% endif
}
inline void copies_wait(void)
{
% if not unit.emulated:
    asm volatile("cp.async.wait_group ${stages - 2};" ::: "memory");
% endif
}
</%def>
