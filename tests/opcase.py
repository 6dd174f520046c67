"""The harness of the ops' tests: an :class:`OpCase` for each way to call an op, many checks each.

A test file of ``tests/ops`` holds a list ``CASES`` and this test::

    @pytest.mark.parametrize(("case", "check"), every_check(CASES))
    def test_op(case, check, device):
        check(case, device)

References are written in NumPy and run in float64 on the host, gradients are finite differences of
the *reference*: neither needs a device with double precision, and neither shares code with clnet.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import prod, sqrt
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from clnet.autodiff.gradient import grad
from clnet.device import Device
from clnet.ops.machinery.function import PUBLIC_OPS, apply
from clnet.ops.machinery.pointwise import Pointwise
from clnet.ops.shape import Slice
from clnet.tensor import Tensor, tensor
from clnet.values import mode
from clnet.values.dtypes import DType, float32, from_name, from_numpy
from tests.answers import ANSWERS

Shape = tuple[int, ...]

MARGIN = 0.05  # how far dodge= keeps inputs from a kink
STEP = 1e-5  # of first differences in float64: truncation 1e-10, rounding 1e-10
DIFFERENCE = 1e-8  # what first differences are sure to reach
STEP_TWICE = 3e-4  # of second differences: truncation 1e-7, rounding 1e-8
SPREAD = 100  # a reference varies by that many tolerances, or the comparison shows nothing
SPREAD_NARROW = 10  # the same of 16-bit floats, whose unit is a 256th
NARROW = ("float16", "bfloat16")
LEAST_NARROW = 1 / 16  # their tolerance is relative to the largest element, or to this
GRADIENT_SLACK = 4  # a gradient is several roundings further from the truth than a value


# Inputs.


@dataclass(frozen=True)
class Draw:
    """An input that can be drawn at any shape.

    Attributes:
        shape: the shape of the case itself; checks of edge shapes draw others.
        sample: gives values of a shape.
        dodge: values of kinks and jumps, kept at a distance.
        grad: whether the gradient to it is checked, if it is floating.
    """

    shape: Shape
    sample: Callable[[np.random.Generator, Shape], np.ndarray]
    dodge: Sequence[float] = ()
    grad: bool = True

    def values(self, rng: np.random.Generator, shape: Shape, dtype: DType) -> np.ndarray:
        """Values of ``shape``; floating ones are exact in ``dtype``."""
        drawn = np.asarray(self.sample(rng, shape))
        if drawn.dtype.kind != "f":
            return drawn
        for kink in self.dodge:
            side = np.where(drawn < kink, -MARGIN, MARGIN)
            drawn = np.where(np.abs(drawn - kink) < MARGIN, kink + side, drawn)
        return drawn.astype(dtype.numpy)


def normal(*shape: int, scale: float = 1.0, dodge: Sequence[float] = (), grad: bool = True) -> Draw:
    """Normally distributed around 0."""
    return Draw(shape, lambda rng, s: scale * rng.standard_normal(s), dodge, grad)


def uniform(
    low: float, high: float, shape: Shape, *, dodge: Sequence[float] = (), grad: bool = True
) -> Draw:
    """Between two numbers."""
    return Draw(shape, lambda rng, s: rng.uniform(low, high, s), dodge, grad)


def positive(*shape: int, grad: bool = True) -> Draw:
    """Well above 0, where logarithms, roots and quotients are tame."""
    return uniform(0.5, 2.5, shape, grad=grad)


def integers(low: int, high: int, shape: Shape, *, dtype: Any = np.int64) -> Draw:
    """Whole numbers, ``low <= x < high``."""
    return Draw(shape, lambda rng, s: rng.integers(low, high, s).astype(dtype))


def booleans(*shape: int) -> Draw:
    """Fair coins."""
    return Draw(shape, lambda rng, s: rng.random(s) < 0.5)


def distinct(*shape: int, grad: bool = True) -> Draw:
    """A shuffled, evenly spaced range, for ops with ties (maxima, sorting)."""

    def sample(rng: np.random.Generator, s: Shape) -> np.ndarray:
        return (rng.permutation(prod(s)).reshape(s) - prod(s) / 2) / max(prod(s), 1) * 4

    return Draw(shape, sample, (), grad)


# Layouts: the same values, elsewhere in memory. Each gives the host's values and the tensor.

Layout = Callable[[np.ndarray], tuple[np.ndarray, Tensor]]


def dense(host: np.ndarray) -> tuple[np.ndarray, Tensor]:
    """Row-major, from the start of its storage."""
    return host, tensor(host)


def transposed(host: np.ndarray) -> tuple[np.ndarray, Tensor]:
    """Column-major."""
    return host, tensor(np.ascontiguousarray(host.T)).T.detach()


def sliced(host: np.ndarray) -> tuple[np.ndarray, Tensor]:
    """Every second element of a larger array, from 1 on; NaN (or 77) lies between."""
    filler = np.nan if from_numpy(host.dtype).is_floating_point else 77
    larger = np.full([2 * n + 1 for n in host.shape], filler).astype(host.dtype)
    larger[(slice(1, None, 2),) * host.ndim] = host
    starts, steps = (1,) * host.ndim, (2,) * host.ndim
    return host, apply(Slice(starts, steps, host.shape), tensor(larger))


def expanded(host: np.ndarray) -> tuple[np.ndarray, Tensor]:
    """The first row, repeated with a stride of 0."""
    if not host.size or not host.ndim:
        return dense(host)
    row = host[:1]
    return np.broadcast_to(row, host.shape).copy(), tensor(row).expand(host.shape)


ALL_LAYOUTS: tuple[Layout, ...] = (transposed, sliced, expanded)


# Cases.


@dataclass(frozen=True)
class OpCase:
    """One way to call an op, and what it should give.

    Attributes:
        fn: called with a tensor for each input; gives a tensor or a tuple of them.
        ref: called with arrays (floating ones in float64); gives what ``fn`` should.
        inputs: how the inputs are drawn.
        atol, rtol: tolerance, absolute and relative to the reference; None: derived from the dtype,
            ``k`` and ``ulps``, relative to the largest element.
        grad: whether gradients are checked.
        grad2: whether gradients of gradients are checked.
        flat: the op is constant in pieces, so that its gradient is 0 everywhere.
        k: how many products or terms are added for one element.
        ulps: units in the last place that one operation may be off (OpenCL allows ``pow`` 16).
        layouts: how inputs lie in memory beside densely.
        shapes: shapes of all inputs, for each further call (axes of size 0 and 1); None: derived if
            the inputs share one shape.
        dtypes: further floating dtypes to run in, forward and backward.
        name: the public op, if ``fn`` is not the op itself.
        label: tells the cases of one op apart.
    """

    fn: Callable[..., Any]
    ref: Callable[..., Any]
    inputs: Sequence[Draw]
    atol: float | None = None
    rtol: float | None = None
    grad: bool = True
    grad2: bool = False
    flat: bool = False
    k: int = 1
    ulps: float = 8
    layouts: Sequence[Layout] = ALL_LAYOUTS
    shapes: Sequence[Sequence[Shape]] | None = None
    dtypes: Sequence[str] = ()
    name: str | None = None
    label: str = ""

    @property
    def op(self) -> str:
        """The public name of the op."""
        if self.name is not None:
            return self.name
        known = [n for n, (function, _) in PUBLIC_OPS.items() if function is self.fn]
        return known[0] if known else self.fn.__name__

    def __str__(self) -> str:
        return f"{self.op}[{self.label}]" if self.label else self.op

    def edge_shapes(self) -> Sequence[Sequence[Shape]]:
        """Shapes of the inputs with axes of size 0 and 1."""
        if self.shapes is not None:
            return self.shapes
        first = self.inputs[0].shape
        if not first or any(x.shape != first for x in self.inputs):
            return ()
        variants = [(0, *first[1:]), (*first[:-1], 1), (1,) * len(first)]
        return [(shape,) * len(self.inputs) for shape in variants]


class Run:
    """A case with inputs drawn: values on the host, tensors on the device.

    Args:
        case: what to run.
        shapes: of the inputs; None: the case's own.
        layout: how the tensors lie in memory.
        dtype: of the floating inputs.
    """

    def __init__(
        self,
        case: OpCase,
        *,
        shapes: Sequence[Shape] | None = None,
        layout: Layout = dense,
        dtype: DType = float32,
    ) -> None:
        self.case, self.dtype = case, dtype
        self.rng = np.random.default_rng(zlib.crc32(str(case).encode()))
        wanted = [x.shape for x in case.inputs] if shapes is None else shapes
        drawn = [x.values(self.rng, s, dtype) for x, s in zip(case.inputs, wanted, strict=True)]
        pairs = [layout(values) for values in drawn]
        self.hosts = [_exact(host) for host, _ in pairs]
        self.tensors = [t for _, t in pairs]
        self.wanted = [
            i for i, x in enumerate(case.inputs) if x.grad and self.hosts[i].dtype.kind == "f"
        ]
        shown = " and ".join(str(x.shape) for x in drawn)
        self._question = f"{case} of {shown}, {layout.__name__}, {dtype.name}: "
        self.expected = self.ask("results", lambda: _arrays(case.ref(*self.hosts)))

    def ask(self, what: str, compute: Callable[[], Sequence[np.ndarray]]) -> list[np.ndarray]:
        """What the reference says to a question about these inputs; kept if it is PyTorch."""
        return ANSWERS.ask(self._question + what, compute)

    def forward(self) -> list[Tensor]:
        """The op's results."""
        result = self.case.fn(*self.tensors)
        return list(result) if isinstance(result, tuple | list) else [result]

    def tolerance(self, expected: np.ndarray, *, terms: float = 1, slack: float = 1) -> np.ndarray:
        """How far each element may be off."""
        case = self.case
        if case.atol is not None or case.rtol is not None:
            return slack * ((case.atol or 0.0) + (case.rtol or 0.0) * np.abs(expected))
        finite = np.abs(expected[np.isfinite(expected)])
        least = LEAST_NARROW if self.dtype.itemsize == 2 else 1.0
        scale = max(least, finite.max()) if finite.size else 1.0
        compute = from_name(self.dtype.compute).eps
        stored = 0.0 if self.dtype.compute == self.dtype.name else self.dtype.eps
        one = case.ulps * compute * sqrt(max(case.k, terms)) + stored
        return np.full(expected.shape, slack * one * scale)

    def check_forward(self, *, spread: bool) -> None:
        """Results against the reference's.

        Args:
            spread: whether the reference must vary, so that the comparison means something.
        """
        if ANSWERS.writing:
            return
        actual = self.forward()
        assert len(actual) == len(self.expected), f"{self.case}: {len(actual)} results"
        for y, expected in zip(actual, self.expected, strict=True):
            if expected.dtype.kind != "f":
                _compare(str(self.case), _exact(y.numpy()), expected, np.zeros(expected.shape))
                continue
            tolerance = self.tolerance(expected)
            if spread:
                self.require(str(self.case), _spread(expected), tolerance)
            _compare(str(self.case), _exact(y.detach().numpy()), expected, tolerance)

    def check_gradient(self, *, spread: bool, probes: int = 24) -> None:
        """Gradients against differences of the reference, at some elements and one direction."""
        weights = self.weights()
        slopes = [] if self.case.flat else [self.slopes(weights, i, probes) for i in self.wanted]
        if ANSWERS.writing:
            return
        for i in self.wanted:
            self.tensors[i].requires_grad_()
        outputs = [y for y in self.forward() if y.requires_grad]
        assert outputs, f"{self.case}: no result is on the tape"
        given = [tensor(w.astype(self.dtype.numpy)) for w in weights]
        found = grad(outputs, [self.tensors[i] for i in self.wanted], given)
        for number, (i, gradient) in enumerate(zip(self.wanted, found, strict=True)):
            assert gradient is not None
            what = f"{self.case}: gradient of input {i}"
            actual = _exact(gradient.numpy())
            assert actual.shape == self.hosts[i].shape, f"{what} has shape {actual.shape}"
            if self.case.flat:
                assert not actual.any(), f"{what} is not 0"
                continue
            directions, expected = slopes[number]
            along = np.array([(actual * d).sum() for d in directions])
            terms = sum(y.size for y in self.floating) / max(actual.size, 1)
            tolerance = self.tolerance(expected, terms=terms, slack=GRADIENT_SLACK)
            tolerance = np.maximum(tolerance, DIFFERENCE * np.abs(expected).max(initial=1))
            if spread:
                self.require(what, float(np.abs(expected).max(initial=0)), tolerance)
            _compare(what, along, expected, tolerance)

    def check_apart(self) -> None:
        """Each input's gradient where no other's is wanted: what is saved for it alone is enough.

        Pointwise ops save by one rule, and each gradient apart would be a kernel of its own.
        """
        given = [tensor(w.astype(self.dtype.numpy)) for w in self.weights()]

        def found(wanted: Sequence[int]) -> Sequence[Tensor | None]:
            for i in self.wanted:
                self.tensors[i].requires_grad_(i in wanted)
            results = [y for y in self.forward() if y.dtype.is_floating_point]
            pairs = [(y, w) for y, w in zip(results, given, strict=True) if y.requires_grad]
            nodes = [y.node for y, _ in pairs if y.node is not None]  # some are the input itself
            if all(isinstance(node.function, Pointwise) for node in nodes):
                return ()
            outputs, weights = zip(*pairs, strict=True)
            return grad(outputs, [self.tensors[i] for i in wanted], weights, allow_unused=True)

        for i, together in zip(self.wanted, found(self.wanted), strict=False):
            apart = next(iter(found([i])), together)
            assert together is not None
            assert apart is not None
            what, expected = f"{self.case}: gradient of input {i} alone", _exact(together.numpy())
            tolerance = self.tolerance(expected, slack=GRADIENT_SLACK)
            _compare(what, _exact(apart.numpy()), expected, tolerance)

    def require(self, what: str, spread: float, tolerance: np.ndarray) -> None:
        """Fail if a comparison within ``tolerance`` shows nothing."""
        times = SPREAD_NARROW if self.dtype.itemsize == 2 else SPREAD
        _require(what, spread, tolerance, times)

    @property
    def floating(self) -> list[np.ndarray]:
        """The reference's floating results."""
        return [y for y in self.expected if y.dtype.kind == "f"]

    def weights(self) -> list[np.ndarray]:
        """Random gradients of the floating results, exact in the dtype."""
        return [
            self.rng.standard_normal(y.shape).astype(self.dtype.numpy).astype(np.float64)
            for y in self.floating
        ]

    def loss(self, weights: Sequence[np.ndarray], moves: dict[int, np.ndarray]) -> float:
        """The weighted sum of the reference's results at moved inputs."""
        moved = [h + moves[i] if i in moves else h for i, h in enumerate(self.hosts)]
        results = [y for y in _arrays(self.case.ref(*moved)) if y.dtype.kind == "f"]
        return sum(float((w * y).sum()) for w, y in zip(weights, results, strict=True))

    def slopes(
        self, weights: Sequence[np.ndarray], i: int, probes: int
    ) -> tuple[list[np.ndarray], np.ndarray]:
        """Directions of input ``i``, and the reference's derivatives along them."""
        directions = _directions(self.rng, self.hosts[i].shape, probes)
        (found,) = self.ask(
            f"{probes} slopes of input {i}",
            lambda: [np.array([self.slope(weights, i, d) for d in directions])],
        )
        return directions, found

    def slope(self, weights: Sequence[np.ndarray], i: int, direction: np.ndarray) -> float:
        """The reference's derivative along a direction of input ``i``."""
        ahead = self.loss(weights, {i: STEP * direction})
        return (ahead - self.loss(weights, {i: -STEP * direction})) / (2 * STEP)

    def bends(
        self, weights: Sequence[np.ndarray], along: dict[int, np.ndarray], i: int
    ) -> tuple[list[np.ndarray], np.ndarray]:
        """Directions of input ``i``, and the reference's mixed second derivatives along them."""
        directions = _directions(self.rng, self.hosts[i].shape, 8)
        (found,) = self.ask(
            f"bends of input {i}",
            lambda: [np.array([self.bend(weights, along, i, d) for d in directions])],
        )
        return directions, found

    def bend(
        self,
        weights: Sequence[np.ndarray],
        along: dict[int, np.ndarray],
        i: int,
        direction: np.ndarray,
    ) -> float:
        """The reference's mixed second derivative, along ``along`` and a direction of an input."""

        def at(a: float, b: float) -> float:
            moves = {j: a * STEP_TWICE * v for j, v in along.items()}
            moves[i] = moves.get(i, 0.0) + b * STEP_TWICE * direction
            return self.loss(weights, moves)

        return (at(1, 1) - at(1, -1) - at(-1, 1) + at(-1, -1)) / (4 * STEP_TWICE**2)


