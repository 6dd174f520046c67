"""Convolutions between blocked arrays, and their input gradients, by Winograd's transforms."""

from __future__ import annotations

from functools import cache

from ...array import Array
from ...device import Launch, Scratch, Target
from ...values.record import NamedTuple
from ...values.shapes import ceil_div, round_up
from ..conv import ConvGeometry, ConvObstacle, ConvProblem, ConvTrial, Direction, Operands
from ..epilogue import NO_EPILOGUE, Epilogue
from ..kernel import Kernel, by_name, joined
from ..streaming import streams_packed
from ..tuning import Tunable
from ..winograd import transforms
from .blocked_form import LEAST_BLOCK, BlockedAlgorithm, BlockedForm, block_size, vectors_of

__all__ = [
    "ALGORITHMS",
    "Matrix",
    "cost",
    "forward",
    "input_grad",
    "matrices_of",
    "misshapen",
    "obstacle",
    "pack",
    "packed_size",
]

Matrix = tuple[tuple[float, ...], ...]


class Transforms(NamedTuple):
    """The matrices of ``y = At ((G f Gt) * (Bt x B)) A``, by rows.

    Attributes:
        inputs: Bt.
        outputs: At.
        filters: G.
    """

    inputs: Matrix
    outputs: Matrix
    filters: Matrix


WINOGRAD = Kernel("conv_blocked_winograd", "conv_blocked/conv_blocked_winograd.mako")
PACK = Kernel("conv_blocked_winograd_pack", "conv_blocked/conv_blocked_winograd.mako")

# Results of a tile's side by the algorithm, whose tiles are as large for all filters, and the
# filters' side.
_RESULTS = {
    (BlockedAlgorithm.WINOGRAD2, 3): 2,
    (BlockedAlgorithm.WINOGRAD4, 3): 4,
    (BlockedAlgorithm.WINOGRAD4, 5): 2,
}
ALGORITHMS = frozenset(algorithm for algorithm, _ in _RESULTS)

# Block -> tiles of a register block of two vectors each; as in the direct convolution, but for the
# pointers: all of a block's inputs have one.
TILES = {16: 14, 8: 6, 4: 6}
# Transformed inputs of a block of tiles, which every panel reads: they and
# a panel's filters and sums stay in a core's own cache.
BLOCK_BYTES = 2**19
PACK_BYTES = 2**17
# Costs in multiplications: of a filter's number that is read, and made; of a transformed number of
# x, and of y. Fitted to 25 layers, forward and input gradients, on two cores with 512-bit vectors.
READ_COST, PACK_COST = 25, 75
INPUT_COST, OUTPUT_COST = 8, 10


class Split(NamedTuple):
    """How the tiles of a convolution are cut up.

    Attributes:
        strips: register blocks of tiles in a block.
        chunks: work-groups, each with blocks of its own.
        scratch_floats: floats of scratch memory for each of them.
    """

    strips: int
    chunks: int
    scratch_floats: int


def obstacle(
    target: Target, g: ConvGeometry, direction: Direction, form: BlockedForm
) -> ConvObstacle | None:
    """Why these transforms do not compute a convolution; None if they do."""
    if (found := misshapen(g, form)) is not None:
        return found
    split = _split(target, g, direction, form)
    return (
        None
        if 4 * split.chunks * split.scratch_floats <= target.workspace_limit
        else ConvObstacle.WORKSPACE
    )


def misshapen(g: ConvGeometry, form: BlockedForm) -> ConvObstacle | None:
    """What about a convolution's shape these transforms do not have."""
    square = g.kh == g.kw and (form.algorithm, g.kh) in _RESULTS
    if not square or (g.sh, g.sw, g.dh, g.dw) != (1, 1, 1, 1):
        return ConvObstacle.FILTERS
    return ConvObstacle.CHANNELS if g.ic % form.block else None


def matrices_of(g: ConvGeometry, form: BlockedForm) -> Transforms:
    """The matrices for a convolution's filters."""
    return _matrices(g.kh, _RESULTS[form.algorithm, g.kh])


@cache
def _matrices(size: int, tile: int) -> Transforms:
    found = transforms(size, tile)
    return Transforms(found.pixels.rows, found.results.rows, found.filters.rows)


