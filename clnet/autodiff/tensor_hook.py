"""Functions that users hang somewhere: their handles, and those that gradients pass on their way.

When modules call theirs is the business of ``nn.hook``.
"""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable
from itertools import count
from typing import Any, ClassVar

from ..errors import GradientError

Hook = Callable[..., Any]
Table = OrderedDict[int, Hook]

_KEYS = count()
_HANDLES = weakref.WeakValueDictionary[int, Any]()


def _nothing() -> None:
    """Nobody but the program looks at its own table."""


class HookHandle:
    """A hook in its place; ``remove()`` or the end of a ``with`` block takes it away.

    Args:
        table: the hooks of that place, where this one is entered.
        hook: the function; None: who asks enters it, by :attr:`id`.
        changed: called when the table has changed.
        prepend: whether it is called before those that are there.
        extra_dict: another table, or several, from which the hook's key is taken, too.

    Attributes:
        key: the hook's in the table.
    """

    def __init__(
        self,
        table: Table,
        hook: Hook | None = None,
        changed: Callable[[], None] = _nothing,
        *,
        prepend: bool = False,
        extra_dict: Any = None,
    ) -> None:
        self._table = table
        self._changed = changed
        self._extra = extra_dict if isinstance(extra_dict, list) else [extra_dict]
        self.key = next(_KEYS)
        _HANDLES[self.key] = self
        if hook is None:
            return
        table[self.key] = hook
        if prepend:
            table.move_to_end(self.key, last=False)
        changed()

    @property
    def id(self) -> int:
        """PyTorch's name of ``key``."""
        return self.key

    @property
    def hooks_dict_ref(self) -> Callable[[], Table | None]:
        """What gives the table while it lives, as in PyTorch."""
        return weakref.ref(self._table)

    def remove(self) -> None:
        """Take the hook away; a second time changes nothing."""
        for table in self._extra:
            if table is not None:
                table.pop(self.key, None)
        if self._table.pop(self.key, None) is not None:
            self._changed()

    def follow(self, other: HookHandle) -> None:
        """Stand for the hook of another handle from now on."""
        self._table, self._changed, self.key = other._table, other._changed, other.key

    def __enter__(self) -> HookHandle:
        return self

    def __exit__(self, *exc: object) -> None:
        self.remove()


