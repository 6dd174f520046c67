"""What a kernel is: a template's def, constraints on its parameters, and how it is launched."""

from __future__ import annotations

# NamedTuple spells its public method with an underscore.
# pyright: reportPrivateUsage=false
import struct
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from ..array import Array
from ..device import Launch
from ..errors import TemplateError
from .template import render


class Params(Protocol):
    """Parameters of a kernel: a NamedTuple, whose fields are the def's arguments."""

    def _asdict(self) -> dict[str, Any]: ...


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
        origin: template and parameters, for messages.
    """

    __slots__ = ("_kernel", "_text", "name", "options", "params")

    def __init__(self, kernel: Kernel, params: Params) -> None:
        self._kernel = kernel
        self._text: str | None = None
        self.params = params
        self.name = kernel.name
        self.options = kernel.options

    def __repr__(self) -> str:
        return f"Rendered({self.origin})"

    @property
    def origin(self) -> str:
        """``template:def`` and the parameters."""
        given = ", ".join(f"{k}={v}" for k, v in self.params._asdict().items())
        return f"{self._kernel.template}:{self.name}({given})"

    def text(self) -> str:
        """The OpenCL C."""
        if self._text is None:
            self._text = render(self._kernel.template, self.name, self.params._asdict())
        return self._text


@dataclass(frozen=True)
class Kernel:
    """One def of a template, launched with parameters.

    Every pointer of the ``__kernel`` is followed by ``const long <pointer>_offset``, in elements,
    so that any array, views included, can be its argument.

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

    def bind(self, params: Params) -> Rendered:
        """The kernel with these parameters; one object for equal parameters.

        Raises:
            TemplateError: if they break a constraint.
        """
        rendered = self._rendered.get(params)  # pyright: ignore[reportAttributeAccessIssue] - set in __post_init__
        if rendered is None:
            broken = self.broken(params)
            if broken is not None:
                raise TemplateError(
                    f"{self.template}:{self.name}",
                    f"parameters violate {broken.law!r} ({broken.reason})",
                    **params._asdict(),
                )
            # One object for all threads, since programs are kept by it.
            rendered = self._rendered.setdefault(params, Rendered(self, params))  # pyright: ignore[reportAttributeAccessIssue] - set in __post_init__
        return rendered

    def broken(self, params: Params) -> Constraint | None:
        """The first constraint these parameters break, or None."""
        names = params._asdict()
        return next((c for c in self.constraints if not eval(c.law, {}, names)), None)

    def launch(
        self,
        params: Params,
        args: tuple[Any, ...],
        *,
        global_size: tuple[int, ...],
        local_size: tuple[int, ...],
        flops: int,
        bytes: int,  # noqa: A002 - beside flops, nothing else is meant
    ) -> Launch:
        """One launch of the kernel.

        Args:
            params: the def's arguments.
            args: the ``__kernel``'s arguments; an :class:`Array` stands for its pointer and offset,
                a number or a :class:`HostScalar` for itself, :func:`ints` or :func:`longs` for a
                vector.
            global_size: work-items in each dimension, multiples of ``local_size``.
            local_size: work-items of a group.
            flops: arithmetic operations it does.
            bytes: bytes it must move, each operand counted once.

        Returns:
            The launch.
        """
        flat: list[Any] = []
        for arg in args:
            if type(arg) is Array:
                flat.append(arg.storage)
                flat.append(arg.offset)
            else:
                flat.append(arg)
        return Launch(
            self.bind(params), global_size, local_size, tuple(flat), flops=flops, bytes=bytes
        )


def ints(*numbers: int) -> bytes:
    """An argument ``int16``: up to 16 numbers that cost a launch no more than one."""
    return struct.pack("16i", *numbers, *(0,) * (16 - len(numbers)))


def longs(*numbers: int) -> bytes:
    """An argument ``long16``: up to 16 numbers that cost a launch no more than one."""
    return struct.pack("16q", *numbers, *(0,) * (16 - len(numbers)))
