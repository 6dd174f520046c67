"""``GradScaler``: losses are multiplied so that float16 gradients do not vanish."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf
from typing import Any

from .. import expr as e
from ..autodiff.divided import norm_of_gradients
from ..autodiff.leaf import make_dense
from ..creation import zeros
from ..errors import ArgumentError, GradientError
from ..ops.machinery.update import update
from ..ops.multi_tensor import update_many
from ..tensor import Tensor, tensor
from ..values import mode
from ..values.dtypes import float16
from .optimizer import Optimizer


class GradScaler:
    """Scales losses up and gradients down again, and skips steps whose gradients overflowed.

    Whether one did is found on the device. A compiled step skips there, too, without waiting: all
    that the update would write stays, and the step is not counted.

    Args:
        device: taken; the scale lies where the first loss does.
        init_scale: the scale at first.
        growth_factor: what the scale is multiplied by after ``growth_interval`` steps without an
            overflow; more than 1.
        backoff_factor: what it is multiplied by after an overflow; less than 1.
        growth_interval: 1 or more.
        enabled: False: :meth:`scale` and :meth:`step` do as if there were no scaler.

    Raises:
        ArgumentError: if it is enabled, and a factor or the interval is out of range.

    Example:
        >>> import clnet
        >>> model = clnet.nn.Linear(2, 1)
        >>> optimizer = clnet.optim.SGD(model.parameters(), lr=0.1)
        >>> scaler = clnet.amp.GradScaler(init_scale=1024.0)
        >>> with clnet.autocast("cuda"):
        ...     loss = model(clnet.ones(3, 2)).sum()
        >>> scaler.scale(loss).backward()
        >>> scaler.step(optimizer)
        >>> scaler.update()
        >>> scaler.get_scale()
        1024.0
    """

    def __init__(
        self,
        device: Any = "cuda",
        init_scale: float = 65536.0,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,  # noqa: FBT001, FBT002 - PyTorch's
    ) -> None:
        if isinstance(device, int | float):  # of cuda.amp the scale comes first
            init_scale = device
        good = growth_factor > 1 and 0 < backoff_factor < 1 and growth_interval >= 1
        if enabled and not good:
            raise ArgumentError(
                "GradScaler",
                "growth_factor is above 1, backoff_factor below, growth_interval 1 or more",
                growth_factor=growth_factor,
                backoff_factor=backoff_factor,
                growth_interval=growth_interval,
            )
        self._enabled = enabled
        self._first = float(init_scale)
        self._first_growth = 0
        self._growth_factor = growth_factor
        self._backoff_factor = backoff_factor
        self._growth_interval = growth_interval
        self._state: tuple[Tensor, Tensor] | None = None
        self._found: dict[int, Tensor] = {}
        self._stages: dict[int, str] = {}

    def scale(self, outputs: Any) -> Any:
        """A loss, or each of several, times the scale.

        Args:
            outputs: tensors, or lists and tuples of them.

        Raises:
            ArgumentError: for anything else.
        """
        if not self._enabled:
            return outputs
        if isinstance(outputs, Tensor):
            return outputs * self._tensors(outputs)[0]
        if isinstance(outputs, Sequence | map):
            found = [self.scale(x) for x in outputs]
            return type(outputs)(found) if isinstance(outputs, list | tuple) else found
        raise ArgumentError(
            "GradScaler.scale", "it takes tensors and sequences", type=type(outputs).__name__
        )

    def unscale_(self, optimizer: Optimizer) -> None:
        """Divide the gradients of an optimiser's parameters by the scale, once between updates.

        Raises:
            ArgumentError: if that was done since the last :meth:`update`, or nothing was scaled.
            GradientError: if a gradient is float16, which would underflow.
        """
        if not self._enabled:
            return
        stage = self._stages.get(id(optimizer))
        if stage is not None:
            law = "it is called once for each optimiser between updates, before step()"
            raise ArgumentError("GradScaler.unscale_", law, stage=stage)
        grads = _gradients(optimizer)
        if self._state is None:
            raise ArgumentError(
                "GradScaler.unscale_",
                "a loss was scaled before",
                remedy="Call scaler.scale(loss).backward()",
            )
        found = self._found_of(optimizer)
        with mode.using(grad=False, phase="update", module_path="GradScaler", autocast=None):
            largest = norm_of_gradients("GradScaler.unscale_", _parameters(optimizer), inf)
            if largest is not None:  # of all ranks that have parts: they skip a step together
                update(_judge, [found, largest.float()])
                update_many(_unscale, [[g] for g in grads], shared=[self._state[0]])
        self._stages[id(optimizer)] = "unscaled"

    def step(self, optimizer: Optimizer, *args: Any, **kwargs: Any) -> Any:
        """``optimizer.step()``, unless a gradient is infinite or NaN; unscales them if need be.

        Args:
            optimizer: whose gradients were computed of a scaled loss.
            *args: for ``optimizer.step``.
            **kwargs: the same, but a closure.

        Returns:
            What ``optimizer.step`` gives; None if it was skipped.

        Raises:
            ArgumentError: if it was called since the last :meth:`update`, there is a closure, no
                parameter has a gradient, or an optimiser with a ``step`` of its own is compiled.
        """
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        name = "GradScaler.step"
        if "closure" in kwargs:
            raise ArgumentError(name, "there is no closure while gradients are scaled")
        if self._stages.get(id(optimizer)) == "stepped":
            raise ArgumentError(name, "it is called once for each optimiser between updates")
        if not _gradients(optimizer):
            raise ArgumentError(name, "a parameter of the optimiser has a gradient")
        if id(optimizer) not in self._stages:
            self.unscale_(optimizer)
        self._stages[id(optimizer)] = "stepped"
        found = self._found[id(optimizer)]
        if mode.current().tracer is None:
            return None if found.item() else optimizer.step(*args, **kwargs)
        return self._step_on_device(optimizer, found, args, kwargs)

    def _step_on_device(
        self, optimizer: Optimizer, found: Tensor, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        if optimizer.written:
            raise ArgumentError(
                "GradScaler.step",
                "in a compiled function an optimiser declares its update",
                optimizer=type(optimizer).__name__,
                remedy="Call scaler.step(optimizer) outside of it",
            )
        if optimizer.skips is None:
            with mode.using(tracer=None, grad=False):
                optimizer.skips = zeros((), device=found.device)
        with mode.using(grad=False, phase="update", autocast=None):
            update(_count, [optimizer.skips, found])
        optimizer.unless = found
        try:
            return optimizer.step(*args, **kwargs)
        finally:
            optimizer.unless = None

    def update(self, new_scale: float | Tensor | None = None) -> None:
        """Grow the scale, or shrink it after an overflow; to be called after the steps.

        Args:
            new_scale: what the scale is to be instead.

        Raises:
            ArgumentError: if nothing was scaled, or no optimiser made a step and there is no
                ``new_scale``.
        """
        if not self._enabled:
            return
        self._stages, stepped = {}, bool(self._stages)
        if self._state is None or not (stepped or self._found or new_scale is not None):
            raise ArgumentError("GradScaler.update", "scale() and step() were called before")
        scale, growth = self._state
        with mode.using(grad=False, phase="update", module_path="GradScaler", autocast=None):
            if new_scale is not None:
                scale.copy_(new_scale) if isinstance(new_scale, Tensor) else scale.fill_(new_scale)
                for flag in self._found.values():  # the next steps begin anew
                    flag.zero_()
                return
            found = [x.to(scale.device) for x in self._found.values()]
            update(
                _grow,
                [scale, growth, *found],
                [self._growth_factor, self._backoff_factor, float(self._growth_interval)],
            )

    def get_scale(self) -> float:
        """The scale; 1 if not enabled. Waits for the device."""
        if not self._enabled:
            return 1.0
        return self._first if self._state is None else self._state[0].item()

    def is_enabled(self) -> bool:
        """What it was made with."""
        return self._enabled

    def get_growth_factor(self) -> float:
        """What the scale grows by."""
        return self._growth_factor

    def set_growth_factor(self, new_factor: float) -> None:
        """Another factor by which the scale grows."""
        self._growth_factor = new_factor

    def get_backoff_factor(self) -> float:
        """What the scale shrinks by."""
        return self._backoff_factor

    def set_backoff_factor(self, new_factor: float) -> None:
        """Another factor by which the scale shrinks."""
        self._backoff_factor = new_factor

    def get_growth_interval(self) -> int:
        """Steps without an overflow before the scale grows."""
        return self._growth_interval

    def set_growth_interval(self, new_interval: int) -> None:
        """Another number of steps before the scale grows."""
        self._growth_interval = new_interval

    def state_dict(self) -> dict[str, Any]:
        """Scale, factors, interval, and steps since the scale changed; empty if not enabled."""
        if not self._enabled:
            return {}
        growth = self._first_growth if self._state is None else int(self._state[1].item())
        return {
            "scale": self.get_scale(),
            "growth_factor": self._growth_factor,
            "backoff_factor": self._backoff_factor,
            "growth_interval": self._growth_interval,
            "_growth_tracker": growth,
        }

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Continue from what :meth:`state_dict` gave.

        Raises:
            ArgumentError: if the state is empty: it is of a scaler that was not enabled.
        """
        if not self._enabled:
            return
        if not state_dict:
            raise ArgumentError(
                "GradScaler.load_state_dict", "the state is of a scaler that was enabled"
            )
        self._first, self._first_growth = state_dict["scale"], state_dict["_growth_tracker"]
        self._growth_factor = state_dict["growth_factor"]
        self._backoff_factor = state_dict["backoff_factor"]
        self._growth_interval = state_dict["growth_interval"]
        if self._state is not None:
            scale, growth = self._state
            scale.fill_(self._first)
            growth.fill_(self._first_growth)

    def _tensors(self, like: Tensor) -> tuple[Tensor, Tensor]:
        """The scale, and the steps since it changed, on the device; not of a trace."""
        if self._state is None:
            with mode.using(tracer=None, grad=False):
                numbers = (self._first, float(self._first_growth))
                scale, growth = (tensor(x, device=like.device) for x in numbers)
                self._state = (scale, growth)
        return self._state

    def _found_of(self, optimizer: Optimizer) -> Tensor:
        """1 if a gradient of an optimiser overflowed, else 0, on the device; not of a trace."""
        if id(optimizer) not in self._found:
            device = optimizer.param_groups[0]["params"][0].device
            with mode.using(tracer=None, grad=False):
                self._found[id(optimizer)] = zeros((), device=device)
        return self._found[id(optimizer)]


