"""Softmax, cross entropy, batch norm, norms of rows, recurrent layers, with their gradients."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module
from itertools import product
from typing import Any

import numpy as np
import pytest

from clnet.device import Check, Target, device
from clnet.kernels import streaming as streaming_module
from clnet.kernels.norm import Running
from clnet.kernels.norm import norm_in_registers as runs_module
from clnet.kernels.norm import norm_parts_group as parts_module
from clnet.kernels.norm.norm import (
    batch_norm,
    batch_norm_grad,
    batch_norm_statistics,
    group_norm_sums,
)
from clnet.kernels.norm.norm_groups import groups_grad, norm_groups
from clnet.kernels.norm.row_norm import row_norm
from clnet.kernels.norm.row_norm_grad import row_norm_grad
from clnet.kernels.recurrent import alignments, alignments_backward
from clnet.kernels.softmax.cross_entropy import Settings, cross_entropy
from clnet.kernels.softmax.cross_entropy_grad import cross_entropy_grad
from clnet.kernels.softmax.softmax import log_softmax, log_softmax_grad, softmax, softmax_grad
from clnet.ops.recurrence import Recurrence, RecurrenceBackward
from clnet.ops.rnn import Cell
from clnet.values.dtypes import from_name

from .harness import (
    REALS,
    RNG,
    case,
    constants,
    given,
    near,
    normal,
    output,
    run,
)

loss_module = import_module("clnet.kernels.softmax.cross_entropy")
loss_grad_module = import_module("clnet.kernels.softmax.cross_entropy_grad")
loss_mean_module = import_module("clnet.kernels.softmax.cross_entropy_mean")
norm_module = import_module("clnet.kernels.norm.norm")
groups_module = import_module("clnet.kernels.norm.norm_groups")
row_module = import_module("clnet.kernels.norm.row_norm")
row_grad_module = import_module("clnet.kernels.norm.row_norm_grad")
row_grad_group_module = import_module("clnet.kernels.norm.row_norm_grad_group")
softmax_module = import_module("clnet.kernels.softmax.softmax")
columns_module = import_module("clnet.kernels.softmax.softmax_columns")
recurrence_module = import_module("clnet.kernels.recurrent.recurrence")
recurrence_ring_module = import_module("clnet.kernels.recurrent.recurrence_ring")
recurrence_step_module = import_module("clnet.kernels.recurrent.recurrence_step")
alignments_module = import_module("clnet.kernels.recurrent.alignments")

MODULES = (
    softmax_module,
    columns_module,
    loss_module,
    loss_grad_module,
    loss_mean_module,
    norm_module,
    runs_module,
    parts_module,
    groups_module,
    row_module,
    row_grad_module,
    row_grad_group_module,
    recurrence_module,
    recurrence_ring_module,
    recurrence_step_module,
    alignments_module,
)


def log_softmax_of(x: np.ndarray, axis: int) -> np.ndarray:
    shifted = x.astype(np.float64) - x.max(axis=axis, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=axis, keepdims=True))


def check_softmax(target: Target, shape: tuple[int, ...], dim: int, dtype: Any) -> None:
    x, gy = normal(*shape, dtype=dtype), normal(*shape, dtype=dtype)
    log_p = log_softmax_of(x, dim)
    p = np.exp(log_p)
    slope = p * (gy - (gy * p).sum(axis=dim, keepdims=True))
    log_slope = gy - p * gy.sum(axis=dim, keepdims=True)
    for forward, backward, value, gradient in (
        (softmax, softmax_grad, p, slope),
        (log_softmax, log_softmax_grad, log_p, log_slope),
    ):
        y, gx = output(shape, dtype), output(shape, dtype)
        run(forward(target, y, given(x, before=1), dim=dim))
        near(y, value, terms=64)
        run(backward(target, gx, given(gy), y, dim=dim))
        near(gx, gradient, terms=128)


@case()
def softmaxes(target: Target) -> None:
    for dtype in REALS:
        for shape, dim in (((3, 19), 1), ((5, 33), 0), ((2, 6, 3), 1), ((70, 2), 1)):
            check_softmax(target, shape, dim, dtype)
        if target.traits.dedicated_local_memory:
            continue
        for most in (2**16, 0):  # several vectors of a row, which are kept or read again
            with constants(columns_module, _MOST_KEPT=most):
                check_softmax(target, (4, 3, 43), 1, dtype)
        with constants(softmax_module, _KEPT_BYTES=64):  # exponentials are computed again
            check_softmax(target, (3, 19), 1, dtype)


@case()
def rows_of_sixteen_bits(target: Target) -> None:
    """Compared roughly: kernels of the tests above have their numbers."""
    kinds = (np.dtype(np.float16), from_name("bfloat16").numpy)
    for dtype, (shape, dim) in product(
        kinds, (((3, 19), 1), ((5, 33), 0), ((70, 2), 1), ((2, 80), 1))
    ):
        x, gy = normal(*shape).astype(dtype), normal(*shape).astype(dtype)
        wide = x.astype(np.float32)
        for function, slope in ((softmax, softmax_grad), (log_softmax, log_softmax_grad)):
            y, gx = given(np.full(shape, np.nan).astype(dtype)), given(gy)
            run(function(target, y, given(x, before=1), dim=dim))
            logs, g = log_softmax_of(wide, dim), gy.astype(np.float32)
            p = np.exp(logs)
            rough(y, p if function is softmax else logs)
            run(slope(target, gx, given(gy, before=3), y, dim=dim))
            sums = ((g * p) if function is softmax else g).sum(axis=dim, keepdims=True)
            rough(gx, p * (g - sums) if function is softmax else g - p * sums)
        rows, n = shape
        for of_weight, centred in product((dtype, np.float32), (True, False)):
            weight = given(np.ones(n, of_weight))
            y, gx = given(np.full(shape, np.nan).astype(dtype)), given(gy)
            mean = output((rows,)) if centred else None
            invstd, sums = output((rows,)), tuple(output((n,)) for _ in range(1 + centred))
            bias = weight if centred else None
            run(row_norm(target, y, mean, invstd, given(x, before=1), weight, bias, eps=1e-3))
            run(row_norm_grad(target, gx, sums, given(gy), given(x), mean, invstd, weight))
            centre = wide.mean(1, keepdims=True) * centred
            deviation = np.sqrt(((wide - centre) ** 2).mean(1, keepdims=True) + 1e-3)
            rough(y, (wide - centre) / deviation + centred)
            if centred:
                rough(sums[1], gy.astype(np.float32).sum(0))


def rough(actual: Any, expected: np.ndarray) -> None:
    """Within a few roundings of 16 bits."""
    np.testing.assert_allclose(actual.numpy().astype(np.float32), expected, rtol=0.03, atol=0.03)


@case("cpu")
def results_past_the_caches(target: Target) -> None:
    line = 4 * target.traits.simd_width
    with constants(streaming_module, STREAM_BYTES=0, LINE_BYTES=line):
        for dtype in REALS:
            check_softmax(target, (3, 32), 1, dtype)
            check_groups(target, (2, 1, 2, 32), dtype, affine=True)
            check_groups(target, (2, 1, 32, 1), dtype, affine=True)
            check_rows(target, (6, 32), dtype, centred=True, affine=True)
            settings = Settings("mean", -100, 0.1, True)
            check_loss(target, (5, 32), dtype, settings, weighted=False)


TARGET = Check("cross_entropy", "target", "it is a class", "classes")


@case()
def targets_reported(target: Target) -> None:
    settings = Settings("none", -100, 0.0, True)
    for shape in ((5, 19), (2, 4, 7)):
        spatial = (shape[0], *shape[2:])
        targets = np.full(spatial, -100)
        targets.flat[3] = shape[1]
        logits, lse = given(normal(*shape)), output((2, *spatial))
        arrays = (output(spatial), lse, None, logits, given(targets))
        run(cross_entropy(target, *arrays, None, settings=settings, check=TARGET))
        with pytest.raises(IndexError, match=f"target={shape[1]}, position=3, classes={shape[1]}"):
            device().synchronize()


def check_loss(
    target: Target, shape: tuple[int, ...], dtype: Any, settings: Settings, *, weighted: bool
) -> None:
    x = normal(*shape, dtype=dtype)
    if not settings.normalize:
        x = log_softmax_of(x, 1).astype(dtype)
    classes, spatial = shape[1], (shape[0], *shape[2:])
    targets = RNG.integers(0, classes, spatial)
    targets.flat[0], targets.flat[1] = 1, settings.ignore_index
    weight = np.linspace(0.5, 1.5, classes).astype(dtype) if weighted else np.ones(classes, dtype)

    log_p = log_softmax_of(x, 1) if settings.normalize else x.astype(np.float64)
    hot = np.moveaxis(np.eye(classes)[np.where(targets < 0, 0, targets)], -1, 1)
    valid = (targets != settings.ignore_index)[:, None]
    s = settings.label_smoothing
    over_classes = weight.reshape(-1, *[1] * (x.ndim - 2))
    share = ((1 - s) * hot + s / classes) * over_classes * valid
    losses = -(share * log_p).sum(axis=1)
    total = (hot * over_classes * valid).sum()
    slope = -share
    if settings.normalize:
        slope = np.exp(log_p) * share.sum(axis=1, keepdims=True) - share
    loss = {"none": losses, "sum": losses.sum(), "mean": losses.sum() / total}[settings.reduction]
    slope = slope / total if settings.reduction == "mean" else slope

    out = output(np.shape(loss), dtype)
    saved = (
        output((2, *spatial), dtype) if settings.normalize else None,
        output((), dtype) if settings.reduction == "mean" else None,
        given(x, before=3),
        given(targets),
        given(weight) if weighted else None,
    )
    check = None if s else TARGET
    run(cross_entropy(target, out, *saved, settings=settings, check=check))
    near(out, np.asarray(loss), terms=128)
    gx, gy = output(shape, dtype), given(np.full(np.shape(loss), 2, dtype))
    run(cross_entropy_grad(target, gx, gy, *saved, settings=settings))
    near(gx, 2 * slope, terms=128)


@case()
def cross_entropies(target: Target) -> None:
    for dtype in REALS:
        for shape in ((5, 19), (2, 4, 7)):
            check_loss(target, shape, dtype, Settings("none", -100, 0.0, True), weighted=False)
            check_loss(target, shape, dtype, Settings("sum", -100, 0.2, True), weighted=True)
            check_loss(target, shape, dtype, Settings("mean", -100, 0.1, True), weighted=False)
            check_loss(target, shape, dtype, Settings("mean", -100, 0.0, False), weighted=True)
            check_loss(target, shape, dtype, Settings("none", -100, 0.0, False), weighted=False)
    with constants(loss_module, _MEAN_MOST=8):
        check_loss(target, (20, 3), np.float32, Settings("mean", -100, 0.0, True), weighted=True)


def check_norm(
    target: Target,
    shape: tuple[int, ...],
    dtype: Any,
    *,
    full: bool,
    before: int = 1,
    moving: Sequence[tuple[float | None, bool]] = (),
) -> None:
    """With weight and bias, or without; running statistics by a momentum and a count."""
    c, eps = shape[1], 1e-3
    x, gy = normal(*shape, dtype=dtype), normal(*shape, dtype=dtype)
    axes, wide = (0, *range(2, x.ndim)), (1, c, *[1] * (x.ndim - 2))
    weight, bias = normal(c, dtype=dtype), normal(c, dtype=dtype)
    scale = weight.reshape(wide).astype(np.float64) if full else 1.0
    shift = bias.reshape(wide) if full else 0.0
    mean, var, count = x.mean(axes, np.float64), x.var(axes, np.float64), x.size // c
    invstd = 1 / np.sqrt(var + eps)
    normed = (x - mean.reshape(wide)) * invstd.reshape(wide)

    weight_, bias_ = (given(weight), given(bias)) if full else (None, None)
    x_, gy_, y = given(x, before=before), given(gy, before=2 * before), output(shape, dtype)
    statistics = (output((c,), dtype), output((c,), dtype), output((c,), dtype))
    run(batch_norm(target, y, statistics, x_, weight_, bias_, eps=eps))
    near(y, normed * scale + shift, terms=256)
    for found, expected in zip(statistics, (mean, invstd, var * count / (count - 1)), strict=True):
        near(found, expected, terms=64)
    for momentum, counted in moving:
        old, batches = normal(c, dtype=dtype), given(np.array([3], np.int64), before=1)
        running = Running(given(old), given(old), momentum, batches if counted else None)
        run(batch_norm_statistics(target, (*statistics[:2], running), x_, eps=eps))
        share = 1 / 3 if momentum is None else momentum
        near(running.mean, old + share * (mean - old), terms=64)
        near(running.var, old + share * (var * count / (count - 1) - old), terms=64)
        assert batches.numpy()[0] == 3 + (counted and momentum is not None)

    gbias, gweight = gy.sum(axes, np.float64), (gy * normed).sum(axes)
    centred = gy - gbias.reshape(wide) / count - normed * gweight.reshape(wide) / count
    gx_, gw_, gb_ = output(shape, dtype), output((c,), dtype), output((c,), dtype)
    run(batch_norm_grad(target, gx_, gw_, gb_, gy_, x_, *statistics[:2], weight_))
    near(gx_, scale * invstd.reshape(wide) * centred, terms=512)
    near(gw_, gweight, terms=512)
    near(gb_, gbias, terms=512)


@case()
def batch_norms(target: Target) -> None:
    for dtype in REALS:
        check_norm(target, (3, 5, 7), dtype, full=True)
        check_norm(target, (35, 19), dtype, full=False)
    with constants(norm_module, _PART=16):
        check_norm(target, (3, 2, 4, 5), np.float32, full=False)
        check_norm(target, (70, 3), np.float32, full=True)
        for dtype in REALS:
            check_norm(target, (5, 2, 3, 12), dtype, full=True, before=4, moving=((0.25, True),))
    with constants(norm_module, _PART=192):  # of which a channel is one
        moving = ((0.25, False), (0.25, True), (None, True))
        check_norm(target, (5, 2, 3, 12), np.float32, full=True, before=4, moving=moving)
    if target.traits.dedicated_local_memory:
        for shape in ((3, 2, 4), (3, 2, 5), (7, 3)):
            x = normal(*shape).astype(np.float16)
            found = tuple(output((shape[1],)) for _ in range(3))
            run(batch_norm_statistics(target, found, given(x), eps=0.1))
            axes = tuple(axis for axis in range(x.ndim) if axis != 1)
            near(found[0], x.mean(axes, np.float64), terms=64)
    else:
        for kind in (np.dtype(np.float16), from_name("bfloat16").numpy):
            x, gy = (normal(2, 3, 150).astype(kind) for _ in range(2))
            found, sums = (tuple(output((3,)) for _ in range(k)) for k in (3, 2))
            run(batch_norm_statistics(target, found, given(x, before=1), eps=0.1))
            near(found[0], x.astype(np.float64).mean((0, 2)), terms=64)
            arrays = given(gy), given(x, before=1), *found[:2]
            run(batch_norm_grad(target, None, *sums, *arrays, None))
            near(sums[1], gy.astype(np.float64).sum((0, 2)), terms=256)


@case()
def sums_of_groups(target: Target) -> None:
    n, groups, members, inner = 2, 3, 2, 37
    with constants(norm_module, _PART=16):
        for dtype, weighted in ((REALS[0], True), (REALS[-1], False)):
            x, gy = normal(n, groups, members, inner), normal(n, groups, members, inner)
            x, gy = x.astype(dtype), gy.astype(dtype)
            mean, invstd = normal(n * groups, dtype=dtype), normal(n * groups, dtype=dtype)
            weight = normal(groups, members, dtype=dtype)
            channels, each = (groups, members), (n * groups,)
            written = tuple(output(shape, dtype) for shape in (channels, channels, each, each))
            weight_ = given(weight) if weighted else None
            arrays = (given(gy), given(x), given(mean), given(invstd))
            run(group_norm_sums(target, written, *arrays, weight_))
            centre, scale = (v.reshape(n, groups, 1, 1).astype(np.float64) for v in (mean, invstd))
            products, heavy = gy * (x - centre) * scale, weight[..., None] if weighted else 1.0
            expected = products.sum((0, 3)), gy.sum((0, 3), np.float64)
            totals = ((v * heavy).sum((2, 3), np.float64).ravel() for v in (products, gy))
            for found, wanted in zip(written, (*expected, *totals), strict=True):
                near(found, wanted, terms=1024)


def check_groups(target: Target, shape: tuple[int, ...], dtype: Any, *, affine: bool) -> None:
    """Groups of channels, with a weight and a bias, and their gradients, or without."""
    (n, groups, members, _), eps, axes = shape, 1e-3, (2, 3)
    x, gy = normal(*shape, dtype=dtype), normal(*shape, dtype=dtype)
    weight, bias = (normal(groups, members, dtype=dtype) for _ in range(2))
    scale, shift = (v[..., None] if affine else k for v, k in ((weight, 1.0), (bias, 0.0)))
    distance = x - x.mean(axes, np.float64, keepdims=True)
    invstd = 1 / np.sqrt((distance**2).mean(axes, keepdims=True) + eps)
    z, g = distance * invstd, gy * scale
    x_, y, gx = given(x, before=1), output(shape, dtype), output(shape, dtype)
    found = tuple(output((n * groups,), dtype) for _ in range(3))
    weight_, bias_ = (given(v) if affine else None for v in (weight, bias))
    run(norm_groups(target, y, found, x_, weight_, bias_, eps=eps))
    near(y, z * scale + shift, terms=256)
    near(found[2], x.reshape(n * groups, -1).var(1, np.float64, ddof=1), terms=64)
    sums = tuple(output((groups, members), dtype) for _ in range(2 * affine))
    run(groups_grad(target, gx, sums, given(gy), x_, *found[:2], weight_))
    slope = g - g.mean(axes, keepdims=True) - z * (g * z).mean(axes, keepdims=True)
    near(gx, invstd * slope, terms=512)
    for array, terms in zip(sums, (gy * z, gy), strict=False):
        near(array, terms.sum((0, 3), np.float64), terms=512)


@case("cpu")
def groups_by_items(target: Target) -> None:
    with constants(groups_module, _PART=48):
        for dtype in REALS:
            for inner in (37, 1):
                shape = (2, 3, 2 if inner > 1 else 21, inner)
                check_groups(target, shape, dtype, affine=True)
                check_groups(target, shape, dtype, affine=False)


def check_rows(
    target: Target, shape: tuple[int, int], dtype: Any, *, centred: bool, affine: bool
) -> None:
    """With a weight and, of layer norm, a bias and their gradients, or without."""
    (rows, n), eps = shape, 1e-3
    x, gy = normal(*shape, dtype=dtype), normal(*shape, dtype=dtype)
    weight, bias = normal(n, dtype=dtype), normal(n, dtype=dtype)
    scale, shift = weight if affine else 1.0, bias if affine and centred else 0.0
    mean = x.mean(1, np.float64) if centred else np.zeros(rows)
    distance = x - mean[:, None]
    invstd = 1 / np.sqrt((distance**2).mean(1) + eps)
    z = distance * invstd[:, None]

    x_, y, invstd_ = given(x, before=1), output(shape, dtype), output((rows,), dtype)
    mean_ = output((rows,), dtype) if centred else None
    weight_, bias_ = given(weight) if affine else None, given(bias) if affine and centred else None
    run(row_norm(target, y, mean_, invstd_, x_, weight_, bias_, eps=eps))
    near(y, z * scale + shift, terms=256)
    near(invstd_, invstd, terms=64)

    g = gy * scale
    level = g.mean(1, keepdims=True) if centred else 0.0
    slope = invstd[:, None] * (g - level - z * (g * z).mean(1, keepdims=True))
    gx, sums = output(shape, dtype), [output((n,), dtype) for _ in range(1 + centred)]
    sums = sums if affine else []
    run(row_norm_grad(target, gx, tuple(sums), given(gy), x_, mean_, invstd_, weight_))
    near(gx, slope, terms=512)
    for found, terms in zip(sums, (gy * z, gy), strict=False):
        near(found, terms.sum(0, np.float64), terms=512)


@case()
def norms_of_rows(target: Target) -> None:
    for dtype in REALS:
        for centred in (True, False):
            check_rows(target, (6, 19), dtype, centred=centred, affine=True)
            check_rows(target, (5, 70), dtype, centred=centred, affine=False)
    check_rows(target, (150, 3), np.float32, centred=True, affine=True)
    for own in (8, 16):
        with constants(row_grad_group_module, _LEAST_ITEMS=2, _OWN=own):
            check_rows(target, (6, 13), np.float32, centred=own == 8, affine=True)
    with constants(row_grad_group_module, _ROWS=()):
        check_rows(target, (6, 13), np.float32, centred=True, affine=True)


def lowered(function: Any, target: Target, inputs: tuple[Any, ...]) -> list[np.ndarray]:
    """Results of a function's launches for a target."""
    outputs = tuple(output(a.shape) for a in function.infer(*inputs))
    run(function.lower(target, outputs, inputs))
    return [y.numpy() for y in outputs]


