"""Calls at the corners of numbers: empty, 0-d, one element, infinite, NaN, huge, ends of integers.

Each case is a name and a function of a package, so that clnet and PyTorch run the same text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

inf, nan = float("inf"), float("nan")
Case = tuple[str, Callable[[Any], Any]]

FLOATS: dict[str, Any] = {
    "empty": [], "empty2": [[], []], "0d": 2.5, "one": [3.0], "inf": [1.0, inf, 2.0],
    "ninf": [1.0, -inf, 2.0], "infs": [inf, -inf, 1.0], "nan": [1.0, nan, 2.0], "nans": [nan, nan],
    "huge": [1e30, 2e30, 3e30], "tiny": [1e-38, 2e-38, 1e-40],
    "offset": [1e6 + 1, 1e6 + 2, 1e6 + 3],
    "mixed": [[1.0, 5.0, 2.0], [4.0, nan, 0.0], [inf, 3.0, -inf]],
    "ties": [[2.0, 2.0, 1.0], [1.0, 1.0, 1.0], [0.0, -0.0, 0.0]],
    "row": [[1.0, 2.0, 3.0]], "column": [[1.0], [2.0], [3.0]],
}  # fmt: skip
INTEGERS: dict[str, Any] = {
    "int64": {"ends": [2**63 - 1, -(2**63), 5], "some": [[3, 1, 2], [7, 7, -7]], "empty": []},
    "int32": {"ends": [2**31 - 1, -(2**31), 1], "some": [[3, 1, 2], [7, 7, -7]], "empty": []},
    "uint8": {"ends": [255, 255, 1], "some": [[3, 1, 2], [7, 7, 9]], "empty": []},
    "int8": {"ends": [127, -128, 1], "some": [[3, 1, 2], [7, 7, -7]]},
    "bool": {"some": [[True, False, True]], "empty": []},
}  # fmt: skip
DTYPES = ("bool", "uint8", "int8", "int32", "int64", "float16", "bfloat16", "float32")
WHOLE = (
    "sum prod mean amax amin max min argmax argmin median nanmedian std var nansum nanmean any all "
    "count_nonzero std_mean var_mean norm unique isfinite isnan sign nan_to_num diff"
).split()
ALONG = (
    "logsumexp cumsum cumprod cummax cummin logcumsumexp sort argsort median max min argmax "
    "nanmedian std var mean sum prod amax softmax log_softmax"
).split()
OF_INTEGERS = (
    "sum prod amax amin argmax median any all max min count_nonzero unique abs sign mean"
).split()
POINTS = [1.0, -1.0, 0.0, -0.0, inf, -inf, nan, 2.5, -2.5, 1e-40]
MATRICES: dict[str, Any] = {
    "small-pivot": [[1e-20, 1.0], [1.0, 1.0]], "big": [[1.0, 1e20], [1.0, 1.0]],
    "rows": [[1e10, 2e10], [1.0, 3.0]], "large": [[3e38, 1.0], [3e38, 2.0]],
    "large3": [[2e37, 1e3, 5.0], [2e37, 3e3, 1.0], [1e37, 7.0, 2e3]],
    "order": [[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [1.0, 0.0, 0.0]],
    "mixed": [[1, 1e8, 2], [3, 4, 1e-8], [5e7, 1, 2.0]], "one": [[2.0]],
    "far": [[1e18, 0], [0, 1e-18]], "nan": [[1.0, nan], [2.0, 3.0]], "zero": [[0.0, 0], [0, 0]],
}  # fmt: skip


def of(m: Any, values: Any, dtype: str = "float32") -> Any:
    """A tensor of a package."""
    return m.tensor(values, dtype=getattr(m, dtype))


def reductions() -> Iterator[Case]:
    """Reductions, statistics, scans and sorts of floats."""
    for name, (key, values) in product(WHOLE, FLOATS.items()):
        yield f"{name}-{key}", lambda m, n=name, v=values: getattr(m, n)(of(m, v))
    for name, (key, values) in product(ALONG, FLOATS.items()):
        yield f"{name}0-{key}", lambda m, n=name, v=values: getattr(m, n)(of(m, v), 0)
    for key, values in FLOATS.items():
        yield f"kthvalue1-{key}", lambda m, v=values: m.kthvalue(of(m, v), 1)
        for p in (0, 1, 2, 0.5, inf, -inf):
            yield (
                f"vector_norm-{p}-{key}",
                lambda m, v=values, p=p: m.linalg.vector_norm(of(m, v), p),
            )
    for q, way, key in product(
        (0.0, 0.25, 0.6, 1.0), ("linear", "lower", "midpoint"), ("inf", "infs", "nan", "mixed")
    ):
        for name in ("quantile", "nanquantile"):
            yield (
                f"{name}-{q}-{way}-{key}",
                lambda m, n=name, q=q, w=way, k=key: getattr(m, n)(
                    of(m, FLOATS[k]), q, dim=0, interpolation=w
                ),
            )


def integers() -> Iterator[Case]:
    """Reductions and arithmetic of whole numbers, at their ends."""
    for dtype, inputs in INTEGERS.items():
        for name, (key, values) in product(OF_INTEGERS, inputs.items()):
            yield (
                f"{name}-{dtype}-{key}",
                lambda m, n=name, v=values, d=dtype: getattr(m, n)(of(m, v, d)),
            )
    pairs: dict[str, Any] = {
        d: ([7, -7, 7, -7, 0, 100], [2, 2, -2, -2, 5, -3]) for d in ("int64", "int8")
    }
    pairs["uint8"] = ([7, 200, 255, 0], [2, 3, 255, 5])
    binary = "floor_divide remainder fmod div add sub mul maximum minimum bitwise_and eq lt".split()
    for (dtype, (a, b)), name in product(pairs.items(), binary):
        yield (
            f"{name}-{dtype}",
            lambda m, n=name, a=a, b=b, d=dtype: getattr(m, n)(of(m, a, d), of(m, b, d)),
        )
    for (dtype, (a, _)), by in product(pairs.items(), (0, 1, 3, 7)):
        yield f"lshift-{dtype}-{by}", lambda m, a=a, d=dtype, s=by: of(m, a, d) << s
        yield f"rshift-{dtype}-{by}", lambda m, a=a, d=dtype, s=by: of(m, a, d) >> s
        yield f"pow-{dtype}-{by}", lambda m, a=a, d=dtype, s=by: m.pow(of(m, a, d), s)


def points() -> Iterator[Case]:
    """Functions of two numbers at all pairs of special points, and clamp between any two bounds."""

    def pairs(m: Any) -> tuple[Any, Any]:
        x = of(m, POINTS)
        return x.reshape(-1, 1).expand(10, 10), x.reshape(1, -1).expand(10, 10)

    for name in "floor_divide remainder fmod div maximum minimum atan2 hypot copysign pow".split():
        yield f"grid-{name}", lambda m, n=name: getattr(m, n)(*pairs(m))
    values = [-inf, -2.0, -0.0, 0.0, 1.0, inf, nan]
    for low, high in product((None, -1.0, nan, inf, -inf), (None, 1.0, nan, inf, -2.0)):
        if low is None and high is None:
            continue
        yield f"clamp-{low}-{high}", lambda m, a=low, b=high: m.clamp(of(m, values), a, b)
        if low is not None and high is not None:
            yield (
                f"clamp-tensors-{low}-{high}",
                lambda m, a=low, b=high: m.clamp(of(m, values), m.tensor(a), m.tensor(b)),
            )


def creation() -> Iterator[Case]:
    """Ranges and triangles whose ends are far out."""
    spans = [(0, 1, 0.1), (5, 0, -2), (0, 0, 1), (2**53, 2**53 + 3), (2**62, 2**62 + 3),
             (-(2**63), -(2**63) + 2), (1, 2, 0.3), (1e10, 1e10 + 5)]  # fmt: skip
    for span in spans:
        yield f"arange-{span}", lambda m, s=span: m.arange(*s)
    for span in [(0, 1, 1), (0, 1, 0), (-1e30, 1e30, 5), (3, 3, 4), (-3e38, 3e38, 3), (0, inf, 3)]:
        yield f"linspace-{span}", lambda m, s=span: m.linspace(*s)
    for k in (-5, 0, 5, 2**31 - 1, 2**31, -(2**31) - 1, 2**62, 2**63 - 1, -(2**63)):
        for name in ("tril", "triu"):
            yield f"{name}-{k}", lambda m, n=name, k=k: getattr(m, n)(m.ones(2, 3), k)
    for dtype, k, name in product(DTYPES, (-1, 1), ("tril", "triu")):
        yield (
            f"{name}-{dtype}-{k}",
            lambda m, n=name, k=k, d=dtype: getattr(m, n)(of(m, [[1, 2, 3], [4, 5, 6]], d), k),
        )


def dtypes() -> Iterator[Case]:
    """The dtypes of results."""
    for i, a in enumerate(DTYPES):
        for b, name in product(DTYPES[i:], ("add", "div")):
            yield (
                f"promote-{name}-{a}-{b}",
                lambda m, n=name, a=a, b=b: getattr(m, n)(of(m, [1, 0], a), of(m, [1, 1], b)),
            )
        for scalar in (1, 1.5, True):
            yield f"scalar-{a}-{scalar}", lambda m, a=a, s=scalar: of(m, [1, 0], a) + s
            yield f"scalar0d-{a}-{scalar}", lambda m, a=a, s=scalar: of(m, [1, 0], a) * m.tensor(s)
        for name in "sum mean prod sqrt abs sigmoid floor round square neg".split():
            yield f"dtype-{name}-{a}", lambda m, n=name, a=a: getattr(m, n)(of(m, [1, 0, 1], a))
        yield f"sum_to_size-{a}", lambda m, a=a: of(m, [[1, 0], [1, 1]], a).sum_to_size(2)
        for how, own in product(("sum", "prod", "mean", "amax", "amin"), (True, False)):
            yield (
                f"scatter_reduce-{how}-{own}-{a}",
                lambda m, a=a, how=how, own=own: of(m, [3, 5, 2], a).scatter_reduce(
                    0, m.tensor([0, 0, 1, 1, 1]), of(m, [4, 9, 2, 7, 100], a), how, include_self=own
                ),
            )


def algebra() -> Iterator[Case]:
    """Linear systems with pivots of all sizes."""
    for key, rows in MATRICES.items():
        n = len(rows)
        yield f"solve-{key}", lambda m, v=rows, n=n: m.linalg.solve(of(m, v), m.ones(n, 1))
        yield (
            f"solve-vector-{key}",
            lambda m, v=rows, n=n: m.linalg.solve(of(m, v), m.arange(n, dtype=m.float32)),
        )
        for name in ("inv", "det", "slogdet"):
            yield f"{name}-{key}", lambda m, v=rows, n=name: getattr(m.linalg, n)(of(m, v))


def sampling() -> Iterator[Case]:
    """Images at places that are no numbers, and far away."""
    places = [
        [0.0, 0.0],
        [nan, 0.0],
        [inf, -inf],
        [1.0, 1.0],
        [5.0, -5.0],
        [1e10, 0.3],
        [-3e38, 3e38],
    ]
    settings = product(
        ("bilinear", "nearest", "bicubic"), ("zeros", "border", "reflection"), (True, False), places
    )
    for mode, padding, corners, place in settings:
        yield (
            f"grid_sample-{mode}-{padding}-{corners}-{place}",
            lambda m, mode=mode, padding=padding, corners=corners, place=place: (
                m.nn.functional.grid_sample(
                    m.arange(12, dtype=m.float32).reshape(1, 1, 3, 4) + 1,
                    of(m, place).reshape(1, 1, 1, 2),
                    mode=mode, padding_mode=padding, align_corners=corners,
                )
            ),
        )  # fmt: skip


def searching() -> Iterator[Case]:
    """Indices where elements are NaN, equal or missing."""
    values = [0.0, 1.0, 3.0, 4.0, 5.0, 6.0, nan, inf, -inf]
    edges = [1.0, 3.0, 3.0, 5.0]
    for right in (True, False):
        yield (
            f"searchsorted-{right}",
            lambda m, r=right: m.searchsorted(of(m, edges), of(m, values), right=r),
        )
    for rows in (
        [1.0, nan, 3.0],
        [[1.0, nan], [nan, 2.0]],
        [nan],
        [[nan, 1.0, 2.0], [3.0, 1.0, nan]],
    ):
        for name in "median nanmedian max min cummax cummin argmax argmin".split():
            yield f"{name}-where-{rows}", lambda m, n=name, v=rows: getattr(m, n)(of(m, v), -1)
    for counted in ([0, 1, 1, 5], [], [3]):
        yield f"bincount-{counted}", lambda m, v=counted: m.bincount(of(m, v, "int64"))
        yield (
            f"bincount-weights-{counted}",
            lambda m, v=counted: m.bincount(of(m, v, "int64"), weights=m.ones(len(v)), minlength=4),
        )
        yield (
            f"one_hot-{counted}",
            lambda m, v=counted: m.nn.functional.one_hot(of(m, v, "int64"), 7),
        )


def losses() -> Iterator[Case]:
    """Losses of nothing, of one element, of huge ones, and of ignored classes."""
    names = "mse_loss l1_loss smooth_l1_loss huber_loss kl_div soft_margin_loss".split()
    for name, how, key in product(names, ("mean", "sum", "none"), ("empty", "one", "huge", "0d")):
        yield (
            f"{name}-{how}-{key}",
            lambda m, n=name, h=how, k=key: getattr(m.nn.functional, n)(
                of(m, FLOATS[k]), m.ones_like(of(m, FLOATS[k])), reduction=h
            ),
        )
    settings = product(("mean", "sum", "none"), (-100, 0), (0.0, 0.1, 1.0), ([0, 0], [0, 2], []))
    for how, ignored, smooth, classes in settings:
        yield (
            f"cross_entropy-{how}-{ignored}-{smooth}-{classes}",
            lambda m, h=how, i=ignored, s=smooth, c=classes: m.nn.functional.cross_entropy(
                m.ones(len(c), 3) * of(m, [1.0, 2.0, 3.0]), of(m, c, "int64"), ignore_index=i,
                label_smoothing=s, reduction=h,
            ),
        )  # fmt: skip


FAMILIES = (reductions, integers, points, creation, dtypes, algebra, sampling, searching, losses)