def cost(g: ConvGeometry, direction: Direction, form: BlockedForm, *, packing: bool) -> float:
    """How long a convolution, or its input gradient, takes, in multiplications.

    Args:
        g: the sizes.
        direction: forward or input gradient.
        form: these transforms, or none.
        packing: whether filters are packed every time.
    """
    forward = direction is Direction.FORWARD
    outs, ins, height, width = (g.oc, g.ic, g.oh, g.ow) if forward else (g.ic, g.oc, g.h, g.w)
    of_filter = READ_COST + PACK_COST * packing
    if form.algorithm not in ALGORITHMS:
        return g.flops / 2 + g.oc * g.ic * g.taps * of_filter
    matrices = matrices_of(g, form)
    products, out = len(matrices.inputs) ** 2, len(matrices.outputs)
    tiles = g.n * ceil_div(height, out) * ceil_div(width, out)
    multiplied = round_up(tiles, TILES[form.block]) * outs * ins
    transformed = tiles * (ins * INPUT_COST + outs * OUTPUT_COST)
    return products * (multiplied + transformed + outs * ins * of_filter)


def packed_size(g: ConvGeometry, direction: Direction, form: BlockedForm) -> int:
    """Elements of the transformed filters."""
    del direction
    return g.oc * g.ic * len(matrices_of(g, form).inputs) ** 2


