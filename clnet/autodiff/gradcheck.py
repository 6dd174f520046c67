"""Comparison of gradients on the tape with finite differences of the same function."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from ..errors import ArgumentError, GradcheckError
from ..ops.complex_parts import view_as_complex, view_as_real
from ..tensor import Tensor, tensor
from ..values import mode
from ..values.arguments import checked
from ..values.dtypes import DType, float32, float64
from ..values.plain import shown
from .dual import DualLevel, dual, parts_of_dual
from .gradient import grad
from .tape import enable_grad, no_grad
from .vmap import vmap

Index = tuple[int, ...]
_SEED = 0
# eps, atol, rtol. In float64 they are PyTorch's; in float32 eps is near the cube root of the
# rounding error, where rounding and truncation of a central difference are equally large.
_TOLERANCES = {float64: (1e-6, 1e-5, 1e-3), float32: (5e-3, 5e-3, 1e-2)}


@dataclass(frozen=True)
class _Settings:
    """What a check is made with; None stands for what the dtype says."""

    eps: float | None
    atol: float | None
    rtol: float | None
    raise_exception: bool
    samples: int


@dataclass(frozen=True)
class _Subject:
    """What is moved and whose gradient is compared.

    Attributes:
        value: a copy among the arguments, or a tensor that the function reads itself.
        name: what an error calls it.
        argument: its place among the arguments; None: it is moved where it lies.
    """

    value: Tensor
    name: dict[str, Any]
    argument: int | None


@checked
def gradcheck(
    fn: Callable[..., Tensor | Sequence[Tensor]],
    inputs: Any = (),
    *,
    eps: float | None = None,
    atol: float | None = None,
    rtol: float | None = None,
    raise_exception: bool = True,
    samples: int = 64,
    dtype: DType | None = None,
    fast_mode: bool = False,
    nondet_tol: float = 0.0,
    check_forward_ad: bool = False,
    check_backward_ad: bool = True,
    check_batched_grad: bool = False,
    check_batched_forward_grad: bool = False,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_sparse_nnz: bool = False,
    masked: bool | None = None,
) -> bool:
    """Whether the gradients of a function agree with central differences of its values.

    The outputs are weighted at random and summed; the gradient of that sum is compared entry by
    entry: ``|numeric - analytic| <= atol + rtol * |analytic|``.

    Args:
        fn: of tensors, to one tensor or several; the same at every call, and smooth at the inputs.
            A module's parameters are checked, too.
        inputs: its arguments; tensors that require a gradient are checked, away from their memory.
            One whose copy takes no part, because ``fn`` reads the tensor itself (a parameter), is
            moved where it lies, as a module's parameters are, and put back.
        eps: how far an entry is moved to both sides; None: 1e-6 in float64, 5e-3 in float32.
        atol: tolerated difference; None: 1e-5 in float64, 5e-3 in float32.
        rtol: tolerated part of the gradient; None: 1e-3 in float64, 1e-2 in float32.
        raise_exception: whether a difference is an error, or gives False.
        samples: entries of each input that are checked, evenly drawn where there are more.
        dtype: the dtype floating inputs are converted to; None: that of a module's parameters, else
            float64 where the device has it, else float32.
        fast_mode: whether eight entries of each input are enough, or ``samples`` if these are less.
        nondet_tol: PyTorch's, and without effect: sums have one order.
        check_forward_ad: whether tangents of the arguments (``autograd.forward_ad``) are compared,
            too; parameters have none.
        check_backward_ad: whether gradients are.
        check_batched_grad: whether ``vmap`` over several gradients that arrive is compared with
            one after the other.
        check_batched_forward_grad: PyTorch's, and without effect: tangents go op by op.
        check_undefined_grad: PyTorch's, and without effect: what does not arrive is 0.
        check_grad_dtypes: PyTorch's, and without effect: a gradient has its tensor's dtype.
        check_sparse_nnz: PyTorch's, and without effect, as ``masked``.
        masked: for sparse arguments.

    Returns:
        True if they agree.

    Raises:
        GradcheckError: at the first entry that disagrees, unless ``raise_exception`` is False.
        ArgumentError: if nothing requires a gradient, no output does, or no gradient reaches what
            is checked: 0 would be compared with 0.

    Example:
        >>> import clnet
        >>> clnet.autograd.gradcheck(clnet.nn.Linear(4, 3), clnet.ones(2, 4))
        True
    """
    del nondet_tol, check_undefined_grad, check_grad_dtypes
    del check_batched_forward_grad, check_sparse_nnz, masked
    settings = _Settings(
        eps, atol, rtol, raise_exception, min(samples, 8) if fast_mode else samples
    )
    if not check_forward_ad and not check_backward_ad:
        law = "check_forward_ad or check_backward_ad is True"
        raise ArgumentError("gradcheck", law, check_backward_ad=check_backward_ad)
    own = _parameters(fn)
    fn, given = _over_parts(fn, _sequence(inputs))
    if check_backward_ad and not _check("gradcheck", fn, given, settings, dtype, own):
        return False
    if check_forward_ad and not _check_forward(fn, given, settings, dtype):
        return False
    return not check_batched_grad or _check_batched(fn, given, settings, dtype)


@checked
def gradgradcheck(
    fn: Callable[..., Tensor | Sequence[Tensor]],
    inputs: Any = (),
    grad_outputs: Tensor | Sequence[Tensor] | None = None,
    *,
    eps: float | None = None,
    atol: float | None = None,
    rtol: float | None = None,
    raise_exception: bool = True,
    samples: int = 64,
    dtype: DType | None = None,
    fast_mode: bool = False,
    nondet_tol: float = 0.0,
    gen_non_contig_grad_outputs: bool = False,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_fwd_over_rev: bool = False,
    check_rev_over_rev: bool = True,
    masked: bool = False,
) -> bool:
    """As :func:`gradcheck`, of the gradients: as functions of the inputs and of what arrives.

    ``gen_non_contig_grad_outputs``, too, is PyTorch's and without effect. ``grad_outputs`` is what
    arrives at each output that requires a gradient, of its shape and dtype; None: drawn numbers.
    """
    del nondet_tol, gen_non_contig_grad_outputs, check_undefined_grad, check_grad_dtypes
    own = _parameters(fn)
    fn, given = _over_parts(fn, _sequence(inputs))
    dtype = _dtype_of(given, own, dtype)
    first = [_leaf(x, dtype) for x in given]
    if grad_outputs is None:
        arriving = [
            tensor(w.astype(y.dtype.numpy), device=y.device, requires_grad=True)
            for y, w in _weighted(_outputs(fn, first))
            if y.requires_grad
        ]
    else:
        arriving = _sequence(grad_outputs)
    if not arriving:
        raise ArgumentError("gradgradcheck", "an output requires a gradient", inputs=len(given))

    def slopes(*arguments: Any) -> list[Tensor]:
        with enable_grad():
            leaves = [_again(x, like) for x, like in zip(arguments, first, strict=False)]
            outputs = [y for y in _outputs(fn, leaves) if y.requires_grad]
            wanted = [*leaves, *given, *(p for _, p in own)]
            sources = [x for x in wanted if isinstance(x, Tensor) and x.requires_grad]
            weights = list(arguments[len(first) :])
            found = grad(outputs, sources, weights, create_graph=True, allow_unused=True)
            return [g for g in found if g is not None]

    settings = _Settings(
        eps, atol, rtol, raise_exception, min(samples, 8) if fast_mode else samples
    )
    return _check("gradgradcheck", slopes, [*given, *arriving], settings, dtype, own)


def _check(
    name: str,
    fn: Callable[..., Any],
    given: list[Any],
    settings: _Settings,
    dtype: DType | None,
    own: list[tuple[str, Tensor]],
) -> bool:
    checked = [i for i, x in enumerate(given) if isinstance(x, Tensor) and x.requires_grad]
    if not checked and not own:
        raise ArgumentError(name, "an input requires a gradient", inputs=len(given))
    dtype = _dtype_of(given, own, dtype)
    arguments = [_leaf(x, dtype) for x in given]
    # A copy first, then what it was copied from: whichever the function reads.
    candidates = [_Subject(arguments[i], {"input": i}, i) for i in checked]
    candidates += [_Subject(given[i], {"input": i}, None) for i in checked]
    candidates += [_Subject(p, {"parameter": repr(key)}, None) for key, p in own]
    outputs = _outputs(fn, arguments)
    weighted = _weighted(outputs)
    gradients = _analytic(name, weighted, [subject.value for subject in candidates])
    _require_reached(name, candidates, gradients)
    dtypes = [y.dtype for y in outputs]
    coarsest = next((t for t in dtypes if t is not float64), float64)
    total = _WeightedSum(fn, arguments, [w for _, w in weighted])
    comparison = _Comparison(name, "gradient", settings, coarsest)
    reached = [g is not None for g in gradients]
    for place, (subject, gradient) in enumerate(zip(candidates, gradients, strict=True)):
        if not _is_checked(place, len(checked), reached):
            continue
        analytic = np.zeros(subject.value.shape) if gradient is None else np.asarray(gradient)
        if not comparison.holds(total, subject, partial(_entry, analytic)):
            return False
    return True


def _check_forward(
    fn: Callable[..., Any], given: list[Any], settings: _Settings, dtype: DType | None
) -> bool:
    """Compare the outputs' tangents, of one moved entry after the other, with differences."""
    dtype = _dtype_of(given, [], dtype)
    arguments = [_leaf(x, dtype) for x in given]
    places = [i for i, x in enumerate(arguments) if isinstance(x, Tensor) and x.requires_grad]
    if not places:
        raise ArgumentError("gradcheck", "an input requires a gradient", inputs=len(given))
    weights = [w for _, w in _weighted(_outputs(fn, arguments))]
    total = _WeightedSum(fn, arguments, weights)
    comparison = _Comparison("gradcheck", "tangent", settings, dtype)
    return all(
        comparison.holds(total, _Subject(arguments[i], {"input": i}, i), partial(total.tangent, i))
        for i in places
    )


