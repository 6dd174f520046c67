## kernel gemm_packed: out = activation(alpha * a @ b + beta * out + bias), register-blocked
##
## One work-item per group. It copies its panels of a (`rows` rows each) into local memory, `depth`
## steps of k at a time, and multiplies them with its panels of b (`vectors * width` columns):
##
##      a_panels[panel][k][rows padded to width]      b_panel[k][columns]      acc_<row>_<vector>
##
## b's panels come from gemm_pack (prepacked), which pays when many groups read each of them, else
## the group packs them itself.
##
## layout   out, a, b: any strides; fast where a and b have one unit stride and out_n == 1
## param    ctype: str           element type, and the type of the sums
## param    width: int           lanes of a vector
## param    rows: int            rows of the register block
## param    vectors: int         vectors in a row of the register block
## param    unroll: int          steps of k in one turn of the inner loop
## param    a_elements: int      local memory for panels of a
## param    b_elements: int      ... and for one of b
## param    prepacked: bool      b was packed by gemm_pack
## param    bias: None|'m'|'n'   the axis bias lies along, if there is one
## param    stream: bool         out goes past the caches; it is written once, in whole lines
## param    pairs: str           C of DOT(sum, x, w), see device/bfloat16_dot.py: elements of a and
##                               b are two of bfloat16; "": they are numbers
## param    lanes: int            rows padded to width
## param    broadcasts: bool      instructions can multiply by an element in memory (vectors of 64
##                                bytes)
## arg      strides: long16                see lib/product.mako
## arg      sizes: int16                   ... and behind those
##              slices: parts of the sums, computed by groups of their own
##              slice_k: slice s sums k in [s * slice_k, (s + 1) * slice_k)
##              depth: steps of k per panel, a multiple of unroll
##              blocks: row_blocks * column_blocks * slices * batch items
##              row_blocks, column_blocks: what rows and columns are cut into
##              draw: prepacked: 1: groups draw blocks by counting in tickets
##              finishes: 1: bias is added, and an activation applied, 0: neither
##              relu: 1: the activation is relu, 0: there is none
## arg      out: inout ctype               read only where beta != 0
## arg      a: in ctype
## arg      b: in ctype
## % if bias:
## arg      bias: in ctype
## % endif
## arg      alpha: ctype                   factor of the product
## arg      beta: ctype                    factor of what out holds
## % if prepacked:
## arg      tickets: inout int, may alias  prepacked: 0 before and after; see draw
## % endif
## launch   global (blocks or fewer, 1, 1), local (1, 1, 1): each takes a block after the other,
##          blocks as even as can be
## numerics each sum runs over k in order, by fma, restarting every `depth` steps; of pairs as the
##          instruction adds the two products, which may take subnormal numbers for 0
<%namespace name="vectors_of" file="/lib/vector.mako"/>
<%namespace name="product" file="/lib/product.mako"/>
<%namespace name="panel" file="/lib/panel.mako"/>
<%namespace name="sums" file="/lib/sums.mako"/>
<%namespace name="prelude" file="/lib/prelude.mako"/>
<%def name="gemm_packed(
    ctype, width, rows, vectors, unroll, a_elements, b_elements, prepacked, bias, stream,
    pairs)">
