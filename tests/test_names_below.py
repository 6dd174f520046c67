"""Names that PyTorch has beside its functions: masked reductions, copies of views, native norms."""

from __future__ import annotations

import numpy as np
import pytest

import clnet
from clnet import masked
from clnet.errors import ArgumentError, BoundsError, ShapeError
from clnet.nn import grad as slopes
from clnet.utils import deterministic
from tests.answers import torch

pytestmark = pytest.mark.device

RNG = np.random.default_rng(3)
X = RNG.normal(size=(3, 4, 5)).astype("float32")
MASK = RNG.random((4, 5)) > 0.5
MASK[1] = False


def alike(ours, theirs):
    """Values, shapes and dtypes."""
    ours, theirs = ours.detach().numpy(), theirs.detach().numpy()
    assert ours.dtype == theirs.dtype
    np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


def both(name, *args, x=X, mask=MASK, **given):
    """What each side gives for a masked op; with its gradient, if there is one."""
    peer = torch.masked
    found = []
    for side, op in ((clnet, getattr(masked, name)), (torch, getattr(peer, name))):
        a = side.tensor(x)
        a.requires_grad_(a.is_floating_point())
        named = {} if mask is None else {"mask": side.tensor(mask)}
        y = op(a, *args, **named, **given)
        if y.requires_grad:
            (y.nan_to_num(0, 0, 0) ** 2).sum().backward()
        found.append((y, a.grad))
    (ours, slope), (theirs, other) = found
    alike(ours, theirs)
    if other is not None and np.isfinite(other.numpy()).all():
        alike(slope, other)


REDUCTIONS = "sum prod amax amin mean logsumexp norm var std".split()


@pytest.mark.parametrize("name", REDUCTIONS)
def test_a_masked_reduction_is_pytorchs(device, name):
    order = (2.0,) if name == "norm" else ()
    both(name, *order, (0, 2))
    both(name, *order, 1, keepdim=True)
    both(name, *order, mask=None)


@pytest.mark.parametrize(
    ("name", "args"),
    [
        *(("softmax", (1,)), ("log_softmax", (2,)), ("softmin", (0,)), ("normalize", (3.0, 2))),
        *(
            ("cumsum", (1,)),
            ("cumprod", (2,)),
            ("argmax", (1,)),
            ("argmin", (2,)),
            ("median", (0,)),
        ),
    ],
)
def test_a_masked_normalisation_is_pytorchs(device, name, args):
    both(name, *args)


def test_masked_whole_numbers_are_pytorchs(device):
    whole = (X * 3).astype("int32")
    for name in ("sum", "prod", "amax", "amin", "var"):
        both(name, 0, x=whole)
    both("median", 1, x=whole, mask=None)
    with pytest.raises(ValueError, match=r"one is named in each row.*\.float\(\)"):
        masked.median(clnet.tensor(whole), 2, mask=clnet.tensor(MASK))
    with pytest.raises(ValueError, match="floating or complex"):
        masked.mean(clnet.tensor(whole))
    with pytest.raises(NotImplementedError, match="no number"):
        masked.amax(clnet.tensor(MASK), mask=clnet.tensor(MASK))


def test_masked_logaddexp_leaves_out_what_is_not_named(device):
    a, b, m = clnet.tensor(X), clnet.tensor(X[::-1].copy()), clnet.tensor(MASK)
    y = masked.logaddexp(a, b, input_mask=m)
    want = np.logaddexp(np.where(MASK, X, -np.inf), X[::-1])
    np.testing.assert_allclose(y.numpy(), want, rtol=1e-5)


def test_masked_ops_refuse_what_does_not_fit(device):
    x = clnet.tensor(X)
    with pytest.raises(BoundsError, match="at most the input's axes"):
        masked.sum(x[0], mask=x > 0)
    with pytest.raises(ArgumentError, match="an axis comes once"):
        masked.sum(x, (0, -3))
    with pytest.raises(ArgumentError, match="strided"):
        masked.sum(x[0].to_sparse())
    with pytest.raises(ArgumentError, match="unbiased or correction"):
        masked.var(x, 0, True, correction=1)


VIEWS = {
    "alias": (),
    "as_strided": ((2, 2), (1, 3), 1),
    "diagonal": (1, 0, 2),
    "expand": ((2, 3, 4, 5),),
    "permute": ((2, 0, 1),),
    "select": (1, 2),
    "slice": (2, 1, None, 2),
    "split": (2, 1),
    "split_with_sizes": ((1, 3), 1),
    "squeeze": (),
    "transpose": (0, 2),
    "unbind": (1,),
    "unfold": (2, 3, 2),
    "unsqueeze": (1,),
    "view": ((12, 5),),
}


