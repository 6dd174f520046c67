## kernel gemm_unpacked: out = activation(alpha * a @ b + beta * out + bias), b read where it lies
##
## One work-item per group. For `depth` steps of k at a time it copies a panel of a (`rows` rows)
## into local memory, and walks along the rows of b and out with `vectors` vectors of sums in each
## of the panel's rows:
##
##      a_panel[k][rows padded to width]      b[k][column ...]      acc_<row>_<vector>
##
## b is not copied: either its few rows are read by every panel and stay in a cache, or there is one
## panel, which reads b once, as fast as memory gives it.
##
## layout   out, b: rows dense (out_n == 1, b_n == 1); a: any strides
## param    ctype: str           element type, and the type of the sums
## param    width: int           lanes of a vector
## param    rows: int            rows of the register block
## param    vectors: int         vectors in a row of the register block
## param    a_elements: int      local memory for a panel of a
## param    bias: None|'m'|'n'   the axis bias lies along, if there is one; densely along n
## param    type: str            type of a sum: a vector, or ctype
## param    stored: str          the same at any address
## param    lanes: int           rows padded to width
## arg      strides: long16   see lib/product.mako
## arg      sizes: int16      ... and behind those
##              depth: steps of k in a panel of a
##              block_rows: rows that a group computes, a multiple of `rows`
##              block_columns: ... and columns
##              finishes, relu: see gemm_packed.mako
##              batch: products in all;  share: of these, how many a group computes
## arg      out: inout ctype  read only where beta != 0, or where depth < k
## arg      a: in ctype
## arg      b: in ctype
## % if bias:
## arg      bias: in ctype
## % endif
## arg      alpha: ctype      factor of the product
## arg      beta: ctype       factor of what out holds
## launch   global (row blocks, column blocks, batch / share), local (1, 1, 1)
## numerics each sum runs over k in order, by fma, restarting every `depth` steps
<%namespace name="vectors_of" file="/lib/vector.mako"/>
<%namespace name="product" file="/lib/product.mako"/>
<%namespace name="panel" file="/lib/panel.mako"/>
<%namespace name="epilogue" file="/lib/epilogue.mako"/>
<%def name="gemm_unpacked(ctype, width, rows, vectors, a_elements, bias)">
<%
    lanes = -(-rows // width) * width
    shape = dict(rows=rows, lanes=lanes, bias=bias)
    vector = f"{ctype}{width}"
%>
${vectors_of.types(ctype, width)}
${vectors_of.zip(ctype, width)}
${panel.pack("pack_a", ctype, width, lanes, "__local")}
__kernel void gemm_unpacked(...)
{
    ${product.numbers([
        "depth", "block_rows", "block_columns", "finishes", "relu", "batch", "share"])}
    const ${ctype} least = relu ? 0 : -INFINITY;
    __local ${ctype} a_panel[${a_elements}] __attribute__((aligned(64)));
% if bias:
    bias += bias_offset;
% endif
    const int first_row = get_global_id(0) * block_rows, end_row = min(m, first_row + block_rows);
    const int first_column = get_global_id(1) * block_columns;
    const int end_column = min(n, first_column + block_columns);

    const int first_item = get_global_id(2) * share, end_item = min(batch, first_item + share);
    out += out_offset;
    a += a_offset;
    b += b_offset;
    for (int item = first_item; item < end_item; item++) {
        const int far = item / inner, near = item - far * inner;
        __global ${ctype} *out_item = out + far * out_outer + near * out_inner;
        __global const ${ctype} *a_item = a + far * a_outer + near * a_inner;
        __global const ${ctype} *b_item = b + far * b_outer + near * b_inner;
        for (int k0 = 0; k0 < k; k0 += depth) {
            const int steps = min(depth, k - k0), last = finishes && k0 + depth >= k;
            const ${ctype} keep = k0 == 0 ? beta : 1;
            for (int row = first_row; row < end_row; row += ${rows}) {
                const int valid = min(${rows}, end_row - row);
                pack_a(a_panel, a_item + row * a_m + k0 * a_k, valid, steps, steps, a_m, a_k);
                int column = first_column;
                for (; column + ${vectors * width} <= end_column; column += ${vectors * width}) {
                    ${strip(ctype, vector, "vector", vectors, **shape)}
                }
% if vectors > 1:
                for (; column + ${width} <= end_column; column += ${width}) {
                    ${strip(ctype, vector, "vector", 1, **shape)}
                }
% endif
                for (; column < end_column; column++) {
                    ${strip(ctype, ctype, ctype, 1, **shape)}
                }
            }
        }
    }
}
</%def>
##
## One block of the result, from `column` on.
<%def name="strip(ctype, type, stored, vectors, rows, lanes, bias)">
% for r in range(rows):
                ${type} ${", ".join(f"acc_{r}_{v} = 0" for v in range(vectors))};
% endfor
                __local const ${ctype} *pa = a_panel;
                __global const ${ctype} *pb = b_item + k0 * b_k + column;
                for (int step = 0; step < steps; step++, pa += ${lanes}, pb += b_k) {
% for v in range(vectors):
                    const ${type} b_${v} = ((__global const ${stored} *)pb)[${v}];
% endfor
% for r in range(rows):
                    const ${type} a_${r} = pa[${r}];
% for v in range(vectors):
% if type == ctype:
                    acc_${r}_${v} += a_${r} * b_${v};
% else:
                    acc_${r}_${v} = multiply_add(a_${r}, b_${v}, acc_${r}_${v});
% endif
% endfor
% endfor
                }
% if bias == "n":
% for v in range(vectors):
                const ${type} bias_${v} = ((__global const ${stored} *)(bias + column))[${v}];
% endfor
% endif
                __global ${ctype} *place = out_item + row * out_m + column;
% for r in range(rows):
                if (${r} < valid) {
% for v in range(vectors):
                    {
                        ${type} z = alpha * acc_${r}_${v};
                        if (keep != 0)
                            z += keep * ((__global const ${stored} *)place)[${v}];
                        if (last) {
% if bias:
                            z += ${(
                                f"bias_{v}" if bias == "n" else f"bias[(row + {r}) * bias_step]")};
% endif
                            z = ${epilogue.activate("least", "z", type)};
                        }
                        ((__global ${stored} *)place)[${v}] = z;
                    }
% endfor
                    place += out_m;
                }
% endfor
</%def>
