"""Pointwise ops on complex numbers: expressions of real and imaginary parts, read as views.

A kernel sees float arrays of twice the stride, so there is none of its own; the gradient is that of
the parts, PyTorch's convention (``d loss / d real + i d loss / d imag``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from ...array import Array
from ...device import HostScalar, Launch, Target
from ...errors import DtypeError
from ...expr import Const, Expr, Input, Pair, Scalar, Unpaired, inputs_of, substitute, vjp
from ...kernels.pointwise import pointwise as launch_pointwise
from ...values.dtypes import DType, bool_
from ...values.record import NamedTuple
from ...values.shapes import broadcast_shapes
from .function import Arrays, Function, Grads, Needs, Saved, apply
from .laid import laid_alike


class Paired(Function):
    """Outputs of the broadcast shape whose parts are expressions of the inputs' parts.

    Attributes:
        op_name: the public op it belongs to.
        exprs: those of all outputs' parts: two for a complex one, else one.
        wide: for each input, whether it is complex, and so two of the expressions' inputs.
        scalars: values of ``Scalar(i)``, read at each enqueue.
        compute: the real dtype of the arithmetic.
        dtypes: of the outputs.
    """

    op_name: str
    exprs: tuple[Expr, ...]
    wide: tuple[bool, ...]
    scalars: tuple[float | HostScalar, ...]
    compute: DType
    dtypes: tuple[DType, ...]
    takes_complex = True
    repeats = True

    @property
    def repeat_key(self) -> Any:
        """The name decides about no kernel."""
        return self.exprs, self.wide, self.compute, self.dtypes, len(self.scalars)

    @property
    def varying(self) -> tuple[float | HostScalar, ...]:
        """Its scalars."""
        return self.scalars

    def infer(self, *inputs: Array) -> tuple[Array, ...]:
        """Outputs of the broadcast shape, which lie as the inputs do."""
        shape = broadcast_shapes(self.op_name, *[x.shape for x in inputs])
        return laid_alike(shape, self.dtypes, inputs)

    def lower(self, target: Target, outputs: Arrays, inputs: Arrays) -> list[Launch]:
        written, read = ([p for x in xs for p in x.parts] for xs in (outputs, inputs))
        return launch_pointwise(
            target, written, read, self.exprs, scalars=self.scalars, compute=self.compute
        )

    def saves(self, needs: tuple[bool, ...]) -> tuple[Sequence[int], Sequence[int]]:
        """Only the operands that occur in the wanted gradients."""
        arrived = (True,) * len(self.dtypes)
        return _backward(self.exprs, self.wide, _widths(self.dtypes), needs, arrived).saved, ()

    def backward(self, saved: Saved, grads: Grads, needs: Needs) -> Grads:
        """All wanted gradients in one launch, then sums over the broadcast axes."""
        arrived = tuple(g is not None for g in grads)
        wanted = _backward(self.exprs, self.wide, _widths(self.dtypes), needs, arrived)
        operands = [saved.inputs[i] for i in wanted.saved] + [g for g in grads if g is not None]
        function = Paired(
            f"{self.op_name}_backward",
            wanted.exprs,
            tuple(x.dtype.is_complex for x in operands),
            self.scalars,
            self.compute,
            tuple(saved.input_specs[i][1] for i in wanted.positions),
        )
        results = apply(function, *operands)
        results = results if isinstance(results, tuple) else (results,)
        out: list[Any] = [None] * len(needs)
        for position, result in zip(wanted.positions, results, strict=True):
            out[position] = result.sum_to_size(saved.input_specs[position][0])
        return tuple(out)


class _Backward(NamedTuple):
    """Gradient expressions over parts of the saved inputs, then of the gradients that arrived."""

    positions: tuple[int, ...]
    exprs: tuple[Expr, ...]
    saved: tuple[int, ...]


def _widths(dtypes: tuple[DType, ...]) -> tuple[int, ...]:
    return tuple(2 if dtype.is_complex else 1 for dtype in dtypes)


@lru_cache(maxsize=1024)
def _backward(
    exprs: tuple[Expr, ...],
    wide: tuple[bool, ...],
    widths: tuple[int, ...],
    needs: tuple[bool, ...],
    arrived: tuple[bool, ...],
) -> _Backward:
    known = {i.index: i for i in inputs_of(*exprs)}
    groups: list[list[Input]] = []
    for complex_ in wide:
        start = sum(map(len, groups))
        places = range(start, start + 1 + complex_)
        groups.append([known.get(i, Input(i)) for i in places])
    count = sum(map(len, groups))
    grads = [Input(count + k) for k in range(len(exprs))]
    here = [a for a, width in zip(arrived, widths, strict=True) for _ in range(width)]
    cotangents = [g if a else Const(0) for g, a in zip(grads, here, strict=True)]
    positions = tuple(i for i, need in enumerate(needs) if need and not groups[i][0].boolean)
    wrt = [symbol for i in positions for symbol in groups[i]]
    derived = vjp(exprs, cotangents, wrt=wrt)
    used = set(inputs_of(*derived))
    saved = tuple(i for i, group in enumerate(groups) if used.intersection(group))
    order = [symbol for i in saved for symbol in groups[i]]
    order += [g for g, a in zip(grads, here, strict=True) if a]
    renumbered: dict[Expr, Expr] = {old: Input(new, old.boolean) for new, old in enumerate(order)}
    return _Backward(positions, tuple(substitute(e, renumbered) for e in derived), saved)


def paired(
    name: str,
    body: Callable[..., Any],
    kinds: tuple[str, ...],
    operands: Sequence[Any],
    options: Sequence[float | HostScalar],
    dtypes: tuple[DType, DType],
) -> Paired:
    """The function that a body is for operands of which one is complex.

    Args:
        name: the op's.
        body: as for :func:`clnet.ops.machinery.pointwise.evaluate`.
        kinds: of the operands: ``"array"``, ``"boolean"``, ``"complex"``, ``"number"``, ``"complex
            number"``.
        operands: tensors and numbers.
        options: further run-time scalars.
        dtypes: to compute in, and to return.

    Raises:
        DtypeError: if the op has no complex form.
    """
    compute, returned = dtypes
    try:
        exprs = _symbolic(body, kinds, len(options))
    except Unpaired as error:
        raise DtypeError(
            name,
            "operands are real",
            dtype=returned
            if returned.is_complex
            else next(x.dtype for x in operands if hasattr(x, "dtype")),
            remedy="Take x.real, x.imag, x.abs() or clnet.view_as_real(x)",
        ) from error
    if len(exprs) == 1:
        returned = bool_ if exprs[0].boolean else returned.real
    scalars: list[float | HostScalar] = []
    for operand, kind in zip(operands, kinds, strict=True):
        if kind == "complex number":
            scalars += [complex(operand).real, complex(operand).imag]
        elif kind == "number":
            scalars.append(operand)
    wide = tuple(kind == "complex" for kind in kinds if "number" not in kind)
    return Paired(name, exprs, wide, (*scalars, *options), compute, (returned,))


@lru_cache(maxsize=1024)
def _symbolic(body: Callable[..., Any], kinds: tuple[str, ...], options: int) -> tuple[Expr, ...]:
    """The parts of the op's expression."""
    arrays = scalars = 0
    symbols: list[Any] = []
    for kind in kinds:
        if kind == "complex":
            symbols.append(Pair(Input(arrays), Input(arrays + 1)))
        elif kind == "complex number":
            symbols.append(Pair(Scalar(scalars), Scalar(scalars + 1)))
        else:
            symbols.append(
                Scalar(scalars) if kind == "number" else Input(arrays, kind == "boolean")
            )
        width = 2 if kind.startswith("complex") else 1
        arrays, scalars = (
            (arrays, scalars + width) if "number" in kind else (arrays + width, scalars)
        )
    found = body(*symbols, *(Scalar(scalars + i) for i in range(options)))
    return (found.re, found.im) if isinstance(found, Pair) else (found,)
