"""Functions that users hang around an optimiser's steps, and around its state's ways out and in.

Those around a ``step`` are called by ``written.around``, which also records users' steps.
"""

# ruff: noqa: FBT001, FBT002 - PyTorch's signatures

from __future__ import annotations

import functools
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any

from .state_form import own_state, placed_state

Hook = Callable[..., Any]


class StepHandle:
    """Takes a hook away again.

    Args:
        hooks: where it is.
        hook: what is called.
        prepend: whether it is called before those that are there.
    """

    _made = 0

    def __init__(self, hooks: OrderedDict[int, Hook], hook: Hook, *, prepend: bool = False) -> None:
        self._hooks = hooks
        StepHandle._made += 1
        self.id = StepHandle._made
        hooks[self.id] = hook
        if prepend:
            hooks.move_to_end(self.id, last=False)

    def remove(self) -> None:
        """Call the hook no more."""
        self._hooks.pop(self.id, None)


EVERY_BEFORE: OrderedDict[int, Hook] = OrderedDict()
"""What is called before the steps of all optimisers, by number."""
EVERY_AFTER: OrderedDict[int, Hook] = OrderedDict()
"""What is called after them."""


def register_optimizer_step_pre_hook(hook: Hook) -> StepHandle:
    """Call ``hook(optimizer, args, kwargs)`` before each step of every optimiser, before its own.

    As :meth:`Optimizer.register_step_pre_hook`.
    """
    return StepHandle(EVERY_BEFORE, hook)


def register_optimizer_step_post_hook(hook: Hook) -> StepHandle:
    """Call ``hook(optimizer, args, kwargs)`` after each step of every optimiser, after its own.

    As :meth:`Optimizer.register_step_post_hook`.
    """
    return StepHandle(EVERY_AFTER, hook)


class StateHooks:
    """What is called before and after an optimiser's state is taken, and loaded."""

    def __init__(self) -> None:
        self.before_saving: OrderedDict[int, Hook] = OrderedDict()
        self.after_saving: OrderedDict[int, Hook] = OrderedDict()
        self.before_loading: OrderedDict[int, Hook] = OrderedDict()
        self.after_loading: OrderedDict[int, Hook] = OrderedDict()
        self.running = False


def around_saving(state_dict: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A class's ``state_dict`` with the hooks around it, once: also where it calls its base's."""

    @functools.wraps(state_dict)
    def whole(self: Any) -> Any:
        hooks = vars(self).get("_state_hooks")  # a wrapper may leave super().__init__() out
        if hooks is None or hooks.running:
            return state_dict(self)
        for hook in tuple(hooks.before_saving.values()):
            hook(self)
        hooks.running = True
        try:
            state = placed_state(self, state_dict(self))
        finally:
            hooks.running = False
        for hook in tuple(hooks.after_saving.values()):
            changed = hook(self, state)
            state = state if changed is None else changed
        return state

    return whole


def around_loading(load_state_dict: Callable[[Any, Any], None]) -> Callable[[Any, Any], None]:
    """A class's ``load_state_dict`` with the hooks around it, as :func:`around_saving`."""

    @functools.wraps(load_state_dict)
    def whole(self: Any, state: Mapping[str, Any]) -> None:
        hooks = vars(self).get("_state_hooks")
        if hooks is None or hooks.running:
            return load_state_dict(self, state)
        if hooks.before_loading and isinstance(state, Mapping):
            state = dict(state)  # a hook may change it, and the caller's stays
        for hook in tuple(hooks.before_loading.values()):
            changed = hook(self, state)
            state = state if changed is None else changed
        hooks.running = True
        try:
            load_state_dict(self, own_state(self, state))
        finally:
            hooks.running = False
        self._complete_loaded()
        for hook in tuple(hooks.after_loading.values()):
            hook(self)
        return None

    return whole


class Hooked:
    """What has such hooks: the base of optimisers."""

    def __init__(self) -> None:
        self._before: OrderedDict[int, Hook] = OrderedDict()
        self._after: OrderedDict[int, Hook] = OrderedDict()
        self._state_hooks = StateHooks()

    @property
    def _hooks(self) -> tuple[int, ...]:
        """Which hooks stand around a step, on which a trace of it depends."""
        own = vars(self)  # a wrapper may leave super().__init__() out
        return (*EVERY_BEFORE, *own.get("_before", ()), 0, *own.get("_after", ()), *EVERY_AFTER)

    def register_step_pre_hook(self, hook: Hook) -> StepHandle:
        """Call ``hook(optimizer, args, kwargs)`` before each step; it may return other arguments.

        The optimiser stands first in ``args``, also in what is returned: ``(args, kwargs)``.

        Returns:
            A handle whose ``remove()`` takes it away again.
        """
        return StepHandle(self._before, hook)

    def register_step_post_hook(self, hook: Hook) -> StepHandle:
        """Call ``hook(optimizer, args, kwargs)`` after each step.

        Returns:
            A handle whose ``remove()`` takes it away again.
        """
        return StepHandle(self._after, hook)

    def register_state_dict_pre_hook(self, hook: Hook, prepend: bool = False) -> StepHandle:
        """Call ``hook(optimizer)`` before each :meth:`state_dict`.

        Args:
            hook: the function.
            prepend: whether it is called before the hooks that are there.

        Returns:
            A handle whose ``remove()`` takes it away again.
        """
        return StepHandle(self._state_hooks.before_saving, hook, prepend=prepend)

    def register_state_dict_post_hook(self, hook: Hook, prepend: bool = False) -> StepHandle:
        """Call ``hook(optimizer, state)`` after each :meth:`state_dict`, which gave ``state``.

        It may return another state; arguments as :meth:`register_state_dict_pre_hook`'s.
        """
        return StepHandle(self._state_hooks.after_saving, hook, prepend=prepend)

    def register_load_state_dict_pre_hook(self, hook: Hook, prepend: bool = False) -> StepHandle:
        """Call ``hook(optimizer, state)`` before each :meth:`load_state_dict`.

        It may return another state; arguments as :meth:`register_state_dict_pre_hook`'s.
        """
        return StepHandle(self._state_hooks.before_loading, hook, prepend=prepend)

    def register_load_state_dict_post_hook(self, hook: Hook, prepend: bool = False) -> StepHandle:
        """Call ``hook(optimizer)`` after each :meth:`load_state_dict` that succeeded.

        Arguments as :meth:`register_state_dict_pre_hook`'s.
        """
        return StepHandle(self._state_hooks.after_loading, hook, prepend=prepend)
