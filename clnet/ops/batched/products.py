"""Rules of products, convolutions, attention and recurrences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Any

from ..attention import Attention, AttentionBackward, AttentionDelta
from ..conv import Conv2d, ConvInputGrad, ConvWeightGrad
from ..distance import Differences, Distances
from ..fourier import Fourier
from ..machinery.function import apply, results_of
from ..matmul import Linear, MatMul, matmul
from ..recurrence import Recurrence, RecurrenceBackward
from ..shape import contiguous, expand, permute, reshape
from .rule import Flags, all_with_batch, folded, lined_up, of_folded, rule, unfolded, with_batch


@rule(MatMul)
def _matmul(function: Any, flags: Flags, inputs: Sequence[Any], size: int) -> Sequence[Any]:
    a, b = inputs
    if flags == (True, False) and b.ndim == 2:  # one product with more rows
        rows = reshape(a, (prod(a.shape[:-1]), a.shape[-1]))
        return [reshape(apply(function, rows, b), (*a.shape[:-1], b.shape[-1]))]
    return [matmul(*lined_up(flags, inputs))]


@rule(Linear)
def _linear(function: Any, flags: Flags, inputs: Sequence[Any], size: int) -> Sequence[Any]:
    x, weight, *bias = inputs
    if flags[0] and not any(flags[1:]):
        return [unfolded(apply(function, folded(x), weight, *bias), size)]
    if flags[0] and not flags[1]:
        y = unfolded(apply(function, folded(x), weight), size)
    else:
        y = matmul(x, weight.transpose(-1, -2))
    if bias:
        y = y + (reshape(bias[0], (size, 1, -1)) if flags[2] else bias[0])
    return [y]


def _as_channels(x: Any, flag: bool, size: int) -> Any:  # noqa: FBT001
    """Images ``(n, size * c, h, w)``: each element's channels behind the last one's."""
    x = with_batch(x, flag, size)
    n, c, *plane = x.shape[1:]
    if n != 1:
        x = permute(x, (1, 0, 2, 3, 4))
    return contiguous(reshape(x, (n, size * c, *plane)))


def _from_channels(y: Any, size: int) -> Any:
    n, c, *plane = y.shape
    y = reshape(y, (n, size, c // size, *plane))
    return permute(y, (1, 0, 2, 3, 4)) if n != 1 else reshape(y, (size, n, c // size, *plane))


def _by_groups(settings: Any, size: int) -> Any:
    return replace(settings, groups=settings.groups * size, winograd=False)


@rule(Conv2d)
def _conv(function: Any, flags: Flags, inputs: Sequence[Any], size: int) -> Sequence[Any] | None:
    x, weight, *bias = inputs
    if not size:
        return None
    if flags[0] and not any(flags[1:]):
        return [unfolded(apply(function, folded(x), weight, *bias), size)]
    if flags[0] and not flags[1]:
        y = unfolded(apply(function, folded(x), weight), size)
        return [y + reshape(bias[0], (size, 1, -1, 1, 1))]
    settings = function.settings
    if flags[1]:
        weight = folded(weight)
        if flags[0] or settings.groups > 1:  # filters of each element see its own channels
            x, settings = _as_channels(x, flags[0], size), _by_groups(settings, size)
        y = _from_channels(apply(Conv2d(settings, function.activation), x, weight), size)
    else:
        y = expand(apply(Conv2d(settings), x, weight)[None], (size, -1, -1, -1, -1))
    if bias:
        y = y + reshape(bias[0], (size if flags[2] else 1, 1, -1, 1, 1))
    return [y]


@rule(ConvInputGrad)
def _conv_input(
    function: Any, flags: Flags, inputs: Sequence[Any], size: int
) -> Sequence[Any] | None:
    gy, weight = inputs
    if not size:
        return None
    n, c, *plane = function.x_shape
    if not flags[1]:
        own = ConvInputGrad(function.settings, (size * n, c, *plane))
        return [unfolded(apply(own, folded(gy), weight), size)]
    own = ConvInputGrad(_by_groups(function.settings, size), (n, size * c, *plane))
    gx = apply(own, _as_channels(gy, flags[0], size), folded(weight))
    return [_from_channels(gx, size)]


@rule(ConvWeightGrad)
def _conv_weight(
    function: Any, flags: Flags, inputs: Sequence[Any], size: int
) -> Sequence[Any] | None:
    if not size:
        return None
    gy, x = (_as_channels(each, f, size) for each, f in zip(inputs, flags, strict=True))
    oc, *rest = function.weight_shape
    own = ConvWeightGrad(_by_groups(function.settings, size), (size * oc, *rest))
    return [unfolded(apply(own, gy, x), size)]


@rule(Attention, AttentionBackward, AttentionDelta)
def _attention(
    function: Any, flags: Flags, inputs: Sequence[Any], size: int
) -> Sequence[Any] | None:
    if isinstance(function, AttentionDelta):
        return of_folded(function, flags, inputs, size)
    before = 6 if isinstance(function, AttentionBackward) else 3
    masks = [(m, f) for m, f in zip(inputs[before:], flags[before:], strict=True)]
    given = [
        folded(with_batch(x, f, size)) for x, f in zip(inputs[:before], flags[:before], strict=True)
    ]
    n = given[0].shape[0] // size if size else 0
    for mask, flag in masks:
        if flag or mask.shape[0] > 1:
            mask = with_batch(mask, flag, size)
            mask = expand(mask, (size, n, *mask.shape[2:]))
            mask = reshape(mask, (size * n, *mask.shape[2:]))
        given.append(mask)
    return [unfolded(y, size) for y in results_of(function, *given)] if size else None


@rule(Recurrence, RecurrenceBackward)
def _recurrence(
    function: Any, flags: Flags, inputs: Sequence[Any], size: int
) -> Sequence[Any] | None:
    """Of one weight sequences side by side; of a weight for each element, layers."""
    states = function.cell.results
    if not size or inputs[0].ndim - flags[0] != 3:
        return None
    at = 1 + states  # of the weight; all behind a backward's weight lie as the sequence does
    fixed = range(at, at + 1 if isinstance(function, RecurrenceBackward) else len(inputs))
    own_weights = any(flags[i] for i in fixed)
    given: list[Any] = []
    for i, (x, flag) in enumerate(zip(inputs, flags, strict=True)):
        x = with_batch(x, flag, size) if own_weights or i not in fixed else x
        if i in fixed:
            given.append(contiguous(x))
        elif 1 <= i <= states:
            given.append(contiguous(x) if own_weights else folded(x))
        elif own_weights:
            given.append(contiguous(permute(x, (1, 0, 2, 3))))
        else:
            given.append(folded(x, 1))
    found: list[Any] = []
    for y in results_of(function, *given):
        first = y.ndim == (3 if own_weights else 2)  # of the first states
        if own_weights:
            found.append(y if first else permute(y, (1, 0, 2, 3)))
        else:
            found.append(unfolded(y, size, 0 if first else 1))
    return found


@rule(Distances, Differences)
def _distances(function: Any, flags: Flags, inputs: Sequence[Any], size: int) -> Sequence[Any]:
    return results_of(function, *map(contiguous, all_with_batch(flags, inputs, size)))


rule(Fourier)(of_folded)
