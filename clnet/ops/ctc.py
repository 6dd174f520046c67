"""Connectionist temporal classification: the forward recursion in log space, in one launch."""

# Bodies are called with symbols and say so here, once.
# pyrefly: ignore-errors[implicit-any-parameter]

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import expr as e
from ..array import Array
from ..device import Check, Launch, Target
from ..errors import ArgumentError, DataDomainError, DtypeError, ShapeError
from ..kernels.recurrent import NEVER, alignments, alignments_backward
from ..kernels.reduce import Bad
from ..values.arguments import is_tensor, shown
from ..values.dtypes import Kind, int32, int64
from .arithmetic import clamp, eq, gt, logical_and, lt, ne, where
from .check import of_index, of_value, require_elements
from .create import full_like, positions
from .index import gather_within, select_within
from .join import cat, stack
from .loss import known_reduction, reduced
from .machinery.autocast import computes_as_one
from .machinery.function import (
    Arrays,
    Face,
    Function,
    Grads,
    Needs,
    Saved,
    apply,
    op,
    require_floating,
)
from .machinery.pointwise import evaluate
from .reduce import widened
from .shape import contiguous, expand, narrow, reshape, to_dtype, unsqueeze

if TYPE_CHECKING:
    from ..tensor import Tensor

Lengths = Any
"""A tensor of whole numbers, or a sequence of them."""


class Alignments(Function):
    """Minus the logarithms of what all ways through a sequence amount to.

    Inputs: logarithms of what is emitted, ``(steps, n, classes)``; targets, ``(n, size)``; steps of
    sequences and classes of targets, ``(n,)``; int64. Further outputs are what backward reads.
    """

    sixteen_bit = False
    differentiable = (0,)
    saved_inputs = (0, 2, 3)
    saved_outputs = (1, 2)
    repeats = True
    op_name = "ctc_loss"

    blank: int
    check: Check | None = None

    def infer(self, emitted: Array, targets: Array, *lengths: Array) -> tuple[Array, ...]:
        """``(n,)``, and of states ``(steps, n, 2, size + 1)`` and ``(n, size)``."""
        del lengths
        steps, n, _ = emitted.shape
        states = (steps, n, 2, targets.shape[1] + 1)
        kinds = (((n,), emitted.dtype), (states, emitted.dtype), (targets.shape, int32))
        return tuple(Array.abstract(*kind, emitted.device) for kind in kinds)

    def lower(self, target: Target, outputs: Arrays, inputs: Arrays) -> list[Launch]:
        """One launch."""
        emitted, targets, *lengths = inputs
        options: Any = {"blank": self.blank, "check": self.check}
        return alignments(target, outputs, emitted, targets, lengths, **options)

    def backward(self, saved: Saved, grads: Grads, needs: Needs) -> Grads:
        """Back through the steps, and states added up by classes."""
        states = (saved.outputs[i].detach() for i in (1, 2))
        given = (contiguous(grads[0]), *states, *(saved.inputs[i] for i in (0, 2, 3)))
        return apply(AlignmentsBackward(self.blank), *given)[0], None, None, None

    def decompose(self, emitted: Tensor, targets: Tensor, *lengths: Tensor) -> tuple[Any, ...]:
        """Step by step."""
        steps, counts = lengths
        return _composed(emitted, targets, steps, counts, self.blank)


class AlignmentsBackward(Function):
    """The gradient of :class:`Alignments` to what is emitted."""

    sixteen_bit = False
    differentiable = (0,)
    repeats = True
    op_name = "ctc_loss_backward"

    blank: int

    def infer(
        self, g: Array, alpha: Array, codes: Array, emitted: Array, *lengths: Array
    ) -> tuple[Array, ...]:
        """Of the shape of what is emitted, and of states."""
        del g, codes, lengths
        return tuple(Array.abstract(x.shape, x.dtype, x.device) for x in (emitted, alpha))

    def lower(self, target: Target, outputs: Arrays, inputs: Arrays) -> list[Launch]:
        """Three launches."""
        g, alpha, codes, emitted, *lengths = inputs
        given: Any = (g, (alpha, codes), emitted, lengths)
        return alignments_backward(target, outputs, *given, blank=self.blank)


