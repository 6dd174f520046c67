"""``clnet.autograd.Function``: a gradient that the user writes."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from functools import wraps
from inspect import signature
from typing import Any

from .. import ops
from ..creation import zeros
from ..errors import ArgumentError, GradientError
from ..ops.machinery.function import Function as Op
from ..tensor import Tensor
from ..values import mode
from ..values.dtypes import DType
from ..values.words import WORDS
from .custom_batch import applied_to_batch
from .overwrite import become
from .tape import Node

__all__ = ["Function", "FunctionCtx", "InplaceFunction", "once_differentiable"]


def _like_its_argument(g: Any, shape: tuple[int, ...], dtype: DType) -> Any:
    """A gradient of an argument's dtype, and of its shape where that was broadcast to its own.

    Any other is given back as it is.
    """
    if not isinstance(g, Tensor):
        return g
    if g.dtype.differentiable and dtype.differentiable:
        g = ops.real(g) if g.dtype.is_complex and not dtype.is_complex else g
        g = g if g.dtype is dtype else g.to(dtype)
    if g.shape == shape or len(g.shape) < len(shape):
        return g
    last = g.shape[len(g.shape) - len(shape) :]
    if any(size not in (1, given) for size, given in zip(shape, last, strict=True)):
        return g
    return ops.sum_to_size(g, shape)


class FunctionCtx:
    """What :meth:`Function.forward` leaves for :meth:`Function.backward`; it takes any attribute.

    Attributes:
        needs_input_grad: for each argument of ``forward``, whether its gradient is wanted.
        to_save: what :meth:`save_for_backward` was given; in backward, what that makes of it.
        materialize_grads: see :meth:`set_materialize_grads`.
        non_differentiable: see :meth:`mark_non_differentiable`.
        dirty: see :meth:`mark_dirty`.
        for_forward: see :meth:`save_for_forward`.
    """

    def __init__(self, needs_input_grad: tuple[bool, ...]) -> None:
        self.needs_input_grad = needs_input_grad
        self.to_save: Sequence[Tensor | None] = ()
        self.materialize_grads = True
        self.non_differentiable: tuple[Tensor, ...] = ()
        self.dirty: tuple[Tensor, ...] = ()
        self.for_forward: tuple[Tensor | None, ...] = ()

    def save_for_backward(self, *tensors: Tensor | None) -> None:
        """Keep tensors until backward, which tells if they changed.

        Args:
            *tensors: arguments and results; others, whose own gradients are nobody's: they count as
                constants where the gradient is differentiated once more. None has its place, and
                sparse tensors are kept as they are.

        Raises:
            ArgumentError: if something else is given.
        """
        for x in tensors:
            if x is not None and not isinstance(x, Tensor):
                raise ArgumentError(
                    "save_for_backward",
                    "it takes tensors and None",
                    type=type(x).__name__,
                    remedy="Set an attribute of ctx instead",
                )
        self.to_save = tensors

    def save_for_forward(self, *tensors: Tensor | None) -> None:
        """Keep tensors for ``jvp``, which has them as :attr:`saved_tensors`."""
        self.for_forward = tensors

    @property
    def saved_tensors(self) -> tuple[Tensor | None, ...]:
        """What was given to :meth:`save_for_backward`."""
        return tuple(self.to_save)

    @property
    def saved_variables(self) -> tuple[Tensor | None, ...]:
        """Their oldest name."""
        text = "'saved_variables' is deprecated; use 'saved_tensors'"
        warnings.warn(text, DeprecationWarning, stacklevel=2)
        return self.saved_tensors

    def mark_non_differentiable(self, *tensors: Tensor) -> None:
        """Results that have no gradient."""
        self.non_differentiable = tensors

    def mark_dirty(self, *tensors: Tensor) -> None:
        """Arguments that ``forward`` overwrites and returns: from then on they are the results."""
        self.dirty = tensors

    def set_materialize_grads(self, value: bool) -> None:  # noqa: FBT001 - PyTorch's
        """Whether results nothing depends on get gradients of zeros (the default), or None."""
        self.materialize_grads = value


class Function:
    """An operation whose gradient is written by hand.

    A subclass has the static methods ``forward(ctx, *args)``, whose ops are not recorded, and
    ``backward(ctx, *grads)``, which gets a gradient for each result of ``forward`` (None for one
    that is no tensor) and returns one, or None, for each of its arguments. It is called by
    :meth:`apply`. Where ``setup_context(ctx, args, output)`` is there, ``forward`` gets no ``ctx``.
    What ``backward`` does in ops of clnet can be differentiated once more; ``vjp`` is another name
    of it.

    Inside :func:`clnet.vmap` both see tensors of an element's shape, whether ``generate_vmap_rule``
    is set or not; where there is a static method ``vmap(info, in_dims, *args)``, it is given the
    whole batch instead, and returns its results and for each the batch's axis, or None. In forward
    mode ``jvp(ctx, *tangents)`` is called, if it is there, else ``backward`` twice.

    Example:
        >>> import clnet
        >>> class Square(clnet.autograd.Function):
        ...     @staticmethod
        ...     def forward(ctx, x):
        ...         ctx.save_for_backward(x)
        ...         return x * x
        ...
        ...     @staticmethod
        ...     def backward(ctx, grad):
        ...         (x,) = ctx.saved_tensors
        ...         return 2 * x * grad
        >>> x = clnet.ones(2, requires_grad=True)
        >>> Square.apply(x).sum().backward()
        >>> x.grad.tolist()
        [2.0, 2.0]
    """

    setup_context: Any = None
    vmap: Any = None
    jvp: Any = None
    vjp: Any = None
    generate_vmap_rule: bool = False

    # With ``**kwargs``, which nothing gives, a checker takes overrides of any arguments.
    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        """The results: a tensor, or a tuple that may hold other values, too."""
        raise NotImplementedError("forward(ctx, *args) is the subclass's")

    @staticmethod
    def backward(ctx: Any, *grads: Any, **kwargs: Any) -> Any:
        """The arguments' gradients."""
        raise NotImplementedError("backward(ctx, *grads) is the subclass's")

    @classmethod
    def gradient(cls) -> Callable[..., Any]:
        """``backward``, or ``vjp`` where that is what the class has.

        Raises:
            GradientError: if it has both.
        """
        if cls.vjp is None:
            return cls.backward
        if cls.backward is not Function.backward:
            raise GradientError(cls.__name__, "it has one of backward and vjp, which are the same")
        return cls.vjp

    @classmethod
    def apply(cls, *args: Any, **named: Any) -> Any:
        """``forward(ctx, *args)``, on the tape where an argument's gradient is wanted.

        Args:
            *args: tensors and other values.
            **named: arguments by name, where ``forward`` gets no ``ctx``: ``setup_context`` then
                has all of them in their places, with defaults.

        Returns:
            What ``forward`` returns.

        Raises:
            ArgumentError: if arguments are named and ``forward`` gets a ``ctx``.
        """
        if cls.setup_context is not None:
            args = _all_arguments(cls.forward, args, named)
        elif named:
            raise ArgumentError(
                cls.__name__, "forward with ctx takes arguments by place", named=sorted(named)
            )
        now = mode.current()
        if now.batching is not None:
            found = applied_to_batch(cls, args, FunctionCtx, Function)
            if found is not NotImplemented:
                return found
        recording = now.grad
        wanted = tuple(recording and isinstance(x, Tensor) and x.requires_grad for x in args)
        ctx = FunctionCtx(wanted)
        with mode.using(grad=False):
            if cls.setup_context is None:
                result = cls.forward(ctx, *args)
            else:
                result = cls.forward(*args)
                cls.setup_context(ctx, args, result)
        given = result if isinstance(result, tuple) else (result,)
        outputs = [x for x in given if isinstance(x, Tensor)]
        if not any(wanted) or not outputs:
            return result
        spots = tuple(isinstance(x, Tensor) for x in given)
        made = iter(_on_tape(cls, ctx, args, wanted, outputs, spots))
        dirty, ctx.dirty = {id(x) for x in ctx.dirty}, ()
        results = tuple(
            _become(x, next(made), dirty) if isinstance(x, Tensor) else x for x in given
        )
        return results if isinstance(result, tuple) else results[0]


