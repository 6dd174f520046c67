"""Layer norm, RMS norm and their gradients against NumPy in float64, in both shapes of kernel."""

from __future__ import annotations

from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest

from clnet.device import Scratch, device
from clnet.errors import ArgumentError
from clnet.kernels import streaming
from clnet.kernels.norm.row_norm import row_norm
from clnet.kernels.norm.row_norm_grad import row_norm_grad
from clnet.values.dtypes import from_name
from tests.kernels.launching import (
    both_shapes,
    in_small_groups,
    normal,
    offset,
    on_device,
    poisoned,
    run,
)

pytestmark = pytest.mark.device

SHAPES = [(1, 1), (5, 17), (4, 32), (1030, 20), (9, 1000), (2, 3000)]
# Rows of 17 to 24 elements share a kernel of groups, and so do those of 1,000 and more. Of 50 there
# is one that takes two rows at once instead of four, asked of each type, with a mean and without.
NARROW_SHAPES = [(1, 1), (5, 17), (4, 24), (1030, 20), (9, 1000), (2, 3000), (70, 23)]
TWO_AT_ONCE = {("float16", True, True): (70, 50), ("bfloat16", False, False): (70, 50)}
EPS = 1e-3


@both_shapes
@pytest.mark.parametrize("name", ["float16", "bfloat16"])
@pytest.mark.parametrize("shape", NARROW_SHAPES, ids=str)
@pytest.mark.parametrize("wide", [False, True], ids=["", "weight in float32"])
@pytest.mark.parametrize("centred", [False, True])
def test_sixteen_bits_are_rounded_once(shaped, name, shape, wide, centred):
    """What float32 of the same numbers gives, but for sums taken in other vectors."""
    target, narrow = in_small_groups(shaped(device())), from_name(name).numpy
    if shape == NARROW_SHAPES[-1]:
        shape = TWO_AT_ONCE.get((name, wide, centred), shape)
    kind, (rows, n) = np.dtype(np.float32 if wide else narrow), shape
    x, gy = (normal(*shape, seed=k).astype(narrow) for k in range(2))
    weight, bias = (normal(n, seed=k).astype(kind) for k in (2, 3))
    results = []
    for of, weights in ((narrow, kind), (np.dtype(np.float32),) * 2):
        x_, gy_ = on_device(x.astype(of)), on_device(gy.astype(of))
        weight_, bias_ = on_device(weight.astype(weights)), on_device(bias.astype(weights))
        y, gx = (on_device(np.full(shape, np.nan, of)) for _ in range(2))
        invstd = poisoned((rows,))
        mean = poisoned((rows,)) if centred else None
        sums = tuple(poisoned((n,)) for _ in range(1 + centred))
        shift = bias_ if centred else None
        run(row_norm(target, y, mean, invstd, x_, weight_, shift, eps=EPS))
        run(row_norm_grad(target, gx, sums, gy_, x_, mean, invstd, weight_))
        results.append([a.numpy().astype(np.float32) for a in (y, gx, invstd, *sums)])
    eps = float(ml_dtypes.finfo(narrow).eps)
    for found, expected, rounding in zip(*results, (eps, eps, 0, 0, 0), strict=False):
        scale = np.abs(expected).max()
        limit = {"rtol": 0.51 * rounding + 2e-5, "atol": 2e-5 * scale + 6e-8}
        np.testing.assert_allclose(found, expected, **limit)


