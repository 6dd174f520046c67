"""What a kernel is: a template's def, constraints on its parameters, and how it is launched."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any, NoReturn, Protocol

from ..array import Array
from ..device import Launch
from ..errors import ArgumentError, TemplateError
from ..values.lazy import lazy
from ..values.record import NamedTuple
from .declaration import FROM_THE_QUEUE, Declaration
from .template import declared, render


class _Fields(Protocol):
    """Parameters of a kernel: a NamedTuple, whose fields are the def's arguments."""

    def _asdict(self) -> dict[str, Any]: ...


Params = Mapping[str, Any] | _Fields
_Names = tuple[str, ...]
# Texts of names with spaces between them, and the values of all; see :func:`by_name`.
Named = tuple[_Names, tuple[Any, ...]]
Arguments = Mapping[str, Any] | Named
_Arrange = Callable[..., tuple[Any, ...]]


class Constraint(NamedTuple):
    """A law that a kernel's parameters keep.

    Attributes:
        law: a Python expression over the parameters' names.
        reason: why, in a few words.
    """

    law: str
    reason: str


class Rendered:
    """A kernel with parameters; its text is made when a device first asks for it.

    Attributes:
        name: the ``__kernel``'s name.
        options: build options.
        params: the def's arguments by name.
        alone: whether every launch so far had groups of one work-item.
        arrangements: for each order that arguments were given in, what :meth:`arrangement` made.
        origin: template and parameters, for messages.
    """

    foretold = True
    __slots__ = ("_kernel", "_text", "alone", "arrangements", "name", "options", "params")

    def __init__(self, kernel: Kernel, params: Mapping[str, Any]) -> None:
        self._kernel = kernel
        self._text: str | None = None
        self.arrangements: dict[_Names, _Arrange] = {}
        self.params = params
        self.name = kernel.name
        self.options = kernel.options
        self.alone = True

    def __repr__(self) -> str:
        return f"Rendered({self.origin})"

    @property
    def origin(self) -> str:
        """``template:def`` and the parameters."""
        given = ", ".join(f"{k}={v}" for k, v in self.params.items())
        return f"{self._kernel.template}:{self.name}({given})"

    def launched_in(self, local_size: tuple[int, ...]) -> None:
        """Note the size of a launch's groups, before a device asks for the text."""
        if self.alone and prod(local_size) > 1:
            self.alone = False

    def text(self) -> str:
        """The OpenCL C."""
        if self._text is None:
            self._text = render(self._kernel.template, self.name, self.params)
        return self._text

    def arrangement(self, texts: _Names) -> _Arrange:
        """What takes values of these names to the kernel's order; an array is storage and offset.

        It raises a ``TemplateError`` where a name is missing, or the kernel has none such. Of a
        kernel of ``n``, ``y`` and two ``s_{j}``, which has no ``bias`` with its parameters,
        the names ``y n s_{j} bias`` make this function::

            lambda v0, v1, v2, v3: (
                (v1, v0.storage, v0.offset, v2[0], v2[1])
                if len(v2) == 2 and absent(v3) else misfit(v0, v1, v2, v3)
            )
        """
        declared, names = self._kernel.declared, " ".join(texts).split()
        values = {name: f"v{at}" for at, name in enumerate(names)}
        counts: Counter[str] = Counter()
        order: list[str] = []
        for name, *_ in declared.arguments(self.params):
            if name in FROM_THE_QUEUE:
                continue
            value = values.get(name, "")
            if "{" in name:
                value += f"[{counts[name]}]"
            counts[name] += 1
            order.append(f"{value}.storage, {value}.offset" if declared.names[name] else value)

        def misfit(*given: Any) -> NoReturn:
            raise self._misfit(dict(zip(names, given, strict=True)), counts)

        laws = [f"len({values.get(n)}) == {count}" for n, count in counts.items() if "{" in n]
        laws += [f"absent({value})" for name, value in values.items() if name not in counts]
        if not counts.keys() <= values.keys() <= declared.names.keys():
            return misfit
        listed, given = "".join(f"{each}, " for each in order), ", ".join(values.values())
        code = f"lambda {given}: ({listed}) if {' and '.join(laws) or True} else misfit({given})"
        arrange = eval(code, {"absent": _absent, "misfit": misfit})
        return self.arrangements.setdefault(texts, arrange)

    def _misfit(self, args: Mapping[str, Any], counts: Mapping[str, int]) -> TemplateError:
        known = self._kernel.declared.names
        rounds = {name: count for name, count in counts.items() if "{" in name}
        wrong: dict[str, Any] = {
            "missing": sorted(counts.keys() - args.keys()),
            "unknown": sorted(args.keys() - known.keys()),
            "values": [
                f"{len(value)} {name} for {rounds[name]}"
                for name, value in args.items()
                if name in rounds and len(value) != rounds[name]
            ],
            "not_with_these_parameters": sorted(
                name
                for name, value in args.items()
                if name in known and name not in counts and not _absent(value)
            ),
        }
        return TemplateError(
            f"{self._kernel.template}:{self.name}",
            "arguments do not fit what the template's header declares",
            **{name: what for name, what in wrong.items() if what},
        )


def _absent(value: Any) -> bool:
    return value is None or (type(value) in (list, tuple) and not value)