def _all_arguments(
    forward: Callable[..., Any], args: tuple[Any, ...], named: dict[str, Any]
) -> tuple[Any, ...]:
    """Arguments in their places, with the defaults of those that are left out."""
    code = getattr(forward, "__code__", None)
    if code is not None and not named and code.co_argcount == len(args):
        return args  # the most common case, without the search below
    bound = signature(forward).bind(*args, **named)
    bound.apply_defaults()
    return bound.args


def _become(x: Tensor, made: Tensor, dirty: set[int]) -> Tensor:
    """The result; a tensor that was overwritten is it from now on.

    Raises:
        GradientError: if that is a leaf whose gradient is wanted.
    """
    if id(x) not in dirty:
        return made
    if x.node is None and x.requires_grad:
        raise GradientError(
            "mark_dirty", "a leaf that requires a gradient is not overwritten", shape=x.shape
        )
    if made.node is None:
        x.node, x.index, x.version, x.source = None, 0, made.version, None
    else:
        become(x, made.node, made.index)
    return x


class InplaceFunction(Function):
    """PyTorch's older base of functions that may write over their argument: a :class:`Function`.

    Args:
        inplace: kept as the attribute of that name, of an object that nothing calls.
    """

    def __init__(self, inplace: bool = False) -> None:  # noqa: FBT001, FBT002 - PyTorch's
        super().__init__()
        self.inplace = inplace


