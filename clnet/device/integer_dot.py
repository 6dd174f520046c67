"""Instructions that multiply several small integers and add the products to one of 32 bits.

One table of forms: how a device is spoken to, and how operands lie. OpenCL reports one of them
(``cl_khr_integer_dot_product``), and compilers need not find the others from plain C; so each is
tried in a process of its own, since an instruction that the processor lacks ends it, and numbers
are compared. The verdict is kept beside the compiled kernels, and asked for by the first op that
multiplies integers.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ..values.cache import Shelf
from ..values.record import NamedTuple
from .discovery import discover, select, traits_of
from .first_form import first_kept, tell_first
from .probe import lines_of, run_trial

_KEY = "integer dot 2"
_ITEMS = 64
_BYTES = 4


class IntegerDot(NamedTuple):
    """How sums of products of ``x``, unsigned, and ``w``, signed, both of 8 bits, are taken.

    Attributes:
        define: C that defines ``DOT(sum, x, w)``: to ``sum``, an int or a vector of them, the
            four products of what lies in the 32 bits of ``x`` and ``w``, vectors alike.
        shift: what is taken from each number of ``x``, since the instruction wants it signed.
        vectors: whether operands are vectors of a processor; else ints.
        narrow: C that defines ``DOT2(sum, x0, w0, x1, w1)`` through sums of 16 bits, which is
            faster; exact where two products of one and two of the other, the first of each or the
            last, fit in their sum. ``""``: there is none.
    """

    define: str
    shift: int = 0
    vectors: bool = False
    narrow: str = ""


def _assembled(instruction: str, register: str = "v") -> str:
    operands = f'"+{register}"(sum) : "{register}"(x), "{register}"(w)'
    return f'#define DOT(sum, x, w) __asm__("{instruction} %2, %1, %0" : {operands})'


def _of(result: str, instruction: str, *operands: str) -> str:
    names = ", ".join(f"%{i}" for i in range(len(operands), 0, -1))
    given = ", ".join(f'"v"({operand})' for operand in operands)
    return f'__asm__("{instruction} {names}, %0" : "=v"({result}) : {given}); '


def _madd() -> str:
    """Sums of two shorts at a time: first the bytes of even places, then those of odd ones."""
    even = _of("b_", "vpsllw $8,", "w") + _of("b_", "vpsraw $8,", "b_")
    odd = _of("a_", "vpsrlw $8,", "x") + _of("b_", "vpsraw $8,", "w")
    add = _of("b_", "vpmaddwd", "a_", "b_") + "(sum) += b_; "
    body = f"a_ = (x) & 0x00ff00ff; {even}{add}{odd}{add}"
    return f"#define DOT(sum, x, w) do {{ __typeof__(sum) a_, b_; {body}}} while (0)"


def _madd_narrow() -> str:
    """Two products' sum in 16 bits, another two's added, and then neighbours to 32 bits."""
    products = _of("a_", "vpmaddubsw", "x0", "w0") + _of("b_", "vpmaddubsw", "x1", "w1")
    body = products + _of("a_", "vpaddw", "a_", "b_") + "b_ = 0x00010001; "
    body += _of("a_", "vpmaddwd", "a_", "b_") + "(sum) += a_; "
    define = "#define DOT2(sum, x0, w0, x1, w1)"
    return f"{define} do {{ __typeof__(sum) a_, b_; {body}}} while (0)"


_BYTE = "(({0}) >> {1} & 255) * (({2}) << {3} >> 24)"
_PLAIN = " + ".join(_BYTE.format("x", 8 * b, "w", 24 - 8 * b) for b in range(_BYTES))

PLAIN = IntegerDot(f"#define DOT(sum, x, w) (sum) += {_PLAIN}")
"""What every compiler takes, for ints and vectors of them."""

DOTS: dict[str, IntegerDot] = {
    "": PLAIN,
    "vnni": IntegerDot(_assembled("vpdpbusd"), vectors=True),
    "avx_vnni": IntegerDot(_assembled("%{vex%} vpdpbusd", "x"), vectors=True),
    "madd": IntegerDot(_madd(), vectors=True, narrow=_madd_narrow()),
    "dp4a": IntegerDot(
        '#define DOT(sum, x, w) asm("dp4a.u32.s32 %0, %1, %2, %0;" : "+r"(sum) : "r"(x), "r"(w))'
    ),
    "khr": IntegerDot("#define DOT(sum, x, w) (sum) += dot_4x8packed_us_int((uint)(x), (uint)(w))"),
    "sdot4": IntegerDot(
        "#define DOT(sum, x, w) "
        "(sum) = __builtin_amdgcn_sdot4((x) ^ (int)0x80808080, w, sum, false)",
        shift=128,
    ),
}
"""By the trait's name; those that lie before others are taken first."""

_TRIAL = """
{define}
{narrow}
__attribute__((reqd_work_group_size(64, 1, 1)))
__kernel void probe_dot(__global int{width} *y, __global const int{width} *x)
{{
    const int i = get_global_id(0);
    int{width} sum = 3;
    const int{width} a = x[i], b = x[i + 64];
    {sums}
    y[i] = sum;
}}
"""


def dots(handle: Any, name: str) -> bool:
    """Whether a form is compiled, and sums of the largest products come out exactly.

    Args:
        handle: a ``pyopencl.Device``; a failure may take the process along.
        name: of the form.
    """
    form = DOTS[name]
    sums = "DOT(sum, a, b); DOT(sum, a, b);"
    if not _is_exact(handle, form, sums, (-128, 127)):
        return False
    return not form.narrow or _is_exact(handle, form, "DOT2(sum, a, b, a, b);", (-32, 32))


def _is_exact(handle: Any, form: IntegerDot, sums: str, bounds: tuple[int, int]) -> bool:
    """Whether twice the products are summed exactly, of filters that reach to the bounds."""
    width = traits_of(handle).simd_width if form.vectors else 1
    rng = np.random.default_rng(1)
    shape = (_ITEMS * width, _BYTES)
    low, high = bounds
    x, w = rng.integers(0, 256, shape), rng.integers(low, high + 1, shape)
    x[::3], w[::3], w[1::3] = 255, high, low
    given = np.concatenate([x.astype(np.uint8).view(np.int8), w.astype(np.int8)])
    lanes = width if width > 1 else ""
    source = _TRIAL.format(define=form.define, narrow=form.narrow, width=lanes, sums=sums)
    found = run_trial(handle, source, "probe_dot", given.reshape(-1).view(np.float32), len(x))
    expected = 3 + 2 * ((x - form.shift) * w).sum(1)
    return found is not None and np.array_equal(found.view(np.int32), expected)


def answer(selector: str, *names: str) -> None:
    """Tell which of some forms is the first that works, as :func:`.first_form.tell_first` does.

    Only those are tried whose operands lie as the device's kernels have them: a processor's in
    vectors, others' in ints.
    """
    handle = select(selector, discover()).handle
    vectors = not traits_of(handle).dedicated_local_memory
    suitable = [name for name in names if DOTS[name].vectors is vectors]
    tell_first(suitable, partial(dots, handle))


def integer_dot(selector: str, shelf: Shelf) -> str:
    """The name of the first form whose numbers are right; ``""``: none but plain C.

    Args:
        selector: the device's name, ``"nvidia:0"``.
        shelf: where the verdict is kept; it belongs to this device and driver.
    """
    ask = partial(lines_of, __name__, answer.__name__, selector)
    return first_kept(shelf, _KEY, [*filter(None, DOTS)], ask)
