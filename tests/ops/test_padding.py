"""Padding beside PyTorch's."""

from __future__ import annotations

import numpy as np
import pytest

import clnet
from clnet.errors import ArgumentError, DtypeError, ShapeError
from clnet.nn import functional as F
from tests.opcase import every_check, normal
from tests.torchcase import torch_case

pytestmark = pytest.mark.device

ROWS, IMAGES, VOLUMES = normal(2, 3, 7), normal(2, 3, 5, 6), normal(1, 2, 3, 4, 5)

CASES = [
    torch_case("pad", [IMAGES], (2, 1, 0, 3), "constant", 3.5, shapes=[[(2, 0, 1, 1)]]),
    torch_case("pad", [IMAGES], (-1, 2, 0, -2, 1, 0), shapes=[]),
    torch_case("pad", [ROWS], (3, 2), "reflect", shapes=[[(1, 1, 4)]]),
    torch_case("pad", [IMAGES], (3, 2, 1, 4), "reflect", shapes=[]),
    torch_case("pad", [VOLUMES], (3, 2, 1, 3, 2, 0), "reflect", shapes=[]),
    torch_case("pad", [ROWS], (9, 2), "replicate", shapes=[[(1, 1, 1)]]),
    torch_case("pad", [IMAGES], (3, 2, 1, 4), "replicate", shapes=[]),
    torch_case("pad", [IMAGES], (3, 6, 1, 4), "circular", shapes=[]),
    torch_case("pad", [VOLUMES], (3, 2, 1, 3, 2, 0), "circular", shapes=[]),
]


@pytest.mark.parametrize(("case", "check"), every_check(CASES))
def test_op(case, check, device):
    check(case, device)


@pytest.mark.parametrize("mode", ["reflect", "circular", "constant"])
def test_second_gradients_flow(mode):
    x = clnet.tensor(np.arange(5.0, dtype=np.float32).reshape(1, 1, 5), requires_grad=True)
    y = F.pad(x * x, (2, 1), mode)
    (g,) = clnet.autograd.grad([(y * y).sum()], [x], create_graph=True)
    g.sum().backward()
    numpys = {"reflect": "reflect", "circular": "wrap"}
    counts = np.ones(5)
    if mode in numpys:
        counts = np.bincount(np.pad(np.arange(5), (2, 1), numpys[mode]), minlength=5)
    np.testing.assert_allclose(x.grad.numpy().ravel(), 12 * np.arange(5.0) ** 2 * counts, rtol=1e-5)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64", "int32", "bool"])
def test_padding_keeps_other_dtypes(dtype):
    x = clnet.tensor([[[1, 0, 1]]]).to(dtype=getattr(clnet, dtype))
    for mode, numpys in (("constant", "constant"), ("replicate", "edge"), ("circular", "wrap")):
        y = F.pad(x, (1, 2), mode)
        assert y.dtype is x.dtype
        expected = np.pad([1, 0, 1], (1, 2), numpys)
        np.testing.assert_array_equal(y.numpy().ravel().astype(int), expected)


def test_infinite_values_pad():
    y = F.pad(clnet.ones(2), (1, 1), value=-float("inf")).numpy()
    np.testing.assert_array_equal(y, [-np.inf, 1, 1, -np.inf])


def test_errors_say_what_is_wrong():
    x = clnet.ones(1, 2, 3)
    with pytest.raises(ArgumentError, match=r"^pad: mode is one of constant, reflect, .*'mirror'"):
        F.pad(x, (1, 1), "mirror")
    with pytest.raises(ArgumentError, match=r"^pad: only mode 'constant' has a value but 0"):
        F.pad(x, (1, 1), "reflect", 1.0)
    with pytest.raises(ArgumentError, match=r"^pad: there are two numbers for each padded axis"):
        F.pad(x, (1, 1, 1))
    with pytest.raises(ShapeError, match=r"^pad: mode 'reflect' pads by at most the elements of"):
        F.pad(x, (3, 0), "reflect")
    with pytest.raises(ShapeError, match=r"^pad: mode 'circular' pads by at most"):
        F.pad(x, (4, 0), "circular")
    with pytest.raises(ShapeError, match=r"^pad: an axis keeps [01] elements or more"):
        F.pad(x, (-2, -2))
    with pytest.raises(ShapeError, match=r"^pad: an axis keeps [01] elements or more"):
        F.pad(x, (-2, -2), "replicate")


@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular", "constant"])
def test_padding_of_all_axes_is_one_launch_on_cpus(device, mode):
    if device.traits.dedicated_local_memory:
        pytest.skip("an item goes along rows of CPUs")
    x = clnet.zeros(2, 3, 30, 40, device=device)
    with clnet.profile() as seen:
        F.pad(x, (1, 2, 3, 4), mode)
    assert [command.name for command in seen.commands] == ["around"]


def test_complex_numbers_are_padded_with_complex_ones():
    x = clnet.tensor([1 + 2j])
    assert F.pad(x, (1, 0), value=3 - 1j).tolist() == [3 - 1j, 1 + 2j]
    with pytest.raises(DtypeError, match=r"^pad: of a real x the value is real; got value=1j"):
        F.pad(clnet.ones(2), (1, 0), value=1j)