def check(target, shape, *, centred, weighted, biased, summed=True, bytes_before=False):
    """A result, its statistics and its gradients."""
    rows, n = shape
    x, gy = 2 * normal(*shape) + 3, normal(*shape, seed=1)
    weight, bias = normal(n, seed=2), normal(n, seed=3)
    mean = x.mean(1, np.float64) if centred else np.zeros(rows)
    distance = x - mean[:, None]
    invstd = 1 / np.sqrt((distance**2).mean(1) + EPS)
    z = distance * invstd[:, None]
    scale, shift = weight if weighted else 1.0, bias if biased else 0.0
    put = offset if bytes_before else on_device

    y, found_invstd = poisoned(shape), poisoned((rows,))
    found_mean = poisoned((rows,)) if centred else None
    x_, weight_, bias_ = (
        put(x),
        on_device(weight) if weighted else None,
        on_device(bias) if biased else None,
    )
    run(row_norm(target, y, found_mean, found_invstd, x_, weight_, bias_, eps=EPS))
    np.testing.assert_allclose(y.numpy(), z * scale + shift, atol=2e-5)
    np.testing.assert_allclose(found_invstd.numpy(), invstd, rtol=1e-5)
    if found_mean is not None:
        np.testing.assert_allclose(found_mean.numpy(), mean, atol=1e-5)

    gx = poisoned(shape)
    sums = [poisoned((n,)) for _ in range(1 + centred)] if summed else []
    launches = row_norm_grad(
        target, gx, tuple(sums), put(gy), x_, found_mean, found_invstd, weight_
    )
    run(launches)
    g = gy * scale
    level = g.mean(1, keepdims=True) if centred else 0
    slope = invstd[:, None] * (g - level - z * (g * z).mean(1, keepdims=True))
    np.testing.assert_allclose(gx.numpy(), slope, atol=2e-5 * max(1, np.abs(slope).max()))
    for got, terms in zip(sums, (gy * z, gy.astype(np.float64)), strict=False):
        np.testing.assert_allclose(got.numpy(), terms.sum(0), atol=4e-6 * np.sqrt(rows) + 4e-6)
    return launches


@both_shapes
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_deviations_from_the_mean(shaped, shape):
    check(shaped(device()), shape, centred=True, weighted=True, biased=True)


@both_shapes
@pytest.mark.parametrize("shape", [(70, 20), (3, 1000)], ids=str)
def test_root_mean_squares(shaped, shape):
    check(shaped(device()), shape, centred=False, weighted=True, biased=False)


@both_shapes
@pytest.mark.parametrize("flags", [(True, False), (False, True), (False, False)], ids=str)
def test_without_weight_or_bias(shaped, flags):
    weighted, biased = flags
    given = {"weighted": weighted, "biased": biased, "bytes_before": True}
    check(shaped(device()), (6, 20), centred=True, summed=any(flags), **given)


@both_shapes
def test_parts_fit_the_workspace(shaped):
    target = shaped(device())
    small = replace(target, workspace_limit=4 * 2 * 1000 * 4)  # room for the sums of four parts
    launches = check(small, (64, 1000), centred=True, weighted=True, biased=True)
    scratch = next(a for a in launches[0].args if isinstance(a, Scratch))
    assert scratch.nbytes <= 2 * small.workspace_limit


def test_results_past_the_caches(monkeypatch):
    monkeypatch.setattr(streaming, "STREAM_BYTES", 0)
    target = replace(device().target, traits=replace(device().traits, dedicated_local_memory=False))
    check(target, (9, 64), centred=True, weighted=True, biased=True)


@both_shapes
@pytest.mark.parametrize("shape", [(0, 5), (5, 0), (0, 0)], ids=str)
def test_no_elements(shaped, shape):
    target, (rows, n) = shaped(device()), shape
    x, sums = poisoned(shape), (poisoned((n,)), poisoned((n,)))
    statistics = poisoned((rows,)), poisoned((rows,))
    assert row_norm(target, x, *statistics, x, None, None, eps=EPS) == []
    run(row_norm_grad(target, x, sums, x, x, *statistics, None))
    for got in sums:
        np.testing.assert_array_equal(got.numpy(), np.zeros(n))


@both_shapes
def test_the_same_bits_every_time(shaped):
    target = shaped(device())
    x, gy = on_device(normal(300, 20)), on_device(normal(300, 20, seed=1))
    found = []
    for _ in range(3):
        y, mean, invstd, gx = (
            poisoned((300, 20)),
            poisoned((300,)),
            poisoned((300,)),
            poisoned((300, 20)),
        )
        sums = poisoned((20,)), poisoned((20,))
        run(row_norm(target, y, mean, invstd, x, None, None, eps=EPS))
        run(row_norm_grad(target, gx, sums, gy, x, mean, invstd, None))
        found.append([a.numpy().tobytes() for a in (y, gx, *sums)])
    assert found[0] == found[1] == found[2]


def test_strided_arrays_are_refused():
    x = on_device(normal(8, 4)).view((4, 8), (1, 4))
    with pytest.raises(ArgumentError, match=r"^row_norm: arrays are dense; got shape=\(4, 8\)"):
        row_norm(device().target, poisoned((4, 8)), None, poisoned((4,)), x, None, None, eps=EPS)
