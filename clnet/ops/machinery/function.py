"""What an op is, how it is applied, and how declaring one exports it. It knows no particular op."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Flag, auto
from functools import cache, lru_cache
from numbers import Complex
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar

import numpy as np
from typing_extensions import dataclass_transform

from ...array import Array
from ...device import Launch, Target
from ...errors import DtypeError
from ...values import mode
from ...values.arguments import checked, is_tensor
from ...values.process import process_lock

if TYPE_CHECKING:
    from ...tensor import Tensor

_MAKING = process_lock()

Arrays = tuple[Array, ...]
Needs = tuple[bool, ...]
"""For each input, whether its gradient is wanted."""
Grads = tuple[Any, ...]
"""Gradients of inputs, or of outputs: tensors, and None where there is none."""
Spec = Array
"""An array whose shape, strides and dtype are asked for, not its elements."""


@dataclass_transform(frozen_default=True)
class Function:
    """One application of an op: its settings as fields; inferred, lowered and differentiated.

    Subclasses are final dataclasses, equal where their fields are. ``backward`` is written in
    public ops, so gradients of gradients exist; a fused op gives ``decompose`` beside it, which is
    used when a graph of the gradient is asked for, and as the fused op's twin in tests.

    Attributes:
        op_name: the op's name in errors and profiles; without one it is the class's.
        saved_inputs: positions of the inputs that ``backward`` reads, whatever is wanted of it.
        saved_outputs: the same of the outputs.
        mutates: positions of inputs that are written in place.
        beside: how many of the last inputs are written beside what is given, so that no gradient
            knows of them; else what an op in place is given is what it overwrites.
        differentiable: positions of outputs through which gradients flow, None for all.
        device: where an op without inputs runs.
        check: what its kernels check of its data, or None.
        reports: whether it is run for what it reports, though it writes nothing.
        elementwise: whether each element of an input is read only to write the outputs' elements at
            its place, and before that: an output may then lie where an input of its layout lay.
        takes_complex: whether it takes complex inputs as they are, because it only moves elements.
        packs_saved: whether hooks may see, and give back otherwise, what is saved for backward.
        repeats: whether equal settings and inputs that lie alike give equal outputs, which are no
            views, and launches, which are kept then: what is so of settings without numbers whose
            sign, or kind, equality does not tell.
        views: whether its outputs are views of its inputs alone, so that it launches nothing.
        varying: numbers that launches are given each time, which decide about nothing else.
        begins: whether it begins, on the host, what goes on beside the device.
        keeps_place: whether what it begins is other work on other ranks, so that compiled functions
            begin it where it stands.
        waits: whether all it does is to wait, on the host, for what another op has begun; compiled
            functions do so as late as they can.
        sixteen_bit: whether its kernels take float16 and bfloat16; else it runs in float32, between
            conversions, unless :meth:`narrow_on` knows better of the device.
    """

    device: Any = None
    check: Any = None
    op_name: str  # without a default, which would become one of the fields of that name
    saved_inputs: ClassVar[tuple[int, ...]] = ()
    saved_outputs: ClassVar[tuple[int, ...]] = ()
    reports: ClassVar[bool] = False
    mutates: ClassVar[tuple[int, ...]] = ()
    beside: ClassVar[int] = 0
    differentiable: ClassVar[tuple[int, ...] | None] = None
    elementwise: ClassVar[bool] = False
    takes_complex: ClassVar[bool] = False
    packs_saved: ClassVar[bool] = True
    repeats: ClassVar[bool] = False
    views: ClassVar[bool] = False
    varying: ClassVar[Any] = ()
    begins: ClassVar[bool] = False
    keeps_place: ClassVar[bool] = False
    waits: ClassVar[bool] = False
    sixteen_bit: ClassVar[bool] = True
    __match_args__: ClassVar[tuple[str, ...]] = ()  # a dataclass's fields

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Make a dataclass of the class, with its first object: a process needs few of a hundred.

        What dataclasses would write for each is here once. That fields are not assigned to is for
        type checkers to see.
        """
        with _MAKING:
            for kind in _up_to_fields(type(self)):
                if "__init__" not in vars(kind):  # else another thread has just made it
                    # First the names by which objects are compared: once it has an __init__ of its
                    # own, another thread may make one.
                    dataclass(eq=False, repr=False, init=False)(kind)
                    dataclass(eq=False, repr=False)(kind)
        type(self).__init__(self, *args, **kwargs)

    def __eq__(self, other: object, /) -> bool:
        return type(other) is type(self) and other._values() == self._values()

    def __hash__(self) -> int:
        return hash(self._values())

    def __repr__(self) -> str:
        pairs = [f"{name}={getattr(self, name)!r}" for name in self.__match_args__]
        return f"{type(self).__name__}({', '.join(pairs)})"

    def _values(self) -> Any:
        return _reader(self.__match_args__)(self)

    @property
    def repeat_key(self) -> Any:
        """What its outputs and launches follow from, beside its class: its fields."""
        return _reader(self.__match_args__)(self)

    @property
    def gradient_key(self) -> Any:
        """What its gradient follows from beside ``repeat_key``: its ``varying`` numbers.

        Numbers that a backward hands on in the cells they came in are no part of it.
        """
        numbers = self.varying
        return repr(numbers) if 0 in numbers else numbers  # zeros have signs

    def with_varying(self, numbers: tuple[Any, ...]) -> Function:
        """The same with other ``varying`` numbers."""
        return replace(self, scalars=numbers)  # pyrefly: ignore[bad-specialization] - it becomes a dataclass

    def narrow_on(self, target: Target, inputs: tuple[Array, ...]) -> bool:
        """Whether a device's kernels take 16-bit inputs, though not every device's do."""
        return False

    @property
    def name(self) -> str:
        """The op's name, in errors and profiles; the class's, if not the public op's."""
        return getattr(self, "op_name", None) or _snake_case(type(self).__name__)

    def infer(self, *inputs: Spec) -> tuple[Array, ...]:
        """Abstract outputs (or views of inputs); checks shapes and dtypes, touches no device.

        An op that says nothing else has one dense output like its first input.
        """
        x = inputs[0]
        return (Array.abstract(x.shape, x.dtype, x.device),)

    def lower(self, target: Target, outputs: Arrays, inputs: Arrays) -> list[Launch]:
        """The launches that compute ``outputs``; pure. Views need none."""
        return []

    def on_host(self, outputs: Arrays, inputs: Arrays) -> Callable[[], None] | None:
        """What the host does at the op's place, of an op that traces alone hold; None: nothing.

        It enqueues what brings the inputs to the host, and is called under the device's lock.
        """
        return None

    @property
    def runner(self) -> Any:
        """What is reserved for each replay of a trace that holds the op, before any lock; None."""
        return None

    def saves(self, needs: tuple[bool, ...]) -> tuple[Sequence[int], Sequence[int]]:
        """Positions of the inputs and of the outputs that ``backward`` reads.

        Args:
            needs: for each input, whether its gradient will be asked for.
        """
        return self.saved_inputs, self.saved_outputs

    def backward(self, saved: Saved, grads: Grads, needs: Needs) -> Grads:
        """Gradients of the inputs, in public ops.

        Args:
            saved: the inputs and outputs that :meth:`saves` named, and shapes of all.
            grads: gradients of the outputs, None where nothing arrived.
            needs: for each input, whether its gradient is wanted.

        Returns:
            For each input its gradient, or None.
        """
        raise NotImplementedError

    def of_complex(self, *inputs: Any) -> Any:
        """What it gives for complex inputs, in public ops on what it gives for real ones.

        Raises:
            DtypeError: if it is an op of real numbers alone.
        """
        raise DtypeError(
            self.name,
            "operands are real",
            dtypes=[x.dtype for x in inputs],
            remedy="Take x.real, x.imag, x.abs() or clnet.view_as_real(x)",
        )

    decompose: ClassVar[Callable[..., Any] | None] = None
    """``decompose(self, *inputs) -> outputs`` of a fused op, in simpler ops."""


