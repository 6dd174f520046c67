"""Bessel's functions, the incomplete gamma function, polynomials and others, against SciPy."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.special as sc

import clnet
from clnet import ops, special
from clnet.errors import DtypeError
from clnet.ops import PUBLIC_OPS
from tests.opcase import OpCase, every_check, uniform

pytestmark = pytest.mark.device

X = uniform(0.3, 11, (40,))
BOTH = uniform(-11, 11, (40,), dodge=(0,))


def case(name, ref, *inputs, **options):
    return OpCase(
        PUBLIC_OPS[name][0], ref, inputs, layouts=(), shapes=(), name=name, rtol=3e-5, atol=1e-5,
        **options,
    )  # fmt: skip


CASES = [
    case("i0", sc.i0, uniform(-6, 6, (40,)), grad2=True),
    case("special.i0e", sc.i0e, BOTH),
    case("special.i1", sc.i1, uniform(-6, 6, (40,), dodge=(0,))),
    case("special.i1e", sc.i1e, BOTH),
    case("special.bessel_j0", sc.j0, BOTH),
    case("special.bessel_j1", sc.j1, BOTH),
    case("special.bessel_y0", sc.y0, X),
    case("special.bessel_y1", sc.y1, X),
    case("special.modified_bessel_k0", sc.k0, X),
    case("special.modified_bessel_k1", sc.k1, X),
    case("special.scaled_modified_bessel_k0", sc.k0e, X),
    case("special.scaled_modified_bessel_k1", sc.k1e, X),
    case("special.spherical_bessel_j0", lambda x: np.sinc(x / np.pi), BOTH),
    case("special.erfcx", sc.erfcx, uniform(-2, 11, (40,))),
    case("special.log_ndtr", sc.log_ndtr, uniform(-9, 3, (40,))),
    case("special.airy_ai", lambda x: sc.airy(x)[0], uniform(-12, 9, (40,)), grad=False),
    case(
        "special.zeta",
        sc.zeta,
        uniform(1.5, 6, (40,), grad=False),
        uniform(0.5, 20, (40,)),
    ),
    case(
        "igamma",
        sc.gammainc,
        uniform(0.1, 30, (40,), grad=False),
        uniform(0.5, 30, (40,)),
    ),
    case(
        "igammac",
        sc.gammaincc,
        uniform(0.1, 30, (40,), grad=False),
        uniform(0.5, 30, (40,)),
    ),
]


def lower_chebyu(n, x):
    return sc.eval_chebyu(n - 1, x) * (n > 0)


POLYNOMIALS = {
    "chebyshev_polynomial_t": sc.eval_chebyt,
    "chebyshev_polynomial_u": sc.eval_chebyu,
    "chebyshev_polynomial_v": lambda n, x: sc.eval_chebyu(n, x) - lower_chebyu(n, x),
    "chebyshev_polynomial_w": lambda n, x: sc.eval_chebyu(n, x) + lower_chebyu(n, x),
    "hermite_polynomial_h": sc.eval_hermite,
    "hermite_polynomial_he": sc.eval_hermitenorm,
    "laguerre_polynomial_l": sc.eval_laguerre,
    "legendre_polynomial_p": sc.eval_legendre,
}  # fmt: skip
SHIFTED = [name for name in POLYNOMIALS if name.startswith("chebyshev")]
OTHERWISE_TESTED = {
    **{f"special.{name}": "test_polynomials" for name in POLYNOMIALS},
    **{f"special.shifted_{name}": "test_polynomials" for name in SHIFTED},
    "special.modified_bessel_i0": "test_second_names",
    "special.modified_bessel_i1": "test_second_names",
    "i0_": "test_twins",
    "igamma_": "test_twins",
    "igammac_": "test_twins",
    "gcd_": "test_twins",
    "lcm_": "test_twins",
    "nextafter_": "test_twins",
    "polygamma_": "test_twins",
    "Tensor.polygamma": "test_twins",
    "gcd": "test_whole_numbers",
    "lcm": "test_whole_numbers",
    "nextafter": "test_parts_of_numbers",
    "frexp": "test_parts_of_numbers",
}


@pytest.mark.parametrize(("case", "check"), every_check(CASES))
def test_op(case, check, device):
    check(case, device)


def test_polynomials():
    rng = np.random.default_rng(1)
    x = rng.uniform(-1.2, 1.2, 60).astype(np.float32)
    n = rng.integers(0, 9, 60)
    for name, ref in POLYNOMIALS.items():
        found = getattr(special, name)(clnet.tensor(x), clnet.tensor(n)).numpy()
        np.testing.assert_allclose(found, ref(n, x.astype(float)), rtol=2e-5, atol=2e-5)
        if name in SHIFTED:
            y = getattr(special, f"shifted_{name}")(clnet.tensor((x + 1) / 2), 3.7).numpy()
            np.testing.assert_allclose(y, ref(3, x.astype(float)), rtol=2e-5, atol=2e-5)
    assert special.legendre_polynomial_p(0.5, clnet.tensor([-1, 0, 1])).tolist() == [0, 1, 0.5]
    assert np.isnan(special.hermite_polynomial_h(clnet.tensor([1.0]), 129).item())
    x = clnet.ones(1, requires_grad=True)
    assert not special.legendre_polynomial_p(x, 2).requires_grad
    (special.airy_ai(x) * x).sum().backward()  # as a constant
    assert x.grad.item() == special.airy_ai(x).item()


def test_accuracy_in_double_precision(device):
    if not device.traits.float64:
        pytest.skip("the device has no double precision")
    x = np.linspace(0.01, 30, 200)
    for found, wanted in (
        (special.i0e, sc.i0e(x)),
        (special.bessel_j0, sc.j0(x)),
        (special.bessel_y1, sc.y1(x)),
        (special.modified_bessel_k1, sc.k1(x)),
        (special.erfcx, sc.erfcx(x)),
    ):
        y = found(clnet.tensor(x)).numpy()
        np.testing.assert_allclose(y, wanted, rtol=3e-14, atol=1e-15)
    a = np.linspace(0.1, 300, 200)
    y = clnet.igamma(clnet.tensor(a), clnet.tensor(a * 1.1)).numpy()
    np.testing.assert_allclose(y, sc.gammainc(a, a * 1.1), rtol=1e-12)


def test_special_points():
    inf, nan = float("inf"), float("nan")
    ends = clnet.tensor([0.0, inf, -inf, nan])
    for found, wanted in (
        (special.i0, [1, inf, inf, nan]),
        (special.i1, [0, inf, -inf, nan]),
        (special.bessel_j0, [1, 0, 0, nan]),
        (special.bessel_y0, [-inf, 0, nan, nan]),
        (special.modified_bessel_k0, [inf, 0, nan, nan]),
        (special.erfcx, [1, 0, inf, nan]),
        (special.log_ndtr, [np.log(0.5), 0, -inf, nan]),
        (special.airy_ai, [0.35502806, 0, 0, nan]),
        (special.spherical_bessel_j0, [1, 0, 0, nan]),
    ):
        np.testing.assert_allclose(found(ends).numpy(), wanted, rtol=1e-6)
    s, q = clnet.tensor([1.0, 0.5, 2.0, 2.5]), clnet.tensor([3.0, 3.0, -1.0, -0.5])
    np.testing.assert_array_equal(special.zeta(s, q).numpy(), [inf, nan, inf, nan])
    a, x = clnet.tensor([0.0, 1.0, inf, -1.0, 1.0]), clnet.tensor([1.0, 0.0, 2.0, 2.0, inf])
    np.testing.assert_array_equal(special.gammainc(a, x).numpy(), [1, 0, 0, nan, 1])
    np.testing.assert_array_equal(special.gammaincc(a, x).numpy(), [0, 1, 1, nan, 0])


def test_ends_of_the_range():
    inf, least = float("inf"), 1e-45
    x = clnet.tensor([-0.0, least, -least], requires_grad=True)
    special.bessel_j1(x).sum().backward()
    assert x.grad.tolist() == [0.5, 0.5, 0.5]
    assert np.signbit(special.bessel_j1(x.detach()).numpy()).tolist() == [True, False, True]
    assert special.modified_bessel_k0(clnet.tensor(least)).item() == pytest.approx(103.395, 1e-5)
    s, q = clnet.tensor([1e30, 1e30, 1e30]), clnet.tensor([1.0, 0.5, 20.0])
    assert special.zeta(s, q).tolist() == [1, inf, 0]
    a = clnet.tensor([least, least, 1e30, 3e38, 3e38])
    x = clnet.tensor([0.5, least, 1e30, 3e38, 3.0])
    assert clnet.igamma(a, x).tolist() == [1, 1, 0.5, 0.5, 0]
    assert clnet.igammac(a, x).tolist() == [0, 0, 0.5, 0.5, 1]


def test_large_orders_of_the_incomplete_gamma_function(device):
    dtypes = [(np.float32, 5e-6)]
    if device.traits.float64:
        dtypes.append((np.float64, 1e-11))
    for dtype, near in dtypes:
        a = np.repeat(np.array([9e4, 2e5, 1.9e6, 3e6, 1e9]), 7)
        x = (a + np.tile([-4, -2, -0.5, 0, 0.5, 2, 4], 5) * np.sqrt(a)).astype(dtype)
        a = a.astype(dtype)
        for found, wanted in ((clnet.igamma, sc.gammainc), (clnet.igammac, sc.gammaincc)):
            y = found(clnet.tensor(a), clnet.tensor(x)).numpy()
            np.testing.assert_allclose(y, wanted(a.astype(float), x.astype(float)), atol=near)


def test_the_normal_distribution_far_out(device):
    share = np.concatenate([np.logspace(-37, -0.31, 80), 1 - np.logspace(-6, -0.31, 40)])
    dtypes = [(np.float32, 1e-6)] + ([(np.float64, 1e-14)] if device.traits.float64 else [])
    for dtype, near in dtypes:
        p = share.astype(dtype)
        x = clnet.tensor(p, requires_grad=True)
        y = special.ndtri(x)
        wanted = sc.ndtri(p.astype(float))
        np.testing.assert_allclose(y.detach().numpy(), wanted, rtol=near, atol=near)
        y.sum().backward()
        slopes = np.sqrt(2 * np.pi) * np.exp(wanted**2 / 2)
        np.testing.assert_allclose(x.grad.numpy(), slopes, rtol=100 * near)
        z = clnet.tensor(np.linspace(-300, 30, 100).astype(dtype), requires_grad=True)
        special.log_ndtr(z).sum().backward()
        at = z.detach().numpy().astype(float)
        slopes = np.sqrt(2 / np.pi) / sc.erfcx(-at / np.sqrt(2))
        np.testing.assert_allclose(z.grad.numpy(), slopes, rtol=100 * near, atol=1e-37)


def test_log_ndtr_of_floats_to_some_units_in_the_last_place():
    z = np.linspace(-20, 2, 2**15, dtype=np.float32)
    x = clnet.tensor(z, requires_grad=True)
    y = special.log_ndtr(x)
    y.sum().backward()
    wide = z.astype(np.float64)
    for got, want in (
        (y.detach().numpy(), sc.log_ndtr(wide)),
        (x.grad.numpy(), np.sqrt(2 / np.pi) / sc.erfcx(-wide / np.sqrt(2))),
    ):
        assert (abs(got - want) / np.spacing(abs(want.astype(np.float32)))).max() < 8


def test_second_names():
    x = clnet.tensor([0.5, -2.0])
    assert special.modified_bessel_i0(x).tolist() == clnet.i0(x).tolist()
    assert special.modified_bessel_i1(x).tolist() == special.i1(x).tolist()


def test_twins():
    x = clnet.tensor([0.5, 2.0])
    assert x.clone().i0_().tolist() == x.i0().tolist()
    assert x.clone().igamma_(x).tolist() == x.igamma(x).tolist()
    assert x.clone().igammac_(x).tolist() == x.igammac(x).tolist()
    assert x.clone().nextafter_(x + 1).tolist() == x.nextafter(x + 1).tolist()
    assert (
        x.clone().polygamma_(1).tolist() == x.polygamma(1).tolist() == ops.polygamma(1, x).tolist()
    )
    for twin, function in (
        (lambda y: y.i0_(), lambda y: y.i0()),
        (lambda y: y.polygamma_(1), lambda y: y.polygamma(1)),
        (lambda y: y.nextafter_(y + 1), lambda y: y.nextafter(y + 1)),
    ):  # on the tape what backward reads is what was there
        leaf = x.clone().requires_grad_()
        slopes = [clnet.autograd.grad(f(leaf * 1).sum(), leaf)[0] for f in (twin, function)]
        assert slopes[0].tolist() == slopes[1].tolist()
    whole = clnet.tensor([4, -6])
    assert whole.clone().gcd_(clnet.tensor([6])).tolist() == [2, 6]
    assert whole.clone().lcm_(clnet.tensor([6])).tolist() == [12, 6]


def test_whole_numbers():
    rng = np.random.default_rng(2)
    for dtype in (np.int32, np.int64, np.uint8):
        a, b = (rng.integers(0, 60, 50).astype(dtype) for _ in range(2))
        np.testing.assert_array_equal(
            clnet.gcd(clnet.tensor(a), clnet.tensor(b)).numpy(), np.gcd(a, b)
        )
        b = b % 5
        np.testing.assert_array_equal(
            clnet.lcm(clnet.tensor(a % 50), clnet.tensor(b)).numpy(), np.lcm(a % 50, b)
        )
    with pytest.raises(DtypeError, match="operands are whole numbers"):
        clnet.gcd(clnet.ones(2), clnet.ones(2))


def test_parts_of_numbers():
    x = np.float32([0, 0.5, -3, 1e30, -np.inf, np.nan, 1e-30])
    found = clnet.frexp(clnet.tensor(x))
    mantissa, exponent = np.frexp(x)
    np.testing.assert_array_equal(found.mantissa.numpy(), mantissa)
    np.testing.assert_array_equal(found.exponent.numpy(), np.where(np.isfinite(x), exponent, 0))
    leaf = clnet.tensor([3.0], requires_grad=True)
    clnet.frexp(leaf).mantissa.backward()
    assert leaf.grad.item() == 0.25
    y = clnet.nextafter(clnet.tensor(x), clnet.tensor(x[::-1].copy())).numpy()
    np.testing.assert_array_equal(y, np.nextafter(x, x[::-1]))
    for call in (
        lambda: clnet.nextafter(clnet.ones(2).half(), clnet.ones(2).half()),
        lambda: clnet.frexp(clnet.ones(2).int()),
        lambda: special.zeta(2.0, 3.0),
    ):
        with pytest.raises(DtypeError):
            call()
