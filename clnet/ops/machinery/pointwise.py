"""Pointwise ops from functions of symbols: kernel and gradient come from one expression."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from ...array import Array
from ...device import HostScalar, Launch, Target
from ...errors import ArgumentError, DtypeError, RangeError, ShapeError
from ...expr import Expr, Input, Scalar
from ...kernels.moving import fill
from ...kernels.pointwise import pointwise as launch_pointwise
from ...values.arguments import number, require_tensors, shown
from ...values.dtypes import (
    DType,
    Kind,
    bool_,
    default_float,
    float32,
    from_name,
)
from ...values.record import NamedTuple
from ...values.shapes import broadcast_shapes
from ...values.varying import as_known, is_varying
from .function import EVERYWHERE, Arrays, Face, Function, Grads, Needs, Saved, apply, op
from .gradients import gradients_of
from .laid import laid_alike
from .paired import Paired, paired
from .promotion import (
    NUMBER,
    Operand,
    Sort,
    as_number,
    look_numbers_up,
    promoted_dtype,
    sort_of,
    with_sorts,
)
from .whole_number import ROUNDED, UNWRAPPED, require_range, rounded_to, wrapped

if TYPE_CHECKING:
    from ...tensor import Tensor

OF_NUMBERS: dict[str, Callable[[Any], Any]] = {}
"""Ops that PyTorch calls with numbers alone, too; each with what makes a tensor of the first."""


class Pointwise(Function):
    """Outputs that are expressions of the inputs' elements, all of the broadcast shape.

    Attributes:
        op_name: the public op it belongs to.
        exprs: one expression for each output, over ``Input(i)`` and ``Scalar(i)``.
        scalars: values of ``Scalar(i)``, read at each enqueue.
        compute: the dtype of the arithmetic.
        dtypes: of the outputs.
        gradient: the gradient in terms of the result, or None: the derived one.
    """

    op_name: str
    exprs: tuple[Expr, ...]
    scalars: tuple[float | HostScalar, ...]
    compute: DType
    dtypes: tuple[DType, ...]
    gradient: Callable[..., Any] | None = None
    elementwise = True
    repeats = True

    @property
    def repeat_key(self) -> Any:
        """The name and the gradient decide about no kernel."""
        return self.exprs, self.compute, self.dtypes, len(self.scalars)

    @property
    def varying(self) -> tuple[float | HostScalar, ...]:
        """Its scalars."""
        return self.scalars

    @property
    def gradient_key(self) -> Any:
        """Its scalars, and the gradient, if it is not the derived one."""
        if not self.scalars:
            return self.gradient
        return self.gradient, super().gradient_key

    def infer(self, *inputs: Array) -> tuple[Array, ...]:
        """Abstract outputs of the broadcast shape, which lie as the inputs do."""
        shape = broadcast_shapes(self.op_name, *[x.shape for x in inputs])
        return laid_alike(shape, self.dtypes, inputs)

    def lower(self, target: Target, outputs: Arrays, inputs: Arrays) -> list[Launch]:
        return launch_pointwise(
            target, outputs, inputs, self.exprs, scalars=self.scalars, compute=self.compute
        )

    def saves(self, needs: tuple[bool, ...]) -> tuple[Sequence[int], Sequence[int]]:
        """Only the operands that occur in the wanted gradients."""
        wanted = gradients_of(self.exprs, self.gradient, needs, (True,) * len(self.exprs))
        return wanted.saved_inputs, wanted.saved_outputs

    def backward(self, saved: Saved, grads: Grads, needs: Needs) -> Grads:
        """All wanted gradients in one launch, then sums over the broadcast axes.

        Where each is what arrived, as a sum's are, there is none.
        """
        arrived = tuple(g is not None for g in grads)
        wanted = gradients_of(self.exprs, self.gradient, needs, arrived)
        operands = [saved.inputs[i] for i in wanted.saved_inputs]
        operands += [saved.outputs[i] for i in wanted.saved_outputs]
        operands += [g for g in grads if g is not None]
        dtypes = tuple(saved.input_specs[i][1] for i in wanted.positions)
        kept = len(wanted.saved_inputs) + len(wanted.saved_outputs)
        passed = [operands[e.index] for e in wanted.exprs if type(e) is Input and e.index >= kept]
        if [g.dtype for g in passed] == [*dtypes]:
            results = passed
        else:
            function = Pointwise(
                f"{self.op_name}_backward", wanted.exprs, self.scalars, self.compute, dtypes
            )
            results = apply(function, *operands)
            results = results if isinstance(results, tuple) else (results,)
        out: list[Any] = [None] * len(needs)
        for position, result in zip(wanted.positions, results, strict=True):
            out[position] = result.sum_to_size(saved.input_specs[position][0])
        return tuple(out)


class Overwrite(Function):
    """A pointwise op whose result overwrites the first input; the others are its operands."""

    function: Pointwise | Paired
    mutates = (0,)
    takes_complex = True
    repeats = True

    @property
    def repeat_key(self) -> Any:
        return type(self.function), self.function.repeat_key

    @property
    def varying(self) -> tuple[float | HostScalar, ...]:
        """Those of the op whose result it is."""
        return self.function.scalars

    def with_varying(self, numbers: tuple[Any, ...]) -> Overwrite:
        return Overwrite(replace(self.function, scalars=numbers))

    @property
    def name(self) -> str:
        return self.function.op_name

    def infer(self, out: Array, *inputs: Array) -> tuple[Array, ...]:
        """No outputs; ``out`` has the result's shape and can hold its kind of numbers."""
        shape = broadcast_shapes(self.name, *(x.shape for x in inputs))
        if shape != out.shape or out.repeated:
            raise ShapeError(
                self.name,
                "what is overwritten has the result's shape and no repeated element",
                out=out.shape,
                strides=out.strides,
                result=shape,
            )
        if self.function.dtypes[0].kind > out.dtype.kind:
            raise DtypeError(
                self.name,
                "the result does not fit the dtype of what is overwritten",
                out=out.dtype,
                result=self.function.dtypes[0],
                remedy="Use the op that returns a new tensor",
            )
        return ()

    def lower(self, target: Target, outputs: Arrays, inputs: Arrays) -> list[Launch]:
        """One launch; another for imaginary parts where the result is real."""
        out, *operands = inputs
        if out.dtype.is_complex and not self.function.dtypes[0].is_complex:
            rest = fill(target, out.part(1), 0)
            return self.function.lower(target, (out.part(0),), tuple(operands)) + rest
        return self.function.lower(target, (out,), tuple(operands))


