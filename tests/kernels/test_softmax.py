"""Softmax, log-softmax and cross entropy, with their gradients, against NumPy in float64."""

from __future__ import annotations

from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest

from clnet.array import Array
from clnet.device import device
from clnet.errors import ArgumentError
from clnet.kernels import streaming
from clnet.kernels.grid import lanes_of
from clnet.kernels.softmax.cross_entropy import Settings, cross_entropy
from clnet.kernels.softmax.cross_entropy_grad import cross_entropy_grad
from clnet.kernels.softmax.softmax import log_softmax, log_softmax_grad, softmax, softmax_grad
from clnet.kernels.softmax.softmax_columns import share_of_item
from clnet.values.dtypes import from_name
from tests.kernels.launching import (
    cpu_shaped,
    gpu_shaped,
    in_small_groups,
    normal,
    on_device,
    poisoned,
    run,
)

SHAPES = [
    ((4, 10), 1),
    ((3, 16), 1),
    ((3, 17), 1),
    ((5, 1), 1),
    ((2, 1000), 1),
    ((300, 33), 1),
    ((7, 5), 0),
    ((2, 6, 15), 1),
    ((2, 6, 33), 1),
    ((3, 4, 5), 2),
    ((1,), 0),
]
EPS = np.finfo(np.float32).eps
FUNCTIONS = {False: (softmax, softmax_grad), True: (log_softmax, log_softmax_grad)}


def log_softmax_of(x, axis):
    shifted = x.astype(np.float64) - x.max(axis=axis, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=axis, keepdims=True))


@pytest.mark.parametrize(("shape", "dim"), SHAPES, ids=str)
def test_softmax_and_its_gradient(dev, target, shape, dim):
    values, upstream = 3 * normal(*shape), normal(*shape, seed=1)
    expected = np.exp(log_softmax_of(values, dim))
    y, gx = poisoned(shape), poisoned(shape)
    run(softmax(target, y, on_device(values), dim=dim))
    np.testing.assert_allclose(y.numpy(), expected, rtol=40 * EPS, atol=1e-30)
    run(softmax_grad(target, gx, on_device(upstream), y, dim=dim))
    slope = expected * (upstream - (upstream * expected).sum(axis=dim, keepdims=True))
    np.testing.assert_allclose(gx.numpy(), slope, atol=40 * EPS, rtol=0)


@pytest.mark.parametrize("log", [False, True])
def test_short_lines_stay_with_the_few_items_that_share_them_on_gpus(log):
    """Of 49 elements each of eight items keeps seven; a line of infinities is not a number."""
    values, upstream = 3 * normal(2100, 49), normal(2100, 49, seed=1)
    values[0, 3], values[1, 48] = np.nan, -np.inf
    values[2] = -np.inf
    opened = gpu_shaped(device())
    target = replace(opened, traits=replace(opened.traits, compute_units=2))
    y, gx = poisoned(values.shape), poisoned(values.shape)
    launches = (log_softmax if log else softmax)(target, y, on_device(values), dim=1)
    launches += (log_softmax_grad if log else softmax_grad)(
        target, gx, on_device(upstream), y, dim=1
    )
    assert [(x.kernel.params["reduce_items"], x.kernel.params["held"]) for x in launches] == [
        (8, 7),
        (8, 7),
    ]
    run(launches)
    assert np.isnan(y.numpy()[[0, 2]]).all()
    assert y.numpy()[1, 48] == (-np.inf if log else 0)
    logs = log_softmax_of(values[3:], 1)
    part = np.exp(logs)
    expected = logs if log else part
    np.testing.assert_allclose(y.numpy()[3:], expected, rtol=40 * EPS, atol=40 * EPS)
    g = upstream[3:]
    sums = (g if log else g * part).sum(axis=1, keepdims=True, dtype=np.float64)
    slope = g - part * sums if log else part * (g - sums)
    np.testing.assert_allclose(gx.numpy()[3:], slope, atol=100 * EPS, rtol=40 * EPS)


