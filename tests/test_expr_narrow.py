"""Expressions round to 16 bits in registers as memory does; see :mod:`tests.test_expr`."""

from __future__ import annotations

import numpy as np
import pytest

import clnet
from clnet import expr as E
from clnet.errors import DtypeError
from tests.test_expr import MEANING, SINGLE, X, run
from tests.test_expr import queue as queue  # a fixture


@pytest.mark.parametrize("width", [1, 0])
def test_numbers_of_16_bits_are_the_nearest(queue, width):
    """Bit for bit: halves to even, subnormal ones, the largest and what is beyond, all signs."""
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 2**32, 20000, dtype=np.uint64).astype(np.uint32)
    x = np.concatenate([bits.view(np.float32), rng.standard_normal(5000).astype(np.float32)])
    scales = np.float32(2.0) ** np.arange(-30, 18).astype(np.float32)
    near = np.float32([1, 1 + 2**-11, 1 + 3 * 2**-11, 1 - 2**-12, 1.5, 1 + 2**-8, 2 - 2**-12])
    edges = np.float32([65504, 65519.996, 65520, 65536, 2**-24, 2**-25, 3 * 2**-26, 0, np.inf])
    x = np.concatenate([x, np.outer(scales, near).ravel(), edges])
    x = np.concatenate([x, -x, np.float32([np.nan])])
    width = width or max(clnet.device().traits.simd_width, 2)
    got = run(queue, list(SINGLE.values()), "float", {X: x}, width=width)
    for name, result in zip(SINGLE, got, strict=True):
        with np.errstate(over="ignore", invalid="ignore"):
            want = MEANING[name](x)
        np.testing.assert_array_equal(result, want, err_msg=name)
        number = ~np.isnan(x)
        np.testing.assert_array_equal(np.signbit(result)[number], np.signbit(x)[number])


def test_other_types_are_not_rounded_to_16_bits():
    for ctype in ("double", "int"):
        with pytest.raises(DtypeError, match="float32 types only"):
            E.print_c([E.as_stored(X, "float16")], ctype, inputs=["x"])
