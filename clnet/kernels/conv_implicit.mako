## kernel conv_implicit: convolution as a matrix product whose columns are gathered, never stored
##
## A group of work-items computes a tile of tile_m x tile_n results. It brings tile_k steps of both
## operands into local memory at a time; each work-item keeps thread_m x thread_n sums in registers,
## strided by the threads of the group so that neighbours read neighbouring columns.
##
##     direction   m                n                 k                 a (m, k)    b (k, n)
##     forward     output channel   image, oh, ow     channel, r, s     weight      x, gathered
##     input       input channel    image, h, w       channel, r, s     weight      gy, gathered
##     weight      output channel   channel, r, s     image, oh, ow     gy          x, gathered
##
## math     as in conv_depthwise.mako
## param    ctype: str            OpenCL element type
## param    direction: str        forward, input or weight
## param    kh: int               rows of the filter
## param    kw: int               columns of the filter
## param    sh: int               vertical stride
## param    sw: int               horizontal stride
## param    dh: int               vertical dilation
## param    dw: int               horizontal dilation
## param    tile_m: int           rows of a group's tile
## param    tile_n: int           columns of a group's tile
## param    tile_k: int           steps of k in local memory
## param    thread_m: int         rows of a work-item's sums
## param    thread_n: int         columns of a work-item's sums
## param    taps: int             elements of one channel of a filter
## param    bias: bool            whether there is a bias
## param    activation: str|None  applied last
## param    group_size: int       work-items of a group (conv_implicit_sum)
##
## def      conv_implicit
## arg      out: out ctype       y (n, oc, oh, ow), gx (n, ic, h, w) or gw (slices, oc, icg, kh, kw)
## arg      dense: in ctype       weight (oc, icg, kh, kw), or gy for the weight gradient
## arg      sparse: in ctype      what is gathered: x, or gy for the input gradient
## arg      offsets: in ctype[oc] the bias; any array when there is none
## arg      n: int                images
## arg      groups: int           groups of channels
## arg      icg: int              input channels of a group
## arg      ocg: int              output channels of a group
## arg      h: int                height of x
## arg      w: int                width of x
## arg      oh: int               height of y
## arg      ow: int               width of y
## arg      ph: int               padding above
## arg      pw: int               padding on the left
## arg      slices: int           parts of k that groups of work-items sum apart
## arg      slice_k: int          steps of k in a slice, a multiple of tile_k
##
## def      conv_implicit_sum
## arg      gw: out ctype[size]
## arg      parts: in ctype[slices][size]
## arg      size: int             elements of gw
## arg      slices: int           parts
##
## launch   global (tiles of n * threads, tiles of m, groups * slices), local (threads, 1, 1) with
##          threads = tile_m * tile_n / (thread_m * thread_n)
## numerics one chain per result in the order of k; slices are added in order
<%namespace name="epilogue" file="lib/epilogue.mako"/>
<%def name="conv_implicit(
    ctype, direction, kh, kw, sh, sw, dh, dw, tile_m, tile_n, tile_k, thread_m, thread_n, bias,
    activation)">
<%
    threads_m, threads_n = tile_m // thread_m, tile_n // thread_n
    threads = threads_m * threads_n
    taps = kh * kw
    loads_a, loads_b = tile_m * tile_k // threads, tile_n * tile_k // threads
