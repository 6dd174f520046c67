"""Checks of a tensor's elements: made on the device, told at the next synchronisation.

Indices are checked by the kernels that read them; what other ops are not defined for is looked for
by a kernel of its own. Nothing is changed, and nobody waits (:mod:`clnet.device.fault`), but for
matrices that cannot be factored: programs try, and add something to the diagonal if that fails.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar

from ..array import Array
from ..device import Check, Launch, Target
from ..errors import ClnetError, DataBoundsError, DataDomainError, DtypeError, LinAlgError
from ..kernels.reduce import Bad
from ..kernels.reduce import check as launch_check
from ..values import mode
from ..values.dtypes import Kind
from .machinery.function import Arrays, Function, apply
from .shape import contiguous

if TYPE_CHECKING:
    from ..tensor import Tensor


class CheckElements(Function):
    """Reports an element that is bad. It has no output.

    Attributes:
        bad: which elements are.
        low, high: what they are compared with.
        check: what it is reported as.
    """

    bad: Bad
    low: float
    high: float
    check: Check | None = None

    reports: ClassVar[bool] = True
    sixteen_bit = False

    def infer(self, x: Array, *gate: Array) -> tuple[Array, ...]:
        """No outputs."""
        return ()

    def lower(self, target: Target, outputs: Arrays, inputs: Arrays) -> list[Launch]:
        x, *gate = inputs
        return launch_check(
            target, x, gate[0] if gate else None, self.bad, self.low, self.high, report=self.check
        )


@cache
def of_index(
    name: str, argument: str = "index", *, wrap: bool = False, size: str = "size"
) -> Check:
    """The check of an index.

    Args:
        name: the public op.
        argument: its argument.
        wrap: negative indices count from the end.
        size: what the number of elements is called that there are to be picked.
    """
    return Check(name, argument, f"it lies in [{f'-{size}' if wrap else 0}, {size})", size)


@cache
def of_value(
    name: str, argument: str, law: str, error: type[ClnetError] = DataDomainError
) -> Check:
    """The check of something else than an index."""
    return Check(name, argument, law, error=error)


def require_elements(
    x: Tensor,
    check: Check,
    bad: Bad,
    low: float = 0,
    high: float = 0,
    *,
    gate: Tensor | None = None,
) -> None:
    """Have a tensor's elements checked.

    Args:
        x: any shape.
        check: what a bad one is reported as.
        bad: which elements are.
        low: what they are compared with.
        high: the same.
        gate: one element that is NaN if one of ``x`` is bad; others are looked at only then.
    """
    operands: list[Any] = [contiguous(x.detach())]
    if gate is not None:
        operands.append(gate.detach())
    now = mode.current()
    with mode.using(debug=now.debug or (check.error is LinAlgError and now.tracer is None)):
        apply(CheckElements(bad, low, high, check), *operands)


def require_classes(
    name: str, x: Tensor, count: int, *, argument: str = "target", size: str = "classes"
) -> None:
    """Have whole numbers checked to lie in ``[0, count)``.

    Raises:
        DtypeError: if they are of another dtype.
    """
    if x.dtype.kind is not Kind.INTEGER:
        raise DtypeError(name, f"{argument} holds classes, whole numbers", dtype=x.dtype)
    check = of_value(name, argument, f"it lies in [0, {size}), here {count}", DataBoundsError)
    require_elements(x, check, Bad.OUTSIDE, 0, count - 1)
