"""Comparison of gradients on the tape with finite differences of the same function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..errors import ArgumentError, GradcheckError
from ..tensor import Tensor, tensor
from ..values.dtypes import DType, float32, float64
from .gradient import grad
from .tape import no_grad

_SEED = 0
# eps, atol, rtol. In float64 they are PyTorch's; in float32 eps is near the cube root of the
# rounding error, where rounding and truncation of a central difference are equally large.
_TOLERANCES = {float64: (1e-6, 1e-5, 1e-3), float32: (5e-3, 5e-3, 1e-2)}


def gradcheck(
    fn: Callable[..., Tensor | Sequence[Tensor]],
    inputs: Tensor | Sequence[Any],
    *,
    eps: float | None = None,
    atol: float | None = None,
    rtol: float | None = None,
    raise_exception: bool = True,
    samples: int = 64,
    dtype: DType | None = None,
) -> bool:
    """Whether the gradients of a function agree with central differences of its values.

    The outputs are weighted at random and summed; the gradient of that sum is compared entry by
    entry: ``|numeric - analytic| <= atol + rtol * |analytic|``.

    Args:
        fn: of tensors, to one tensor or several; the same at every call, and smooth at the inputs.
        inputs: its arguments; tensors that require a gradient are checked, away from their memory.
        eps: how far an entry is moved to both sides; None: 1e-6 in float64, 5e-3 in float32.
        atol: tolerated difference; None: 1e-5 in float64, 5e-3 in float32.
        rtol: tolerated part of the gradient; None: 1e-3 in float64, 1e-2 in float32.
        raise_exception: whether a difference is an error, or gives False.
        samples: entries of each input that are checked, evenly drawn where there are more.
        dtype: the dtype floating inputs are converted to; None: float64 where the device has it,
            else float32.

    Returns:
        True if they agree.

    Raises:
        GradcheckError: at the first entry that disagrees, unless ``raise_exception`` is False.
        ArgumentError: if no input requires a gradient, or no output does.
    """
    given = [inputs] if isinstance(inputs, Tensor) else list(inputs)
    checked = [i for i, x in enumerate(given) if isinstance(x, Tensor) and x.requires_grad]
    if not checked:
        raise ArgumentError("gradcheck", "an input requires a gradient", inputs=len(given))
    if dtype is None:
        dtype = float64 if given[checked[0]].device.traits.float64 else float32
    defaults = _TOLERANCES.get(dtype, _TOLERANCES[float32])
    step, absolute, relative = (
        d if v is None else v for v, d in zip((eps, atol, rtol), defaults, strict=True)
    )
    arguments = [_leaf(x, dtype) for x in given]
    weights, analytic = _analytic(fn, arguments, checked)
    for position, gradient in zip(checked, analytic, strict=True):
        for index in _sampled(gradient.shape, samples):
            numeric = _numeric(fn, arguments, weights, position, index, step)
            found = float(gradient[index])
            if abs(numeric - found) <= absolute + relative * abs(found):
                continue
            if not raise_exception:
                return False
            raise GradcheckError(
                "gradcheck",
                "the gradient differs from central differences",
                input=position,
                index=index,
                numeric=numeric,
                analytic=found,
                atol=absolute,
                rtol=relative,
            )
    return True


def _leaf(x: Any, dtype: DType) -> Any:
    """A copy of an input, in the dtype of the check."""
    if not isinstance(x, Tensor):
        return x
    kind = dtype if x.dtype.is_floating_point else x.dtype
    return tensor(x, dtype=kind, device=x.device, requires_grad=x.requires_grad)


def _outputs(fn: Callable[..., Any], arguments: list[Any]) -> list[Tensor]:
    result = fn(*arguments)
    results = [result] if isinstance(result, Tensor) else list(result)
    return [y for y in results if y.dtype.is_floating_point]


def _analytic(
    fn: Callable[..., Any], arguments: list[Any], checked: list[int]
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Weights of the outputs, and gradients of their weighted sum, on the host."""
    rng = np.random.default_rng(_SEED)
    outputs = _outputs(fn, arguments)
    weights = [rng.uniform(0.5, 1.5, y.shape) * rng.choice((-1, 1), y.shape) for y in outputs]
    roots = [(y, w) for y, w in zip(outputs, weights, strict=True) if y.requires_grad]
    if not roots:
        raise ArgumentError("gradcheck", "an output requires a gradient", outputs=len(outputs))
    gradients = grad(
        [y for y, _ in roots],
        [arguments[i] for i in checked],
        [tensor(w.astype(y.dtype.numpy), device=y.device) for y, w in roots],
        allow_unused=True,
    )
    return weights, [
        np.zeros(arguments[i].shape) if g is None else np.asarray(g)
        for i, g in zip(checked, gradients, strict=True)
    ]


def _sampled(shape: tuple[int, ...], samples: int) -> list[tuple[int, ...]]:
    count = int(np.prod(shape))
    flat = np.arange(count)
    if count > samples:
        flat = np.sort(np.random.default_rng(_SEED).choice(count, samples, replace=False))
    return [tuple(int(n) for n in np.unravel_index(i, shape)) for i in flat]


def _numeric(
    fn: Callable[..., Any],
    arguments: list[Any],
    weights: list[np.ndarray],
    position: int,
    index: tuple[int, ...],
    eps: float,
) -> float:
    """The central difference of the weighted sum of the outputs in one entry of one input."""
    x: Tensor = arguments[position]
    sums: list[float] = []
    places: list[float] = []
    for side in (eps, -eps):
        moved = np.array(x)
        moved[index] += side
        places.append(float(moved[index]))  # what was really added, after rounding
        with no_grad():
            replaced = tensor(moved, device=x.device)
            outputs = _outputs(fn, [*arguments[:position], replaced, *arguments[position + 1 :]])
        sums.append(
            sum(
                float((w * np.asarray(y, np.float64)).sum())
                for w, y in zip(weights, outputs, strict=True)
            )
        )
    return (sums[0] - sums[1]) / (places[0] - places[1])
