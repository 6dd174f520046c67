"""L-BFGS: steps along Newton's direction, the curvature taken from the last steps."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from .. import ops
from ..autograd import enable_grad, no_grad
from ..errors import ArgumentError, CheckpointError, OutOfDeviceMemory
from ..nn.parameters import parameters_to_vector, vector_to_parameters
from ..tensor import Tensor, tensor
from ..values import mode
from ..values.record import NamedTuple
from .declared import DeclaredOptimizer
from .line_search import Point, strong_wolfe
from .optimizer import Group, ParamsT
from .rate import rate_of
from .state_form import checked_groups, entry_of, number_of, taken

# A change of the gradient along the step smaller than this says nothing about the curvature.
_LEAST_CURVATURE = 1e-10


class _Pair(NamedTuple):
    """A step made, the gradient's change over it, and 1 over the product of the two."""

    step: Tensor
    change: Tensor
    inverse: float


@dataclass
class _Progress:
    """What is known between iterations."""

    iterations: int = 0
    evaluations: int = 0
    rate: float = 0.0
    loss: float = 0.0
    scale: float = 1.0
    direction: Tensor | None = None
    gradient: Tensor | None = None
    pairs: deque[_Pair] = field(default_factory=deque[_Pair])


class LBFGS(DeclaredOptimizer):
    """``p += t * d`` with ``d`` from the last gradients (Liu, Nocedal 1989), as PyTorch's.

    One :meth:`step` makes up to ``max_iter`` iterations, each of which reads numbers from the
    device. It can not be part of a compiled function; the closure may call one.

    Args:
        params: parameters, or one group.
        lr: length of a step, the first one tried with a line search; 0 or more.
        max_iter: iterations a step, 1 or more.
        max_eval: calls of the closure a step, about; None: 1.25 times as many.
        tolerance_grad: it ends where no gradient is larger; below 0: never for that.
        tolerance_change: it ends where neither parameters nor loss change by more; below 0: never
            for that.
        history_size: steps that are remembered, 1 or more; each takes twice the parameters' memory.
        line_search_fn: None, or ``"strong_wolfe"``.

    Raises:
        ArgumentError: if there are several groups, or a setting is out of range.

    Example:
        >>> import clnet
        >>> x = clnet.tensor([-1.0, 2.0], requires_grad=True)
        >>> optimizer = clnet.optim.LBFGS([x], line_search_fn="strong_wolfe")
        >>> def closure():
        ...     optimizer.zero_grad()
        ...     loss = (1 - x[0]) ** 2 + 100 * (x[1] - x[0] ** 2) ** 2
        ...     loss.backward()
        ...     return loss
        >>> for _ in range(4):
        ...     _ = optimizer.step(closure)
        >>> bool(((x - 1).abs() < 1e-3).all())
        True
    """

    params: ParamsT
    lr: Tensor | float = 1.0
    max_iter: int = 20
    max_eval: int | None = None
    tolerance_grad: float = 1e-7
    tolerance_change: float = 1e-9
    history_size: int = 100
    line_search_fn: str | None = None
    rates = ("lr",)
    takes_complex = False

    def _assign(self, values: dict[str, Any]) -> None:
        self._progress = _Progress()
        if values["max_eval"] is None:
            values["max_eval"] = values["max_iter"] * 5 // 4
        super()._assign(values)

    def check(self, group: Group) -> None:
        """There is one group; rates are 0 or more, counts 1 or more, the line search is known."""
        super().check(group)
        counts = {key: group[key] for key in ("max_iter", "max_eval", "history_size")}
        if min(counts.values()) < 1:
            raise ArgumentError("LBFGS", "counts are 1 or more", **counts)
        if group["line_search_fn"] not in (None, "strong_wolfe"):
            raise ArgumentError(
                "LBFGS",
                "line_search_fn is None or 'strong_wolfe'",
                line_search_fn=group["line_search_fn"],
            )
        if self.param_groups:
            raise ArgumentError("LBFGS", "all parameters are in one group")

    @no_grad()
    def step(self, closure: Callable[[], Tensor] | None = None) -> Tensor:
        """Iterate until a limit or tolerance is reached; where memory runs out, all is as before.

        Args:
            closure: clears the gradients, computes the loss and its gradients, gives the loss;
                called several times.

        Returns:
            The loss before.

        Raises:
            ArgumentError: if there is no closure.
            TraceError: inside a function that ``clnet.compile`` traces.
        """
        if closure is None:
            raise ArgumentError("LBFGS", "step needs a closure that computes the loss")
        params: list[Tensor] = self.param_groups[0]["params"]
        known = replace(self._progress, pairs=self._progress.pairs.copy())
        before = [p.detach().clone() for p in params]  # few beside what is remembered of steps
        with mode.using(module_path="LBFGS"):
            try:
                return _Step(self.param_groups[0], self._progress, closure).run()
            except OutOfDeviceMemory:
                self._progress = known
                for p, old in zip(params, before, strict=True):
                    p.copy_(old)
                raise

    def state_dict(self) -> dict[str, Any]:
        """As every optimiser's; the first parameter's state is what is kept of all together."""
        state = super().state_dict()
        state["state"][0] = _in_pytorchs_names(self._progress)
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from what :meth:`state_dict` gave; nothing is changed unless everything fits.

        Args:
            state: such a state, whose tensors may be NumPy arrays, or that of PyTorch's L-BFGS.

        Raises:
            CheckpointError: if groups, parameters or sizes do not fit.
        """
        (settings,) = checked_groups(self, state)
        (group,) = self.param_groups
        entry = entry_of(state["state"], 0, pytorchs=False) or {}
        elements = sum(p.numel() for p in group["params"])
        progress = _from_pytorchs_names(entry, elements, group["params"][0].device)
        group.update(taken(settings, "LBFGS"))
        self._progress = progress


class _Step:
    """One call of :meth:`LBFGS.step`.

    Args:
        group: parameters and settings.
        progress: what is known from earlier calls, carried on.
        closure: the user's.
    """

    def __init__(self, group: Group, progress: _Progress, closure: Callable[[], Tensor]) -> None:
        self._group, self._progress, self._closure = group, progress, closure
        self._params: list[Tensor] = group["params"]
        self._evaluations = 0

    def run(self) -> Tensor:
        """Iterate; gives the loss before."""
        group, known = self._group, self._progress
        loss = self._computed()
        at, gradient = float(loss), self._gradient()
        (largest,) = _numbers(gradient.abs().max())
        for made in range(1, group["max_iter"] + 1):
            if largest <= group["tolerance_grad"]:
                break
            direction = self._direction(gradient)
            known.iterations += 1
            known.gradient, known.direction, known.loss = gradient, direction, at
            slope, longest, total = _numbers(
                ops.dot(gradient, direction), direction.abs().max(), gradient.abs().sum()
            )
            rate = rate_of(group) * (min(1.0, 1 / total) if total and known.iterations == 1 else 1)
            known.rate = rate
            if slope > -group["tolerance_change"]:
                break
            start = Point(0.0, at, slope, gradient)
            if group["line_search_fn"]:
                end = self._searched(start, direction, rate, longest)
            else:
                end = self._moved(start, direction, rate, last=made == group["max_iter"])
            known.rate, gradient = end.rate, end.gradient
            (largest,) = _numbers(gradient.abs().max())
            change, at = abs(end.loss - at), end.loss
            tolerance = group["tolerance_change"]
            if (
                self._evaluations >= group["max_eval"]
                or longest * abs(end.rate) <= tolerance
                or change < tolerance
            ):
                break
        known.evaluations += self._evaluations
        return loss

    def _computed(self) -> Tensor:
        self._evaluations += 1
        with enable_grad():
            return self._closure()

    def _gradient(self) -> Tensor:
        """All gradients in one vector of its own."""
        parts = [
            ops.zeros_like(p.detach()) if p.grad is None else p.grad.detach() for p in self._params
        ]
        return ops.cat([ops.reshape(part, (-1,)) for part in parts])

    def _direction(self, gradient: Tensor) -> Tensor:
        """Minus the inverse of the Hessian matrix, as the pairs tell it, times the gradient."""
        known = self._progress
        if known.direction is None or known.gradient is None:
            return -gradient
        change, step = gradient - known.gradient, known.direction * known.rate
        product, square = _numbers(ops.dot(change, step), ops.dot(change, change))
        if product > _LEAST_CURVATURE:
            known.pairs.append(_Pair(step, change, 1 / product))
            known.scale = product / square
        while len(known.pairs) > self._group["history_size"]:
            known.pairs.popleft()
        result, factors = -gradient, list[Tensor]()
        for pair in reversed(known.pairs):
            factors.append(ops.dot(pair.step, result) * pair.inverse)
            result = result - factors[-1] * pair.change
        result = result * known.scale
        for pair in known.pairs:
            factor = factors.pop() - ops.dot(pair.change, result) * pair.inverse
            result = result + factor * pair.step
        return result

    def _moved(self, start: Point, direction: Tensor, rate: float, *, last: bool) -> Point:
        """A step of this length, and what is known then; the last one is not looked at."""
        self._place(parameters_to_vector(self._params) + rate * direction)
        if last:
            return start._replace(rate=rate)
        loss = float(self._computed())
        return Point(rate, loss, start.slope, self._gradient())

    def _searched(self, start: Point, direction: Tensor, rate: float, longest: float) -> Point:
        """The step that a line search finds; ``longest`` is the direction's largest element."""
        origin, tried, versions = parameters_to_vector(self._params), start, self._versions()

        def evaluate(rate: float) -> Point:
            nonlocal tried, versions
            self._place(origin + rate * direction)
            versions = self._versions()
            loss, gradient = self._computed(), self._gradient()
            at, slope = _numbers(loss, ops.dot(gradient, direction))
            tried = Point(rate, at, slope, gradient)
            return tried

        end = strong_wolfe(
            evaluate,
            start,
            rate,
            narrowest=self._group["tolerance_change"] / longest,
            evaluations=self._group["max_eval"] - self._evaluations,
        )
        # a closure may write parameters (clip them): then the end is the point asked for, too
        if end is not tried or versions != self._versions():
            self._place(origin + end.rate * direction)
        return end

    def _versions(self) -> list[int]:
        return [p.array.storage.version for p in self._params]

    def _place(self, values: Tensor) -> None:
        vector_to_parameters(values, self._params)


