"""Matrix products that read their right operand where it lies, on devices with wide vectors.

Few rows use every element of b a few times, and short sums are bound by their results' way to
memory: panels would be one more pass over what is slow already.
"""

from __future__ import annotations

from ...device import Launch, Target
from ...values.record import NamedTuple
from ...values.shapes import ceil_div, round_up
from ..kernel import Constraint, Kernel, by_name, joined
from ..streaming import STREAM_BYTES
from .gemm_problem import Problem


class Block(NamedTuple):
    """A register block: its rows, and the vectors in a row."""

    rows: int
    vectors: int


class Cut(NamedTuple):
    """How the work is cut: the register block, and what a group computes of it at a time."""

    block: Block
    depth: int
    rows: int
    columns: int


UNPACKED = Kernel(
    "gemm_unpacked",
    "gemm/gemm_unpacked.mako",
    constraints=(Constraint("a_elements >= rows", "local memory holds a step of a's panel"),),
)

# Bytes of a vector register -> register blocks for few rows: the first with as many is taken, else
# several of the last. 32 registers of 64 bytes hold the sums, a row of b and an element of a.
FEW_ROWS = {
    64: (Block(4, 2), Block(8, 2), Block(11, 2), Block(16, 1)),
    32: (Block(4, 2), Block(6, 2), Block(8, 1)),
    16: (Block(4, 2), Block(6, 2), Block(8, 1)),
}
# ... and for short sums, whose rows of results are best long.
SHORT_SUMS = {64: Block(8, 3), 32: Block(6, 2), 16: Block(6, 2)}
LEAST_REGISTER, MOST_REGISTER = 16, 64
MOST_ROWS, MOST_STEPS = 16, 32
# Rows of b that are read at the same time: the processor fetches about so many streams ahead.
STREAMS = 16
# Few rows of so few products (a last layer's gradients, 20 us) take the block of short sums, which
# a step of the same network needs as well: one of their own takes 0.2 s to be built.
FEW_PRODUCTS = 2**19
# Below, a group would read too short a piece of each row, unless the rows are few.
LEAST_COLUMNS, FEW_STEPS = 512, 256
# Of b, for a group of short sums: it stays in the second-level cache.
B_BYTES = 512 * 1024
# Of results, for a group of short sums, as long as every unit has one and has not too many.
GROUP_BYTES, MOST_GROUPS_PER_UNIT = 64 * 1024, 4
# Vectors as short as rows of results are for batches of so many; of so many lanes at least.
MANY_ITEMS, LEAST_LANES = 64, 4
# Products of so little work are cheaper with columns left to scalars than with panels.
TINY = 4096
# Products of a batch for one group, as long as every unit has a few groups.
SHARE_PRODUCTS, UNITS_SHARE = 2**15, 4


def unpacked(target: Target, problem: Problem) -> list[Launch] | None:
    """The launch of a product of few rows, or of short sums, if its strides suit.

    Args:
        target: what the device is like.
        problem: the product, of float32 or float64, no axis of it empty.

    Returns:
        Its launch, or None if another kernel has to do it.
    """
    nbytes = min(max(4 * target.traits.simd_width, LEAST_REGISTER), MOST_REGISTER)
    width = nbytes // problem.out.dtype.itemsize
    many = problem.batch >= MANY_ITEMS
    if many:  # of few columns each, which would be left to scalars
        width = min(width, max(1 << problem.n.bit_length() - 1, LEAST_LANES))
    vectors, scalars = divmod(problem.n, width)
    dense = problem.out.strides[3] == 1 and problem.b.strides[3] == 1
    bias = problem.epilogue.bias
    if bias is not None and problem.epilogue.bias_axis == "n":
        dense &= bias.strides[0] == 1
    # A column beside the last whole vector costs as much as a vector.
    tiny = many and problem.m * problem.n * problem.k <= TINY
    if not dense or (4 * scalars > vectors and not tiny):
        return None
    units = target.traits.compute_units
    if problem.m <= MOST_ROWS:
        few = problem.m * problem.n * problem.k * problem.batch <= FEW_PRODUCTS
        blocks = (SHORT_SUMS[nbytes],) if few else FEW_ROWS[nbytes]
        cut = _few_rows(problem, blocks, width, units)
    else:
        cut = _short_sums(problem, SHORT_SUMS[nbytes], width, units)
    return None if cut is None else [_multiply(problem, width, cut, units)]


def _few_rows(problem: Problem, blocks: tuple[Block, ...], width: int, units: int) -> Cut | None:
    """All rows in every group, and one group for each unit, so that it reads long pieces of b."""
    if problem.n < LEAST_COLUMNS and problem.k > FEW_STEPS:
        return None
    block = next((b for b in blocks if b.rows >= problem.m), blocks[-1])
    groups = ceil_div(units, problem.batch)
    columns = round_up(ceil_div(problem.n, groups), block.vectors * width)
    return Cut(block, STREAMS, round_up(problem.m, block.rows), columns)


def _short_sums(problem: Problem, block: Block, width: int, units: int) -> Cut | None:
    """Some rows in every group, and all columns, unless b is too wide."""
    if problem.k > MOST_STEPS or problem.out.nbytes >= STREAM_BYTES:
        return None
    most = B_BYTES // (problem.k * problem.b.dtype.itemsize)
    columns = round_up(ceil_div(problem.n, ceil_div(problem.n, most)), block.vectors * width)
    wanted = min(problem.out.nbytes // GROUP_BYTES, MOST_GROUPS_PER_UNIT * units)
    groups = ceil_div(max(wanted, units), ceil_div(problem.n, columns) * problem.batch)
    return Cut(block, MOST_STEPS, round_up(ceil_div(problem.m, groups), block.rows), columns)


def _multiply(problem: Problem, width: int, cut: Cut, units: int) -> Launch:
    end = problem.end
    params = joined(
        by_name("ctype width rows vectors", problem.out.dtype.ctype, width, *cut.block),
        by_name("a_elements", round_up(cut.block.rows, width) * MOST_STEPS),
        by_name("bias", end.axis),
    )
    # A group of its own costs as much as some hundred products.
    each = problem.m * problem.n * problem.k
    units = UNITS_SHARE * units
    share = max(1, min(SHARE_PRODUCTS // each, ceil_div(problem.batch, units)))
    numbers = (end.finishes, end.relu, problem.batch, share)
    sizes = problem.sizes(cut.depth, cut.rows, cut.columns, *numbers)
    return UNPACKED.launch(
        params,
        problem.packed_args(sizes, bias=end.bias),
        global_size=(
            ceil_div(problem.m, cut.rows),
            ceil_div(problem.n, cut.columns),
            ceil_div(problem.batch, share),
        ),
        flops=problem.flops,
        bytes=problem.bytes,
    )
