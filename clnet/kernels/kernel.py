"""What a kernel is: a template's def, constraints on its parameters, and how it is launched."""

from __future__ import annotations

# NamedTuple spells its public method with an underscore.
# pyright: reportPrivateUsage=false
import struct
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from operator import itemgetter
from typing import Any, NamedTuple, Protocol

from ..array import Array
from ..device import Launch
from ..errors import TemplateError
from ..values.lazy import lazy
from .declaration import FROM_THE_QUEUE, Declaration
from .template import declared, render


class _Fields(Protocol):
    """Parameters of a kernel: a NamedTuple, whose fields are the def's arguments."""

    def _asdict(self) -> dict[str, Any]: ...


Params = Mapping[str, Any] | _Fields
_Pick = Callable[[Mapping[str, Any]], tuple[Any, ...]]


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
        origin: template and parameters, for messages.
    """

    __slots__ = ("_kernel", "_order", "_text", "name", "options", "params")

    def __init__(self, kernel: Kernel, params: Mapping[str, Any]) -> None:
        self._kernel = kernel
        self._text: str | None = None
        self._order: _Order | None = None
        self.params = params
        self.name = kernel.name
        self.options = kernel.options

    def __repr__(self) -> str:
        return f"Rendered({self.origin})"

    @property
    def origin(self) -> str:
        """``template:def`` and the parameters."""
        given = ", ".join(f"{k}={v}" for k, v in self.params.items())
        return f"{self._kernel.template}:{self.name}({given})"

    def text(self) -> str:
        """The OpenCL C."""
        if self._text is None:
            self._text = render(self._kernel.template, self.name, self.params)
        return self._text

    def ordered(self, args: Mapping[str, Any]) -> tuple[list[Any], Sequence[int]]:
        """Arguments given by name, in the kernel's order, and which are pointers, the last first.

        Raises:
            TemplateError: if one is missing, or the kernel has none of that name.
        """
        order = self._order
        if order is None:
            order = self._order = _order_of(self._kernel.declared, self.params)
        try:
            values = list(order.pick(args))
        except (KeyError, IndexError):
            raise self._misfit(args, order) from None
        if len(args) != order.count and not order.bears(args):
            raise self._misfit(args, order)
        for name, count in order.counts:
            if len(args[name]) != count:
                raise self._misfit(args, order)
        return values, order.pointers

    def _misfit(self, args: Mapping[str, Any], order: _Order) -> TemplateError:
        known, absent = self._kernel.declared.names, order.present - set(args)
        odd = {n: v for n, v in args.items() if n in known and not order.takes(n, v)}
        wrong: dict[str, Any] = {
            "missing": sorted(absent),
            "unknown": sorted(set(args) - set(known)),
            "values": [
                f"{len(v)} {n} for {order.rounds[n]}" for n, v in odd.items() if n in order.rounds
            ],
            "not_with_these_parameters": sorted(set(odd) - set(order.present)),
        }
        return TemplateError(
            f"{self._kernel.template}:{self.name}",
            "arguments do not fit what the template's header declares",
            **{name: what for name, what in wrong.items() if what},
        )


class _Order(NamedTuple):
    """How a kernel with parameters wants its arguments.

    Attributes:
        pick: gives their values in order, from those given by name.
        present: the names of those that it has.
        count: how many names those are.
        rounds: how many values a name with braces stands for.
        counts: the same, as pairs.
        names: what may be given, if only as None or an empty sequence.
        others: of arguments that were given together once, those that it has not.
        pointers: where in the order pointers are, the last first.
    """

    pick: _Pick
    present: frozenset[str]
    count: int
    rounds: dict[str, int]
    counts: tuple[tuple[str, int], ...]
    names: Mapping[str, bool]
    others: dict[tuple[str, ...], tuple[str, ...]]
    pointers: tuple[int, ...]

    def bears(self, args: Mapping[str, Any]) -> bool:
        """Whether what is given beside the kernel's arguments is none at all."""
        given = tuple(args)
        others = self.others.get(given)
        if others is None:
            others = tuple(name for name in given if name not in self.present)
            if not self.names.keys() >= set(others):
                return False
            self.others[given] = others
        for name in others:  # noqa: SIM110 - a generator costs more
            if not _absent(args[name]):
                return False
        return True

    def takes(self, name: str, value: Any) -> bool:
        """Whether a value may be given by this name."""
        if name in self.rounds:
            return len(value) == self.rounds[name]
        return name in self.present or (name in self.names and _absent(value))


