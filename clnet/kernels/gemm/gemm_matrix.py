"""Matrix products on matrix units: of 16 bits, and of float32 rounded to TF32."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ...array import Array
from ...device import Launch, MatrixUnit, Target, matrix_units
from ...values.dtypes import DType
from ...values.record import NamedTuple
from ...values.shapes import ceil_div, round_up
from ..kernel import Constraint, Kernel, by_name, joined
from .gemm_laid import COPY_S, copied, copies_fit, copy_seconds
from .gemm_problem import Problem, turned

MATRIX = Kernel(
    "gemm_matrix",
    "gemm/gemm_matrix.mako",
    constraints=(
        Constraint("unit.way in ('ptx', 'builtin')", "units are spoken to in these ways"),
        Constraint("tile.regular(unit, ctype)", "whole runs of 16 bytes for each item, two stages"),
    ),
)
RUN_BYTES = 16
RASTER = 8
# By bytes of an element: operations a second where operands come in runs, and how many times as
# long it takes besides for each that comes element by element. Rough figures of an H100.
RATES, SINGLE = {2: 300e12, 4: 100e12}, {2: 3, 4: 1}


class MatrixLoads(NamedTuple):
    """How a tile of one operand comes into local memory.

    Attributes:
        run: elements of 16 bytes.
        lanes: runs of a line.
        jump: lines between an item's reads.
        count: reads of an item.
        pitch: elements from line to line in local memory; lines begin in different banks.
        size: elements of a stage.
        steps: of k.
    """

    run: int
    lanes: int
    jump: int
    count: int
    pitch: int
    size: int
    steps: int

    def place(self, along: str, row: str, step: str) -> str:
        """Where an element lies in a stage, in C."""
        line, lane = (row, step) if along == "k" else (step, row)
        return f"({line}) * {self.pitch} + {lane}"


class MatrixTile(NamedTuple):
    """What a group computes, and the items of each of its patches, which share a unit.

    Attributes:
        m, n: rows and columns of a group.
        bytes_k: bytes of k that a stage holds for each row.
        patch_m, patch_n: rows and columns of a patch.
        stages: of the ring in local memory.
        lanes: items of a patch.
    """

    m: int
    n: int
    bytes_k: int
    patch_m: int
    patch_n: int
    stages: int
    lanes: int = 32

    @property
    def patches(self) -> int:
        """Of a group."""
        return self.m // self.patch_m * (self.n // self.patch_n)

    @property
    def items(self) -> int:
        """Of a group."""
        return self.patches * self.lanes

    def rows(self, unit: MatrixUnit) -> int:
        """Products of the unit over the rows of a patch."""
        return self.patch_m // unit.rows

    def columns(self, unit: MatrixUnit) -> int:
        """The same over the columns."""
        return self.patch_n // unit.columns

    def steps(self, ctype: str) -> int:
        """Steps of k in a stage."""
        return self.bytes_k // _bytes(ctype)

    def loads(self, rows: int, along: str, ctype: str) -> MatrixLoads:
        """How an operand comes in that has so many rows, dense along ``"k"`` or the ``"tile"``."""
        run, steps = RUN_BYTES // _bytes(ctype), self.steps(ctype)
        lines, length = (rows, steps) if along == "k" else (steps, rows)
        lanes = length // run
        pitch = length + (run if along == "k" else 8)
        jump = max(self.items // lanes, 1)
        return MatrixLoads(run, lanes, jump, lines // jump, pitch, lines * pitch, steps)

    def regular(self, unit: MatrixUnit, ctype: str) -> bool:
        """Whether every item reads equally often, and the unit divides the tile."""
        # PTX brings in two columns of products at once.
        columns = unit.columns * (2 if unit.way == "ptx" else 1)
        whole = self.m % self.patch_m == self.n % self.patch_n == 0 and self.lanes == unit.lanes
        whole = whole and self.patch_m % unit.rows == self.patch_n % columns == 0
        whole = whole and self.steps(ctype) % unit.steps == 0
        # Sums of a row of products go through the tiles' memory, where rows are stored in runs.
        held = self.patches * unit.rows * (self.patch_n + 1) * 4
        whole = whole and (unit.way == "ptx" or held <= self.least_bytes(ctype))
        for rows in (self.m, self.n):
            for along in ("k", "tile"):
                loads = self.loads(rows, along, ctype)
                lines = rows if along == "k" else loads.steps
                whole = whole and self.items % loads.lanes == 0 and lines % loads.jump == 0
        return whole and self.stages >= 2

    def local_bytes(self, ctype: str) -> int:
        """Local memory that a group takes at most."""
        return self._bytes(ctype, max)

    def least_bytes(self, ctype: str) -> int:
        """Local memory that a group takes at least."""
        return self._bytes(ctype, min)

    def _bytes(self, ctype: str, of: Callable[[Iterable[int]], int]) -> int:
        sizes = [
            of(self.loads(rows, along, ctype).size for along in ("k", "tile"))
            for rows in (self.m, self.n)
        ]
        return self.stages * sum(sizes) * _bytes(ctype)


# Of units of the same lanes and rows, the fastest where they fill the device first. Those of NVIDIA
# were measured; the others keep sums and operands in registers, as ci/matrix_offline.py shows.
TILES = {
    (32, 16, 8): (
        MatrixTile(128, 128, 128, 64, 64, 3),
        MatrixTile(128, 128, 64, 64, 64, 2),
        MatrixTile(64, 64, 128, 32, 32, 3),
        MatrixTile(64, 64, 64, 32, 32, 2),
    ),
    (64, 16, 16): (
        MatrixTile(128, 128, 64, 64, 64, 2, 64),
        MatrixTile(64, 64, 64, 32, 32, 2, 64),
    ),
    (32, 16, 16): (
        MatrixTile(128, 128, 64, 64, 32, 2),
        MatrixTile(64, 64, 64, 32, 32, 2),
    ),
    (16, 8, 16): (
        MatrixTile(128, 128, 64, 32, 16, 2, 16),
        MatrixTile(64, 64, 64, 16, 16, 2, 16),
    ),
    (8, 8, 8): (
        MatrixTile(128, 128, 64, 16, 16, 2, 8),
        MatrixTile(64, 64, 64, 16, 16, 2, 8),
    ),
}


def small(unit: MatrixUnit) -> MatrixTile:
    """For tests of emulated units: of two patches of items."""
    if unit.way == "ptx":
        return MatrixTile(32, 16, 64, 16, 16, 2)
    rows, columns = unit.rows, 2 * unit.columns
    return MatrixTile(2 * rows, columns, 64, rows, columns, 2, unit.lanes)


def multiplies(target: Target, dtype: DType) -> bool:
    """Whether the device's matrix units multiply a dtype; float32 as TF32."""
    unit = matrix_units(target.traits.matrix_units).get(dtype.stored)
    return unit is not None and bool(_tiles(target, unit, dtype.stored))


