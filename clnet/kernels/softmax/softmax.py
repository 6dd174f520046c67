"""Softmax and log-softmax along an axis, and their gradients from the result."""

from __future__ import annotations

from math import prod
from typing import Any

from ...array import Array
from ...device import Launch, Target
from ...errors import ArgumentError
from ...values.dtypes import from_name
from ...values.record import NamedTuple
from ...values.shapes import ceil_div
from ..grid import filled, in_groups, jobs_per_item, lanes_of_stored
from ..kernel import Kernel, Named, by_name, joined
from ..streaming import streams_rows
from .softmax_columns import COLUMNS, GRAD_COLUMNS, share_of_item

ROWS = Kernel("softmax_rows", "softmax/softmax.mako")
GROUP = Kernel("softmax_group", "softmax/softmax.mako")
GRAD_ROWS = Kernel("softmax_grad_rows", "softmax/softmax.mako")
GRAD_GROUP = Kernel("softmax_grad_group", "softmax/softmax.mako")

_GROUP = 256
# Elements of a short line for each item, the most that one keeps, and groups that fill a unit.
_HELD_EACH, _MOST_HELD, _GROUPS_A_UNIT = 8, 16, 8
# Of exponentials that an item on a CPU keeps: half of a cache of first level.
_KEPT_BYTES = 16384
# An exponential counts as this many operations.
_EXP_FLOPS = 10


class Lines(NamedTuple):
    """A dense array as lines of ``n`` elements: ``(outer, n, inner)``."""

    outer: int
    n: int
    inner: int

    @staticmethod
    def of(op: str, x: Array, dim: int) -> Lines:
        """The lines of ``x`` along ``dim``.

        Raises:
            ArgumentError: if ``x`` is not dense.
        """
        if not x.contiguous:
            raise ArgumentError(op, "arrays are dense", shape=x.shape, strides=x.strides)
        return Lines(prod(x.shape[:dim]), x.shape[dim], prod(x.shape[dim + 1 :]))

    @property
    def count(self) -> int:
        """How many lines there are."""
        return self.outer * self.inner

    def by_rows(
        self, target: Target, kernel: Kernel, params: Named, args: Named, **cost: Any
    ) -> Launch:
        """A launch of which each work-item takes some lines that lie in one piece."""
        elements = self.outer * self.n
        each = jobs_per_item(target, self.outer, elements, per_unit=32, least=2048)
        args = joined(args, by_name("rows rows_per_item", self.outer, each))
        return kernel.launch(params, args, global_size=(ceil_div(self.outer, each),), **cost)

    def by_columns(
        self, width: int, kernel: Kernel, params: Named, args: Named, **cost: Any
    ) -> Launch:
        """A launch of which each work-item takes ``width`` neighbouring lines."""
        blocks = ceil_div(self.inner, width)
        args = joined(args, by_name("blocks inner", blocks, self.inner))
        return kernel.launch(params, args, global_size=(self.outer * blocks,), **cost)

    def by_groups(
        self, shape: tuple[int, int], kernel: Kernel, params: Named, args: Named, **cost: Any
    ) -> Launch:
        """A launch of which each group takes some lines, ``shape`` as of :meth:`group_shape`."""
        share, kept = shape
        group = share * kept
        how = by_name("group reduce_items kept_fast", group, share, self.inner > 1)
        sizes = (ceil_div(self.count, kept) * group,)
        return kernel.launch(
            joined(params, how), args, global_size=sizes, local_size=(group,), **cost
        )

    def group_shape(self, target: Target) -> tuple[int, int]:
        """Work-items that share one line, and lines of a group."""
        group = min(_GROUP, target.traits.max_group_size)
        if self.inner > 1:
            kept = min(32, group, 1 << (self.inner - 1).bit_length())
            return group // kept, kept
        share = min(group, 1 << (self.n - 1).bit_length())
        return share, group // share

    def short_shape(self, target: Target) -> tuple[int, int]:
        """As :meth:`group_shape`, with fewer items for a line where short lines fill the device so.

        An item of few that share a line waits less for the others; each keeps what it read.
        """
        share, kept = self.group_shape(target)
        fewer = 1 << (ceil_div(self.n, _HELD_EACH) - 1).bit_length()
        groups = self.count * fewer // (share * kept)
        if (
            self.inner > 1
            or fewer >= share
            or groups < _GROUPS_A_UNIT * target.traits.compute_units
        ):
            return share, kept
        return fewer, share * kept // fewer

    def held(self, share: int) -> int:
        """Elements that an item keeps of a line which so many share, 0 where they are too many."""
        each = ceil_div(self.n, share)
        return each if self.inner == 1 and each <= _MOST_HELD else 0