def _order_of(declaration: Declaration, params: Mapping[str, Any]) -> _Order:
    found = [a for a in declaration.arguments(params) if a.name not in FROM_THE_QUEUE]
    names = [a.name for a in found]
    rounds = {name: count for name, count in Counter(names).items() if "{" in name}
    pick = _picker(names)
    if rounds:
        seen: Counter[str] = Counter()
        places: list[tuple[str, int | None]] = []
        for name in names:
            places.append((name, seen[name] if name in rounds else None))
            seen[name] += 1

        def pick(args: Mapping[str, Any], /) -> tuple[Any, ...]:
            return tuple([args[n] if at is None else args[n][at] for n, at in places])

    present, counts = frozenset(names), tuple(rounds.items())
    pointers = tuple(at for at, name in enumerate(names) if declaration.names[name])[::-1]
    return _Order(pick, present, len(present), rounds, counts, declaration.names, {}, pointers)


def _picker(names: Iterable[str]) -> _Pick:
    """What takes values by their names out of a mapping, as a tuple."""
    match tuple(names):
        case ():
            return lambda given: ()
        case (name,):
            return lambda given: (given[name],)
        case several:
            return itemgetter(*several)


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
        object.__setattr__(self, "_rendered", {})

    @lazy
    def declared(self) -> Declaration:
        """What the template's header says of the kernel."""
        return declared(self.template, self.name)

    @lazy
    def _values_of(self) -> _Pick:
        """Parameters given by name, in the def's order."""
        return _picker(self.declared.parameters)

    def bind(self, params: Params) -> Rendered:
        """The kernel with these parameters; one object for equal parameters.

        Raises:
            TemplateError: if they are not the def's, or break a constraint.
        """
        key: Any = params
        if type(params) is dict:
            try:
                key = self._values_of(params)
            except KeyError:
                key = ()
            if len(key) != len(params):
                raise self._other_parameters(params)
        rendered = self._rendered.get(key)  # pyright: ignore[reportAttributeAccessIssue] - set in __post_init__
        if rendered is None:
            names = _by_name(params)
            broken = self.broken(params)
            if broken is not None:
                raise TemplateError(
                    f"{self.template}:{self.name}",
                    f"parameters violate {broken.law!r} ({broken.reason})",
                    **names,
                )
            # One object for all threads, since programs are kept by it.
            rendered = self._rendered.setdefault(key, Rendered(self, names))  # pyright: ignore[reportAttributeAccessIssue] - set in __post_init__
        return rendered

    def _other_parameters(self, params: Mapping[str, Any]) -> TemplateError:
        known = set(self.declared.parameters)
        return TemplateError(
            f"{self.template}:{self.name}",
            "parameters are not those of its <%def>",
            missing=sorted(known - set(params)),
            unknown=sorted(set(params) - known),
            given=dict(params),
        )

    def broken(self, params: Params) -> Constraint | None:
        """The first constraint these parameters break, or None."""
        names = _by_name(params)
        return next((c for c in self.constraints if not eval(c.law, {}, names)), None)

    def launch(
        self,
        params: Params,
        args: Mapping[str, Any] | tuple[Any, ...],
        *,
        global_size: tuple[int, ...],
        local_size: tuple[int, ...],
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
            local_size: work-items of a group.
            flops: arithmetic operations it does.
            bytes: bytes it must move, each operand counted once.

        Returns:
            The launch.

        Raises:
            TemplateError: if a name is missing or unknown, or parameters break a constraint.
        """
        kernel = self.bind(params)
        pointers: Sequence[int]
        flat: list[Any]
        if type(args) is dict:
            flat, pointers = kernel.ordered(args)
        else:
            flat = list(args)
            pointers = [at for at in range(len(flat) - 1, -1, -1) if type(flat[at]) is Array]
        for at in pointers:  # the last first
            array = flat[at]
            if type(array) is Array:
                flat[at] = array.storage
                flat.insert(at + 1, array.offset)
        return Launch(kernel, global_size, local_size, tuple(flat), flops=flops, bytes=bytes)


def _by_name(params: Params) -> Mapping[str, Any]:
    return params if isinstance(params, Mapping) else params._asdict()


def named(names: str, *values: Any) -> dict[str, Any]:
    """Values by name: ``named("h w", 3, 4)`` is ``{"h": 3, "w": 4}``.

    Args:
        names: with spaces between them.
        values: as many.
    """
    return _maker(names)(*values)


@cache
def _maker(names: str) -> Callable[..., dict[str, Any]]:
    # A quarter of the time of dict(zip(...)): ops that are not compiled lower launches every time.
    arguments = names.split()
    items = ", ".join(f"{name!r}: {name}" for name in arguments)
    return eval(f"lambda {', '.join(arguments)}: {{{items}}}")


def ints(*numbers: int) -> bytes:
    """An argument ``int16``: up to 16 numbers that cost a launch no more than one."""
    return struct.pack("16i", *numbers, *(0,) * (16 - len(numbers)))


def longs(*numbers: int) -> bytes:
    """An argument ``long16``: up to 16 numbers that cost a launch no more than one."""
    return struct.pack("16q", *numbers, *(0,) * (16 - len(numbers)))