@pytest.mark.parametrize("name", VIEWS)
def test_a_copy_of_a_view_is_dense_and_apart(device, name):
    x, w = clnet.tensor(X, requires_grad=True), torch.tensor(X, requires_grad=True)
    ours, theirs = (
        getattr(s, f"{name}_copy")(a, *VIEWS[name]) for s, a in ((clnet, x), (torch, w))
    )
    ours, theirs = ((y if isinstance(y, tuple) else (y,)) for y in (ours, theirs))
    for a, b in zip(ours, theirs, strict=True):
        alike(a, b)
        assert tuple(a.stride()) == b.stride()
        assert a.data_ptr() != x.data_ptr()
    sum((a**2).sum() for a in ours).backward()
    sum((b**2).sum() for b in theirs).backward()
    alike(x.grad, w.grad)


def test_a_copy_of_a_view_fills_out(device):
    x, out = clnet.tensor(X), clnet.empty(0)
    clnet.permute_copy(x, (1, 0, 2), out=out)
    np.testing.assert_array_equal(out.numpy(), X.transpose(1, 0, 2))
    parts = [clnet.empty(0) for _ in range(3)]
    assert clnet.unbind_copy(x, out=parts) is None
    np.testing.assert_array_equal(parts[2].numpy(), X[2])
    with pytest.raises(ShapeError):
        clnet.permute_copy(x, (1, 0, 2), out=clnet.empty(3))


@pytest.mark.parametrize("axes", [1, 2, 3])
def test_gradients_of_convolutions_on_their_own(device, axes):
    x, w = RNG.normal(size=(2, 4, *(6, 5, 4)[:axes])), RNG.normal(size=(6, 2, *(3, 2, 2)[:axes]))
    how = (2, 1, 1, 2)
    g = getattr(torch.nn.functional, f"conv{axes}d")(torch.tensor(x), torch.tensor(w), None, *how)
    ours, theirs = [], []
    for side, module, found in ((clnet, slopes, ours), (torch, torch.nn.grad, theirs)):
        a, b, c = (side.tensor(n) for n in (x, w, g.numpy()))
        found.append(getattr(module, f"conv{axes}d_input")(x.shape, b, c, *how))
        found.append(getattr(module, f"conv{axes}d_weight")(a, w.shape, c, *how))
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-10, atol=1e-12)
        assert not a.requires_grad


def test_a_gradient_on_its_own_can_be_differentiated(device):
    w = clnet.ones(1, 1, 2, requires_grad=True)
    slopes.conv1d_input((1, 1, 4), w, clnet.ones(1, 1, 3)).sum().backward()
    np.testing.assert_array_equal(w.grad.numpy(), [[[3, 3]]])


def test_native_norms_give_their_statistics(device):
    weight, zeros, ones = X[0, :, 0], np.zeros(4, "float32"), np.ones(4, "float32")
    calls = {
        "native_layer_norm": lambda t: (t(X), (4, 5), None, None, 1e-5),
        "native_group_norm": lambda t: (t(X), t(weight), None, 3, 4, 5, 2, 1e-5),
        "native_batch_norm": lambda t: (t(X), t(weight), None, None, None, True, 0.1, 1e-5),
    }
    for name, args in calls.items():
        results = (getattr(s, name)(*args(s.tensor)) for s in (clnet, torch))
        for a, b in zip(*results, strict=True):
            alike(a, b)
    settled = clnet.tensor(zeros), clnet.tensor(ones), False, 0.1, 1e-5
    y, mean, _ = clnet.native_batch_norm(clnet.tensor(X), None, None, *settled)
    np.testing.assert_allclose(y.numpy(), X, rtol=1e-4)
    assert mean.shape == (0,)


def test_ops_below_functions(device):
    x = clnet.tensor(X)
    y, kept = clnet.native_dropout(x, 0.5, True)
    np.testing.assert_allclose(y.numpy(), np.where(kept.numpy(), 2 * X, 0), rtol=1e-6)
    y, kept = clnet.native_dropout(x, 0.5, False)
    assert bool(kept.all())
    assert bool((y == x).all())
    assert clnet.constant_pad_nd(x, (1, 2), 7.0)[0, 0].tolist()[-2:] == [7.0, 7.0]
    lengths = clnet.tensor([1, 2])
    assert clnet._segment_reduce(clnet.ones(3), "sum", lengths=lengths, axis=0).tolist() == [1, 2]
    image, grid = RNG.normal(size=(1, 1, 3, 3)), RNG.uniform(-1.2, 1.2, (1, 2, 2, 2))
    ours, theirs = (
        s.grid_sampler(s.tensor(image), s.tensor(grid), 0, 2, True) for s in (clnet, torch)
    )
    alike(ours, theirs)
    assert deterministic.fill_uninitialized_memory


def test_what_is_no_tensor_may_be_multiplied_from_the_left(device):
    class Left:
        def __matmul__(self, other):
            return NotImplemented

    with pytest.raises(TypeError):
        Left() @ clnet.ones(2, 2)
    assert clnet.Tensor.__rmatmul__(clnet.ones(2), clnet.full((2,), 2.0)).item() == 4