@op(Face.FUNCTION | Face.FUNCTIONAL)
@computes_as_one
def ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Lengths,
    target_lengths: Lengths,
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,  # noqa: FBT001, FBT002 - PyTorch's
) -> Tensor:
    """Minus the logarithm of the probability of all alignments (Graves et al. 2006).

    Args:
        log_probs: ``(steps, n, classes)``, logarithms of probabilities; ``(steps, classes)`` of one
            sequence, whose lengths have no axes or one element.
        targets: ``(n, length)``, classes but for the blank; what lies behind a target's length does
            not count. Or all targets one after another, ``(sum of lengths,)``; that reads the
            lengths on the host, which waits for the device if they are a tensor.
        input_lengths: ``(n,)``, steps of each sequence; a tensor or whole numbers.
        target_lengths: ``(n,)``, classes of each target, the same.
        blank: the class that stands for none.
        reduction: ``"mean"`` (of the losses over the targets' lengths), ``"sum"`` or ``"none"``.
        zero_infinity: a target that does not fit into its sequence costs 0 instead of infinity.

    Returns:
        One element, or ``(n,)``.

    Raises:
        ArgumentError: if ``reduction`` is none of these, or there is no class ``blank``.
        DtypeError: if ``log_probs`` is not floating, or lengths are not whole numbers.
        ShapeError: if the shapes do not fit.
        DataBoundsError: at the next synchronisation, if a target holds what is no class.
        DataDomainError: if a length is below 0 or above what there is; of lengths in a tensor at
            the next synchronisation.
    """
    reduction = known_reduction("ctc_loss", reduction)
    require_floating("ctc_loss", log_probs.array)
    given = {"input_lengths": input_lengths, "target_lengths": target_lengths}
    for name, lengths in given.items():
        if not (is_tensor(lengths) or _is_whole(lengths)):
            law = f"{name} is a tensor or a sequence of whole numbers of 64 bits"
            raise DtypeError("ctc_loss", law, **{name: shown(lengths)})
    if log_probs.ndim == 2:
        if targets.ndim == 2 and targets.shape[0] != 1:
            law = "one sequence has one target"
            raise ShapeError("ctc_loss", law, log_probs=log_probs.shape, targets=targets.shape)
        steps, labels = (
            reshape(n, (1,)) if is_tensor(n) and n.ndim == 0 else n for n in given.values()
        )
        whole = reshape(log_probs, (log_probs.shape[0], 1, log_probs.shape[1]))
        found = ctc_loss(whole, targets, steps, labels, blank, reduction, zero_infinity)
        return reshape(found, ())
    input_lengths, target_lengths = (_on(log_probs, n) for n in given.values())
    for name, lengths in (("input_lengths", input_lengths), ("target_lengths", target_lengths)):
        if lengths.dtype.kind is not Kind.INTEGER:
            raise DtypeError("ctc_loss", f"{name} are whole numbers", dtype=lengths.dtype)
    lengths = (input_lengths.shape, target_lengths.shape)
    if targets.ndim == target_lengths.ndim == 1:
        targets = _rows(targets, target_lengths)
    batch = log_probs.shape[1:2]
    if log_probs.ndim != 3 or targets.ndim != 2 or {*lengths, targets.shape[:1]} != {batch}:
        raise ShapeError(
            "ctc_loss",
            "log_probs is (steps, n, classes), targets (n, length), the lengths (n,)",
            log_probs=log_probs.shape,
            targets=targets.shape,
            lengths=lengths,
        )
    if not 0 <= blank < log_probs.shape[2] or log_probs.shape[0] == 0:
        raise ArgumentError(
            "ctc_loss", "there are steps, and a class blank", log_probs=log_probs.shape, blank=blank
        )
    for name, most in (("input_lengths", log_probs.shape[0]), ("target_lengths", targets.shape[1])):
        _check_lengths(name, given[name], most)
    targets, *whole = (to_dtype(x, int64) for x in (targets, input_lengths, target_lengths))
    losses = _losses(widened(log_probs), targets, whole[0], whole[1], blank)
    impossible = gt(losses.detach(), -NEVER / 2)
    losses = where(impossible, 0.0 if zero_infinity else float("inf"), losses)
    if reduction == "mean":
        losses = losses / to_dtype(clamp(target_lengths, min=1), losses.dtype)
    return to_dtype(reduced(losses, reduction), log_probs.dtype)


def _is_whole(lengths: object) -> bool:
    if isinstance(lengths, str | bytes) or not isinstance(lengths, Sequence):
        return False
    return all(isinstance(n, Integral) and -(2**63) <= int(n) < 2**63 for n in lengths)


def _on(log_probs: Tensor, lengths: Lengths) -> Tensor:
    """Lengths as a tensor beside the probabilities."""
    if not isinstance(lengths, Sequence):
        return lengths
    return type(log_probs.detach())(Array.from_numpy(np.array(lengths, int), log_probs.device))