%>
__attribute__((reqd_work_group_size(${threads}, 1, 1)))
__kernel void conv_implicit(
    __global ${ctype} *restrict out, const long out_offset,
    __global const ${ctype} *restrict dense, const long dense_offset,
    __global const ${ctype} *restrict sparse, const long sparse_offset,
    __global const ${ctype} *restrict offsets, const long offsets_offset,
    const int n, const int groups, const int icg, const int ocg,
    const int h, const int w, const int oh, const int ow, const int ph, const int pw,
    const int slices, const int slice_k)
{
    /* a is padded by a column: its rows are written by neighbours */
    __local ${ctype} tile_a[${tile_k}][${tile_m + 1}];
    __local ${ctype} tile_b[${tile_k}][${tile_n}];
    const int item = get_local_id(0);
    const int thread_m = item / ${threads_n}, thread_n = item % ${threads_n};
    const int first_m = get_group_id(1) * ${tile_m}, first_n = get_group_id(0) * ${tile_n};
    const int group = get_group_id(2) % groups, slice = get_group_id(2) / groups;
% if direction == "forward":
    const int end_m = ocg, end_n = n * oh * ow, end_k = icg * ${taps};
% elif direction == "input":
    const int end_m = icg, end_n = n * h * w, end_k = ocg * ${taps};
% else:
    const int end_m = ocg, end_n = icg * ${taps}, end_k = n * oh * ow;
% endif
    dense += dense_offset;
    sparse += sparse_offset;
    const int last_k = min(end_k, (slice + 1) * slice_k);
    ${ctype} sums[${thread_m}][${thread_n}];
    for (int i = 0; i < ${thread_m}; i++)
        for (int j = 0; j < ${thread_n}; j++) sums[i][j] = 0;

    /* a work-item gathers one column of b: its place in the image is computed once */
    const int column = first_n + item % ${tile_n};
    ${column_place(direction, kw, sh, sw, dh, dw, taps)}
    for (int first_k = slice * slice_k; first_k < last_k; first_k += ${tile_k}) {
        for (int load = 0; load < ${loads_a}; load++) {
            const int at = load * ${threads} + item;
            const int k = first_k + at % ${tile_k}, m = first_m + at / ${tile_k};
            tile_a[at % ${tile_k}][at / ${tile_k}] = m < end_m && k < last_k ? ${element_a(direction, taps)} : 0;
        }
        for (int load = 0; load < ${loads_b}; load++) {
            const int row = load * ${threads // tile_n} + item / ${tile_n};
            const int k = first_k + row;
            ${ctype} value = 0;
            if (column < end_n && k < last_k) {
                ${gather_b(direction, kw, sh, sw, dh, dw, taps)}
            }
            tile_b[row][item % ${tile_n}] = value;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int k = 0; k < ${tile_k}; k++) {
            ${ctype} a[${thread_m}], b[${thread_n}];
            for (int i = 0; i < ${thread_m}; i++) a[i] = tile_a[k][thread_m + i * ${threads_m}];
            for (int j = 0; j < ${thread_n}; j++) b[j] = tile_b[k][thread_n + j * ${threads_n}];
            for (int i = 0; i < ${thread_m}; i++)
                for (int j = 0; j < ${thread_n}; j++) sums[i][j] += a[i] * b[j];
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }

    out += out_offset;
    for (int j = 0; j < ${thread_n}; j++) {
        const int n_at = first_n + thread_n + j * ${threads_n};
        if (n_at >= end_n) continue;
        for (int i = 0; i < ${thread_m}; i++) {
            const int m = first_m + thread_m + i * ${threads_m};
            if (m >= end_m) continue;
% if direction == "weight":
            out[(((long)slice * groups + group) * ocg + m) * end_n + n_at] = sums[i][j];
% else:
            const int pixels = ${"oh * ow" if direction == "forward" else "h * w"};
            const long at = (((long)(n_at / pixels) * groups + group) * end_m + m) * pixels + n_at % pixels;
% if bias:
            sums[i][j] += offsets[offsets_offset + group * ocg + m];
% endif
            out[at] = ${epilogue.activate(activation, "sums[i][j]", ctype)};
% endif
        }
    }
}
</%def>
<%def name="column_place(direction, kw, sh, sw, dh, dw, taps)">
% if direction == "forward":
const int image = column / (oh * ow), pixel = column % (oh * ow);
    const int top = pixel / ow * ${sh} - ph, left = pixel % ow * ${sw} - pw;
    sparse += ((long)image * groups + group) * icg * h * w;
% elif direction == "input":
const int image = column / (h * w), pixel = column % (h * w);
    const int bottom = pixel / w + ph, right = pixel % w + pw;
    sparse += ((long)image * groups + group) * ocg * oh * ow;
% else:
const int tap = column % ${taps};
    const int top = tap / ${kw} * ${dh} - ph, left = tap % ${kw} * ${dw} - pw;
    sparse += ((long)group * icg + column / ${taps}) * h * w;
% endif
</%def>
<%def name="element_a(direction, taps)">
% if direction == "forward":
dense[((long)group * ocg + m) * end_k + k]
% elif direction == "input":
dense[(((long)group * ocg + k / ${taps}) * icg + m) * ${taps} + k % ${taps}]
% else:
dense[(((long)(k / (oh * ow)) * groups + group) * ocg + m) * (oh * ow) + k % (oh * ow)]
% endif
</%def>
<%def name="gather_b(direction, kw, sh, sw, dh, dw, taps)">
% if direction == "forward":
const int tap = k % ${taps};
                const int i = top + tap / ${kw} * ${dh}, j = left + tap % ${kw} * ${dw};
                if (i >= 0 && i < h && j >= 0 && j < w) value = sparse[((long)(k / ${taps}) * h + i) * w + j];
% elif direction == "input":
const int tap = k % ${taps};
                const int i = bottom - tap / ${kw} * ${dh}, j = right - tap % ${kw} * ${dw};
                if (i >= 0 && i % ${sh} == 0 && i / ${sh} < oh && j >= 0 && j % ${sw} == 0 && j / ${sw} < ow)
                    value = sparse[((long)(k / ${taps}) * oh + i / ${sh}) * ow + j / ${sw}];
% else:
const int image = k / (oh * ow), pixel = k % (oh * ow);
                const int i = top + pixel / ow * ${sh}, j = left + pixel % ow * ${sw};
                if (i >= 0 && i < h && j >= 0 && j < w)
                    value = sparse[((long)image * groups * icg * h + i) * w + j];
% endif
</%def>
<%def name="conv_implicit_sum(ctype, group_size)">
__attribute__((reqd_work_group_size(${group_size}, 1, 1)))
__kernel void conv_implicit_sum(
    __global ${ctype} *restrict gw, const long gw_offset,
    __global const ${ctype} *restrict parts, const long parts_offset,
    const int size, const int slices)
{
    const int i = get_global_id(0);
    if (i < size) {
        ${ctype} sum = 0;
        for (int slice = 0; slice < slices; slice++) sum += parts[parts_offset + (long)slice * size + i];
        gw[gw_offset + i] = sum;
    }
}
</%def>
