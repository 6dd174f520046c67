"""Variances, counts and norms against NumPy, and what PyTorch says about their corners."""

from __future__ import annotations

import numpy as np
import pytest

import clnet
from clnet import ops
from clnet.array import Array
from clnet.autodiff.gradient import grad
from clnet.errors import ArgumentError, BoundsError, DtypeError, ShapeError
from clnet.ops.statistic import Spread
from clnet.tensor import tensor
from tests.kernels.launching import cpu_shaped, gpu_shaped
from tests.opcase import Draw, OpCase, every_check, integers, normal, sliced, transposed

pytestmark = pytest.mark.device

SPOTTED = Draw((6, 9), lambda rng, s: np.where(rng.random(s) < 0.3, np.nan, rng.normal(size=s)))
ORDERS = (2, 1, 3, 0.5, np.inf, -np.inf, -1)
MATRIX_ORDERS = ("fro", 1, -1, np.inf, -np.inf)

CASES = [
    OpCase(
        lambda x: ops.var(x, (0, 2)),
        lambda x: x.var((0, 2), ddof=1),
        [normal(6, 5, 7)],
        k=42,
        grad2=True,
        name="var",
        shapes=[((2, 3, 1),)],
    ),
    OpCase(
        lambda x, s: ops.var(x, False) * s,
        lambda x, s: x.var() * s,
        [normal(6, 5), normal(9, grad=False)],
        k=30,
        name="var",
        label="biased",
        shapes=(),
    ),
    OpCase(
        lambda x: ops.std(x, 1, correction=0, keepdim=True),
        lambda x: x.std(1, keepdims=True),
        [normal(6, 9)],
        k=9,
        name="std",
        shapes=[((3, 2),)],
    ),
    OpCase(
        lambda x: tuple(ops.var_mean(x, 1, True, True)),
        lambda x: (x.var(1, ddof=1, keepdims=True), x.mean(1, keepdims=True)),
        [normal(6, 9)],
        k=9,
        name="var_mean",
        grad2=True,
        shapes=[((3, 2),)],
    ),
    OpCase(
        lambda x: tuple(ops.std_mean(x, (0, -1))),
        lambda x: (x.std((0, 2), ddof=1), x.mean((0, 2))),
        [normal(4, 3, 5)],
        k=20,
        name="std_mean",
        shapes=[((2, 3, 1),)],
    ),
    OpCase(
        lambda x: ops.count_nonzero(x, 1),
        lambda x: np.count_nonzero(x, 1),
        [integers(-1, 2, (5, 40))],
        grad=False,
        name="count_nonzero",
        shapes=[((3, 0),), ((3, 1),)],
    ),
    OpCase(
        lambda x: ops.nansum(x, 1),
        lambda x: np.nansum(x, 1),
        [SPOTTED],
        k=9,
        name="nansum",
        shapes=[((3, 0),)],
    ),
    OpCase(
        lambda x: ops.nanmean(x, 0, True),
        lambda x: np.nanmean(x, 0, keepdims=True),
        [SPOTTED],
        k=6,
        name="nanmean",
        shapes=(),
        layouts=(transposed, sliced),
    ),
    *(
        OpCase(
            lambda x, p=p: ops.norm(x, p, 1),
            lambda x, p=p: np.linalg.norm(x, p, 1),
            [normal(6, 9, dodge=(0,))],
            k=9,
            ulps=64 if p in (3, 0.5, -1) else 8,
            name="norm",
            label=f"p={p}",
            shapes=[((3, 2),)],
            grad2=p == 2,
        )
        for p in ORDERS
    ),
    OpCase(
        lambda x: ops.vector_norm(x, 3, (0, 2), True),
        lambda x: (np.abs(x) ** 3).sum((0, 2), keepdims=True) ** (1 / 3),
        [normal(4, 5, 3, dodge=(0,))],
        k=12,
        ulps=32,
        name="linalg.vector_norm",
    ),
    *(
        OpCase(
            lambda x, p=p: ops.matrix_norm(x, p, (2, 0)),
            lambda x, p=p: np.linalg.norm(x, p, (2, 0)),
            [normal(4, 5, 3, dodge=(0,))],
            k=12,
            name="linalg.matrix_norm",
            label=str(p),
            shapes=(),
        )
        for p in MATRIX_ORDERS
    ),
    OpCase(
        lambda x, y: ops.dist(x, y, 3),
        lambda x, y: (np.abs(x - y) ** 3).sum() ** (1 / 3),
        [normal(3, 4), normal(3, 4)],
        k=16,
        name="dist",
        layouts=(),
        shapes=(),
    ),
    OpCase(
        lambda x, s: ops.linalg_norm(x) * s,
        lambda x, s: np.sqrt((x * x).sum()) * s,
        [normal(4, 5, 3), normal(9, grad=False)],
        k=60,
        name="linalg.norm",
        shapes=(),
    ),
]