def _parameters(optimizer: Optimizer) -> list[Tensor]:
    return [p for group in optimizer.param_groups for p in group["params"]]


def _gradients(optimizer: Optimizer) -> list[Tensor]:
    make_dense(_parameters(optimizer))
    grads = [p.grad for p in _parameters(optimizer) if p.grad is not None]
    if any(g.dtype is float16 for g in grads):
        raise GradientError(
            "GradScaler",
            "gradients are not float16, which would underflow",
            remedy="Keep the parameters in float32, and compute under autocast",
        )
    return grads


def _judge(found: Any, largest: Any) -> tuple[Any, ...]:
    return (e.where(largest < inf, 0, 1),)


def _unscale(grad: Any, scale: Any) -> tuple[Any, ...]:
    return (grad * (1 / scale),)


def _count(skips: Any, found: Any) -> tuple[Any, ...]:
    return (skips + found,)


def _grow(scale: Any, growth: Any, *rest: Any) -> tuple[Any, ...]:
    """The new scale and count, and flags that are down again."""
    *found, factor, backoff, interval = rest
    overflowed = sum(found[1:], found[0]) > 0
    due = growth + 1 >= interval
    larger = scale * factor
    grown = e.where(due, e.where(larger < inf, larger, scale), scale)
    return (
        e.where(overflowed, scale * backoff, grown),
        e.where(overflowed, 0, e.where(due, 0, growth + 1)),
        *(x * 0 for x in found),
    )