class Result:
    """What dtype a pointwise op gives for its promoted operands."""

    @staticmethod
    def promoted(dtype: DType) -> tuple[DType, DType]:
        """Computed and returned in the promoted dtype (add, maximum ...)."""
        return from_name(dtype.compute), dtype

    @staticmethod
    def floating(dtype: DType) -> tuple[DType, DType]:
        """Integers become the default floating dtype first (exp, div ...)."""
        floating = dtype if dtype.differentiable else default_float()
        return from_name(floating.compute), floating

    @staticmethod
    def boolean(dtype: DType) -> tuple[DType, DType]:
        """Compared in the promoted dtype, returns bool."""
        return from_name(dtype.compute), bool_


@overload
def pointwise(body: Callable[..., Any]) -> Callable[..., Tensor]: ...
@overload
def pointwise(
    body: None = None,
    *,
    face: Face = ...,
    result: Callable[[DType], tuple[DType, DType]] = ...,
    gradient: Callable[..., Any] | None = ...,
    inplace: bool = ...,
    laws: Mapping[str, Callable[..., bool]] = ...,
) -> Callable[[Callable[..., Any]], Callable[..., Tensor]]: ...
def pointwise(
    body: Callable[..., Any] | None = None,
    *,
    face: Face = EVERYWHERE,
    result: Callable[[DType], tuple[DType, DType]] = Result.promoted,
    gradient: Callable[..., Any] | None = None,
    inplace: bool = False,
    laws: Mapping[str, Callable[..., bool]] = MappingProxyType({}),
) -> Any:
    """Declare a pointwise op from a function of symbols.

    The function is called with expressions, never with numbers, and returns an expression. Its
    positional parameters are operands (tensors, or numbers beside at least one tensor); those with
    a default are run-time scalars, so that another value compiles nothing anew. The public op also
    takes ``out``, a tensor to overwrite with the result.

    Args:
        body: the function; its docstring becomes the op's.
        face: where the op is exported.
        result: the dtypes to compute in and to return for a promoted operand dtype.
        gradient: ``gradient(g, y)``, for an op of one operand whose derivative is simpler in terms
            of its result; only the result is saved then. Or ``gradient(g, y, *operands,
            *options)``, a tuple where there are several operands: for an op whose derived gradient
            would not be PyTorch's at a kink, in saturation or at infinity.
        inplace: the op also takes PyTorch's ``inplace``, which overwrites the first operand.
        laws: what run-time scalars must fulfil, in words, with a function of all of them.

    Returns:
        The public op.
    """
    if body is None:
        return lambda function: pointwise(
            function, face=face, result=result, gradient=gradient, inplace=inplace, laws=laws
        )
    signature = inspect.signature(body)
    operands = [p.name for p in signature.parameters.values() if p.default is p.empty]
    options = [p.name for p in signature.parameters.values() if p.default is not p.empty]
    if inplace:
        last = inspect.Parameter("inplace", inspect.Parameter.POSITIONAL_OR_KEYWORD, default=False)
        signature = signature.replace(parameters=[*signature.parameters.values(), last])

    takes = _Takes(signature, len(operands), len(operands) + len(options))
    fewest, most, usual = takes.fewest, takes.most, takes.defaults[takes.fewest : takes.most]

    def call(*args: Operand, out: Tensor | None = None, **given: float | HostScalar) -> Any:
        xs, settings = args, usual
        if given or len(args) != fewest:
            values = takes.settled(body.__name__, takes.bound(body.__name__, args, given))
            xs, settings = values[:fewest], values[fewest:most]
            if laws:
                _check_laws(body.__name__, options, settings, laws)
            if inplace and values[-1]:
                out = values[0]
        if out is not None:
            require_tensors(body.__name__, out=out)
        return evaluate(
            body.__name__, body, xs, settings, result=result, gradient=gradient, out=out
        )

    return op(face)(_presented(call, body, signature))