def pack(
    target: Target,
    packed: Array,
    weight: Array,
    g: ConvGeometry,
    direction: Direction,
    form: BlockedForm,
) -> Launch:
    """The launch that transforms; arguments are those of :func:`.conv_blocked.pack_filters`."""
    forward = direction is Direction.FORWARD
    outs, ins = (g.oc, g.ic) if forward else (g.ic, g.oc)
    steps = (g.ic * g.taps, g.taps)
    w_out, w_in = steps if forward else steps[::-1]
    vectors = vectors_of(outs, form.block)
    panels = outs // (vectors * form.block)
    chunks = min(ins, max(1, ceil_div(packed.nbytes // panels, PACK_BYTES)))
    streams = streams_packed(packed, form.block)
    return PACK.launch(
        joined(
            by_name("width vectors filters", form.block, vectors, matrices_of(g, form).filters),
            by_name("turned stream", not forward, streams),
        ),
        by_name("packed weight ins w_out w_in", packed, weight, ins, w_out, w_in),
        global_size=(panels, chunks),
        flops=0,
        bytes=packed.nbytes + weight.nbytes,
    )


def forward(
    target: Target,
    y: Array,
    x: Array,
    packed: Array,
    g: ConvGeometry,
    form: BlockedForm,
    epilogue: Epilogue,
) -> Launch:
    """The convolution; the arguments are those of :func:`.conv_blocked.blocked_forward`."""
    return _convolve(target, (y, x, packed), g, Direction.FORWARD, form, epilogue)


def input_grad(
    target: Target, gx: Array, gy: Array, packed: Array, g: ConvGeometry, form: BlockedForm
) -> Launch:
    """The gradient; the arguments are those of :func:`.conv_blocked.blocked_input_grad`."""
    return _convolve(target, (gx, gy, packed), g, Direction.INPUT_GRAD, form, NO_EPILOGUE)


def _convolve(
    target: Target,
    operands: tuple[Array, Array, Array],
    g: ConvGeometry,
    direction: Direction,
    form: BlockedForm,
    epilogue: Epilogue,
) -> Launch:
    """The launch on ``operands``: the result, what is convolved, and the packed filters."""
    y, x, packed = operands
    block = form.block
    matrices = matrices_of(g, form)
    out_blocks = y.shape[1]
    vectors = vectors_of(out_blocks * block, block)
    split = _split(target, g, direction, form, _strips(target, g, direction, form))
    memory = Scratch.beside(y.storage, x.storage, packed.storage)
    scratch = Array.scratch(memory, (split.chunks, split.scratch_floats), y.dtype)
    pads = g.ph, g.pw
    if direction is Direction.INPUT_GRAD:
        pads = g.kh - 1 - g.ph, g.kw - 1 - g.pw
    return WINOGRAD.launch(
        joined(
            by_name("width tiles vectors", block, TILES[block], vectors),
            by_name("inputs outputs", matrices.inputs, matrices.outputs),
            by_name("added", epilogue.added is not None),
            by_name("activation", epilogue.told_activation(form.block)),
        ),
        joined(
            by_name("y x packed added", *operands, epilogue.added),
            by_name("offsets", packed if epilogue.bias is None else epilogue.bias),
            by_name("biased", int(epilogue.bias is not None)),
            by_name("relu", int(epilogue.activation == "relu")),
            by_name("scratch images", scratch, y.shape[0]),
            by_name("in_blocks x_height x_width", *x.shape[1:4]),
            by_name("out_blocks y_height y_width", *y.shape[1:4]),
            by_name(
                "pad_down pad_right strips scratch_floats",
                *pads,
                split.strips,
                split.scratch_floats,
            ),
        ),
        global_size=(split.chunks,),
        flops=g.flops,
        bytes=x.nbytes + y.nbytes + packed.nbytes + epilogue.more_bytes,
    )


def _strips(target: Target, g: ConvGeometry, direction: Direction, form: BlockedForm) -> int | None:
    """The measured or usual strips of the larger transforms; None for the others'."""
    if form.algorithm is not BlockedAlgorithm.WINOGRAD4:
        return None
    return STRIPS.choose(target, ConvProblem(direction.value, True, *g)).strips


def _split(
    target: Target,
    g: ConvGeometry,
    direction: Direction,
    form: BlockedForm,
    strips: int | None = None,
) -> Split:
    """Blocks that fit a cache, and a work-group for each unit, whose scratch stays in its cache."""
    forward = direction is Direction.FORWARD
    outs, ins, height, width = (g.oc, g.ic, g.oh, g.ow) if forward else (g.ic, g.oc, g.h, g.w)
    matrices = matrices_of(g, form)
    products, out, tiles = len(matrices.inputs) ** 2, len(matrices.outputs), TILES[form.block]
    groups = ceil_div(g.n * ceil_div(height, out) * ceil_div(width, out), tiles)
    units = target.traits.compute_units
    if strips is None:
        strips = max(1, BLOCK_BYTES // (4 * products * tiles * ins))
    strips = max(1, min(strips, groups // units))
    lanes = vectors_of(outs, form.block) * form.block
    scratch_floats = products * (tiles * strips * (ins + lanes) + 2 * form.block)
    return Split(strips, min(ceil_div(groups, strips), units), scratch_floats)


class Strips(NamedTuple):
    """Register blocks of tiles whose inputs a work-group transforms before it multiplies them."""

    strips: int


def _form(target: Target) -> BlockedForm:
    return BlockedForm(BlockedAlgorithm.WINOGRAD4, block_size(target.traits) or LEAST_BLOCK)


def _default(target: Target, problem: ConvProblem) -> Strips:
    direction = Direction(problem.direction)
    return Strips(_split(target, problem.geometry, direction, _form(target)).strips)


def _candidates(target: Target, problem: ConvProblem) -> list[Strips]:
    """The default, then larger and smaller ones whose scratch memory fits."""
    default, found = _default(target, problem), list[Strips]()
    usual = default.strips
    for wanted in (2 * usual, usual // 2, 4 * usual, usual // 4,
                   3 * usual // 2, 3 * usual // 4, 8 * usual, 1):  # fmt: skip
        split = _split(
            target, problem.geometry, Direction(problem.direction), _form(target), max(wanted, 1)
        )
        if 4 * split.chunks * split.scratch_floats <= target.workspace_limit:
            found.append(Strips(split.strips))
    return list(dict.fromkeys((default, *found)))


def _lower(target: Target, operands: Operands, choice: Strips) -> list[Launch]:
    g, form, direction = operands.geometry, _form(target), operands.direction
    target = STRIPS.forced(target, operands.problem, choice)
    packed = operands.packed(packed_size(g, direction, form))
    first = pack(target, packed, operands.weight, g, direction, form)
    y, x = operands.y, operands.x
    if direction is Direction.INPUT_GRAD:
        return [first, input_grad(target, x, y, packed, g, form)]
    return [first, forward(target, y, x, packed, g, form, NO_EPILOGUE)]


STRIPS = Tunable(
    "conv_blocked_winograd",
    version=2,
    problem=ConvProblem,
    choice=Strips,
    default=_default,
    candidates=_candidates,
    trial=lambda where, problem: ConvTrial(where, problem, _form(where.target), _lower),
)
