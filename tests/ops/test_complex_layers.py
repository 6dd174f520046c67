"""Layers and products of complex numbers beside PyTorch's, and digits that their slopes keep."""

from __future__ import annotations

import numpy as np
import pytest

import clnet
from clnet.errors import DtypeError

pytestmark = pytest.mark.device


def _numbers(*shape, seed=0):
    parts = np.random.default_rng(seed).standard_normal((2, *shape))
    return (parts[0] + 1j * parts[1]).astype(np.complex64)


BESIDE = {
    "conv2d": (lambda t, x, w, b: t.nn.functional.conv2d(x, w, b, 2, "valid", 1, 2),
               (2, 4, 5, 6), (6, 2, 3, 3), (6,)),
    "conv1d, one example": (lambda t, x, w: t.nn.functional.conv1d(x, w, padding="same"),
                            (4, 6), (3, 4, 3)),
    "conv3d": (lambda t, x, w: t.nn.functional.conv3d(x, w, padding=1, stride=2),
               (1, 2, 4, 5, 6), (3, 2, 3, 3, 3)),
    "conv_transpose2d": (lambda t, x, w, b: t.nn.functional.conv_transpose2d(x, w, b, 2, 1, 1),
                         (1, 4, 3, 3), (4, 3, 3, 3), (3,)),
    "unfold": (lambda t, x: t.nn.functional.unfold(x, 2, padding=1), (1, 2, 3, 3)),
    "fold": (lambda t, x: t.nn.functional.fold(x, (3, 3), 2), (1, 8, 4)),
    "addmm": (lambda t, x, a, b: t.addmm(x, a, b, beta=2 - 1j, alpha=1 + 2j),
              (2, 2), (2, 3), (3, 2)),
    "baddbmm": (lambda t, x, a, b: t.baddbmm(x, a, b, beta=0, alpha=1j),
                (2, 2, 2), (2, 2, 3), (2, 3, 2)),
    "rsub": (lambda t, x, y: t.rsub(x, y, alpha=1j), (4,), (4,)),
}  # fmt: skip


@pytest.mark.parametrize("name", BESIDE)
def test_values_and_gradients_are_pytorchs(name):
    torch = pytest.importorskip("torch")
    call, *shapes = BESIDE[name]
    found = []
    for library in (clnet, torch):
        xs = [
            library.tensor(_numbers(*shape, seed=k), requires_grad=True)
            for k, shape in enumerate(shapes)
        ]
        y = call(library, *xs)
        (y * y.conj() + y).real.sum().backward()
        found.append([y.detach(), *(x.grad for x in xs)])
    for mine, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(mine.numpy(), theirs.numpy(), rtol=2e-4, atol=2e-4)


def test_rows_of_complex_tables():
    weight = clnet.tensor(_numbers(3, 2), requires_grad=True)
    y = clnet.nn.functional.embedding(clnet.tensor([2, 0, 2]), weight, padding_idx=0)
    (y * 2j).real.sum().backward()
    np.testing.assert_array_equal(y.detach().numpy(), weight.detach().numpy()[[2, 0, 2]])
    np.testing.assert_array_equal(weight.grad.numpy(), np.array([[0, 0], [0, 0], [-4j, -4j]]))


def test_parts_that_are_no_numbers_are_replaced():
    x = clnet.tensor([complex(np.nan, np.inf), complex(-np.inf, 2), 1 + 1j])
    assert clnet.nan_to_num(x, 5, 6, 7).tolist() == [5 + 6j, 7 + 2j, 1 + 1j]
    x.nan_to_num_(5, 6, 7)
    assert x.tolist() == [5 + 6j, 7 + 2j, 1 + 1j]


def test_slices_times_a_complex_number_are_added():
    x = clnet.tensor([1 + 1j, 2, 3j])
    found = x.index_add(0, clnet.tensor([2, 0]), clnet.tensor([1 + 0j, 2j]), alpha=1j)
    assert found.tolist() == [-1 + 1j, 2, 4j]


def test_factors_are_complex_where_operands_are():
    x = clnet.ones(2, 2)
    for call in (
        lambda: clnet.addmm(x, x, x, alpha=1j),
        lambda: clnet.addmm(x, x, x, beta=1j),
        lambda: clnet.rsub(x, x, alpha=1j),
        lambda: x.index_add(0, clnet.tensor([0, 1]), x, alpha=1j),
    ):
        with pytest.raises(DtypeError, match="a complex factor is of complex operands"):
            call()


def test_ranges_between_complex_numbers():
    found = clnet.linspace(1 + 2j, 3, 3)
    assert (found.dtype, found.tolist()) == (clnet.complex64, [1 + 2j, 2 + 1j, 3 + 0j])
    np.testing.assert_allclose(clnet.logspace(0, 1j, 2, base=2.0).numpy(), [1, 2**1j], rtol=1e-6)
    with pytest.raises(DtypeError, match="of complex ends numbers are complex"):
        clnet.linspace(1j, 2, 3, dtype=clnet.float32)


POLES = [-6.4155018 + 1.5707245j, -1.0136367 + 0.0197930j, 0.0582198 + 1.0117966j, 0.3 - 4.7123j]
ROUND = [1.00001 - 3e-4j, 0.6 + 0.8j, -0.9 - 3e-2j, 0.4, -3.0 + 1j]
SLOPES = {
    "tanh": lambda z: 1 - np.tanh(z) ** 2,
    "tan": lambda z: 1 + np.tan(z) ** 2,
    "atanh": lambda z: 1 / (1 - z * z),
    "atan": lambda z: 1 / (1 + z * z),
    "log": lambda z: 1 / z,
    "log1p": lambda z: 1 / (1 + z),
}


@pytest.mark.parametrize("name", SLOPES)
def test_values_and_slopes_beside_poles_keep_their_digits(name):
    points = np.array(ROUND if name.startswith("log") else POLES, np.complex64)
    x = clnet.tensor(points, requires_grad=True)
    y = getattr(clnet, name)(x)
    (slope,) = clnet.autograd.grad([y], [x], clnet.ones_like(y), create_graph=True)
    (bend,) = clnet.autograd.grad([slope], [x], clnet.ones_like(y))
    wide, step = points.astype(np.complex128), 1e-5
    function = getattr(np, {"atanh": "arctanh", "atan": "arctan"}.get(name, name))
    bends = (SLOPES[name](wide + step) - SLOPES[name](wide - step)) / (2 * step)
    for found, wanted in ((y, function(wide)), (slope, SLOPES[name](wide)), (bend, bends)):
        host = found.detach().numpy()
        # Gradients are conjugates of slopes.
        host = host if found is y else host.conj()
        np.testing.assert_allclose(host, wanted, rtol=2e-4 if found is bend else 1e-5, atol=2e-6)


def test_the_slope_of_log1p_beside_minus_1_is_a_number():
    x = clnet.tensor([-0.99998987 - 3.793514e-06j], requires_grad=True)
    x.log1p().real.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 1 / (1 + x.detach().numpy()).conj(), rtol=1e-4)


def test_logarithms_around_1_keep_their_digits():
    z = np.array([1.0000123 - 3.0855587e-4j, 1.0001013 - 3.4785925e-4j, 3e-4 + 1j], np.complex64)
    found = clnet.tensor(z).log().numpy()
    np.testing.assert_allclose(found.real, np.log(z.astype(np.complex128)).real, rtol=1e-6)
