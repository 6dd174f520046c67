"""Matrix products by 128 items at once, from boxes that a copy engine brings into local memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...array import Array
from ...device import WARPGROUP_UNITS, Launch, Scratch, Target, map_form, matrix_units
from ...values.dtypes import DType, float32, int32
from ...values.record import NamedTuple
from ...values.shapes import ceil_div, round_up
from ..kernel import Constraint, Kernel, by_name, joined
from .gemm_laid import COPY_S, copied, copies_fit, copy_seconds
from .gemm_matrix import matrix_seconds
from .gemm_problem import Problem, turned
from .gemm_summed import RUN_BYTES, begins_runs, stores_runs, summed
from .warpgroup_tile import (
    LINE_BYTES,
    SIDED_TILES,
    SMALL,
    SMALL_SIDED,
    SMALL_SPLIT,
    SMALL_WHOLE,
    SPLIT_TILES,
    TILES,
    TURNED_TILES,
    WHOLE_TILES,
    WarpgroupTile,
)

WARPGROUP = Kernel(
    "gemm_warpgroup",
    "gemm/gemm_warpgroup.mako",
    constraints=(
        Constraint("tile.m % 64 == 0 and tile.n % 64 == 0", "teams take 64 rows, and store 64"),
        Constraint("tile.n <= 256 and tile.m <= 256", "boxes and products are not larger"),
        Constraint("unit.turns or b_along == 'k'", "TF32 is multiplied along k alone"),
        Constraint("unit.turns or tile.sided == (a_along != 'k')", "but items may hold a"),
    ),
)
RASTER = 8
# Of a tensor map; an operand has one, and a result that is stored as boxes.
MAP_WORDS = 32
# Strides of a tensor map are counted in 16 bytes, in 32 bits.
MOST_STRIDE = 2**36
# Below so many multiplications, or along so short an axis, nothing is gained.
LEAST_WORK, LEAST_AXIS = 2**22, 16
# Stages that a slice has at least, and slices at most.
LEAST_STAGES, MOST_SLICES = 16, 32
# By bytes of an element, operations a second of all units; seconds that storing an element costs a
# group, in boxes a byte; bytes a second of slices' sums, which stay in the cache. All are rough
# figures of an H200, those of 16 bits and boxes of an H100.
RATES = {2: 870e12, 4: 435e12}
STORE_S, BOX_S = 1.45e-10, 2e-11
SUM_BYTES_S = 4e12


def by_warpgroups(target: Target, problem: Problem, *, split: bool = False) -> list[Launch] | None:
    """The launches of a product by 128 items at once.

    Args:
        target: what the device is like.
        problem: the product, no axis of it empty, without a finish.
        split: operands of float32 are split in two that TF32 holds, and three products added.

    Returns:
        The launches; None where the device has no such units, or another kernel is faster.
    """
    dtype = problem.out.dtype
    if not has_warpgroups(target, dtype, split=split) or not _pays(target, problem):
        return None
    if not copies_fit(max(problem.m, problem.n), problem.batch):
        return None
    if split:
        return _split(target, problem)
    way = _way(target, problem)
    if way.nbytes and not emulates_warpgroups(target):
        taken = (
            way.seconds
            + _chosen(target, way.problem, way.problem.memory(), sided=way.sided).seconds
        )
        if taken > matrix_seconds(target, problem):
            return None
    if way.nbytes > target.workspace_limit:
        return _in_pieces(target, problem) if way.copies == (True, False) else None
    memory, launches = problem.memory(), list[Launch]()
    line = LINE_BYTES // dtype.itemsize
    a, b = (
        copied(memory, x, launches, whole=line) if copies else x
        for x, copies in zip(way.operands, way.copies, strict=True)
    )
    return [*launches, *_products(target, way.problem, memory, a, b, sided=way.sided)]


class _Way(NamedTuple):
    """A way to compute a product.

    Attributes:
        problem: the product, perhaps with its axes exchanged.
        copies: whether a, and b, are copied first, so that boxes can bring them.
        sided: a lies along m as it is, and items hold it: of TF32.
    """

    problem: Problem
    copies: tuple[bool, bool]
    sided: bool = False

    @property
    def operands(self) -> tuple[Array, Array]:
        """``(..., m, k)`` and ``(..., n, k)``."""
        return self.problem.a, turned(self.problem.b)

    @property
    def nbytes(self) -> int:
        """Of copies."""
        pairs = zip(self.operands, self.copies, strict=True)
        return sum(x.size * x.dtype.itemsize for x, copies in pairs if copies)

    @property
    def seconds(self) -> float:
        """That copies take."""
        pairs = zip(self.operands, self.copies, strict=True)
        return sum(copy_seconds(x) for x, copies in pairs if copies)


def _way(target: Target, problem: Problem) -> _Way:
    """The way that takes the least time, by a rough estimate."""
    turns = WARPGROUP_UNITS[problem.a.dtype.stored].turns
    copies = (_along(x, turns=turns) is None for x in (problem.a, turned(problem.b)))
    plain = _Way(problem, (next(copies), next(copies)))
    if turns or not plain.nbytes:
        return plain
    ways = [plain]
    for each in (problem, problem.transposed()):
        if _lies(each.a, 2):
            others = (False, _along(turned(each.b), turns=False) is None)
            ways.append(_Way(each, others, sided=True))

    def seconds(way: _Way) -> float:
        memory = problem.memory()
        return way.seconds + _chosen(target, way.problem, memory, sided=way.sided).seconds

    return min(ways, key=seconds)


class WarpgroupChoice(NamedTuple):
    """How a product is computed.

    Attributes:
        tile: what a group computes at a time.
        slices: of the sums.
        steps: stages of a slice.
        seconds: that it takes, by a rough estimate.
    """

    tile: WarpgroupTile
    slices: int
    steps: int
    seconds: float


class WarpgroupSums(NamedTuple):
    """What is summed: tiles lie below each other and side by side, and each sum has stages.

    Attributes:
        dtype: of the operands.
        rows_of: how many of some tile lie below each other.
        columns: of the result.
        stages: of a whole sum.
        results: elements of the result.
        boxed: the copy engine stores them, unless they come in slices.
        split: operands have two parts.
        whole: the left one is split by items.
        turned: items turn both.
        sided: items hold the left one.
        most_slices: 1 where sums must stay whole.
    """

    dtype: DType
    rows_of: Callable[[WarpgroupTile], int]
    columns: int
    stages: int
    results: int
    boxed: bool = False
    split: bool = False
    whole: bool = False
    turned: bool = False
    sided: bool = False
    most_slices: int = MOST_SLICES

    def choice(self, target: Target, reserved: int) -> WarpgroupChoice:
        """The tile and slices that take the least time, by a rough estimate.

        Args:
            target: what the device is like.
            reserved: bytes of scratch memory, beside which slices' sums must fit.
        """
        units = target.traits.compute_units
        room = max(target.workspace_limit - reserved, 0) // (4 * self.results)
        found: list[WarpgroupChoice] = []
        for tile in self._tiles(target):
            tiles = self.rows_of(tile) * ceil_div(self.columns, tile.n)
            most = min(self.stages // LEAST_STAGES, room, self.most_slices)
            for wanted in range(1, max(most if tiles < 2 * units else 1, 1) + 1):
                steps = round_up(ceil_div(self.stages, wanted), 1 + self.sided)
                slices = ceil_div(self.stages, steps)
                time = ceil_div(tiles * slices, units) * self._seconds(tile, steps, slices, units)
                if slices > 1:
                    moved = 2 * 4 * slices + self.dtype.itemsize
                    time += COPY_S + moved * self.results / SUM_BYTES_S
                found.append(WarpgroupChoice(tile, slices, steps, time))
        return min(found, key=lambda choice: choice.seconds)

    def _tiles(self, target: Target) -> list[WarpgroupTile]:
        if self.sided:
            return [SMALL_SIDED] if emulates_warpgroups(target) else _fitting(target, SIDED_TILES)
        return _tiles(target, split=self.split, whole=self.whole, turned=self.turned)

    def _seconds(self, tile: WarpgroupTile, steps: int, slices: int, units: int) -> float:
        """Of a group, for so many stages of a tile."""
        item, boxed = self.dtype.itemsize, self.boxed and slices == 1
        flops = 2 * tile.m * tile.n * (LINE_BYTES // item) * (3 if self.split else 1)
        each = flops * units / (RATES[item] * tile.speed)
        return steps * each + tile.m * tile.n * (item * BOX_S if boxed else STORE_S)


def has_warpgroups(target: Target, dtype: DType, *, split: bool = False) -> bool:
    """Whether the device multiplies a dtype by 128 items at once; float32 as TF32, or split."""
    traits = target.traits
    known = dtype.stored in WARPGROUP_UNITS and dtype.stored in matrix_units(traits.matrix_units)
    return known and traits.warpgroup_units and bool(_tiles(target, split=split))


def _in_pieces(target: Target, problem: Problem) -> list[Launch] | None:
    """As many rows at a time as scratch memory holds copies of; None: too few, or of a batch."""
    pitch = round_up(problem.k, LINE_BYTES // problem.a.dtype.itemsize)
    most = target.workspace_limit // 2 // (pitch * problem.a.dtype.itemsize) // 128 * 128
    if most == 0 or problem.batch > 1:
        return None
    launches: list[Launch] = []
    for start in range(0, problem.m, most):
        part = by_warpgroups(target, _rows_of(problem, start, min(start + most, problem.m)))
        if part is None:
            return None
        launches += part
    return launches


def _rows_of(problem: Problem, start: int, stop: int) -> Problem:
    """The product of some rows."""
    a, out = (
        x.view((*x.shape[:2], stop - start, x.shape[3]), x.strides, x.offset + start * x.strides[2])
        for x in (problem.a, problem.out)
    )
    epilogue, bias = problem.epilogue, problem.epilogue.bias
    if bias is not None and epilogue.axis == "m":
        step = bias.strides[0]
        rows = bias.view((stop - start,), (step,), bias.offset + start * step)
        epilogue = epilogue._replace(bias=rows)
    return problem._replace(a=a, out=out, epilogue=epilogue)


def _split(target: Target, problem: Problem) -> list[Launch] | None:
    """Both operands in two parts, of as many steps of k at a time as scratch memory holds."""
    rows = problem.batch * (problem.m + problem.n)
    memory, launches = problem.memory(), list[Launch]()
    most = max(target.workspace_limit - memory.nbytes, 0) // (8 * rows) // 32 * 32
    if most == 0:
        return None
    step = round_up(ceil_div(problem.k, ceil_div(problem.k, most)), 32)
    mark = memory.mark()
    for start in range(0, problem.k, step):
        memory.rewind(mark)
        part = _steps_of(problem, start, min(start + step, problem.k))
        line = LINE_BYTES // problem.a.dtype.itemsize
        a = copied(memory, part.a, launches, whole=line, parts=2)
        b = copied(memory, turned(part.b), launches, whole=line, parts=2)
        launches += _products(target, part, memory, a, b, split=True)
    return launches


def _steps_of(problem: Problem, start: int, stop: int) -> Problem:
    """The product over some steps of k, which adds itself to those before it."""
    a, b, bare = problem.a, problem.b, problem.epilogue._replace(bias=None, activation=None)
    return problem._replace(
        a=a.view((*a.shape[:3], stop - start), a.strides, a.offset + start * a.strides[3]),
        b=b.view(
            (*b.shape[:2], stop - start, b.shape[3]), b.strides, b.offset + start * b.strides[2]
        ),
        beta=1.0 if start else problem.beta,
        epilogue=problem.epilogue if stop == problem.k else bare,
    )


def _products(
    target: Target,
    problem: Problem,
    memory: Scratch,
    a: Array,
    b: Array,
    *,
    split: bool = False,
    sided: bool = False,
) -> list[Launch]:
    """The launches that multiply: ``a`` is ``(..., m, k)``, ``b`` ``(..., n, k)``, in parts."""
    choice = _chosen(target, problem, memory, split=split, sided=sided)
    if choice.slices == 1:
        return [_multiply(target, problem, memory, a, b, choice=choice)]
    sums = Array.scratch(memory, (choice.slices, *problem.out.shape), float32)
    first = problem._replace(
        out=sums.view(sums.shape[1:], sums.strides[1:]),
        alpha=1.0,
        beta=0.0,
        epilogue=problem.epilogue._replace(bias=None, activation=None),
    )
    launch = _multiply(target, first, memory, a, b, choice=choice, out_slice=sums.strides[0])
    return [launch, summed(problem, sums, by_ptx=not emulates_warpgroups(target))]


def _multiply(
    target: Target,
    problem: Problem,
    memory: Scratch,
    a: Array,
    b: Array,
    *,
    choice: WarpgroupChoice,
    out_slice: int = 0,
) -> Launch:
    """The product itself, of operands that boxes can bring, or one slice of its sums."""
    tile = choice.tile
    ctype, emulated = a.dtype.stored, emulates_warpgroups(target)
    unit, rank = WARPGROUP_UNITS[ctype], 2 if problem.batch == 1 else 4
    a_along, b_along = (_along(x, turns=unit.turns) or "k" for x in (a, b))
    if tile.sided:
        a_along = "tile"
    tiles = ceil_div(problem.m, tile.m) * ceil_div(problem.n, tile.n) * problem.batch
    groups = min(tiles * choice.slices, target.traits.compute_units)
    boxed = _boxed(problem.out) and choice.slices == 1
    maps = Array.scratch(memory, (groups * (2 + boxed) * MAP_WORDS,), int32)
    params = {
        "ctype": ctype,
        "sum_ctype": problem.out.dtype.stored,
        "unit": unit,
        "tile": tile,
        "a_along": a_along,
        "b_along": b_along,
        "out_along": "m" if boxed and _along_m(problem.out) else "n",
        "out_dense": stores_runs(problem.out),
        "boxed": boxed,
        "adds": problem.beta != 0,
        "rank": rank,
        "raster": RASTER,
        "bias": problem.epilogue.axis,
        "activation": problem.epilogue.activation,
        "emulated": emulated,
        "form": map_form(unit, rank),
        "out_form": map_form(WARPGROUP_UNITS["half"], rank),
    }
    steps = (x.strides[2 if along == "k" else 3] for x, along in ((a, a_along), (b, b_along)))
    batches = [step for x in (problem.out, a, b) for step in x.strides[:2]]
    names = "inner out_outer out_inner a_outer a_inner b_outer b_inner"
    return WARPGROUP.launch(
        params,
        joined(
            by_name("m n k", problem.m, problem.n, problem.k),
            by_name("maps out a b", maps, problem.out, a, b),
            problem.bias_args(),
            problem.factors(),
            by_name("out_m out_n a_step b_step", *problem.out.strides[2:], *steps),
            by_name(f"batch {names}", problem.batch, problem.out.shape[1], *batches),
            by_name("slices slice_steps out_slice", choice.slices, choice.steps, out_slice),
            by_name("part", a.strides[2] // 2 if tile.parts > 1 else None),
        ),
        global_size=(groups * tile.items(emulated=emulated),),
        local_size=(tile.items(emulated=emulated),),
        flops=problem.flops * (3 if tile.parts > 1 else 1),
        bytes=problem.bytes,
    )


def _boxed(out: Array) -> bool:
    """Whether the copy engine can store ``(outer, inner, m, n)``, wherever its runs end."""
    steps = [step for step, size in zip(out.strides, out.shape, strict=True) if size > 1]
    forward = all(0 < step * out.dtype.itemsize < MOST_STRIDE for step in steps)
    return forward and begins_runs(turned(out) if _along_m(out) else out)


def _along_m(out: Array) -> bool:
    """Whether runs of ``(outer, inner, m, n)`` lie along m: of floats."""
    return out.dtype == float32 and out.strides[2] == 1 != out.strides[3]


def _along(x: Array, *, turns: bool) -> str | None:
    """The axis of ``(..., rows, k)`` that boxes are dense along; None: a copy must be made."""
    for axis, along in ((3, "k"), (2, "tile"))[: 1 + turns]:
        if _lies(x, axis):
            return along
    return None


def _lies(x: Array, axis: int) -> bool:
    """Whether boxes of ``(..., rows, k)`` can be dense along an axis."""
    return (x.strides[axis] == 1 or x.shape[axis] == 1) and _aligned(x, axis)


def _aligned(x: Array, axis: int) -> bool:
    """Whether all begins at multiples of 16 bytes but along an axis."""
    item, other = x.dtype.itemsize, 5 - axis
    steps = [x.strides[i] * item for i in (0, 1, other) if x.shape[i] > 1]
    whole = all(step % RUN_BYTES == 0 and step < MOST_STRIDE for step in steps)
    repeats = x.shape[other] > 1 and x.strides[other] <= 0
    return whole and not repeats and x.offset * item % RUN_BYTES == 0 and min(x.strides) >= 0


def _pays(target: Target, problem: Problem) -> bool:
    """Whether there is enough to multiply."""
    work, least = problem.m * problem.n * problem.k * problem.batch, LEAST_AXIS
    large = work >= LEAST_WORK and min(problem.m, problem.n, problem.k) >= least
    return large or emulates_warpgroups(target)


def emulates_warpgroups(target: Target) -> bool:
    """Whether plain C takes the units' place."""
    return matrix_units(target.traits.matrix_units)["half"].emulated