def once_differentiable(fn: Callable[..., Any]) -> Callable[..., Any]:
    """A ``backward`` whose ops are not recorded: to differentiate what it gives is an error.

    Args:
        fn: the static method, which may compute by NumPy or in memory of its own.

    Raises:
        GradientError: of what is returned, when a gradient of its results is asked for.
    """

    @wraps(fn)
    def once(ctx: Any, *grads: Any) -> Any:
        with mode.using(grad=False):
            given = fn(ctx, *grads)
        if not mode.current().grad:
            return given
        found = given if isinstance(given, tuple) else (given,)
        made = [_Once.apply(x.detach().requires_grad_()) if _has_graph(x) else x for x in found]
        return tuple(made) if isinstance(given, tuple) else made[0]

    return once


def _has_graph(x: Any) -> bool:
    return isinstance(x, Tensor) and x.dtype.differentiable


class _Once(Function):
    """Itself, without a gradient."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        del ctx
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        raise GradientError(
            "once_differentiable",
            "a backward that is marked so has no gradient of its own",
            shape=grad.shape,
            remedy="Leave the mark out if its ops are clnet's",
        )


def _on_tape(
    cls: type[Function],
    ctx: FunctionCtx,
    args: tuple[Any, ...],
    wanted: tuple[bool, ...],
    outputs: list[Tensor],
    spots: tuple[bool, ...],
) -> list[Tensor]:
    """The outputs as those of a node; what was saved is the node's to keep and to check."""
    places = tuple(
        i for i, x in enumerate(args) if isinstance(x, Tensor) and (wanted[i] or _is_dense(x))
    )
    inputs = [args[i] for i in places]
    saved, ctx.to_save = ctx.to_save, ()
    order, others = _found(saved, inputs, outputs)
    specs = tuple((x.shape, x.dtype) for x in outputs)
    apart = tuple(x for x in saved if x is not None and not _is_dense(x))
    function = _Applied(cls, ctx, len(args), places, order, specs, apart, spots)
    arrays = [x.array for x in outputs]
    node = Node(function, inputs, tuple(wanted[i] for i in places), arrays, Tensor)
    for i, x in enumerate(others, len(inputs)):
        node.keep(i, x)
    without, ctx.non_differentiable = {id(x) for x in ctx.non_differentiable}, ()
    return [
        Tensor(x.array, node, k)
        if x.dtype.differentiable and id(x) not in without
        else Tensor(x.array)
        for k, x in enumerate(outputs)
    ]


_Place = tuple[str, int]
"""Where a node keeps a tensor: ``("inputs", 0)`` or ``("outputs", 1)``; ``("apart", 0)`` is the
function's own."""