def matrix(target: Target, problem: Problem) -> list[Launch]:
    """The launch of a product on matrix units.

    Args:
        target: what the device is like; :func:`multiplies` the dtype.
        problem: the product, no axis of it empty, without a finish.
    """
    ctype = problem.out.dtype.stored
    unit = matrix_units(target.traits.matrix_units)[ctype]
    tile = _chosen(target, problem, unit)
    run = RUN_BYTES // problem.out.dtype.itemsize
    launches: list[Launch] = []
    copies = _copies(target, problem)
    problem = _laid(problem, copies, run, launches)
    (a_along, a_dense), (b_along, b_dense) = _lines(problem, run)
    params = {
        "ctype": ctype,
        "unit": unit,
        "tile": tile,
        "a_along": a_along,
        "b_along": b_along,
        # Behind the steps of k a copy has zeros.
        "a_dense": a_dense or copies[0],
        "b_dense": b_dense or copies[1],
        "out_dense": _dense(problem.out, 3, 2 if unit.way == "ptx" else run),
        "raster": RASTER,
        "bias": problem.epilogue.axis,
        "activation": problem.epilogue.activation,
    }
    tiles = ceil_div(problem.m, tile.m) * ceil_div(problem.n, tile.n)
    launch = MATRIX.launch(
        params,
        joined(
            by_name("m n k", problem.m, problem.n, problem.k),
            by_name("out a b", problem.out, problem.a, problem.b),
            problem.bias_args(),
            problem.factors(),
            problem.matrix_strides(),
            problem.batch_strides(),
        ),
        global_size=(tiles * problem.batch * tile.items,),
        local_size=(tile.items,),
        flops=problem.flops,
        bytes=problem.bytes,
    )
    return [*launches, launch]


def matrix_seconds(target: Target, problem: Problem) -> float:
    """That the launches of :func:`matrix` take, by a rough estimate.

    Args:
        target: as there.
        problem: as there.
    """
    seconds, each, item = 0.0, _seconds(target, problem), problem.out.dtype.itemsize
    singles = _singles(problem)
    for x, single, copies in zip(
        (problem.a, problem.b), singles, _copies(target, problem), strict=True
    ):
        seconds += _copy_seconds(x) if copies else SINGLE[item] * each if single else 0.0
    return seconds + each


