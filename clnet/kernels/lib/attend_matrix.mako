## lib attend_matrix: what attention on matrix units is made of
##
## Every 32 items, a patch, own 16 * tile.rows rows of one operand; tiles of the others come into
## local memory by PTX's asynchronous copies. What an item holds of operands and sums is the layout
## of mma.sync, see lib/matrix.mako; sums, those of 16 bits rounded in pairs, are an operand's
## registers, in TF32 with the terms in another order than theirs, which the other operand follows.
## Rows lie in local memory one after another, `pitch` elements apart, so that rows of a matrix of
## 8 by 8 begin in different banks.
##
## Emulated, operands' registers go through local memory, `a_held` and `b_held`, and what a row's
## four items tell each other through `quads`.
##
## param ctype: 'half'|'bfloat16'|'float'  element type; float is rounded to TF32
## param unit: MatrixUnit     see device/matrix_units.py
## param tile: AttendTile     shapes, see attention_matrix.py
## param name: str            of what is declared, or of the tile in local memory
## param names: list          registers
## param sums: str            name of the sums, of row block {i} and columns {j}
## param held: str            name of operands' registers, of step {s}, row block {i} and {r}; or ""
## param rows: int            blocks of 16 own rows
## param columns: int         blocks of 8 columns of the sums, or of the terms
## param pitch: int           elements from row to row in local memory
## param how: 'fmax'|'+'      what four items' numbers are put together with
## param source: str          C expression, where row 0 lies
## param step: str            C expression, elements from a row to the next
## param begin: str           C expression, number of the first row
## param limit: str           C expression, number of rows
## param count: int           rows of a tile
## param size: int            elements of a row
## param to: str              C expression, place in the tile
## param factor: str          C expression that results are multiplied by, of {i} and {h}
## param most: int            most operands of a product, in blocks
## param run: int             elements of 16 bytes
<%namespace name="plain" file="/lib/matrix_emulated.mako"/>
<%namespace name="units" file="/lib/matrix.mako"/>
##
## Outside of kernels.
<%def name="functions(ctype, unit, tile)">
#pragma OPENCL FP_CONTRACT ON
#define LOG2E 1.4426950408889634f
typedef ${"float" if ctype == "float" else "ushort"} element;
${units.functions(ctype, "float" if ctype == "float" else "ushort", unit, tile.stages)}
inline void copy_word(__local float *to, __global const float *from, const bool valid)
{
% if not unit.emulated:
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;"
        :: "r"((uint)(size_t)to), "l"(from), "r"(valid ? 4 : 0));
% else:
    *to = valid ? *from : 0;
% endif
}
${scalars(unit)}
% if ctype != "float":
## Two numbers in 16 bits each, the first below.
inline uint in_word(const float low, const float high)
{
% if not unit.emulated:
    uint word;
    asm("cvt.rn.${"f16x2" if ctype == "half" else "bf16x2"}.f32 %0, %1, %2;"
        : "=r"(word) : "f"(high), "f"(low));
    return word;
% elif ctype == "half":
    ushort bits[2];
    vstore_half_rte(low, 0, (half *)bits);
    vstore_half_rte(high, 1, (half *)bits);
    return bits[0] | (uint)bits[1] << 16;
% else:
    return nearest(low, high);
% endif
}
% endif
</%def>
##
## What is done with single scores.
<%def name="scalars(unit)">
inline float two_to(const float x)
{
% if not unit.emulated:
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
% else:
    return exp2(x);
% endif
}
% if not unit.emulated:
% for name, call in (("quad_fmax", "fmax(x, y)"), ("quad_sum", "x + y")):
inline float ${name}(float x)
{
    float y;
    asm volatile("shfl.sync.bfly.b32 %0, %1, 1, 0x1f, 0xffffffff;" : "=f"(y) : "f"(x));
    x = ${call};
    asm volatile("shfl.sync.bfly.b32 %0, %1, 2, 0x1f, 0xffffffff;" : "=f"(y) : "f"(x));
    return ${call};
}
% endfor
% endif
</%def>
##
## The item's place, and its operands from their head's first element on; `batch` is the number of
## the head of q.
<%def name="begin(tile)">
    const int self = get_local_id(0), lane = self % 32, patch = self / 32;
    const long image = batch / heads, h = batch % heads, key_head = h / sharing;
    const float factor = scale * LOG2E;
    __global const element *q_from = (__global const element *)q + q_offset + image * strides.s0
        + h * strides.s1;
    __global const element *k_from = (__global const element *)k + k_offset + image * strides.s3
        + key_head * strides.s4;
    __global const element *v_from = (__global const element *)v + v_offset + image * strides.s6
        + key_head * strides.s7;
    lse += lse_offset + (long)batch * rows;