@pytest.mark.parametrize(("case", "check"), every_check(CASES))
def test_op(case, check, device):
    check(case, device)


def gradient(fn, x):
    leaf = tensor(np.asarray(x, np.float32), requires_grad=True)
    return grad([fn(leaf)], [leaf])[0].numpy()


def test_gradients_at_nothing_are_zero(device):
    np.testing.assert_array_equal(gradient(ops.norm, [0, 0, 0]), [0, 0, 0])
    np.testing.assert_array_equal(gradient(ops.std, [2, 2]), [0, 0])
    np.testing.assert_array_equal(gradient(lambda x: ops.norm(x, 0), [3, 0]), [0, 0])


def test_norm_zero_counts(device):
    assert clnet.linalg.vector_norm(tensor([3.0, 0.0, -1.0]), 0).item() == 2
    assert clnet.norm(tensor([[-0.125], [0.5]]), 300, 1).tolist() == [0.125, 0.5]


@pytest.mark.parametrize("p", [3, 0.5, -1])
@pytest.mark.parametrize("scale", [1e-3, 1, 1e3])
def test_powers_may_leave_the_range_of_16_bits(device, p, scale):
    x = scale * np.linspace(0.5, 4, 4)
    given = tensor(np.float16(x)).requires_grad_()
    found = clnet.linalg.vector_norm(given, p)
    np.testing.assert_allclose(found.item(), (x**p).sum() ** (1 / p), rtol=3e-3)
    found.backward()
    slopes = (x / (x**p).sum() ** (1 / p)) ** (p - 1)
    np.testing.assert_allclose(given.grad.numpy(), slopes, rtol=5e-3)


def test_linalg_norm_tells_vectors_from_matrices(device):
    x = tensor(np.array([[1, -2], [3, 4]], np.float32))
    assert clnet.linalg.norm(x, 1).item() == 6  # the largest column
    assert clnet.linalg.norm(x, 1, 0).tolist() == [4, 6]
    assert clnet.linalg.norm(x, float("inf"), (0, 1), True).tolist() == [[7]]
    assert clnet.linalg.norm(x[0], 1).item() == 3


def test_too_few_elements_have_no_variance(device):
    assert np.isnan(ops.var(tensor(np.ones(1, np.float32))).item())


def test_errors_name_what_is_wrong(device):
    x = clnet.ones(2, 3, 4)
    with pytest.raises(ArgumentError, match=r"^norm: p is a number, 'fro' or 'nuc'; got p='l2'"):
        ops.norm(x, "l2")
    with pytest.raises(
        ArgumentError,
        match=r"^matrix_norm: ord is 'fro', 'nuc', 1, -1, 2, -2, inf or -inf; got ord=3",
    ):
        clnet.linalg.matrix_norm(x, 3)
    with pytest.raises(ShapeError, match=r"^matrix_norm: a matrix has two axes; got x=\(3,\)"):
        clnet.linalg.matrix_norm(clnet.ones(3))
    with pytest.raises(ShapeError, match=r"^linalg.norm: ord is for one axis or two; got x="):
        clnet.linalg.norm(x, 2)
    for given in ({"ord": 1}, {"dim": ()}, {"ord": 2, "dim": ()}):
        with pytest.raises(ShapeError, match=r"^linalg.norm: it is over one axis or two where ord"):
            clnet.linalg.norm(tensor(3.0), **given)
    assert clnet.linalg.norm(tensor(-3.0)).item() == clnet.linalg.norm(tensor(-3.0), 1, 0) == 3
    with pytest.raises(ArgumentError, match=r"^linalg.norm: a word names a norm of matrices"):
        clnet.linalg.norm(x, "fro")
    with pytest.raises(DtypeError, match=r"^vector_norm: operands are floating; got dtype="):
        clnet.linalg.vector_norm(tensor([1, 2]))
    with pytest.raises(DtypeError, match=r"^var: operands are floating; got dtype="):
        ops.var(tensor([1, 2]))
    with pytest.raises(BoundsError, match=r"^std_mean: dim lies in"):
        ops.std_mean(x, 3)