class Saved(Protocol):
    """What a node kept for backward: tensors by position, and shape and dtype of every input."""

    @property
    def inputs(self) -> Mapping[int, Any]:
        """Saved inputs by position."""
        ...

    @property
    def outputs(self) -> Mapping[int, Any]:
        """Saved outputs by position."""
        ...

    @property
    def input_specs(self) -> Sequence[tuple[tuple[int, ...], Any]]:
        """Shape and dtype of every input."""
        ...


class Face(Flag):
    """Where an op can be called from."""

    FUNCTION = auto()
    METHOD = auto()
    FUNCTIONAL = auto()
    LINALG = auto()
    SPECIAL = auto()


EVERYWHERE = Face.FUNCTION | Face.METHOD | Face.FUNCTIONAL
PUBLIC_OPS: dict[str, tuple[Callable[..., Any], Face]] = {}
"""Every public op and where it is exported, filled by :func:`op`."""

F = TypeVar("F", bound=Callable[..., Any])


def _up_to_fields(kind: type) -> list[type]:
    """A class that has fields; of one that has none the next above that has, which comes first."""
    above = kind.__mro__[: -len(Function.__mro__)]
    fields = (k for k, each in enumerate(above) if "__annotations__" in vars(each))
    return [*reversed(above[: next(fields, 0) + 1])]