# Checks: each takes a case and the device to run it on.


def forward(case: OpCase, device: Device) -> None:
    """Values against the reference."""
    with mode.using(device=device):
        Run(case).check_forward(spread=True)


def other_dtypes(case: OpCase, device: Device) -> None:
    """Values and gradients in further dtypes; the reference gets inputs of that dtype."""
    with mode.using(device=device):
        for name in case.dtypes:
            if name == "float64" and not device.traits.float64:
                continue
            run = Run(case, dtype=from_name(name))
            run.check_forward(spread=True)
            if not ANSWERS.writing:
                results = [y.dtype.name for y in run.forward() if y.dtype.is_floating_point]
                assert set(results) <= {name}, f"{case}: {name} gives {results}"
            if case.grad:
                Run(case, dtype=from_name(name)).check_gradient(spread=True, probes=8)


def gradient(case: OpCase, device: Device) -> None:
    """Gradients against finite differences of the reference, and each beside all of them."""
    with mode.using(device=device):
        run = Run(case)
        run.check_gradient(spread=True)
        if len(run.wanted) > 1 and not ANSWERS.writing:
            run.check_apart()


def gradient_twice(case: OpCase, device: Device) -> None:
    """Gradients of gradients, to inputs and to weights, against differences of the reference."""
    with mode.using(device=device):
        run = Run(case)
        weights = run.weights()
        along = {i: run.rng.standard_normal(run.hosts[i].shape) for i in run.wanted}
        along = {i: v.astype(np.float32).astype(np.float64) for i, v in along.items()}
        bends = [run.bends(weights, along, i) for i in run.wanted]
        ahead, back = (
            run.ask(f"{side} along", lambda s=s: _floating(case.ref(*_moved(run.hosts, along, s))))
            for side, s in (("ahead", STEP), ("back", -STEP))
        )
        if ANSWERS.writing:
            return
        leaves = [run.tensors[i].requires_grad_() for i in run.wanted]
        outputs = [y for y in run.forward() if y.requires_grad]
        given = [tensor(w.astype(np.float32), requires_grad=True) for w in weights]
        once = grad(outputs, leaves, given, create_graph=True)
        turned = [tensor(along[i].astype(np.float32)) for i in run.wanted]
        twice = grad(once, [*leaves, *given], turned, allow_unused=True)
        largest = 0.0
        for i, found, bent in zip(run.wanted, twice[: len(leaves)], bends, strict=True):
            directions, expected = bent
            values = 0.0 if found is None else _exact(found.detach().numpy())
            actual = np.array([np.sum(values * d) for d in directions])
            tolerance = run.tolerance(expected, slack=8 * GRADIENT_SLACK)
            _compare(f"{case}: second gradient of input {i}", actual, expected, tolerance)
            largest = max(largest, float(np.abs(expected).max()))
        _require(f"{case}: second gradient", largest, np.full(1, 1e-4))
        for k, found in enumerate(twice[len(leaves) :]):
            assert found is not None, f"{case}: the gradient does not depend on its weights"
            expected = (ahead[k] - back[k]) / (2 * STEP)
            tolerance = run.tolerance(expected, slack=2 * GRADIENT_SLACK)
            _compare(
                f"{case}: gradient of weights {k}",
                _exact(found.detach().numpy()),
                expected,
                tolerance,
            )