def _presented(
    call: Callable[..., Any], body: Callable[..., Any], signature: inspect.Signature
) -> Callable[..., Any]:
    """The function that is called in the name of a body, as readers and ``inspect`` see it."""
    call.of_elements = True  # pyrefly: ignore[missing-attribute] - ops/chosen.py reads it
    call.__name__ = call.__qualname__ = body.__name__
    call.__doc__ = body.__doc__
    call.__module__ = body.__module__
    place = inspect.Parameter("out", inspect.Parameter.KEYWORD_ONLY, default=None)
    call.__signature__ = signature.replace(  # pyrefly: ignore[missing-attribute] - inspect reads it
        parameters=[*signature.parameters.values(), place]
    )
    return call


class _Takes:
    """What a pointwise op is called with.

    Args:
        signature: of its body, and what is taken beside.
        fewest: how many are operands.
        most: how many are operands or run-time scalars.
    """

    def __init__(self, signature: inspect.Signature, fewest: int, most: int) -> None:
        self.signature, self.fewest, self.most = signature, fewest, most
        self.names = tuple(signature.parameters)
        self.defaults = tuple(p.default for p in signature.parameters.values())

    def bound(self, name: str, args: tuple[Any, ...], given: dict[str, Any]) -> tuple[Any, ...]:
        """The values of all parameters, in order."""
        placed, rest = len(args), self.names[len(args) :]
        if self.fewest <= placed <= len(self.names) and given.keys() <= {*rest}:
            return (*args, *map(given.get, rest, self.defaults[placed:]))  # `bind` takes 10 us
        try:
            bound = self.signature.bind(*args, **given)
        except TypeError as error:
            raise DtypeError(name, f"the arguments do not fit: {error}") from None
        bound.apply_defaults()
        return bound.args

    def settled(self, name: str, values: tuple[Any, ...]) -> tuple[Any, ...]:
        """The values with run-time scalars as Python's numbers."""
        if len(values) > self.most and not isinstance(values[-1], bool | np.bool_):
            raise DtypeError(name, "inplace is a bool", inplace=shown(values[-1]))
        settings = [
            value
            if type(value) is HostScalar or is_varying(value)
            else number(name, self.names[k], value)
            for k, value in enumerate(values[self.fewest : self.most], self.fewest)
        ]
        return (*values[: self.fewest], *settings, *values[self.most :])


def _check_laws(
    name: str, options: list[str], values: tuple[Any, ...], laws: Mapping[str, Callable[..., bool]]
) -> None:
    if any(type(value) is HostScalar for value in values):
        return  # it may be another at every replay
    for law, holds in laws.items():
        if not holds(*values):
            raise ArgumentError(name, law, **dict(zip(options, values, strict=True)))


