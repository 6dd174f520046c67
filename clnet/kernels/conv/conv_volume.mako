## kernel conv_volume: convolution of volumes on padded planes, and its input gradient
##
## As conv_direct, whose planes and names these are: a plane for each channel, depth and phase. What
## a depth of the result adds up comes from the planes of those depths that its taps see, which are
## (depth * step + begin + tap * gap) / phases, where that is a depth.
##
## math     y[n, o, d] = sum over taps in depth, c, taps of weight * shifted plane + bias[o]
## math     gw[o, c, tap] (+)= sum over volumes, depths, pixels of gy[o] * shifted plane
##
## param    ctype: str               OpenCL element type
## param    simd: 2|4|8|16           lanes of a vector
## param    rows: int                output channels (weight gradient: rows of taps) of a tile
## param    vectors: int             vectors of pixels (weight gradient: of channels) of a tile
## param    channels: int            input channels of a register tile (weight gradient)
## param    strip: int               pixels of the sums kept between computing and writing
## param    taps: tuple              rows and columns of the filter that count
## param    reach: 1|-1|2|0          pixels between tap columns; 2: one, of 2 phases; 0: arguments
## param    dense: bool              whether the taps that count are all that a filter has
## param    spread: bool             whether y_step is not 1
## param    columns: int             columns of the filter (weight gradient)
## param    along: 0|1               pixels from a column's to the next one's; 0: by arguments
##
## def      conv_volume
## arg      y: out ctype[volumes][groups * outs][depths][y_plane]
## arg      planes: in ctype[volumes][groups * ins][x_depths][phases][plane]
## arg      weight: in ctype                  strided by w_group, w_out, w_in, w_deep and a tap's
## arg      offsets: in ctype[groups * outs]  the bias; any array when there is none
## arg      biased: int                       whether there is a bias
## arg      first: int                        elements of the planes before the first tap
## arg      down: int                         pixels from a tap row's to the next one's
## arg      right: int                        pixels from a tap column's to the next one's
## arg      tall: int                         vertical plane phases that a row of pixels is apart
## arg      thin: int                         horizontal ones that a column is apart
## arg      wide: int                         plane phases per vertical phase
## arg      groups: int                       groups of channels
## arg      outs: int                         output channels of a group
## arg      ins: int                          input channels of a group
## arg      images_first: int                 1: neighbouring work-groups share filters, 0: a depth
## arg      pitch: int                        columns of a plane
## arg      plane: int                        elements of a plane
## arg      ins_step: int                     elements between the channels of the planes
## arg      strip_height: int                 output rows of a work-group
## arg      y_height: int                     output rows
## arg      y_width: int                      output columns
## arg      y_start: int                      element of a y plane that the first pixel goes to
## arg      y_step: int                       elements between a row's pixels in y
## arg      y_pitch: int                      elements between the output rows in y
## arg      y_plane: int                      elements of a y plane
## arg      w_group: int                      elements between the groups of the filters
## arg      w_out: int                        elements between the output channels
## arg      w_in: int                         elements between the input channels
## arg      w_first: int                      elements of a filter before the first tap
## arg      w_down: int                       elements between the rows of taps
## arg      w_right: int                      elements between the columns of taps
## arg      depths: int                       of y
## arg      x_depths: int                     of what is read
## arg      step, begin, gap, phases: int     which depths taps see
## arg      kd: int                           taps in depth
## arg      w_deep: int                       elements of a filter between them
## arg      x_deep: int                       elements of the planes from depth to depth
##
## def      conv_volume_weight
## arg      gw: inout ctype[slices][groups * outs][ins][kd][kh][kw]
## arg      planes: in ctype[volumes][groups * ins][d][phases][plane]
## arg      packed: in ctype                  gy as conv_pack_channels writes it
## arg      volumes: int                      volumes
## arg      groups: int                       groups of channels
## arg      outs: int                         output channels of a group
## arg      ins: int                          input channels of a group
## arg      pitch: int                        columns of a plane
## arg      plane: int                        elements of a plane
## arg      ins_step: int                     elements between the channels of the planes
## arg      oh: int                           output rows
## arg      ow: int                           output columns
## arg      kh: int                           rows of the filter
## arg      sh: int                           vertical stride
## arg      dh: int                           vertical dilation
## arg      sw: int                           horizontal stride
## arg      dw: int                           horizontal dilation
## arg      wide: int                         plane phases per vertical phase
## arg      x_deep: int                       elements of the planes from depth to depth
## arg      d, kd, od: int                    depths of x, of a filter and of y
## arg      sd, pd, dd: int                   stride, padding and dilation in depth
## arg      slices: int                       parts of the volumes that are summed apart
## arg      accumulate: int                   1: add to gw, 0: overwrite it
##
## launch   one work-item per group; global sizes in conv_volume.py
## numerics one chain of multiply_add per output, in the order depth's tap, channel, tap (the weight
##          gradient: volume, depth, row, column); chunks of volumes are added in order
<%namespace name="vectors_of" file="/lib/vector.mako"/>
<%namespace name="shifted" file="/lib/shifted_planes.mako"/>
<%def name="conv_volume(
    ctype, simd, rows, vectors, strip, taps, reach, dense, spread)">
