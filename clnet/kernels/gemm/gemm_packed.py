"""Matrix products on devices where one work-item per group with wide vectors is fastest."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from ...array import Array
from ...device import DeviceTraits, Launch, Target, pair_macros
from ...values.dtypes import from_name
from ...values.record import NamedTuple
from ...values.shapes import ceil_div, round_up
from ..kernel import Constraint, Kernel, by_name, joined
from ..streaming import LINE_BYTES, STREAM_BYTES, aligned
from ..tuning import Tunable
from .gemm_any import sum_slices
from .gemm_pack import TICKETS, Panels, pack, place_panels, tickets
from .gemm_problem import Problem, Product
from .gemm_trial import ProductTrial


class PackedParams(NamedTuple):
    """Parameters of ``gemm_packed``; see its template."""

    ctype: str
    width: int
    rows: int
    vectors: int
    unroll: int
    a_elements: int
    b_elements: int
    prepacked: bool
    bias: str | None
    stream: bool
    pairs: str = ""


class Tile(NamedTuple):
    """A register block.

    Attributes:
        rows: candidates for its rows; the one that wastes least on the edge of ``m`` is taken.
        vectors: vectors in a row.
    """

    rows: tuple[int, ...]
    vectors: int


class Blocking(NamedTuple):
    """How the work is cut into groups.

    Attributes:
        rows: of a register block.
        depth: steps of k that panels hold at a time.
        row_panels, column_panels: panels of a and of b that a group multiplies at most.
        slices: parts of the sums that go to groups of their own.
        prepacked: b is packed beforehand by a kernel of its own.
    """

    rows: int
    depth: int
    row_panels: int
    column_panels: int
    slices: int
    prepacked: bool


class Work(NamedTuple):
    """What the choice of a blocking depends on.

    Attributes:
        params: the register block.
        m, n, k: sizes.
        batch: products in all.
        items: different items of b.
        item_bytes: bytes of an element.
        units: compute units.
        limit: bytes of scratch memory allowed.
        ready: b's panels are there already.
    """

    params: PackedParams
    m: int
    n: int
    k: int
    batch: int
    items: int
    item_bytes: int
    units: int
    limit: int
    ready: bool = False


PACKED = Kernel(
    "gemm_packed",
    "gemm/gemm_packed.mako",
    constraints=(
        Constraint("a_elements >= rows * unroll", "local memory holds a panel of a"),
        Constraint("b_elements >= vectors * width * unroll", "local memory holds a panel of b"),
    ),
)

# Bytes of a vector register -> register block. 32 registers of 64 bytes hold 26 sums, two vectors
# of b and one of a (28 sums, too, but panels of 13 rows fill powers of two better); 16 registers of
# 32 or 16 bytes hold 12 sums.
TILES = {64: Tile((13, 11, 8, 4), 2), 32: Tile((6, 4), 2), 16: Tile((6, 4), 2)}
LEAST_WIDTH = 4
UNROLL = 2
DEPTHS = (2048, 1024, 512, 256, 64)
# Panels of a stay in the second-level cache; those of b that a group packs itself do, too.
A_BYTES = 512 * 1024
SLICE_K = 128
MOST_BLOCKS_PER_UNIT = 16
CUTS = (2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128)

# Costs in units of one multiplication in the inner loop, fitted to 200 timed blockings of 20
# products on two cores with 512-bit vectors.
PACK_COST, PREPACK_COST, LOAD_COST = 24, 38, 3
STORE_COST, RESTORE_COST = 50, 22
# Panels of a matrix that stays are kept where packing it takes this part of a product.
LEAST_SAVED = 0.02
# What is added for sums whose block has so many rows, each on a page of its own.
PAGE_COST, PAGES = 20, 1024
SUM_COST = 10
GROUP_COST = 300
LAUNCH_COST = 2_500_000
# Blocks for each unit from which on groups draw them: a unit that is slower than the others for a
# while computes fewer. There are as many groups as blocks, for a runtime may take few at a time as
# work for one unit; most find nothing left.
LEAST_DRAWN = 4


def packed(
    target: Target, problem: Problem, panels: Array | None = None, *, dot: str | None = None
) -> list[Launch]:
    """The launches of a product in vector registers.

    Args:
        target: what the device is like.
        problem: the product, of float32 or float64, no axis of it empty.
        panels: of b, from :func:`packed_once` or :func:`packed_into`.
        dot: a name of ``BFLOAT16_DOTS``: operands are pairs of bfloat16, in 32 bits of float32.

    Returns:
        Its launches, in order.
    """
    if panels is not None:
        strides = panels.strides if panels.ndim == problem.b.ndim else (0,) * problem.b.ndim
        problem = problem._replace(b=panels.view(problem.b.shape, strides))
    used = problem.memory().nbytes
    if used:  # operands in scratch memory leave less of it
        target = replace(target, workspace_limit=max(target.workspace_limit - used, 0))
    if panels is None:
        return _blocked(target, problem, BLOCKING.choose(target, problem.product), dot=dot)
    work = _work(target, problem.product, _rows(target.traits, problem.m))
    return _blocked(target, problem, choose_blocking(work._replace(ready=True)), ready=True)


def packed_once(target: Target, problem: Problem) -> tuple[Launch, Array] | None:
    """Panels of b for several products with it.

    Args:
        target: what the device is like.
        problem: the first of them.

    Returns:
        The launch that packs, and what :func:`packed` takes; None if the workspace has no room.
    """
    form = _own_form(target, problem)
    memory = problem.memory()
    panels = place_panels(memory, form, problem)
    if memory.nbytes > target.workspace_limit:
        return None
    return pack(form, problem, panels), panels


def lasting_elements(target: Target, problem: Problem) -> int | None:
    """Elements of panels of b that are kept, one matrix; None where packing is hardly noticed.

    Args:
        target: what the device is like.
        problem: the product.
    """
    if problem.product.items != 1 or LEAST_SAVED * problem.m > PACK_COST:
        return None
    return _own_form(target, problem).elements(problem.n, problem.k) + TICKETS


def packed_into(target: Target, problem: Problem, panels: Array) -> Launch:
    """The launch that fills panels that are kept.

    Args:
        target: what the device is like.
        problem: a product.
        panels: as many as :func:`lasting_elements` says.
    """
    return pack(_own_form(target, problem), problem, panels)


def _own_form(target: Target, problem: Problem) -> Panels:
    """Form of the panels that a product takes by itself."""
    return _form(_params(target.traits, problem.product, _rows(target.traits, problem.m)))


def _blocked(
    target: Target,
    problem: Problem,
    blocking: Blocking,
    *,
    ready: bool = False,
    dot: str | None = None,
) -> list[Launch]:
    """The launches of a blocking; ``ready``: b is its panels; ``dot``: of pairs."""
    params = _params(target.traits, problem.product, blocking.rows)
    pairs = "" if dot is None else pair_macros(dot, params.width)
    params = params._replace(prepacked=blocking.prepacked, pairs=pairs)
    memory = problem.memory()
    launches: list[Launch] = []
    if blocking.prepacked and not ready:
        panels = place_panels(memory, _form(params), problem)
        launches.append(pack(_form(params), problem, panels))
        problem = problem._replace(b=panels)
    units = target.traits.compute_units
    if blocking.slices == 1:
        return [*launches, _multiply(params, blocking, problem, 0, units)]
    partial = Array.scratch(memory, (blocking.slices, *problem.out.shape), problem.out.dtype)
    first = _multiply(params, blocking, problem.partial(partial), partial.strides[0], units)
    return [first, sum_slices(target.traits, problem, partial)]


def _tile(traits: DeviceTraits) -> tuple[int, Tile]:
    """Bytes of a vector register, and the register block of a device."""
    lanes = max(traits.simd_width, LEAST_WIDTH)
    register = min(max(4 * lanes, min(TILES)), max(TILES))
    return register, TILES[register]


def _rows(traits: DeviceTraits, m: int) -> int:
    """Rows of the register block that a product of ``m`` rows takes by itself."""
    # A row more in the block costs a load beside its products; an empty one costs all of them.
    return min(_tile(traits)[1].rows, key=lambda r: (ceil_div(m, r) * (r + 1), -r))


def _params(traits: DeviceTraits, product: Product, rows: int) -> PackedParams:
    """Register block, depth and block of panels for a device and a product."""
    dtype = from_name(product.dtype)
    item = dtype.itemsize
    register, tile = _tile(traits)
    width = register // item
    # A third of the local memory's half is for a panel of b, the rest for panels of a.
    budget = min(traits.local_memory_bytes // 2, A_BYTES * 3 // 2) // item
    columns, lanes = tile.vectors * width, round_up(rows, width)
    deepest = next((d for d in DEPTHS if max(columns, lanes // 2) * d <= budget // 3), DEPTHS[-1])
    return PackedParams(
        dtype.ctype,
        width,
        rows,
        tile.vectors,
        UNROLL,
        max(budget * 2 // 3, lanes * deepest),
        columns * deepest,
        False,
        None,
        False,
    )


def _work(target: Target, product: Product, rows: int) -> Work:
    return Work(
        _params(target.traits, product, rows),
        product.m,
        product.n,
        product.k,
        product.batch,
        product.items,
        from_name(product.dtype).itemsize,
        target.traits.compute_units,
        target.workspace_limit,
    )


def _default(target: Target, product: Product) -> Blocking:
    return choose_blocking(_work(target, product, _rows(target.traits, product.m)))


def _candidates(target: Target, product: Product) -> list[Blocking]:
    """All blockings of all register blocks, the default first, then by their estimated costs."""
    works = [_work(target, product, rows) for rows in _tile(target.traits)[1].rows]
    found = sorted((_cost(work, b), b) for work in works for b in _blockings(work))
    default = _default(target, product)
    return [default, *(blocking for _, blocking in found if blocking != default)]


@lru_cache(maxsize=4096)
def choose_blocking(work: Work) -> Blocking:
    """The cheapest way, by estimate, to cut the work into groups.

    Args:
        work: sizes and device.

    Returns:
        The blocking, whose scratch memory fits the limit and whose every slice has work.
    """
    return min(_blockings(work), key=lambda blocking: (_cost(work, blocking), blocking))


def _blockings(work: Work) -> list[Blocking]:
    """The ways worth a try."""
    params = work.params
    row_panels = ceil_div(work.m, params.rows)
    column_panels = ceil_div(work.n, params.vectors * params.width)
    column_options = {ceil_div(column_panels, c) for c in _cuts(column_panels, 1, work.units)}
    wanted = [s for s in (1, work.units, 2 * work.units) if s == 1 or s * SLICE_K <= work.k]
    slice_options = {ceil_div(work.k, _slice_k(params, work.k, s)) for s in wanted}
    shares = [
        (slices, prepacked)
        for slices in sorted(slice_options)
        for prepacked in ((True,) if work.ready else (False, True))
        if _scratch_bytes(work, slices, prepacked) <= work.limit
        and (work.ready or not (prepacked and slices > 1))
    ]
    return [
        Blocking(params.rows, depth, rows, columns, slices, prepacked)
        for slices, prepacked in shares
        for depth, most_rows in _depths(params, _slice_k(params, work.k, slices))
        for rows in {
            ceil_div(row_panels, r)
            for r in _cuts(row_panels, ceil_div(row_panels, most_rows), work.units)
        }
        for columns in sorted(column_options)
    ]


def _depths(params: PackedParams, steps: int) -> list[tuple[int, int]]:
    """Depths worth a try for sums of so many steps, each with the panels of a that then fit."""
    lanes = round_up(params.rows, params.width)
    deepest = params.b_elements // (params.vectors * params.width)
    even = {
        round_up(ceil_div(steps, ceil_div(steps, d)), params.unroll) for d in DEPTHS if d <= deepest
    }
    return [(d, params.a_elements // (lanes * d)) for d in sorted(even)]


def _cuts(panels: int, fewest: int, units: int) -> list[int]:
    """Numbers of blocks worth a try: from the fewest to a few for every unit."""
    most = min(panels, max(fewest, MOST_BLOCKS_PER_UNIT * units))
    return [fewest, *(c for c in CUTS if fewest < c < most), most]


def _cost(work: Work, blocking: Blocking) -> float:
    """How long a blocking takes, in multiplications of one element by one unit."""
    params = work.params
    rows = blocking.row_panels * params.rows
    columns = blocking.column_panels * params.vectors * params.width
    row_blocks, column_blocks = ceil_div(work.m, rows), ceil_div(work.n, columns)
    groups = row_blocks * column_blocks * blocking.slices * work.batch
    steps = ceil_div(work.k, blocking.slices)
    # Blocks differ by a panel at most; a group is taken for an average one.
    rows = round_up(work.m, params.rows) / row_blocks
    columns = round_up(work.n, params.vectors * params.width) / column_blocks
    passes = ceil_div(steps, blocking.depth)
    store = STORE_COST + PAGE_COST * min(rows / PAGES, 1)
    group = rows * columns * (steps + store + RESTORE_COST * (passes - 1))
    group += rows * steps * PACK_COST
    group += columns * steps * (LOAD_COST if blocking.prepacked else PACK_COST)
    turns = max(ceil_div(groups, work.units), groups / work.units)
    cost = group * turns + GROUP_COST * groups
    if blocking.prepacked and not work.ready:
        panels = _form(params).elements(work.n, work.k) * work.items
        cost += panels * PREPACK_COST / work.units + LAUNCH_COST
    if blocking.slices > 1:
        partial = blocking.slices * work.batch * work.m * work.n
        cost += partial * SUM_COST / work.units + LAUNCH_COST
    return cost


def _scratch_bytes(work: Work, slices: int, prepacked: bool) -> int:  # noqa: FBT001 - private
    """What a blocking needs of the workspace."""
    packs = prepacked and not work.ready
    nbytes = _form(work.params).elements(work.n, work.k) * work.items + TICKETS if packs else 0
    nbytes += slices * work.batch * work.m * work.n if slices > 1 else 0
    return nbytes * work.item_bytes


def _slice_k(params: PackedParams, k: int, slices: int) -> int:
    return round_up(ceil_div(k, slices), params.unroll)


def _form(params: PackedParams) -> Panels:
    return Panels(params.ctype, params.width, params.vectors, params.unroll)


def _multiply(
    params: PackedParams, blocking: Blocking, given: Problem, out_slice: int, units: int
) -> Launch:
    """The product itself on so many units; slices of its sums lie ``out_slice`` apart."""
    slice_k = _slice_k(params, given.k, blocking.slices)
    if blocking.depth >= slice_k:
        params = params._replace(stream=_streams(params, given, out_slice))
    columns = params.vectors * params.width
    row_blocks = ceil_div(given.m, params.rows * blocking.row_panels)
    column_blocks = ceil_div(given.n, columns * blocking.column_panels)
    blocks = row_blocks * column_blocks * blocking.slices * given.batch
    draw = params.prepacked and blocks >= LEAST_DRAWN * units
    counter = tickets(_form(params), given, given.b) if params.prepacked else None
    end = given.end
    sizes = given.sizes(
        *(blocking.slices, slice_k, blocking.depth, blocks, row_blocks, column_blocks, draw),
        *(end.finishes, end.relu),
    )
    return PACKED.launch(
        params._replace(bias=end.axis),
        joined(given.packed_args(sizes, out_slice, bias=end.bias), by_name("tickets", counter)),
        global_size=(blocks, 1, 1),
        flops=given.flops * (2 if params.pairs else 1),
        bytes=given.bytes,
    )


def _streams(params: PackedParams, given: Problem, out_slice: int) -> bool:
    """Whether out goes past the caches: large, written once, and in whole lines."""
    item = given.out.dtype.itemsize
    axes = zip(given.out.shape[:3], given.out.strides[:3], strict=True)
    steps = [params.vectors * params.width, out_slice, *(step for size, step in axes if size > 1)]
    return (
        given.out.nbytes >= STREAM_BYTES
        and given.beta == 0
        and given.out.strides[3] == 1
        and aligned([given.out])
        and not any(step * item % LINE_BYTES for step in steps)
    )


BLOCKING = Tunable(
    "gemm_packed",
    version=3,
    problem=Product,
    choice=Blocking,
    default=_default,
    candidates=_candidates,
    trial=lambda where, product: ProductTrial(where, product, _blocked),
)