@pytest.mark.parametrize(("shape", "dim"), SHAPES, ids=str)
def test_log_softmax_and_its_gradient(dev, target, shape, dim):
    values, upstream = 3 * normal(*shape), normal(*shape, seed=1)
    expected = log_softmax_of(values, dim)
    y, gx = poisoned(shape), poisoned(shape)
    run(log_softmax(target, y, on_device(values), dim=dim))
    np.testing.assert_allclose(y.numpy(), expected, rtol=4 * EPS, atol=8 * EPS)
    run(log_softmax_grad(target, gx, on_device(upstream), y, dim=dim))
    slope = upstream - np.exp(expected) * upstream.sum(axis=dim, keepdims=True, dtype=np.float64)
    np.testing.assert_allclose(gx.numpy(), slope, atol=100 * EPS, rtol=40 * EPS)


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
@pytest.mark.parametrize(("shape", "dim"), [*SHAPES, ((600, 300), 1), ((4, 5000), 1)], ids=str)
@pytest.mark.parametrize("log", [False, True])
def test_sixteen_bits_are_rounded_once(dev, target, name, shape, dim, log):
    """What float32 of the same numbers gives, but for sums taken in other vectors."""
    target, narrow, (forward, backward) = in_small_groups(target), from_name(name), FUNCTIONS[log]
    eps = float(ml_dtypes.finfo(narrow.numpy).eps)
    x, gy = (on_device((k * normal(*shape, seed=k)).astype(narrow.numpy)) for k in (3, 1))
    y, gx = (on_device(np.full(shape, np.nan, narrow.numpy)) for _ in range(2))
    run(forward(target, y, x, dim=dim))
    logs = log_softmax_of(x.numpy().astype(np.float32), dim)
    expected = logs if log else np.exp(logs)
    found = y.numpy().astype(np.float64)
    np.testing.assert_allclose(found, expected, rtol=0.51 * eps, atol=6.1e-8)
    run(backward(target, gx, gy, y, dim=dim))
    g, part = gy.numpy().astype(np.float64), np.exp(found) if log else found
    sums = (g if log else g * part).sum(axis=dim, keepdims=True)
    slope = g - part * sums if log else part * (g - sums)
    limit = {"rtol": 0.51 * eps, "atol": 1e-4 * eps * (1 + np.abs(sums).max()) + 6e-8}
    np.testing.assert_allclose(gx.numpy().astype(np.float64), slope, **limit)


def test_softmax_of_extremes(dev, target):
    values = np.array([[1e4, -1e4, 9.999e3], [-np.inf, 0, -np.inf], [-3e38, -3e38, -3e38]])
    y = poisoned((3, 3))
    run(softmax(target, y, on_device(values.astype(np.float32)), dim=1))
    expected = np.exp(log_softmax_of(values.astype(np.float32), 1))
    np.testing.assert_allclose(y.numpy(), expected, rtol=1e-5)


def test_softmax_of_offset_views_and_nothing(dev, target):
    values = normal(5, 12)
    y = poisoned((3, 12))
    run(softmax(target, y, on_device(values).view((3, 12), (12, 1), 24), dim=1))
    np.testing.assert_allclose(y.numpy(), np.exp(log_softmax_of(values[2:], 1)), rtol=1e-5)
    nothing = poisoned((0, 4))
    assert softmax(target, nothing, nothing, dim=1) == []


def test_softmax_refuses_strided_arrays(dev, target):
    x = on_device(normal(4, 4))
    with pytest.raises(ArgumentError, match="arrays are dense"):
        softmax(target, poisoned((4, 4)), x.view((4, 4), (1, 4)), dim=1)


