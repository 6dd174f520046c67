## kernel gemm_pack: panels of b for gemm_packed, which reads each of them many times
##
##      panels[item][panel][k padded][columns]
##
## layout   b: any strides; fast where one is 1
## param    ctype: str           element type
## param    width: int           lanes of a vector
## param    vectors: int         vectors in a row of a panel
## param    unroll: int          what the steps of k in a panel are padded to
## param    stream: bool         panels go past the caches, in whole lines
## arg      n: int                       columns of b
## arg      k: int                       rows of b
## arg      panels: out ctype            panels[item][panel][k padded][columns]
## arg      source: in ctype             b
## arg      b_k, b_n: long
## arg      inner: int                   batch item z lies at z / inner * b_outer + z % inner *
##                                       b_inner
## arg      b_outer, b_inner: long
## arg      column_panels: int           panels that a group packs
## arg      chunk_k: int                 steps of k that a group packs
## arg      padded_k: int                steps of k in a panel
## arg      tickets: out int, may alias  set to 0, as gemm_packed wants it
## launch   global (column blocks, chunks of k, batch), local (1, 1, 1)
## numerics copies
<%namespace name="vectors_of" file="/lib/vector.mako"/>
<%namespace name="panel" file="/lib/panel.mako"/>
<%namespace name="prelude" file="/lib/prelude.mako"/>
<%def name="gemm_pack(ctype, width, vectors, unroll, stream)">
${vectors_of.types(ctype, width)}
${vectors_of.zip(ctype, width)}
% if stream:
${prelude.stream(ctype, width)}
% endif
${panel.pack("pack_b", ctype, width, vectors * width, "__global", "stream" if stream else "")}
__kernel void gemm_pack(...)
{
    const int item = get_global_id(2), all = (n + ${vectors * width - 1}) / ${vectors * width};
    panels += panels_offset + (long)item * all * padded_k * ${vectors * width};
    if (get_global_id(0) == 0 && get_global_id(1) == 0 && item == 0)
        tickets[tickets_offset] = 0;
    source += source_offset + item / inner * b_outer + item % inner * b_inner;
    const int first = get_global_id(0) * column_panels, k0 = get_global_id(1) * chunk_k;
    const int steps = min(chunk_k, k - k0),
        padded = (steps + ${unroll - 1}) / ${unroll} * ${unroll};
    for (int p = first; p < min(all, first + column_panels); p++) {
        const int column = p * ${vectors * width};
        pack_b(
            panels + ((long)p * padded_k + k0) * ${vectors * width},
                source + column * b_n + k0 * b_k,
            min(${vectors * width}, n - column), steps, padded, b_n, b_k);
    }
}
</%def>
