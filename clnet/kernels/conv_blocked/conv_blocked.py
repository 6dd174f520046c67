"""Convolution and its gradients between blocked arrays: which algorithm computes what.

Each algorithm is a module with ``obstacle``, ``packed_size``, ``pack``, ``forward`` and
``input_grad``, and one with ``weight_obstacle`` and ``weight_grad``, in the table ``_WAYS``. Every
one of them adds in a fixed order: the same inputs give the same bits.

Arrays are dense and float32: ``x`` and ``gx`` shaped ``form.x_shape(geometry)``, ``y`` and ``gy``
``form.y_shape(geometry)``, filters ``(oc, ic, kh, kw)``, packed ones ``(packed_size(...),)``, made
by :func:`pack_filters` for the same direction and form.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import inf
from typing import Any

from ...array import Array
from ...device import Launch, Target
from ...values.record import NamedTuple
from ..conv import (
    ConvGeometry,
    ConvObstacle,
    ConvProblem,
    ConvTrial,
    Direction,
    Operands,
    log_choice,
)
from ..epilogue import NO_EPILOGUE, Epilogue
from ..tuning import Tunable
from . import (
    conv_blocked_depthwise,
    conv_blocked_direct,
    conv_blocked_few_channels,
    conv_blocked_grouped,
    conv_blocked_grouped_weight,
    conv_blocked_weight,
    conv_blocked_winograd,
    conv_blocked_winograd_weight,
)
from .blocked_form import BlockedAlgorithm, BlockedForm, block_size, depthwise, unblockable

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


class _Way(NamedTuple):
    """What an algorithm does.

    Attributes:
        obstacle: why it does not compute a convolution or its input gradient, of target, geometry,
            direction and form.
        packed_size: :func:`packed_size`.
        pack: the launch of :func:`pack_filters`, from the same arguments.
        forward: that of :func:`blocked_forward`.
        input_grad: that of :func:`blocked_input_grad`.
        weight_obstacle: why it does not compute the weight gradient, of target, geometry and form.
        weight_grad: the launches of :func:`blocked_weight_grad`.
    """

    obstacle: Callable[[Target, ConvGeometry, Direction, BlockedForm], ConvObstacle | None]
    packed_size: Callable[[ConvGeometry, Direction, BlockedForm], int]
    pack: Callable[..., Launch]
    forward: Callable[..., Launch]
    input_grad: Callable[..., Launch]
    weight_obstacle: Callable[[Target, ConvGeometry, BlockedForm], ConvObstacle | None]
    weight_grad: Callable[..., list[Launch]]


def _way_of(module: Any, weight_module: Any) -> _Way:
    return _Way(
        *(module.obstacle, module.packed_size, module.pack, module.forward, module.input_grad),
        *(weight_module.weight_obstacle, weight_module.weight_grad),
    )


_DIRECT = _way_of(conv_blocked_direct, conv_blocked_weight)
_WINOGRAD = _way_of(conv_blocked_winograd, conv_blocked_winograd_weight)
# The fastest first, where nothing else is known.
_WAYS = {
    BlockedAlgorithm.WINOGRAD4: _WINOGRAD,
    BlockedAlgorithm.WINOGRAD2: _WINOGRAD,
    BlockedAlgorithm.DIRECT: _DIRECT,
    BlockedAlgorithm.FEW: _DIRECT._replace(
        obstacle=conv_blocked_few_channels.obstacle,
        forward=conv_blocked_few_channels.forward,
        weight_obstacle=conv_blocked_few_channels.weight_obstacle,
        weight_grad=conv_blocked_few_channels.weight_grad,
    ),
    BlockedAlgorithm.DEPTHWISE: _way_of(conv_blocked_depthwise, conv_blocked_depthwise),
    BlockedAlgorithm.GROUPED: _way_of(conv_blocked_grouped, conv_blocked_grouped_weight),
}
_PREFERRED = tuple(_WAYS)
_OF_CHANNELS, _OF_GROUPS = (BlockedAlgorithm.DEPTHWISE,), (BlockedAlgorithm.GROUPED,)
_OF_ALL_CHANNELS = tuple(way for way in _PREFERRED if way not in _OF_CHANNELS + _OF_GROUPS)


class FormChoice(NamedTuple):
    """Which form computes a convolution.

    Attributes:
        algorithm: a :class:`.BlockedAlgorithm`'s value.
    """

    algorithm: str

    def form(self, target: Target) -> BlockedForm:
        """The form, on a device that has blocks."""
        return BlockedForm(BlockedAlgorithm(self.algorithm), block_size(target.traits) or 1)


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

    The arguments are those of :func:`choose_form`; forms are measured where filters are packed.
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
    forms = [BlockedForm(algorithm, block or 1) for algorithm in _ways_of(geometry)]
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


def _ways_of(geometry: ConvGeometry) -> tuple[BlockedAlgorithm, ...]:
    if depthwise(geometry):
        return _OF_CHANNELS
    return _OF_GROUPS if geometry.groups > 1 else _OF_ALL_CHANNELS


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
    """What orders the forms: an estimate, in multiplications."""
    if form.plain_x:
        return inf
    if direction is not Direction.WEIGHT_GRAD:
        return conv_blocked_winograd.cost(geometry, direction, form, packing=packing)
    return conv_blocked_winograd_weight.cost(geometry, form)


def obstacle(
    target: Target, geometry: ConvGeometry, direction: Direction, form: BlockedForm
) -> ConvObstacle | None:
    """Why a form does not compute a convolution within the target's scratch memory; None: it does.

    Some blocked form of the geometry is possible.
    """
    way = _WAYS[form.algorithm]
    if direction is Direction.WEIGHT_GRAD:
        return way.weight_obstacle(target, geometry, form)
    return way.obstacle(target, geometry, direction, form)


def packed_size(geometry: ConvGeometry, direction: Direction, form: BlockedForm) -> int:
    """Elements of the packed filters, of the forward pass or the input gradient."""
    return _WAYS[form.algorithm].packed_size(geometry, direction, form)


def pack_filters(
    target: Target,
    packed: Array,
    weight: Array,
    geometry: ConvGeometry,
    direction: Direction,
    form: BlockedForm,
) -> list[Launch]:
    """Bring filters into the order, or the transform, that a blocked convolution reads."""
    way = _WAYS[form.algorithm]
    return [way.pack(target, packed, weight, geometry, direction, form)]


def blocked_forward(
    target: Target,
    y: Array,
    x: Array,
    packed: Array,
    geometry: ConvGeometry,
    form: BlockedForm,
    epilogue: Epilogue = NO_EPILOGUE,
) -> list[Launch]:
    """``y[n, o] = epilogue(sum_c x[n, c] * weight[o, c])``, the cross-correlation.

    Nothing is added to the sums where the form has a plain ``x``.
    """
    _log(geometry, Direction.FORWARD, y, form)
    return [_WAYS[form.algorithm].forward(target, y, x, packed, geometry, form, epilogue)]


def blocked_input_grad(
    target: Target, gx: Array, gy: Array, packed: Array, geometry: ConvGeometry, form: BlockedForm
) -> list[Launch]:
    """``gx``: the gradient that arrives at ``x``."""
    _log(geometry, Direction.INPUT_GRAD, gx, form)
    return [_WAYS[form.algorithm].input_grad(target, gx, gy, packed, geometry, form)]


def blocked_weight_grad(
    target: Target, gw: Array, gy: Array, x: Array, geometry: ConvGeometry, form: BlockedForm
) -> list[Launch]:
    """``gw``: the gradient that arrives at ``weight``."""
    _log(geometry, Direction.WEIGHT_GRAD, gw, form)
    return _WAYS[form.algorithm].weight_grad(target, gw, gy, x, geometry, form)


def _log(geometry: ConvGeometry, direction: Direction, result: Array, form: BlockedForm) -> None:
    log_choice(geometry, direction, result.dtype, f"blocked {form.algorithm.value}")


def _default(target: Target, problem: ConvProblem) -> FormChoice:
    ruled = _ruled(
        target, problem.geometry, Direction(problem.direction), winograd=problem.winograd
    )
    return FormChoice(next(form for form, against in ruled if against is None).algorithm.value)


def _candidates(target: Target, problem: ConvProblem) -> list[FormChoice]:
    """The default, then what else computes it from the same arrays, few pixels or many."""
    default = _default(target, problem)
    found = [default]
    for algorithm in _ways_of(problem.geometry):
        form = BlockedForm(algorithm, default.form(target).block)
        allowed = problem.winograd or algorithm not in conv_blocked_winograd.ALGORITHMS
        alike = form.plain_x == default.form(target).plain_x
        direction = Direction(problem.direction)
        if allowed and alike and obstacle(target, problem.geometry, direction, form) is None:
            found.append(FormChoice(algorithm.value))
    return list(dict.fromkeys(found))


def with_packing(target: Target, operands: Operands, choice: FormChoice) -> list[Launch]:
    """Packing of the filters, which every update asks for, and the convolution in a form."""
    g, direction, form = operands.geometry, operands.direction, choice.form(target)
    if direction is Direction.WEIGHT_GRAD:
        return blocked_weight_grad(target, operands.weight, operands.y, operands.x, g, form)
    packed = operands.packed(packed_size(g, direction, form))
    launches = pack_filters(target, packed, operands.weight, g, direction, form)
    if direction is Direction.FORWARD:
        return [
            *launches,
            *blocked_forward(target, operands.y, operands.x, packed, g, form),
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