def reference(x, targets, weight, settings):
    """Losses, reduced loss and gradient for an upstream of all ones, in float64."""
    classes = x.shape[1]
    x64 = np.moveaxis(x.astype(np.float64), 1, -1).reshape(-1, classes)
    log_p = log_softmax_of(x64, 1) if settings.normalize else x64
    p = np.exp(log_p) if settings.normalize else np.zeros_like(log_p)
    w = np.ones(classes) if weight is None else weight.astype(np.float64)
    t, s = targets.reshape(-1), settings.label_smoothing
    valid = t != settings.ignore_index
    safe = np.where(valid, t, 0)
    hot = np.eye(classes)[safe]
    share = ((1 - s) * hot + s / classes) * w  # each class's part of a row's loss
    losses = np.where(valid, -(share * log_p).sum(axis=1), 0)
    total = (w[safe] * valid).sum()
    slope = (p * share.sum(axis=1, keepdims=True) - share) * valid[:, None]
    if settings.reduction == "mean":
        slope = slope / total
    reduced = {"none": losses, "sum": losses.sum(), "mean": losses.sum() / total}
    spatial = (x.shape[0], *x.shape[2:], classes)
    return reduced[settings.reduction], np.moveaxis(slope.reshape(spatial), -1, 1)


def run_loss(dev, target, x, targets, weight, settings):
    scores, classes = on_device(x), on_device(targets)
    weights = None if weight is None else on_device(weight)
    out = poisoned(targets.shape if settings.reduction == "none" else ())
    lse = poisoned((2, *targets.shape)) if settings.normalize else None
    total = poisoned(()) if settings.reduction == "mean" else None
    gx = poisoned(x.shape)
    saved = (lse, total, scores, classes, weights)
    run(cross_entropy(target, out, *saved, settings=settings))
    gy = on_device(np.full(out.shape, 2, np.float32))
    run(cross_entropy_grad(target, gx, gy, *saved, settings=settings))
    return out.numpy(), gx.numpy() / 2


