"""The base of optimisers: parameter groups, and what PyTorch's optimisers have beside a step.

Those whose update is declared are in :mod:`.declared`; what a user's own step needs is in
:mod:`.written`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, ClassVar, TypeAlias

from ..autodiff.gradient import forget_gradients
from ..compile.numbers import Slot
from ..errors import ArgumentError, DtypeError
from ..tensor import Tensor
from ..values.arguments import checked_class, is_iterable, require_tensors
from .hook import Hooked, around_loading, around_saving
from .hook import register_optimizer_step_post_hook as register_optimizer_step_post_hook
from .hook import register_optimizer_step_pre_hook as register_optimizer_step_pre_hook
from .rate import required as required
from .state_form import flags_of, given_once
from .written import (
    around,
    by_identity,
    by_place,
    load_state,
    slots_of,
    state_of,
    tables_of,
    version_of,
)

Group = dict[str, Any]
ParamsT: TypeAlias = "Iterable[Tensor] | Iterable[Group]"
_params_t = ParamsT
"""PyTorch's old name, which packages still import."""


class Optimizer(Hooked):
    """Updates parameters from their gradients.

    A subclass writes ``step``, as for PyTorch, and keeps what it likes in ``state[p]``. Those of
    clnet declare their update instead (:class:`.DeclaredOptimizer`).

    Args:
        params: parameters, or dicts with ``"params"`` and settings of their own.
        defaults: settings of groups that give none.

    Attributes:
        written: whether its update is a user's ``step``, and not declared.
        takes_complex: whether parameters may be complex: the parts of a number are then updated as
            two parameters.
        param_groups: dicts of ``"params"`` and settings.
        state: for each parameter what is kept of it by name.
        unless: in a compiled step of a :class:`GradScaler`, what the device looks at: a step in
            which it is not 0 changes nothing.
        skips: how many such steps there were, counted on the device; None: there is no scaler.

    Raises:
        ArgumentError: if there are no parameters, or one is given twice.
    """

    written: ClassVar[bool] = True
    takes_complex: ClassVar[bool] = True
    _num_changes = 0
    _stepping = False
    _opt_called = False  # PyTorch's name: whether it has stepped, which schedules look at

    def __init_subclass__(cls, **given: Any) -> None:
        super().__init_subclass__(**given)
        if "step" in vars(cls):
            cls.step = around(vars(cls)["step"])
        if cls.__module__.startswith(f"{__package__}."):
            for name, put in (("state_dict", around_saving), ("load_state_dict", around_loading)):
                if name in vars(cls):  # it adds to its base's, which hooks see whole
                    setattr(cls, name, put(vars(cls)[name]))
            checked_class(cls)

    def __init__(
        self, params: Iterable[Tensor] | Iterable[Group], defaults: Group | None = None
    ) -> None:
        self.defaults: Group = {} if defaults is None else defaults
        self.param_groups: list[Group] = []
        self.state: defaultdict[Tensor, dict[str, Any]] = defaultdict(dict)
        super().__init__()
        self._num_changes = 0
        self.unless: Tensor | None = None
        self.skips: Tensor | None = None
        given = [params] if isinstance(params, Tensor) else list(params)
        if not given:
            raise ArgumentError(type(self).__name__, "it gets one parameter or more")
        groups = given if isinstance(given[0], dict) else [{"params": given}]
        for group in groups:
            self.add_param_group(group)  # pyrefly: ignore[bad-argument-type] - either form of groups

    def __getstate__(self) -> dict[str, Any]:
        return by_place(self)

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        by_identity(self, state)

    def __repr__(self) -> str:
        own_classes = (c for c in type(self).__mro__ if c.__module__.startswith(f"{__package__}."))
        flags = flags_of(next(own_classes).__name__)  # a program's may be an heir
        lines: list[str] = []
        for k, own in enumerate(self.param_groups):
            group = {**flags, **own}
            lines += ["", f"Parameter Group {k}"]
            lines += [f"    {key}: {group[key]}" for key in sorted(group) if key != "params"]
        return "\n".join([f"{type(self).__name__} (" + "\n".join(lines), ")"])

    @property
    def _clnet_version(self) -> tuple[Any, ...]:
        """Changes when what a compiled function recorded of the optimiser is another.

        Of a ``step`` that a user wrote, numbers are part of that.
        """
        return (self._num_changes, *self._hooks, *version_of(self))

    def _clnet_version_but(self, names: frozenset[tuple[int, Any]]) -> tuple[Any, ...]:
        """The version, whatever numbers lie in slots of these names."""
        if not self.written:
            return self._clnet_version
        return (self._num_changes, *self._hooks, *version_of(self, names))

    def _clnet_tables(self) -> list[Any]:
        """The dicts and lists in which numbers lie that a compiled function may use."""
        return tables_of(self)

    def _clnet_slots(self) -> Iterator[list[Slot]]:
        """Where numbers lie that vary from call to call, those in one list together."""
        yield from slots_of(self)

    def add_param_group(self, group: Group) -> None:
        """More parameters, with settings of their own.

        Raises:
            ArgumentError: if it has one that is here already, or a setting is no good.
            DtypeError: if one is complex, and this optimiser takes none.
        """
        params, names = _without_names(group["params"])
        complete = {**self.defaults, **group, **({"param_names": names} if names else {})}
        self._join({**complete, "params": self._checked_params(params)})

    def _checked_params(self, params: list[Any]) -> list[Tensor]:
        """A group's parameters, each once.

        Raises:
            ArgumentError, DtypeError: as :meth:`add_param_group`.
        """
        name = type(self).__name__
        require_tensors(name, **{f"params[{k}]": p for k, p in enumerate(params)})
        params = given_once(name, params)
        here = {id(p) for p in self._params()}
        if any(id(p) in here for p in params):
            raise ArgumentError(name, "a parameter is given once")
        on_tape = self.defaults.get("differentiable", False)
        if not on_tape and any(not p.is_leaf for p in params):
            raise ArgumentError(
                name,
                "a parameter is a leaf",
                shapes=[p.shape for p in params if not p.is_leaf],
                remedy="Give what the tensor was made of, or its detach()",
            )
        if not self.takes_complex and any(p.dtype.is_complex for p in params):
            hint = "Keep view_as_real(p) as the parameter"
            raise DtypeError(name, "parameters are real", remedy=hint)
        return params

    def _join(self, group: Group) -> None:
        """Take a group whose settings and parameters are complete."""
        self.param_groups.append(group)
        self._num_changes += 1

    def zero_grad(self, set_to_none: bool = True) -> None:  # noqa: FBT001, FBT002 - PyTorch's
        """Forget the gradients of all parameters, or overwrite them with 0."""
        for group in self.param_groups:
            forget_gradients(group["params"], set_to_none=set_to_none)

    @around
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update every parameter that has a gradient, in place; a subclass writes it.

        Args:
            closure: called first, if there is one, to compute the gradients.

        Returns:
            What the closure gave: the loss.
        """
        raise NotImplementedError(f"{type(self).__name__}.step")

    @around_saving
    def state_dict(self) -> dict[str, Any]:
        """Settings of the groups, and what is kept of the parameters, by their position."""
        return state_of(self)

    @around_loading
    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from what :meth:`state_dict` gave; nothing is changed unless everything fits.

        Args:
            state: such a state, or that of PyTorch's optimiser of the same kind.

        Raises:
            CheckpointError: if groups or parameters do not fit.
        """
        load_state(self, state)
        self._num_changes += 1

    def _complete_loaded(self) -> None:
        """Let a user's ``__setstate__`` have its say of what was loaded, as in PyTorch.

        It gives older states settings they lack, and state tensors a dtype of their own.
        """
        if type(self).__setstate__ is not Optimizer.__setstate__:
            self.__setstate__({"state": self.state, "param_groups": self.param_groups})

    def _params(self) -> list[Tensor]:
        return [p for _, p in self._grouped()]

    def _grouped(self) -> list[tuple[Group, Tensor]]:
        """The parameters in order, each with its group."""
        return [(group, p) for group in self.param_groups for p in group["params"]]


def _without_names(given: Any) -> tuple[list[Any], list[str]]:
    """Parameters, and the names of those that come with one, as from ``named_parameters()``."""
    several = is_iterable(given) and not isinstance(given, Tensor)
    every = list(given) if several else [given]
    named = [p for p in every if isinstance(p, tuple)]
    return [p[1] if isinstance(p, tuple) else p for p in every], [p[0] for p in named]
