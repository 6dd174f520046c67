# %% [markdown]
# # An OpenCL kernel of one's own
#
# `pip install "clnet[pocl]"`. A convolution written in OpenCL C: checked against clnet's own, tuned, timed beside it,
# and given a gradient. The layer is the ECE408 course's: 6 channels of 48x48 images to 16 of 42x42, windows of 7x7.
#
# - **Data**: random numbers.
# - **Result**: two filters of six rows an item make 103 GFLOP/s on two busy cores, where the plain kernel makes 0.4 and
#   clnet's own convolution 143; a minute in all.

# %%
import math

import numpy as np

import clnet
from clnet.nn import functional as F

REPEATS = 200

# %% [markdown]
# ## Plain
#
# An item for each result, as one would write it first.

# %%
plain_kernel = clnet.kernel("""
__kernel void plain(__global const float *x, __global const float *w, int channels, int filters,
                    int height, int width, int window, __global float *y)
{
    const int out_height = height - window + 1, out_width = width - window + 1;
    const int column = get_global_id(0), row = get_global_id(1);
    const int image = get_global_id(2) / filters, filter = get_global_id(2) % filters;
    if (column >= out_width || row >= out_height)
        return;
    float sum = 0;
    for (int c = 0; c < channels; c++)
        for (int r = 0; r < window; r++)
            for (int s = 0; s < window; s++)
                sum += x[((image * channels + c) * height + row + r) * width + column + s] *
                       w[((filter * channels + c) * window + r) * window + s];
    y[((image * filters + filter) * out_height + row) * out_width + column] = sum;
}
""")


def sizes(x, w):
    """The result's shape, and how many operations it takes."""
    (n, channels, height, width), (filters, _, window, _) = x.shape, w.shape
    shape = (n, filters, height - window + 1, width - window + 1)
    return shape, 2 * channels * window * window * math.prod(shape)


def plain(x, w):
    """The convolution of images and filters."""
    shape, flops = sizes(x, w)
    numbers = (x.shape[1], w.shape[0], x.shape[2], x.shape[3], w.shape[2])
    grid = (shape[3], shape[2], shape[0] * shape[1])
    return plain_kernel(x, w, *numbers, shape=shape, global_size=grid, flops=flops)


# %% [markdown]
# ## Tuned
#
# Every number of `x` that the plain kernel reads serves one product. Here an item computes eight neighbours, which a
# CPU keeps in one vector, of `ROWS` rows and `FILTERS` filters: a vector that is read serves them all. The source is a
# template (Mako): `${...}` and the loops after `%` are done before the device's compiler sees it, so that the sums are
# variables, and the compiler keeps them in registers. Vectors are read through a type that may lie anywhere: PoCL's
# `vload8` reads its eight numbers one by one.

# %%
SOURCE = """
#define ROWS ${rows}
#define FILTERS ${filters}
#define WINDOW ${window}
typedef float8 __attribute__((aligned(4))) pixels;

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void tuned(__global const float *restrict x, __global const float *restrict w, int channels,
           int filters, int height, int width, __global float *y)
{
    const int out_height = height - WINDOW + 1, out_width = width - WINDOW + 1;
    // The last items of a row, and of a column, move back to where they fit.
    const int column = min((int)get_global_id(0) * 8, out_width - 8);
    const int row = min((int)get_global_id(1) * ROWS, out_height - ROWS);
    const int blocks = filters / FILTERS, taps = channels * WINDOW * WINDOW;
    const int image = get_global_id(2) / blocks, filter = get_global_id(2) % blocks * FILTERS;
    x += (image * channels * height + row) * width + column;
    w += filter * taps;
    y += ((image * filters + filter) * out_height + row) * out_width + column;

% for f, k in results:
    float8 sum${f}_${k} = 0;
% endfor
    for (int c = 0; c < channels; c++, x += height * width, w += WINDOW * WINDOW)
        for (int s = 0; s < WINDOW; s++) {
% for r in range(rows + window - 1):
            const float8 line${r} = *(__global const pixels *)(x + ${r} * width + s);
% for f, k in results:
% if 0 <= r - k < window:
            sum${f}_${k} += line${r} * w[${f} * taps + ${r - k} * WINDOW + s];
% endif
% endfor
% endfor
        }
% for f, k in results:
    *(__global pixels *)(y + (${f} * out_height + ${k}) * out_width) = sum${f}_${k};
% endfor
}
"""