@pytest.mark.parametrize("shape", [(6, 10), (5, 40), (1, 1), (3, 4, 7), (2, 5, 6, 9)], ids=str)
@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
def test_cross_entropy_and_its_gradient(dev, target, shape, reduction):
    x = 2 * normal(*shape)
    targets = np.random.default_rng(2).integers(0, shape[1], (shape[0], *shape[2:]))
    settings = Settings(reduction, -100, 0.0, normalize=True)
    loss, slope = reference(x, targets, None, settings)
    got, gx = run_loss(dev, target, x, targets, None, settings)
    np.testing.assert_allclose(got.reshape(-1), np.reshape(loss, -1), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(gx, slope, atol=1e-6)


@pytest.mark.parametrize("rows", [1, 64, 333])
def test_one_item_averages_losses_in_a_groups_order(dev, rows):
    """Losses that are given (logarithms of probabilities) are the same; so is their mean, then."""
    given = -np.abs(normal(rows, 5))
    targets = np.random.default_rng(2).integers(0, 5, rows)
    settings = Settings("mean", 3, 0.0, normalize=False)
    shapes = [shaped(dev) for shaped in (cpu_shaped, gpu_shaped)]
    means = [run_loss(dev, shape, given, targets, None, settings)[0] for shape in shapes]
    np.testing.assert_array_equal(*means)


@pytest.mark.parametrize("normalize", [True, False], ids=["scores", "log-probabilities"])
@pytest.mark.parametrize("weighted", [True, False], ids=["weighted", "plain"])
@pytest.mark.parametrize("shape", [(9, 20), (4, 6, 5)], ids=str)
def test_weights_smoothing_and_ignored_targets(dev, target, shape, weighted, normalize):
    x = 2 * normal(*shape)
    if not normalize:
        x = log_softmax_of(x, 1).astype(np.float32)
    targets = np.random.default_rng(2).integers(0, shape[1], (shape[0], *shape[2:]))
    targets.flat[3] = targets.flat[5] = 2
    weight = (0.5 + np.arange(shape[1], dtype=np.float32) / 7) if weighted else None
    smoothing = 0.1 if normalize else 0.0
    settings = Settings("mean", 2, smoothing, normalize)
    loss, slope = reference(x, targets, weight, settings)
    got, gx = run_loss(dev, target, x, targets, weight, settings)
    np.testing.assert_allclose(got, loss, rtol=1e-5)
    np.testing.assert_allclose(gx, slope, atol=1e-6)


def test_mean_over_many_losses(dev, target):
    x = normal(20_000, 3)
    targets = np.random.default_rng(2).integers(0, 3, 20_000)
    settings = Settings("mean", -100, 0.0, normalize=True)
    loss, _ = reference(x, targets, None, settings)
    got, _ = run_loss(dev, target, x, targets, None, settings)
    np.testing.assert_allclose(got, loss, rtol=1e-6)


@pytest.mark.parametrize("bad", [-1, 10, 2**40])
def test_target_outside_the_classes_gives_nan(dev, target, bad):
    x = normal(4, 10)
    targets = np.array([1, bad, 3, 0])
    got, gx = run_loss(dev, target, x, targets, None, Settings("none", -100, 0.0, normalize=True))
    np.testing.assert_array_equal(np.isnan(got), [False, True, False, False])
    np.testing.assert_array_equal(np.isnan(gx).any(axis=1), [False, True, False, False])


def test_no_counted_target_gives_nan_mean_and_zero_sum(dev, target):
    x, targets = normal(3, 4), np.full(3, -100)
    assert np.isnan(run_loss(dev, target, x, targets, None, Settings("mean", -100, 0.0, True))[0])
    total, gx = run_loss(dev, target, x, targets, None, Settings("sum", -100, 0.0, True))
    assert total == 0
    np.testing.assert_array_equal(gx, 0)


def test_small_probabilities_are_as_accurate_as_large_ones(dev, target):
    # One score is far above the others, so that each probability is its exponential.
    below = -np.linspace(20, 87, 4097, dtype=np.float32)
    values = np.concatenate([[np.float32(0)], below])[None]
    y = poisoned(values.shape)
    run(softmax(target, y, on_device(values), dim=1))
    np.testing.assert_allclose(y.numpy(), np.exp(values.astype(np.float64)), rtol=4 * EPS)


def test_hopeless_scores_have_no_probability(dev, target):
    values = np.array([[1, -np.inf, -200, -3e38] * 5, [np.nan] + [0] * 19], np.float32)
    values[0, 3] = 1
    y = poisoned(values.shape)
    run(softmax(target, y, on_device(values), dim=1))
    got = y.numpy()
    assert np.count_nonzero(got[0]) == np.count_nonzero(values[0] == 1)
    assert np.isnan(got[1]).all()


@pytest.mark.parametrize("n", [10, 64, 150])
def test_the_largest_score_is_found_wherever_it_is(dev, target, n):
    values = normal(n, n)
    np.fill_diagonal(values, 1e4)
    y, loss, lse = poisoned((n, n)), poisoned(()), poisoned((2, n))
    labels = on_device(np.arange(n))
    run(softmax(target, y, on_device(values), dim=1))
    settings = Settings("sum", -100, 0.0, True)
    run(cross_entropy(target, loss, lse, None, on_device(values), labels, None, settings=settings))
    np.testing.assert_array_equal(y.numpy(), np.eye(n))
    np.testing.assert_array_equal(lse.numpy(), [[1e4] * n, [0] * n])


@pytest.mark.parametrize("at", [0, 70, 127, 149])
def test_a_score_that_is_not_a_number_spoils_its_row_alone(dev, target, at):
    values = normal(3, 150)
    values[1, at] = np.nan
    y, loss, lse = poisoned((3, 150)), poisoned((3,)), poisoned((2, 3))
    run(softmax(target, y, on_device(values), dim=1))
    settings = Settings("none", -100, 0.0, True)
    targets = on_device(np.array([1, 2, 3]))
    run(cross_entropy(target, loss, lse, None, on_device(values), targets, None, settings=settings))
    for got in (y.numpy().T, loss.numpy(), lse.numpy()[1]):
        np.testing.assert_array_equal(np.isnan(got).reshape(-1, 3).all(0), [False, True, False])
        assert np.isfinite(got.reshape(-1, 3)[:, ::2]).all()


@pytest.mark.parametrize("rows", [1, 5])
def test_results_that_go_past_the_caches_have_the_same_bits(dev, monkeypatch, rows):
    traits = replace(dev.traits, dedicated_local_memory=False)
    target = replace(dev.target, traits=traits)
    shape = (rows, 96)
    x, g = (on_device(3 * normal(*shape, seed=k)) for k in range(2))
    labels = on_device(np.arange(rows))
    settings = Settings("sum", -100, 0.1, True)

    def results():
        y, gx, log_y, log_gx, slope = (poisoned(shape) for _ in range(5))
        loss, lse = poisoned(()), poisoned((2, rows))
        launches = [
            *softmax(target, y, x, dim=1),
            *softmax_grad(target, gx, g, y, dim=1),
            *log_softmax(target, log_y, x, dim=1),
            *log_softmax_grad(target, log_gx, g, log_y, dim=1),
        ]
        streams = [launch.kernel.params["stream"] for launch in launches]
        launches += cross_entropy(target, loss, lse, None, x, labels, None, settings=settings)
        last = cross_entropy_grad(
            target, slope, Array.from_numpy(np.ones((), np.float32), dev), lse, None, x, labels,
            None, settings=settings,
        )  # fmt: skip
        streams.append(last[0].kernel.params["stream"])
        run([*launches, *last])
        return streams, [a.numpy() for a in (y, gx, log_y, log_gx, slope)]

    plain, wanted = results()
    monkeypatch.setattr(streaming, "STREAM_BYTES", 0)
    monkeypatch.setattr(streaming, "LINE_BYTES", 4 * max(2, dev.traits.simd_width))
    streamed, got = results()
    assert plain == [False] * 5
    assert streamed == [True] * 5
    for a, b in zip(wanted, got, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("n", [700, 5000])
def test_scores_of_many_classes_that_are_anything(target, n):
    """Whole runs of minus infinity, offsets, growing and falling scores; NaN stays in its row."""
    rows = normal(8, n)
    rows[0] += 3e4
    rows[1, : n - 3] = -np.inf
    rows[2, 5:] = -np.inf
    rows[3] = np.linspace(-300, 300, n)
    rows[4] = np.linspace(300, -300, n)
    rows[5, n // 2] = np.nan
    rows[6, n - 2] = np.inf
    rows[7] = -np.inf
    labels = on_device(np.array([3, n - 1, 2, n - 1, 0, 1, 2, 3]))
    settings = Settings("none", -100, 0.0, True)
    loss, lse = poisoned((8,)), poisoned((2, 8))
    run(cross_entropy(target, loss, lse, None, on_device(rows), labels, None, settings=settings))
    with np.errstate(invalid="ignore"):
        wanted = -log_softmax_of(rows, 1)[np.arange(8), labels.numpy()]
    wanted[5:] = np.nan
    np.testing.assert_allclose(loss.numpy(), wanted, rtol=1e-5, atol=2e-5)
    np.testing.assert_array_equal(lse.numpy()[0, :5], rows[:5].max(1))


def test_items_keep_rows_of_whole_lines_along_other_axes():
    target = cpu_shaped(device())
    x, lanes = on_device(np.zeros((8, 21, 128), np.float32)), lanes_of(target, 4)
    (launch,) = softmax(target, poisoned(x.shape), x, dim=1)
    params = launch.kernel.params
    assert params["vectors"] * lanes * 4 >= streaming.LINE_BYTES
    assert params["room"] >= 21 * params["vectors"] * lanes
    units = replace(target, traits=replace(target.traits, compute_units=10**6))
    (launch,) = softmax(units, poisoned(x.shape), x, dim=1)
    assert launch.kernel.params["vectors"] == 1
    assert share_of_item(target, (8, 10**6, 128), lanes, 4, 1)[1] == 0  # too many to be kept


def test_the_gradient_of_a_loss_is_written_by_whole_lines():
    target, shape = cpu_shaped(device()), (2, 3, 40)
    gx, gy, lse = poisoned(shape), on_device(np.ones(1, np.float32)), poisoned((2, 40))
    x, targets = on_device(np.zeros(shape, np.float32)), on_device(np.zeros((2, 40), np.int64))
    settings = Settings("sum", -100, 0.0, True)
    (launch,) = cross_entropy_grad(target, gx, gy, lse, None, x, targets, None, settings=settings)
    assert launch.kernel.params["lanes"] * 4 == streaming.LINE_BYTES
