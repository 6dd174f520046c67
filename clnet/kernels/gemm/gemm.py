"""Matrix products: which kernel multiplies what, and the one function the rest of clnet calls."""

from __future__ import annotations

from collections.abc import Sequence

from ...array import Array
from ...device import HostScalar, Launch, Scratch, Target
from ...values.dtypes import float32, float64
from ...values.record import NamedTuple
from ..epilogue import NO_EPILOGUE, Epilogue, Finish
from ..grid import in_groups
from ..pointwise import pointwise
from ..reduce import Pairing, reduce_pairs
from .gemm_any import any_type
from .gemm_matrix import matrix, multiplies
from .gemm_packed import lasting_elements, packed, packed_into, packed_once
from .gemm_pair import by_pairs, pairs_fit
from .gemm_problem import Problem, problems
from .gemm_skinny import MOST_ROWS, skinny
from .gemm_tiled import finish_pays, reads_turned, tiled, tiled_together, tiles_fit
from .gemm_unpacked import unpacked
from .gemm_warpgroup import by_warpgroups, has_warpgroups


class Multiplied(NamedTuple):
    """The operands of one of several products, as :func:`gemm` takes them.

    Attributes:
        out: what is written.
        a, b: what is multiplied.
        epilogue: what is made of it, without a finish.
    """

    out: Array
    a: Array
    b: Array
    epilogue: Epilogue = NO_EPILOGUE


def gemm_together(target: Target, products: Sequence[Multiplied]) -> list[Launch] | None:
    """Several products without batches in one launch, where that takes less time.

    Args:
        target: what the device is like.
        products: none reads what another writes.

    Returns:
        The launch, or None: they are multiplied one after the other.
    """
    if not in_groups(target.traits) or any(p.out.ndim != 2 or not p.out.size for p in products):
        return None
    parts = [problems(p.out, p.a, p.b, epilogue=p.epilogue)[0] for p in products]
    plain = all(p.k > 0 and p.out.dtype in (float32, float64) for p in parts)
    return tiled_together(target, parts) if plain else None


def gemm(
    target: Target,
    out: Array,
    a: Array,
    b: Array,
    *,
    alpha: float | HostScalar = 1.0,
    beta: float | HostScalar = 0.0,
    epilogue: Epilogue = NO_EPILOGUE,
    panels: Array | None = None,
    tf32: bool = False,
    split: bool = False,
    dot: str | None = None,
) -> list[Launch]:
    """``out = epilogue(alpha * a @ b + beta * out)``, for every item of the batch.

    Args:
        target: what the device is like.
        out: ``(..., m, n)``; read only where ``beta`` is not 0.
        a: ``(..., m, k)``, same dtype.
        b: ``(..., k, n)``, same dtype. All batch axes are equal (a stride of 0 repeats an item);
            any strides, so a transposed operand is a view.
        alpha: factor of the product.
        beta: factor of what ``out`` holds.
        epilogue: what is made of that. With a finish its arrays are written, of which ``out`` is
            one, and ``beta`` is 0.
        panels: of ``b``, from :func:`pack_for` or :func:`pack_into`.
        tf32: float32 operands may be rounded to TF32 where matrix units then multiply them.
        split: they may be split in two that TF32 holds, where that is faster.
        dot: a name of ``BFLOAT16_DOTS``: products that :func:`pairs_fit` go by it, of bfloat16 into
            bfloat16 or float32.

    Returns:
        The launches, in order; none if ``out`` is empty.
    """
    if out.size == 0:
        return []
    if in_groups(target.traits) and panels is None and out.shape[-2:] == (1, 1):
        plain = epilogue == NO_EPILOGUE and alpha == 1 and beta == 0
        if plain and a.shape[-1] and out.dtype in (float32, float64):
            return _numbers(target, out, a, b)
    parts = problems(out, a, b, alpha=alpha, beta=beta, epilogue=epilogue)
    units = panels is None and parts[0].k > 0 and (tf32 or out.dtype.itemsize == 2)
    units = units and multiplies(target, out.dtype)
    split = split and panels is None and parts[0].k > 0
    split = split and out.dtype is float32 and has_warpgroups(target, float32)
    pairs = dot is not None and pairs_fit(target, a.dtype, a.shape, b.shape)
    if epilogue.finish is not None and (units or pairs or split or not _finishes(target, parts)):
        sums = Array.scratch(Scratch.beside(a.storage, b.storage), out.shape, out.dtype)
        bare = epilogue._replace(finish=None)
        product = gemm(
            target, sums, a, b, alpha=alpha, epilogue=bare, tf32=tf32, split=split, dot=dot
        )
        return [*product, *_finished(target, epilogue.finish, sums)]
    if units:
        return [launch for part in parts for launch in _on_units(target, part)]
    if dot is not None and pairs:
        return by_pairs(target, out, a, b, dot, alpha=alpha, beta=beta, epilogue=epilogue)
    if panels is not None:
        return packed(target, parts[0], panels)
    return [launch for part in parts for launch in _launches(target, part, split=split)]