class GradientHooks:
    """What one tensor's gradient passes before it counts or goes on.

    Attributes:
        incoming: what was added to a leaf's gradient last, while hooks that wait for it are called.
        known: what programs note of the place where a leaf's gradient is added.
        version: changes with the hooks.
        any_awaits: whether there ever was a hook that waits for a leaf's gradient.
    """

    __slots__ = ("_accumulated", "_keeper", "_last", "_table", "incoming", "known", "version")
    any_awaits: ClassVar[bool] = False

    def __init__(self) -> None:
        self.version = 0
        self.incoming: Any = None
        self.known: dict[Any, Any] = {}
        self._table: Table = OrderedDict()
        self._last: set[int] = set()
        self._accumulated: Table = OrderedDict()
        self._keeper: weakref.ref[Any] | None = None

    @property
    def called(self) -> tuple[Hook, ...]:
        """The functions that :meth:`run` calls, in order."""
        return tuple(self._table.values())

    def copied(self) -> GradientHooks:
        """Others that call the same functions; what comes later is each one's own."""
        found = GradientHooks()
        found._table.update(self._table)
        found._last.update(self._last)
        return found

    def added(self, known: Collection[Hook]) -> list[tuple[Hook, bool, Any]]:
        """The functions behind those that were there.

        Args:
            known: as :attr:`called` gave them.

        Returns:
            Each with whether it waits for a leaf's ``grad``, and its handle, if somebody has that.
        """
        before = [*known]
        later: list[tuple[Hook, bool, int]] = []
        for key, hook in self._table.items():
            if hook in before:
                before.remove(hook)
            else:
                later.append((hook, False, key))
        later += [(hook, True, key) for key, hook in self._accumulated.items()]
        return [(hook, waits, _HANDLES.get(key)) for hook, waits, key in later]

    def add(self, hook: Hook) -> HookHandle:
        """Call ``hook(grad)`` after those that are there."""
        handle = HookHandle(self._table, hook, self._changed)
        for key in sorted(self._last.intersection(self._table)):  # as they came
            self._table.move_to_end(key)
        return handle

    def add_last(self, hook: Hook) -> HookHandle:
        """Call ``hook(grad)`` after those that :meth:`add` enters, now or later."""
        handle = HookHandle(self._table, hook, self._changed)
        self._last.add(handle.key)
        return handle

    def add_accumulated(self, hook: Hook) -> HookHandle:
        """Call ``hook(leaf)`` when a walk back has added to the leaf's ``grad``."""
        GradientHooks.any_awaits = True
        return HookHandle(self._accumulated, hook, self._changed)

    @property
    def awaits(self) -> bool:
        """Whether a hook waits for the leaf's gradient."""
        return bool(self._accumulated)

    def accumulated(self, leaf: Any, grad: Any) -> None:
        """Call what waits for that; ``grad`` is what was added."""
        if not self._accumulated:
            return
        self.incoming = grad
        try:
            for hook in list(self._accumulated.values()):
                hook(leaf)
        finally:
            self.incoming = None

    def keep_for(self, tensor: Any) -> None:
        """Leave what the hooks give in the tensor's ``grad``, as long as there is the tensor."""
        self._keeper = weakref.ref(tensor)

    @property
    def kept(self) -> bool:
        """Whether :meth:`keep_for` was called."""
        return self._keeper is not None

    def run(self, grad: Any, shown: set[int]) -> Any:
        """The gradient that the hooks make of ``grad``.

        Args:
            grad: all of the gradient.
            shown: the ``id`` of every storage that a hook may hold from now on is put here.

        Raises:
            GradientError: if a hook returns something else than None or a gradient like its own.
        """
        for hook in list(self._table.values()):
            if not grad.is_sparse:
                shown.add(id(grad.array.storage))
            given = hook(grad)
            if given is not None:
                _check(given, grad)
                grad = given
        if not grad.is_sparse:
            shown.add(id(grad.array.storage))
        tensor = None if self._keeper is None else self._keeper()
        # A tensor that was overwritten since has hooks elsewhere.
        if tensor is not None and hooks_of(tensor) is self:
            tensor.grad = grad if tensor.grad is None else tensor.grad + grad
        return grad

    def _changed(self) -> None:
        self.version += 1


class LeafHooks:
    """The hooks of leaves, as something whose version a trace can watch."""

    def __init__(self, leaves: Iterable[Any]) -> None:
        self._leaves = tuple(leaves)

    @property
    def _clnet_version(self) -> tuple[int, ...]:
        """Changes when a hook of a leaf comes or goes."""
        return tuple([0 if leaf.hooks is None else leaf.hooks.version for leaf in self._leaves])


def hooks_of(tensor: Any) -> GradientHooks | None:
    """The hooks of a tensor's gradient, None if there never were any.

    Those of an inner tensor are its node's: the tensor may go before the gradient comes.
    """
    if tensor.node is None:
        return tensor.hooks
    return tensor.node.hooks.get(tensor.index) if tensor.node.hooks else None


def called_by(tensor: Any) -> tuple[Hook, ...]:
    """The functions that a tensor's gradient passes."""
    found = hooks_of(tensor)
    return () if found is None else found.called


def add_hooks(op_name: str, tensor: Any) -> GradientHooks:
    """The same, made where there are none.

    Raises:
        GradientError: if the tensor requires no gradient.
    """
    if not tensor.requires_grad:
        raise GradientError(
            op_name, "the tensor requires a gradient", shape=tensor.shape, remedy="requires_grad_()"
        )
    found = hooks_of(tensor)
    if found is not None:
        return found
    if tensor.node is None:
        tensor.hooks = GradientHooks()
        return tensor.hooks
    if tensor.node.hooks is None:
        tensor.node.hooks = {}
    return tensor.node.hooks.setdefault(tensor.index, GradientHooks())


def _check(given: Any, grad: Any) -> None:
    if not isinstance(given, type(grad)):
        raise GradientError(
            "register_hook", "a hook returns None or a tensor", type=type(given).__name__
        )
    if (given.shape, given.dtype, given.device) != (grad.shape, grad.dtype, grad.device):
        raise GradientError(
            "register_hook",
            "a hook returns a gradient like the one it was given",
            returned=(given.shape, given.dtype, given.device),
            given=(grad.shape, grad.dtype, grad.device),
        )
