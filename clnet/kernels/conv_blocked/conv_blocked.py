"""Convolution and its gradients between blocked arrays: which algorithm computes what.

The algorithms are in :mod:`.conv_blocked_direct`, :mod:`.conv_blocked_few`,
:mod:`.conv_blocked_weight`, :mod:`.conv_winograd` and :mod:`.conv_winograd_weight`. Each adds in a
fixed order: the same inputs give the same bits.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import inf
from typing import NamedTuple

from ...array import Array
from ...device import Launch, Target
from ..conv import ConvGeometry, ConvObstacle, ConvProblem, ConvTrial, Direction, Operands
from ..tuning import Tunable
from . import (
    conv_blocked_direct,
    conv_blocked_few_channels,
    conv_blocked_weight,
    conv_blocked_winograd,
    conv_blocked_winograd_weight,
)
from .blocked_form import BlockedAlgorithm, BlockedForm, block_size, unblockable

__all__ = [
    "BlockedAlgorithm",
    "BlockedForm",
    "ConvObstacle",
    "Direction",
    "block_size",
    "blocked_forward",
    "blocked_input_grad",
    "blocked_weight_grad",
    "choose_form",
    "considered",
    "obstacle",
    "pack_filters",
    "packed_size",
    "with_packing",
]


class FormChoice(NamedTuple):
    """Which form computes a convolution.

    Attributes:
        algorithm: a :class:`.BlockedAlgorithm`'s value.
    """

    algorithm: str

    def form(self, target: Target) -> BlockedForm:
        """The form, on a device that has blocks."""
        return BlockedForm(BlockedAlgorithm(self.algorithm), block_size(target.traits) or 1)


_PREFERRED = (
    BlockedAlgorithm.WINOGRAD4,
    BlockedAlgorithm.WINOGRAD2,
    BlockedAlgorithm.DIRECT,
    BlockedAlgorithm.FEW,
)
# Of fewer products, tiles of 6x6 save less time than can be measured in a step that packs filters;
# their rounding errors are twice a direct convolution's, and batch norms over few elements enlarge
# them: the gradients of a small densenet had 3.7 times PyTorch's errors by them.
LEAST_PRODUCTS = 2**24


def choose_form(
    target: Target,
    geometry: ConvGeometry,
    direction: Direction,
    *,
    winograd: bool = True,
    packing: bool = True,
) -> BlockedForm | None:
    """How to compute a float32 convolution between blocked arrays, or None if it stays plain.

    Args:
        target: what the device is like.
        geometry: the sizes.
        direction: what is computed.
        winograd: whether Winograd's transforms, whose rounding errors are larger, may be used.
        packing: whether the filters change, and are packed every time.

    Returns:
        The form; the forms of a convolution's three directions agree on the block, and those of
        its forward and weight gradient on whether ``x`` is plain.
    """
    forms = considered(target, geometry, direction, winograd=winograd, packing=packing)
    return next((form for form, against in forms if against is None), None)


def considered(
    target: Target,
    geometry: ConvGeometry,
    direction: Direction,
    *,
    winograd: bool = True,
    packing: bool = True,
) -> Iterator[tuple[BlockedForm, ConvObstacle | None]]:
    """The forms, the fastest first, each with what stands against it; the first free one is taken.

    Args:
        target: what the device is like.
        geometry: the sizes.
        direction: what is computed.
        winograd: whether Winograd's transforms may be used.
        packing: whether the filters are packed every time, as where it is measured.
    """
    forms = list(_ruled(target, geometry, direction, winograd=winograd, packing=packing))
    if not packing or all(against is not None for _, against in forms):
        yield from forms
        return
    problem = ConvProblem(direction.value, winograd, *geometry)
    taken = FORM.choose(target, problem).form(target)
    for form, against in forms:
        if form == taken:
            yield form, None
            return
        yield form, against or ConvObstacle.MEASURED
    yield taken, None


def _ruled(
    target: Target,
    geometry: ConvGeometry,
    direction: Direction,
    *,
    winograd: bool,
    packing: bool = True,
) -> Iterator[tuple[BlockedForm, ConvObstacle | None]]:
    """The forms by the rules that hold where nothing was measured."""
    block = block_size(target.traits)
    general = ConvObstacle.DEVICE if block is None else unblockable(geometry, block)
    forms = [BlockedForm(algorithm, block or 1) for algorithm in _PREFERRED]
    if general is not None:
        yield from ((form, general) for form in forms)
        return
    against = {form: _obstacle(target, geometry, direction, form, winograd) for form in forms}
    able = [form for form in forms if against[form] is None]
    if packing and geometry.flops < 2 * LEAST_PRODUCTS:
        able = [form for form in able if form.algorithm is not BlockedAlgorithm.WINOGRAD4] or able
    cheapest = min(able, key=lambda form: _cost(geometry, direction, form, packing), default=None)
    for form in forms:
        transformed = form.algorithm in conv_blocked_winograd.ALGORITHMS
        dear = transformed and against[form] is None and form != cheapest
        yield form, ConvObstacle.PIXELS if dear else against[form]


def _obstacle(
    target: Target,
    geometry: ConvGeometry,
    direction: Direction,
    form: BlockedForm,
    winograd: bool,  # noqa: FBT001 - private
) -> ConvObstacle | None:
    """What forbids a form."""
    if form.algorithm in conv_blocked_winograd.ALGORITHMS and not winograd:
        return ConvObstacle.FORBIDDEN
    return obstacle(target, geometry, direction, form)


def _cost(
    geometry: ConvGeometry,
    direction: Direction,
    form: BlockedForm,
    packing: bool,  # noqa: FBT001 - private
) -> float:
    """What orders the forms: an estimate, or a rule for weight gradients."""
    if form.plain_x:
        return inf
    if direction is not Direction.WEIGHT_GRAD:
        return conv_blocked_winograd.cost(geometry, direction, form, packing=packing)
    transformed = form.algorithm in conv_blocked_winograd.ALGORITHMS
    pays = not transformed or conv_blocked_winograd_weight.pays(geometry, form)
    return _PREFERRED.index(form.algorithm) if pays else len(_PREFERRED)


def obstacle(
    target: Target, geometry: ConvGeometry, direction: Direction, form: BlockedForm
) -> ConvObstacle | None:
    """Why a form does not compute a convolution within the target's scratch memory; None: it does.

    Args:
        target: what the device is like.
        geometry: the sizes; some blocked form is possible.
        direction: what is computed.
        form: how.
    """
    if form.algorithm in conv_blocked_winograd.ALGORITHMS:
        if direction is Direction.WEIGHT_GRAD:
            return conv_blocked_winograd_weight.obstacle(target, geometry, form)
        return conv_blocked_winograd.obstacle(target, geometry, direction, form)
    if form.plain_x:
        few = conv_blocked_few_channels.fits(target, geometry, direction)
        return None if few else ConvObstacle.CHANNELS
    if geometry.ic % form.block:
        return ConvObstacle.CHANNELS
    if direction is Direction.WEIGHT_GRAD and not conv_blocked_weight.fits(target, geometry):
        return ConvObstacle.WORKSPACE
    return None


def packed_size(geometry: ConvGeometry, direction: Direction, form: BlockedForm) -> int:
    """Elements of the packed filters.

    Args:
        geometry: the sizes.
        direction: forward or input gradient.
        form: how it is computed.
    """
    if form.algorithm in conv_blocked_winograd.ALGORITHMS:
        return conv_blocked_winograd.packed_size(geometry, form)
    return conv_blocked_direct.packed_size(geometry, direction, form)


def pack_filters(
    target: Target,
    packed: Array,
    weight: Array,
    geometry: ConvGeometry,
    direction: Direction,
    form: BlockedForm,
) -> list[Launch]:
    """Bring filters into the order, or the transform, that a blocked convolution reads.

    Args:
        target: what the device is like.
        packed: ``(packed_size(...),)``, dense.
        weight: ``(oc, ic, kh, kw)``, dense.
        geometry: the sizes.
        direction: forward or input gradient.
        form: how it is computed.

    Returns:
        The launches.
    """
    if form.algorithm in conv_blocked_winograd.ALGORITHMS:
        return [conv_blocked_winograd.pack(target, packed, weight, geometry, direction, form)]
    if form.plain_x:
        return [conv_blocked_few_channels.pack(packed, weight, geometry, form)]
    return [conv_blocked_direct.pack(target, packed, weight, geometry, direction, form)]


def blocked_forward(
    target: Target,
    y: Array,
    x: Array,
    packed: Array,
    bias: Array | None,
    geometry: ConvGeometry,
    form: BlockedForm,
    *,
    added: Array | None = None,
    activation: str | None = None,
) -> list[Launch]:
    """``y[n, o] = activation(sum_c x[n, c] * weight[o, c] + bias[o] + added[n, o])``.

    It is the cross-correlation.

    Args:
        target: what the device is like.
        y: ``form.y_shape(geometry)``, dense float32.
        x: ``form.x_shape(geometry)``, dense.
        packed: what :func:`pack_filters` made for this direction and form.
        bias: ``(oc,)``, dense, or None.
        geometry: the sizes.
        form: how it is computed.
        added: like ``y``, dense, or None; None where the form has a plain ``x``.
        activation: None or ``"relu"``.

    Returns:
        The launches, in order.
    """
    if form.algorithm in conv_blocked_winograd.ALGORITHMS:
        return [
            conv_blocked_winograd.convolve(
                target, y, x, packed, bias, geometry, Direction.FORWARD, form,
                added=added, activation=activation,
            )
        ]  # fmt: skip
    if form.plain_x:
        few = conv_blocked_few_channels.forward
        return [few(target, y, x, packed, bias, geometry, form, activation=activation)]
    direct = conv_blocked_direct.forward
    return [direct(target, y, x, packed, bias, geometry, form, added=added, activation=activation)]


def blocked_input_grad(
    target: Target, gx: Array, gy: Array, packed: Array, geometry: ConvGeometry, form: BlockedForm
) -> list[Launch]:
    """``gx``: the gradient that arrives at ``x``.

    Args:
        target: what the device is like.
        gx: ``form.x_shape(geometry)``, dense float32.
        gy: ``form.y_shape(geometry)``, dense.
        packed: what :func:`pack_filters` made for this direction and form.
        geometry: the sizes.
        form: how it is computed.

    Returns:
        The launches, in order.
    """
    if form.algorithm in conv_blocked_winograd.ALGORITHMS:
        return [
            conv_blocked_winograd.convolve(
                target, gx, gy, packed, None, geometry, Direction.INPUT_GRAD, form
            )
        ]
    return [conv_blocked_direct.input_grad(target, gx, gy, packed, geometry, form)]


def blocked_weight_grad(
    target: Target, gw: Array, gy: Array, x: Array, geometry: ConvGeometry, form: BlockedForm
) -> list[Launch]:
    """``gw``: the gradient that arrives at ``weight``.

    Args:
        target: what the device is like.
        gw: ``(oc, ic, kh, kw)``, dense float32.
        gy: ``form.y_shape(geometry)``, dense.
        x: ``form.x_shape(geometry)``, dense.
        geometry: the sizes.
        form: how it is computed.

    Returns:
        The launches, in order.
    """
    algorithm = conv_blocked_few_channels if form.plain_x else conv_blocked_weight
    if form.algorithm in conv_blocked_winograd.ALGORITHMS:
        algorithm = conv_blocked_winograd_weight
    return algorithm.weight_grad(target, gw, gy, x, geometry, form)


def _default(target: Target, problem: ConvProblem) -> FormChoice:
    ruled = _ruled(
        target, problem.geometry, Direction(problem.direction), winograd=problem.winograd
    )
    return FormChoice(next(form for form, against in ruled if against is None).algorithm.value)


def _candidates(target: Target, problem: ConvProblem) -> list[FormChoice]:
    """The default, then what else computes it from the same arrays, few pixels or many."""
    default = _default(target, problem)
    found = [default]
    for algorithm in BlockedAlgorithm:
        form = BlockedForm(algorithm, default.form(target).block)
        allowed = problem.winograd or algorithm not in conv_blocked_winograd.ALGORITHMS
        alike = form.plain_x == default.form(target).plain_x
        direction = Direction(problem.direction)
        if allowed and alike and obstacle(target, problem.geometry, direction, form) is None:
            found.append(FormChoice(algorithm.value))
    return list(dict.fromkeys(found))


def with_packing(target: Target, operands: Operands, choice: FormChoice) -> list[Launch]:
    """Packing of the filters, which every update asks for, and the convolution.

    Args:
        target: what the device is like.
        operands: what is computed of what, blocked as the form wants.
        choice: the form.

    Returns:
        The launches, in order.
    """
    g, direction, form = operands.geometry, operands.direction, choice.form(target)
    if direction is Direction.WEIGHT_GRAD:
        return blocked_weight_grad(target, operands.weight, operands.y, operands.x, g, form)
    packed = operands.packed(packed_size(g, direction, form))
    launches = pack_filters(target, packed, operands.weight, g, direction, form)
    if direction is Direction.FORWARD:
        return [
            *launches,
            *blocked_forward(target, operands.y, operands.x, packed, None, g, form),
        ]
    return [*launches, *blocked_input_grad(target, operands.x, operands.y, packed, g, form)]


FORM = Tunable(
    "conv_blocked",
    version=2,
    problem=ConvProblem,
    choice=FormChoice,
    default=_default,
    candidates=_candidates,
    trial=lambda where, problem: ConvTrial(
        where, problem, _default(where.target, problem).form(where.target), with_packing
    ),
)
