"""Functions that users hang into modules; this file knows when they are called, nothing else."""

from __future__ import annotations

import warnings
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ..autodiff.tensor_hook import HookHandle, Table
from ..errors import ArgumentError
from ..ops.machinery.boundary import boundary
from ..tensor import Tensor
from ..values.changes import MODULES
from ..values.containers import again

if TYPE_CHECKING:
    from .module import Module


class Hooks:
    """The hooks of one module, by when they are called.

    Programs look at the tables of those around ``forward`` and put others in their place, so the
    tables hold hooks alone.

    Attributes:
        with_kwargs: keys of hooks that get the keyword arguments, too.
        always: keys of hooks that are called after an error, too.
        num_changes: of what hangs in all modules; a module counts its own.
    """

    num_changes = 0

    def __init__(self) -> None:
        self.before: Table = OrderedDict()
        self.after: Table = OrderedDict()
        self.with_kwargs: set[int] = set()
        self.always: set[int] = set()
        self.backward_before: Table = OrderedDict()
        self.backward_after: Table = OrderedDict()
        self.state_before: Table = OrderedDict()
        self.state_after: Table = OrderedDict()
        self.load_before: Table = OrderedDict()
        self.load_after: Table = OrderedDict()

    def __bool__(self) -> bool:
        return bool(self.before or self.after or self.backward_before or self.backward_after)

    @property
    def called(self) -> list[Any]:
        """The functions around ``forward`` and its gradients."""
        tables = (self.before, self.after, self.backward_before, self.backward_after)
        return [hook for table in tables for hook in table.values()]

    def changed(self) -> None:
        """Count a change of what hangs in all modules, which compiled functions look at."""
        self.num_changes += 1
        MODULES.tell()

    def behind(self, others: Hooks) -> Hooks:
        """Those around a call of others, followed by these."""
        both = Hooks()
        for name in ("before", "after", "backward_before", "backward_after"):
            setattr(both, name, OrderedDict({**getattr(others, name), **getattr(self, name)}))
        both.with_kwargs = others.with_kwargs | self.with_kwargs
        both.always = others.always | self.always
        return both

    def run(self, module: Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """``module.forward`` with everything that hangs around it."""
        walk, called = None, 0
        try:
            for key, hook in list(self.before.items()):
                if key in self.with_kwargs:
                    both = hook(module, args, kwargs)
                    args, kwargs = (args, kwargs) if both is None else _both(module, both)
                    continue
                given = hook(module, args)
                if given is not None:
                    args = given if isinstance(given, tuple) else (given,)
            if self.backward_before or self.backward_after:
                walk = _WalkBack(module, self, args)
                args = walk.inputs(args)
            result = module.forward(*args, **kwargs)
            for key, hook in list(self.after.items()):
                called += 1
                named = (kwargs,) if key in self.with_kwargs else ()
                given = hook(module, args, *named, result)
                result = result if given is None else given
        except Exception:
            for key, hook in list(self.after.items())[called:]:
                if key in self.always:
                    named = (kwargs,) if key in self.with_kwargs else ()
                    _call_anyway(lambda h=hook, n=named: h(module, args, *n, None))
            raise
        return result if walk is None else walk.outputs(result)


EVERYWHERE = Hooks()
"""The hooks of all modules, which are called before a module's own."""


def register_module_forward_pre_hook(hook: Callable[..., Any]) -> HookHandle:
    """Call ``hook(module, args)`` before every module's ``forward``, as the module's own hooks are.

    Returns:
        A handle whose ``remove()`` takes it away again.
    """
    return HookHandle(EVERYWHERE.before, hook, EVERYWHERE.changed)


def register_module_forward_hook(
    hook: Callable[..., Any], *, with_kwargs: bool = False, always_call: bool = False
) -> HookHandle:
    """Call ``hook(module, args, result)`` after every module's ``forward``.

    The arguments are those of :meth:`.Module.register_forward_hook`.
    """
    handle = HookHandle(EVERYWHERE.after, hook, EVERYWHERE.changed)
    EVERYWHERE.with_kwargs |= {handle.key} if with_kwargs else set()
    EVERYWHERE.always |= {handle.key} if always_call else set()
    return handle


def register_module_backward_hook(hook: Callable[..., Any]) -> HookHandle:
    """As :func:`register_module_full_backward_hook`, under PyTorch's older name."""
    return register_module_full_backward_hook(hook)


def register_module_full_backward_pre_hook(hook: Callable[..., Any]) -> HookHandle:
    """Call ``hook(module, grad_output)`` when gradients have come to any module's outputs."""
    return HookHandle(EVERYWHERE.backward_before, hook, EVERYWHERE.changed)


def register_module_full_backward_hook(hook: Callable[..., Any]) -> HookHandle:
    """Call ``hook(module, grad_input, grad_output)`` when gradients leave any module."""
    return HookHandle(EVERYWHERE.backward_after, hook, EVERYWHERE.changed)


NAMED: dict[str, Table] = {kind: OrderedDict() for kind in ("_parameters", "_buffers", "_modules")}
"""What is asked where a module gives a name to one of these; tables of modules name the kinds."""


def named(module: Module, kind: str, name: str, value: Any) -> Any:
    """What a module enters under a name, once the hooks of all modules have seen it."""
    for hook in list(NAMED[kind].values()) if kind != "_parameters" or value is not None else ():
        given = hook(module, name, value)
        value = value if given is None else given
    return value


def register_module_parameter_registration_hook(hook: Callable[..., Any]) -> HookHandle:
    """Call ``hook(module, name, parameter)`` where a module gets one; what it returns counts.

    Returns:
        A handle whose ``remove()`` takes it away again.
    """
    return HookHandle(NAMED["_parameters"], hook, MODULES.tell)


def register_module_buffer_registration_hook(hook: Callable[..., Any]) -> HookHandle:
    """Call ``hook(module, name, buffer)`` where a module gets one; what it returns counts."""
    return HookHandle(NAMED["_buffers"], hook, MODULES.tell)


def register_module_module_registration_hook(hook: Callable[..., Any]) -> HookHandle:
    """Call ``hook(module, name, submodule)`` where a module gets one; what it returns counts."""
    return HookHandle(NAMED["_modules"], hook, MODULES.tell)


class _WalkBack:
    """One call of a module with backward hooks: what has arrived at its outputs."""

    def __init__(self, module: Module, hooks: Hooks, args: tuple[Any, ...]) -> None:
        self._module = module
        self._hooks = hooks
        self._places = [i for i, a in enumerate(args) if _flows(a)]
        self._num_args = len(args)
        self._arrived: tuple[Any, ...] | None = None

    def inputs(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """The arguments, behind a boundary that gradients leave the module through."""
        if not self._places:
            return args
        found = list(args)
        for place, alias in zip(
            self._places, boundary([args[i] for i in self._places], self._leave), strict=True
        ):
            found[place] = alias
        return tuple(found)

    def outputs(self, result: Any) -> Any:
        """The result, behind a boundary that gradients enter the module through."""
        several = isinstance(result, tuple | list)
        parts: list[Any] = list(result) if several else [result]
        places = [i for i, part in enumerate(parts) if _flows(part)]
        if not (several or isinstance(result, Tensor)):
            text = "backward hooks see a tensor or a tuple of tensors: a module's output is of type"
            warnings.warn(f"{text} {type(result).__name__}, so they are not called", stacklevel=4)
        if not places:
            return result

        def enter(grads: tuple[Any, ...]) -> tuple[Any, ...]:
            arrived: list[Any] = [None] * len(parts)
            for place, grad in zip(places, grads, strict=True):
                arrived[place] = grad
            came = tuple(arrived)
            for hook in list(self._hooks.backward_before.values()):
                came = self._replaced(hook(self._module, came), came)
            self._arrived = came
            if not self._places:  # nothing leaves again
                self._after_nothing()
            return tuple(came[i] for i in places)

        for place, alias in zip(places, boundary([parts[i] for i in places], enter), strict=True):
            if parts[place].node is not None:
                alias.source = None  # what follows may overwrite it: nobody else has that memory
            parts[place] = alias
        if not several:
            return parts[0]
        return again(result, parts)

    def _leave(self, grads: tuple[Any, ...]) -> tuple[Any, ...]:
        if self._arrived is None:  # what the module has inside, or keeps, flowed past its outputs
            return grads
        leaving: list[Any] = [None] * self._num_args
        for place, grad in zip(self._places, grads, strict=True):
            leaving[place] = grad
        found = self._after(tuple(leaving))
        self._arrived = None
        return tuple(found[i] for i in self._places)

    def _after(self, leaving: tuple[Any, ...]) -> tuple[Any, ...]:
        for hook in list(self._hooks.backward_after.values()):
            leaving = self._replaced(hook(self._module, leaving, self._arrived), leaving)
        return leaving

    def _after_nothing(self) -> None:
        leaving = (None,) * self._num_args
        for hook in list(self._hooks.backward_after.values()):
            given = self._replaced(hook(self._module, leaving, self._arrived), leaving)
            if any(g is not None for g in given):
                law = "a backward hook gives no gradients where no input requires one"
                raise ArgumentError(type(self._module).__name__, law, returned=len(given))

    def _replaced(self, given: Any, before: tuple[Any, ...]) -> tuple[Any, ...]:
        if given is None:
            return before
        found = tuple(given) if isinstance(given, Sequence) else (given,)
        if len(found) != len(before):
            raise ArgumentError(
                type(self._module).__name__,
                "a backward hook returns None or as many gradients as it was given",
                returned=len(found),
                given=len(before),
            )
        return found


def _call_anyway(hook: Callable[[], Any]) -> None:
    """Call a hook behind an error; one of its own is a warning, since the first is what counts."""
    try:
        hook()
    except Exception as error:
        text = f"a forward hook with always_call=True raised behind another error: {error}"
        warnings.warn(text, stacklevel=3)


def _both(module: Module, given: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if not (isinstance(given, tuple) and len(given) == 2):
        raise ArgumentError(
            type(module).__name__,
            "a forward pre-hook with kwargs returns None or (args, kwargs)",
            type=type(given).__name__,
        )
    return given


def _flows(value: Any) -> bool:
    return isinstance(value, Tensor) and value.requires_grad
