"""A matrix product as the kernels see it: in one form, with at most two batch axes."""

from __future__ import annotations

from itertools import product
from math import prod
from typing import Any

from ...array import Array
from ...device import HostScalar, Scratch
from ...values.record import NamedTuple
from ...values.shapes import collapse
from ..epilogue import NO_EPILOGUE, Epilogue, FinishParams
from ..kernel import Named, by_name, ints, longs

BATCH_AXES = 2


class Product(NamedTuple):
    """What the speed of a product depends on, and what choices are measured for.

    Attributes:
        dtype: of all operands.
        m, n, k: the sizes.
        batch: products in all.
        items: different items of b.
        layout: for a, then for b: ``"N"`` where rows lie densely, ``"T"`` where columns do, else
            ``"S"``.
    """

    dtype: str
    m: int
    n: int
    k: int
    batch: int
    items: int
    layout: str


class End(NamedTuple):
    """What becomes of a product's sums, by numbers and a bias that may be read or not.

    Attributes:
        axis: the one that a kernel's bias lies along; None: the kernel takes none.
        bias: what is given for it.
        finishes: whether it is added, or an activation applied.
        relu: whether the activation is relu; else there is none.
    """

    axis: str | None
    bias: Array | None
    finishes: bool
    relu: bool


class Problem(NamedTuple):
    """``out = epilogue(alpha * a @ b + beta * out)`` over two batch axes.

    Attributes:
        out: ``(outer, inner, m, n)``.
        a: ``(outer, inner, m, k)``.
        b: ``(outer, inner, k, n)``.
        alpha, beta: factors of the product and of what ``out`` holds.
        epilogue: what is made of that before it is stored; arrays of a finish lie as ``out`` does.
    """

    out: Array
    a: Array
    b: Array
    alpha: float | HostScalar = 1.0
    beta: float | HostScalar = 0.0
    epilogue: Epilogue = NO_EPILOGUE

    @property
    def m(self) -> int:
        """Rows of ``out``."""
        return self.out.shape[2]

    @property
    def n(self) -> int:
        """Columns of ``out``."""
        return self.out.shape[3]

    @property
    def k(self) -> int:
        """Length of the sums."""
        return self.a.shape[3]

    @property
    def batch(self) -> int:
        """Products in all."""
        return self.out.shape[0] * self.out.shape[1]

    @property
    def flops(self) -> int:
        """Multiplications and additions of the products."""
        product, finish = 2 * self.batch * self.m * self.n * self.k, self.epilogue.finish
        return product if finish is None else product + finish.flops

    @property
    def bytes(self) -> int:
        """Bytes moved at least: every operand once, a repeated one not more often."""
        product = sum(_distinct_bytes(array) for array in (self.out, self.a, self.b))
        finish = self.epilogue.finish
        return product if finish is None else product + finish.bytes

    @property
    def product(self) -> Product:
        """What choices depend on; operands' places and epilogues are left out."""
        layout = _layout(self.a) + _layout(self.b)
        items = prod(n for n, s in zip(self.b.shape[:2], self.b.strides[:2], strict=True) if s)
        return Product(self.out.dtype.name, self.m, self.n, self.k, self.batch, items, layout)

    def transposed(self) -> Problem:
        """The same product as ``out^T = b^T @ a^T``."""
        out, a, b = turned(self.out), turned(self.b), turned(self.a)
        return self._replace(out=out, a=a, b=b, epilogue=self.epilogue.transposed())

    @property
    def end(self) -> End:
        """What becomes of the sums, for kernels that are told by numbers.

        Bare products take the kernel of those with a bias along n, and read none.
        """
        made = self.epilogue
        relu = made.activation is not None
        if relu or made.bias is not None:
            return End(made.axis, made.bias, True, relu)
        return End("n", self.b, False, False)

    def memory(self) -> Scratch:
        """Scratch memory beside that which operands may lie in."""
        return Scratch.beside(self.out.storage, self.a.storage, self.b.storage)

    def partial(self, sums: Array) -> Problem:
        """The bare product into slices of its sums.

        Args:
            sums: ``(slices, outer, inner, m, n)``.
        """
        first = sums.view(sums.shape[1:], sums.strides[1:])
        return Problem(first, self.a, self.b)

    def factors(self) -> dict[str, Any]:
        """The kernels' arguments ``alpha, beta``."""
        return {"alpha": self.alpha, "beta": self.beta}

    def bias_args(self) -> dict[str, Any]:
        """The kernels' arguments ``bias, bias_step``: none without a bias."""
        bias = self.epilogue.bias
        return {} if bias is None else {"bias": bias, "bias_step": bias.strides[0]}

    def finish_args(self) -> dict[str, Any]:
        """The kernels' arguments for ``finish``: none without one."""
        return {} if self.epilogue.finish is None else self.epilogue.finish.args()

    def packed_args(self, sizes: bytes, out_slice: int = 0, *, bias: Array | None) -> Named:  # pyrefly: ignore[not-a-type] - Python's
        """The arguments of kernels whose numbers are two vectors; see ``lib/product.mako``.

        Args:
            sizes: of :meth:`sizes`.
            out_slice: how far slices of sums lie apart.
            bias: the one, or what stands for it and is not read.
        """
        operands = (self.out, self.a, self.b, bias, self.alpha, self.beta)
        names = "strides sizes out a b bias alpha beta"
        return by_name(names, self.strides(out_slice), sizes, *operands)

    def finish_params(self, width: int) -> FinishParams | None:
        """The kernels' parameter ``finish``, of vectors of so many lanes."""
        finish = self.epilogue.finish
        return None if finish is None else finish.params(self.out.dtype.ctype, width)

    def sizes(self, *further: int) -> bytes:  # pyrefly: ignore[not-a-type] - Python's
        """The kernels' argument ``sizes``; see ``lib/product.mako``.

        Args:
            further: what a kernel has beside the sizes that all have.
        """
        return ints(self.m, self.n, self.k, self.out.shape[1], *further)

    def strides(self, out_slice: int = 0) -> bytes:  # pyrefly: ignore[not-a-type] - Python's
        """The kernels' argument ``strides``; see ``lib/product.mako``.

        Args:
            out_slice: how far slices of sums lie apart.
        """
        bias_step = 0 if self.epilogue.bias is None else self.epilogue.bias.strides[0]
        operands = (self.out, self.a, self.b)
        matrices = [step for array in operands for step in array.strides[2:]]
        batches = [step for array in operands for step in array.strides[:2]]
        return longs(*matrices, *batches, bias_step, out_slice)

    def matrix_strides(self) -> Named:
        """The kernels' arguments ``out_m, out_n, a_m, a_k, b_k, b_n``."""
        steps = (*self.out.strides[2:], *self.a.strides[2:], *self.b.strides[2:])
        return by_name("out_m out_n a_m a_k b_k b_n", *steps)

    def batch_strides(self) -> Named:
        """The kernels' arguments ``inner`` and ``*_outer, *_inner`` of out, a and b."""
        steps = (*self.out.strides[:2], *self.a.strides[:2], *self.b.strides[:2])
        names = "inner out_outer out_inner a_outer a_inner b_outer b_inner"
        return by_name(names, self.out.shape[1], *steps)


