"""Numbers rounded to few levels, against the definition and PyTorch."""

from __future__ import annotations

import numpy as np
import pytest

import clnet
from clnet.errors import ArgumentError, DataDomainError, DtypeError, ShapeError

pytestmark = pytest.mark.device

OTHERWISE_TESTED = {
    "fake_quantize_per_tensor_affine": "test_of_a_tensor",
    "fake_quantize_per_channel_affine": "test_of_channels",
}
X = np.array([[0.5, 1.5, 2.5, -3], [np.nan, np.inf, -np.inf, 0.31]], np.float32)


def check(of, reference, x=X):
    given = clnet.tensor(x, requires_grad=True)
    y = of(clnet, given)
    y.sum().backward()
    levels, scale, zero = reference
    with np.errstate(invalid="ignore"):
        whole = np.rint(x * (1 / np.float32(scale))) + zero
        kept = (whole >= levels[0]) & (whole <= levels[1])
    whole = np.where(np.isnan(x), levels[0], whole)
    wanted = (np.clip(whole, *levels) - zero) * np.float32(scale)
    np.testing.assert_allclose(y.detach().numpy(), wanted, rtol=1e-6)
    np.testing.assert_array_equal(given.grad.numpy(), kept)


@pytest.mark.parametrize("pair", [(1.0, 0), (0.3, 2)])
def test_of_a_tensor(pair):
    scale, zero = pair
    name = "fake_quantize_per_tensor_affine"
    check(lambda m, x: getattr(m, name)(x, scale, zero, -4, 5), ((-4, 5), scale, zero))
    tensors = clnet.tensor([scale]), clnet.tensor([zero], dtype=clnet.int32)
    check(lambda m, x: getattr(m, name)(x, *tensors, -4, 5), ((-4, 5), scale, zero))
    torch = pytest.importorskip("torch")
    x = torch.tensor(X)
    y = getattr(torch, name)(x, scale, zero, -4, 5).numpy()
    np.testing.assert_array_equal(getattr(clnet, name)(clnet.tensor(X), scale, zero, -4, 5), y)


def test_of_channels():
    scale, zero = np.array([0.1, 0.2], np.float32), np.array([0, 3])
    check(
        lambda m, x: m.fake_quantize_per_channel_affine(
            x, m.tensor(scale), m.tensor(zero), 0, 0, 20
        ),
        ((0, 20), scale[:, None], zero[:, None]),
    )
    check(
        lambda m, x: (
            m.fake_quantize_per_channel_affine(x.mT, m.tensor(scale), m.tensor(zero), -1, 0, 20).mT
        ),
        ((0, 20), scale[:, None], zero[:, None]),
    )


def test_errors():
    x, one = clnet.ones(2, 3), clnet.ones(1)
    with pytest.raises(ArgumentError, match="zero_point lies between quant_min and quant_max"):
        clnet.fake_quantize_per_tensor_affine(x, 1.0, 10, 0, 5)
    with pytest.raises(ArgumentError, match="quant_min is not above quant_max"):
        clnet.fake_quantize_per_tensor_affine(x, 1.0, 0, 6, 5)
    with pytest.raises(DtypeError, match="operands are floating"):
        clnet.fake_quantize_per_tensor_affine(x.int(), 1.0, 0, 0, 5)
    with pytest.raises(ShapeError, match="belong to each element of the axis"):
        clnet.fake_quantize_per_channel_affine(x, one, one, 0, 0, 5)
    clnet.fake_quantize_per_tensor_affine(x, one, one * 10, 0, 5)
    with pytest.raises(DataDomainError, match=r"zero_point lies between .*got zero_point"):
        clnet.synchronize()
