## lib grouped: which channels a block of results of a grouped convolution reads
##
## The kernels are conv_blocked_grouped and conv_blocked_grouped_weight, whose names these parts
## use.
##
## param  width: 4|8|16            channels of a block
## param  own: int                 channels of a group, if a block holds several; else 0
## param  channel: int             of a group
## param  place: str               where a vector of x lies
##
## Which blocks of x a block reads, and where the first channel lies in the first of them.
<%def name="channels_read(width, own)">
% if own:
    const int low_block = block, blocks_read = 1;
% else:
    const int low_channel = block * ${width} / made * read;
    const int low_block = low_channel / ${width}, low_lane = low_channel % ${width};
    const int blocks_read = (low_lane + read + ${width - 1}) / ${width};
% endif
</%def>
##
## The lanes of the vector at `place` that hold each lane's channel of its own group.
<%def name="own_lanes(width, own, channel, place)">
<% lanes = "".join(map("{:x}".format, (n for g in range(0, width, own) for n in [g + channel] * own))) %>
(*(__local const vector *)(${place})).s${lanes}
</%def>
