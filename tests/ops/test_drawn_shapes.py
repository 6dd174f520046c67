"""Ops against PyTorch on drawn shapes, axes and layouts: values and gradients."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import clnet

pytestmark = pytest.mark.device

SIZES = st.lists(st.integers(0, 4), min_size=1, max_size=3)
REDUCTIONS = ("sum", "mean", "std", "var_mean", "logsumexp", "norm", "count_nonzero", "nansum")
DRAWN = settings(max_examples=15)


@pytest.fixture(scope="module")
def torch():
    return pytest.importorskip("torch", reason="the oracle is PyTorch, of the torch extra")


def compare(torch, call, *hosts):
    """Results of a call in both packages, and gradients of a weighted sum of them."""
    leaves = [[package.tensor(h, requires_grad=True) for h in hosts] for package in (clnet, torch)]
    results = [call(p, *xs) for p, xs in zip((clnet, torch), leaves, strict=True)]
    pairs = list(zip(*(r if isinstance(r, tuple) else (r,) for r in results), strict=True))
    for ours, theirs in pairs:
        assert ours.shape == tuple(theirs.shape)
        np.testing.assert_allclose(
            ours.detach().numpy(), theirs.detach().numpy(), rtol=1e-4, atol=1e-5
        )
    if not pairs[0][1].requires_grad:
        return
    for side in (0, 1):
        loss, *others = ((pair[side] * pair[side]).sum() for pair in pairs)
        for term in others:
            loss = loss + term
        loss.backward()
    for ours, theirs in zip(*leaves, strict=True):
        np.testing.assert_allclose(ours.grad.numpy(), theirs.grad.numpy(), rtol=1e-4, atol=1e-5)


@DRAWN
@given(data=st.data())
@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions(torch, name, data):
    shape = data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))
    axes = st.sets(st.integers(-len(shape), -1), min_size=1)
    dim = tuple(sorted(data.draw(axes)))
    keepdim = name != "count_nonzero" and data.draw(st.booleans())
    order = data.draw(st.permutations(range(len(shape))))
    given = {"keepdim": True} if keepdim else {}
    if name in ("std", "var_mean"):
        given["correction"] = 0  # one element has a spread then: 0
    if name == "norm":
        given["p"] = 2  # PyTorch's default takes two axes at most
    host = np.random.default_rng(len(shape)).normal(size=shape).astype(np.float32)
    compare(torch, lambda m, x: getattr(m, name)(x.permute(order), dim=dim, **given), host)


@DRAWN
@given(shape=SIZES, data=st.data())
@pytest.mark.parametrize("name", ["cumsum", "cumprod"])
def test_scans(torch, name, shape, data):
    dim = data.draw(st.integers(-len(shape), len(shape) - 1))
    rng = np.random.default_rng(0)
    host = np.where(rng.random(shape) < 0.2, 0, rng.normal(size=shape)).astype(np.float32)
    compare(torch, lambda m, x: getattr(m, name)(x, dim), host)


@DRAWN
@given(data=st.data())
def test_einsum(torch, data):
    sizes = {label: data.draw(st.integers(0, 3), label=label) for label in "abcd"}
    labels = st.lists(st.sampled_from("abcd"), min_size=1, max_size=3).map("".join)
    terms = [data.draw(labels) for _ in range(data.draw(st.integers(1, 3)))]
    known = sorted(set("".join(terms)))
    result = "".join(data.draw(st.lists(st.sampled_from(known), unique=True)))
    rng = np.random.default_rng(0)
    hosts = [rng.normal(size=[sizes[c] for c in term]).astype(np.float32) for term in terms]
    equation = f"{','.join(terms)}->{result}"
    compare(torch, lambda m, *xs: m.einsum(equation, *xs), *hosts)


@DRAWN
@given(data=st.data())
@pytest.mark.parametrize("name", ["hypot", "atan2", "xlogy", "logaddexp", "fmax", "copysign"])
def test_broadcasts(torch, name, data):
    shape = data.draw(SIZES)
    shapes = [
        [1 if data.draw(st.booleans()) else n for n in shape][data.draw(st.integers(0, 1)) :]
        for _ in range(2)
    ]
    rng = np.random.default_rng(1)
    hosts = [rng.uniform(0.2, 2, s).astype(np.float32) for s in shapes]
    compare(torch, lambda m, x, y: getattr(m, name)(x, y), *hosts)
