## lib grouped: which channels a block of results of a grouped convolution reads
##
## The kernels are conv_blocked_grouped and conv_blocked_grouped_weight, whose names these parts
## use.
##
## param  width: 4|8|16            channels of a block
## param  own: tuple               lanes that read each channel of a group, as in .s0022 of vectors,
##                                 if a block holds several groups; else ()
## param  channel: int             of a group
## param  place: str               where a vector of x lies
##
## Which blocks of x a block reads.
<%def name="channels_read(width, own)">
% if own:
    const int low_block = block, blocks_read = 1;
% else:
    const int blocks_read = read / ${width}, low_block = block * ${width} / made * blocks_read;
% endif
</%def>
##
## The lanes of the vector at `place` that hold each lane's channel of its own group.
<%def name="own_lanes(own, channel, place)">
(*(__local const vector *)(${place})).s${own[channel]}
</%def>
