"""A case: a small computation beside its reference, and how it is asked of a device.

What is computed is asked eagerly and compiled, forward and backward, of two sets of numbers: the
first call of a compiled function and its replay must not differ from the reference.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..autodiff.gradient import grad
from ..compile import compile as compiled
from ..creation import asarray
from ..device import Device
from ..errors import ClnetError
from ..tensor import Tensor

_STEP = 1e-6
_SHOWN = 160

Numbers = tuple[np.ndarray, ...]
Gradient = Callable[..., Numbers]


@dataclass(frozen=True)
class Case:
    """A computation, and what it should give.

    Attributes:
        name: of the case; each is its own.
        family: the family of kernels it belongs to.
        compute: a function of tensors that gives one.
        reference: the same of NumPy arrays, in float64.
        draw: gives the inputs, from a generator.
        gradient: of the cotangent and the inputs the gradients of those that are floats; None: by
            differences of the reference.
        differentiable: whether there is a gradient to be asked for.
        compiled: whether a compiled function is asked, too.
        tolerance: how far a number may be off, in parts of its own size and of their mean size.
        needs: the trait without which the case says nothing, ``"float64"``; "": none.
    """

    name: str
    family: str
    compute: Callable[..., Tensor]
    reference: Callable[..., Any]
    draw: Callable[[np.random.Generator], Sequence[np.ndarray]]
    gradient: Gradient | None = None
    differentiable: bool = True
    compiled: bool = True
    tolerance: float = 1e-5
    needs: str = ""


def values(
    name: str,
    compute: Any,
    reference: Any,
    draw: Callable[[np.random.Generator], Sequence[np.ndarray]],
    **given: Any,
) -> Case:
    """A case without gradients."""
    return Case(name, given.pop("family"), compute, reference, draw, differentiable=False, **given)


@dataclass
class Finding:
    """What is wrong with a case.

    Attributes:
        way: ``"eager forward"``, ``"compiled gradient of input 1"`` ...
        law: what does not hold, with figures.
    """

    way: str
    law: str


@dataclass
class Outcome:
    """What a case gave.

    Attributes:
        name, family: of the case.
        findings: what is wrong; none: it passed.
        worst: the largest share of the tolerance that was used.
        seconds: it took, builds of kernels included.
        kernels: names of those that ran.
    """

    name: str
    family: str
    findings: list[Finding] = field(default_factory=list)
    worst: float = 0.0
    seconds: float = 0.0
    kernels: list[str] = field(default_factory=list)


def ask(case: Case, device: Device) -> Outcome:
    """Compute a case in all ways on a device.

    Args:
        case: which.
        device: where.

    Returns:
        What it gave. An error that clnet raises is a finding, like a wrong number.
    """
    outcome = Outcome(case.name, case.family)
    rng = np.random.default_rng(len(case.name))
    first, second = (tuple(case.draw(rng)) for _ in range(2))
    try:
        with np.errstate(all="ignore"):
            _ask(case, device, (first, second), outcome)
    except (ClnetError, RuntimeError) as error:
        outcome.findings.append(Finding("call", f"{type(error).__name__}: {str(error)[:_SHOWN]}"))
    return outcome


def _ask(case: Case, device: Device, drawn: tuple[Numbers, Numbers], outcome: Outcome) -> None:
    expected = [_Expected(case, inputs) for inputs in drawn]
    _compare(case, "eager", _both(case, device)(*expected[0].tensors(device)), expected[0], outcome)
    if case.compiled:
        both = compiled(_both(case, device))
        for way, which in (("compiled", 0), ("replayed", 1), ("replayed", 0)):
            found = both(*expected[which].tensors(device))
            _compare(case, way, found, expected[which], outcome)


def _both(case: Case, device: Device) -> Callable[..., tuple[Tensor, ...]]:
    """Forward and the gradients, as a function of cotangent and inputs."""

    def forward(*tensors: Tensor) -> tuple[Tensor, ...]:
        with device:
            return (case.compute(*tensors[1:]),)

    def both(*tensors: Tensor) -> tuple[Tensor, ...]:
        with device:
            y = case.compute(*tensors[1:])
            wanted = [x for x in tensors[1:] if x.requires_grad]
            gradients: tuple[Any, ...] = grad(y, wanted, tensors[0])
            return (y, *gradients)

    return both if case.differentiable else forward


class _Expected:
    """What the reference says of some inputs."""

    def __init__(self, case: Case, inputs: Numbers) -> None:
        self._inputs = inputs
        self._differentiable = case.differentiable
        self.forward = np.asarray(case.reference(*map(_wide, inputs)))
        rng = np.random.default_rng(1)
        self._cotangent = rng.standard_normal(self.forward.shape).astype(
            inputs[0].dtype if inputs[0].dtype.kind == "f" else np.float32
        )
        self.gradients: Numbers = ()
        if case.differentiable:
            c, wide = self._cotangent.astype(np.float64), tuple(map(_wide, inputs))
            given = case.gradient
            self.gradients = given(c, *wide) if given else differences(case.reference, c, wide)

    def tensors(self, device: Device) -> list[Tensor]:
        """The cotangent and the inputs there."""
        made = [asarray(x, device=device) for x in (self._cotangent, *self._inputs)]
        if self._differentiable:
            for x, values in zip(made[1:], self._inputs, strict=True):
                if values.dtype.kind == "f":
                    x.requires_grad_()
        return made


def _wide(x: np.ndarray) -> np.ndarray:
    return x.astype(np.float64) if x.dtype.kind in "fV" else x


def differences(reference: Callable[..., Any], c: np.ndarray, inputs: Numbers) -> Numbers:
    """Gradients of ``sum(c * reference(*inputs))`` by central differences, in float64.

    Args:
        reference: the function.
        c: the cotangent.
        inputs: those that are floats are varied, an element at a time.

    Returns:
        For each of them the gradient.
    """
    found: list[np.ndarray] = []
    for place, x in enumerate(inputs):
        if x.dtype.kind != "f":
            continue
        gradient = np.empty(x.shape)
        for at in np.ndindex(x.shape):
            ends: list[float] = []
            for step in (_STEP, -_STEP):
                moved = x.copy()
                moved[at] += step
                values = reference(*inputs[:place], moved, *inputs[place + 1 :])
                ends.append(float(np.sum(c * values)))
            gradient[at] = (ends[0] - ends[1]) / (2 * _STEP)
        found.append(gradient)
    return tuple(found)


def _compare(
    case: Case, way: str, found: Sequence[Tensor], expected: _Expected, outcome: Outcome
) -> None:
    wanted = (expected.forward, *expected.gradients)
    for place, (tensor, numbers) in enumerate(zip(found, wanted, strict=True)):
        asked = f"{way} forward" if place == 0 else f"{way} gradient of input {place - 1}"
        share, law = off(tensor.detach().numpy(), numbers, case.tolerance)
        outcome.worst = max(outcome.worst, share)
        if law:
            outcome.findings.append(Finding(asked, law))


def off(found: np.ndarray, wanted: np.ndarray, tolerance: float) -> tuple[float, str]:
    """How far numbers are off: the largest share of the tolerance, and what is wrong or "".

    Args:
        found: what was computed.
        wanted: what was expected.
        tolerance: in parts of a number's own size, and of their mean size; 0: they are equal.
    """
    if found.shape != wanted.shape:
        return np.inf, f"the shape is {found.shape}, not {wanted.shape}"
    if wanted.size == 0:
        return 0.0, ""
    if tolerance == 0:
        wrong = ~((found == wanted) | ((found != found) & (wanted != wanted)))
        return float(wrong.any()), _told(found, wanted, wrong) if wrong.any() else ""
    a, b = (x if x.dtype.kind == "c" else x.astype(np.float64) for x in (found, wanted))
    finite = np.isfinite(b)
    size = float(np.sqrt(np.mean(np.abs(b[finite]) ** 2))) if finite.any() else 0.0
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    with np.errstate(invalid="ignore"):
        share = np.where(same, 0, np.abs(a - b) / (tolerance * (np.abs(b) + size) + 1e-300))
    share[~same & ~(np.isfinite(a) & finite)] = np.inf
    wrong = share > 1
    return float(share.max()), _told(found, wanted, wrong) if wrong.any() else ""


def _told(found: np.ndarray, wanted: np.ndarray, wrong: np.ndarray) -> str:
    at = tuple(map(int, np.argwhere(wrong)[0]))
    count = int(wrong.sum())
    return (
        f"{count} of {wrong.size} numbers are wrong, the first at {list(at)}: "
        f"{found[at]!s}, not {wanted[at]!s}"
    )
