"""Panels of a product's right operand, packed by a launch of their own."""

from __future__ import annotations

from ...array import Array
from ...device import Launch, Scratch
from ...values.dtypes import int32
from ...values.record import NamedTuple
from ...values.shapes import ceil_div, round_up
from ..kernel import Kernel, by_name, joined
from ..streaming import LINE_BYTES, PACKED_BYTES
from .gemm_problem import Problem


class Panels(NamedTuple):
    """Form of the panels, the parameters of ``gemm_pack``; see its template."""

    ctype: str
    width: int
    vectors: int
    unroll: int
    stream: bool = False

    @property
    def columns(self) -> int:
        """Columns of a panel."""
        return self.vectors * self.width

    def elements(self, n: int, k: int) -> int:
        """Elements of all panels of one ``(k, n)`` matrix."""
        return round_up(n, self.columns) * round_up(k, self.unroll)


PACK = Kernel("gemm_pack", "gemm/gemm_pack.mako")

# Elements behind the panels: a counter for the groups that multiply.
TICKETS = 1
# Steps of k that a group packs, of long and of short sums.
BY_ROWS, BY_COLUMNS = (32, 8), (2048, 512)
LONG = 1024


def place_panels(memory: Scratch, form: Panels, problem: Problem) -> Array:
    """Scratch memory for the panels, as if it were b.

    Args:
        memory: where they go.
        form: of the panels.
        problem: the product.

    Returns:
        The array: its batch strides are the panels', its matrix strides mean nothing.
    """
    item = form.elements(problem.n, problem.k)
    items = problem.product.items
    dense = Array.scratch(memory, (items * item + TICKETS,), problem.b.dtype)
    outer, inner = (stride != 0 for stride in problem.b.strides[:2])
    inner_items = problem.b.shape[1] if inner else 1
    strides = (item * inner_items if outer else 0, item if inner else 0, 0, 0)
    return dense.view(problem.b.shape, strides)


def pack(form: Panels, problem: Problem, panels: Array) -> Launch:
    """The launch that fills the panels.

    Rows of b that lie densely are read whole, some at a time; columns panel by panel.

    Args:
        form: of the panels.
        problem: the product.
        panels: what :func:`place_panels` gave.

    Returns:
        The launch.
    """
    b, items = problem.b, problem.product.items
    column_panels = ceil_div(problem.n, form.columns)
    by_rows = b.strides[3] == 1
    chunk = (BY_ROWS if by_rows else BY_COLUMNS)[problem.k < LONG]
    group_panels = column_panels if by_rows else 1
    inner_items = b.shape[1] if b.strides[1] != 0 else 1
    nbytes = items * form.elements(problem.n, problem.k) * b.dtype.itemsize
    whole = form.width * b.dtype.itemsize == LINE_BYTES
    form = form._replace(stream=whole and nbytes > PACKED_BYTES)
    return PACK.launch(
        form,
        joined(
            by_name("n k panels source", problem.n, problem.k, panels, b),
            by_name("b_k b_n", *b.strides[2:]),
            by_name("inner b_outer b_inner", inner_items, *b.strides[:2]),
            by_name("column_panels chunk_k", group_panels, chunk),
            by_name("padded_k", round_up(problem.k, form.unroll)),
            by_name("tickets", tickets(form, problem, panels)),
        ),
        global_size=(ceil_div(column_panels, group_panels), ceil_div(problem.k, chunk), items),
        flops=0,
        bytes=2 * items * problem.n * problem.k * b.dtype.itemsize,
    )


def tickets(form: Panels, problem: Problem, panels: Array) -> Array:
    """The counter behind the panels, from which groups draw their blocks; 0 between launches.

    Args:
        form: of the panels.
        problem: the product.
        panels: what :func:`place_panels` gave.

    Returns:
        One int.
    """
    end = panels.offset + problem.product.items * form.elements(problem.n, problem.k)
    at = end * panels.dtype.itemsize // int32.itemsize
    return Array(panels.storage, (1,), (1,), at, int32)