@dataclass(frozen=True)
class _WeightedSum:
    """A function's outputs, weighted and summed: a number that moves with each entry."""

    function: Callable[..., Any]
    arguments: list[Any]
    weights: list[np.ndarray]

    def difference(self, subject: _Subject, index: Index, eps: float) -> float:
        """Its central difference in one entry of one tensor."""
        sums: list[float] = []
        places: list[float] = []
        for side in (eps, -eps):
            moved = np.array(subject.value)
            moved[index] += side
            places.append(float(moved[index]))  # what was really added, after rounding
            with no_grad(), _moved(self.arguments, subject, moved) as given, enable_grad():
                outputs = [y.detach() for y in _outputs(self.function, given)]
                sums.append(self._of(outputs))
        return (sums[0] - sums[1]) / (places[0] - places[1])

    def tangent(self, place: int, index: Index) -> float:
        """How it moves with one entry of an argument, in forward mode."""
        before, behind = self.arguments[:place], self.arguments[place + 1 :]
        x = self.arguments[place].detach()
        direction = np.zeros(x.shape)
        direction[index] = 1
        around = mode.current().batching or ()
        level = DualLevel(len(around))
        with mode.using(batching=(*around, level)):
            own = dual(x, tensor(direction, dtype=x.dtype, device=x.device), level)
            outputs = _outputs(self.function, [*before, own, *behind])
            tangents = [parts_of_dual(y, level)[1] for y in outputs]
        return self._of([None if t is None else t.detach() for t in tangents])

    def _of(self, outputs: Sequence[Tensor | None]) -> float:
        pairs = zip(self.weights, outputs, strict=True)
        return sum(float((w * np.asarray(y, np.float64)).sum()) for w, y in pairs if y is not None)