def _tiles(
    target: Target, *, split: bool = False, whole: bool = False, turned: bool = False
) -> list[WarpgroupTile]:
    parts = 2 if split else 1
    if emulates_warpgroups(target):
        if turned:
            return [SMALL_WHOLE._replace(parts=parts, turned=True)]
        return [SMALL_WHOLE if whole else SMALL_SPLIT if split else SMALL]
    tiles = WHOLE_TILES if whole else SPLIT_TILES if split else TILES
    return _fitting(target, TURNED_TILES[parts] if turned else tiles)


def _fitting(target: Target, tiles: Sequence[WarpgroupTile]) -> list[WarpgroupTile]:
    """Those that a group's local memory has room for."""
    return [tile for tile in tiles if tile.local_bytes <= target.traits.static_local_bytes]


def _chosen(
    target: Target, problem: Problem, memory: Scratch, *, split: bool = False, sided: bool = False
) -> WarpgroupChoice:
    """The tile and slices of a product."""
    sums = WarpgroupSums(
        problem.a.dtype,
        rows_of=lambda tile: ceil_div(problem.m, tile.m) * problem.batch,
        columns=problem.n,
        stages=ceil_div(problem.k, LINE_BYTES // problem.a.dtype.itemsize),
        results=problem.out.size,
        boxed=_boxed(problem.out),
        split=split,
        sided=sided,
        most_slices=1 if _along_m(problem.out) else MOST_SLICES,
    )
    return sums.choice(target, memory.nbytes)
