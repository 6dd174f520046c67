"""Pointwise expressions over arrays whose innermost axis is one vector: blocked arrays on a CPU.

A value for each channel is one vector there, and stays the same along a plane.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ...device import DeviceTraits
from ...expr import Expr, Input, print_c, topological
from ...values.dtypes import DType, bfloat16, bool_, float16, float32
from ...values.shapes import Shape, Strides, ceil_div
from ..grid import in_groups
from ..kernel import Constraint, Kernel, Rendered
from ..streaming import STREAM_BYTES

# Vectors an item takes: 64 KiB of an operand in AVX-512, a few microseconds.
_SHARE = 1024
_INT_ELEMENTS = 2**31 - 1
# Dense arrays, and rows of some length, are taken as vectors from a size on that repays a kernel.
DENSE_ELEMENTS = 2**14
LEAST_RUN = 8
_DTYPES = (float32, float16, bfloat16, bool_)


VECTORS = Kernel(
    "pointwise_vectors",
    "pointwise/pointwise_vectors.mako",
    (Constraint("lanes in (4, 8, 16)", "vectors OpenCL has"),),
)


def in_vectors(
    lanes: int, sizes: Shape, steps: Sequence[Strides]
) -> tuple[Shape, tuple[Strides, ...]]:
    """A problem whose inner axis is long as runs of vectors; others as they are.

    Args:
        lanes: of the device's vectors.
        sizes: the common axes, collapsed.
        steps: of each operand, along them.

    Returns:
        The sizes and steps.
    """
    lanes = min(max(lanes, 4), 16)
    n = sizes[-1]
    if n % lanes or n < LEAST_RUN * lanes or prod(sizes) < DENSE_ELEMENTS:
        return sizes, tuple(steps)
    runs = (*sizes[:-1], n // lanes, lanes)
    return runs, tuple((*s[:-1], s[-1] * lanes, s[-1]) for s in steps)


def vectors_fit(
    traits: DeviceTraits,
    compute: DType,
    dtypes: Sequence[DType],
    sizes: Shape,
    steps: Sequence[Strides],
    outputs: int,
) -> bool:
    """Whether the inner axis of a problem is one vector of this device.

    ``dtypes`` are those of the operands, of which the first ``outputs`` are written; the sizes are
    those of :func:`in_vectors`.
    """
    wide, moving = [s[-1] for s in steps], [s[-2] for s in steps if len(s) > 1]
    return (
        not in_groups(traits)
        and len(sizes) > 1
        and sizes[-1] in (4, 8, 16)
        and sizes[-1] <= traits.simd_width
        and sizes[-2] > 1
        and (compute is float32 or (compute is bool_ and all(d is bool_ for d in dtypes)))
        and all(d in _DTYPES for d in dtypes)
        and all(s in (0, 1) for s in wide)
        and all(wide[:outputs])
        and all(moving[:outputs])
        and prod(sizes) < _INT_ELEMENTS
    )


def truths_fit(exprs: Sequence[Expr], compute: DType, dtypes: Sequence[DType]) -> bool:
    """Whether truth values are made of booleans, and each read as one or as a number, not as both.

    Where nothing else is computed, there are no numbers on the way, either.

    Args:
        exprs: an expression for each output.
        compute: what they are computed in.
        dtypes: of the operands, outputs first.
    """
    if bool_ not in dtypes:
        return True
    made = all(x.boolean for x, dtype in zip(exprs, dtypes, strict=False) if dtype is bool_)
    nodes = topological(exprs)
    if compute is bool_ and not all(x.boolean for x in nodes):
        return False
    read = {(x.index, x.boolean) for x in nodes if isinstance(x, Input)}
    return made and all((index, not boolean) not in read for index, boolean in read)


def vectors_recipe(
    exprs: tuple[Expr, ...],
    dtypes: Sequence[DType],
    sizes: Shape,
    steps: Sequence[Strides],
    *,
    scalars: int,
    aligned: bool,
) -> tuple[Rendered, tuple[int, ...], tuple[int, int]]:
    """The kernel of a problem that fits, what its share is, and how many items there are.

    Args:
        exprs: an expression for each output.
        dtypes: of the operands, outputs first.
        sizes: the common axes, collapsed.
        steps: of each operand, outputs first, along them.
        scalars: how many run-time scalars there are.
        aligned: whether the outputs begin at lines of the caches.

    Returns:
        The rendered kernel, its last arguments (the run and an item's share), the global size.
    """
    lanes, run, outer, outputs = sizes[-1], sizes[-2], sizes[:-2], len(exprs)
    stored = [dtype.stored for dtype in dtypes]
    inputs = tuple(
        (ctype, s[-2] != 0, s[-1] != 0)
        for ctype, s in zip(stored[outputs:], steps[outputs:], strict=True)
    )
    # A truth value is a mask in registers, which few expressions take for a number.
    names = [f"v_{j}" for j in range(len(inputs))]
    for leaf in topological(exprs):
        if isinstance(leaf, Input) and not leaf.boolean and inputs[leaf.index][0] == "uchar":
            names[leaf.index] = f"CONVERT((v_{leaf.index} & 1), floats)"
    printed = print_c(
        exprs,
        f"float{lanes}",
        inputs=names,
        scalars=[f"s_{j}" for j in range(scalars)],
    )
    dense = all(s[-2] == lanes and not any(n % lanes for n in s[:-2]) for s in steps[:outputs])
    plain = all(ctype == "float" for ctype in stored[:outputs])
    large = plain and 4 * outputs * prod(sizes) >= STREAM_BYTES
    params = {
        **printed._asdict(),
        "lanes": lanes,
        "outputs": tuple(stored[:outputs]),
        "inputs": inputs,
        "scalars": scalars,
        "outer": len(outer),
        "stream": aligned and dense and large,
    }
    parts = ceil_div(run, _SHARE)
    share = ceil_div(run, parts)
    return VECTORS.bind(params), (run, share), (ceil_div(run, share), prod(outer))