@dataclass(frozen=True)
class _Comparison:
    """What is compared with central differences, and how closely.

    Attributes:
        op_name: for the error.
        what: ``"gradient"`` or ``"tangent"``.
        settings: of the check.
        dtype: of the outputs.
    """

    op_name: str
    what: str
    settings: _Settings
    dtype: DType

    def holds(
        self, total: _WeightedSum, subject: _Subject, analytic: Callable[[Index], float]
    ) -> bool:
        """Whether all entries of a tensor that are looked at agree.

        Args:
            total: whose differences are taken.
            subject: the tensor.
            analytic: gives what is compared, of an entry.

        Raises:
            GradcheckError: at the first that disagrees, if the settings say so.
        """
        step, absolute, relative = _tolerances(self.settings, self.dtype)
        for index in _sampled(subject.value.shape, self.settings.samples):
            numeric, own = total.difference(subject, index, step), analytic(index)
            if abs(numeric - own) <= absolute + relative * abs(own):
                continue
            if not self.settings.raise_exception:
                return False
            raise GradcheckError(
                self.op_name,
                f"the {self.what} differs from central differences",
                **subject.name,
                index=index,
                numeric=numeric,
                analytic=own,
                atol=absolute,
                rtol=relative,
            )
        return True


def _check_batched(
    fn: Callable[..., Any], given: list[Any], settings: _Settings, dtype: DType | None
) -> bool:
    """Compare gradients of several arriving ones at once with those of one after the other."""
    arguments = [_leaf(x, _dtype_of(given, [], dtype)) for x in given]
    leaves = [x for x in arguments if isinstance(x, Tensor) and x.requires_grad]
    for k, y in enumerate(_outputs(fn, arguments)):
        if not y.requires_grad:
            continue
        rng = np.random.default_rng(_SEED)
        several = tensor(rng.standard_normal((2, *y.shape)).astype(y.dtype.numpy), device=y.device)

        def back(arriving: Tensor, y: Tensor = y) -> Any:
            return grad(y, leaves, arriving, retain_graph=True, materialize_grads=True)

        _, absolute, relative = _tolerances(settings, y.dtype)
        one_by_one = [back(g) for g in several]
        for i, at_once in enumerate(vmap(back)(several)):
            expected = np.stack([np.asarray(each[i]) for each in one_by_one])
            if np.allclose(np.asarray(at_once), expected, rtol=relative, atol=absolute):
                continue
            if not settings.raise_exception:
                return False
            law = "gradients under vmap differ from those of one after the other"
            raise GradcheckError("gradcheck", law, output=k, input=i)
    return True


