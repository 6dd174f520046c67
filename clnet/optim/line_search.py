"""How far to go along a direction: step lengths that fulfil the strong Wolfe conditions.

It knows a function of one number, not tensors.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ..values.record import NamedTuple

_DECREASE = 1e-4  # part of the slope by which the loss must fall
_CURVATURE = 0.9  # part of the slope that may be left
_MARGIN = 0.1  # of an interval, where its ends are tried no closer
_LEAST_STRETCH, _MOST_STRETCH = 0.01, 10


class Point(NamedTuple):
    """The loss at a step length.

    Attributes:
        rate: the step length.
        loss: the loss there.
        slope: its derivative by the step length.
        gradient: its gradient, passed on.
    """

    rate: float
    loss: float
    slope: float
    gradient: Any


def strong_wolfe(
    evaluate: Callable[[float], Point],
    start: Point,
    rate: float,
    *,
    narrowest: float,
    evaluations: int,
) -> Point:
    """Search as Nocedal and Wright do (Numerical Optimization, 2006, algorithms 3.5 and 3.6).

    Where PyTorch's departs from the book this does: a loss that has risen between the first two
    step lengths is no end yet, and of two equal losses that of the older point is the lower one.

    Args:
        evaluate: the loss at a step length.
        start: that at 0, with a negative slope.
        rate: the first step length tried.
        narrowest: an interval smaller than this is not searched.
        evaluations: how many step lengths are tried after the first.

    Returns:
        A point where the loss has fallen by enough and its slope is small, or the best that was
        found.
    """
    before, new = start, evaluate(rate)
    for tried in range(evaluations):
        # A loss that is NaN has not fallen.
        risen = tried > 1 and new.loss >= before.loss
        if not _fallen(new, start) or risen:
            return _zoom(evaluate, start, [before, new], narrowest, evaluations - tried)
        if abs(new.slope) <= -_CURVATURE * start.slope:
            return new
        if new.slope >= 0:
            return _zoom(evaluate, start, [before, new], narrowest, evaluations - tried)
        least = new.rate + _LEAST_STRETCH * (new.rate - before.rate)
        longer = _minimum_of_cubic(before, new, least, _MOST_STRETCH * new.rate)
        before, new = new, evaluate(longer)
    return min(start, new, key=_loss)


def _zoom(
    evaluate: Callable[[float], Point],
    start: Point,
    ends: list[Point],
    narrowest: float,
    evaluations: int,
) -> Point:
    """Narrow an interval down that contains a step length wanted; points keep their places."""
    low, high = _by_loss(ends)
    at_an_end = False
    for _ in range(evaluations):
        left, right = sorted(end.rate for end in ends)
        if right - left <= narrowest:
            break
        rate = _minimum_of_cubic(ends[0], ends[1], left, right)
        margin = _MARGIN * (right - left)
        near = min(right - rate, rate - left) < margin
        # Twice in turn near an end, or at it, and the interval would hardly shrink.
        if near and (at_an_end or not left < rate < right):
            rate = right - margin if right - rate < rate - left else left + margin
            near = False
        at_an_end = near
        new = evaluate(rate)
        if not _fallen(new, start) or new.loss >= ends[low].loss:
            ends[high] = new
            low, high = _by_loss(ends)
            continue
        if abs(new.slope) <= -_CURVATURE * start.slope:
            return new
        if new.slope * (ends[high].rate - ends[low].rate) >= 0:
            ends[high] = ends[low]
        ends[low] = new
    return ends[low]


def _by_loss(ends: list[Point]) -> tuple[int, int]:
    """The places of the lower and of the higher one."""
    return (0, 1) if _loss(ends[0]) <= _loss(ends[1]) else (1, 0)


def _fallen(new: Point, start: Point) -> bool:
    return new.loss <= start.loss + _DECREASE * new.rate * start.slope


def _loss(point: Point) -> float:
    return math.inf if math.isnan(point.loss) else point.loss


def _minimum_of_cubic(a: Point, b: Point, least: float, most: float) -> float:
    """Where the cubic through two points with their slopes is least, held within bounds."""
    a, b = sorted((a, b), key=lambda point: point.rate)
    width = b.rate - a.rate
    tilt = a.slope + b.slope - 3 * (b.loss - a.loss) / width
    square = tilt * tilt - a.slope * b.slope
    if not 0 <= square < math.inf:
        return (least + most) / 2
    root = math.sqrt(square)
    denominator = b.slope - a.slope + 2 * root
    if denominator == 0:
        return (least + most) / 2
    return min(max(b.rate - width * (b.slope + root - tilt) / denominator, least), most)
