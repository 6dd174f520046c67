"""Rules for batches: what ``vmap`` gives is what a function gives for each element, at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import clnet
import clnet.nn.functional as F
from clnet.autodiff import batched
from clnet.autodiff.batched import LoopNeeded
from clnet.func import grad, vmap

N = 3
_RANDOM = np.random.default_rng(0)


def t(*shape: int) -> Any:
    """Normal numbers."""
    return clnet.tensor(_RANDOM.standard_normal(shape, dtype=np.float32))


def i(n: int, *shape: int) -> Any:
    """Indices below ``n``."""
    return clnet.tensor(_RANDOM.integers(0, n, shape))


W, K, V, X5, IMAGES = t(6, 5), t(4, 3, 3, 3), t(5), t(3, 5), t(2, 3, 6, 6)
PLACES, ROWS = i(5, 7), clnet.tensor([3, 1])


def definite(a: Any) -> Any:
    """Of any matrix one that is positive definite."""
    return a @ a.mT + 3 * clnet.eye(a.shape[-1])


# A function, its arguments, and which of them have a batch (all, if it is not said).
COMPARED: dict[str, tuple[Any, ...]] = {
    "broadcast": (lambda a, b: (a + b).sin(), [t(N, 5), t(N, 3, 5)]),
    "broadcast_one": (lambda a, b: a * b, [t(3, 5), t(N, 5)], (None, 0)),
    "views": (lambda a: a.reshape(5, 3).T[1:, ::2].flatten(), [t(N, 3, 5)]),
    "expand": (lambda a: a.expand(3, 5), [t(N, 5)]),
    "cat": (lambda a, b: clnet.cat([a, b, a[:, 1:3]], 1), [t(N, 3, 5), t(3, 2)], (0, None)),
    "unbind": (lambda a: clnet.stack(a.unbind(0)[::-1], 1), [t(N, 4, 5)]),
    "flip_roll": (lambda a: a.flip(0).roll(2, 1).tril(), [t(N, 5, 5)]),
    "diagonals": (lambda a: clnet.diag_embed(clnet.diagonal(a)) + a.trace(), [t(N, 5, 5)]),
    "pad": (lambda a: F.pad(F.pad(a, (1, 2)), (1, 1), mode="reflect"), [t(N, 3, 5)]),
    "windows": (lambda a: a.unfold(1, 3, 1), [t(N, 3, 5)]),
    "patches": (lambda a: F.fold(F.unfold(a, 3), (5, 5), 3), [t(N, 1, 2, 5, 5)]),
    "reductions": (lambda a: a.sum(1) + a.amax(1) + a.prod(1) + a.std(1), [t(N, 3, 5)]),
    "extremes": (lambda a: [a.max(1).values, a.argmax(1), a.max()], [t(N, 3, 5)]),
    "running": (lambda a: a.cumsum(1) + a.cumprod(0) + a.logcumsumexp(0), [t(N, 3, 5)]),
    "sort": (lambda a: [a.sort(0).values, a.topk(2, 1).values, a.argsort(0)], [t(N, 3, 5)]),
    "matvec": (lambda a: W @ a, [t(N, 5)]),
    "products": (lambda a, b: a @ b + (X5 @ b) + a @ W.T[:, :2], [t(N, 3, 5), t(N, 5, 2)]),
    "stacks": (lambda a, b: a @ b, [t(N, 2, 3, 5), t(2, 5, 4)], (0, None)),
    "linear": (lambda a, w, b: F.linear(a, w, b), [t(N, 3, 5), t(N, 6, 5), t(N, 6)]),
    "linear_x": (lambda a, b: F.linear(a, W, b), [t(N, 3, 5), t(N, 6)]),
    "conv": (lambda a: F.conv2d(a, K, padding=1), [t(N, 2, 3, 6, 6)]),
    "conv_filters": (lambda a, w: F.conv2d(a, w), [t(N, 2, 3, 6, 6), t(N, 4, 3, 3, 3)]),
    "conv_one_image": (lambda w, b: F.conv2d(IMAGES, w, b), [t(N, 4, 3, 3, 3), t(N, 4)]),
    "conv_bias": (lambda b: F.conv2d(IMAGES, K, b), [t(N, 4)]),
    "conv_groups": (
        lambda a, w: F.conv2d(a, w, groups=6),
        [t(2, 6, 6, 6), t(N, 6, 1, 3, 3)],
        (None, 0),
    ),
    "transposed": (
        lambda a, w: F.conv_transpose2d(a, w, stride=2),
        [t(N, 2, 3, 4, 4), t(N, 3, 4, 3, 3)],
    ),
    "softmax": (lambda a: a.softmax(0) + F.log_softmax(a, -1), [t(N, 3, 5)]),
    "layer_norm": (lambda a, w: F.layer_norm(a, (5,), w, V), [t(N, 3, 5), t(N, 5)]),
    "layer_norm_x": (lambda a: F.layer_norm(a, (5,), V, V), [t(N, 3, 5)]),
    "group_norm": (lambda a, w: F.group_norm(a, 2, w), [t(N, 2, 4, 3, 3), t(N, 4)]),
    "batch_norm": (
        lambda a, w: F.batch_norm(a, None, None, w, training=True),
        [t(N, 6, 4, 2), t(N, 4)],
    ),
    "pools": (lambda a: F.max_pool2d(a, 2) + F.avg_pool2d(a, 2), [t(N, 2, 3, 6, 6)]),
    "adaptive": (lambda a: F.adaptive_avg_pool2d(a, 4), [t(N, 2, 3, 6, 6)]),
    "interpolate": (
        lambda a: F.interpolate(a, scale_factor=2, mode="bilinear"),
        [t(N, 2, 3, 4, 4)],
    ),
    "grid": (
        lambda a, g: F.grid_sample(a, g.tanh(), align_corners=False),
        [t(N, 2, 3, 4, 4), t(N, 2, 5, 5, 2)],
    ),
    "attention": (
        lambda q, k, m: F.scaled_dot_product_attention(q, k, k, m),
        [t(N, 2, 3, 6, 8), t(N, 2, 3, 7, 8), t(N, 6, 7)],
    ),
    "cross_entropy": (
        lambda a, y: F.cross_entropy(a, y, ignore_index=2, label_smoothing=0.1),
        [t(N, 6, 5), i(5, N, 6)],
    ),
    "cross_entropy_sum": (
        lambda a, y: F.cross_entropy(a, y, weight=V.abs(), reduction="sum"),
        [t(N, 6, 5), i(5, N, 6)],
    ),
    "cross_entropy_one": (lambda a, y: F.cross_entropy(a, y), [t(N, 5), i(5, N)]),
    "cross_entropy_each": (
        lambda a, y: F.cross_entropy(a, y, reduction="none"),
        [t(N, 2, 5, 3), i(5, N, 2, 3)],
    ),
    "embedding": (lambda k, w: F.embedding(k, w), [i(5, N, 3), t(5, 4)], (0, None)),
    "embedding_tables": (lambda k, w: F.embedding(k, w), [i(5, N, 3), t(N, 5, 4)]),
    "index": (lambda a, k: a[k] + a[PLACES], [t(N, 5, 3), i(5, N, 7)]),
    "index_one": (lambda a, k: a[k], [t(5, 3), i(5, N, 7)], (None, 0)),
    "index_both": (lambda a, j, k: a[j, k], [t(N, 5, 3), i(5, N, 7), i(3, N, 7)]),
    "gather": (lambda a, k: a.gather(1, k), [t(N, 3, 5), i(5, N, 3, 2)]),
    "scatter": (
        lambda a, k, s: a.scatter_add(1, k, s).scatter(1, k, s),
        [t(N, 3, 5), i(5, N, 3, 2), t(N, 3, 2)],
    ),
    "scatter_reduce": (
        lambda a, k, s: a.scatter_reduce(1, k, s, "amax"),
        [t(N, 3, 5), i(5, N, 3, 2), t(N, 3, 2)],
    ),
    "index_add": (
        lambda a, k, s: a.index_add(0, k, s),
        [t(N, 5, 3), i(5, N, 7), t(N, 7, 3)],
    ),
    "index_copy": (lambda a, s: a.index_copy(0, ROWS, s), [t(N, 5, 3), t(N, 2, 3)]),
    "searched": (lambda a, v: clnet.searchsorted(a.sort()[0], v), [t(N, 7), t(N, 4)]),
    "distances": (lambda a, b: clnet.cdist(a, b), [t(N, 3, 5), t(N, 4, 5)]),
    "solve": (lambda a, b: clnet.linalg.solve(definite(a), b), [t(N, 3, 3), t(N, 3)]),
    "cholesky": (lambda a: clnet.linalg.cholesky(definite(a)), [t(N, 3, 3)]),
    "eigenvalues": (lambda a: clnet.linalg.eigvalsh(definite(a)), [t(N, 3, 3)]),
    "fourier": (lambda a: clnet.view_as_real(clnet.fft.rfft(a)), [t(N, 2, 8)]),
    "complex": (lambda a: (clnet.complex(a, a * 2) @ clnet.complex(a, a)).imag, [t(N, 3, 3)]),
    "in_place": (lambda a: (a * 1).add_(2).mul_(a), [t(N, 3)]),
}


def elements(f: Any, args: list[Any], dims: tuple[Any, ...]) -> list[Any]:
    """What ``f`` gives for one element after another, stacked."""
    rows: list[list[Any]] = []
    for k in range(N):
        found = f(*(a if d is None else a[k] for a, d in zip(args, dims, strict=True)))
        rows.append(list(found) if isinstance(found, tuple | list) else [found])
    return [clnet.stack(list(each)) for each in zip(*rows, strict=True)]


def same(found: Any, expected: list[Any]) -> None:
    """Compare results."""
    listed = list(found) if isinstance(found, tuple | list) else [found]
    assert len(listed) == len(expected)
    for one, other in zip(listed, expected, strict=True):
        assert (one.shape, one.dtype) == (other.shape, other.dtype)
        np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-4, atol=2e-5)


@pytest.mark.parametrize("name", COMPARED)
def test_a_batch_is_its_elements(name, monkeypatch):
    """Forward, per-element gradients (``vmap(grad)``), and gradients from outside; all at once."""

    def refuse(*_: Any) -> Any:
        raise AssertionError("elements one after another")

    f, args, *rest = COMPARED[name]
    dims = rest[0] if rest else (0,) * len(args)
    monkeypatch.setattr(batched, "_one_by_one", refuse)
    same(vmap(f, dims)(*args), elements(f, args, dims))
    places = tuple(k for k, a in enumerate(args) if a.dtype.is_floating_point)
    if name == "searched":
        return

    def loss(*own: Any) -> Any:
        y = f(*own)
        y = y[0] if isinstance(y, tuple | list) else y
        return (y * clnet.arange(y.numel()).cos().reshape(y.shape)).sum()

    slopes = grad(loss, places)
    inner = vmap(slopes, dims)(*args)
    same(inner, elements(slopes, args, dims))
    leaves = [a.detach().requires_grad_() if k in places else a for k, a in enumerate(args)]
    vmap(loss, dims)(*leaves).sum().backward()
    outer = [leaves[k].grad for k in places]
    expected = [g if dims[k] is not None else g.sum(0) for k, g in zip(places, inner, strict=True)]
    same(outer, expected)


def test_what_reads_a_value_is_done_one_by_one():
    x = t(N, 4)
    assert vmap(lambda a: a * a[0].item())(x).tolist() == (x * x[:, :1]).tolist()
    with pytest.raises(LoopNeeded):
        batched.element(x, batched.Level(N, "error", 0)).numpy()
    with pytest.raises(clnet.errors.ShapeError, match="one element after another"):
        vmap(lambda a: a * a[0].item())(x[:0])


def test_many_launches_become_one_set():
    """As many for a batch of 64 as for one of 2."""
    w = t(5, 5)

    def count(n: int) -> int:
        x = t(n, 5)
        f = vmap(grad(lambda w, a: ((w @ a).tanh() ** 2).sum()), (None, 0))
        f(w, x)
        with clnet.profile(x.device) as found:
            f(w, x)
        return sum(total.calls for total in found.totals().values())

    assert count(64) == count(2) > 0