def _is_dense(x: Tensor) -> bool:
    """Whether it has an array, whose versions a node can check; a sparse tensor has several."""
    return x.layout is WORDS["strided"]


def _found(
    saved: Sequence[Tensor | None], inputs: list[Tensor], outputs: list[Tensor]
) -> tuple[tuple[_Place | None, ...], list[Tensor]]:
    """Where the node has each saved tensor; those that it has nowhere follow its inputs.

    Of ``save_for_backward(x, mask, y)`` with input ``x`` and output ``y``, the places are
    ``("inputs", 0), ("inputs", 1), ("outputs", 0)``, and ``[mask]`` is to be kept.
    """
    known: dict[int, _Place] = {id(x): ("outputs", i) for i, x in reversed([*enumerate(outputs)])}
    known |= {id(x): ("inputs", i) for i, x in reversed([*enumerate(inputs)])}
    places: list[_Place | None] = []
    others: list[Tensor] = []
    apart = 0
    for x in saved:
        if x is not None and not _is_dense(x):
            places.append(("apart", apart))
            apart += 1
        elif x is not None and id(x) not in known:
            places.append(("inputs", len(inputs) + len(others)))
            others.append(x)
        else:
            places.append(None if x is None else known[id(x)])
    return tuple(places), others


class _Applied(Op):
    """A user's function on the tape."""

    own: type[Function]
    ctx: FunctionCtx
    num_args: int
    places: tuple[int, ...]
    order: tuple[tuple[str, int] | None, ...]
    specs: tuple[tuple[tuple[int, ...], Any], ...]
    apart: tuple[Tensor, ...]
    spots: tuple[bool, ...]
    """Of what ``forward`` returned, whether it is a tensor: others get None in backward."""
    __eq__ = object.__eq__
    __hash__ = object.__hash__

    @property
    def name(self) -> str:
        """The class's."""
        return self.own.__name__

    def saves(self, needs: tuple[bool, ...]) -> tuple[Sequence[int], Sequence[int]]:
        """The inputs and outputs among what was saved."""
        chosen = [at for at in self.order if at is not None]
        inputs = [i for name, i in chosen if name == "inputs" and i < len(needs)]
        return inputs, [i for name, i in chosen if name == "outputs"]

    def backward(
        self, saved: Any, grads: tuple[Any, ...], needs: tuple[bool, ...]
    ) -> tuple[Any, ...]:
        """The user's, checked.

        Raises:
            GradientError: if it gives not a gradient of its shape, or None, for each argument.
        """
        ctx = self.ctx
        if ctx.materialize_grads:
            where = next(g for g in grads if g is not None).device
            grads = tuple(
                zeros(shape, dtype=dtype, device=where) if g is None else g
                for g, (shape, dtype) in zip(grads, self.specs, strict=True)
            )
        found = {"inputs": saved.inputs, "outputs": saved.outputs, "apart": self.apart}
        ctx.to_save = [None if at is None else found[at[0]][at[1]] for at in self.order]
        try:
            each = iter(grads)
            given = self.own.gradient()(ctx, *[next(each) if spot else None for spot in self.spots])
        finally:
            ctx.to_save = ()
        results = given if isinstance(given, tuple) else (given,)
        if len(results) < self.num_args or any(x is not None for x in results[self.num_args :]):
            raise GradientError(
                f"{self.name}.backward",
                "it returns a gradient, or None, for each argument of forward",
                arguments=self.num_args,
                returned=len(results),
            )
        chosen = tuple(
            _like_its_argument(results[i], shape, dtype)
            for i, (shape, dtype) in zip(self.places, saved.input_specs, strict=True)
        )
        for i, x, (shape, _) in zip(self.places, chosen, saved.input_specs, strict=True):
            if x is not None and (not isinstance(x, Tensor) or x.shape != shape):
                raise GradientError(
                    f"{self.name}.backward",
                    "a gradient is a tensor of its argument's shape",
                    argument=i,
                    shape=shape,
                    gradient=x.shape if isinstance(x, Tensor) else type(x).__name__,
                )
        return tuple(x if need else None for x, need in zip(chosen, needs, strict=True))