<%
    columns = vectors * width
    lanes = -(-rows // width) * width
    vector = f"{ctype}{width}"
    space = "__global" if prepacked else "__local"
    fetch_steps = 32  # between two looks ahead
    pack_steps = 32  # of a, at a time; a multiple of unroll
    broadcasts = width == {"float": 16, "double": 8}[ctype]
    shape = dict(
        rows=rows, vectors=vectors, unroll=unroll, lanes=lanes, broadcasts=broadcasts,
        pairs=bool(pairs))
%>
% if pairs:
${pairs}
% endif
${vectors_of.types(ctype, width)}
${vectors_of.zip(ctype, width)}
${panel.pack("pack_a", ctype, width, lanes, "__local")}
% if prepacked:
${prelude.fetch_ahead()}
% else:
${panel.pack("pack_b", ctype, width, columns, "__local")}
% endif
% if stream:
${prelude.stream(ctype, width)}
% endif
${prelude.one_by_one()}
${sums.store_tile(ctype, width, vectors, bias)}
/* Where a block begins: panels of `size` rows or columns go to an axis's blocks as evenly as can
   be. */
inline int first_of_block(const long block, const int blocks, const int all, const int size)
{
    const int panels = (all + size - 1) / size;
    return block * panels / blocks * size;
}

ONE_BY_ONE
__kernel void gemm_packed(...)
{
    ${product.numbers(["slices", "slice_k", "depth", "blocks", "row_blocks", "column_blocks",
        "draw", "finishes", "relu"])}
    const ${ctype} least = relu ? 0 : -INFINITY;
    __local ${ctype} a_panels[${a_elements}] __attribute__((aligned(64)));
% if not prepacked:
    __local ${ctype} b_panel[${b_elements}] __attribute__((aligned(64)));
% endif
    ${ctype} tile[${rows * columns}] __attribute__((aligned(64)));
    const int dense = out_n == 1${" && (bias_step == 1 || !finishes)" if bias == "n" else ""};
% if prepacked:
    const long panel_size = (long)((k + ${unroll - 1}) / ${unroll} * ${unroll}) * ${columns};
    tickets += tickets_offset;
% endif
% if bias:
    bias += bias_offset;
% endif
    int block = ${"draw ? atomic_inc(tickets) : " if prepacked else ""}get_global_id(0);
    while (block < blocks) {
        const int row_block = block % row_blocks, column_block = block / row_blocks % column_blocks;
        const int slice = block / row_blocks / column_blocks % slices,
            item = block / row_blocks / column_blocks / slices;
        __global ${ctype} *restrict own_out =
            out + (out_offset + item / inner * out_outer + item % inner * out_inner
            + slice * out_slice);
        __global const ${ctype} *restrict own_a =
            a + (a_offset + item / inner * a_outer + item % inner * a_inner);
        __global const ${ctype} *restrict own_b =
            b + (b_offset + item / inner * b_outer + item % inner * b_inner);
        const int first_row = first_of_block(row_block, row_blocks, m, ${rows});
        const int end_row = min(m, first_of_block(row_block + 1, row_blocks, m, ${rows}));
        const int first_column = first_of_block(column_block, column_blocks, n, ${columns});
        const int end_column = min(n, first_of_block(column_block + 1, column_blocks, n,
            ${columns}));
        const int first_k = slice * slice_k, end_k = min(k, first_k + slice_k);
% if prepacked:
        // Lines of the next panel of b that come closer with every stretch of this one.
        const int lines = ${fetch_steps * columns // width * rows} / (end_row - first_row) + 1;
% endif
        for (int k0 = first_k; k0 < end_k; k0 += depth) {
            const int steps = min(depth, end_k - k0);
            const int padded = (steps + ${unroll - 1}) / ${unroll} * ${unroll};
            const ${ctype} keep = k0 == first_k ? beta : 1;
            const int last = finishes && k0 + depth >= end_k;
            // Columns of a that lie densely are read across all panels, some at a time: for one
            // panel alone, every step would be on another page.
            const int stretch = a_m == 1 ? ${pack_steps} : padded;
            for (int step = 0; step < padded; step += stretch) {
                const int left = steps - step, some = left < stretch ? left : stretch;
                const int whole = (some + ${unroll - 1}) / ${unroll} * ${unroll};
                for (int row = first_row, at = step * ${lanes}; row < end_row; row += ${rows},
                    at += ${lanes} * padded)
                    pack_a(
                        a_panels + at, own_a + row * a_m + (k0 + step) * a_k,
                        min(${rows}, end_row - row), some, whole, a_m, a_k);
            }
            for (int column = first_column; column < end_column; column += ${columns}) {
% if prepacked:
                __global const ${ctype} *b_panel =
                    own_b + column / ${columns} * panel_size + (long)k0 * ${columns};
                __global const ${ctype} *next = b_panel + panel_size;
% else:
                pack_b(b_panel, own_b + column * b_n + k0 * b_k,
                    min(${columns}, end_column - column), steps, padded, b_n, b_k);
% endif
                __local const ${ctype} *pa = a_panels, *again = pa + (get_work_dim() == 0);
                for (int row = first_row; row < end_row; row += ${rows}) {
                    ${space} const vector *pb = (${space} const vector *)b_panel;
% for r in range(rows):
                    ${vector} ${", ".join(f"acc_{r}_{v} = 0" for v in range(vectors))};
% endfor
% if prepacked:
                    for (int begin = 0; begin < padded; begin += ${fetch_steps}) {
                        const int end = begin + ${fetch_steps} < padded ? begin + ${fetch_steps}
                            : padded;
                        for (int line = 0; line < lines; line++, next += ${width})
                            FETCH_AHEAD(next);
                        ${multiply(**shape)}
                    }
% else:
                    const int begin = 0, end = padded;
                    ${multiply(**shape)}
% endif
                    __global ${ctype} *corner = own_out + row * out_m + column * out_n;
                    if (dense && row + ${rows} <= end_row && column + ${columns} <= end_column) {
                        ${sums.store_registers(rows, vectors, width, vector, bias, stream)}
                        continue;
                    }
% for r in range(rows):
% for v in range(vectors):
                    ((vector *)tile)[${r * vectors + v}] = acc_${r}_${v};
% endfor
% endfor
                    store_tile(
                        corner, tile, min(${rows}, end_row - row),
                        min(${columns}, end_column - column), out_m, out_n, alpha, keep, last,
                        least
                        ${", bias + %s * bias_step, bias_step" % ("row"
                            if bias == "m" else "column") if bias else ""});
                }
            }
        }
% if prepacked:
        block = draw ? atomic_inc(tickets) : block + (int)get_global_size(0);
% else:
        block += get_global_size(0);
% endif
    }
% if prepacked:
    if (draw && block == blocks + (int)get_global_size(0) - 1)
        atomic_xchg(tickets, 0);
% endif
}
</%def>
##
## Steps [begin, end) of the sums. Nothing else may be in the loop: with a call or an instruction to
## fetch ahead in it, the sums no longer stay in registers. Where an instruction can load, broadcast
## and multiply, an element of a is cheaper to load again for each vector than to broadcast by an
## instruction of its own; one row in three is kept, lest there be too much to load. `again` is pa,
## but the compiler cannot know.
<%def name="multiply(rows, vectors, unroll, lanes, broadcasts, pairs)">
for (int step = begin; step < end; step += ${unroll}) {
% for u in range(unroll):
% for v in range(vectors):
                        const vector b_${u}_${v} = pb[${u * vectors + v}];
% endfor
% for r in range(rows):
% for v in range(vectors):
                        const vector a_${u}_${r}_${v} =
                            ${"again" if v and r % 3 and broadcasts else "pa"}[${u * lanes + r}];
% if pairs:
                        DOT(acc_${r}_${v}, a_${u}_${r}_${v}, b_${u}_${v});
% else:
                        acc_${r}_${v} = multiply_add(a_${u}_${r}_${v}, b_${u}_${v}, acc_${r}_${v});
% endif
% endfor
% endfor
% endfor
                        pa += ${unroll * lanes}, again += ${unroll * lanes},
                            pb += ${unroll * vectors};
                    }
</%def>
