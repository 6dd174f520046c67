"""The line search on functions of one number whose derivatives are known."""

from __future__ import annotations

import importlib
import math

import numpy as np
import pytest

from clnet.optim.line_search import Point, strong_wolfe

FUNCTIONS = {
    "bowl": (lambda t: (t - 2) ** 2, lambda t: 2 * (t - 2)),
    "steep": (lambda t: math.exp(t) - 3 * t, lambda t: math.exp(t) - 3),
    "waves": (lambda t: math.sin(t) - t / 2 + t * t / 50, lambda t: math.cos(t) - 0.5 + t / 25),
    "wall": (
        lambda t: -t - 0.1 * math.log(1 - t) if t < 1 else math.nan,
        lambda t: -1 + 0.1 / (1 - t) if t < 1 else math.nan,
    ),
    "cliff": (lambda t: -t if t < 3 else 1e300, lambda t: -1 if t < 3 else 1e300),
}


def search(name, rate, evaluations=25):
    loss, slope = FUNCTIONS[name]
    tried = []

    def evaluate(t):
        tried.append(t)
        return Point(t, loss(t), slope(t), None)

    # A sine falls from 0.9 on only.
    base = 2.0 if name == "waves" else 0.0
    start = Point(0.0, loss(base), slope(base), None)
    found = strong_wolfe(
        lambda t: evaluate(base + t)._replace(rate=t),
        start,
        rate,
        narrowest=1e-9,
        evaluations=evaluations,
    )
    return start, found, tried


@pytest.mark.parametrize("rate", [1e-3, 0.3, 1.0, 50.0])
@pytest.mark.parametrize("name", ["bowl", "steep", "waves", "wall"])
def test_the_point_found_fulfils_the_conditions(name, rate):
    start, found, tried = search(name, rate)
    assert found.loss <= start.loss + 1e-4 * found.rate * start.slope
    assert abs(found.slope) <= 0.9 * abs(start.slope)
    assert len(tried) <= 26


def test_the_best_point_is_given_where_none_fulfils_them():
    start, found, tried = search("cliff", 1.0)
    assert len(tried) <= 26
    assert 2.9 < found.rate < 3
    assert found.loss < start.loss


def test_no_evaluation_left_gives_the_better_of_start_and_first():
    assert search("bowl", 1.0, evaluations=0)[1].rate == 1.0
    assert search("bowl", 50.0, evaluations=0)[1].rate == 0.0


def waves_drawn(rng):
    """A wave on a slope, in steps of a quarter or smooth, with its slope; it falls at 0."""
    while True:
        a, b, c, d = (rng.uniform(*bounds) for bounds in ((-2, 0.2), (-1, 1), (0.5, 8), (0, 6)))
        step = rng.choice([0, 0.25])  # of equal losses, too, one is the lower

        def loss(t, a=a, b=b, c=c, d=d, step=step):
            value = a * t + b * math.sin(c * t + d) + t * t / 20
            return round(value / step) * step if step else value

        def slope(t, a=a, b=b, c=c, d=d):
            return a + b * c * math.cos(c * t + d) + t / 10

        if slope(0) < 0:
            return loss, slope


def test_it_tries_what_pytorchs_tries():
    torch = pytest.importorskip("torch", reason="the torch extra is not installed")
    theirs = importlib.import_module("torch.optim.lbfgs")._strong_wolfe
    rng = np.random.default_rng(2)
    for _ in range(200):
        loss, slope = waves_drawn(rng)
        rate, most = float(rng.choice([5.0, 1.0, 0.1, 0.01])), int(rng.choice([25, 8, 3, 1]))
        tried, expected = [], []

        def evaluate(t, loss=loss, slope=slope, tried=tried):
            tried.append(t)
            return Point(t, loss(t), slope(t), None)

        def evaluate_theirs(x, t, d, loss=loss, slope=slope, expected=expected):
            expected.append(float(t))
            return loss(float(t)), torch.tensor([slope(float(t))], dtype=torch.float64)

        start = Point(0.0, loss(0), slope(0), None)
        strong_wolfe(evaluate, start, rate, narrowest=1e-9, evaluations=most)
        gradient = torch.tensor([start.slope], dtype=torch.float64)
        direction = torch.ones(1, dtype=torch.float64)
        theirs(
            evaluate_theirs, None, rate, direction, start.loss, gradient, gradient[0], max_ls=most
        )
        assert tried == pytest.approx(expected, rel=1e-6)
