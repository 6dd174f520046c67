"""Where PyTorch's own choices matter: result dtypes, corner values, ties and kinks."""

from __future__ import annotations

from functools import partial
from itertools import product

import numpy as np
import pytest

import clnet
from clnet import ops
from clnet.nn import functional as F
from clnet.ops.machinery.promotion import result_type
from clnet.values.dtypes import ALL

pytestmark = pytest.mark.device

NAN, INF = float("nan"), float("inf")
CORNERS = [
    NAN,
    INF,
    -INF,
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    -0.5,
    1.5,
    2.5,
    -2.5,
    3.0,
    100.0,
    -100.0,
    1e30,
    -1e30,
]
SCALARS = [True, 3, -2.5]

UNARY = [
    *(
        "neg",
        "abs",
        "sign",
        "square",
        "reciprocal",
        "sqrt",
        "rsqrt",
        "exp",
        "expm1",
        "log",
        "log1p",
    ),
    *("log2", "erf", "floor", "ceil", "round", "isnan", "isinf", "logical_not"),
    *("tanh", "sigmoid", "exp2", "log10", "tan", "asin", "acos", "atan", "sinh", "cosh", "asinh"),
    *("acosh", "atanh", "erfc", "trunc", "frac", "isfinite", "logit", "nan_to_num"),
]
BINARY = [
    *("add", "sub", "mul", "div", "floor_divide", "remainder", "fmod", "pow", "maximum", "minimum"),
    *("eq", "ne", "lt", "le", "gt", "ge", "logical_and", "logical_or", "logical_xor"),
    *("atan2", "hypot", "copysign", "xlogy"),
]
FUNCTIONAL = ["relu", "leaky_relu", "elu", "silu", "softplus", "gelu"]


@pytest.fixture(scope="module")
def torch():
    return pytest.importorskip("torch", reason="the oracle is PyTorch, of the torch extra")


def theirs(torch, dtype):
    """PyTorch's dtype of a clnet dtype."""
    return getattr(torch, dtype.name)


def assert_equal(actual: np.ndarray, expected: np.ndarray, rtol: float = 2e-6) -> None:
    """Equal but for rounding: NaN where NaN is, the same infinities, the same sign of 0."""
    np.testing.assert_allclose(actual, expected, rtol=rtol, atol=0)
    zeros = expected == 0
    if expected.dtype.kind == "f":
        np.testing.assert_array_equal(np.signbit(actual[zeros]), np.signbit(expected[zeros]))


# Result dtypes.


@pytest.mark.parametrize("kinds", [(1, 1), (1, 0), (0, 1), (0, 0)], ids=str)
def test_two_tensors_promote_as_pytorchs(torch, kinds):
    """Over all dtypes; a kind is the number of axes."""
    for a, b in product(ALL, ALL):
        own = result_type(
            *(clnet.empty((1,) * n, dtype=d) for n, d in zip(kinds, (a, b), strict=True))
        )
        pair = [
            torch.empty((1,) * n, dtype=theirs(torch, d))
            for n, d in zip(kinds, (a, b), strict=True)
        ]
        expected = torch.result_type(*pair)
        if expected is torch.complex32:  # clnet's smallest complex dtype is the next
            expected = torch.complex64
        assert theirs(torch, own) is expected, (a, b)


@pytest.mark.parametrize("ndim", [0, 1])
def test_a_tensor_and_a_number_promote_as_pytorchs(torch, ndim):
    for dtype, number in product(ALL, SCALARS):
        own = result_type(clnet.empty((1,) * ndim, dtype=dtype), number)
        other = torch.result_type(torch.empty((1,) * ndim, dtype=theirs(torch, dtype)), number)
        assert theirs(torch, own) is other, (dtype, number)


@pytest.mark.parametrize("name", ["add", "mul", "div", "maximum", "lt", "logical_and"])
@pytest.mark.parametrize(
    "pair", [("int64", "float16"), ("bool", "int8"), ("uint8", "int8"), ("int32", "float32")]
)
def test_ops_give_pytorchs_dtype_and_values(torch, name, pair):
    rng = np.random.default_rng(0)
    hosts = [rng.integers(0, 2 if d == "bool" else 4, 9).astype(d) for d in pair]
    if name == "div":
        hosts[1] = np.ones_like(hosts[1])
    actual = getattr(ops, name)(*map(clnet.tensor, hosts))
    expected = getattr(torch, name)(*map(torch.from_numpy, hosts))
    assert theirs(torch, actual.dtype) is expected.dtype
    np.testing.assert_array_equal(actual.numpy(), expected.numpy())