def _seconds(target: Target, problem: Problem) -> float:
    """Of a product whose operands come in runs."""
    item, units = problem.out.dtype.itemsize, target.traits.compute_units
    tile = _chosen(target, problem, matrix_units(target.traits.matrix_units)[_stored(problem)])
    groups = ceil_div(problem.m, tile.m) * ceil_div(problem.n, tile.n) * problem.batch
    # Two stages more for what a group begins and ends with.
    steps = round_up(problem.k, tile.steps(_stored(problem))) + 2 * tile.steps(_stored(problem))
    return 2 * max(groups, units) * tile.m * tile.n * steps / RATES[item]


def _copy_seconds(x: Array) -> float:
    # Two launches that wait for each other take longer than one beside others.
    return COPY_S + copy_seconds(x)


def _copies(target: Target, problem: Problem) -> tuple[bool, bool]:
    """Whether a, and b, are copied before, so that they come in runs."""
    singles = _singles(problem)
    if not any(singles):
        return False, False
    saved = SINGLE[problem.out.dtype.itemsize] * _seconds(target, problem)
    a, b = (
        single
        and _copy_seconds(x) < saved
        and copies_fit(max(problem.m, problem.n), problem.batch)
        and 2 * x.size * x.dtype.itemsize <= target.workspace_limit
        for x, single in zip((problem.a, problem.b), singles, strict=True)
    )
    return a, b


def _laid(problem: Problem, copies: tuple[bool, bool], run: int, launches: list[Launch]) -> Problem:
    """The problem with copies of operands, which launches make."""
    memory = problem.memory()
    if copies[0]:
        a = copied(memory, problem.a, launches, whole=run)
        problem = problem._replace(a=a.view(problem.a.shape, a.strides, a.offset))
    if copies[1]:
        b = copied(memory, turned(problem.b), launches, whole=run)
        shape = turned(problem.b).shape
        problem = problem._replace(b=turned(b.view(shape, b.strides, b.offset)))
    return problem


def _lines(problem: Problem, run: int) -> tuple[tuple[str, bool], tuple[str, bool]]:
    """The dense axis of a, and of b, and whether they come along it in runs."""
    a_along = "k" if problem.a.strides[3] == 1 else "tile"
    b_along = "k" if problem.b.strides[3] != 1 and problem.b.strides[2] == 1 else "tile"
    return (
        (a_along, _dense(problem.a, 3 if a_along == "k" else 2, run)),
        (b_along, _dense(problem.b, 2 if b_along == "k" else 3, run)),
    )


def _singles(problem: Problem) -> tuple[bool, bool]:
    """Whether a, and b, come element by element where they lie."""
    (_, a), (_, b) = _lines(problem, RUN_BYTES // problem.out.dtype.itemsize)
    return not a, not b


def _stored(problem: Problem) -> str:
    return problem.out.dtype.stored


def _tiles(target: Target, unit: MatrixUnit, ctype: str) -> list[MatrixTile]:
    traits = target.traits
    shapes = (small(unit),) if unit.emulated else TILES[unit.lanes, unit.rows, unit.columns]
    return [
        tile
        for tile in shapes
        if tile.items <= traits.max_group_size
        and tile.local_bytes(ctype) <= traits.static_local_bytes
    ]


def _chosen(target: Target, problem: Problem, unit: MatrixUnit) -> MatrixTile:
    """The first tile that makes groups enough for all compute units, else the smallest."""
    fitting = _tiles(target, unit, problem.out.dtype.stored)
    for tile in fitting:
        groups = ceil_div(problem.m, tile.m) * ceil_div(problem.n, tile.n) * problem.batch
        if groups >= target.traits.compute_units:
            return tile
    return min(fitting, key=lambda tile: (tile.m * tile.n, -tile.stages))


def _dense(array: Array, axis: int, run: int) -> bool:
    """Whether an axis is dense in aligned runs of so many elements, and ends with one."""
    # An axis of one element has any stride.
    others = [array.strides[i] for i in range(4) if i != axis and array.shape[i] > 1]
    aligned = all(step % run == 0 for step in (array.offset, *others))
    return array.strides[axis] == 1 and array.shape[axis] % run == 0 and aligned


def _bytes(ctype: str) -> int:
    return 4 if ctype == "float" else 2