def _tolerances(settings: _Settings, dtype: DType) -> tuple[float, float, float]:
    """How far an entry is moved, and what may differ, in outputs of a dtype."""
    defaults = _TOLERANCES.get(dtype, _TOLERANCES[float32])
    asked = (settings.eps, settings.atol, settings.rtol)
    step, absolute, relative = (d if v is None else v for v, d in zip(asked, defaults, strict=True))
    return step, absolute, relative


def _is_checked(place: int, copies: int, reached: list[bool]) -> bool:
    """Of an input's copy and the tensor itself: the copy, unless only the tensor is reached."""
    if place < copies:
        return reached[place] or not reached[copies + place]
    return place >= 2 * copies or (reached[place] and not reached[place - copies])


def _require_reached(name: str, candidates: list[_Subject], gradients: list[Tensor | None]) -> None:
    if all(g is None for g in gradients):
        raise ArgumentError(
            name,
            "a gradient reaches an input or a parameter",
            checked=len({str(subject.name) for subject in candidates}),
            remedy="Use the arguments in the function, or give the module itself",
        )


def _dtype_of(given: list[Any], own: list[tuple[str, Tensor]], dtype: DType | None) -> DType:
    """What floating inputs are converted to."""
    if dtype is not None:
        return dtype
    kinds = [p.dtype for _, p in own]
    if kinds:
        return kinds[0]
    devices = [x.device for x in given if isinstance(x, Tensor)]
    return float64 if devices and devices[0].traits.float64 else float32


def _sequence(inputs: Any) -> list[Any]:
    if isinstance(inputs, Tensor):
        return [inputs]
    if not isinstance(inputs, Sequence):
        raise ArgumentError("gradcheck", "inputs are a tensor or several", inputs=inputs)
    return list(inputs)