@pytest.mark.parametrize("shaped", [cpu_shaped, gpu_shaped])
@pytest.mark.parametrize(
    ("shape", "dim"), [((300, 7), 0), ((5, 600), 1), ((4, 5, 6), (0, 2))], ids=str
)
def test_deviations_in_both_shapes_of_kernel(device, monkeypatch, shaped, shape, dim):
    monkeypatch.setattr(device, "target", shaped(device))
    values = np.random.default_rng(0).standard_normal(shape) + 100
    for dtype, limit in ((np.float32, 1e-5), (np.float64, 1e-12)):
        x = clnet.tensor(values.astype(dtype), device=device).requires_grad_()
        for correction in (0, 1, 2.5):
            y = ops.var(x, dim, correction=correction)
            count = values.size / y.numel() - correction
            wide = x.detach().numpy().astype(np.float64)
            apart = wide - wide.mean(dim, keepdims=True)
            expected = (apart**2).sum(dim) / count
            np.testing.assert_allclose(y.detach().numpy(), expected, rtol=limit)
            (gx,) = clnet.autograd.grad([y.sum()], [x])
            np.testing.assert_allclose(gx.numpy(), 2 * apart / count, rtol=20 * limit, atol=limit)


@pytest.mark.parametrize("shaped", [cpu_shaped, gpu_shaped])
@pytest.mark.parametrize(
    ("shape", "dim"), [((300, 7), 0), ((5, 600), 1), ((2, 9, 35), (0, 2)), ((70001,), 0)], ids=str
)
def test_deviations_and_means_together(device, monkeypatch, shaped, shape, dim):
    monkeypatch.setattr(device, "target", shaped(device))
    values = np.random.default_rng(0).standard_normal(shape) + 100
    for dtype, limit in ((np.float32, 1e-5), (np.float64, 1e-12)):
        x = clnet.tensor(values.astype(dtype), device=device).requires_grad_()
        wide = x.detach().numpy().astype(np.float64)
        for turned in (x, x.mT.contiguous().mT if x.ndim > 1 else x):
            std, mean = ops.std_mean(turned, dim)
            np.testing.assert_allclose(std.detach().numpy(), wide.std(dim, ddof=1), rtol=limit)
            np.testing.assert_allclose(mean.detach().numpy(), wide.mean(dim), rtol=limit)
        (gx,) = clnet.autograd.grad([std.sum() + 2 * mean.sum()], [x])
        apart = wide - wide.mean(dim, keepdims=True)
        count = wide.size // std.numel()
        expected = apart / (count - 1) / wide.std(dim, ddof=1, keepdims=True) + 2 / count
        np.testing.assert_allclose(gx.numpy(), expected, rtol=20 * limit, atol=limit)


def test_deviations_of_rows_are_one_launch_on_gpus(device):
    x = Array.abstract((4096, 1024), clnet.float32, device)
    for root in (False, True):
        function = Spread("std", (1,), False, 1023.0, root)
        outputs = function.infer(x)
        assert len(function.lower(gpu_shaped(device), outputs, (x,))) == 1
        assert len(function.lower(cpu_shaped(device), outputs, (x,))) > 1


@pytest.mark.parametrize("keepdim", [False, True])
@pytest.mark.parametrize("op", [ops.var_mean, ops.std_mean])
def test_a_spread_and_its_mean_are_alike_compiled(op, keepdim):
    x = clnet.randn(6, 5, generator=clnet.Generator().manual_seed(0), requires_grad=True)

    def both(x):
        found = op(x, 1, keepdim=keepdim)
        weights = clnet.arange(found[0].numel()).reshape(found[0].shape) + 1.0
        loss = (found[0] * weights).sum() + (found[1] * weights**2).sum()
        return *found, *clnet.autograd.grad(loss, x)

    for eager, compiled in zip(both(x), clnet.compile(both)(x), strict=True):
        assert eager.detach().numpy().tobytes() == compiled.detach().numpy().tobytes()
    wide = x.detach().double().requires_grad_()
    assert clnet.autograd.gradcheck(lambda x: op(x, 1, keepdim=keepdim), [wide])
    assert clnet.autograd.gradgradcheck(lambda x: op(x, 1, keepdim=keepdim), [wide])


def test_complex_numbers_vary_along_an_axis():
    rng = np.random.default_rng(0)
    x = (rng.standard_normal((3, 7)) + 1j * rng.standard_normal((3, 7))).astype(np.complex64)
    found = clnet.var(clnet.tensor(x), 1)
    np.testing.assert_allclose(found.numpy(), np.var(x, 1, ddof=1), rtol=1e-5)
