"""An optimiser whose state is divided among processes (ZeRO's first stage)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ..autograd import enable_grad
from ..errors import ArgumentError, CheckpointError, DistributedError
from ..ops.machinery.function import host_action
from ..ranks.many import broadcast_many
from ..ranks.membership import group_of, root_of
from ..ranks.message import gather_object
from ..tensor import Tensor
from ..values import mode
from ..values.containers import ByPosition
from .optimizer import Group, Optimizer
from .state_form import checked_groups, entry_of, groups_of, taken

__all__ = ["ZeroRedundancyOptimizer"]


class ZeroRedundancyOptimizer(Optimizer):
    """Each process has the state of a part of the parameters, updates them, and sends them to all.

    Behind averaged gradients (:class:`.DistributedDataParallel`) the parameters are bit for bit
    those of an optimiser that each process has whole. A step may be compiled: the messages are
    steps of the plan.

    Args:
        params: the same on all ranks, in one order; or groups of them.
        optimizer_class: of the optimiser.
        process_group: who takes part; None: all.
        parameters_as_bucket_view, overlap_with_ddp: taken, False.
        **defaults: the optimiser's settings.

    Attributes:
        optim: the optimiser of this rank's part; None: it has none.
        owned: for each rank its parameters.

    Raises:
        DistributedError: if the processes are not joined, or this is not one of the group.
        ArgumentError: if ``overlap_with_ddp`` is asked for.
    """

    written = False

    def __init__(
        self,
        params: Iterable[Tensor] | Iterable[Group],
        optimizer_class: Callable[..., Optimizer],
        process_group: Any = None,
        parameters_as_bucket_view: bool = False,  # noqa: FBT001, FBT002 - PyTorch's
        overlap_with_ddp: bool = False,  # noqa: FBT001, FBT002
        **defaults: Any,
    ) -> None:
        name = type(self).__name__
        del parameters_as_bucket_view
        if overlap_with_ddp:
            raise ArgumentError(name, "overlap_with_ddp is False", overlap_with_ddp=True)
        group = group_of(name, process_group)
        if group is None:
            raise DistributedError(name, "this rank is in the group")
        self.process_group = group
        self._class, self._given = optimizer_class, defaults
        self._whole: dict[int, Any] | None = None
        super().__init__(params, {})
        self.owned: list[list[Tensor]] = [[] for _ in range(group.size())]
        _divide(_all(self), self.owned)
        mine = {id(p) for p in self.owned[group.rank()]}
        parts = [
            {**own, "params": [p for p in own["params"] if id(p) in mine]}
            for own in self.param_groups
        ]
        self._places = [k for k, part in enumerate(parts) if part["params"]]
        kept = [parts[k] for k in self._places]
        self.optim = optimizer_class(kept, **defaults) if kept else None
        settings = optimizer_class([{"params": g["params"]} for g in self.param_groups], **defaults)
        for own, complete in zip(self.param_groups, settings.param_groups, strict=True):
            own.update({k: v for k, v in complete.items() if k not in own})
        self.defaults = dict(settings.defaults)
        self._name = type(settings).__name__

    @property
    def _clnet_version(self) -> tuple[Any, ...]:
        """That of this rank's optimiser."""
        return (self._num_changes, None if self.optim is None else self.optim._clnet_version)

    def add_param_group(self, group: Group) -> None:
        """More parameters, the same on all ranks: each goes to the rank that has the fewest."""
        super().add_param_group(group)
        if not hasattr(self, "optim"):  # all are divided when they are there
            return
        own = self.param_groups[-1]
        complete = self._class([{**own, "params": own["params"]}], **self._given).param_groups[0]
        own.update({k: v for k, v in complete.items() if k not in own})
        _divide(own["params"], self.owned)
        mine = {id(p) for p in self.owned[self.process_group.rank()]}
        part = {**own, "params": [p for p in own["params"] if id(p) in mine]}
        if not part["params"]:
            return
        self._places.append(len(self.param_groups) - 1)
        if self.optim is None:
            self.optim = self._class([part], **self._given)
        else:
            self.optim.add_param_group(part)

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update this rank's part, and take the others' from their ranks.

        Args:
            closure: called first, if there is one, to compute the gradients.

        Returns:
            What the closure gave.
        """
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        host_action(self._tell_settings)
        if self.optim is not None:
            self.optim.unless = self.unless
            if self.skips is not None:
                self.optim.skips = self.skips
            self.optim.step()
            self.optim.unless = None
        with mode.using(grad=False, phase="update", module_path=type(self).__name__):
            for rank, params in enumerate(self.owned):
                if params:
                    broadcast_many(params, self.process_group, rank)
        return loss

    def _tell_settings(self) -> None:
        """The settings that a scheduler changes are those of the part, too.

        What was collected before this step is not the state any more.
        """
        self._whole = None
        if self.optim is None:
            return
        for place, part in zip(self._places, self.optim.param_groups, strict=True):
            whole = self.param_groups[place]
            part.update({k: v for k, v in whole.items() if k != "params"})

    def consolidate_state_dict(self, to: int = 0) -> None:
        """Collect the state of all ranks on one, whose :meth:`state_dict` gives it; all call it.

        Args:
            to: the rank in the world.
        """
        group = self.process_group
        here = group.rank() == root_of("consolidate_state_dict", group, to, None)
        found: list[Any] | None = [None] * group.size() if here else None
        mine = {} if self.optim is None else _by_place(self.optim, _all(self))
        gather_object(mine, found, to, group)
        self._whole = None
        if found is not None:
            self._whole = {k: v for part in found for k, v in sorted(part.items())}

    def state_dict(self) -> dict[str, Any]:
        """Of an optimiser that has it whole: it goes on with any number of ranks, or without.

        Raises:
            CheckpointError: before :meth:`consolidate_state_dict`, after a further step, or on
                another rank.
        """
        if self._whole is None:
            raise CheckpointError(
                type(self).__name__,
                "the state lies on several ranks",
                remedy="Call consolidate_state_dict(to=0) on all ranks, then state_dict() on that",
            )
        groups = groups_of(self, self._name)
        return {"param_groups": groups, "state": ByPosition(sorted(self._whole.items()))}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a whole state, of which each rank takes its part.

        Args:
            state: what :meth:`state_dict` gave, or that of an optimiser of the class.

        Raises:
            CheckpointError: if it does not fit.
        """
        groups = [  # whose parameters are told by number
            {k: v for k, v in group.items() if k != "params"}
            for group in checked_groups(self, state)
        ]
        entries = [entry_of(state["state"], k, pytorchs=False) for k in range(len(_all(self)))]
        if missing := [k for k, entry in enumerate(entries) if entry is None]:
            raise CheckpointError(
                type(self).__name__,
                "the state has an entry of each parameter, by its number",
                missing=missing,
            )
        for own, settings in zip(self.param_groups, groups, strict=True):
            own.update(taken(settings, self._name))
        if self.optim is None:
            return
        place = {id(p): k for k, p in enumerate(_all(self))}
        own_state = [entries[place[id(p)]] for p in _all(self.optim)]
        parts: list[Group] = []
        for k, part in zip(self._places, self.optim.param_groups, strict=True):
            given = {name: v for name, v in groups[k].items() if name != "params"}
            parts.append({**given, "num_params": len(part["params"])})
        mine = dict(enumerate(own_state))
        self.optim.load_state_dict({"param_groups": parts, "state": mine})


def _divide(params: list[Tensor], parts: list[list[Tensor]]) -> None:
    """Each parameter to the rank that has the fewest elements so far, the largest first."""
    sizes = [sum(p.numel() for p in part) for part in parts]
    for p in sorted(params, key=lambda p: -p.numel()):
        rank = sizes.index(min(sizes))
        parts[rank].append(p)
        sizes[rank] += p.numel()


def _by_place(part: Optimizer, whole: list[Tensor]) -> dict[int, Any]:
    place = {id(p): k for k, p in enumerate(whole)}
    entries = part.state_dict()["state"].values()
    return {place[id(p)]: entry for p, entry in zip(_all(part), entries, strict=True)}


def _all(optimizer: Optimizer) -> list[Tensor]:
    return [p for group in optimizer.param_groups for p in group["params"]]