def check_recurrence(
    target: Target, cell: Cell, lead: tuple[int, ...], *, bias: bool, size: int = 8, before: int = 4
) -> None:
    """All steps in one launch, or one for each, beside products and gates."""
    apart = replace(target, traits=replace(target.traits, dedicated_local_memory=False))
    steps, n, rows = 2, 3, cell.gates * size
    shapes = [(steps, *lead, n, rows), *[(*lead, n, size)] * cell.results, (*lead, rows, size)]
    inputs = tuple(given(normal(*s), before=before) for s in (*shapes, *[(*lead, rows)] * bias))
    forward = Recurrence(cell, backwards=bias)
    expected = lowered(forward, apart, inputs)
    for found, wanted in zip(lowered(forward, target, inputs), expected, strict=True):
        near(given(found), wanted.astype(float), terms=256)
    saved = (*inputs[: 2 + cell.results], *map(given, expected), given(normal(*expected[0].shape)))
    backward = RecurrenceBackward(cell, bias, (True,) + (False,) * (cell.results - 1))
    expected = lowered(backward, apart, saved)
    for found, wanted in zip(lowered(backward, target, saved), expected, strict=True):
        near(given(found), wanted.astype(float), terms=256)


@case("gpu")
def recurrent_layers(target: Target) -> None:
    check_recurrence(target, Cell.LSTM, (2,), bias=True)
    check_recurrence(target, Cell.GRU, (), bias=False)
    tight = replace(target, traits=replace(target.traits, local_memory_bytes=1024))
    check_recurrence(tight, Cell.GRU, (), bias=False)
    with constants(recurrence_module, _MOST_REGISTERS=52):  # half of the weights, near and not
        for room in (49152, 2048):
            sizes = {"local_memory_bytes": room, "large_local_memory_bytes": room}
            traits = replace(target.traits, max_group_size=64, compute_units=2, **sizes)
            held = replace(target, traits=traits)
            check_recurrence(held, Cell.GRU, (), bias=False, size=16)


