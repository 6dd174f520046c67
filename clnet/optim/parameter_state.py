"""What a declared optimiser keeps of one parameter: tensors, and the number of its steps.

Programs handle it as PyTorch's: they read ``state[p]["step"]``, set it back, move the state to
another parameter, put one of their own in its place.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar
from weakref import WeakValueDictionary

from ..device import HostScalar
from ..tensor import Tensor
from .state_form import step_tensor

Cells = dict[str, HostScalar]
"""The numbers that updates read at each enqueue, by the names of their parameters."""


class ParameterState(dict[str, Any]):
    """Tensors by name, and ``"step"``: a number of the host that looks like PyTorch's tensor.

    Of updates that the device skipped, ``"step"`` counts the last few until the host knows of them.

    Args:
        kept: what is in it at first.
        counted: whether ``"step"`` is among the names, which it is not for SGD, as for PyTorch.
        count: the number of steps, if ``kept`` has none.
        cells: what updates of the parameter read.

    Attributes:
        cells: None until the optimiser gives it some, and when a program has set ``"step"``.
        changes: what :meth:`num_changes` has found so far.
    """

    __slots__ = ("__weakref__", "_count", "_shown", "cells", "counted")
    changes = 0
    _handed_out: ClassVar[WeakValueDictionary[int, ParameterState]] = WeakValueDictionary()

    def __init__(
        self,
        kept: Mapping[str, Any] | None = None,
        *,
        counted: bool = True,
        count: int = 0,
        cells: Cells | None = None,
    ) -> None:
        own = dict(kept or {})
        step = own.pop("step", count) if counted else count
        super().__init__(own)
        self._count = int(step)
        self._shown: tuple[Tensor, int] | None = None
        self.cells, self.counted = cells, counted

    @property
    def count(self) -> int:
        """How many steps the parameter has made."""
        if self._shown is not None:
            shown, version = self._shown
            if shown._version != version:  # written in place, as by zero_()
                self["step"] = shown
        return self._count

    @count.setter
    def count(self, count: int) -> None:
        self._count, self._shown = count, None
        self._handed_out.pop(id(self), None)

    @classmethod
    def num_changes(cls) -> int:
        """How often programs changed any such state: recorded steps hold its tensors."""
        for state in list(cls._handed_out.values()):  # of which a program may have written "step"
            _ = state.count
        return cls.changes

    def tensors(self) -> dict[str, Any]:
        """All but the number of steps."""
        return {name: dict.__getitem__(self, name) for name in dict.__iter__(self)}

    def complete(self, tensors: Mapping[str, Any]) -> None:
        """Put in what the optimiser itself makes."""
        super().update(tensors)

    def become(self, tensors: Mapping[str, Any]) -> None:
        """Hold these and no others; what updates read is made anew where the names differ."""
        if self.tensors().keys() != tensors.keys():
            super().clear()
            super().update(tensors)
            self.cells = None

    def __missing__(self, name: str) -> Any:
        if name != "step" or not self.counted:
            raise KeyError(name)
        return self._step(None)

    def _step(self, default: Any) -> Any:
        if not self.counted:
            return dict.get(self, "step", default)
        count = self.count
        if self._shown is None:
            some = next((v for v in self.tensors().values() if isinstance(v, Tensor)), None)
            shown = step_tensor(count, None if some is None else some.device)
            self._shown = (shown, shown._version)
            self._handed_out[id(self)] = self
        return self._shown[0]

    def __setitem__(self, name: str, value: Any) -> None:
        ParameterState.changes += 1
        if name == "step" and self.counted:
            self.count, self.cells = int(value), None
        else:
            super().__setitem__(name, value)

    def __delitem__(self, name: str) -> None:
        ParameterState.changes += 1
        super().__delitem__(name)

    def __iter__(self) -> Iterator[str]:
        yield from ("step",) if self.counted else ()
        yield from super().__iter__()

    def __len__(self) -> int:
        return super().__len__() + self.counted

    def __contains__(self, name: object) -> bool:
        return super().__contains__(name) or (name == "step" and self.counted)

    def __eq__(self, other: object) -> bool:
        return self is other

    __hash__ = None

    def __reduce__(self) -> tuple[Any, ...]:
        return _again, (self.tensors(), self.counted, self.count, self.cells)

    def keys(self) -> Any:
        """All names, ``"step"`` first."""
        return list(self)

    def values(self) -> Any:
        """What they name."""
        return [self[name] for name in self]

    def items(self) -> Any:
        """Both."""
        return [(name, self[name]) for name in self]

    def get(self, name: str, default: Any = None) -> Any:
        """What a name names, or a default."""
        return dict.get(self, name, default) if name != "step" else self._step(default)

    def update(self, *args: Any, **kwargs: Any) -> None:
        """Put in several."""
        for name, value in dict(*args, **kwargs).items():
            self[name] = value

    def pop(self, name: str, *default: Any) -> Any:
        """Take one out."""
        ParameterState.changes += 1
        return super().pop(name, *default)

    def clear(self) -> None:
        """Take all out: the next step is the first."""
        ParameterState.changes += 1
        super().clear()
        self.count, self.cells = 0, None

    def copy(self) -> dict[str, Any]:
        """A plain dict of the same."""
        return dict(self.items())


def _again(
    tensors: Mapping[str, Any],
    counted: bool,  # noqa: FBT001 - pickle gives no names
    count: int,
    cells: Cells | None,
) -> ParameterState:
    """What was pickled or copied."""
    return ParameterState(tensors, counted=counted, count=count, cells=cells)


def part_cells(
    updated: Sequence[tuple[dict[str, Any], Tensor]],
    params: Sequence[Tensor],
    kept: Callable[[Tensor], ParameterState],
    numbers: Callable[[dict[str, Any], int], dict[str, float]],
) -> bool:
    """Give parameters cells of their own that go on without those they shared them with.

    Parameters of a group share cells as long as they have made the same steps.

    Args:
        updated: the parameters that make a step, each with its group.
        params: all.
        kept: what is kept of one.
        numbers: what a group's cells hold at a step.

    Returns:
        Whether one has other cells than before.
    """
    made: dict[tuple[int, int], Cells] = {}
    own = [(group, kept(p)) for group, p in updated]
    for group, state in own:
        count = state.count  # which forgets the cells, if a program wrote it
        if state.cells is None:
            cells = {name: HostScalar(value) for name, value in numbers(group, count + 1).items()}
            state.cells = made.setdefault((id(group), count), cells)
    sharing = Counter(id(kept(p).cells) for p in params)
    going = Counter(id(state.cells) for _, state in own)
    parted = {key for key, count in going.items() if count < sharing[key]}
    fresh: dict[int, Cells] = {}
    for _, state in own if parted else ():
        if id(before := state.cells) in parted:
            copied = {name: HostScalar(cell.value) for name, cell in (before or {}).items()}
            state.cells = fresh.setdefault(id(before), copied)
    return bool(made or parted)
