"""Convolutions as ops: values, gradients, gradients of gradients, settings and errors."""

from __future__ import annotations

import numpy as np
import pytest

from clnet.errors import ArgumentError, DtypeError, ShapeError
from clnet.ops.conv import conv2d, conv_transpose2d
from clnet.tensor import tensor
from tests.opcase import NARROW, OpCase, every_check, normal


def reference(
    x, weight, bias=None, *, stride=(1, 1), before=(0, 0), after=None, dilation=(1, 1), groups=1
):
    """The cross-correlation, one tap after another."""
    (n, ic, h, w), (oc, icg, kh, kw) = x.shape, weight.shape
    top, left = before
    bottom, right = before if after is None else after
    padded = np.zeros((n, ic, h + top + bottom, w + left + right))
    padded[:, :, top : top + h, left : left + w] = x
    oh = (padded.shape[2] - dilation[0] * (kh - 1) - 1) // stride[0] + 1
    ow = (padded.shape[3] - dilation[1] * (kw - 1) - 1) // stride[1] + 1
    images = padded.reshape(n, groups, icg, *padded.shape[2:])
    filters = weight.reshape(groups, oc // groups, icg, kh, kw)
    y = np.zeros((n, groups, oc // groups, oh, ow))
    for r in range(kh):
        for s in range(kw):
            rows = slice(r * dilation[0], r * dilation[0] + stride[0] * (oh - 1) + 1, stride[0])
            columns = slice(s * dilation[1], s * dilation[1] + stride[1] * (ow - 1) + 1, stride[1])
            y += np.einsum("ngchw,goc->ngohw", images[:, :, :, rows, columns], filters[..., r, s])
    y = y.reshape(n, oc, oh, ow)
    return y if bias is None else y + bias[:, None, None]


def transposed_reference(x, weight, *, stride, padding, extra):
    """Every pixel lays its filter, scaled, on the output."""
    (n, _, h, w), (_, oc, kh, kw) = x.shape, weight.shape
    oh, ow = (h - 1) * stride + kh + extra, (w - 1) * stride + kw + extra
    y = np.zeros((n, oc, oh, ow))
    for i in range(h):
        for j in range(w):
            laid = np.einsum("nc,cohw->nohw", x[:, :, i, j], weight)
            y[:, :, i * stride : i * stride + kh, j * stride : j * stride + kw] += laid
    return y[:, :, padding : oh - padding, padding : ow - padding]


CASES = [
    OpCase(
        lambda x, w, b: conv2d(x, w, b, padding=1),
        lambda x, w, b: reference(x, w, b, before=(1, 1)),
        [normal(2, 3, 7, 6), normal(5, 3, 3, 3), normal(5)],
        k=27,
        shapes=[[(0, 3, 7, 6), (5, 3, 3, 3), (5,)], [(1, 1, 1, 1), (1, 1, 3, 3), (1,)]],
        dtypes=["float64", *NARROW],
        name="conv2d",
        label="bias",
    ),
    OpCase(
        lambda x, w: conv2d(x, w, None, (2, 1), (1, 2), (1, 2), 2),
        lambda x, w: reference(x, w, stride=(2, 1), before=(1, 2), dilation=(1, 2), groups=2),
        [normal(2, 4, 7, 6), normal(6, 2, 3, 2)],
        k=12,
        grad2=True,
        dtypes=NARROW,
        name="conv2d",
        label="stride-dilation-groups",
    ),
    OpCase(
        lambda x, w, b: conv2d(x, w, b, (2, 3), (1, 0), (2, 1), 2),
        lambda x, w, b: reference(x, w, b, stride=(2, 3), before=(1, 0), dilation=(2, 1), groups=2),
        [normal(2, 4, 9, 21), normal(6, 2, 3, 21), normal(6)],
        k=126,
        grad2=True,
        shapes=[[(1, 4, 5, 17), (2, 2, 3, 17), (2,)]],
        dtypes=["float64", *NARROW],
        name="conv2d",
        label="as-wide-as-the-image",
    ),
    OpCase(
        lambda x, w: conv2d(x, w, None, 1, (0, 1), groups=3),
        lambda x, w: reference(x, w, before=(0, 1), groups=3),
        [normal(2, 3, 5, 7), normal(6, 1, 5, 2)],
        k=10,
        grad2=True,
        dtypes=["float64", *NARROW],
        name="conv2d",
        label="as-high-as-the-image",
    ),
    OpCase(
        lambda x, w: conv2d(x, w, padding="same"),
        lambda x, w: reference(x, w, before=(1, 0), after=(2, 1)),
        [normal(2, 2, 5, 6), normal(3, 2, 4, 2)],
        k=16,
        name="conv2d",
        label="same",
    ),
    OpCase(
        lambda x, w: conv2d(x, w, padding="valid"),
        lambda x, w: reference(x[None], w)[0],
        [normal(3, 6, 6), normal(2, 3, 3, 3)],
        k=27,
        name="conv2d",
        label="one-image",
    ),
    OpCase(
        lambda x, w: conv_transpose2d(x, w, None, 2, 1, 1),
        lambda x, w: transposed_reference(x, w, stride=2, padding=1, extra=1),
        [normal(2, 3, 4, 3), normal(3, 5, 3, 3)],
        k=12,
        grad2=True,
        name="conv_transpose2d",
    ),
    OpCase(
        lambda x, w, b: conv_transpose2d(x, w, b),
        lambda x, w, b: transposed_reference(x, w, stride=1, padding=0, extra=0) + b[:, None, None],
        [normal(2, 3, 4, 3), normal(3, 5, 3, 2), normal(5)],
        k=18,
        name="conv_transpose2d",
        label="bias",
    ),
]


@pytest.mark.parametrize(("case", "check"), every_check(CASES))
def test_op(case, check, device):
    check(case, device)


def ones(*shape, dtype=np.float32):
    return tensor(np.ones(shape, dtype))


ERRORS = [
    (
        lambda: conv2d(ones(8, 3, 32, 32), ones(32, 16, 3, 3)),
        ShapeError,
        "conv2d: weight expects 16 input channels but x has 3; "
        "got x=(8, 3, 32, 32), weight=(32, 16, 3, 3), groups=1",
    ),
    (
        lambda: conv2d(ones(1, 4, 5, 5), ones(3, 2, 3, 3), groups=2),
        ShapeError,
        "conv2d: groups divides the 3 output channels",
    ),
    (
        lambda: conv2d(ones(1, 2, 3, 3), ones(4, 2, 3, 3), ones(3)),
        ShapeError,
        "conv2d: the bias has 4 numbers, one for each filter; got weight=(4, 2, 3, 3), bias=(3,)",
    ),
    (
        lambda: conv2d(ones(1, 1, 2, 5), ones(1, 1, 3, 3)),
        ShapeError,
        "conv2d: the filter is larger than the padded image, the output would be 0 x 3",
    ),
    (
        lambda: conv2d(ones(5, 5), ones(1, 1, 3, 3)),
        ShapeError,
        "conv2d: x is (n, channels, h, w) or (channels, h, w); got x=(5, 5)",
    ),
    (
        lambda: conv2d(ones(1, 1, 5, 5), ones(1, 3, 3)),
        ShapeError,
        "conv2d: weight has four axes, the last two not empty; got weight=(1, 3, 3)",
    ),
    (
        lambda: conv2d(ones(1, 1, 5, 5), ones(1, 1, 3, 3), padding="same", stride=2),
        ArgumentError,
        "conv2d: padding 'same' needs stride 1; got stride=2",
    ),
    (
        lambda: conv2d(ones(1, 1, 5, 5), ones(1, 1, 3, 3), padding="full"),
        ArgumentError,
        "conv2d: padding is a number, a pair, 'same' or 'valid'; got padding='full'",
    ),
    (
        lambda: conv2d(ones(1, 1, 5, 5), ones(1, 1, 3, 3), stride=0),
        ArgumentError,
        "conv2d: stride, dilation and groups are 1 or more; got stride=0",
    ),
    (
        lambda: conv2d(ones(1, 1, 5, 5), ones(1, 1, 3, 3), padding=(0, -1)),
        ArgumentError,
        "conv2d: padding is 0 or more; got padding=(0, -1)",
    ),
    (
        lambda: conv2d(ones(1, 1, 5, 5, dtype=np.bool_), ones(1, 1, 3, 3, dtype=np.bool_)),
        DtypeError,
        "conv2d: operands are floating; got dtype=clnet.bool",
    ),
    (
        lambda: conv_transpose2d(ones(1, 2, 5, 5), ones(3, 1, 3, 3)),
        ShapeError,
        "conv_transpose2d: weight expects 3 input channels but x has 2",
    ),
    (
        lambda: conv_transpose2d(ones(1, 2, 5, 5), ones(2, 1, 3, 3), output_padding=1),
        ArgumentError,
        "conv_transpose2d: output_padding is less than the stride or the dilation",
    ),
    (
        lambda: conv_transpose2d(ones(1, 2, 1, 1), ones(2, 1, 3, 3), padding=2),
        ShapeError,
        "conv_transpose2d: padding leaves no pixel, the output would be -1 x -1",
    ),
]


@pytest.mark.parametrize(("call", "error", "message"), ERRORS)
def test_error_shows_both_sides(call, error, message):
    with pytest.raises(error) as raised:
        call()
    assert str(raised.value).startswith(message)


def test_against_torch(device):
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    shapes = ((4, 8, 14, 14), (16, 4, 3, 3), (16,))
    x, weight, bias = (rng.standard_normal(s).astype(np.float32) for s in shapes)
    ours = [tensor(v).requires_grad_() for v in (x, weight, bias)]
    theirs = [torch.tensor(v, requires_grad=True) for v in (x, weight, bias)]
    y = conv2d(*ours, 2, 1, 1, 2)
    expected = torch.nn.functional.conv2d(*theirs, 2, 1, 1, 2)
    np.testing.assert_allclose(y.detach().numpy(), expected.detach().numpy(), atol=1e-5)
    gy = rng.standard_normal(expected.shape).astype(np.float32)
    y.backward(tensor(gy))
    expected.backward(torch.tensor(gy))
    for own, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(own.grad.numpy(), other.grad.numpy(), atol=2e-4)