def _check_lengths(name: str, lengths: Lengths, most: int) -> None:
    """Check lengths, those of a tensor on the device."""
    law = f"it lies in [0, {most}]"
    if not isinstance(lengths, Sequence):
        require_elements(lengths, of_value("ctc_loss", name, law), Bad.OUTSIDE, 0, most)
    elif not all(0 <= length <= most for length in lengths):
        raise DataDomainError("ctc_loss", f"{name}: {law}", lengths=list(lengths))


def _rows(targets: Tensor, target_lengths: Tensor) -> Tensor:
    """Targets that lie one after another, each as a row; what follows its end does not count."""
    lengths = target_lengths.tolist()
    if sum(lengths) != targets.shape[0] or min(lengths, default=0) < 0:
        raise ShapeError(
            "ctc_loss", "targets hold as many classes as the lengths say", targets=targets.shape,
            target_lengths=lengths,
        )  # fmt: skip
    first = np.cumsum([0, *lengths])[:-1]
    longest = max(lengths, default=0)
    places = np.minimum(first[:, None] + np.arange(longest), max(sum(lengths) - 1, 0))
    index = type(targets)(Array.from_numpy(places, targets.device))
    return reshape(select_within(targets, reshape(index, (places.size,))), places.shape)


def _losses(
    log_probs: Tensor, targets: Tensor, input_lengths: Tensor, target_lengths: Tensor, blank: int
) -> Tensor:
    if targets.shape[1] == 0:
        targets = full_like(unsqueeze(target_lengths, 1), blank)
    check = of_index("ctc_loss", "targets", size="classes")
    given = map(contiguous, (log_probs, targets, input_lengths, target_lengths))
    return apply(Alignments(blank, check), *given)[0]


def _composed(
    log_probs: Tensor, targets: Tensor, input_lengths: Tensor, target_lengths: Tensor, blank: int
) -> tuple[Any, ...]:
    """What :class:`Alignments` gives; states in a row, blanks and classes in turn."""
    steps, n, _ = log_probs.shape
    within = lt(positions(type(targets), targets.shape[1], targets.device), target_lengths[:, None])
    targets = where(within, targets, blank)
    blanks = full_like(targets, blank)
    pairs = reshape(stack([blanks, targets], -1), (n, 2 * targets.shape[1]))
    labels = cat([pairs, full_like(input_lengths, blank, dtype=int64).unsqueeze(1)], 1)
    none = full_like(narrow(labels, 1, 0, 1), blank)
    before = narrow(cat([none, none, labels], 1), 1, 0, labels.shape[1])
    skips = to_dtype(logical_and(ne(labels, blank), ne(labels, before)), int32)
    index = contiguous(expand(labels, (steps, *labels.shape)))
    emitted = gather_within(log_probs, 2, index)
    place = positions(type(skips), skips.shape[1], skips.device)
    alpha = where(lt(place, 2), emitted[0], NEVER)
    every = [alpha]
    for t in range(1, steps):
        operands: list[Any] = [
            alpha, _shifted(alpha, 1), _shifted(alpha, 2), skips, emitted[t],
            unsqueeze(gt(input_lengths, t), 1),
        ]  # fmt: skip
        alpha = evaluate("ctc_loss", _advance, operands)
        every.append(alpha)
    last = unsqueeze(2 * target_lengths, 1)
    at_blank = gather_within(alpha, 1, last)
    at_label = where(gt(last, 0), gather_within(alpha, 1, clamp(last - 1, min=0)), NEVER)
    found = reshape(evaluate("ctc_loss", _either, [at_blank, at_label]), (n,))
    nothing = where(eq(target_lengths, 0), 0.0, NEVER)  # of no steps: certain where no class is
    losses = -where(gt(input_lengths, 0), found, nothing)
    states = stack(every)
    states = cat([states, full_like(narrow(states, 2, 0, 1), NEVER)], 2)
    apart = reshape(states, (steps, n, targets.shape[1] + 1, 2)).transpose(2, 3)
    code = to_dtype(2 * targets, int32) + skips[:, 1::2]
    return losses, contiguous(apart), code


def _shifted(x: Tensor, by: int) -> Tensor:
    """Moved to later places, with what stands for log(0) at the first."""
    by = min(by, x.shape[1])
    return cat([full_like(narrow(x, 1, 0, by), NEVER), narrow(x, 1, 0, x.shape[1] - by)], 1)


def _advance(stay, one, two, skips, emitted, runs):
    two = e.where(skips, two, NEVER)
    top = e.maximum(e.maximum(stay, one), two)
    total = e.exp(stay - top) + e.exp(one - top) + e.exp(two - top)
    return e.where(runs, e.maximum(top + e.log(total) + emitted, NEVER), stay)


def _either(a, b):
    top = e.maximum(a, b)
    return top + e.log(e.exp(a - top) + e.exp(b - top))