def layouts(case: OpCase, device: Device) -> None:
    """Values of inputs that are not dense, and gradients of sliced ones."""
    with mode.using(device=device):
        for layout in case.layouts:
            run = Run(case, layout=layout)
            run.check_forward(spread=False)
            if layout is sliced and case.grad:
                run.check_gradient(spread=False, probes=8)


def edges(case: OpCase, device: Device) -> None:
    """Values and gradients at axes of size 0 and 1."""
    with mode.using(device=device):
        for shapes in case.edge_shapes():
            Run(case, shapes=shapes).check_forward(spread=False)
            if case.grad:
                Run(case, shapes=shapes).check_gradient(spread=False, probes=4)


def every_check(cases: Sequence[OpCase]) -> list[Any]:
    """Parameters for a test over ``("case", "check")``: each case with each check that applies."""
    return [
        pytest.param(case, check, id=f"{case}-{check.__name__}", marks=pytest.mark.device)
        for case in cases
        for check in _checks(case)
    ]


def _checks(case: OpCase) -> Iterator[Callable[[OpCase, Device], None]]:
    yield forward
    if case.grad:
        yield gradient
    if case.grad2:
        yield gradient_twice
    if case.layouts:
        yield layouts
    if case.edge_shapes():
        yield edges
    if case.dtypes:
        yield other_dtypes