def _numbers(*scalars: Tensor) -> list[float]:
    """Their values, read at once."""
    return ops.stack([x.reshape(()) for x in scalars]).tolist()


def _in_pytorchs_names(known: _Progress) -> dict[str, Any]:
    """What is kept, as PyTorch's keeps it; before the first iteration that is two counts."""
    counts = {"func_evals": known.evaluations, "n_iter": known.iterations}
    if not known.iterations:
        return counts
    return {
        **counts,
        "d": known.direction,
        "t": known.rate,
        "old_dirs": [pair.change for pair in known.pairs],
        "old_stps": [pair.step for pair in known.pairs],
        "ro": [pair.inverse for pair in known.pairs],
        "H_diag": known.scale,
        "prev_flat_grad": known.gradient,
        "prev_loss": known.loss,
    }


def _from_pytorchs_names(entry: Mapping[str, Any], elements: int, device: Any) -> _Progress:
    """What :func:`_in_pytorchs_names` or PyTorch gave; PyTorch's has nothing before a step.

    Args:
        entry: of the first parameter.
        elements: of all parameters.
        device: where vectors go.

    Raises:
        CheckpointError: if a name is absent, or vectors are of other parameters.
    """
    iterations, evaluations = (
        int(number_of("LBFGS", **{name: entry.get(name, 0)})) for name in ("n_iter", "func_evals")
    )
    known = _Progress(iterations, evaluations)
    begun = ["d", "t", "old_dirs", "old_stps", "ro", "H_diag", "prev_flat_grad", "prev_loss"]
    absent = [name for name in begun if known.iterations and entry.get(name) is None]
    if absent or (entry and "n_iter" not in entry):
        raise CheckpointError("LBFGS", "not the state of L-BFGS", keys=sorted(map(str, entry)))
    if not known.iterations:
        return known
    pairs = [entry["old_stps"], entry["old_dirs"], entry["ro"]]
    vectors = [entry["d"], entry["prev_flat_grad"], *pairs[0], *pairs[1]]
    shapes = [tuple(getattr(vector, "shape", ())) for vector in vectors]
    if any(shape != (elements,) for shape in shapes) or len({*map(len, pairs)}) > 1:
        raise CheckpointError("LBFGS", "the state does not fit", state=shapes, elements=elements)
    known.direction, known.gradient = (_own(x, device) for x in vectors[:2])
    known.rate, known.scale, known.loss = (
        number_of("LBFGS", **{name: entry[name]}) for name in ("t", "H_diag", "prev_loss")
    )
    known.pairs.extend(
        _Pair(_own(step, device), _own(change, device), number_of("LBFGS", ro=inverse))
        for step, change, inverse in zip(*pairs, strict=True)
    )
    return known


def _own(value: Any, device: Any) -> Tensor:
    """A copy of a state's vector."""
    if isinstance(value, Tensor):
        return ops.clone(value.detach())
    return tensor(value, device=device)