<% v, (tap_rows, tap_columns) = f"{ctype}{simd}", taps %>
${vectors_of.types(ctype, simd)}
__attribute__((reqd_work_group_size(1, 1, 1)))
__kernel void conv_volume(...)
{
    __local ${ctype} sums[${rows * strip}] __attribute__((aligned(64)));
    const int x_group = get_group_id(0), z_group = get_group_id(2);
    const int image = images_first ? x_group : z_group;
    const int volume = image / depths, depth = image % depths;
    const int blocks = (outs + ${rows - 1}) / ${rows};
    const int group = (images_first ? z_group : x_group) / blocks;
    const int block = (images_first ? z_group : x_group) % blocks;
    /* the last block begins early so as to be whole, and writes only what is its own */
    const int block_begin = min(block * ${rows}, outs - ${rows});
    const int row = get_group_id(1) * strip_height;
    const int height = min(strip_height, y_height - row);
    const long channel = (long)volume * groups + group;
    planes += planes_offset + channel * ins * ins_step + (long)row * pitch;
    weight += weight_offset + (long)group * w_group + (long)block_begin * w_out + w_first;
    ${shifted.places(taps, reach)}
    for (int t = 0; t < height * pitch; t += ${simd * vectors}) {
% for i in range(rows):
        ${v} ${", ".join(f"c{i}_{j} = 0" for j in range(vectors))};
% endfor
% if tap_rows * tap_columns:
        for (int deep = 0, at = depth * step + begin; deep < kd; deep++, at += gap) {
            if (at < 0 || at % phases || at / phases >= x_depths)
                continue;
            __global const ${ctype} *restrict x = planes + (long)(at / phases) * x_deep + t;
            __global const ${ctype} *restrict f = weight + deep * w_deep;
            ${shifted.add(v, rows, vectors, taps, reach, dense)}
        }
% endif
% for i in range(rows):
% for j in range(vectors):
        ((__local vector *)(sums + ${i * strip} + t))[${j}] = c${i}_${j};
% endfor
% endfor
    }

    const long out = channel * outs, y_channel = (long)depths * y_plane;
    y += y_offset + y_start + (long)row * y_pitch + (long)depth * y_plane;
    for (int i = block * ${rows} - block_begin; i < ${rows}; i++) {
        const ${ctype} offset =
            biased ? offsets[offsets_offset + group * outs + block_begin + i] : (${ctype})0;
        __global ${ctype} *restrict to = y + (out + block_begin + i) * y_channel;
        __local const ${ctype} *restrict from = sums + i * ${strip};
        for (int h = 0; h < height; h++, to += y_pitch, from += pitch)
            for (int j = 0; j < y_width; j++)
                to[j${" * y_step" if spread else ""}] = from[j] + offset;
    }
}
</%def>
<%def name="conv_volume_weight(ctype, simd, vectors, channels, rows, columns, along)">
<% v, width, kw = f"{ctype}{simd}", simd * vectors, columns %>
${vectors_of.types(ctype, simd)}
__attribute__((reqd_work_group_size(1, 1, 1)))
__kernel void conv_volume_weight(...)
{
    const int blocks = (outs + ${width - 1}) / ${width};
    const int block = get_group_id(0) % blocks;
    const int group = get_group_id(2) % groups, slice = get_group_id(2) / groups;
    const int channel = get_group_id(0) / blocks * ${channels};
    const int deep = get_group_id(1) % kd, tap_row = get_group_id(1) / kd * ${rows};
    const int gradients = blocks * od * oh * ow * ${vectors};
    packed += packed_offset;
    planes += planes_offset + (long)group * ins * ins_step;
% for s in range(0 if along else columns):
    const int x${s} = ${s} * dw % sw * plane + ${s} * dw / sw;
% endfor
    /* a channel or row beyond the last repeats the last, and is not written */
% for c in range(channels):
% for r in range(rows):
    const int row${r}_${c} = min(tap_row + ${r}, kh - 1) * dh;
    __global const ${ctype} *restrict x${c}_${r} =
        planes + (long)min(channel + ${c}, ins - 1) * ins_step
        + (long)(row${r}_${c} % sh * wide) * plane + row${r}_${c} / sh * pitch;
    ${v} ${", ".join(f"a{c}_{r}_{s}_{j} = 0" for s in range(kw) for j in range(vectors))};
% endfor
% endfor
    const int slice_volumes = (volumes + slices - 1) / slices;
    const int last = min(volumes, (slice + 1) * slice_volumes);
    for (int n = slice * slice_volumes; n < last; n++) {
        __global const vector *restrict of_volume = (__global const vector *)packed
            + ((long)n * groups + group) * gradients + (long)block * od * oh * ow * ${vectors};
        for (int depth = 0; depth < od; depth++) {
            const int at = depth * sd - pd + deep * dd;
            if (at < 0 || at >= d)
                continue;
            __global const vector *restrict g = of_volume + (long)depth * oh * ow * ${vectors};
            const long image = (long)n * groups * ins * ins_step + (long)at * x_deep;
            for (int i = 0; i < oh; i++) {
                const long row = image + (long)i * pitch;
                for (int j = 0; j < ow; j++, g += ${vectors}) {
% for k in range(vectors):
                    const ${v} g${k} = g[${k}];
% endfor
% for c in range(channels):
% for r in range(rows):
% for s in range(columns):
                    {
                        const ${v} b = x${c}_${r}[row + j + ${s if along else f"x{s}"}];
% for k in range(vectors):
                        a${c}_${r}_${s}_${k} = multiply_add(g${k}, b, a${c}_${r}_${s}_${k});
% endfor
                    }
% endfor
% endfor
% endfor
                }
            }
        }
    }

    __local ${ctype} sums[${width}] __attribute__((aligned(64)));
    const int valid = min(${width}, outs - block * ${width}), filter = ins * kd * kh * ${kw};
    gw += gw_offset + (((long)slice * groups + group) * outs + block * ${width}) * filter;
% for c in range(channels):
% for r in range(rows):
    if (channel + ${c} < ins && tap_row + ${r} < kh) {
% for s in range(kw):
        {
% for k in range(vectors):
            ((__local vector *)sums)[${k}] = a${c}_${r}_${s}_${k};
% endfor
            __global ${ctype} *to =
                gw + (((channel + ${c}) * kd + deep) * kh + tap_row + ${r}) * ${kw} + ${s};
            for (int o = 0; o < valid; o++, to += filter) *to =
                accumulate ? *to + sums[o] : sums[o];
        }
% endfor
    }
% endfor
% endfor
}
</%def>