def tuned(filters, rows, window):
    """The kernel whose items compute so many filters and rows, as a function like ``plain``."""
    results = [(f, k) for f in range(filters) for k in range(rows)]
    params = {"filters": filters, "rows": rows, "window": window, "results": results}
    kernel = clnet.kernel(SOURCE, params=params)

    def call(x, w):
        (n, oc, oh, ow), flops = sizes(x, w)
        if oh < rows or ow < 8 or oc % filters:
            raise ValueError(f"{oc} x {oh} x {ow} results do not suit {filters} x {rows} x 8")
        return kernel(
            *(x, w, x.shape[1], oc, x.shape[2], x.shape[3]),
            shape=(n, oc, oh, ow),
            global_size=(-(-ow // 8), -(-oh // rows), n * oc // filters),
            local_size=(1, 1, 1),
            flops=flops,
        )

    return call


# %% [markdown]
# First right, then fast: each is compared with `F.conv2d`, then timed by the device's clock.

# %%
clnet.manual_seed(0)
x, w = clnet.randn(16, 6, 48, 48), clnet.randn(16, 6, 7, 7)
expected = F.conv2d(x, w)


def rate(convolution, repeats=REPEATS):
    """GFLOP/s of the fastest call, since others use this machine, too."""
    np.testing.assert_allclose(convolution(x, w).numpy(), expected.numpy(), atol=1e-3)
    seconds = []
    for _ in range(repeats):
        with clnet.profile() as profile:
            convolution(x, w)
        seconds.append(profile.device_seconds)
    return sizes(x, w)[1] / min(seconds) / 1e9


rates = {}
print(f"plain:                {rate(plain, repeats=2):6.1f} GFLOP/s")
for filters, rows in ((1, 1), (1, 3), (1, 6), (2, 3), (2, 6), (4, 2), (4, 3)):
    rates[filters, rows] = rate(tuned(filters, rows, window=7))
    print(f"{filters} filters x {rows} rows:   {rates[filters, rows]:6.1f} GFLOP/s")
print(f"clnet's own:          {rate(F.conv2d):6.1f} GFLOP/s")

# %% [markdown]
# In a profile they stand beside clnet's kernels, with their rates.

# %%
best = tuned(*max(rates, key=rates.get), window=7)
with clnet.profile() as profile:
    plain(x, w)
    for _ in range(REPEATS):
        best(x, w)
        F.conv2d(x, w)
summary = profile.summary(share=1.0)
print(summary[summary.index("Device:") : summary.index("Host:")].strip())

# %% [markdown]
# A kernel of one's own gives no gradient unless it is told how: an `autograd.Function` says it, here in convolutions
# of clnet.


# %%
class Convolution(clnet.autograd.Function):
    """The same in the tape: a kernel of one's own gives no gradient unless it is told how."""

    @staticmethod
    def forward(ctx, x, w, own):
        ctx.save_for_backward(x, w)
        return own(x, w)

    @staticmethod
    def backward(ctx, grad):
        x, w = ctx.saved_tensors
        return (
            F.conv_transpose2d(grad, w),
            F.conv2d(x.transpose(0, 1), grad.transpose(0, 1)).transpose(0, 1),
            None,
        )


def gradients(layer, x, w):
    """Of the sum of a layer's squares, to both operands."""
    x, w = x.clone().requires_grad_(), w.clone().requires_grad_()
    layer(x, w).square().sum().backward()
    return x.grad, w.grad


ours = gradients(lambda a, b: Convolution.apply(a, b, best), x[:2], w)
for one, other in zip(ours, gradients(F.conv2d, x[:2], w), strict=True):
    scale = other.abs().max().item()
    np.testing.assert_allclose(one.numpy() / scale, other.numpy() / scale, atol=1e-5)
print("the gradients agree")
