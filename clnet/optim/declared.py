"""Optimisers that declare their update: state, steps, and settings that a replay reads afresh."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar

from typing_extensions import dataclass_transform

from ..autograd import enable_grad, no_grad
from ..device import HostScalar
from ..errors import ArgumentError, CheckpointError, OutOfDeviceMemory
from ..nn.parameter import is_lazy
from ..ops import view_as_real, zeros_like
from ..ops.machinery.function import host_action
from ..ops.machinery.update import Body
from ..ops.multi_tensor import update_many
from ..tensor import Tensor, tensor
from ..values import mode
from ..values.containers import ByPosition
from ..values.declared import declare
from ..values.record import NamedTuple
from .optimizer import Group, Optimizer
from .parameter_state import Cells, ParameterState, part_cells
from .rate import plain
from .recorded import update_on_tape
from .restart import begun, made, optimiser_as_it_is
from .state_form import (
    beside,
    checked_groups,
    entry_of,
    groups_of,
    is_counted,
    step_tensor,
    taken,
)
from .update_rule import maximized, put_back, scalar_names, scalars_of, withheld
from .written import copied, plain_groups

MOST_UNSETTLED = 16
"""Steps of which the host need not know yet whether the device skipped them."""


class _Alike(NamedTuple):
    """Parameters of a group that have made the same steps, and so share their scalars."""

    group: Group
    cells: Cells
    operands: list[Sequence[Tensor]]


@dataclass_transform()
class DeclaredOptimizer(Optimizer):
    """An optimiser that declares its update, in one pass over all parameters.

    Its settings are fields, of which constructor and defaults follow::

        class SGD(DeclaredOptimizer):
            params: ParamsT
            lr: float = 1e-3

    is made as ``SGD(params, lr=1e-3)``. A field that is a float is a scalar of its name to
    :meth:`body`. With :meth:`check`, :meth:`state_names` and :meth:`settings` that is all: the
    numbers in ``param_groups`` are read at every step, also when a compiled one is replayed, so a
    scheduler may change them at will.

    Attributes:
        rates: names of the settings that are 0 or more.
        state: for each parameter what is kept of it by name, tensors from the start.

    Raises:
        ArgumentError: if there are no parameters, one is given twice, or a setting is out of range.
    """

    __fields__: ClassVar[dict[str, inspect.Parameter]] = {}
    written = False
    rates: ClassVar[tuple[str, ...]] = ()
    derived: ClassVar[tuple[str, ...]] = ("step",)
    """What PyTorch keeps of a parameter, and follows from the settings and the step here."""
    _named_numbers: ClassVar[tuple[str, ...]] = ()
    _torn = False

    def __init_subclass__(cls, **given: Any) -> None:
        if cls.__module__.startswith(f"{__package__}."):  # else it is a user's
            declare(cls)
            fields = cls.__fields__.values()
            cls._named_numbers = tuple(
                f.name for f in fields if "float" in f.annotation.split(" | ")
            )
        super().__init_subclass__(**given)

    def _assign(self, values: dict[str, Any]) -> None:
        """What the constructor does with the settings by name."""
        self._shapeless: set[int] = set()
        self._settled = 0
        self._unsettled = 0
        self._last_updated: Sequence[tuple[Group, Tensor]] = ()
        params = values.pop("params")
        super().__init__(params, values)
        made(self)

    def check(self, group: Group) -> None:
        """Check a group's settings.

        Raises:
            ArgumentError: if one of ``rates`` is below 0, a beta outside [0, 1), or a setting of
                two numbers has more or fewer.
        """
        for name in ("betas", "etas", "step_sizes"):
            if len(group.get(name, (0, 0))) != 2:
                raise ArgumentError(type(self).__name__, f"{name} are two", **{name: group[name]})
        rates = {name: group[name] for name in self.rates}
        if not all(rate >= 0 for rate in rates.values()):  # NaN is no setting
            raise ArgumentError(type(self).__name__, "settings are 0 or more", **rates)
        if not all(0 <= beta < 1 for beta in group.get("betas", ())):
            raise ArgumentError(type(self).__name__, "betas lie in [0, 1)", betas=group["betas"])

    def state_names(self, group: Group) -> tuple[str, ...]:
        """Names of the tensors that are kept for each parameter of a group, zeros at first."""
        return ()

    def names_of(self, p: Tensor, group: Group) -> tuple[str, ...]:
        """:meth:`state_names` of one parameter: another shape may be kept otherwise."""
        del p
        return self.state_names(group)

    def settings(self, group: Group, num_steps: int) -> dict[str, float]:
        """Numbers that follow from the settings, for scalars of :meth:`body`.

        Args:
            group: the settings as they stand.
            num_steps: updates of the parameter, with the one now made (1, 2, ...).

        Returns:
            The numbers by the names of the body's parameters.
        """
        return {}

    def body(self, group: Group) -> Body:
        """The update, a function of symbols: of parameter, state, gradient, scalars.

        It returns new values of the parameter and of each state tensor, in order. A scalar is the
        setting of its name, or the number of :meth:`settings`.
        """
        raise NotImplementedError(f"{type(self).__name__}.body")

    def apply(self, group: Group, operands: Sequence[Sequence[Tensor]], cells: Cells) -> None:
        """Update parameters: :meth:`body` in one pass, unless a subclass needs several.

        Args:
            group: their group.
            operands: for each the parameter, its state in order, its gradient.
            cells: the numbers by name, the same for all of them.
        """
        rule = self._rule(group)
        update_many(rule, operands, scalars_of(rule, len(operands[0]), cells))

    def _numbers(self, group: Group, num_steps: int) -> dict[str, float]:
        """All numbers that a body may ask for."""
        group = plain(group)
        return {n: group[n] for n in self._named_numbers} | self.settings(group, num_steps)

    def _numbers_after(self, group: Group, num_steps: int, before: Cells) -> dict[str, float]:
        """:meth:`_numbers` of an update, after those of the parameters' last one."""
        del before
        return self._numbers(group, num_steps)

    def _rule(self, group: Group) -> Body:
        """The update of a group that is minimised or maximised."""
        body = self.body(group)
        return maximized(body, 1 + len(self.state_names(group))) if group.get("maximize") else body

    @property
    def _clnet_version(self) -> tuple[Any, ...]:
        """Changes when groups, state or the kind of update change, but not with numbers."""
        rules = (self._rule(group) for group in self.param_groups)
        places = (tuple(map(id, group["params"])) for group in self.param_groups)
        of_programs = len(self.state), ParameterState.num_changes()  # may clear all, move some
        return (self._num_changes, self._hooks, of_programs, *places, *rules)

    def _join(self, group: Group) -> None:
        """Check the settings, and make what is kept of the parameters."""
        self.check(plain(group))
        super()._join(group)
        cells = {name: HostScalar(v) for name, v in self._numbers(group, 1).items()}
        for p in group["params"]:
            if is_lazy(p):
                self._shapeless.add(id(p))
            first = {} if is_lazy(p) else self._first_state(p, group)
            self.state[p] = ParameterState(first, counted=is_counted(self), cells=cells)

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update every parameter that has a gradient, in place.

        Args:
            closure: called first, if there is one, to compute the gradients.

        Returns:
            What the closure gave: the loss.

        Raises:
            ArgumentError: if a setting was changed to one that needs state there is none of.
            CheckpointError: if memory ran out within the step before, and parts of it were made.
        """
        self._require_whole()
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        updated = [
            (group, p) for group in self.param_groups for p in group["params"] if p.grad is not None
        ]
        if part_cells(updated, self._params(), self._kept, self._numbers):
            self._num_changes += 1
        tracer = mode.current().tracer
        if tracer is not None:
            tracer.watch(self)
            with plain_groups(self.param_groups):
                self._step_of(updated)
            return loss
        self._step_of(updated)
        return loss

    def _step_of(self, updated: Sequence[tuple[Group, Any]]) -> None:
        """A step of these parameters."""
        if mode.current().tracer is not None:
            for group in self.param_groups:
                plain(group)  # a rate that is written before is refused
        alike: dict[int, _Alike] = {}
        of_rows: list[tuple[Group, Any, Cells, list[Any]]] = []
        for group, p in updated:
            state, g, cells = self._state_of(p, group), p.grad, self._cells_of(p, group)
            if g.is_sparse:
                if self.takes_rows(group) and not p.dtype.is_complex and self.unless is None:
                    of_rows.append((group, g, cells, [p, *state]))
                    continue
                g = g.to_dense()
            operands = (p, *state, g)
            if p.dtype.is_complex:  # the parts of a number are two parameters, as for PyTorch
                kept = group.get("differentiable")
                operands = [view_as_real(x if kept else x.detach()) for x in operands]
            alike.setdefault(id(cells), _Alike(group, cells, [])).operands.append(operands)
        begun(self, optimiser_as_it_is)
        host_action(lambda: self._advance(updated))
        self._update(alike.values())
        for each in of_rows:
            self._update_rows(*each)

    def takes_rows(self, group: Group) -> bool:
        """Whether a sparse gradient changes its rows alone; else it is made dense."""
        del group
        return False

    def body_of_rows(self, group: Group) -> Body:
        """The update of rows of a sparse gradient."""
        return self.body(group)

    def _update_rows(self, group: Group, g: Any, cells: Cells, written: list[Any]) -> None:
        """Apply a sparse gradient to the rows that it has."""
        g = g.coalesce()
        (places,) = g.indices()
        with mode.using(grad=False, phase="update", module_path=type(self).__name__, autocast=None):
            rows = [x.detach().index_select(0, places) for x in written]
            body, count = self.body_of_rows(group), len(rows) + 1
            rule = maximized(body, count) if group.get("maximize") else body
            update_many(rule, [(*rows, g.values())], scalars_of(rule, count, cells))
            for x, own in zip(written, rows, strict=True):
                x.detach().index_copy_(0, places, own)

    def _update(self, alike: Iterable[_Alike]) -> None:
        """Apply what was found; the mode is as it was whenever an interrupt comes."""
        name, before = type(self).__name__, mode.current()
        seen = [] if type(self).apply is DeclaredOptimizer.apply else self._versions(alike)
        try:
            mode.change(grad=False, phase="update", module_path=name, autocast=None)
            for group, cells, operands in alike:
                if group.get("differentiable"):
                    mode.change(grad=True)
                    self._apply_on_tape(group, operands, cells)
                    mode.change(grad=False)
                elif self.unless is None:
                    self.apply(group, operands, cells)
                else:
                    self._apply_unless(self.unless, group, operands, cells)
        except OutOfDeviceMemory as error:
            if seen and before.tracer is None:
                self._stopped(error, torn=seen != self._versions(alike))
            raise
        finally:
            mode.restore(before)

    def _apply_on_tape(
        self, group: Group, operands: Sequence[Sequence[Tensor]], cells: Cells
    ) -> None:
        """:meth:`apply`, of which the new values are functions on the tape.

        The walk back wants the numbers of this step, so they are read now and not from the cells.

        Raises:
            ArgumentError: if the device decides whether there is a step, or a function is traced.
        """
        if self.unless is not None or mode.current().tracer is not None:
            law = "a differentiable step is neither skipped by GradScaler nor compiled"
            raise ArgumentError(f"{type(self).__name__}.step", law)
        rule, numbers = self._rule(group), {n: cell.value for n, cell in cells.items()}
        if any(isinstance(v, Tensor) and v.requires_grad for v in group.values()):
            kept = map(self._kept, group["params"])
            count = next(own.count for own in kept if own.cells is cells)
            found = {n: group[n] for n in self._named_numbers} | self.settings(group, count)
            numbers |= {n: v for n, v in found.items() if isinstance(v, Tensor)}
        update_on_tape(rule, operands, [numbers[n] for n in scalar_names(rule, len(operands[0]))])

    def _versions(self, alike: Iterable[_Alike]) -> list[int]:
        """Of all that a step of several passes writes, by which it is known what it wrote."""
        every = (x for each in alike for own in each.operands for x in own[:-1])
        return [x.array.storage.version for x in every]

    def _stopped(self, error: OutOfDeviceMemory, *, torn: bool) -> None:
        """Memory ran out before a step, which then did not happen, or within it."""
        if torn:
            self._torn = True
            error.values = {**error.values, "left": "some parameters after the step, some before"}
            return
        for _, p in self._last_updated:
            self._kept(p).count -= 1

    def _require_whole(self) -> None:
        """Refuse to go on from a step that was made of some parameters.

        Raises:
            CheckpointError: if there was one, and no state was loaded since.
        """
        if self._torn:
            law = "memory ran out within the last step, which some parameters have made"
            hint = "Load the module's state and the optimiser's, of before"
            raise CheckpointError(f"{type(self).__name__}.step", law, remedy=hint)

    def _apply_unless(
        self, unless: Tensor, group: Group, operands: Sequence[Sequence[Tensor]], cells: Cells
    ) -> None:
        """:meth:`apply`, of no effect if the device finds ``unless`` other than 0."""
        if type(self).apply is DeclaredOptimizer.apply:
            rule = self._rule(group)
            scalars = scalars_of(rule, len(operands[0]), cells)
            update_many(withheld(rule, len(operands[0])), operands, scalars, shared=[unless])
            return
        before = [x.clone() for own in operands for x in own[:-1]]
        self.apply(group, operands, cells)
        written = [x for own in operands for x in own[:-1]]
        update_many(put_back, list(zip(written, before, strict=True)), shared=[unless])

    def _clnet_settle(self) -> None:
        """Take back what was counted of steps that the device skipped since; waits for it."""
        if self.skips is None or mode.current().tracer is not None:
            return
        total = int(self.skips.item())
        back, self._settled, self._unsettled = total - self._settled, total, 0
        if back:
            for _, p in self._last_updated:
                self._kept(p).count -= back

    def state_dict(self) -> dict[str, Any]:
        """Settings of the groups; step count and state tensors of the parameters by position.

        Keys and types are those of PyTorch's optimiser of the name, which takes such a state;
        parameters have an entry before their first step, too. What a program keeps in ``state``
        beside parameters is there under its own key.
        """
        self._clnet_settle()
        counted, entries = is_counted(self), []
        for p in self._params():
            own = self._kept(p)
            step = step_tensor(own.count, p.device) if counted else own.count
            tensors = {n: getattr(t, "detach", lambda t=t: t)() for n, t in own.tensors().items()}
            entries.append({"step": step, **tensors})
        groups = groups_of(self, type(self).__name__)
        states = ByPosition(enumerate(entries))
        states.update(beside(self.state))
        return {"param_groups": groups, "state": states}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from what :meth:`state_dict` gave; nothing is changed unless everything fits.

        Args:
            state: such a state, whose tensors may be NumPy arrays, or that of PyTorch's optimiser
                of the same name.

        Raises:
            CheckpointError: if groups, parameters, state or shapes do not fit.
        """
        self._clnet_settle()
        groups, saved, now = self._checked(state)
        self._torn = False
        self.state.update(beside(state["state"]))
        for group, settings in zip(self.param_groups, groups, strict=True):
            group.update(taken(settings, type(self).__name__))
        cells: dict[tuple[int, int], Cells] = {}
        with no_grad():
            for (group, p), entry, after in zip(self._grouped(), saved, now, strict=True):
                kept, count = self._kept(p), int(entry["step"])
                kept.become(after)
                before = self._cells_of(p, group)
                fresh = {name: HostScalar(0.0) for name in before}
                kept.count, kept.cells = count, cells.setdefault((count, id(before)), fresh)
                for name, own in kept.tensors().items():
                    if not isinstance(own, Tensor):  # a number that follows from the steps
                        continue
                    value = entry.get(name)
                    if value is None:  # PyTorch keeps nothing of a parameter without a step
                        value = self._first_state(p, group)[name]
                    given = isinstance(value, Tensor)
                    own.copy_(value if given else tensor(value, device=own.device))
                # What a program keeps beside, as Lookahead its slow weights.
                known = ("step", *self.derived, *kept.tensors())
                kept.complete({k: copied(k, v, p) for k, v in entry.items() if k not in known})
        self._num_changes += 1
        self._opt_called = any(self._kept(p).count for p in self._params())  # behind those steps

    def _first_state(self, p: Tensor, group: Group) -> dict[str, Any]:
        return {name: zeros_like(p.detach()) for name in self.state_names(group)}

    def _kept(self, p: Tensor) -> ParameterState:
        """What is kept of a parameter; of what a program put in its place, it is made."""
        own = self.state[p]
        if not isinstance(own, ParameterState):
            own = self.state[p] = ParameterState(own, counted=is_counted(self))
            self._num_changes += 1
        return own

    def _cells_of(self, p: Tensor, group: Group) -> Cells:
        """What updates of a parameter read: made anew where a program wrote its number of steps."""
        own = self._kept(p)
        count = own.count
        if own.cells is None:
            numbers = self._numbers(group, count + 1)
            own.cells = {name: HostScalar(value) for name, value in numbers.items()}
            self._num_changes += 1
        return own.cells

    def _state_of(self, p: Tensor, group: Group) -> list[Tensor]:
        own, names = self._kept(p), self.names_of(p, group)
        missing = [name for name in names if name not in own]
        if missing and not own.tensors():  # a program cleared it: as PyTorch, from the first step
            own.count = 0
        before_all = missing and own.count == 0  # as where a scheduler cycles momentum
        if id(p) in self._shapeless or before_all:  # when it was added; of a lazy layer
            self._shapeless.discard(id(p))
            with mode.using(tracer=None):
                first = self._first_state(p, group)
            own.complete({name: value for name, value in first.items() if name not in own})
            self._num_changes += 1
        elif missing:
            raise ArgumentError(
                type(self).__name__,
                "a setting was changed to one that needs state from the start",
                missing=missing,
                remedy="Build the optimiser with that setting",
            )
        return [own[name] for name in names]

    def _advance(self, updated: Sequence[tuple[Group, Tensor]]) -> None:
        """Count a step of each parameter and bring their scalars up to date."""
        self._last_updated = updated  # this step, too, may have been found to be skipped
        if not self._makes_no_difference(updated):
            self._clnet_settle()
        self._unsettled += 1
        known: set[int] = set()
        for group, p in updated:
            own = self._kept(p)
            own.count = count = own.count + 1
            cells = self._cells_of(p, group)
            if id(cells) not in known:
                known.add(id(cells))
                # A step that the device skips may be counted as none already: it reads no numbers.
                for name, value in self._numbers_after(group, max(count, 1), cells).items():
                    cells[name].value = value

    def _makes_no_difference(self, updated: Sequence[tuple[Group, Tensor]]) -> bool:
        """Whether scalars are the same however many of the last steps the device skipped.

        Then nobody need wait for it. That an optimiser such as SGD counts later is no harm; how
        much later is bounded, so that this is soon told.
        """
        if self.skips is None or self._unsettled >= MOST_UNSETTLED:
            return False
        if len(updated) < len(self._params()):  # whose steps they were must be known, too
            return False
        known: set[int] = set()
        for group, p in updated:
            cells, count = self._cells_of(p, group), self._kept(p).count + 1
            if id(cells) not in known:
                known.add(id(cells))
                counts = range(max(count - self._unsettled, 1), max(count, 1) + 1)
                first, *others = (self._numbers_after(group, n, cells) for n in counts)
                if any(numbers != first for numbers in others):
                    return False
        return True

    def _checked(
        self, state: Mapping[str, Any]
    ) -> tuple[list[Group], list[Mapping[str, Any]], list[dict[str, Any]]]:
        """The groups and the parameters' entries of a state that fits, and where they go."""
        name, order, groups = type(self).__name__, self._params(), checked_groups(self, state)
        pytorchs = any("num_params" not in group for group in groups)
        saved = [entry_of(state["state"], i, pytorchs=pytorchs) for i in range(len(order))]
        pairs = zip(self.param_groups, groups, strict=True)
        after = [(own, {**own, **taken(given, name)}) for own, given in pairs]
        kept = [self._kept_after(p, own, new) for own, new in after for p in own["params"]]
        for i, (now, entry) in enumerate(zip(kept, saved, strict=True)):
            shapes = {key: tuple(t.shape) for key, t in now.items() if isinstance(t, Tensor)}
            found = {k: getattr(v, "shape", None) for k, v in (entry or {}).items() if k in shapes}
            found = {k: None if shape is None else tuple(shape) for k, shape in found.items()}
            if pytorchs:  # without what it has not begun, with what follows from the step here
                found = {**shapes, **found}
            if entry is None or "step" not in entry or found != shapes:
                raise CheckpointError(
                    name, f"the state of parameter {i} does not fit", state=found, optimiser=shapes
                )
        return groups, saved, kept  # pyrefly: ignore[bad-return] - checked above

    def _kept_after(self, p: Tensor, before: Group, after: Group) -> dict[str, Any]:
        """What is kept of a parameter under other settings: momentum has a tensor, none has not."""
        names = self.names_of(p, after)
        known = (*names, *self.derived)  # what a program has put beside goes, as PyTorch's does
        own = {k: v for k, v in self._kept(p).tensors().items() if k in known}
        if names == self.names_of(p, before):
            return own
        return {**self._first_state(p, after), **own}
