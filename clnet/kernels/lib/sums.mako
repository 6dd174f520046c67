## lib sums: how the sums of a register block go to memory, as alpha * sums + keep * out, then bias
##
## They need lib/vector.mako's types. Sums lie in registers `acc_<row>_<vector>`. Where `last` is
## not 0, bias is added, and what is less than `least` becomes 0: so one text serves bare products
## and those with a bias, with and without an activation.
##
## param ctype: str           element type
## param width: int           lanes of a vector
## param rows: int            rows of the register block
## param vectors: int         vectors in a row
## param vector_type: str     of width lanes
## param bias: None|'m'|'n'   the axis bias lies along
## param stream: bool         past the caches
<%namespace name="epilogue" file="epilogue.mako"/>
##
## A whole block of sums goes to memory as it is.
<%def name="store_registers(rows, vectors, width, vector_type, bias, stream)">
if (alpha != 1) {
% for r in range(rows):
% for v in range(vectors):
                        acc_${r}_${v} *= alpha;
% endfor
% endfor
                    }
                    if (keep != 0) {
% for r in range(rows):
% for v in range(vectors):
                        acc_${r}_${v} +=
                            keep * ((__global const vector *)(corner + ${r} * out_m))[${v}];
% endfor
% endfor
                    }
                    if (last) {
% if bias == "n":
% for v in range(vectors):
                        const ${vector_type} bias_${v} =
                            ((__global const vector *)(bias + column))[${v}];
% endfor
% endif
% for r in range(rows):
% if bias == "m":
                        const ${vector_type} bias_${r} = bias[(row + ${r}) * bias_step];
% endif
% for v in range(vectors):
% if bias:
                        acc_${r}_${v} += bias_${v if bias == "n" else r};
% endif
                        acc_${r}_${v} = ${epilogue.activate("least", f"acc_{r}_{v}",
                            vector_type)};
% endfor
% endfor
                    }
% for r in range(rows):
% for v in range(vectors):
% if stream:
                    stream(acc_${r}_${v},
                        (__global ${vector_type} *)(corner + ${r} * out_m) + ${v});
% else:
                    ((__global vector *)(corner + ${r} * out_m))[${v}] = acc_${r}_${v};
% endif
% endfor
% endfor
</%def>
##
## Registers cannot be indexed, so the sums of a block on an edge go through `tile` to the rows that
## exist.
<%def name="store_tile(ctype, width, vectors, bias)">
<%
    columns = vectors * width
    vector_type = f"{ctype}{width}"
    vector_bias = {
        None: "0", "m": "bias[r * bias_step]", "n": "*(__global const vector *)(bias + c)"}[bias]
    scalar_bias = {None: "0", "m": "bias[r * bias_step]", "n": "bias[c * bias_step]"}[bias]
%>
inline void store_tile(
    __global ${ctype} *restrict out, const ${ctype} *restrict tile, const int valid_rows,
        const int valid_columns,
    const long out_m, const long out_n, const ${ctype} alpha, const ${ctype} keep, const int last,
    const ${ctype} least
    ${", __global const %s *restrict bias, const long bias_step" % ctype if bias else ""})
{
    const int dense = out_n == 1${" && bias_step == 1" if bias == "n" else ""};
    for (int r = 0; r < valid_rows; r++, out += out_m) {
        int c = 0;
        for (; dense && c + ${width} <= valid_columns; c += ${width}) {
            ${vector_type} x = alpha * *(const vector *)(tile + r * ${columns} + c);
            if (keep != 0)
                x += keep * *(__global const vector *)(out + c);
            if (last) {
% if bias:
                x += ${vector_bias};
% endif
                x = ${epilogue.activate("least", "x", vector_type)};
            }
            *(__global vector *)(out + c) = x;
        }
        for (; c < valid_columns; c++) {
            ${ctype} x = alpha * tile[r * ${columns} + c];
            if (keep != 0)
                x += keep * out[c * out_n];
            if (last) {
% if bias:
                x += ${scalar_bias};
% endif
                x = ${epilogue.activate("least", "x", ctype)};
            }
            out[c * out_n] = x;
        }
    }
}
</%def>