def evaluate(
    name: str,
    body: Callable[..., Any],
    operands: Sequence[Operand],
    options: Sequence[float | HostScalar] = (),
    *,
    result: Callable[[DType], tuple[DType, DType]] = Result.promoted,
    promoted: Sequence[Operand] | None = None,
    gradient: Callable[..., Any] | None = None,
    out: Tensor | None = None,
) -> Any:
    """Apply a function of symbols to tensors and numbers.

    Args:
        name: the op's.
        body: called once for each combination of operand kinds.
        operands: tensors and Python numbers, at least one tensor.
        options: further run-time scalars.
        result: as for :func:`pointwise`.
        promoted: the operands whose dtypes are promoted, None for all.
        gradient: as for :func:`pointwise`.
        out: a tensor to overwrite with the result; it may be one of the operands.

    Returns:
        The result tensor, ``out`` if it is given.

    Raises:
        ShapeError: if ``out`` has not the result's shape.
        DtypeError: if no operand is a tensor, or one is neither a tensor nor a number.
    """
    sorts = tuple(map(sort_of, operands))
    if None in sorts:
        operands, sorts = with_sorts(name, operands)
    wanted = None if promoted is None else promoted_dtype(with_sorts(name, promoted)[1])
    form = _form(name, body, result, gradient, sorts, len(options), wanted)
    if form.function is not None:  # no numbers, nothing complex
        return _applied(form.function, operands, out)
    if form.wide:
        operands = [x.to(form.rounded) if k in form.wide else x for k, x in enumerate(operands)]
        given = {"result": result, "promoted": promoted, "gradient": gradient}
        return evaluate(name, body, operands, options, **given, out=out)
    kinds, compute, returned = form.kinds, form.compute, form.returned
    tensors = [operands[k] for k in form.tensors]
    if not tensors:
        if name in OF_NUMBERS:
            operands = [OF_NUMBERS[name](operands[0]), *operands[1:]]
            return evaluate(name, body, operands, options, result=result, out=out)
        raise DtypeError(name, "one operand is a tensor", operands=shown(tuple(operands)))
    if options:
        options = [as_number(name, x, floating=compute.is_floating_point) for x in options]
    if form.expr is None:
        operands = [as_known(x) for x in operands]
        function = paired(name, body, kinds, operands, options, (compute, returned))
        return _applied(function, tensors, out)
    floating = compute.is_floating_point
    numbers = [as_number(name, operands[k], floating=floating) for k in form.numbers]
    scalars = (*numbers, *options) if floating else _whole(name, form, numbers, options)
    if form.rounded is not None:
        scalars = tuple([rounded_to(form.rounded, x) for x in scalars])
    function = Pointwise(name, (form.expr,), scalars, compute, (returned,), form.gradient)
    return _applied(function, tensors, out)


def _whole(
    name: str, form: _Form, numbers: Sequence[Any], options: Sequence[Any]
) -> tuple[Any, ...]:
    """Operands that are numbers, and options, as the integers of the dtype that is computed in.

    Raises:
        DtypeError: if an option is not whole.
        RangeError: if the dtype does not hold a number.
    """
    compute = form.compute
    if any(isinstance(x, float) for x in options):
        law = "with these settings operands are floating"
        hint = "Convert it with .float()"
        raise DtypeError(name, law, dtype=form.returned, settings=options, remedy=hint)
    require_range(name, options, compute)
    if name in UNWRAPPED or (name == "pow" and form.kinds[0] != "number"):
        require_range(name, numbers, compute)
    if any(isinstance(x, float) for x in numbers):  # a whole one, that no dtype here holds
        law = f"{compute!r} holds the numbers beside it"
        raise RangeError(name, law, numbers=numbers, remedy="Convert it with .double()")
    return tuple([wrapped(x, compute) for x in (*numbers, *options)])


class _Form(NamedTuple):
    """All of an evaluation that depends on the operands' dtypes, and not on which they are.

    Attributes:
        kinds: of the operands: ``"array"``, ``"boolean"``, ``"complex"``, ``"number"`` or
            ``"complex number"``.
        compute: the dtype of the arithmetic.
        returned: of the result.
        expr: the op's expression; None for one of complex numbers.
        gradient: as for :class:`Pointwise`.
        function: the op itself, if no number is part of it.
        tensors, numbers: the places of operands that are tensors, and real numbers.
        rounded: the dtype of 16 bits to which all operands are rounded first; None: to none.
        wide: the places of tensors that are converted to it.
    """

    kinds: tuple[str, ...]
    compute: DType
    returned: DType
    expr: Expr | None
    gradient: Callable[..., Any] | None = None
    function: Pointwise | None = None
    tensors: tuple[int, ...] = ()
    numbers: tuple[int, ...] = ()
    rounded: DType | None = None
    wide: tuple[int, ...] = ()


