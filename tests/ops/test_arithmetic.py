"""Arithmetic, mathematics, comparisons and selection, against NumPy."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import pytest

import clnet
from clnet import ops
from clnet.errors import ArgumentError, DeviceError, DtypeError, ShapeError
from tests.opcase import (
    Draw,
    OpCase,
    booleans,
    every_check,
    integers,
    normal,
    positive,
    sliced,
    uniform,
)

pytestmark = pytest.mark.device

SHAPE = (7, 33)
NORMAL, POSITIVE = normal(*SHAPE), positive(*SHAPE)
# All pointwise ops share the code that walks over layouts: a few go through every layout, the
# others through one, since every combination is a kernel to compile.
pointwise = partial(OpCase, layouts=(sliced,), shapes=())
smooth = partial(pointwise, grad2=True)
compared = partial(pointwise, grad=False)


def broadcast(fn, ref, **options):
    """Operands of other shapes, with an axis too few and axes of size 1."""
    shapes = [((0, 33), (33,)), ((7, 33), ()), ((3, 1, 4), (2, 1)), ((1,), (1, 1))]
    return OpCase(
        fn, ref, [positive(7, 1, 33), positive(5, 1)], shapes=shapes, label="broadcast", **options
    )


def specials(*values: float) -> Draw:
    """A few values, in any order."""
    return Draw(SHAPE, lambda rng, s: rng.choice(np.array(values), s))


def power(exponent: float) -> OpCase:
    """A power with a fixed exponent."""
    return smooth(
        lambda x: ops.pow(x, exponent),
        lambda x: np.power(x, exponent),
        [POSITIVE],
        name="pow",
        label=str(exponent),
        ulps=16,
    )


CASES = [
    OpCase(ops.add, np.add, [NORMAL, NORMAL], dtypes=("float16", "bfloat16", "float64")),
    broadcast(ops.add, np.add, k=7),
    pointwise(
        lambda x, y: ops.add(x, y, alpha=-2.5),
        lambda x, y: x - 2.5 * y,
        [NORMAL, NORMAL],
        name="add",
        label="alpha",
    ),
    pointwise(lambda x: 2 + x, lambda x: 2 + x, [NORMAL], name="add", label="number"),
    compared(ops.add, np.add, [integers(-50, 50, SHAPE, dtype=np.int8)] * 2, label="int8"),
    pointwise(ops.sub, np.subtract, [NORMAL, NORMAL]),
    pointwise(
        lambda x, y: ops.sub(x, y, alpha=3),
        lambda x, y: x - 3 * y,
        [NORMAL, NORMAL],
        name="sub",
        label="alpha",
    ),
    pointwise(lambda x: 2 - x, lambda x: 2 - x, [NORMAL], name="sub", label="reflected"),
    OpCase(ops.mul, np.multiply, [NORMAL, NORMAL], grad2=True),
    broadcast(ops.mul, np.multiply, k=7, grad2=True),
    compared(ops.mul, np.multiply, [integers(-9, 9, SHAPE)] * 2, label="integers"),
    smooth(ops.div, np.divide, [NORMAL, POSITIVE], dtypes=("float16",)),
    smooth(lambda x: 2 / x, lambda x: 2 / x, [POSITIVE], name="div", label="reflected"),
    compared(ops.div, np.divide, [integers(-9, 9, SHAPE), integers(1, 9, SHAPE)], label="integers"),
    compared(
        ops.floor_divide,
        np.floor_divide,
        [integers(-99, 99, SHAPE), integers(1, 9, SHAPE)],
        label="integers",
    ),
    compared(
        ops.floor_divide,
        np.floor_divide,
        [integers(-99, 99, SHAPE), integers(-9, 0, SHAPE)],
        label="negative",
    ),
    compared(
        lambda x, y: ops.div(x, y, rounding_mode="trunc"),
        lambda x, y: np.trunc(x / y).astype(np.int64),
        [integers(-99, 99, SHAPE), integers(-9, 0, SHAPE)],
        name="div",
        label="trunc integers",
    ),
    *(
        pointwise(
            lambda x, y, mode=mode: ops.div(x, y, rounding_mode=mode),
            lambda x, y, rounded=rounded: rounded(x / y),
            [specials(-3.3, -1.9, 1.9, 3.3), uniform(1.25, 1.45, SHAPE)],
            flat=True,
            name="div",
            label=mode,
        )
        for mode, rounded in (("floor", np.floor), ("trunc", np.trunc))
    ),
    # Quotients between two whole numbers: away from the jumps.
    pointwise(
        ops.floor_divide,
        np.floor_divide,
        [specials(-3.3, -1.9, 1.9, 3.3), uniform(1.25, 1.45, SHAPE)],
        flat=True,
    ),
    compared(
        ops.remainder,
        np.remainder,
        [integers(-99, 99, SHAPE), integers(-9, 0, SHAPE)],
        label="integers",
    ),
    pointwise(
        ops.remainder, np.remainder, [uniform(-3.4, -3.1, SHAPE), uniform(1.25, 1.45, SHAPE)]
    ),
    compared(
        ops.fmod, np.fmod, [integers(-99, 99, SHAPE), integers(-9, 0, SHAPE)], label="integers"
    ),
    pointwise(ops.fmod, np.fmod, [uniform(-3.4, -3.1, SHAPE), uniform(1.25, 1.45, SHAPE)]),
    pointwise(ops.neg, np.negative, [NORMAL]),
    pointwise(ops.abs, np.abs, [normal(*SHAPE, dodge=(0,))]),
    compared(ops.abs, np.abs, [integers(-99, 99, SHAPE)], label="integers"),
    pointwise(ops.sign, np.sign, [normal(*SHAPE, dodge=(0,))], flat=True),
    compared(ops.sign, np.sign, [integers(-2, 3, SHAPE)], label="integers"),
    smooth(ops.square, np.square, [NORMAL]),
    smooth(ops.reciprocal, np.reciprocal, [POSITIVE]),
    smooth(ops.sqrt, np.sqrt, [POSITIVE], dtypes=("float16", "float64")),
    smooth(ops.rsqrt, lambda x: 1 / np.sqrt(x), [POSITIVE]),
    smooth(ops.exp, np.exp, [NORMAL], dtypes=("bfloat16", "float64")),
    smooth(ops.expm1, np.expm1, [NORMAL]),
    compared(ops.expm1, np.expm1, [normal(*SHAPE, scale=1e-4)], rtol=1e-6, label="near 0"),
    smooth(ops.log, np.log, [POSITIVE]),
    smooth(ops.log1p, np.log1p, [POSITIVE]),
    compared(ops.log1p, np.log1p, [normal(*SHAPE, scale=1e-4)], rtol=1e-6, label="near 0"),
    smooth(ops.log2, np.log2, [POSITIVE]),
    smooth(ops.sin, np.sin, [normal(*SHAPE, scale=3)]),
    smooth(ops.cos, np.cos, [normal(*SHAPE, scale=3)]),
    smooth(ops.erf, np.vectorize(math.erf, otypes=[np.float64]), [NORMAL]),
    pointwise(ops.floor, np.floor, [normal(*SHAPE, scale=3, dodge=range(-12, 13))], flat=True),
    pointwise(ops.ceil, np.ceil, [normal(*SHAPE, scale=3, dodge=range(-12, 13))], flat=True),
    pointwise(ops.round, np.round, [normal(*SHAPE, scale=3)], flat=True),
    compared(ops.round, np.round, [specials(-2.5, -1.5, -0.5, 0.5, 1.5, 2.5)], label="halves"),
    *(
        pointwise(
            lambda x, n=n: ops.round(x, decimals=n),
            lambda x, n=n: np.round(x, n),
            [normal(*SHAPE, scale=50)],
            flat=True,
            name="round",
            label=f"decimals={n}",
        )
        for n in (1, -1)
    ),
    smooth(ops.pow, np.power, [POSITIVE, NORMAL], ulps=16),
    *(power(exponent) for exponent in (-2, -1, -0.5, 0.5, 2, 3, 2.5)),
    smooth(lambda x: 2**x, lambda x: 2**x, [NORMAL], name="pow", label="reflected", ulps=16),
    pointwise(ops.maximum, np.maximum, [NORMAL, NORMAL]),
    broadcast(ops.maximum, np.maximum, k=7),
    pointwise(ops.minimum, np.minimum, [NORMAL, NORMAL]),
    compared(ops.eq, np.equal, [integers(0, 3, SHAPE)] * 2),
    compared(ops.ne, np.not_equal, [integers(0, 3, SHAPE)] * 2),
    compared(ops.lt, np.less, [integers(0, 3, SHAPE)] * 2),
    compared(ops.le, np.less_equal, [integers(0, 3, SHAPE)] * 2),
    compared(ops.gt, np.greater, [integers(0, 3, SHAPE)] * 2),
    compared(ops.ge, np.greater_equal, [integers(0, 3, SHAPE)] * 2),
    compared(lambda x: 0.5 < x, lambda x: x > 0.5, [NORMAL], name="gt", label="number"),  # noqa: SIM300 - the reflected comparison is meant
    compared(ops.isnan, np.isnan, [specials(1, np.nan, np.inf, -np.inf)]),
    compared(ops.isinf, np.isinf, [specials(1, np.nan, np.inf, -np.inf)]),
    compared(ops.logical_and, np.logical_and, [booleans(*SHAPE)] * 2),
    compared(ops.logical_and, np.logical_and, [specials(0, -0.0, 1, np.nan)] * 2, label="numbers"),
    compared(ops.logical_or, np.logical_or, [booleans(*SHAPE)] * 2),
    compared(ops.logical_not, np.logical_not, [booleans(*SHAPE)]),
    compared(ops.logical_not, np.logical_not, [integers(0, 3, SHAPE)], label="integers"),
    OpCase(ops.where, np.where, [booleans(*SHAPE), NORMAL, NORMAL]),
    pointwise(
        lambda c, x: ops.where(c, x, 7.0),
        lambda c, x: np.where(c, x, 7.0),
        [booleans(7, 1), normal(33)],
        name="where",
        label="broadcast",
        k=7,
    ),
    pointwise(
        lambda x: ops.clamp(x, -0.5, 1),
        lambda x: np.clip(x, -0.5, 1),
        [normal(*SHAPE, dodge=(-0.5, 1))],
        name="clamp",
    ),
    pointwise(
        lambda x: ops.clamp(x, max=0.5),
        lambda x: np.minimum(x, 0.5),
        [normal(*SHAPE, dodge=(0.5,))],
        name="clamp",
        label="max",
    ),
    pointwise(
        lambda x, low: ops.clamp(x, min=low),
        np.maximum,
        [NORMAL, normal(33)],
        name="clamp",
        label="tensor",
        k=7,
    ),
]


@pytest.mark.parametrize(("case", "check"), every_check(CASES))
def test_op(case, check, device):
    check(case, device)


def test_shapes_that_do_not_broadcast_are_named():
    with pytest.raises(ShapeError) as raised:
        clnet.ones(2, 3) + clnet.ones(2, 4)
    assert str(raised.value) == (
        "add: sizes differ at axis -1 and none is 1; got shapes=((2, 3), (2, 4))"
    )


def test_operands_that_are_no_tensors_are_refused():
    with pytest.raises(DtypeError) as raised:
        ops.maximum(clnet.ones(2), [1, 2])
    assert str(raised.value) == (
        "maximum: an operand is a tensor or a number; got operand=[1, 2]. "
        "Make a tensor of it with clnet.tensor(...)"
    )


def test_numbers_alone_are_refused():
    with pytest.raises(
        DtypeError, match=r"^maximum: one operand is a tensor; got operands=\(1, 2\)$"
    ):
        ops.maximum(1, 2)


def test_operands_on_two_devices_are_refused(part_of_device):
    with pytest.raises(
        DeviceError, match=r"^mul: operands are on different devices; .* Move one with \.to"
    ):
        clnet.ones(2) * clnet.ones(2, device=part_of_device)


def test_clamp_needs_a_bound():
    with pytest.raises(ArgumentError, match=r"^clamp: min or max is given$"):
        clnet.ones(2).clamp()


def test_whole_numbers_have_no_power_below_zero():
    with pytest.raises(ArgumentError) as raised:
        clnet.tensor([1, 2]) ** -1
    assert str(raised.value) == (
        "pow: whole numbers are not raised to a power below 0; got exponent=-1. "
        "Convert them with .float()"
    )


@pytest.mark.parametrize(
    "call",
    [
        lambda x: x - x,
        lambda x: 1 - x,
        lambda x: x.sub_(clnet.ones(2)),
        lambda x: True - x,
        lambda x: -x,
        lambda x: +x,
    ],
)
def test_booleans_are_not_subtracted(call):
    with pytest.raises(DtypeError, match=r"with two bool|with a bool|on a bool tensor is not supp"):
        call(clnet.tensor([True, False]))


def test_numpys_booleans_are_subtracted_as_floats():
    x, one = clnet.tensor([1, 0, 3], dtype=clnet.uint8), np.bool_(True)
    for found, expected in ((x - one, [0, -1, 2]), (one - x, [0, 1, -2])):
        assert (found.dtype, found.tolist()) == (clnet.float32, expected)
    with pytest.raises(DtypeError, match="with a bool"):
        clnet.tensor([True]) - one


def test_booleans_have_no_powers():
    flags = clnet.tensor([True, False])
    with pytest.raises(DtypeError, match=r"^pow: booleans have no powers; got dtype=clnet.bool"):
        flags**flags


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64"])
def test_whole_powers_wrap_around_as_numpys(dtype):
    base = np.array([0, 1, 2, 3, 7, 100], dtype)
    exponent = np.array([0, 127, 7, np.iinfo(dtype).max, 31, 3], dtype)
    with np.errstate(over="ignore"):
        expected = base**exponent
        fixed = base ** np.array(13, dtype)
    actual = clnet.tensor(base) ** clnet.tensor(exponent)
    assert actual.dtype.name == dtype
    np.testing.assert_array_equal(actual.numpy(), expected)
    np.testing.assert_array_equal((clnet.tensor(base) ** 13).numpy(), fixed)


def test_whole_powers_below_zero_of_a_tensor_are_zero_but_of_one():
    base, exponent = clnet.tensor([2, 1, -1, -1, -3]), clnet.tensor([-1, -2, -3, -4, -2])
    assert (base**exponent).tolist() == [0, 1, -1, 1, 0]


def test_div_has_three_roundings():
    with pytest.raises(ArgumentError) as raised:
        clnet.ones(2).div(2, rounding_mode="up")
    assert str(raised.value) == (
        "div: rounding_mode is None, 'floor' or 'trunc'; got rounding_mode='up'"
    )


def test_whole_numbers_and_real_powers():
    assert (clnet.tensor([1, 2]) ** 3).tolist() == [1, 8]
    assert (clnet.tensor([1, 2]) ** -1.0).tolist() == [1.0, 0.5]
    assert (clnet.tensor([1, 2]) ** 3).dtype is clnet.int64


@pytest.mark.parametrize("number", [np.float32(2), np.float64(2), np.int64(2), np.uint8(2)])
def test_numpy_scalars_are_numbers(number):
    x = clnet.tensor([1.0, 3.0])
    for result in (x * number, number * x):
        assert isinstance(result, clnet.Tensor)
        assert result.dtype is clnet.float32
        assert result.tolist() == [2.0, 6.0]


def test_numpy_array_of_texts_beside_a_tensor_is_refused():
    with pytest.raises(DtypeError, match="a tensor or a number"):
        clnet.ones(3) * np.array(["a", "b", "c"])


@pytest.mark.parametrize(
    ("op", "call"),
    [
        ("add", lambda x: x + 1),
        ("sub", lambda x: ops.sub(x, x, alpha=2)),
        ("pow", lambda x: x**2),
        ("where", lambda x: ops.where(x > 0, x, 0)),
        ("clamp", lambda x: x.clamp(0, 1)),
        ("gelu", lambda x: ops.gelu(x)),
    ],
)
def test_launches_carry_the_public_name(op, call, device):
    class Names:
        profiling = False

        def __init__(self):
            self.seen = []

        def command(self, record):
            self.seen.append(record.op)

    x, names = clnet.ones(3), Names()
    with device.queue.observe(names):
        call(x)
    assert names.seen[-1] == op


def test_refused_operands_leave_tensors_as_they_were():
    x = clnet.ones(2, 3, requires_grad=True)
    version = x.array.storage.version
    with pytest.raises(ShapeError):
        x * clnet.ones(4)
    assert x.array.storage.version == version
    assert x.grad is None


def test_run_time_numbers_compile_nothing_anew(device):
    x = clnet.ones(5)
    ops.add(x, 1.5)
    statistics = device.programs.statistics
    before = statistics.built + statistics.loaded
    for number in (2.5, 3.5, float("inf")):
        ops.add(x, number)
    assert statistics.built + statistics.loaded == before
