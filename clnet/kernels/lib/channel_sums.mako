## lib channel_sums: what normalisations store of a channel's two sums
##
## param channel: str                the channel, an expression
## param centre: str                 its mean
## param squares: str                sum of squared distances to it
## param sums: str                   sum gy
## param products: str               sum gy (x - mean)
##
## They use the including kernel's total, eps, mean, invstd, var, or gweight, gbias, invstd, whose
## offsets it has added.
<%def name="statistics(channel, centre, squares)">
    mean[${channel}] = ${centre};
    invstd[${channel}] = 1 / sqrt(${squares} / total + eps);
    var[${channel}] = ${squares} / (total - 1);
</%def>
<%def name="slopes(channel, sums, products)">
    gbias[${channel}] = ${sums};
    gweight[${channel}] = ${products} * invstd[${channel}];
</%def>
