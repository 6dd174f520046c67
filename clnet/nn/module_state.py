"""A module's state: written into a dict, read from one, and the hooks around both."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ..autodiff.tensor_hook import HookHandle
from ..autograd import no_grad
from ..errors import CheckpointError
from ..tensor import Tensor, tensor
from ..values import mode
from ..values.changes import MODULES
from ..values.dtypes import from_numpy
from ..values.foreign import host_array
from ..values.programs import NAMES
from ..values.record import NamedTuple
from .hooked_module import HookedModule
from .module_face import ModuleFace
from .parameter import is_lazy

EXTRA = "_extra_state"
_PLAIN = (int, bool, str, float)


class IncompatibleKeys(NamedTuple):
    """The names in which a state and a module differ."""

    missing_keys: list[str]
    unexpected_keys: list[str]

    def __repr__(self) -> str:
        if not (self.missing_keys or self.unexpected_keys):
            return "<All keys matched successfully>"
        return (
            f"_IncompatibleKeys(missing_keys={self.missing_keys}, "
            f"unexpected_keys={self.unexpected_keys})"
        )


class _Loading(OrderedDict[str, Any]):
    """A state on its way into modules: hooks change it; what is written waits until all fits."""

    def __init__(self, state: Mapping[str, Any]) -> None:
        super().__init__(state)
        self.waiting: list[Callable[[], Any]] = []

    def below(self, prefix: str) -> _Loading:
        """What a module below gets: its own entries alone, so its hooks may look at all of them."""
        part = _Loading({k: v for k, v in self.items() if k.startswith(prefix)})
        part.waiting = self.waiting
        return part


def _known(kind: type) -> tuple[type, ...]:
    """The classes that make a module, whose code reads no attribute of a program's."""
    module = [base for base in kind.__mro__ if "_clnet_tells_changes" in vars(base)]
    return (*module, *ModuleState.__mro__)


