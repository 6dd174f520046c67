"""float's elementary functions: accuracy over all of float32, specials, the same bits in vectors.

The reference is NumPy's, or Python's erf and erfc, in float64, whose own error is below 1e-8 ulp of
float32. Errors are in units in the last place (ulp) of the correctly rounded result; the bounds are
what was measured, rounded up: exp and expm1 1.1, log and log1p 0.9, log2 and tanh and erf 1.5, sin
and cos 2.5, sigmoid 2.5 (3 by NVIDIA's division), tan 3.5, erfc 4.5.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

import clnet
from clnet.device import DeviceKind
from clnet.expr.printing import ELEMENTARY
from clnet.kernels.template import render

pytestmark = pytest.mark.device

ULP = {
    "exp": 1.1,
    "expm1": 1.1,
    "log": 0.9,
    "log1p": 0.9,
    "log2": 1.5,
    "tanh": 1.5,
    "erf": 1.5,
    "erfc": 4.5,
    "sigmoid": 2.5 if clnet.device().traits.kind is DeviceKind.CPU else 3.0,
    "sin": 2.5,
    "cos": 2.5,
    "tan": 3.5,
}
FLUSHED = {"sigmoid"}  # what is below 2^-126 may be 0
REFERENCE = {name: getattr(np, name, None) for name in ULP}
REFERENCE["sigmoid"] = lambda x: 1 / (1 + np.exp(-x))
REFERENCE["erf"] = np.vectorize(math.erf, otypes=[np.float64])
REFERENCE["erfc"] = np.vectorize(math.erfc, otypes=[np.float64])

NAN, INF = math.nan, math.inf
ARGUMENTS = [0.0, -0.0, INF, -INF, NAN, -1.0, -2.0, 1.0, 200.0, -200.0]
# At ARGUMENTS, in order; None where only the accuracy counts.
SPECIAL = {
    "exp": [1, 1, INF, 0, NAN, None, None, None, INF, 0],
    "expm1": [0.0, -0.0, INF, -1, NAN, None, None, None, INF, -1],
    "log": [-INF, -INF, INF, NAN, NAN, NAN, NAN, 0.0, None, NAN],
    "log1p": [0.0, -0.0, INF, NAN, NAN, -INF, NAN, None, None, NAN],
    "log2": [-INF, -INF, INF, NAN, NAN, NAN, NAN, 0.0, None, NAN],
    "tanh": [0.0, -0.0, 1, -1, NAN, None, None, None, 1, -1],
    "erf": [0.0, -0.0, 1, -1, NAN, None, None, None, 1, -1],
    "erfc": [1, 1, 0, 2, NAN, None, None, None, 0, 2],
    "sigmoid": [0.5, 0.5, 1, 0, NAN, None, None, None, 1, 0],
    "sin": [0.0, -0.0, NAN, NAN, NAN, None, None, None, None, None],
    "cos": [1, 1, NAN, NAN, NAN, None, None, None, None, None],
    "tan": [0.0, -0.0, NAN, NAN, NAN, None, None, None, None, None],
}


def arguments():
    """All exponents of both signs with random mantissas, and more where the functions vary."""
    random = np.random.default_rng(0)
    exponents = np.arange(2 * 256, dtype=np.uint32) << 23
    mantissas = random.integers(0, 1 << 23, (300, exponents.size), dtype=np.uint32)
    every = (exponents | mantissas).ravel().view(np.float32)
    ranges = [(-6, 6), (0, 10.2), (-104, 89), (0.3, 3), (-1, 1), (-0.01, 0.01)]
    ranges.append((-16.7, -16.6))  # where sigmoid is worst, of all numbers
    ranges += [(-3300, 3300), (-800, 800)]  # sin, cos and tan: of whole circles
    dense = [random.uniform(low, high, 60_000).astype(np.float32) for low, high in ranges]
    return np.concatenate([every[np.isfinite(every)], *dense])


@pytest.fixture(scope="module")
def xs():
    return arguments()


def test_every_function_is_tested():
    """Of two numbers pow by tests/test_power.py, and fmod below."""
    assert {*ULP, "pow", "fmod"} == {*SPECIAL, "pow", "fmod"} == set(ELEMENTARY)


def divisions():
    """Numbers and divisors: near whole quotients, of any bits, and special ones."""
    random = np.random.default_rng(0)
    b = random.standard_normal(2**17).astype(np.float32)
    a = b * random.integers(1, 2**23, b.size).astype(np.float32)
    aside = np.nextafter(a, np.where(random.random(b.size) < 0.5, INF, -INF).astype(np.float32))
    yield np.where(random.random(b.size) < 0.3, a, aside), b
    bits = random.integers(0, 2**32, (2, 2**17), dtype=np.uint64).astype(np.uint32)
    yield tuple(bits.view(np.float32))
    tiny = [1e-45, -1e-45, 1e-40, 1.1754944e-38]
    some = [0.0, -0.0, 1, -1, INF, NAN, 0.7, 3, 2**22, 2**23 + 1, 1e30, 5e29, -3.4e38]
    yield tuple(x.ravel() for x in np.meshgrid(*(np.array(some + tiny, np.float32),) * 2))


@pytest.mark.parametrize("drawn", [*divisions()], ids=["near", "any", "special"])
def test_what_divisions_leave_is_exact(drawn):
    a, b = drawn
    if (clnet.tensor([1e-40]) * 2).item() == 0:  # subnormals to 0
        normal = (np.abs(a) >= np.finfo(np.float32).tiny) & (np.abs(b) >= 1e-30)
        a, b = a[normal], b[normal]
    with np.errstate(all="ignore"):
        want = np.fmod(a, b)
    whole = clnet.fmod(clnet.tensor(a), clnet.tensor(b)).numpy()
    few = clnet.fmod(clnet.tensor(a[-7:]), clnet.tensor(b[-7:])).numpy()
    for got, exact in ((whole, want), (few, want[-7:])):
        np.testing.assert_array_equal(got, exact)
        np.testing.assert_array_equal(np.signbit(got[got == 0]), np.signbit(exact[got == 0]))


@pytest.mark.parametrize("name", ULP)
def test_accuracy(name, xs):
    tiny = np.finfo(np.float32).tiny
    flushes = (clnet.tensor([1e-40]) * 2).item() == 0  # subnormals to 0
    if flushes:
        xs = xs[np.abs(xs) >= tiny]
    got = getattr(clnet, name)(clnet.tensor(xs)).numpy()
    with np.errstate(all="ignore"):
        want = REFERENCE[name](xs.astype(np.float64))
        rounded = want.astype(np.float32)
    finite = np.isfinite(rounded)
    np.testing.assert_array_equal(got[~finite], rounded[~finite])
    if flushes or name in FLUSHED:
        finite &= np.abs(rounded) >= tiny
    ulps = np.abs(got[finite] - want[finite]) / np.spacing(np.abs(rounded[finite]))
    worst = ulps.argmax()
    assert ulps[worst] <= ULP[name], f"{name}({xs[finite][worst]!r})"


@pytest.mark.parametrize("name", ULP)
def test_specials(name):
    got = getattr(clnet, name)(clnet.tensor(np.array(ARGUMENTS, np.float32))).numpy()
    for x, result, want in zip(ARGUMENTS, got, SPECIAL[name], strict=True):
        if want is not None:
            np.testing.assert_equal(float(result), float(want), err_msg=f"{name}({x})")
            if result == 0:
                assert math.copysign(1, result) == math.copysign(1, want), f"{name}({x})"


@pytest.mark.parametrize("name", ULP)
@pytest.mark.parametrize("size", [1, 7, 1023, 1025])
def test_bits_do_not_depend_on_the_place(name, size, xs):
    # A whole group becomes vectors; the last elements of an odd size and a stride do not.
    function = getattr(clnet, name)
    some = xs[:: len(xs) // size][:size]
    whole = function(clnet.tensor(xs)).numpy()[:: len(xs) // size][:size]
    strided = function(clnet.tensor(np.repeat(some, 3))[::3]).numpy()
    for got in (function(clnet.tensor(some)).numpy(), strided):
        np.testing.assert_array_equal(got.view(np.uint32), whole.view(np.uint32))


@pytest.mark.parametrize("name", ULP)
def test_explicit_vectors_have_the_same_bits(name, xs):
    cl = pytest.importorskip("pyopencl")
    try:
        context = cl.Context(cl.get_platforms()[0].get_devices()[:1])
    except cl.Error:
        pytest.skip("no OpenCL device")
    source = "\n".join(
        render(
            "lib/elementary.mako", "define", {"functions": (name,), "ctype": "float", "lanes": n}
        )
        + f"""__kernel void run{n}(__global const float *x, __global float *y) {{
            {store};
        }}"""
        for n, store in (
            (1, f"y[get_global_id(0)] = clnet_{name}(x[get_global_id(0)])"),
            (
                8,
                f"vstore8(clnet_{name}8(vload8(get_global_id(0), x)), get_global_id(0), y)",
            ),
        )
    )
    program = cl.Program(context, source).build(cache_dir=False)
    queue = cl.CommandQueue(context)
    xs = xs[: len(xs) // 8 * 8]
    flags = cl.mem_flags
    given = cl.Buffer(context, flags.READ_ONLY | flags.COPY_HOST_PTR, hostbuf=xs)
    results = []
    for n in (1, 8):
        out = cl.Buffer(context, flags.WRITE_ONLY, xs.nbytes)
        getattr(program, f"run{n}")(queue, (len(xs) // n,), None, given, out)
        results.append(np.empty_like(xs))
        cl.enqueue_copy(queue, results[-1], out)
    np.testing.assert_array_equal(*results)
    # NaN may have any bits; numbers have the same, the zeros' signs included.
    np.testing.assert_array_equal(*(np.signbit(r[~np.isnan(r)]) for r in results))