_SHARE = recurrence_step_module.Share


def _in_blocks(of: Any) -> Any:
    def found(*args: Any, **given: Any) -> Any:
        share = of(*args, **given)
        return share and share._replace(patches=True)

    return found


@case("gpu")
def steps_of_recurrent_layers(target: Target) -> None:
    with constants(recurrence_module, _NEAR_BYTES=0):
        few = constants(recurrence_step_module, _ROWS=(8,), _COLUMNS=(8,), _CHUNKS=(8,))
        with few:  # sums of several tiles, of few items
            check_recurrence(target, Cell.LSTM, (2,), bias=True, size=12)
            check_recurrence(target, Cell.GRU, (), bias=False, size=12, before=3)
        wide = constants(recurrence_step_module, _ROWS=(32,), _COLUMNS=(16,), _CHUNKS=(8,))
        with wide, constants(_SHARE, of=_in_blocks(_SHARE.of)):  # 32 items in blocks of 4 by 8
            check_recurrence(target, Cell.LSTM, (2,), bias=True, size=12)
        small = {"_ITEMS": 8, "_DOWN": 4, "_DEEP": 2, "_TILES": ((8, 4),), "_CHUNKS": (4,)}
        ring = constants(recurrence_ring_module, **small, _COPY="direct", _BESIDE=-1e9)
        with ring, constants(recurrence_step_module, _RING_PRODUCTS=(0, 1e9)):
            check_recurrence(target, Cell.LSTM, (2,), bias=True, size=20)
            check_recurrence(target, Cell.GRU, (), bias=False, size=12)


