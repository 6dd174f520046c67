## kernel gemm_summed: out = activation(alpha * (partial[0] + partial[1] + ...) + beta * out + bias)
##
## Sums in float of slices of k become a product's result of any dtype of matrix units.
##
## layout   out: any strides; partial: dense
## param    ctype: 'half'|'bfloat16'|'float'  element type of out
## param    out_dense: bool      runs of out along n are dense, aligned, and cross no edge
## param    run: int             neighbouring columns of an item
## param    bias: None|'m'|'n'   the axis bias lies along
## param    activation: None|str see lib/epilogue.mako
## param    by_ptx: bool         the compiler takes PTX
## arg      m: int
## arg      n: int
## arg      batch: int
## arg      slices: int
## arg      out: inout ctype     read only where beta != 0
## arg      partial: in float[slices][batch][m][n]
## % if bias:
## arg      bias: in ctype
## arg      bias_step: long      its stride
## % endif
## arg      alpha: float         factor of the sums
## arg      beta: float          factor of what out holds
## arg      out_m, out_n: long   strides
## arg      inner: int           batch item z of out lies at z / inner * out_outer + z % inner *
##                               out_inner
## arg      out_outer, out_inner: long
## launch   one item per run of a row
## numerics slices are added in order, in float
<%namespace name="sums_of" file="/lib/matrix_sums.mako"/>
<%def name="gemm_summed(ctype, out_dense, run, bias, activation, by_ptx)">
<% element = "float" if ctype == "float" else "ushort" %>
${sums_of.elements(ctype, element, by_ptx)}
${sums_of.stored(ctype, element, out_dense, bias, activation, run)}
__kernel void gemm_summed(...)
{
    const int runs = (n + ${run - 1}) / ${run};
    const int self = get_global_id(0);
    if (self >= batch * m * runs)
        return;
    const int column = self % runs * ${run}, row = self / runs % m, item = self / runs / m;
    const long apart = (long)batch * m * n;
    __global const float *from = partial + partial_offset + ((long)item * m + row) * n + column;
    float sums[${run}];
% for e in range(run):
    sums[${e}] = column + ${e} < n ? from[${e}] : 0;
% endfor
    for (int slice = 1; slice < slices; slice++) {
        from += apart;
% for e in range(run):
        sums[${e}] += column + ${e} < n ? from[${e}] : 0;
% endfor
    }
    store_sums((__global ${element} *)out + out_offset + item / inner * out_outer
        + item % inner * out_inner + row * out_m + column * out_n,
        ${", ".join(f"sums[{e}]" for e in range(run))}, n - column, out_n, alpha, beta
        ${", (__global const %s *)bias + bias_offset + %s * bias_step, bias_step" % (
            element, "row" if bias == "m" else "column") if bias else ""});
}
</%def>
