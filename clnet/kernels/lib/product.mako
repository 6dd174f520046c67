## lib product: the numbers that describe a matrix product, in two vectors, `strides` and `sizes`
##
## Drivers copy a kernel's arguments one by one at every launch; two vectors cost no more than two
## numbers (PoCL: 25 numbers 3 us).
##
##      sizes      m, n: rows and columns of out;  k: length of the sums;  inner;  further ones
##      strides    out_m, out_n, a_m, a_k, b_k, b_n: of the matrices
##                 out_outer, out_inner, a_outer ...: item z of the batch lies at
##                 z / inner * *_outer + z % inner * *_inner
##                 bias_step: of bias;  out_slice: how far slices of the sums lie apart in out
##
## param further: list        names of what a kernel's sizes hold beside
<%def name="numbers(further)">
<%
    sizes = ["m", "n", "k", "inner", *further]
    strides = [
        "out_m", "out_n", "a_m", "a_k", "b_k", "b_n",
        "out_outer", "out_inner", "a_outer", "a_inner", "b_outer", "b_inner", "bias_step",
        "out_slice",
    ]
%>
    const int ${", ".join(f"{name} = sizes.s{i:x}" for i, name in enumerate(sizes))};
    const long ${", ".join(f"{name} = strides.s{i:x}" for i, name in enumerate(strides))};
</%def>