@pytest.mark.parametrize(
    "name", ["sqrt", "exp", "sin", "sigmoid", "reciprocal", "relu", "abs", "floor"]
)
@pytest.mark.parametrize("dtype", ["int64", "uint8", "float16"])
def test_functions_of_one_operand_give_pytorchs_dtype(torch, name, dtype):
    host = np.arange(1, 6).astype(dtype)
    actual = getattr(ops, name)(clnet.tensor(host))
    expected = getattr(torch, name)(torch.from_numpy(host))
    assert theirs(torch, actual.dtype) is expected.dtype
    np.testing.assert_allclose(
        actual.numpy().astype(np.float64),
        expected.double().numpy(),
        rtol=2e-3 if dtype == "float16" else 1e-6,
    )


# Corner values.


@pytest.mark.parametrize("name", UNARY)
def test_corner_values_of_one_operand(torch, name):
    host = np.array(CORNERS, np.float32)
    actual = getattr(ops, name)(clnet.tensor(host)).numpy()
    assert_equal(actual, getattr(torch, name)(torch.from_numpy(host)).numpy())


@pytest.mark.parametrize("name", FUNCTIONAL)
def test_corner_values_of_activations(torch, name):
    # PyTorch's vectorised gelu gives NaN for infinity.
    host = np.array(
        CORNERS if name != "gelu" else [c for c in CORNERS if abs(c) != INF], np.float32
    )
    actual = getattr(F, name)(clnet.tensor(host)).numpy()
    expected = getattr(torch.nn.functional, name)(torch.from_numpy(host)).numpy()
    # Far below 0 PyTorch's results are denormal, or 0 of either sign.
    np.testing.assert_allclose(actual, expected, rtol=3e-6, atol=1e-7)


@pytest.mark.parametrize("name", BINARY)
def test_corner_values_of_two_operands(torch, name):
    pairs = np.array(list(product(CORNERS, CORNERS)), np.float32).T.copy()
    actual = getattr(ops, name)(*map(clnet.tensor, pairs)).numpy()
    expected = getattr(torch, name)(*map(torch.from_numpy, pairs)).numpy()
    # A remainder of numbers that far apart has no digits: only its being finite can be compared.
    near = (
        np.abs(pairs[0]) < 1e7 * np.abs(pairs[1])
        if name in ("remainder", "fmod", "floor_divide")
        else ...
    )
    assert_equal(actual[near], expected[near], rtol=1e-5)


@pytest.mark.parametrize("name", ["fmax", "fmin", "logaddexp"])
def test_corner_values_where_the_sign_of_zero_is_free(torch, name):
    pairs = np.array(list(product(CORNERS, CORNERS)), np.float32).T.copy()
    actual = getattr(ops, name)(*map(clnet.tensor, pairs)).numpy()
    expected = getattr(torch, name)(*map(torch.from_numpy, pairs)).numpy()
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-40)


@pytest.mark.parametrize("name", ["add", "sub", "mul", "div", "maximum", "lt", "eq"])
@pytest.mark.parametrize("number", [NAN, INF, -0.0, 0, -3])
def test_corner_values_beside_a_number(torch, name, number):
    host = np.array(CORNERS, np.float32)
    actual = getattr(ops, name)(clnet.tensor(host), number).numpy()
    other = torch.tensor(number, dtype=torch.float32) if name == "maximum" else number
    assert_equal(actual, getattr(torch, name)(torch.from_numpy(host), other).numpy())


@pytest.mark.parametrize("name", ["floor_divide", "remainder", "fmod"])
@pytest.mark.parametrize("dtype", ["int8", "int32", "int64"])
def test_whole_quotients_round_as_pytorchs(torch, name, dtype):
    values = np.array([-7, -6, -1, 0, 1, 6, 7], dtype)
    a, b = (m.ravel().copy() for m in np.meshgrid(values, values[values != 0]))
    actual = getattr(ops, name)(clnet.tensor(a), clnet.tensor(b)).numpy()
    expected = getattr(torch, name)(torch.from_numpy(a), torch.from_numpy(b)).numpy()
    np.testing.assert_array_equal(actual, expected)
    assert actual.dtype == expected.dtype


# Gradients at ties and kinks.


