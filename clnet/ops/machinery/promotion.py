"""What operands are, and the dtype that they have together: PyTorch's promotion."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, reduce
from numbers import Complex, Real
from typing import Any

import numpy as np

from ...device import HostScalar
from ...errors import DtypeError
from ...values.arguments import number, shown
from ...values.dtypes import DType, of_levels, of_scalar, promote
from ...values.varying import VaryingFloat, VaryingInt, as_known, is_varying

__all__ = [
    "NUMBER",
    "Operand",
    "Sort",
    "as_number",
    "look_numbers_up",
    "promoted_dtype",
    "result_type",
    "sort_of",
    "with_sorts",
]

Operand = Any
"""A tensor or a Python number."""
Sort = tuple[DType, int]
"""A dtype, and how much it counts: 0 of a tensor with axes, 1 of one without, 2 of a number."""

NUMBER = 2
_OF_NUMBERS: dict[type, Sort] = {}


def look_numbers_up() -> None:
    """The dtypes of Python's numbers: at first, and when the default has changed."""
    sorts = {kind: (of_scalar(kind()), NUMBER) for kind in (bool, int, float, complex)}
    varying = {VaryingInt: sorts[int], VaryingFloat: sorts[float]}
    _OF_NUMBERS.update({**sorts, HostScalar: sorts[float], **varying})


look_numbers_up()


def result_type(*operands: Operand) -> DType:
    """The dtype of PyTorch's promotion: tensors with axes, then those without, then numbers.

    Args:
        *operands: tensors and Python numbers, at least one tensor.
    """
    return promoted_dtype(tuple([sort_of(x) or (of_scalar(x), NUMBER) for x in operands]))


def sort_of(operand: Operand) -> Sort | None:
    """What a tensor or a number of Python's counts as; None for what is neither."""
    if hasattr(operand, "__apply_function__"):  # sparse ones have no array
        return operand.dtype, 0 if operand.ndim else 1
    return _OF_NUMBERS.get(type(operand))


@lru_cache(maxsize=4096)
def promoted_dtype(sorts: tuple[Sort, ...]) -> DType:
    """The dtype that operands of these sorts have together."""
    levels: list[DType | None] = [None, None, None]
    for dtype, level in sorts:
        before = levels[level]
        levels[level] = dtype if before is None else promote(before, dtype)
    given = [dtype for dtype in levels if dtype is not None]
    if not given:
        raise DtypeError("result_type", "one operand is given")
    return reduce(of_levels, given)


def with_sorts(
    name: str, operands: Sequence[Operand]
) -> tuple[Sequence[Operand], tuple[Sort, ...]]:
    """The operands, NumPy's numbers as Python's and its arrays as tensors, and their sorts.

    Args:
        name: of the op, for the errors.
        operands: tensors, numbers and arrays.

    Raises:
        DtypeError: if one is neither a tensor nor a number, or an array is beside no tensor.
    """
    sorts: Any = tuple([sort_of(x) for x in operands])
    if None in sorts:
        operands = [_converted(name, x, operands) for x in operands]
        sorts = tuple([sort_of(x) for x in operands])
    return operands, sorts


def _converted(name: str, operand: Operand, operands: Sequence[Operand]) -> Operand:
    """An operand as a tensor or a number of Python's."""
    if sort_of(operand) is not None:
        return operand
    host = isinstance(operand, np.ndarray) and operand.dtype.kind in "biufc"
    if host and operand.shape:
        like = next((x for x in operands if hasattr(x, "__apply_function__")), None)
        if like is None:
            raise DtypeError(name, "one operand is a tensor", operands=shown(tuple(operands)))
        return like.new_of(operand)
    if host or isinstance(operand, np.bool_ | Real):
        return as_number(name, operand)
    if isinstance(operand, Complex):
        return complex(operand)
    raise DtypeError(
        name,
        "an operand is a tensor or a number",
        operand=shown(operand),
        remedy="Make a tensor of it with clnet.tensor(...)",
    )


def as_number(name: str, value: Any, *, floating: bool = False) -> Any:
    """A number that kernels take as a scalar.

    Args:
        name: of the op, for the error.
        value: a number of Python's or NumPy's, a cell of one, or one that varies.
        floating: whether kernels compute in floats: then what varies is a cell.

    Raises:
        DtypeError: if it is none.
    """
    kind = type(value)
    if kind is float or kind is HostScalar:
        return value
    if is_varying(value) and floating and value.numbers.active:
        cell = value.numbers.cell(value)
        if cell is not None:
            return cell
    return number(name, "a number", as_known(value))