class ModuleState(ModuleFace, HookedModule):
    """State and its hooks, in PyTorch's protocol: subclasses may say how they are saved and read.

    Attributes:
        _version: of the layout of a class's state, which its ``_load_from_state_dict`` is told.
    """

    _version: ClassVar[int] = 1
    _parameters: OrderedDict[str, Any]
    _buffers: OrderedDict[str, Any]
    _modules: OrderedDict[str, Any]

    def _clnet_tell_of(self, name: str) -> None:
        """Count an attribute that was assigned and is no layer, parameter or buffer.

        Not one that no compiled function can read (:mod:`clnet.values.programs`), such as a loop's
        ``model.global_step``. Going back to an earlier mode makes what was compiled in it valid
        again.
        """
        if NAMES.counts(type(self), name, _known):
            self.__dict__["_clnet_num_changes"] += name != "training"
            told = self.__dict__.setdefault("_clnet_told", {})
            told[name] = told.get(name, 0) + (name != "training")
            MODULES.tell()

    def _clnet_resets(self, name: str, value: Any) -> bool:
        """Whether what is assigned changes nothing: None to a state in a trace, what is there.

        A forward that begins with ``self.memory = None`` leaves a tensor there at the end; one
        that says ``self.window_size = min(height, width)`` leaves the same at each call.
        """
        table = vars(self)
        if name not in table or hasattr(getattr(type(self), name, None), "__set__"):
            return False  # a property has its way
        held = table[name]
        if _is_same(value, held):
            table[name] = value
            return True
        tracer = mode.current().tracer
        if value is not None or tracer is None or type(held) is not Tensor:
            return False
        tracer.rebind(self, table, name, None)
        return True

    def state_dict(
        self,
        destination: Any = None,
        prefix: str = "",
        keep_vars: bool = False,  # noqa: FBT001, FBT002 - PyTorch's
    ) -> OrderedDict[str, Any]:
        """Parameters and persistent buffers by dotted name; the tensors share the module's memory.

        Args:
            destination: a dict to put them in; None: a new one.
            prefix: put before every name.
            keep_vars: the parameters themselves, instead of tensors off the tape.
        """
        state = OrderedDict[str, Any]() if destination is None else destination
        if destination is None:
            vars(state)["_metadata"] = OrderedDict[str, Any]()
        local = {"version": self._version}
        kept = getattr(state, "_metadata", None)
        if kept is not None:
            kept[prefix[:-1]] = local
        for hook in list(self._clnet_hooks.state_before.values()):
            hook(self, prefix, keep_vars)
        self._save_to_state_dict(state, prefix, keep_vars)
        for name, module in self._clnet_below():
            module.state_dict(destination=state, prefix=f"{prefix}{name}.", keep_vars=keep_vars)
        for hook in list(self._clnet_hooks.state_after.values()):
            given = hook(self, state, prefix, local)
            state = state if given is None else given
        return state

    def _save_to_state_dict(
        self,
        destination: Any,
        prefix: str,
        keep_vars: bool,  # noqa: FBT001 - PyTorch's
    ) -> None:
        """Put the module's own parameters, buffers and extra state into a dict."""
        for name, value in self._clnet_own_state().items():
            destination[prefix + name] = value if keep_vars or is_lazy(value) else value.detach()
        if type(self).get_extra_state is not ModuleFace.get_extra_state:
            destination[prefix + EXTRA] = self.get_extra_state()

    def _clnet_own_state(self) -> dict[str, Any]:
        every = (*self._parameters.items(), *self._buffers.items())
        return {n: v for n, v in every if v is not None and n not in self._clnet_transient}

    def load_state_dict(
        self,
        state_dict: Mapping[str, Any],
        strict: bool = True,  # noqa: FBT001, FBT002 - PyTorch's
        assign: bool = False,  # noqa: FBT001, FBT002 - PyTorch's
    ) -> IncompatibleKeys:
        """Overwrite parameters and buffers; nothing is changed unless everything fits.

        Args:
            state_dict: tensors (PyTorch's, too) or NumPy arrays by the names of :meth:`state_dict`.
            strict: whether the names must be the same.
            assign: whether parameters and buffers take the memory, dtype and device of the state's
                tensors, in the place of a copy. They stay the objects they are.

        Returns:
            The names that differ; none when strict.

        Raises:
            CheckpointError: if names or shapes do not fit.
            DtypeError: if clnet has no dtype for an array's.
        """
        if not isinstance(state_dict, Mapping):
            law, kind = "a state is a mapping", type(state_dict).__name__
            raise CheckpointError("load_state_dict", law, state_dict=kind)
        state = _Loading(state_dict)
        found = IncompatibleKeys([], [])
        errors: list[Any] = []
        after: list[Callable[[], Any]] = []
        self._clnet_load_below(
            state, "", getattr(state_dict, "_metadata", {}), assign, found, errors, after
        )
        if not after:  # a hook may take names off the lists, when all is there
            _check_names(found, strict=strict)
        if errors:
            raise _as_error(errors[0])
        with no_grad():
            for write in state.waiting:
                write()
        for hook in after:
            hook()
        _check_names(found, strict=strict)
        if assign:
            for module in self.modules():
                module._clnet_changed()
        return found

    def _clnet_load_below(
        self,
        state: _Loading,
        prefix: str,
        metadata: Mapping[str, Any],
        assign: bool,  # noqa: FBT001
        found: IncompatibleKeys,
        errors: list[Any],
        after: list[Callable[[], Any]],
    ) -> None:
        """What :meth:`load_state_dict` asks of each module, from the top down."""
        local = dict(metadata.get(prefix[:-1], {}))
        if assign:
            local["assign_to_params_buffers"] = True
        self._load_from_state_dict(state, prefix, local, True, *found, errors)
        for name, module in self._clnet_below():
            below = f"{prefix}{name}."
            part = state.below(below)
            module._clnet_load_below(part, below, metadata, assign, found, errors, after)
        hooks = self._clnet_hooks.load_after.values()
        after.extend(lambda hook=hook: hook(self, found) for hook in hooks)

    def _load_from_state_dict(
        self,
        state_dict: Any,
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,  # noqa: FBT001 - PyTorch's
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[Any],
    ) -> None:
        """Take the module's own part of a state; subclasses may rename or drop some before."""
        rest = (local_metadata, strict, missing_keys, unexpected_keys, error_msgs)
        for hook in list(self._clnet_hooks.load_before.values()):
            hook(self, state_dict, prefix, *rest)
        own = self._clnet_own_state()
        assign = local_metadata.get("assign_to_params_buffers", False)
        for name, held in own.items():
            if prefix + name in state_dict:
                self._clnet_take(state_dict, prefix + name, held, assign, error_msgs)
            elif strict:
                missing_keys.append(prefix + name)
        known = set(own)
        if type(self).set_extra_state is not ModuleFace.set_extra_state:
            known.add(EXTRA)
            if prefix + EXTRA in state_dict:
                extra = state_dict[prefix + EXTRA]
                _when_all_fits(state_dict, lambda: self.set_extra_state(extra))
            elif strict:
                missing_keys.append(prefix + EXTRA)
        if strict:
            for key in state_dict:
                first, _, below = key[len(prefix) :].partition(".")
                if key.startswith(prefix) and first not in (self._modules if below else known):
                    unexpected_keys.append(key)

    def _clnet_take(
        self,
        state: Any,
        key: str,
        held: Tensor,
        assign: bool,  # noqa: FBT001
        errors: list[Any],
    ) -> None:
        """One entry of a state, for a parameter or buffer."""
        if is_lazy(state[key]) and is_lazy(held):
            return
        value = _as_loaded(state[key])
        if is_lazy(held):
            held.materialize(tuple(value.shape))
        problem = _misfit(key, held, value)
        if problem is not None:
            errors.append(problem)
            return

        def write() -> None:
            fresh = value if isinstance(value, Tensor) else tensor(value, device=held.device)
            if assign:
                held.array = fresh.array
                return
            held.array.storage.materialize()  # of a module built in clnet.abstract()
            held.detach().copy_(fresh.detach())

        _when_all_fits(state, write)

    # Hooks.

    def register_state_dict_pre_hook(self, hook: Callable[..., Any]) -> HookHandle:
        """Call ``hook(module, prefix, keep_vars)`` before the state is written."""
        return HookHandle(self._clnet_hooks.state_before, hook, _nothing)

    def register_state_dict_post_hook(self, hook: Callable[..., Any]) -> HookHandle:
        """Call ``hook(module, state_dict, prefix, local_metadata)`` when the state is written.

        It changes the dict in place; what it returns does not count.
        """

        def called(*args: Any) -> None:
            hook(*args)

        return HookHandle(self._clnet_hooks.state_after, called, _nothing)

    def _register_state_dict_hook(self, hook: Callable[..., Any]) -> HookHandle:  # for programs
        """As the public one; a dict that the hook returns takes the place of the state."""
        return HookHandle(self._clnet_hooks.state_after, hook, _nothing)

    def register_load_state_dict_pre_hook(self, hook: Callable[..., Any]) -> HookHandle:
        """Call a hook before the module takes its part of a state, which it may change in place.

        It is called ``hook(module, state_dict, prefix, local_metadata, strict, missing_keys,
        unexpected_keys, error_msgs)``.
        """
        return HookHandle(self._clnet_hooks.load_before, hook, _nothing)

    def _register_load_state_dict_pre_hook(  # for programs
        self,
        hook: Callable[..., Any],
        with_module: bool = False,  # noqa: FBT001, FBT002 - PyTorch's
    ) -> HookHandle:
        """As the public one; the module is the first argument ``with_module`` alone."""
        called = hook if with_module else _WithoutModule(hook)
        return HookHandle(self._clnet_hooks.load_before, called, _nothing)

    def register_load_state_dict_post_hook(self, hook: Callable[..., Any]) -> HookHandle:
        """Call ``hook(module, incompatible_keys)`` when a state is loaded.

        Names that it takes off the two lists are no error.
        """
        return HookHandle(self._clnet_hooks.load_after, hook, _nothing)