</%def>
##
## Where the emulation keeps what items tell each other; `most` row blocks and columns.
<%def name="exchange(unit, tile, most)">
% if unit.emulated:
    ${plain.held(tile.patches, tile.rows, most)}
    __local float quads[${tile.patches}][${2 * tile.rows}][32];
% endif
</%def>
##
## A tile of rows begins to come in; what lacks is 0.
<%def name="fetch(run, tile, name, source, step, begin, limit, count, size, pitch)">
<%
    runs = (size + 15) // 16 * 16 // run
    total, jump = count * runs, tile.items // runs
    inside = f" && e < {size}" if size % 16 else ""
%>
% if tile.items % runs == 0 and count % jump == 0:
    {
        const int r = self / ${runs}, e = self % ${runs} * ${run}, rest = ${limit} - (${begin}) - r;
        __global const element *from = ${source} + (long)(${begin} + r) * ${step} + e;
        __local element *const to = ${name} + r * ${pitch} + e;
% for u in range(count // jump):
        copy_run(to + ${u * jump * pitch}, from, ${u * jump} < rest${inside});
        from += ${jump} * ${step};
% endfor
    }
% else:
    for (int i = self; i < ${total}; i += ${tile.items}) {
        const int r = i / ${runs}, e = i % ${runs} * ${run};
        copy_run(${name} + r * ${pitch} + e, ${source} + (long)(${begin} + r) * ${step} + e,
            ${begin} + r < ${limit}${inside});
    }
% endif
</%def>
<%def name="cleared(sums, rows, columns)">
% for i in range(rows):
    float ${", ".join(f"{sums.format(i=i, j=j)}[4] = {{0, 0, 0, 0}}" for j in range(columns))};
% endfor
</%def>
##
## Sums, rounded, as the registers of the own rows for `columns` blocks of terms.
<%def name="operand(ctype, sums, held, rows, columns)">
% if ctype == "float":
% for s in range(columns):
% for i in range(rows):
    const uint ${", ".join(
        "{} = rounded({}[{}])".format(
            held.format(s=s, i=i, r=r), sums.format(i=i, j=s), r % 2 * 2 + r // 2)
        for r in range(4))};
% endfor
% endfor
% else:
% for s in range(columns // 2):
% for i in range(rows):
    const uint ${", ".join(
        "{} = in_word({}[{}], {}[{}])".format(
            held.format(s=s, i=i, r=r), sums.format(i=i, j=2 * s + r // 2), r % 2 * 2,
            sums.format(i=i, j=2 * s + r // 2), r % 2 * 2 + 1) for r in range(4))};
% endfor
% endfor
% endif
</%def>
##
## Each number is put together with those of the three other items of its row.
<%def name="together(unit, names, how)">
% if not unit.emulated:
% for each in names:
    ${each} = ${"quad_fmax" if how == "fmax" else "quad_sum"}(${each});
% endfor
% else:
    barrier(CLK_LOCAL_MEM_FENCE);
% for n, each in enumerate(names):
    quads[patch][${n}][lane] = ${each};
% endfor
    barrier(CLK_LOCAL_MEM_FENCE);
% for n, each in enumerate(names):
    for (int i = 1; i < 4; i++) {
        const float other = quads[patch][${n}][lane ^ i];
        ${each} = ${f"fmax({each}, other)" if how == "fmax" else f"{each} + other"};
    }
% endfor
% endif
</%def>
##
## Rows of the item, dense, two elements at a time.
<%def name="release(ctype, to, sums, begin, limit, rows, size, factor)">
<% two = "float2" if ctype == "float" else "uint" %>
% for i in range(rows):
% for h in range(2):
    {
        const int row = ${begin} + patch * ${16 * rows} + ${16 * i + 8 * h} + lane / 4;
        const float share = ${factor.format(i=i, h=h)};
        if (row < ${limit}) {
            __global ${two} *const words = (__global ${two} *)(${to} + (long)row * ${size});
% for j in range((size + 7) // 8):
% if size < 8 * j + 8:
            if (lane % 4 * 2 < ${size - 8 * j})
% endif
            words[${4 * j} + lane % 4] = ${"(float2)" if ctype == "float" else "in_word"}(
                ${sums.format(i=i, j=j)}[${2 * h}] * share,
                ${sums.format(i=i, j=j)}[${2 * h + 1}] * share);
% endfor
        }
    }
% endfor
% endfor
</%def>
