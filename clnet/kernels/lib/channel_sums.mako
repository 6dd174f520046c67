## lib channel_sums: what normalisations store of a channel's two sums
##
## param channel: str                the channel, an expression
## param acc: str                    type of statistics
## param track: str                  "", or what running statistics become, as norm.mako says
## param centre: str                 its mean
## param squares: str                sum of squared distances to it
## param sums: str                   sum gy
## param products: str               sum gy (x - mean)
##
## They use the including kernel's total, eps, mean, invstd, var or what is tracked instead, or
## gweight, gbias, invstd, whose offsets it has added.
<%def name="statistics(channel, centre, squares, acc, track)">
    mean[${channel}] = ${centre};
    invstd[${channel}] = 1 / sqrt(${squares} / total + eps);
% if not track:
    var[${channel}] = ${squares} / (total - 1);
% else:
    {
        /* As pointwise kernels compute, which move them in compiled functions. */
        #pragma OPENCL FP_CONTRACT OFF
        __global ${acc} *to_mean = running_mean + ${channel};
        __global ${acc} *to_var = running_var + ${channel};
        /* As they are in memory: NVIDIA's compiler joins a quotient with the difference behind. */
        const ${acc} centre = *(volatile __global ${acc} *)(mean + ${channel}), before = *to_var;
        *(volatile __global ${acc} *)to_var = ${squares} / (total - 1);
        const ${acc} spread = *(volatile __global ${acc} *)to_var;
% if track == "average":
        const ${acc} seen = *batches;
        *to_mean += (centre - *to_mean) / seen;
        *to_var = before + (spread - before) / seen;
% else:
        *to_mean += momentum * (centre - *to_mean);
        *to_var = before + momentum * (spread - before);
% endif
% if track == "count":
        if (${channel} == 0)
            *batches += 1;
% endif
    }
% endif
</%def>
<%def name="slopes(channel, sums, products)">
    gbias[${channel}] = ${sums};
    gweight[${channel}] = ${products} * invstd[${channel}];
</%def>