@dataclass(frozen=True, slots=True)
class _WithoutModule:
    """Calls a hook with all but the module; unlike a function in a function it can be pickled."""

    hook: Callable[..., Any]

    def __call__(self, module: Any, *args: Any) -> Any:
        return self.hook(*args)


def _nothing() -> None:
    """Hooks of the state are no part of what a compiled function computes."""


def _when_all_fits(state: Any, write: Callable[[], Any]) -> None:
    """Later, of a state that is being loaded; now, of a dict that an override made."""
    if isinstance(state, _Loading):
        state.waiting.append(write)
    else:
        with no_grad():
            write()


def _check_names(found: IncompatibleKeys, *, strict: bool) -> None:
    kinds = [("Missing", found.missing_keys), ("Unexpected", found.unexpected_keys)]
    # In PyTorch's words, which programs look for.
    words = [f"{kind} key(s) in state_dict" for kind, keys in kinds if keys]
    if strict and words:
        raise CheckpointError(
            "load_state_dict",
            " and ".join(words),
            missing=found.missing_keys,
            unexpected=found.unexpected_keys,
            remedy="Pass strict=False to load what fits",
        )


def _as_error(found: Any) -> Exception:
    if isinstance(found, Exception):
        return found
    return CheckpointError("load_state_dict", "the state fits the module", error=found)


def _as_loaded(value: Any) -> Tensor | np.ndarray:
    """A tensor as it is, all else as an array."""
    return value if isinstance(value, Tensor) else host_array(value)


def _misfit(name: str, own: Tensor, value: Tensor | np.ndarray) -> CheckpointError | None:
    if tuple(value.shape) != own.shape:
        return CheckpointError(
            "load_state_dict",
            f"size mismatch for {name}",
            module=own.shape,
            state=tuple(value.shape),
        )
    if not isinstance(value, Tensor):
        from_numpy(value.dtype)
    return None


def _is_same(value: Any, held: Any) -> bool:
    """Whether two values are None, numbers or texts, or tuples of these, that nobody tells apart.

    A list that was extended (``self.seen += [x]``) is the one that was there, and changed.
    """
    if type(value) is not type(held):
        return False
    if type(value) is tuple:
        return len(value) == len(held) and all(map(_is_same, value, held))
    return value is None or (type(value) in _PLAIN and repr(value) == repr(held))