def _spread(expected: np.ndarray) -> float:
    """By how much finite values vary; a single one varies from 0."""
    finite = expected[np.isfinite(expected)]
    if finite.size < 2:
        return float(np.abs(finite).max(initial=0))
    return float(np.ptp(finite))


def _require(what: str, spread: float, tolerance: np.ndarray, times: float = SPREAD) -> None:
    """Fail if the reference varies by less than so many tolerances."""
    most = float(np.max(tolerance, initial=0))
    assert spread > times * most, (
        f"{what} is vacuous: the reference varies by {spread:.3g}, tolerance {most:.3g}"
    )


def _compare(what: str, actual: np.ndarray, expected: np.ndarray, tolerance: np.ndarray) -> None:
    """Fail where two arrays differ by more than ``tolerance``; NaN equals NaN."""
    assert actual.shape == expected.shape, f"{what} has shape {actual.shape}, not {expected.shape}"
    with np.errstate(invalid="ignore"):
        same = (actual == expected) | (np.isnan(actual) & np.isnan(expected))
        error = np.where(same, 0.0, np.abs(np.subtract(actual, expected, dtype=np.float64)))
    bad = ~(error <= tolerance)
    if bad.any():
        worst = np.unravel_index(np.argmax(np.nan_to_num(error, nan=np.inf)), error.shape)
        at = tuple(int(i) for i in worst)
        raise AssertionError(
            f"{what}: {bad.sum()} of {bad.size} elements are off, the worst at {at}: "
            f"{actual[worst]!r}, not {expected[worst]!r} (tolerance {tolerance[worst]:.3g})"
        )