@lru_cache(maxsize=4096)
def _form(
    name: str,
    body: Callable[..., Any],
    result: Callable[[DType], tuple[DType, DType]],
    gradient: Callable[..., Any] | None,
    sorts: tuple[Sort, ...],
    options: int,
    promoted: DType | None,
) -> _Form:
    """What :func:`evaluate` needs for operands of these sorts.

    Raises:
        DtypeError: if the op is not for such dtypes.
    """
    kinds = tuple([_kind(dtype, is_number=level == NUMBER) for dtype, level in sorts])
    if all("number" in kind for kind in kinds):
        return _Form(kinds, float32, float32, None)  # to be refused
    common = promoted_dtype(sorts) if promoted is None else promoted
    compute, returned = result(common)
    tensors = tuple(place for place, kind in enumerate(kinds) if "number" not in kind)
    numbers = tuple(place for place, kind in enumerate(kinds) if kind == "number")
    if returned.is_complex or "complex" in kinds or "complex number" in kinds:
        return _Form(kinds, compute, returned, None, tensors=tensors)
    expr = _symbolic(body, kinds, options)
    if gradient is not None:
        gradient = _explicit(gradient, kinds, options)
    function, rounded, wide = None, None, ()
    if name in ROUNDED and common.is_floating_point and common.itemsize == 2:
        rounded = common
        wide = tuple([k for k in tensors if kinds[k] == "array" and sorts[k][0] is not common])
    if not (options or wide or "number" in kinds):
        function = Pointwise(name, (expr,), (), compute, (returned,), gradient)
    return _Form(
        kinds, compute, returned, expr, gradient, function, tensors, numbers, rounded, wide
    )


def _kind(dtype: DType, *, is_number: bool) -> str:
    if is_number:
        return "complex number" if dtype.is_complex else "number"
    return {Kind.BOOL: "boolean", Kind.COMPLEX: "complex"}.get(dtype.kind, "array")


def _applied(function: Pointwise | Paired, tensors: Sequence[Tensor], out: Tensor | None) -> Any:
    """The result, or ``out`` holding it."""
    if out is None:
        return type(tensors[0]).__apply_function__(function, tuple(tensors))[0]
    require_tensors(function.name, out=out)
    if 0 in out.shape and all(x is not out for x in tensors):  # nothing is lost: PyTorch's resizing
        shape = broadcast_shapes(function.name, *(x.shape for x in tensors))
        if shape != out.shape:
            out.resize_(shape)
    type(out).__apply_function__(Overwrite(function), (out, *(apart(x, out) for x in tensors)))
    return out


def apart(x: Tensor, out: Tensor) -> Tensor:
    """An operand that writing ``out`` element by element does not change before it is read."""
    return x.clone() if out.array.disturbs(x.array) else x


def know_numbers() -> None:
    """Look the dtypes of Python's numbers up anew: the default one has changed."""
    look_numbers_up()
    _form.cache_clear()


@lru_cache(maxsize=4096)
def _symbolic(body: Callable[..., Any], kinds: tuple[str, ...], options: int) -> Expr:
    """The op's expression for operands that are arrays, boolean arrays or numbers."""
    return body(*_symbols(kinds, options))


@lru_cache(maxsize=4096)
def _explicit(
    gradient: Callable[..., Any], kinds: tuple[str, ...], options: int
) -> Callable[..., Any]:
    """``gradient`` as a function of the arriving gradient and the result, for those operands.

    One that takes more has the operands and options, too; what it gives for numbers is dropped.
    """
    if len(inspect.signature(gradient).parameters) == 2:
        return gradient
    symbols = _symbols(kinds, options)

    def of_arrays(g: Expr, y: Expr) -> tuple[Any, ...]:
        found = gradient(g, y, *symbols)
        each = found if isinstance(found, tuple) else (found,)
        return tuple(e for e, kind in zip(each, kinds, strict=True) if kind != "number")

    return of_arrays


def _symbols(kinds: tuple[str, ...], options: int) -> list[Expr]:
    arrays = scalars = 0
    symbols: list[Expr] = []
    for kind in kinds:
        if kind == "number":
            symbols.append(Scalar(scalars))
            scalars += 1
        else:
            symbols.append(Input(arrays, kind == "boolean"))
            arrays += 1
    return symbols + [Scalar(scalars + i) for i in range(options)]
