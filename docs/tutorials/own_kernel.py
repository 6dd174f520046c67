# %% [markdown]
# # An OpenCL kernel of one's own
#
# `pip install "clnet[pocl]"`. A convolution written in OpenCL C: checked against clnet's own, tuned, timed beside it,
# and given a gradient. The layer is the ECE408 course's: 6 channels of 48x48 images to 16 of 42x42, windows of 7x7.
#
# - **Data**: random numbers.
# - **Result**: with six rows an item 6.7 GFLOP/s on two busy cores, where clnet's own convolution made 18.6; 26
#   seconds in all.

# %%
import numpy as np

import clnet
from clnet.nn import functional as F

REPEATS = 20

# %% [markdown]
# The kernel is a template (Mako): `${...}` is filled in before the device's compiler sees it. An item computes eight
# neighbours, which a CPU keeps in one vector, of `ROWS` rows: what it reads serves all of them.

# %%
SOURCE = """
#define ROWS ${rows}
#define WINDOW ${window}

__kernel void convolution(__global const float *restrict x, __global const float *restrict w,
                          int channels, int filters, int height, int width, __global float *y)
{
    const int out_height = height - WINDOW + 1, out_width = width - WINDOW + 1;
    // The last items of a row, and of a column, move back to where they fit.
    const int column = min((int)get_global_id(0) * 8, out_width - 8);
    const int row = min((int)get_global_id(1) * ROWS, out_height - ROWS);
    const int image = get_global_id(2) / filters, filter = get_global_id(2) % filters;
    x += (image * channels * height + row) * width + column;
    w += filter * channels * WINDOW * WINDOW;
    y += ((image * filters + filter) * out_height + row) * out_width + column;

% for k in range(rows):
    float8 sum${k} = 0;
% endfor
    for (int c = 0; c < channels; c++, x += height * width, w += WINDOW * WINDOW)
        for (int s = 0; s < WINDOW; s++) {
% for r in range(rows + window - 1):
            const float8 line${r} = vload8(0, x + ${r} * width + s);
% endfor
% for r in range(window):
            const float w${r} = w[${r} * WINDOW + s];
% endfor
% for k in range(rows):
            sum${k} += ${" + ".join(f"line{k + r} * w{r}" for r in range(window))};
% endfor
        }
% for k in range(rows):
    vstore8(sum${k}, 0, y + ${k} * out_width);
% endfor
}
"""


def convolution(rows, window):
    """The kernel whose items compute so many rows, as a function of images and filters."""
    kernel = clnet.kernel(SOURCE, params={"rows": rows, "window": window})

    def call(x, w):
        n, channels, height, width = x.shape
        filters = w.shape[0]
        oh, ow = height - window + 1, width - window + 1
        if oh < rows or ow < 8:
            raise ValueError(f"{oh} x {ow} results are fewer than an item computes, {rows} x 8")
        return kernel(
            *(x, w, channels, filters, height, width),
            shape=(n, filters, oh, ow),
            global_size=(-(-ow // 8), -(-oh // rows), n * filters),
            flops=2 * n * filters * oh * ow * channels * window * window,
        )

    return call


# %% [markdown]
# First right, then fast: each variant is compared with `F.conv2d`, then timed by the device's clock.

# %%
clnet.manual_seed(0)
x, w = clnet.randn(16, 6, 48, 48), clnet.randn(16, 6, 7, 7)
expected = F.conv2d(x, w)
flops = 2 * 6 * 7 * 7 * expected.numel() * REPEATS
rates = {}
for rows in (1, 2, 3, 6):
    own = convolution(rows, window=7)
    np.testing.assert_allclose(own(x, w).numpy(), expected.numpy(), atol=1e-3)
    with clnet.profile() as profile:
        for _ in range(REPEATS):
            own(x, w)
    rates[rows] = flops / profile.device_seconds / 1e9
    print(f"{rows} rows an item: {rates[rows]:6.1f} GFLOP/s")
with clnet.profile() as profile:
    for _ in range(REPEATS):
        F.conv2d(x, w)
print(f"clnet's own:   {flops / profile.device_seconds / 1e9:6.1f} GFLOP/s")

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


best = convolution(max(rates, key=rates.get), window=7)
ours = gradients(lambda a, b: Convolution.apply(a, b, best), x[:2], w)
for one, other in zip(ours, gradients(F.conv2d, x[:2], w), strict=True):
    scale = other.abs().max().item()
    np.testing.assert_allclose(one.numpy() / scale, other.numpy() / scale, atol=1e-5)
print("the gradients agree")
