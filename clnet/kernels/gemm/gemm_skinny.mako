## kernel gemm_skinny: out = activation(alpha * a @ b + beta * out + bias) for an a of very few rows
##
## Such a product reads b once and is as fast as memory; nothing is packed. One work-item per group:
## gemm_skinny_n runs vectors along n down the rows of b, gemm_skinny_k runs vectors along k over a
## few columns of b at a time and adds up their lanes at the end.
##
## layout   gemm_skinny_n: b_n == 1 and out_n == 1; gemm_skinny_k: a_k == 1 and b_k == 1
## param    ctype: str           element type, and the type of the sums
## param    width: int           lanes of a vector
## param    rows: int            rows, at least m
## param    at_once: int           vectors (n), or columns (k), of each row at a time
## param    bias: None|'m'|'n'   the axis bias lies along
## param    activation: None|str see lib/epilogue.mako
## param    type: str            type of a sum: a vector, or ctype
## param    stored: str          the same at any address
## param    value: str           a sum, an expression
## param    at: str              its (first) column
## param    place: str           where it goes
## param    row: int             its row
## def      gemm_skinny_n, gemm_skinny_k
## arg      strides: long16   see lib/product.mako
## arg      sizes: int16      ... and behind those
##              slices: parts of the sums, computed by groups of their own
##              slice_k: slice s sums k in [s * slice_k, (s + 1) * slice_k)
##              columns: that a group computes
## arg      out: inout ctype  read only where beta != 0
## arg      a: in ctype
## arg      b: in ctype
## % if bias:
## arg      bias: in ctype
## % endif
## arg      alpha: ctype      factor of the product
## arg      beta: ctype       factor of what out holds
## launch   global (column blocks, slices * batch), local (1, 1)
## numerics gemm_skinny_n: sums run over k in order; gemm_skinny_k: `width` sums side by side, added
##          as a tree
<%namespace name="vectors_of" file="/lib/vector.mako"/>
<%namespace name="product" file="/lib/product.mako"/>
<%namespace name="epilogue" file="/lib/epilogue.mako"/>
<%def name="gemm_skinny_n(ctype, width, rows, at_once, bias, activation)">
${vectors_of.types(ctype, width)}
__kernel void gemm_skinny_n(...)
{
    ${begin(bias)}
    for (; column + ${at_once * width} <= end; column += ${at_once * width}) {
        ${strip(ctype, f"{ctype}{width}", "vector", width, rows, at_once, bias, activation)}
    }
    for (; column + ${width} <= end; column += ${width}) {
        ${strip(ctype, f"{ctype}{width}", "vector", width, rows, 1, bias, activation)}
    }
    for (; column < end; column++) {
        ${strip(ctype, ctype, ctype, 1, rows, 1, bias, activation)}
    }
}
</%def>
##
<%def name="gemm_skinny_k(ctype, width, rows, at_once, bias, activation)">
${vectors_of.types(ctype, width)}
inline ${ctype} sum_lanes(const ${ctype}${width} x0)
{
% for level in range(width.bit_length() - 2):
    const ${ctype}${width >> level + 1} x${level + 1} = x${level}.lo + x${level}.hi;
% endfor
    return x${width.bit_length() - 2}.lo + x${width.bit_length() - 2}.hi;
}
__kernel void gemm_skinny_k(...)
{
    ${begin(bias)}
    for (; column < end; column += ${at_once}) {
% for r in range(rows):
        __global const ${ctype} *a_${r} = a + (${r} < m ? ${r} : m - 1) * a_m;
        ${ctype}${width} ${", ".join(f"acc_{r}_{c} = 0" for c in range(at_once))};
% endfor
% for c in range(at_once):
        __global const ${ctype} *b_${c} = b + min(column + ${c}, n - 1) * b_n;
% endfor
        int i = first_k;
        for (; i + ${width} <= end_k; i += ${width}) {
% for c in range(at_once):
            const ${ctype}${width} y_${c} = *(__global const vector *)(b_${c} + i);
% endfor
% for r in range(rows):
            const ${ctype}${width} x_${r} = *(__global const vector *)(a_${r} + i);
% for c in range(at_once):
            acc_${r}_${c} = multiply_add(x_${r}, y_${c}, acc_${r}_${c});
% endfor
% endfor
        }
% for r in range(rows):
% for c in range(at_once):
        if (${r} < m && column + ${c} < end) {
            ${ctype} sum = sum_lanes(acc_${r}_${c});
            for (int tail = i; tail < end_k; tail++)
                sum += a_${r}[tail] * b_${c}[tail];
            const int at = column + ${c};
            ${store(ctype, ctype, "sum", "at", "out + %d * out_m + at * out_n" % r, r, bias,
                activation)}
        }
% endfor
% endfor
    }
}
</%def>
##
<%def name="begin(bias)">
${product.numbers(["slices", "slice_k", "columns"])}
    const int slice = get_global_id(1) % slices, item = get_global_id(1) / slices;
    out += out_offset + item / inner * out_outer + item % inner * out_inner + slice * out_slice;
    a += a_offset + item / inner * a_outer + item % inner * a_inner;
    b += b_offset + item / inner * b_outer + item % inner * b_inner;
% if bias:
    bias += bias_offset;
% endif
    const int first_k = slice * slice_k, end_k = min(k, first_k + slice_k);
    int column = get_global_id(0) * columns;
    const int end = min(n, column + columns);
</%def>
##
<%def name="strip(ctype, type, stored, width, rows, at_once, bias, activation)">
% for r in range(rows):
        __global const ${ctype} *a_${r} = a + (${r} < m ? ${r} : m - 1) * a_m;
        ${type} ${", ".join(f"acc_{r}_{v} = 0" for v in range(at_once))};
% endfor
        for (int i = first_k; i < end_k; i++) {
            __global const ${stored} *row = (__global const ${stored} *)(b + i * b_k + column);
% for r in range(rows):
            const ${type} x_${r} = a_${r}[i * a_k];
% endfor
% for v in range(at_once):
            const ${type} y_${v} = row[${v}];
% for r in range(rows):
% if type == ctype:
            acc_${r}_${v} += x_${r} * y_${v};
% else:
            acc_${r}_${v} = multiply_add(x_${r}, y_${v}, acc_${r}_${v});
% endif
% endfor
% endfor
        }
% for r in range(rows):
        if (${r} < m) {
% for v in range(at_once):
            {
                const int at = column + ${v * width};
                __global ${stored} *place = (__global ${stored} *)(out + ${r} * out_m + at);
                ${store(ctype, type, f"acc_{r}_{v}", "at", "place", r, bias, activation)}
            }
% endfor
        }
% endfor
</%def>
##
<%def name="store(ctype, type, value, at, place, row, bias, activation)">
${type} z = alpha * ${value};
            if (beta != 0)
                z += beta * *(${place});
% if bias == "m":
            z += bias[${row} * bias_step];
% elif bias == "n" and type == ctype:
            z += bias[${at} * bias_step];
% elif bias == "n":
% for lane in range(int(type.removeprefix(ctype))):
            z.s${"%x" % lane} += bias[(${at} + ${lane}) * bias_step];
% endfor
% endif
            *(${place}) = ${epilogue.activate(activation, "z", type)};
</%def>