def op(
    face: Face = Face.FUNCTION | Face.METHOD,
    *,
    name: str | None = None,
    seen: Callable[[Any], Any] | None = None,
) -> Callable[[F], F]:
    """Declare a public op; that also exports it, as ``clnet.name``, ``Tensor.name``, ``F.name``.

    What is exported checks its arguments by the signature first; ops that call each other by their
    modules' names do without.

    Args:
        face: where it can be called from.
        name: the public name, if not the function's; ``"linalg.norm"`` for one that its module
            shows as ``norm``.
        seen: what is exported, made of the function that ops call.
    """

    def declare(function: F) -> F:
        public = name or function.__name__
        plain = public.removeprefix("Tensor.")
        shown = function if seen is None else seen(function)
        door = shown if hasattr(shown, "__door__") else checked(shown, plain)
        PUBLIC_OPS[public] = (door, face)
        vars(sys.modules[function.__module__]).setdefault("__all__", []).append(function.__name__)
        return function

    return declare


def comparison(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """An operator that leaves what is no number to Python, for which it equals itself alone."""

    def compare(x: Any, other: Any) -> Any:
        if is_tensor(other) or isinstance(other, Complex | np.bool_ | np.ndarray):
            return function(x, other)
        return NotImplemented

    return compare


def apply(function: Function, *inputs: Tensor) -> Any:
    """Apply an op as its arguments ask: tensors run it and record it on the tape.

    Args:
        function: the op with its settings.
        *inputs: tensors, at least one.

    Returns:
        The output, or a tuple of them.
    """
    outputs = type(inputs[0]).__apply_function__(function, inputs)
    return outputs[0] if len(outputs) == 1 else outputs


def results_of(function: Function, *inputs: Tensor) -> tuple[Any, ...]:
    """What :func:`apply` gives, as a tuple however many outputs the function has."""
    return tuple(type(inputs[0]).__apply_function__(function, inputs))


def host_action(action: Callable[[], None], *, changes: Any = None) -> None:
    """Do something on the host between launches: now, and again at every replay of a trace.

    Steps of counters and refreshed :class:`HostScalar` cells go through here.

    Args:
        action: what is done.
        changes: an object whose attributes it changes, and which users may name in what is traced.
    """
    now = mode.current()
    if now.tracer is not None:
        now.tracer.record_action(action, changes)
    elif not now.abstract:
        action()


def require_floating(op_name: str, *arrays: Spec) -> None:
    """Check that an op's operands are floating.

    Raises:
        DtypeError: if one is not.
    """
    for array in arrays:
        if not array.dtype.is_floating_point:
            remedy = "Convert it with .float()"
            if array.dtype.is_complex:
                remedy = "There is no such op for complex numbers; it may be for their parts"
            raise DtypeError(op_name, "operands are floating", dtype=array.dtype, remedy=remedy)


def require_same_dtype(op_name: str, **arrays: Spec) -> None:
    """Check that named operands share a dtype.

    Raises:
        DtypeError: if they do not.
    """
    if len({a.dtype for a in arrays.values()}) > 1:
        raise DtypeError(
            op_name,
            "operands have one dtype",
            **{n: a.dtype for n, a in arrays.items()},
            remedy="Convert one with .to(dtype)",
        )


@cache
def _reader(names: tuple[str, ...]) -> Callable[[Function], Any]:
    """What reads so many attributes at once: a class of ops has few of them, and a process few."""
    return attrgetter(*names) if names else lambda function: ()


@lru_cache(maxsize=256)
def _snake_case(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