def _parameters(fn: Callable[..., Any]) -> list[tuple[str, Tensor]]:
    """A module's parameters that require a gradient, with their names; of a function none."""
    named = getattr(fn, "named_parameters", None)
    return [] if named is None else [(key, p) for key, p in named() if p.requires_grad]


def _leaf(x: Any, dtype: DType) -> Any:
    """A copy of an input, in the dtype of the check."""
    if not isinstance(x, Tensor):
        return x
    kind = dtype if x.dtype.is_floating_point else x.dtype
    return tensor(x, dtype=kind, device=x.device, requires_grad=x.requires_grad)


def _again(x: Any, like: Any) -> Any:
    """An argument as a leaf that requires a gradient, where the one it stands for does."""
    wanted = isinstance(like, Tensor) and like.requires_grad and not x.requires_grad
    return x.detach().requires_grad_() if wanted else x


def _outputs(fn: Callable[..., Any], arguments: list[Any]) -> list[Tensor]:
    result = fn(*arguments)
    results = [result] if isinstance(result, Tensor) else result
    if not isinstance(results, tuple | list) or not all(isinstance(y, Tensor) for y in results):
        raise ArgumentError("gradcheck", "fn gives a tensor or several", fn=shown(result))
    parts = [view_as_real(y) if y.dtype.is_complex else y for y in results]
    return [y for y in parts if y.dtype.is_floating_point]


def _over_parts(fn: Callable[..., Any], given: list[Any]) -> tuple[Callable[..., Any], list[Any]]:
    """A function of complex inputs as one of their parts, and these."""
    wide = [isinstance(x, Tensor) and x.dtype.is_complex for x in given]
    if not any(wide):
        return fn, given

    def of_parts(*arguments: Any) -> Any:
        pairs = zip(arguments, [*wide, *(False for _ in arguments[len(wide) :])], strict=True)
        return fn(*(view_as_complex(a.contiguous()) if w else a for a, w in pairs))

    parts = [
        view_as_real(x.detach().clone()).requires_grad_(x.requires_grad) if w else x
        for x, w in zip(given, wide, strict=True)
    ]
    return of_parts, parts


def _weighted(outputs: list[Tensor]) -> list[tuple[Tensor, np.ndarray]]:
    """Outputs, and for each the weights of its elements: the same at every call."""
    rng = np.random.default_rng(_SEED)
    return [(y, rng.uniform(0.5, 1.5, y.shape) * rng.choice((-1, 1), y.shape)) for y in outputs]


def _analytic(
    name: str, weighted: list[tuple[Tensor, np.ndarray]], sources: list[Tensor]
) -> list[Tensor | None]:
    """Gradients of the outputs' weighted sum; None where it does not reach."""
    roots = [(y, w) for y, w in weighted if y.requires_grad]
    if not roots:
        raise ArgumentError(name, "an output requires a gradient", outputs=len(weighted))
    given = [tensor(w.astype(y.dtype.numpy), device=y.device) for y, w in roots]
    return list(grad([y for y, _ in roots], sources, given, allow_unused=True))


def _entry(values: np.ndarray, index: Index) -> float:
    return float(values[index])


def _sampled(shape: tuple[int, ...], samples: int) -> list[Index]:
    count = int(np.prod(shape))
    flat = np.arange(count)
    if count > samples:
        flat = np.sort(np.random.default_rng(_SEED).choice(count, samples, replace=False))
    return [tuple(int(n) for n in np.unravel_index(i, shape)) for i in flat]


@contextmanager
def _moved(arguments: list[Any], subject: _Subject, values: np.ndarray) -> Iterator[list[Any]]:
    """The arguments while a tensor has other values: another argument, or written in place."""
    x, place = subject.value, subject.argument
    if place is not None:
        # As in the first call: a function may differentiate in itself, or hang hooks somewhere.
        own = tensor(values, device=x.device, requires_grad=x.requires_grad)
        yield [*arguments[:place], own, *arguments[place + 1 :]]
        return
    before = x.detach().clone()
    try:
        x.copy_(tensor(values, device=x.device))
        yield arguments
    finally:
        x.copy_(before)
