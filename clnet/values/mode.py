"""The one context variable: how ops run just now. It holds values and decides nothing."""

from __future__ import annotations

from contextvars import ContextVar, Token
from dataclasses import dataclass, field, fields
from threading import local
from typing import Any

from .generator import Generator
from .settings import SETTINGS


@dataclass(frozen=True)
class Mode:
    """How ops run just now.

    Attributes:
        device: the current :class:`~clnet.device.Device`, or None for the default one.
        grad: whether ops on tensors that require a gradient are recorded on the tape.
        inference: whether that was said by ``inference_mode``.
        tracer: what records ops instead of running them, or None.
        float32_precision: ``"highest"``: float32 products are computed in float32.
        winograd: whether convolutions may take Winograd's transforms, which round more coarsely.
        conv_algorithm: how convolutions are computed, by its name; None: as is fastest.
        module_path: dotted path of the module whose ``forward`` is running.
        phase: ``"forward"``, ``"backward"`` or ``"update"``.
        generator: the random generator of ops that are given none.
        draws: what remembers random numbers, or gives them once more, in a checkpoint, or None.
        undrawn: whether numbers drawn over a tensor are only counted, since others will follow.
        parametrized: tensors that parametrizations computed, to be read again, or None.
        abstract: whether ops only infer shapes and dtypes, and new tensors take no memory.
        autocast: what :mod:`clnet.ops.machinery.autocast` casts operands by, or None.
        saved_hooks: what tensors that are saved for backward are packed and unpacked by, or None.
        refused_hooks: what is said to whoever asks for such, where that is not allowed, or None.
        after_backward: what is called when the ``backward`` under way is done, or None.
        walk_waits: what is called before the gradients that the walk back under way has found are
            looked at, or None: a node's are looked at when it gives them.
        walk_ends: what is called when the walk back under way ends, also by an error, or None.
        debug: whether an op that checks its data waits until its kernel has done so.
        anomaly: what looks at all that ops and gradients make, or None.
        batching: the batches whose elements functions see just now, and levels of tensors with
            tangents, the innermost last; or None.
        takes_over: whether classes with ``__torch_function__`` take over what is called with them.
        uncompiled: whether compiled functions run as they were written.
    """

    device: Any = None
    grad: bool = True
    inference: bool = False
    tracer: Any = None
    float32_precision: str = "highest"
    winograd: bool = True
    conv_algorithm: str | None = None
    module_path: str = ""
    phase: str = "forward"
    generator: Generator = field(default_factory=Generator)
    draws: Any = None
    undrawn: bool = False
    parametrized: dict[Any, Any] | None = None
    abstract: bool = False
    autocast: Any = None
    saved_hooks: tuple[Any, Any] | None = None
    refused_hooks: str | None = None
    after_backward: list[Any] | None = None
    walk_waits: list[Any] | None = None
    walk_ends: list[Any] | None = None
    debug: bool = SETTINGS.debug
    anomaly: Any = None
    batching: tuple[Any, ...] | None = None
    takes_over: bool = True
    uncompiled: bool = False

    @property
    def recomputing(self) -> bool:
        """Whether a checkpointed function runs for the second time."""
        return self.draws is not None and self.draws.repeating


_MODE: ContextVar[Mode] = ContextVar("clnet_mode", default=Mode())  # noqa: B039 - frozen

_FIELDS = frozenset(field.name for field in fields(Mode))

current = _MODE.get


def _changed(changes: dict[str, Any]) -> Mode:
    """The current mode with ``changes``: what ``replace`` gives, in a third of its time."""
    if not _FIELDS.issuperset(changes):
        raise TypeError(f"a mode has no {sorted(changes.keys() - _FIELDS)}")
    made = object.__new__(Mode)
    fields = made.__dict__
    fields.update(_MODE.get().__dict__)
    fields.update(changes)
    return made


def change(**changes: Any) -> None:
    """Go on under the current mode with ``changes``, until a block around this one ends."""
    _MODE.set(_changed(changes))


def enter(**changes: Any) -> Token[Mode]:
    """Go on under the current mode with ``changes``, until :func:`leave` gets what this gives."""
    return _MODE.set(_changed(changes))


leave = _MODE.reset


class _Blocks(local):
    """The blocks that a thread is in, by the ``id`` of who began them."""

    def __init__(self) -> None:
        self.tokens: dict[int, list[Token[Mode]]] = {}


_BLOCKS = _Blocks()


def begin(owner: object, **changes: Any) -> None:
    """Go on under the current mode with ``changes``, until :func:`end` is called with ``owner``.

    For objects that programs make once and enter again and again, within each other and in several
    threads at once: ``context = clnet.no_grad()``.
    """
    before = _MODE.get()
    try:
        _BLOCKS.tokens.setdefault(id(owner), []).append(enter(**changes))
    except BaseException:  # Ctrl-C is heard behind calls, and who is not in has nothing to leave
        _MODE.set(before)
        raise


def end(owner: object) -> None:
    """End the last block that ``owner`` began in this thread; nothing, if it began none here.

    A generator that stands in a block may be closed by another thread, whose mode it never changed.
    """
    tokens = _BLOCKS.tokens.get(id(owner))
    if not tokens:
        return
    # First of all, and not in Python's ``suppress``: Ctrl-C may be heard behind every call.
    try:  # noqa: SIM105
        leave(tokens[-1])
    except (RuntimeError, ValueError):  # ended before, or begun in another task of asyncio's
        pass
    tokens.pop()
    if not tokens:
        del _BLOCKS.tokens[id(owner)]


restore = _MODE.set
"""Go on under a mode that :func:`current` gave, in the ``finally`` of what a training calls.

Python hears Ctrl-C at the beginning of each function of its own, thus also of :class:`using`'s
``__exit__``, before that has done anything. This is none of its own.
"""


class using:  # noqa: N801 - called as a function is
    """Run the body under the current mode with ``changes``; restored on every way out.

    A class, since a generator with ``contextmanager`` takes twice as long, and every module called
    enters one.
    """

    __slots__ = ("_changes", "_token")

    def __init__(self, **changes: Any) -> None:
        self._changes = changes

    def __enter__(self) -> Mode:
        made, before = _changed(self._changes), _MODE.get()
        try:
            self._token = _MODE.set(made)
        except BaseException:  # as in ``begin``
            _MODE.set(before)
            raise
        return made

    def __exit__(self, *exc: object) -> None:
        _MODE.reset(self._token)
