"""The base of optimisers: parameter groups, state, and settings that a replay reads afresh."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from .. import mode
from ..autograd import no_grad
from ..device import HostScalar
from ..errors import ArgumentError, CheckpointError
from ..ops import zeros_like
from ..ops.function import host_action
from ..ops.update import Body, update
from ..tensor import Tensor, tensor

Group = dict[str, Any]


class Optimizer:
    """Updates parameters from their gradients.

    A subclass names its state tensors, allocated here, and writes :meth:`settings` and
    :meth:`body`. The numbers in ``param_groups`` are read at every step, also when a compiled step
    is replayed: a scheduler may change them at will.

    Args:
        params: parameters, or dicts with ``"params"`` and settings of their own.
        defaults: settings of groups that give none.
        state_names: tensors of a parameter's shape that the optimiser keeps for each.

    Attributes:
        param_groups: dicts of ``"params"`` and settings.
        state: for each parameter (by ``id``) its state tensors by name.
        version: changes when groups are added or state is replaced.

    Raises:
        ArgumentError: if there are no parameters, or one is given twice.
    """

    def __init__(
        self,
        params: Iterable[Tensor] | Iterable[Group],
        defaults: Group,
        state_names: Sequence[str] = (),
    ) -> None:
        self.defaults = defaults
        self.param_groups: list[Group] = []
        self.state: dict[int, dict[str, Tensor]] = {}
        self.num_steps = 0
        self.version = 0
        self._state_names = tuple(state_names)
        self._cells: list[list[HostScalar]] = []
        given = list(params)
        groups = given if given and isinstance(given[0], dict) else [{"params": given}]
        for group in groups:
            self.add_param_group(group)  # pyright: ignore[reportArgumentType]

    def settings(self, group: Group, num_steps: int) -> tuple[float, ...]:
        """The numbers that :meth:`body` gets as scalars, for the step now taken (1, 2, ...)."""
        raise NotImplementedError

    def body(self, group: Group) -> Body:
        """The update, a function of symbols: parameter, state, gradient, scalars.

        It returns new values of the parameter and of each state tensor, in order.
        """
        raise NotImplementedError

    def add_param_group(self, group: Group) -> None:
        """More parameters, with settings of their own.

        Raises:
            ArgumentError: if it has none, or one that is here already.
        """
        params = group["params"]
        params = [params] if isinstance(params, Tensor) else list(params)
        if not params:
            raise ArgumentError(type(self).__name__, "it gets one parameter or more")
        if len({id(p) for p in params}) < len(params) or any(id(p) in self.state for p in params):
            raise ArgumentError(type(self).__name__, "a parameter is given once")
        complete = {**self.defaults, **group, "params": params}
        self.param_groups.append(complete)
        self._cells.append([HostScalar(v) for v in self.settings(complete, 1)])
        for p in params:
            self.state[id(p)] = {name: zeros_like(p.detach()) for name in self._state_names}
        self.version += 1

    def zero_grad(self) -> None:
        """Forget the gradients of all parameters."""
        for group in self.param_groups:
            for p in group["params"]:
                p.grad = None

    def step(self) -> None:
        """Update every parameter that has a gradient, in place."""
        tracer = mode.current().tracer
        if tracer is not None:
            tracer.watch(self)
        host_action(self._advance)
        with no_grad(), mode.using(phase="update", module_path=type(self).__name__):
            for group, cells in zip(self.param_groups, self._cells, strict=True):
                body = self.body(group)
                for p in group["params"]:
                    if p.grad is not None:
                        update(body, [p, *self.state[id(p)].values(), p.grad], cells)

    def state_dict(self) -> dict[str, Any]:
        """Step count, settings and state tensors, parameters by their position."""
        order = [p for group in self.param_groups for p in group["params"]]
        groups = [{k: v for k, v in g.items() if k != "params"} for g in self.param_groups]
        return {
            "num_steps": self.num_steps,
            "param_groups": groups,
            "state": {
                str(i): {n: t.detach() for n, t in self.state[id(p)].items()}
                for i, p in enumerate(order)
            },
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from what :meth:`state_dict` gave.

        Raises:
            CheckpointError: if groups, parameters or shapes do not fit; nothing is changed then.
        """
        order = [p for group in self.param_groups for p in group["params"]]
        saved = state["state"]
        if len(state["param_groups"]) != len(self.param_groups) or len(saved) != len(order):
            raise CheckpointError(
                type(self).__name__,
                "the state has other groups or parameters",
                groups=(len(self.param_groups), len(state["param_groups"])),
                parameters=(len(order), len(saved)),
            )
        for i, p in enumerate(order):
            for name, own in self.state[id(p)].items():
                value = saved[str(i)].get(name)
                if value is None or tuple(value.shape) != own.shape:
                    raise CheckpointError(
                        type(self).__name__,
                        f"state {name!r} of parameter {i} does not fit",
                        shape=own.shape,
                    )
        self.num_steps = int(state["num_steps"])
        for group, settings in zip(self.param_groups, state["param_groups"], strict=True):
            group.update(settings)
        with no_grad():
            for i, p in enumerate(order):
                for name, own in self.state[id(p)].items():
                    value = saved[str(i)][name]
                    own.copy_(
                        value if isinstance(value, Tensor) else tensor(value, device=own.device)
                    )
        self.version += 1

    def _advance(self) -> None:
        self.num_steps += 1
        for group, cells in zip(self.param_groups, self._cells, strict=True):
            for cell, value in zip(cells, self.settings(group, self.num_steps), strict=True):
                cell.value = value
