"""Expressions: printed C run on a device, derivatives, and structure, against independent NumPy."""

from __future__ import annotations

import copy
import math
import operator
import pickle

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import clnet
from clnet import expr as E
from clnet.errors import ArgumentError, DtypeError
from clnet.expr.derivative import RULES
from clnet.expr.printing import CType
from clnet.kernels.template import render

X, Y, Z = E.Input(0), E.Input(1), E.Input(2)
P, Q = E.Input(3, boolean=True), E.Input(4, boolean=True)

DTYPES = {
    "float": np.float32,
    "double": np.float64,
    "int": np.int32,
    "long": np.int64,
    "short": np.int16,
    "char": np.int8,
    "uchar": np.uint8,
}


def _per_element(function):
    def safe(*values):
        try:
            return function(*values)
        except (ValueError, ZeroDivisionError):
            return math.nan

    return np.vectorize(safe, otypes=[np.float64])


def _trunc_divide(a, b):
    if a.dtype.kind == "f":
        return np.trunc(a / b)
    quotient = a // b
    return np.where((b != 0) & (quotient * b != a) & ((a < 0) != (b < 0)), quotient + 1, quotient)


SAME_NAME_IN_NUMPY = """
    floor ceil trunc minimum maximum fmin fmax fmod remainder floor_divide copysign isnan isinf
    hypot exp exp2 expm1 log log1p log2 log10 sqrt sin cos tan sinh cosh tanh where
    logical_and logical_or logical_xor logical_not
    bitwise_and bitwise_or bitwise_xor bitwise_not left_shift right_shift"""
OPERATORS = "neg abs add sub mul lt le gt ge eq ne"
INVERSE = "asin acos atan asinh acosh atanh atan2"

# What each primitive means, in NumPy.
MEANING = {
    **{name: getattr(np, name) for name in SAME_NAME_IN_NUMPY.split()},
    **{name: getattr(operator, name) for name in OPERATORS.split()},
    **{name: getattr(np, "arc" + name[1:]) for name in INVERSE.split()},
    "rint": lambda a: np.rint(a) if a.dtype.kind == "f" else a,
    "div": operator.truediv,
    "pow": np.power,
    "trunc_divide": _trunc_divide,
    "sign": lambda a: (a > 0).astype(a.dtype) - (a < 0).astype(a.dtype),
    "rsqrt": lambda a: 1 / np.sqrt(a),
    "erf": _per_element(math.erf),
    "erfc": _per_element(math.erfc),
    "fma": lambda a, b, c: a * b + c,
    "sigmoid": lambda a: 1 / (1 + np.exp(-a)),
    "softplus": lambda a: np.logaddexp(a, 0),
    "number": lambda a: a,
    "to_float16": lambda a: a.astype(np.float16).astype(a.dtype),
    "to_bfloat16": lambda a: a.astype(ml_dtypes.bfloat16).astype(a.dtype),
}


def evaluate(expr, values, dtype=np.float64):
    """The expression on NumPy arrays; `values` maps leaves to arrays."""
    done = {}
    with np.errstate(all="ignore"):
        for node in E.topological([expr]):
            if isinstance(node, E.Const):
                done[node] = np.asarray(node.value, bool if node.boolean else dtype)
            elif isinstance(node, E.Call):
                value = MEANING[node.primitive.name](*(done[a] for a in node.args))
                done[node] = np.asarray(value, bool if node.boolean else dtype)
            else:
                done[node] = np.asarray(values[node], bool if node.boolean else dtype)
    return done[expr]


@pytest.fixture(scope="session")
def queue():
    cl = pytest.importorskip("pyopencl", reason="pyopencl runs the printed C")
    try:
        devices = [d for p in cl.get_platforms() for d in p.get_devices()]
    except cl.LogicError:
        devices = []
    if not (devices := [d for d in devices if "cl_khr_fp64" in d.extensions]):
        pytest.skip("no OpenCL device with float64 to run the printed C on")
    context = cl.Context(devices[:1])  # Intel's queues do not keep theirs alive
    yield cl.CommandQueue(context)  # noqa: PT022 - it keeps the context until the end