def problems(
    out: Array,
    a: Array,
    b: Array,
    *,
    alpha: float | HostScalar = 1.0,
    beta: float | HostScalar = 0.0,
    epilogue: Epilogue = NO_EPILOGUE,
) -> list[Problem]:
    """A product with any number of batch axes as problems with two each; nearly always one.

    Args:
        out: ``(..., m, n)``.
        a: ``(..., m, k)``.
        b: ``(..., k, n)``, all with the same batch axes.
        alpha: factor of the product.
        beta: factor of what ``out`` holds.
        epilogue: what is made of the result before it is stored.

    Returns:
        Problems with ``out``'s unit stride, if it has one, along ``n``, and with as few batch items
        as the strides allow.
    """
    arrays = (out, a, b)
    sizes, steps = collapse(out.shape[:-2], [array.strides[:-2] for array in arrays])
    missing = (1,) * (BATCH_AXES - len(sizes))
    sizes, steps = (*missing, *sizes), tuple((*missing, *step) for step in steps)
    outer = len(sizes) - BATCH_AXES
    found: list[Problem] = []
    for index in product(*(range(size) for size in sizes[:outer])):
        views = tuple(
            array.view(
                (*sizes[outer:], *array.shape[-2:]),
                (*step[outer:], *array.strides[-2:]),
                array.offset + sum(i * s for i, s in zip(index, step[:outer], strict=True)),
            )
            for array, step in zip(arrays, steps, strict=True)
        )
        x, y, z = views
        problem = Problem(x, y, z, alpha, beta, epilogue)
        if x.shape[1] > 1:
            problem = _merge_rows(problem)
            problem = _merge_rows(problem.transposed()).transposed()
        if problem.out.strides[3] != 1 and problem.out.strides[2] == 1:
            problem = problem.transposed()
        found.append(problem)
    return found


def turned(b: Array) -> Array:
    """``(..., n, k)`` of ``(..., k, n)``, or back."""
    outer, inner, k, n = b.strides
    return b.view((*b.shape[:2], b.shape[3], b.shape[2]), (outer, inner, n, k))


def _merge_rows(problem: Problem) -> Problem:
    """The problem with the inner batch axis turned into rows, if all its items share one ``b``."""
    out, a, b = problem.out, problem.a, problem.b
    items, m = out.shape[1], out.shape[2]
    joined = m == 1 or (out.strides[1] == m * out.strides[2] and a.strides[1] == m * a.strides[2])
    over_rows = problem.epilogue.bias is not None and problem.epilogue.bias_axis == "m"
    if items == 1 or b.strides[1] != 0 or over_rows or not joined:
        return problem

    def rows(array: Array) -> Array:
        outer, inner, row, column = array.strides
        shape = (array.shape[0], 1, items * m, array.shape[3])
        return array.view(shape, (outer, 0, inner if m == 1 else row, column))

    once = b.view((b.shape[0], 1, *b.shape[2:]), (b.strides[0], 0, *b.strides[2:]))
    return problem._replace(out=rows(out), a=rows(a), b=once)


def _layout(array: Array) -> str:
    return "N" if array.strides[3] == 1 else "T" if array.strides[2] == 1 else "S"


def _distinct_bytes(array: Array) -> int:
    sizes = (n for n, s in zip(array.shape, array.strides, strict=True) if s != 0)
    return prod(sizes) * array.dtype.itemsize