@dataclass(frozen=True)
class Kernel:
    """One def of a template, launched with parameters.

    The template's header declares parameters and arguments (:mod:`.declaration`); both are given by
    name. Every pointer of the ``__kernel`` is followed by ``const long <pointer>_offset``, in
    elements, so that any array, views included, can be its argument.

    Attributes:
        name: the def's name, and the ``__kernel``'s.
        template: the file beside this one.
        constraints: laws of its parameters, checked when a new combination is first used.
        options: build options.
    """

    name: str
    template: str
    constraints: tuple[Constraint, ...] = ()
    options: tuple[str, ...] = ("-cl-std=CL1.2",)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_bound", {})

    @lazy
    def declared(self) -> Declaration:
        """What the template's header says of the kernel."""
        return declared(self.template, self.name)

    def bind(self, params: Params | Named) -> Rendered:
        """The kernel with these parameters; one object for equal parameters.

        Raises:
            TemplateError: if they are not the def's, or break a constraint.
        """
        key = params if type(params) is tuple else _split(params)
        bound = self._bound.get(key)
        if bound is None:
            # One object for all threads and orders of names, since programs are kept by it.
            bound = self._bound.setdefault(self._key_of(params), Rendered(self, _by_name(params)))
            self._bound[key] = bound
        return bound

    def _key_of(self, params: Params | Named) -> tuple[_Names, tuple[Any, ...]]:
        """Names and values of parameters that keep all laws, in the def's order."""
        given, known = _by_name(params), self.declared.parameters
        if given.keys() != known.keys():
            raise TemplateError(
                f"{self.template}:{self.name}",
                "parameters are not those of its <%def>",
                missing=sorted(known.keys() - given.keys()),
                unknown=sorted(given.keys() - known.keys()),
                given=dict(given),
            )
        broken = self.broken(params)
        if broken is not None:
            raise TemplateError(
                f"{self.template}:{self.name}",
                f"parameters violate {broken.law!r} ({broken.reason})",
                **given,
            )
        return tuple(known), tuple(given[name] for name in known)

    def broken(self, params: Params | Named) -> Constraint | None:
        """The first constraint these parameters break, or None."""
        names = _by_name(params)
        return next((c for c in self.constraints if not eval(c.law, {}, names)), None)

    def launch(
        self,
        params: Params | Named,
        args: Arguments,
        *,
        global_size: tuple[int, ...],
        local_size: tuple[int, ...] | None = None,
        flops: int,
        bytes: int,  # noqa: A002 - beside flops, nothing else is meant
    ) -> Launch:
        """One launch of the kernel.

        Args:
            params: the def's arguments by name.
            args: the ``__kernel``'s arguments by the names that the header gives them; an
                :class:`Array` stands for its pointer and offset, a number or a
                :class:`HostScalar` for itself, :func:`ints` or :func:`longs` for a vector, a
                sequence for as many as a name with braces has. What the kernel has only with other
                parameters may be None or empty.
            global_size: work-items in each dimension, multiples of ``local_size``.
            local_size: work-items of a group; None: one.
            flops: arithmetic operations it does.
            bytes: bytes it must move, each operand counted once.

        Returns:
            The launch.

        Raises:
            TemplateError: if a name is missing or unknown, or parameters break a constraint.
        """
        kernel = self.bind(params)
        names, values = args if type(args) is tuple else _split(args)
        arrange = kernel.arrangements.get(names) or kernel.arrangement(names)
        if local_size is None:
            local_size = (1,) * len(global_size)
        else:
            kernel.launched_in(local_size)
        return Launch(kernel, global_size, local_size, arrange(*values), flops=flops, bytes=bytes)


def by_name(names: str, *values: Any) -> Named:
    """Values by their names: ``by_name("h w", 3, 4)`` is what ``{"h": 3, "w": 4}`` is to a launch.

    It takes a quarter of a dict's time: ops that are not compiled lower launches every time.

    Args:
        names: with spaces between them.
        values: as many.
    """
    return (names,), values


def joined(*parts: Arguments) -> Named:
    """Values by their names, of several parts with different names."""
    names: _Names = ()
    values: tuple[Any, ...] = ()
    for part in parts:
        more = part if type(part) is tuple else _split(part)
        names += more[0]
        values += more[1]
    return names, values


def nbytes_of(arrays: Iterable[Array | None]) -> int:
    """Bytes of a launch's operands, of which some may be None."""
    return sum(array.nbytes for array in arrays if array is not None)


def _split(given: Any) -> Named:
    """Names and values of a mapping or a NamedTuple."""
    fields = getattr(given, "_fields", None)
    return (tuple(given), tuple(given.values())) if fields is None else (fields, tuple(given))


def _by_name(given: Params | Named) -> dict[str, Any]:
    names, values = given if type(given) is tuple else _split(given)
    return dict(zip(" ".join(names).split(), values, strict=True))


def ints(*numbers: int) -> bytes:
    """An argument ``int16``: up to 16 numbers that cost a launch no more than one.

    Raises:
        ArgumentError: if one is 2^31 or more.
    """
    try:
        return struct.pack("16i", *numbers, *(0,) * (16 - len(numbers)))
    except struct.error:
        if len(numbers) > 16:
            raise
        law = "a kernel's sizes are whole numbers below 2^31"
        remedy = "Compute with fewer elements at a time"
        raise ArgumentError("launch", law, sizes=numbers, remedy=remedy) from None


def longs(*numbers: int) -> bytes:
    """An argument ``long16``: up to 16 numbers that cost a launch no more than one."""
    return struct.pack("16q", *numbers, *(0,) * (16 - len(numbers)))
