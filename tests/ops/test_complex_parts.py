"""Complex tensors and their parts: views, conjugates, angles; against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import clnet
from clnet import ops
from clnet.errors import DtypeError, ShapeError
from tests.opcase import every_check, normal
from tests.torchcase import torch_case

pytestmark = pytest.mark.device

X = normal(5, 7)
CASES = [
    torch_case("angle", [X], layouts=(), shapes=(), ulps=16),
    torch_case("sgn", [X], layouts=(), shapes=()),
]
OTHERWISE_TESTED = {
    "complex": "test_numbers_are_made_of_parts",
    "polar": "test_numbers_are_made_of_parts",
    "real": "test_parts_are_views",
    "imag": "test_parts_are_views",
    "view_as_real": "test_parts_are_views",
    "view_as_complex": "test_pairs_are_numbers_without_a_copy",
    **dict.fromkeys(("conj", "conj_physical", "conj_physical_"), "test_conjugates"),
    **dict.fromkeys(("resolve_conj", "resolve_neg", "is_conj", "is_neg"), "test_conjugates"),
    "isreal": "test_isreal",
    "cfloat": "test_conversions",
    "cdouble": "test_conversions",
}

test_op = every_check(CASES)


def numbers(*shape, dtype=np.complex64, seed=0):
    rng = np.random.default_rng(seed)
    return (rng.standard_normal(shape) + 1j * rng.standard_normal(shape)).astype(dtype)


def test_parts_are_views():
    z = numbers(3, 4)
    x = clnet.tensor(z)
    np.testing.assert_array_equal(x.T.real.numpy(), z.T.real)
    np.testing.assert_array_equal(x[1:, ::2].imag.numpy(), z[1:, ::2].imag)
    pairs = clnet.view_as_real(x)
    assert (pairs.shape, pairs.dtype) == ((3, 4, 2), clnet.float32)
    x.imag.zero_()
    x.real[0] = 5.0
    expected = z.real.astype(z.dtype)
    expected[0] = 5
    np.testing.assert_array_equal(x.numpy(), expected)
    np.testing.assert_array_equal(pairs[..., 0].numpy(), expected.real)
    plain = clnet.ones(2)
    assert plain.real is plain
    with pytest.raises(DtypeError, match=r"^imag: the operand is complex; got dtype=.*float32"):
        _ = plain.imag


def test_pairs_are_numbers_without_a_copy():
    host = np.arange(12, dtype=np.float32).reshape(2, 3, 2)
    x = clnet.tensor(host)
    z = clnet.view_as_complex(x)
    np.testing.assert_array_equal(z.numpy(), host[..., 0] + 1j * host[..., 1])
    x.zero_()
    assert not z.numpy().any()
    with pytest.raises(ShapeError, match=r"^view_as_complex: the last axis has two elements"):
        clnet.view_as_complex(clnet.zeros(3))
    with pytest.raises(ShapeError, match=r"^view_as_complex: the two parts .* lie side by side"):
        clnet.view_as_complex(clnet.zeros(2, 3).T)
    with pytest.raises(DtypeError, match=r"^view_as_complex: parts are float32 or float64"):
        clnet.view_as_complex(clnet.zeros(2, dtype=clnet.int32))


def test_numbers_are_made_of_parts():
    z = numbers(3, 1)
    re, im = clnet.tensor(z.real), clnet.tensor(z.imag.T)
    np.testing.assert_array_equal(clnet.complex(re, im).numpy(), z.real + 1j * z.imag.T)
    turned = clnet.polar(re, im).numpy()
    np.testing.assert_allclose(turned, z.real * np.exp(1j * z.imag.T), rtol=1e-5, atol=1e-6)
    for function in (clnet.complex, clnet.polar):
        with pytest.raises(DtypeError, match="are float32, or both float64"):
            function(re, im.to(clnet.int32))


def test_conjugates():
    z = numbers(3, 4)
    x = clnet.tensor(z)
    for y in (x.conj(), clnet.conj_physical(x), x.resolve_conj().conj(), x.mH.mT):
        np.testing.assert_array_equal(y.numpy(), z.conj())
    np.testing.assert_array_equal(x.H.numpy(), z.conj().T)
    np.testing.assert_array_equal(clnet.adjoint(x).numpy(), z.conj().T)
    assert not x.conj().is_conj()
    assert not x.resolve_neg().is_neg()
    assert x.conj_physical_() is x
    np.testing.assert_array_equal(x.numpy(), z.conj())
    plain = clnet.ones(2)
    assert plain.conj() is plain
    assert plain.conj_physical_() is plain
    np.testing.assert_array_equal(ops.conj_physical(plain, out=clnet.zeros(2)).numpy(), 1)


def test_isreal():
    found = clnet.isreal(clnet.tensor([1 + 1j, 2, float("nan")]))
    assert found.tolist() == [False, True, True]
    assert clnet.isreal(clnet.tensor([1.0, float("nan")])).tolist() == [True, True]


def test_conversions(device):
    x = clnet.tensor([1.5, -2], device=device)
    z = x.cfloat()
    assert z.dtype is clnet.complex64
    np.testing.assert_array_equal(z.numpy(), [1.5, -2])
    np.testing.assert_array_equal((z + 3j).to(clnet.float32).numpy(), [1.5, -2])
    np.testing.assert_array_equal((z * 1j).bool().numpy(), [True, True])
    np.testing.assert_array_equal(clnet.tensor([True, False]).to(clnet.cfloat).numpy(), [1, 0])
    assert clnet.zeros(2, dtype=complex if device.traits.float64 else clnet.cfloat).is_complex()
    if device.traits.float64:
        assert z.cdouble().dtype is clnet.complex128
        np.testing.assert_array_equal(z.cdouble().numpy(), [1.5, -2])
