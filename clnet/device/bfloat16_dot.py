"""The instruction that multiplies pairs of bfloat16 numbers and adds the products to a float32.

As with small integers (:mod:`.integer_dot`) no compiler finds it from plain C, so each form is
tried in a process of its own, and the verdict is kept beside the compiled kernels. The first
product of bfloat16 numbers asks for it.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ..values.cache import Shelf
from .discovery import discover, select, traits_of
from .first_form import first_kept, tell_first
from .probe import lines_of, run_trial

_KEY = "bfloat16 dot 1"
_ITEMS = 64

BFLOAT16_DOTS: dict[str, str] = {
    "": (
        "#define DOT(sum, x, w) (sum) += FLOATS(BITS(x) << 16) * FLOATS(BITS(w) << 16) "
        "+ FLOATS(BITS(x) & 0xffff0000) * FLOATS(BITS(w) & 0xffff0000)"
    ),
    "avx512_bf16": (
        '#define DOT(sum, x, w) __asm__("vdpbf16ps %2, %1, %0" : "+v"(sum) : "v"(x), "v"(w))'
    ),
}
"""By name, C that defines ``DOT(sum, x, w)``: to ``sum``, a vector of floats, both products of what
the bits of ``x`` and ``w`` hold, vectors alike. That of ``""`` is what every compiler takes, with
``BITS`` and ``FLOATS``, which see a vector's bits as whole numbers, and back; it is no faster."""


def pair_macros(name: str, width: int) -> str:
    """The C of a form for vectors of so many floats.

    Args:
        name: of :data:`BFLOAT16_DOTS`.
        width: lanes, 1 or a power of two.
    """
    lanes = width if width > 1 else ""
    seen = f"#define BITS(x) as_uint{lanes}(x)\n#define FLOATS(x) as_float{lanes}(x)\n"
    return ("" if name else seen) + BFLOAT16_DOTS[name]


_TRIAL = """
{define}
__attribute__((reqd_work_group_size(64, 1, 1)))
__kernel void probe_bfloat16(__global float{width} *y, __global const float{width} *x)
{{
    const int i = get_global_id(0);
    float{width} sum = 3;
    const float{width} a = x[i], b = x[i + 64];
    DOT(sum, a, b);
    DOT(sum, a, b);
    y[i] = sum;
}}
"""


def is_right(handle: Any, name: str) -> bool:
    """Whether a form is compiled, and sums that float32 holds come out exactly.

    Args:
        handle: a ``pyopencl.Device``; a failure may take the process along.
        name: of the form.
    """
    width = traits_of(handle).simd_width
    x, w = np.random.default_rng(1).integers(-255, 256, (2, _ITEMS * width, 2))
    given = np.concatenate([x, w]).astype(np.float32).view(np.uint32) >> 16
    packed = (given[:, 0] | given[:, 1] << 16).view(np.float32)
    define = pair_macros(name, width)
    source = _TRIAL.format(define=define, width=width if width > 1 else "")
    found = run_trial(handle, source, "probe_bfloat16", packed, len(x))
    return found is not None and np.array_equal(found, 3 + 2 * (x * w).sum(1))


def answer(selector: str, *names: str) -> None:
    """Tell which of some forms is the first that works, as :func:`.first_form.tell_first` does."""
    handle = select(selector, discover()).handle
    tell_first(names, partial(is_right, handle))


def bfloat16_dot(selector: str, shelf: Shelf) -> str:
    """The name of the first form whose numbers are right; ``""``: none but plain C.

    Args:
        selector: the device's name, ``"pocl:0"``.
        shelf: where the verdict is kept; it belongs to this device and driver.
    """
    ask = partial(lines_of, __name__, answer.__name__, selector)
    return first_kept(shelf, _KEY, [*filter(None, BFLOAT16_DOTS)], ask)