def _numbers(target: Target, out: Array, a: Array, b: Array) -> list[Launch]:
    """Products that are one number each: sums, for which a tile is computed for nothing."""
    down = b.ndim - 1
    turned = b.view(
        (*b.shape[:-2], b.shape[down], b.shape[down - 1]),
        (*b.strides[:-2], b.strides[down], b.strides[down - 1]),
    )
    return reduce_pairs(target, out, a, turned, dims=(down,), kind=Pairing.PRODUCT)


def pack_for(target: Target, out: Array, a: Array, b: Array) -> tuple[list[Launch], Array | None]:
    """Pack ``b`` once for several products ``a @ b`` of the same sizes and strides.

    Args:
        target: what the device is like.
        out: of the first product, as for :func:`gemm`.
        a: of the first product.
        b: of all.

    Returns:
        The launches that pack, and the panels; none where the kernel that multiplies takes none.
    """
    problem = _with_panels(target, out, a, b)
    found = None if problem is None else packed_once(target, problem)
    return ([], None) if found is None else ([found[0]], found[1])


def panel_elements(target: Target, out: Array, a: Array, b: Array) -> int | None:
    """Elements of the panels of a ``b`` that stays; None where that would save next to nothing.

    Args:
        target: what the device is like.
        out: of the product, as for :func:`gemm`; with a it may have no memory.
        a: as there.
        b: as there, one matrix.
    """
    problem = _with_panels(target, out, a, b) if b.ndim == 2 else None
    return None if problem is None else lasting_elements(target, problem)


def pack_into(target: Target, panels: Array, out: Array, a: Array, b: Array) -> Launch:
    """The launch that packs ``b``, for as many products of these sizes as there will be.

    Args:
        target: what the device is like.
        panels: ``(panel_elements(...),)``, dense, which :func:`gemm` then takes.
        out: of a product.
        a: of a product.
        b: of all.
    """
    return packed_into(target, problems(out, a, b)[0], panels)


def _with_panels(target: Target, out: Array, a: Array, b: Array) -> Problem | None:
    """A product whose right operand its kernel reads from panels."""
    parts = problems(out, a, b)
    problem = parts[0]
    turned = problem.b.storage is not b.storage or problem.b.offset != b.offset
    if len(parts) > 1 or turned or in_groups(target.traits) or out.size == 0:
        return None
    if problem.k == 0 or problem.out.dtype not in (float32, float64):
        return None
    if problem.n <= MOST_ROWS or _without_panels(target, problem):
        return None
    return problem


def finishes(
    target: Target, out: Array, a: Array, b: Array, *, operands: int, light: bool, effort: int
) -> bool:
    """Whether the kernel that multiplies should apply expressions, not one behind it.

    Args:
        target: what the device is like.
        out: as for :func:`gemm`.
        a: as there.
        b: as there.
        operands: arrays that are read, and arrays that are written.
        light: there is nothing but arithmetic to do.
        effort: instructions for one element, roughly.
    """
    parts = problems(out, a, b)
    return _finishes(target, parts) and finish_pays(
        target, parts[0], operands=operands, light=light, effort=effort
    )


def lasting_copy_pays(target: Target, out: Array, a: Array, b: Array, *, of: str = "b") -> bool:
    """Whether products read an operand enough faster where its other axis is the dense one.

    Args:
        target: what the device is like.
        out: as for :func:`gemm`, dense; the arrays may have no memory.
        a: as there.
        b: as there, one matrix.
        of: ``"a"`` or ``"b"``.
    """
    parts = problems(out, a, b)
    return _finishes(target, parts) and reads_turned(target, parts[0], of)


def _finishes(target: Target, parts: Sequence[Problem]) -> bool:
    problem = parts[0]
    return (
        len(parts) == 1
        and problem.out.size > 0
        and problem.k > 0
        and problem.out.dtype in (float32, float64)
        and in_groups(target.traits)
        and tiles_fit(target, problem)
    )


def _finished(target: Target, finish: Finish, sums: Array) -> list[Launch]:
    """The launch that makes of a product's result what its kernel cannot."""
    written, reads = (
        tuple(array.view(sums.shape, sums.strides) for array in arrays)
        for arrays in (finish.written, finish.reads)
    )
    return pointwise(
        target,
        written,
        (sums, *reads),
        finish.exprs,
        scalars=finish.scalars,
        compute=sums.dtype,
    )


def _on_units(target: Target, problem: Problem) -> list[Launch]:
    return by_warpgroups(target, problem) or matrix(target, problem)


def _launches(target: Target, problem: Problem, *, split: bool) -> list[Launch]:
    """The first that suits: by 128 items, of any type, in tiles on GPUs, without panels, packed."""
    if split and (launches := by_warpgroups(target, problem, split=True)):
        return launches
    if problem.k == 0 or problem.out.dtype not in (float32, float64):
        return any_type(problem)
    if in_groups(target.traits):
        return tiled(target, problem)
    if launches := _without_panels(target, problem):
        return launches
    turns = problem.n < problem.m and problem.n <= MOST_ROWS
    return packed(target, problem.transposed() if turns else problem)


def _without_panels(target: Target, problem: Problem) -> list[Launch] | None:
    """The launches of a product that needs no panels: of few rows or columns, or short sums."""
    narrow = problem.transposed() if problem.n < problem.m else problem
    return skinny(target, narrow) or unpacked(target, problem)