KINKS = {
    "relu": (lambda m, x: m.relu(x), [0.0, -0.0, NAN]),
    "abs": (lambda m, x: m.abs(x), [0.0, -0.0]),
    "sign": (lambda m, x: m.sign(x), [0.0, 2.0]),
    "floor": (lambda m, x: m.floor(x), [1.0, 1.5]),
    "round": (lambda m, x: m.round(x), [0.5, 1.5]),
    "sqrt": (lambda m, x: m.sqrt(x), [0.0, 4.0]),
    "square": (lambda m, x: m.square(x), [0.0, -3.0]),
    "pow 0": (lambda m, x: m.pow(x, 0), [0.0, 2.0]),
    "pow 1": (lambda m, x: m.pow(x, 1), [0.0, 2.0]),
    "pow 2": (lambda m, x: m.pow(x, 2), [0.0, -2.0]),
    "pow 3": (lambda m, x: m.pow(x, 3), [0.0, -2.0]),
    "pow 0.5": (lambda m, x: m.pow(x, 0.5), [0.0, 4.0]),
    "pow 2.5": (lambda m, x: m.pow(x, 2.5), [0.0, 4.0]),
    "base 0": (lambda m, x: m.pow(x * 0, x), [1.0, 2.0]),
    "clamp": (lambda m, x: m.clamp(x, -1.0, 1.0), [-2.0, -1.0, 0.0, 1.0, 2.0]),
    "clamp min": (lambda m, x: m.clamp(x, min=1.0), [0.0, 1.0, 2.0]),
    "clamp max": (lambda m, x: m.clamp(x, max=1.0), [0.0, 1.0, 2.0]),
    "maximum": (lambda m, x: m.maximum(x, 2 - x), [0.5, 1.0, 2.0]),
    "minimum": (lambda m, x: m.minimum(x, 2 - x), [0.5, 1.0, 2.0]),
    "where": (lambda m, x: m.where(x > 0, x, -x), [0.0, 1.0, -1.0]),
    "fmax": (lambda m, x: m.fmax(x, 2 - x), [0.5, 1.0, 2.0, NAN]),
    "hypot": (lambda m, x: m.hypot(x, x - 1), [0.0, 1.0, -3.0]),
    "logaddexp": (lambda m, x: m.logaddexp(x, 2 - x), [1.0, 300.0, -300.0]),
    "xlogy": (lambda m, x: m.xlogy(x - 1, x), [1.0, 2.0]),
    "copysign": (lambda m, x: m.copysign(x, -x), [0.0, 2.0, -2.0]),
    "atan2": (lambda m, x: m.atan2(x, x), [0.0, 2.0, -2.0]),
    "nan_to_num": (lambda m, x: m.nan_to_num(x), [1.0, NAN, INF]),
    "cumprod": (lambda m, x: m.cumprod(x, 0), [2.0, 0.0, 3.0, 0.0]),
    "std": (lambda m, x: m.std(x).expand(2), [2.0, 2.0]),
    "log1p": (lambda m, x: m.log1p(x), [0.0, -1.0]),
    "tanh": (lambda m, x: m.tanh(x), [0.0, 50.0, -50.0]),
    "sigmoid": (lambda m, x: m.sigmoid(x), [0.0, 200.0, -200.0]),
}
ACTIVATION_KINKS = {
    "leaky_relu": [0.0, -0.0, 1.0],
    "elu": [0.0, -0.0, 1.0, 200.0, -200.0],
    "silu": [0.0, 200.0, -200.0],
    "softplus": [0.0, 15.0, -200.0],
    "gelu": [0.0, 200.0, -200.0],
}


def gradients(torch, function, values):
    """Gradients of a function of (module, x) in clnet and in PyTorch."""
    x = clnet.tensor(values, requires_grad=True)
    function(clnet, x).backward(clnet.ones(len(values)))
    y = torch.tensor(values, requires_grad=True)
    function(torch, y).backward(torch.ones(len(values)))
    return x.grad.numpy(), y.grad.numpy()


@pytest.mark.parametrize("name", KINKS)
def test_gradients_at_kinks(torch, name):
    actual, expected = gradients(torch, *KINKS[name])
    np.testing.assert_allclose(actual, expected, rtol=2e-6, atol=2e-7)  # tanh(50) may be 1 - 6e-8


@pytest.mark.parametrize("name", ACTIVATION_KINKS)
def test_gradients_of_activations_at_kinks(torch, name):
    def call(module, x):
        functional = F if module is clnet else torch.nn.functional
        return getattr(functional, name)(x)

    actual, expected = gradients(torch, call, ACTIVATION_KINKS[name])
    np.testing.assert_allclose(actual, expected, rtol=3e-6, atol=1e-7)


def test_gelu_by_tanh(torch):
    host = np.linspace(-6, 6, 101, dtype=np.float32)
    actual = F.gelu(clnet.tensor(host), approximate="tanh").numpy()
    expected = partial(torch.nn.functional.gelu, approximate="tanh")(torch.from_numpy(host)).numpy()
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-6)