def _source(exprs, ctype, *, width, num_scalars):
    vector = f"{ctype}{width}" if width > 1 else ctype
    mask = CType.parse(vector).boolean
    printed = E.print_c(
        exprs,
        vector,
        inputs=["x", "y", "z", "p", "q"],
        scalars=[f"s{k}" for k in range(num_scalars)],
    )
    lines = [f"const {vector} {n} = LOAD({n}s);" for n in "xyz"]
    lines += [*(f"const {mask} {n} = FLAG({n}s);" for n in "pq"), *printed.statements]
    for k, (expr, result) in enumerate(zip(exprs, printed.results, strict=True)):
        lines.append(f"{'PUT' if expr.boolean else 'STORE'}({result}, {k});")
    scalars = "".join(f", const {ctype} s{k}" for k in range(num_scalars))
    if width == 1:
        access = """#define LOAD(a) a[i]
#define FLAG(a) (a[i] != 0)
#define STORE(v, k) numbers[(k) * n + i] = v
#define PUT(v, k) flags[(k) * n + i] = v"""
    else:
        access = f"""#define LOAD(a) vload{width}(i, a)
#define FLAG(a) (convert_{mask}(vload{width}(i, a)) != 0)
#define STORE(v, k) vstore{width}(v, i, numbers + (k) * n)
#define PUT(v, k) vstore{width}(convert_uchar{width}(-(v)), i, flags + (k) * n)"""
    body = "\n    ".join(lines)
    own = {"functions": printed.functions, "ctype": ctype, "lanes": width}
    return f"""{E.PRAGMA}
{render("lib/elementary.mako", "define", own)}
{access}
__kernel void run(const int n, __global {ctype} *numbers, __global uchar *flags,
    __global const {ctype} *xs, __global const {ctype} *ys, __global const {ctype} *zs,
    __global const uchar *ps, __global const uchar *qs{scalars}) {{
    const int i = get_global_id(0);
    {body}
}}"""