def _directions(rng: np.random.Generator, shape: Shape, probes: int) -> list[np.ndarray]:
    """Some unit vectors and one dense direction of length 1, in an array's shape."""
    size = prod(shape)
    if not size:
        return []
    dense_one = rng.standard_normal(shape)
    directions = [dense_one / np.linalg.norm(dense_one)]
    for j in rng.choice(size, min(probes, size), replace=False):
        unit = np.zeros(size)
        unit[j] = 1
        directions.append(unit.reshape(shape))
    return directions


def _exact(array: np.ndarray) -> np.ndarray:
    """Floating values in float64 (bfloat16 too), others as they are."""
    floating = array.dtype.kind == "f" or array.dtype == ml_dtypes.bfloat16
    return array.astype(np.float64) if floating else array


def _arrays(results: Any) -> list[np.ndarray]:
    """A reference's results as arrays."""
    return [np.asarray(y) for y in (results if isinstance(results, tuple | list) else (results,))]


def _floating(results: Any) -> list[np.ndarray]:
    return [y for y in _arrays(results) if y.dtype.kind == "f"]


def _moved(
    hosts: Sequence[np.ndarray], along: dict[int, np.ndarray], step: float
) -> list[np.ndarray]:
    return [h + step * along[i] if i in along else h for i, h in enumerate(hosts)]