def softmax(target: Target, y: Array, x: Array, *, dim: int) -> list[Launch]:
    """``y = exp(x) / sum(exp(x))`` along ``dim``.

    Args:
        target: the device's traits and the scratch memory allowed.
        y: dense, ``x``'s shape and dtype.
        x: dense, floating.
        dim: an axis, counted from the front.

    Returns:
        One launch, none when there are no elements.

    Raises:
        ArgumentError: if an array is not dense.
    """
    return _launch(target, (ROWS, COLUMNS, GROUP), y, (x,), dim, log=False)


def log_softmax(target: Target, y: Array, x: Array, *, dim: int) -> list[Launch]:
    """``y = x - log(sum(exp(x)))`` along ``dim``; arguments as :func:`softmax`'s."""
    return _launch(target, (ROWS, COLUMNS, GROUP), y, (x,), dim, log=True)


def softmax_grad(target: Target, gx: Array, gy: Array, y: Array, *, dim: int) -> list[Launch]:
    """``gx = y (gy - sum(gy y))``: the gradient from the result; arrays as :func:`softmax`'s."""
    return _launch(target, (GRAD_ROWS, GRAD_COLUMNS, GRAD_GROUP), gx, (gy, y), dim, log=False)


def log_softmax_grad(target: Target, gx: Array, gy: Array, y: Array, *, dim: int) -> list[Launch]:
    """``gx = gy - exp(y) sum(gy)``: the gradient from the result; arrays as :func:`softmax`'s."""
    return _launch(target, (GRAD_ROWS, GRAD_COLUMNS, GRAD_GROUP), gx, (gy, y), dim, log=True)


def _launch(
    target: Target,
    kernels: tuple[Kernel, Kernel, Kernel],
    out: Array,
    inputs: tuple[Array, ...],
    dim: int,
    *,
    log: bool,
) -> list[Launch]:
    for array in inputs:
        Lines.of("softmax", array, dim)
    lines = Lines.of("softmax", out, dim)
    if out.size == 0:
        return []
    rows, columns, group = kernels
    acc = from_name(out.dtype.compute)
    params = by_name("log ctype acc", log, out.dtype.stored, acc.ctype)
    args = by_name("n y x" if len(inputs) == 1 else "n gx gy y", lines.n, out, *inputs)
    exps = _EXP_FLOPS if len(inputs) == 1 or log else 0
    cost: dict[str, Any] = {"flops": out.size * (4 + exps), "bytes": out.nbytes * (1 + len(inputs))}
    if in_groups(target.traits):
        args = joined(args, by_name("sums inner", lines.count, lines.inner))
        shape = lines.short_shape(target)
        params = joined(params, by_name("held", lines.held(shape[0])))
        return [lines.by_groups(shape, group, params, args, **cost)]
    lanes = lanes_of_stored(target, out.dtype)
    lanes = filled(lanes, lines.n if lines.inner == 1 else lines.inner)
    if lines.inner == 1:
        params = joined(params, by_name("lanes stream", lanes, streams_rows(out, lines.n, lanes)))
        if len(inputs) == 1:
            most = _KEPT_BYTES // acc.itemsize
            kept = not log and lanes <= lines.n <= most
            params = joined(params, by_name("room", most if kept else 0))
        return [lines.by_rows(target, rows, params, args, **cost)]
    vectors, room = share_of_item(target, lines, lanes, acc.itemsize, len(inputs))
    params = joined(params, by_name("lanes vectors room", lanes, vectors, room))
    return [lines.by_columns(lanes * vectors, columns, params, args, **cost)]
