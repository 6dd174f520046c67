"""Matrix products on matrix units: of 16 bits, and of float32 rounded to TF32."""

from __future__ import annotations

from typing import NamedTuple

from ...array import Array
from ...device import Launch, Target
from ...values.dtypes import DType, bfloat16, float16, float32
from ...values.shapes import ceil_div
from ..kernel import Constraint, Kernel, by_name, joined
from .gemm_problem import Problem

MATRIX = Kernel(
    "gemm_matrix",
    "gemm/gemm_matrix.mako",
    constraints=(
        Constraint("unit in ('ptx', 'emulated')", "units are spoken to in these ways"),
        Constraint("tile.regular(ctype)", "whole runs of 16 bytes for each item, in two stages"),
    ),
)
DTYPES = (float16, bfloat16, float32)
RUN_BYTES = 16
RASTER = 8


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
    """What a group computes, and each 32 of its items.

    Attributes:
        m, n: rows and columns of a group.
        bytes_k: bytes of k that a stage holds for each row.
        warp_m, warp_n: rows and columns of 32 items.
        stages: of the ring in local memory.
    """

    m: int
    n: int
    bytes_k: int
    warp_m: int
    warp_n: int
    stages: int

    @property
    def items(self) -> int:
        """Of a group."""
        return self.m // self.warp_m * (self.n // self.warp_n) * 32

    @property
    def rows(self) -> int:
        """Products of the unit over the rows of 32 items."""
        return self.warp_m // 16

    @property
    def columns(self) -> int:
        """The same over the columns."""
        return self.warp_n // 8

    def unit_k(self, ctype: str) -> int:
        """Steps of k in a product of the unit: 32 bytes."""
        return 32 // _bytes(ctype)

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

    def regular(self, ctype: str) -> bool:
        """Whether every item reads equally often, and the unit divides the tile."""
        whole = self.m % self.warp_m == self.n % self.warp_n == 0
        whole = whole and self.warp_m % 16 == self.warp_n % 16 == 0 and self.bytes_k % 32 == 0
        for rows in (self.m, self.n):
            for along in ("k", "tile"):
                loads = self.loads(rows, along, ctype)
                lines = rows if along == "k" else loads.steps
                whole = whole and self.items % loads.lanes == 0 and lines % loads.jump == 0
        return whole and self.stages >= 2

    def local_bytes(self, ctype: str) -> int:
        """Local memory that a group takes at most."""
        sizes = [
            max(self.loads(rows, along, ctype).size for along in ("k", "tile"))
            for rows in (self.m, self.n)
        ]
        return self.stages * sum(sizes) * _bytes(ctype)


# The fastest where they fill the device, first.
TILES = (
    MatrixTile(128, 128, 128, 64, 64, 3),
    MatrixTile(128, 128, 64, 64, 64, 2),
    MatrixTile(64, 64, 128, 32, 32, 3),
    MatrixTile(64, 64, 64, 32, 32, 2),
)
# For tests of the emulated unit: small, of two patches of items.
SMALL = MatrixTile(32, 16, 64, 16, 16, 2)


def multiplies(target: Target, dtype: DType) -> bool:
    """Whether the device's matrix units multiply a dtype; float32 as TF32."""
    return dtype in DTYPES and bool(target.traits.matrix_units) and bool(_tiles(target, dtype))


def matrix(target: Target, problem: Problem) -> list[Launch]:
    """The launch of a product on matrix units.

    Args:
        target: what the device is like; :func:`multiplies` the dtype.
        problem: the product, no axis of it empty, without a finish.
    """
    unit, ctype = target.traits.matrix_units, problem.out.dtype.stored
    tile = _chosen(target, problem)
    run = RUN_BYTES // problem.out.dtype.itemsize
    a_along = "k" if problem.a.strides[3] == 1 else "tile"
    b_along = "k" if problem.b.strides[3] != 1 and problem.b.strides[2] == 1 else "tile"
    params = {
        "ctype": ctype,
        "unit": unit,
        "tile": tile,
        "a_along": a_along,
        "b_along": b_along,
        "a_dense": _dense(problem.a, 3 if a_along == "k" else 2, run),
        "b_dense": _dense(problem.b, 2 if b_along == "k" else 3, run),
        "out_dense": _dense(problem.out, 3, 2),
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
    return [launch]


def _tiles(target: Target, dtype: DType) -> list[MatrixTile]:
    traits = target.traits
    shapes = TILES if traits.matrix_units == "ptx" else (SMALL,)
    room, ctype = traits.static_local_bytes, dtype.stored
    return [
        tile
        for tile in shapes
        if tile.items <= traits.max_group_size and tile.local_bytes(ctype) <= room
    ]


def _chosen(target: Target, problem: Problem) -> MatrixTile:
    """The first tile that makes groups enough for all compute units, else the smallest."""
    fitting = _tiles(target, problem.out.dtype)
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
