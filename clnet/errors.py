"""The exceptions clnet raises; each holds fields, and its text is made from them.

This file owns the wording ``<op>: <law that failed>; got <values>. <what to do>``; it raises
nothing itself.
"""

from __future__ import annotations

_LONGEST = 200
_MADE_ANEW = ("op", "law", "remedy", "values")


class ClnetError(Exception):
    """Base of every error clnet raises.

    Args:
        op: what was asked for (an op's name, a file, a device).
        law: the law that failed, in lower case.
        remedy: what the user can do, or None.
        **values: what was found, printed as ``name=value`` in the order given.

    Attributes:
        module: path and class of the module whose ``forward`` raised it, or None.
    """

    def __init__(self, op: str, law: str, *, remedy: str | None = None, **values: object) -> None:
        self.op = op
        self.law = law
        self.remedy = remedy
        self.values = values
        self.module: str | None = None
        super().__init__(self._text())

    def __str__(self) -> str:
        text = self._text()  # not Exception's, which an OSError's arguments change
        return text if self.module is None else f"{text} (in {self.module})"

    def __reduce__(self) -> tuple[object, ...]:
        state = {k: v for k, v in vars(self).items() if k not in _MADE_ANEW}
        return (_again, (type(self), self.op, self.law, self.remedy, self.values), state)

    def _text(self) -> str:
        text = f"{self.op}: {self.law}"
        if self.values:
            text += "; got " + ", ".join(f"{k}={v}" for k, v in self.values.items())
        return text if self.remedy is None else f"{text}. {self.remedy}"


def _again(
    kind: type[ClnetError], op: str, law: str, remedy: str | None, values: dict[str, object]
) -> ClnetError:
    """An unpickled error."""
    return kind(op, law, remedy=remedy, **values)


def refusal(error: OSError) -> str:
    """Why the system refused, without the number and the file's name, which stands before it."""
    return error.strerror or str(error)


def shortened(error: BaseException) -> str:
    """Another library's error in a line: damaged files end up in the texts of some."""
    text = " ".join(f"{type(error).__name__}: {error}".split())
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} ..."


class ShapeError(ClnetError, ValueError, RuntimeError):
    """Shapes that do not fit an op; a ``RuntimeError`` as PyTorch's."""


class NoAxisError(ShapeError, TypeError, IndexError):
    """A tensor of one number where an axis is asked for: of type to Python, of index to PyTorch."""


class DtypeError(ClnetError, TypeError, RuntimeError):
    """A dtype that an op or a device does not support; PyTorch raises either, by the op."""


class KindError(DtypeError, ValueError):
    """An argument of a kind that its place does not take; PyTorch raises either, by the op."""


class ArgumentError(ClnetError, ValueError, RuntimeError):
    """An argument whose value is not allowed; PyTorch raises either, by the op."""


class RangeError(ArgumentError, TypeError, OverflowError):
    """A whole number of more bits than a device computes with; PyTorch raises any, by the op."""


class SubscriptError(ArgumentError, DtypeError, IndexError):
    """A key that a tensor is not asked with; an ``IndexError`` as PyTorch's."""


class MemberNameError(ArgumentError, KeyError):
    """A name that a module has already, or cannot have; a ``KeyError`` as PyTorch's."""


class EarlyMemberError(ArgumentError, AttributeError):
    """A member assigned before the module is made; an ``AttributeError`` as PyTorch's."""


class EmptyError(ArgumentError, IndexError):
    """Nothing where one element is asked for; PyTorch raises either, by what is empty."""


class BoundsError(ClnetError, IndexError):
    """An index outside its axis."""


class DataBoundsError(BoundsError, RuntimeError):
    """An index or a class among a tensor's elements that lies outside its axis.

    A kernel found it: the host is told at the next synchronisation (:func:`clnet.debug`).
    """


class DataDomainError(ArgumentError):
    """A tensor's element that an op is not defined for; reported as :class:`DataBoundsError`."""


class UnsupportedError(ClnetError, NotImplementedError):
    """What is defined, but not for what it is asked of; a ``NotImplementedError`` as PyTorch's."""


class LinAlgError(ClnetError, RuntimeError):
    """A matrix that cannot be inverted or factored; reported as :class:`DataBoundsError`."""


class ExchangeError(ClnetError, BufferError):
    """Memory that cannot be given to, or taken from, another library as it was asked for."""


class DeviceError(ClnetError, RuntimeError):
    """A device that is absent, unusable, or not the one the other arguments are on."""


class OutOfDeviceMemory(ClnetError, MemoryError, RuntimeError):
    """The device, or the limit the user set on it, has no room left."""

    def tell_op(self, name: str, inputs: str) -> None:
        """Tell also which op asked for memory, and of what; the innermost one counts."""
        if "asked_by" not in self.values:
            self.values = {"asked_by": name, "inputs": inputs, **self.values}


class BuildError(ClnetError, RuntimeError):
    """Source was refused by the device's compiler, or there is no compiler for it."""


class TemplateError(ClnetError, RuntimeError):
    """A kernel template could not be rendered, or its parameters break a constraint."""


class GradientError(ClnetError, RuntimeError):
    """Backward was asked of something that cannot give it."""


class GradcheckError(ClnetError, RuntimeError):
    """A gradient that differs from finite differences."""


class TraceError(ClnetError, RuntimeError):
    """``clnet.compile`` met something it cannot capture."""


class DataError(ClnetError, ValueError):
    """A data file that is missing, truncated or not of its format."""


class DistributedError(ClnetError, RuntimeError, ValueError):
    """Processes that do not exchange the same, one that has ended, or that were never joined."""


class OnnxError(ClnetError, ValueError):
    """A model of ONNX that is damaged, or asks for what clnet does not compute."""


class WorkerError(ClnetError, RuntimeError):
    """A process that makes batches for a loader died, or took too long."""


class CheckpointError(ClnetError, ValueError, RuntimeError):
    """A checkpoint or a state that does not fit, or a damaged file."""


class MissingFileError(CheckpointError, FileNotFoundError):
    """A checkpoint that is not there; a ``FileNotFoundError`` as PyTorch's."""


class NonFiniteError(ClnetError, ArithmeticError):
    """A number that became infinite or NaN where training cannot go on with it."""
