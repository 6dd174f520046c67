## lib shifted_planes: sums of shifted planes, weighted by the taps of filters
##
## Names of the kernel around it: `first down right tall thin wide plane pitch` say where taps read,
## `ins ins_step w_out w_in w_down w_right` where channels and filters lie; `x` and `f` are at the
## first channel's.
##
## param    v: str           vector of pixels, C type
## param    rows: int        output channels of a tile
## param    vectors: int     vectors of pixels of a tile
## param    taps: tuple      rows and columns of the filter that count
## param    reach: 1|-1|2|0  pixels between tap columns; 2: one, of 2 phases; 0: arguments
## param    dense: bool      whether the taps that count are all that a filter has
##
## Where rows of taps read, and columns. Stride and dilation are arguments: a kernel with them in
## its text is one for each.
<%def name="places(taps, reach)">
% if taps[0] > 1:
    int row_at[${taps[0]}];
    for (int k = 0; k < ${taps[0]}; k++)
        row_at[k] = first + k * down % tall * wide * plane + k * down / tall * pitch;
% endif
% if not reach:
    int column_at[${taps[1]}];
    for (int s = 0; s < ${taps[1]}; s++)
        column_at[s] = s * right % thin * plane + s * right / thin;
% endif
</%def>
##
## What all channels add to the sums c<row>_<vector>.
<%def name="add(v, rows, vectors, taps, reach, dense)">
<%
    ctype, (tap_rows, tap_columns) = v.rstrip("0123456789"), taps
    # Of many taps written out LLVM mixes the products, and has no registers left for what it loads
    # (8x8: 18 and 45 GMAC/s); of hundreds it also looks back from each load to the first.
    many, several, beside = tap_rows > 1, tap_columns > 7, 2 - tap_columns % 2
    beside = 3 if tap_columns % 3 == 0 else 4 if tap_columns % 4 == 0 else beside
    tap = "{0} * %d + {1}" % tap_columns if dense else "{0} * w_down + {1} * w_right"
    columns = {0: "column_at[{0}]", 1: "{0}", -1: "-{0}", 2: "{0} % 2 * plane + {0} / 2"}[reach]
%>
        for (int c = 0; c < ins; c++, x += ins_step, f += w_in) {
            ${f"for (int k = 0; k < {tap_rows}; k++)" if many else ""} {
                __global const ${ctype} *restrict xr = x + ${"row_at[k]" if many else "first"};
                ${f"for (int s = 0; s < {tap_columns}; s += {beside})" if several else ""} {
% for s in [f"(s + {i})" for i in range(beside)] if several else range(tap_columns):
                {
                    __global const ${ctype} *restrict xs = xr + ${columns.format(s)};
% for j in range(vectors):
                    const ${v} b${j} = ((__global const vector *)xs)[${j}];
% endfor
% for i in range(rows):
                    {
                        const ${v} a = f[${i} * w_out + ${tap.format("k" if many else 0, s)}];
% for j in range(vectors):
                        c${i}_${j} = multiply_add(a, b${j}, c${i}_${j});
% endfor
                    }
% endfor
                }
% endfor
                }
            }
        }
</%def>