def run(queue, exprs, ctype, values, *, scalars=(), width=1):
    """The expressions on the device; `values` maps X, Y, Z, P, Q to arrays of one size."""
    cl = pytest.importorskip("pyopencl")
    dtype = DTYPES[ctype]
    size = len(next(iter(values.values())))
    padded = -(-size // width) * width
    arrays = []
    for leaf in (X, Y, Z, P, Q):
        kind = np.uint8 if leaf.boolean else dtype
        arrays.append(np.resize(np.asarray(values.get(leaf, 0)).astype(kind), padded))
    numbers = np.zeros((len(exprs), padded), dtype)
    flags = np.zeros((len(exprs), padded), np.uint8)
    flag = cl.mem_flags
    outs = [cl.Buffer(queue.context, flag.WRITE_ONLY, a.nbytes) for a in (numbers, flags)]
    ins = [cl.Buffer(queue.context, flag.READ_ONLY | flag.COPY_HOST_PTR, hostbuf=a) for a in arrays]
    source = _source(exprs, ctype, width=width, num_scalars=len(scalars))
    kernel = cl.Program(queue.context, source).build(cache_dir=False).run
    kernel(queue, (padded // width,), None, np.int32(padded), *outs, *ins, *map(dtype, scalars))
    cl.enqueue_copy(queue, numbers, outs[0])
    cl.enqueue_copy(queue, flags, outs[1])
    return [(f if e.boolean else n)[:size] for e, n, f in zip(exprs, numbers, flags, strict=True)]


def _applied(domains):
    """Every primitive of some domains on the inputs, by name."""
    leaves = {False: [X, Y, Z], True: [P, Q]}
    table = {}
    for name, primitive in E.PRIMITIVES.items():
        if primitive.domain in domains:
            used = {False: 0, True: 0}
            args = []
            for boolean in primitive.takes:
                args.append(leaves[boolean][used[boolean]])
                used[boolean] += 1
            table[name] = E.Call(name, *args)
    return table


FLOATING = _applied([E.Domain.ANY, E.Domain.FLOATING])
INTEGER = _applied([E.Domain.ANY, E.Domain.INTEGER])
SINGLE = _applied([E.Domain.SINGLE])

SPECIAL = [math.nan, math.inf, -math.inf, 0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.5, -2.5, 3.0, -3.0]
SPECIAL += [1e-6, -1e-6, 1e-30, 7.25, -7.25, 20.0, -20.0, 88.0, 1e10, -1e10, 1e30, 0.1, -0.9]


def _cross(values):
    x, y = (a.ravel() for a in np.meshgrid(values, values, indexing="ij"))
    z = np.roll(x, 5)
    return {X: x, Y: y, Z: z, P: np.arange(len(x)) % 2, Q: np.arange(len(x)) // 2 % 2}


# NumPy chooses the other zero of two: these are compared without its sign.
EITHER_ZERO = ["remainder", "floor_divide", "minimum", "maximum", "fmin", "fmax"]


@pytest.mark.parametrize(
    ("ctype", "width"), [("float", 1), ("double", 1), ("float", 0), ("double", 4)]
)
def test_floating_primitives_agree_with_numpy(queue, ctype, width):
    width = width or max(clnet.device().traits.simd_width, 2)  # PoCL may die of wider ones
    dtype = DTYPES[ctype]
    values = _cross(np.array(SPECIAL, dtype))
    got = run(queue, list(FLOATING.values()), ctype, values, width=width)
    info = np.finfo(dtype)
    for (name, expr), result in zip(FLOATING.items(), got, strict=True):
        # These two jump where a quotient is rounded up to a whole number; PyTorch's do as well.
        jumps = name in ("floor_divide", "trunc_divide")
        reference_dtype = dtype if jumps else np.float64
        want = evaluate(expr, values, reference_dtype)
        with np.errstate(over="ignore"):
            want = want.astype(bool if expr.boolean else dtype)
        # OpenCL allows erf, erfc, pow and the like 16 units in the last place.
        np.testing.assert_allclose(result, want, rtol=32 * info.eps, atol=info.tiny, err_msg=name)
        if not expr.boolean and name not in EITHER_ZERO:
            number = ~np.isnan(want)
            signs = np.signbit(result)[number], np.signbit(want)[number]
            np.testing.assert_array_equal(*signs, err_msg=name)


@pytest.mark.parametrize(
    ("ctype", "width"),
    [("int", 1), ("long", 1), ("short", 1), ("char", 1), ("uchar", 1), ("int", 8)],
)
def test_integer_primitives_agree_with_numpy(queue, ctype, width):
    dtype = DTYPES[ctype]
    info = np.iinfo(dtype)
    near = [v for v in (*range(-9, 10), 31, 33, 63, 100) if v >= info.min]
    values = _cross(np.array([info.min, info.min + 1, info.max, *near], dtype))
    got = run(queue, list(INTEGER.values()), ctype, values, width=width)
    for (name, expr), result in zip(INTEGER.items(), got, strict=True):
        want = evaluate(expr, values, dtype)
        np.testing.assert_array_equal(result, want, err_msg=name)


def test_tables_know_every_primitive():
    known = {*FLOATING, *INTEGER, *SINGLE}
    assert set(MEANING) == set(RULES) == known == set(E.PRIMITIVES)
    for name, primitive in E.PRIMITIVES.items():
        assert len(RULES[name]) == len(primitive.takes), name


def test_fma_rounds_once(queue):
    tiny = 2.0**-30
    x, y = np.array([1 + tiny]), np.array([1 - tiny])
    fused, plain = run(queue, [E.fma(X, Y, -1), X * Y - 1], "double", {X: x, Y: y})
    assert fused[0] == -(2.0**-60)
    assert plain[0] == 0


def test_operators_and_constants(queue):
    values = {X: np.array([-7.5, 0.0, 3.0]), Y: np.array([2.0, -3.0, 0.5])}
    x, y = values[X], values[Y]
    cases = [
        (1 - X, 1 - x),
        (2 / (X + 0.1), 2 / (x + 0.1)),
        (abs(X) ** 0.5 + 2**Y, np.abs(x) ** 0.5 + 2**y),
        (X // Y + 7 // Y, x // y + 7 // y),
        (X % Y + 7 % Y, x % y + 7 % y),
        (E.where(X, Y, math.inf), np.where(x != 0, y, np.inf)),
        (
            E.where((X < 0) | (Y >= 2) ^ (X > 1), 1, -math.inf),
            np.where((x < 0) | (y >= 2) ^ (x > 1), 1, -np.inf),
        ),
        (~(X <= 0) & True, ~(x <= 0)),
        ((X > 0) + (Y > 0), (x > 0) * 1.0 + (y > 0)),
        (X * 1e-300 * 0.1, x * 1e-300 * 0.1),
        (E.eq(X < 0, Y < 0), (x < 0) == (y < 0)),
        (E.ne(X < 0, Y < 0), (x < 0) != (y < 0)),
        (E.where(X < 0, Y < 0, True), np.where(x < 0, y < 0, True)),
        (E.as_expr(math.nan) + X, x * np.nan),
        (E.cast_boolean(X), x != 0),
        (E.as_expr(True), np.full(3, True)),
        (E.Scalar(1) * X - E.Scalar(0), -2 * x - 0.3),
    ]
    got = run(queue, [e for e, _ in cases], "double", values, scalars=(0.3, -2.0))
    for (expr, want), result in zip(cases, got, strict=True):
        np.testing.assert_allclose(result, want, rtol=1e-15, err_msg=repr(expr))


def test_integer_operators(queue):
    values = {X: np.array([-7, 0, 6]), Y: np.array([2, -3, 5])}
    x, y = values[X], values[Y]
    cases = [
        (X // Y, x // y),
        (X % Y, x % y),
        (X & 6 | Y ^ 1, x & 6 | y ^ 1),
        (
            ~X + (X << 2) + (1 << abs(Y)) + (X >> 1) + (64 >> abs(Y)),
            ~x + (x << 2) + (1 << abs(y)) + (x >> 1) + (64 >> abs(y)),
        ),
        ((1 | X) - (3 & X) + (5 ^ X), (1 | x) - (3 & x) + (5 ^ x)),
        (X**3, x**3),
        (E.minimum(X, 6.0), np.minimum(x, 6)),
        (X * 0 + -(2**63), np.full(3, -(2**63))),
        (X * 0 + 2**60, x * 0 + 2**60),
    ]
    got = run(queue, [e for e, _ in cases], "long", values)
    for (expr, want), result in zip(cases, got, strict=True):
        np.testing.assert_array_equal(result, want, err_msg=repr(expr))


def test_narrow_integers_wrap_at_every_operation(queue):
    values = {X: np.array([200, 255]), Y: np.array([100, 255])}
    half, wrapped = run(queue, [(X + Y) // 2, X * Y > 50], "uchar", values)
    np.testing.assert_array_equal(half, [22, 127])
    np.testing.assert_array_equal(wrapped, [False, False])


LITERALS = [0.1, 1 / 3, 1e-45, 1e-40, 3.4028235e38, 16777217, 2**31, math.pi, -0.0, 1e39]
LITERALS += [5e-324, 2**53 + 1]


@pytest.mark.parametrize("ctype", ["float", "double"])
def test_literals_are_the_nearest_value(queue, ctype):
    dtype = DTYPES[ctype]
    with np.errstate(over="ignore"):
        want = np.array([float(v) for v in LITERALS]).astype(dtype)
    exprs = [E.where(X > 0, E.Const(v), X) for v in LITERALS]
    got = np.concatenate(run(queue, exprs, ctype, {X: np.ones(1)}))
    np.testing.assert_array_equal(
        got.view(f"u{dtype().itemsize}"), want.view(f"u{dtype().itemsize}")
    )


# Points inside each primitive's smooth domain, where it is not [-0.3, 0.8].
SMOOTH = {name: [0.3, 2.0] for name in ("log", "log2", "log10", "sqrt", "rsqrt")}
SMOOTH |= {"acosh": [1.3, 2.5], "pow": [0.7, 1.6], "fmod": [1.3, 0.45], "remainder": [-1.3, 0.45]}


def _difference(expr, wrt, values):
    step = 1e-6
    up = evaluate(expr, {**values, wrt: values[wrt] + step})
    down = evaluate(expr, {**values, wrt: values[wrt] - step})
    return (up - down) / (2 * step)


@pytest.mark.parametrize("name", [n for n, e in FLOATING.items() if not e.boolean])
def test_derivative_agrees_with_differences(name):
    expr = FLOATING[name]
    points = np.array(SMOOTH.get(name, [-0.3, 0.8]))
    flags = np.array([True, False])
    values = {X: points, Y: points[::-1] * 1.1, Z: points - 0.07, P: flags, Q: flags[::-1]}
    for wrt in E.inputs_of(expr):
        got = evaluate(E.derivative(expr, wrt), values)
        want = np.zeros(2) if wrt.boolean else _difference(expr, wrt, values)
        np.testing.assert_allclose(got, want, rtol=1e-7, atol=1e-9)


def sigmoid(x):
    return 1 / (1 + E.exp(-x))


COMPOSITES = {
    "gelu": 0.5 * X * (1 + E.erf(X * math.sqrt(0.5))),
    "softplus": E.log1p(E.exp(-abs(X))) + E.maximum(X, 0),
    "tanh": E.tanh(X),
    "sigmoid": sigmoid(X),
    "silu": X * sigmoid(X),
    "power": E.where(X > 0, X, 1) ** Y,
    "hypot": E.sqrt(X * X + Y * Y),
    "angle": E.atan2(X, Y) * E.fma(X, Y, X),
}


@pytest.mark.parametrize("name", COMPOSITES)
def test_higher_derivatives_of_composites(name):
    values = {X: np.array([-1.3, 0.4, 2.1]), Y: np.array([0.7, -1.2, 1.9])}
    expr = COMPOSITES[name]
    for _ in range(3):
        for wrt in E.inputs_of(expr):
            got = evaluate(E.derivative(expr, wrt), values)
            want = _difference(expr, wrt, values)
            assert np.ptp(want) > 1e-3 or wrt is Y
            np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-8)
        expr = E.derivative(expr, X)


def test_derivatives_run_on_the_device(queue):
    values = {X: np.linspace(-3, 3, 50), Y: np.linspace(2, -1, 50)}
    exprs = [E.derivative(E.derivative(e, X), w) for e in COMPOSITES.values() for w in (X, Y)]
    got = run(queue, exprs, "double", values)
    for expr, result in zip(exprs, got, strict=True):
        np.testing.assert_allclose(result, evaluate(expr, values), rtol=1e-10, atol=1e-12)


KINKS = [-math.inf, -2.0, -1.0, -0.5, -0.0, 0.0, 0.5, 1.0, 2.0, math.inf, math.nan]


def _kink_pairs():
    """Functions of two tensors in PyTorch, and the same of two expressions."""
    named = "maximum minimum fmax fmin atan2 hypot copysign fmod remainder".split()
    return {
        **{n: (lambda t, a, b, n=n: getattr(t, n)(a, b), getattr(E, n)) for n in named},
        "relu": (lambda t, a, b: t.relu(a) * b, lambda a, b: E.where(a <= 0, 0, a) * b),
        "abs": (lambda t, a, b: t.abs(a), lambda a, b: abs(a)),
        "pow": (lambda t, a, b: t.pow(a, b), lambda a, b: a**b),
        "square": (lambda t, a, b: a**2, lambda a, b: a**2),
        "root": (lambda t, a, b: a**0.5, lambda a, b: a**0.5),
        "power 2.5": (lambda t, a, b: a**2.5, lambda a, b: a**2.5),
        "power 0": (lambda t, a, b: a**0 + b, lambda a, b: a**0 + b),
        "base 2": (lambda t, a, b: 2**b, lambda a, b: 2**b),
        "where": (
            lambda t, a, b: t.where(a > 0, a.log(), b),
            lambda a, b: E.where(a > 0, E.log(a), b),
        ),
        "floor": (lambda t, a, b: a.floor() + b.round(), lambda a, b: E.floor(a) + E.rint(b)),
        "sign": (lambda t, a, b: a.sign() * b.trunc(), lambda a, b: E.sign(a) * E.trunc(b)),
        "floor_divide": (lambda t, a, b: t.div(a, b, rounding_mode="floor"), E.floor_divide),
        "trunc_divide": (lambda t, a, b: t.div(a, b, rounding_mode="trunc"), E.trunc_divide),
        "sqrt": (lambda t, a, b: t.sqrt(a), lambda a, b: E.sqrt(a)),
        "div": (lambda t, a, b: a / b, lambda a, b: a / b),
    }


@pytest.fixture(scope="session")
def kinks(queue):
    """Values and gradients of `_kink_pairs` at kinks, ties and poles, on the device."""
    a, b = (v.ravel() for v in np.meshgrid(KINKS, KINKS))
    exprs = []
    for _, build in _kink_pairs().values():
        y = build(X, Y)
        exprs += [y, *E.vjp([y], [Z], wrt=[X, Y])]
    got = run(queue, exprs, "double", {X: a, Y: b, Z: np.full(a.shape, 3.0)})
    return a, b, dict(zip(_kink_pairs(), zip(*[iter(got)] * 3, strict=True), strict=True))


@pytest.mark.parametrize("name", _kink_pairs())
def test_kinks_follow_pytorch(kinks, name):
    torch = pytest.importorskip("torch", reason="PyTorch is the reference for kinks and ties")
    a, b, results = kinks
    ta, tb = (torch.tensor(v, requires_grad=True) for v in (a, b))
    y = _kink_pairs()[name][0](torch, ta, tb)
    grads = [torch.zeros_like(ta), torch.zeros_like(tb)]
    if y.requires_grad:
        found = torch.autograd.grad(y, [ta, tb], torch.full_like(y, 3.0), allow_unused=True)
        grads = [z if g is None else g for g, z in zip(found, grads, strict=True)]
    for what, got, want in zip(("y", "ga", "gb"), results[name], [y, *grads], strict=True):
        want = want.detach().numpy()
        np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-300, err_msg=what)


def test_vjp_sums_over_outputs_and_users():
    shared = E.exp(X)
    grads = E.vjp([shared * Y, shared], [Z, 2], wrt=[X, Y, P, E.Input(9)])
    values = {X: np.array([0.5]), Y: np.array([3.0]), Z: np.array([7.0])}
    want = [np.exp(0.5) * (21 + 2), 7 * np.exp(0.5), 0, 0]
    got = [float(evaluate(g, values).item()) for g in grads]
    np.testing.assert_allclose(got, want, rtol=1e-15)
    assert grads[2] is grads[3] is E.Const(0)
    assert E.derivative(E.Scalar(0) * X, E.Scalar(0)) is X


def test_same_structure_is_the_same_object():
    assert E.exp(X + 1) is E.exp(X + 1.0)
    assert E.exp(X + 1) == E.exp(E.Input(0) + 1)
    assert X + Y != Y + X
    assert E.Const(0) is not E.Const(-0.0)
    assert E.Const(1) is not E.Const(True)
    assert E.Const(math.nan) is E.Const(-math.nan)
    assert len({X, E.Input(0), E.Input(0, boolean=True), E.Scalar(0)}) == 3
    tree = COMPOSITES["gelu"]
    assert copy.deepcopy(tree) is tree
    assert pickle.loads(pickle.dumps(tree)) is tree
    with pytest.raises(AttributeError, match="immutable"):
        tree.boolean = True


def test_foldings_keep_every_bit():
    negated = -X
    for same in (X * 1, 1 * X, X / 1, X - 0, -negated, X**1, E.where(True, X, Y), E.where(P, X, X)):
        assert same is X
    assert ~(~P) is P
    assert E.as_expr(2) * 3 - 1 is E.Const(5)
    assert -E.as_expr(0) is E.Const(-0.0)
    for kept in (
        X + 0,
        X * 0,
        X - -0.0,
        X - X,
        0 - X,
        E.as_expr(0) * -1,
        E.as_expr(2**24) + 1,
        E.as_expr(0.1) + 1,
    ):
        assert isinstance(kept, E.Call)


def test_shared_sub_expressions_are_printed_once():
    shared = E.exp(X * Y)
    text = E.print_c([shared + 1, shared * shared, E.sqrt(shared)], "float", inputs=["x", "y"])
    assert text.statements == ("const float t0 = clnet_exp((x * y));",)
    assert text[1:] == (("(t0 + 1.0f)", "(t0 * t0)", "sqrt(t0)"), ("exp",))
    assert E.flops(shared + 1, shared * shared, E.sqrt(shared)) == 5
    assert E.flops(E.fma(X, Y, X), E.where(P, X, Y), X) == 2
    renamed = E.print_c([shared, shared], "double", inputs={0: "a", 1: "b"}, prefix="v")
    assert renamed == (("const double v0 = exp((a * b));",), ("v0", "v0"), ())


def test_deep_chains_do_not_recurse_or_nest():
    expr = X
    for _ in range(5000):
        expr = E.sin(expr) + Y
    printed = E.print_c([expr, *E.vjp([expr], [1], wrt=[X, Y])], "float", inputs=["x", "y"])
    assert max(s.count("(") for s in printed.statements) < 40
    assert E.flops(expr) == 10000
    assert "..." in repr(expr)
    assert E.substitute(expr, {X: Y}) is not expr


def test_substitute_composes_all_at_once():
    expr = E.where(P, X - Y, E.Scalar(0))
    got = E.substitute(expr, {X: Y * 2, Y: X, P: X > Y, E.Scalar(0): E.Scalar(3)})
    assert got is E.where(X > Y, Y * 2 - X, E.Scalar(3))
    assert E.inputs_of(got) == (X, Y)
    assert E.scalars_of(got) == (E.Scalar(3),)
    assert E.substitute(E.where(P, X, Y), {P: Z, X: Q}) is E.where(E.ne(Z, 0), E.as_number(Q), Y)
    assert E.substitute(X * Y, {X: E.Const(1)}) is Y


@pytest.mark.parametrize(
    ("expr", "ctype", "error", "text"),
    [
        (E.exp(X), "int", DtypeError, "exp: is defined for floating types only; got ctype=int"),
        (X & 1, "float", DtypeError, "bitwise_and: is defined for integer types only"),
        (X * 0.5, "long", DtypeError, "a fraction has no integer value; got value=0.5, ctype=long"),
        (X * math.inf, "int", DtypeError, "a fraction has no integer value"),
        (X + 300, "uchar", ArgumentError, "a constant fits the type; got value=300, ctype=uchar"),
        (X + E.Input(7), "float", ArgumentError, "every leaf needs a name"),
        (X + E.Scalar(0), "float", ArgumentError, "every leaf needs a name"),
        (X, "half", DtypeError, "got ctype='half'"),
    ],
)
def test_print_errors(expr, ctype, error, text):
    with pytest.raises(error) as caught:
        E.print_c([expr], ctype, inputs=["x"])
    assert text in str(caught.value)


def test_construction_errors():
    with pytest.raises(DtypeError, match="no truth value"):
        bool(X < 1)
    with pytest.raises(DtypeError, match="a constant is a bool, an int or a float; got type=str"):
        X + "1"
    with pytest.raises(ArgumentError, match="fits 64 bits"):
        X + 2**63
    with pytest.raises(DtypeError, match="do not match its signature"):
        E.Call("logical_not", X)
    with pytest.raises(ArgumentError, match="inputs and scalars"):
        E.derivative(X * X, X * X)
    with pytest.raises(ArgumentError, match="one cotangent for each output"):
        E.vjp([X], [], wrt=[X])


def _grow(inner):
    """Expressions over primitives that IEEE 754 rounds exactly: results agree to the bit.

    No copysign, since a NaN's sign is anybody's; no fmod, NAN or INFINITY as constants, since PoCL
    3.1 folds floor(NAN) and fmod(1, 0) to numbers.
    """
    unary = st.sampled_from([abs, operator.neg, E.floor, E.rint, E.trunc, E.sign, E.sqrt])
    arithmetic = [operator.add, operator.sub, operator.mul, operator.truediv]
    logic = [operator.lt, operator.ge, E.eq, E.ne, E.logical_and, E.logical_or, E.logical_xor]
    binary = st.sampled_from(arithmetic * 3 + logic)
    return st.one_of(
        st.builds(lambda f, a: f(a), unary, inner),
        *[st.builds(lambda f, a, b: f(a, b), binary, inner, inner)] * 2,
        st.builds(E.where, inner, inner, inner),
        st.builds(lambda a: ~E.cast_boolean(a), inner),
    )


LEAVES = st.sampled_from([X, Y, Z, P, Q] * 2 + [E.as_expr(c) for c in (0, 1, -2, 0.1, -0.0)])
EXPRESSIONS = _grow(_grow(st.recursive(LEAVES, _grow, max_leaves=12)))


@settings(max_examples=12)
@given(st.lists(EXPRESSIONS, min_size=8, max_size=24))
def test_random_expressions_agree_to_the_bit(queue, exprs):
    values = _cross(np.array([math.nan, math.inf, 0.0, -0.0, 0.3, -1.7, 2.5, 1e200, -1e-200]))
    for expr, got in zip(exprs, run(queue, exprs, "double", values), strict=True):
        want = np.broadcast_to(evaluate(expr, values), got.shape)
        np.testing.assert_array_equal(got, want, err_msg=repr(expr))


def test_a_whole_number_is_divided_once():
    """A processor takes 20 cycles for it: what is left over is found by a product."""
    printed = E.print_c([E.floor_divide(E.Input(0), E.Input(1))], "long", inputs=["a", "b"])
    text = " ".join((*printed.statements, *printed.results))
    assert (text.count(" / "), text.count("%")) == (1, 0)
