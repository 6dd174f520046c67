"""Rules of pointwise functions, views and copies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ..complex_parts import AsComplex, AsReal, Part, view_as_complex
from ..join import Cat
from ..machinery.crossing import Crossed
from ..machinery.function import results_of
from ..machinery.paired import Paired
from ..machinery.pointwise import Pointwise
from ..padding import AroundPad, ConstantPad
from ..placed import Placed
from ..random import DrawnFrom, Dropout
from ..rearrange import Diagonal, DiagonalBackward, Flip, PutDiagonal, Roll, Windows
from ..rotary import Rotary
from ..shape import (
    Copy,
    Expand,
    Permute,
    PutSlice,
    Reshape,
    Slice,
    SliceBackward,
    contiguous,
    expand,
    permute,
    reshape,
)
from ..special_functions import Special
from .rule import Flags, all_with_batch, lined_up, moved, rule


@rule(Pointwise, Paired)
def _pointwise(function: Any, flags: Flags, inputs: Sequence[Any], size: int) -> Sequence[Any]:
    del size
    return results_of(function, *lined_up(flags, inputs))


@rule(Rotary)
def _rotary(function: Any, flags: Flags, inputs: Sequence[Any], size: int) -> Sequence[Any] | None:
    if not flags[0]:
        inputs = (expand(inputs[0], (size, *inputs[0].shape)), *inputs[1:])
    return results_of(function, *lined_up((True, *flags[1:]), inputs))


@rule(Special, Copy, Dropout, DrawnFrom, Crossed, Part)
def _elements(function: Any, flags: Flags, inputs: Sequence[Any], size: int) -> Sequence[Any]:
    given = all_with_batch(flags, inputs, size)
    dense = given if isinstance(function, Copy | Part) else map(contiguous, given)
    return results_of(function, *dense)


@rule(AsReal)
def _as_real(function: Any, flags: Flags, inputs: Sequence[Any], size: int) -> Sequence[Any]:
    del flags, size
    return results_of(function, *inputs)


@rule(AsComplex)
def _as_complex(function: Any, flags: Flags, inputs: Sequence[Any], size: int) -> Sequence[Any]:
    del function, flags, size
    return [view_as_complex(contiguous(inputs[0]))]


@rule(Reshape)
def _reshape(function: Any, flags: Flags, inputs: Sequence[Any], size: int) -> Sequence[Any]:
    del flags
    return [reshape(inputs[0], (size, *function.shape))]


@rule(Permute)
def _permute(function: Any, flags: Flags, inputs: Sequence[Any], size: int) -> Sequence[Any]:
    del flags, size
    return [permute(inputs[0], (0, *moved(function.dims)))]


@rule(Expand)
def _expand(function: Any, flags: Flags, inputs: Sequence[Any], size: int) -> Sequence[Any]:
    (x,), shape = inputs, function.shape
    del flags
    between = (1,) * (len(shape) + 1 - x.ndim)
    x = reshape(x, (size, *between, *x.shape[1:])) if between else x
    return [expand(x, (size, *shape))]


@rule(Slice, SliceBackward)
def _slice(function: Any, flags: Flags, inputs: Sequence[Any], size: int) -> Sequence[Any]:
    del flags
    own = type(function)((0, *function.starts), (1, *function.steps), (size, *function.shape))
    return results_of(own, *inputs)


@rule(PutSlice)
def _put_slice(function: Any, flags: Flags, inputs: Sequence[Any], size: int) -> Sequence[Any]:
    own = PutSlice((0, *function.starts), (1, *function.steps))
    return results_of(own, *all_with_batch(flags, inputs, size))


@rule(Placed)
def _placed(function: Any, flags: Flags, inputs: Sequence[Any], size: int) -> Sequence[Any]:
    own = Placed(tuple((0, *s) for s in function.starts), (size, *function.shape))
    return results_of(own, *all_with_batch(flags, inputs, size))


@rule(ConstantPad, AroundPad)
def _pad(function: Any, flags: Flags, inputs: Sequence[Any], size: int) -> Sequence[Any]:
    del flags
    own = replace(function, starts=(0, *function.starts), shape=(size, *function.shape))
    return results_of(own, *(map(contiguous, inputs) if isinstance(own, AroundPad) else inputs))


@rule(Cat)
def _cat(function: Any, flags: Flags, inputs: Sequence[Any], size: int) -> Sequence[Any]:
    return results_of(Cat(function.dim + 1), *all_with_batch(flags, inputs, size))


@rule(Flip)
def _flip(function: Any, flags: Flags, inputs: Sequence[Any], size: int) -> Sequence[Any]:
    del flags, size
    return results_of(Flip(moved(function.dims)), *inputs)


@rule(Roll)
def _roll(function: Any, flags: Flags, inputs: Sequence[Any], size: int) -> Sequence[Any]:
    del flags, size
    return results_of(Roll((0, *function.steps)), *inputs)


@rule(Diagonal, PutDiagonal)
def _diagonal(function: Any, flags: Flags, inputs: Sequence[Any], size: int) -> Sequence[Any]:
    first, second = moved(function.dims)
    own = type(function)(function.offset, (first, second))
    return results_of(own, *all_with_batch(flags, inputs, size))


@rule(DiagonalBackward)
def _diagonal_back(function: Any, flags: Flags, inputs: Sequence[Any], size: int) -> Sequence[Any]:
    del flags
    first, second = moved(function.dims)
    own = DiagonalBackward(function.offset, (first, second), (size, *function.shape))
    return results_of(own, *inputs)


@rule(Windows)
def _windows(function: Any, flags: Flags, inputs: Sequence[Any], size: int) -> Sequence[Any]:
    del flags, size
    return results_of(replace(function, axis=function.axis + 1), *inputs)
