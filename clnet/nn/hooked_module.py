"""Hooks of one module: how they are hung in, and PyTorch's names of where they hang.

When they are called is in :mod:`.module_hook`; those around a module's state are its state's.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..autodiff.tensor_hook import HookHandle
from .module_hook import EVERYWHERE


class HookedModule:
    """Methods of :class:`Module` by which hooks are hung around its calls."""

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...

    def register_forward_pre_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False
    ) -> HookHandle:
        """Call ``hook(module, args)`` before every ``forward``; what it returns replaces the args.

        Args:
            hook: the function.
            prepend: call it before those that are there.
            with_kwargs: call ``hook(module, args, kwargs)``, which returns None or both.

        Returns:
            A handle whose ``remove()`` takes it away again.
        """
        handle = self._clnet_hang(self._clnet_hooks.before, hook, prepend)
        self._clnet_hooks.with_kwargs |= {handle.key} if with_kwargs else set()
        return handle

    def register_forward_hook(
        self,
        hook: Callable[..., Any],
        *,
        prepend: bool = False,
        with_kwargs: bool = False,
        always_call: bool = False,
    ) -> HookHandle:
        """Call ``hook(module, args, result)`` after ``forward``; what it returns counts.

        Args:
            hook: the function.
            prepend: call it before those that are there.
            with_kwargs: call ``hook(module, args, kwargs, result)``.
            always_call: call it also where ``forward`` raised an error, with None for the result.

        Returns:
            A handle whose ``remove()`` takes it away again.
        """
        handle = self._clnet_hang(self._clnet_hooks.after, hook, prepend)
        self._clnet_hooks.with_kwargs |= {handle.key} if with_kwargs else set()
        self._clnet_hooks.always |= {handle.key} if always_call else set()
        return handle

    def register_full_backward_pre_hook(
        self,
        hook: Callable[..., Any],
        prepend: bool = False,  # noqa: FBT001, FBT002 - PyTorch's
    ) -> HookHandle:
        """Call ``hook(module, grad_output)`` when gradients have come to the module's outputs.

        ``grad_output`` holds one for each output; a tuple that is returned replaces it.

        Returns:
            A handle whose ``remove()`` takes it away again.
        """
        return self._clnet_hang(self._clnet_hooks.backward_before, hook, prepend)

    def register_full_backward_hook(
        self,
        hook: Callable[..., Any],
        prepend: bool = False,  # noqa: FBT001, FBT002 - PyTorch's
    ) -> HookHandle:
        """Call ``hook(module, grad_input, grad_output)`` when gradients leave through the inputs.

        ``grad_input`` holds one for each positional argument, None for those without; a tuple that
        is returned replaces it.

        Returns:
            A handle whose ``remove()`` takes it away again.
        """
        return self._clnet_hang(self._clnet_hooks.backward_after, hook, prepend)

    def register_backward_hook(self, hook: Callable[..., Any]) -> HookHandle:
        """As :meth:`register_full_backward_hook`, under PyTorch's older name."""
        return self.register_full_backward_hook(hook)

    @property
    def _forward_hooks(self) -> OrderedDict[int, Any]:
        """PyTorch's name of the hooks after ``forward``, which programs count, clear and replace.

        A table that is assigned takes the place of what was there.
        """
        return self._clnet_hooks.after

    @_forward_hooks.setter
    def _forward_hooks(self, table: OrderedDict[int, Any]) -> None:
        self._clnet_hooks.after = table

    @property
    def _forward_pre_hooks(self) -> OrderedDict[int, Any]:
        """Those before it."""
        return self._clnet_hooks.before

    @_forward_pre_hooks.setter
    def _forward_pre_hooks(self, table: OrderedDict[int, Any]) -> None:
        self._clnet_hooks.before = table

    @property
    def _forward_hooks_with_kwargs(self) -> dict[int, bool]:
        """Which of those after ``forward`` get the keyword arguments."""
        return dict.fromkeys(self._clnet_hooks.with_kwargs & self._clnet_hooks.after.keys(), True)

    @property
    def _forward_pre_hooks_with_kwargs(self) -> dict[int, bool]:
        """Which of those before it do."""
        return dict.fromkeys(self._clnet_hooks.with_kwargs & self._clnet_hooks.before.keys(), True)

    @property
    def _forward_hooks_always_called(self) -> dict[int, bool]:
        """Which of those after it are called after an error, too."""
        return dict.fromkeys(self._clnet_hooks.always & self._clnet_hooks.after.keys(), True)

    @property
    def _backward_hooks(self) -> OrderedDict[int, Any]:
        """Those of gradients."""
        return self._clnet_hooks.backward_after

    @_backward_hooks.setter
    def _backward_hooks(self, table: OrderedDict[int, Any]) -> None:
        self._clnet_hooks.backward_after = table

    def _clnet_hang(self, table: OrderedDict[int, Any], hook: Any, prepend: bool) -> HookHandle:  # noqa: FBT001
        return HookHandle(table, hook, self._clnet_changed, prepend=prepend)

    @property
    def _clnet_is_hooked(self) -> bool:
        """Whether hooks of its own, or of all modules, hang around its calls now."""
        return bool(self._clnet_hooks or EVERYWHERE)