def ways(emitted: np.ndarray, labels: list[int]) -> tuple[float, np.ndarray]:
    """Minus the logarithm of all ways of one sequence, and its slope, by probabilities."""
    p = np.exp(emitted.astype(np.float64))
    steps, states = len(p), 2 * len(labels) + 1
    picks = [labels[s // 2] if s % 2 else 0 for s in range(states)]
    leads = np.eye(states) + np.eye(states, k=1)
    for s in range(3, states, 2):
        leads[s - 2, s] = picks[s] not in (picks[s - 2], 0)
    to, on = np.zeros((steps, states)), np.zeros((steps, states))
    to[0, :2] = p[0, picks[:2]]
    on[-1, -2:] = 1
    for t in range(1, steps):
        to[t] = to[t - 1] @ leads * p[t, picks]
        on[-1 - t] = leads @ (on[-t] * p[-t, picks])
    slope = np.zeros_like(p)
    for s, pick in enumerate(picks):
        slope[:, pick] -= to[:, s] * on[:, s] / to[-1, -2:].sum()
    return -np.log(to[-1, -2:].sum()), slope


@case()
def ways_through_states(target: Target) -> None:
    check = Check("ctc_loss", "targets", "it is a class")
    for dtype, size, seen in product(REALS, (2, 11), (None, check)):
        steps, classes = 2 * size, 4
        emitted, targets = normal(steps, 3, classes, dtype=dtype), RNG.integers(0, 4, (3, size))
        targets[0, :2] = 2
        lengths = np.array([steps, steps - 1, 0]), np.array([size, size - 1, 0])
        inputs = given(emitted, before=2), given(targets, before=3)
        both = [given(x, before=1) for x in lengths]
        alpha = output((steps, 3, 2, size + 1), dtype)
        wrote = output((3,), dtype), alpha, given(np.zeros((3, size), np.int32))
        run(alignments(target, wrote, *inputs, both, blank=0, check=seen))
        g, out = normal(3, dtype=dtype), output(emitted.shape, dtype)
        slopes = out, output(alpha.shape, dtype)
        saved = given(g), wrote[1:], inputs[0], both
        run(alignments_backward(target, slopes, *saved, blank=0))
        losses, wanted = np.zeros(3), np.zeros(emitted.shape)
        for i, (end, most) in enumerate(zip(*lengths, strict=True)):
            if end:
                losses[i], slope = ways(emitted[:end, i], list(targets[i, :most]))
                wanted[:end, i] = g[i] * slope
        near(wrote[0], losses, terms=64)
        near(out, wanted, terms=64)
