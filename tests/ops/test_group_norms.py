"""Layer, group, instance, RMS and local response normalisation, channel dropout, distances."""

from __future__ import annotations

import numpy as np
import pytest

import clnet
from clnet.errors import ArgumentError, DtypeError, ShapeError
from clnet.kernels.grid import in_groups
from clnet.nn import functional as F
from clnet.ops import row_norm
from tests.opcase import NARROW, OpCase, every_check, normal, sliced
from tests.torchcase import torch_case

pytestmark = pytest.mark.device

IMAGES = normal(3, 6, 5, 4)


def affine(name: str, channels: int = 6, **settings) -> OpCase:
    """A norm of images with a weight and a bias by name."""

    def reference(x, weight, bias):
        torch = pytest.importorskip("torch", reason="the oracle is PyTorch, of the torch extra")
        function = getattr(torch.nn.functional, name)
        given = {"weight": torch.from_numpy(weight), "bias": torch.from_numpy(bias)}
        return function(torch.from_numpy(x), **given, **settings).numpy()

    shape = settings.get("normalized_shape", (channels,))
    return OpCase(
        lambda x, weight, bias: getattr(F, name)(x, weight=weight, bias=bias, **settings),
        reference,
        [IMAGES, normal(*shape), normal(*shape)],
        grad2=True,
        shapes=[  # PyTorch's instance_norm fails without examples
            [(n, *IMAGES.shape[1:]), shape, shape] for n in ((1,) if "inst" in name else (0, 1))
        ],
        layouts=(sliced,),
        k=20,
        name=name,
        label=f"affine, {settings}",
    )


CASES = [
    affine("layer_norm", normalized_shape=(5, 4)),
    affine("layer_norm", normalized_shape=(4,), eps=1e-3),
    torch_case(
        "layer_norm", [normal(7, 33)], (33,), k=33, shapes=[[(0, 33)]], grad2=True, dtypes=NARROW
    ),
    OpCase(
        lambda x, bias: F.layer_norm(x, (19,), bias=bias),
        lambda x, bias: (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5)
        + bias,
        [normal(5, 19), normal(19)],
        k=19,
        shapes=[[(0, 19), (19,)], [(1, 19), (19,)]],
        grad2=True,
        name="layer_norm",
        label="bias alone",
    ),
    affine("group_norm", num_groups=2),
    affine("group_norm", num_groups=6),
    torch_case("group_norm", [normal(3, 6, 5)], 3, k=10, shapes=[[(0, 6, 5)]]),
    affine("instance_norm"),
    OpCase(
        lambda x, w: F.rms_norm(x, (33,), w),
        lambda x, w: x / np.sqrt((x * x).mean(-1, keepdims=True) + 2.0**-23) * w,
        [normal(7, 33), normal(33)],
        k=33,
        shapes=[[(0, 33), (33,)], [(1, 33), (33,)]],
        grad2=True,
        name="rms_norm",
        label="weight",
    ),
    torch_case("rms_norm", [normal(3, 5, 4)], (5, 4), eps=1e-3, k=20, shapes=[]),
    torch_case("local_response_norm", [IMAGES], 3, 0.5, 0.6, 0.9, grad2=True, shapes=[]),
    torch_case("local_response_norm", [normal(3, 6, 5)], 4, 0.5, 0.75, shapes=[]),
    torch_case("cosine_similarity", [normal(5, 7), normal(5, 7)], 1, grad2=True, k=7, shapes=[]),
    torch_case("cosine_similarity", [normal(5, 1, 4), normal(3, 4)], -1, k=7, shapes=[]),
    torch_case("pairwise_distance", [normal(5, 7), normal(5, 7)], k=7, shapes=[], grad2=True),
    torch_case("pairwise_distance", [normal(5, 7), normal(7)], 3.0, keepdim=True, k=7, shapes=[]),
    torch_case("normalize", [normal(4, 5, 3)], grad2=True, k=5, shapes=[]),
    torch_case("normalize", [normal(4, 5, 3, dodge=(0,))], 1.0, -1, k=5, shapes=[]),
    torch_case(
        "bilinear", [normal(2, 4, 5), normal(2, 4, 3), normal(6, 5, 3), normal(6)], k=15,
        shapes=[[(0, 4, 5), (0, 4, 3), (6, 5, 3), (6,)]], grad2=True,
    ),
    torch_case("bilinear", [normal(5), normal(3), normal(6, 5, 3)], k=15, shapes=[]),
]  # fmt: skip

OTHERWISE_TESTED = {
    "dropout1d": "test_whole_channels_drop",
    "dropout2d": "test_whole_channels_drop",
    "dropout3d": "test_whole_channels_drop",
    "alpha_dropout": "test_alpha_dropout_keeps_mean_and_variance",
    "feature_alpha_dropout": "test_feature_alpha_dropout_drops_whole_channels",
}


@pytest.mark.parametrize(("case", "check"), every_check(CASES))
def test_op(case, check, device):
    check(case, device)


@pytest.mark.parametrize("scale", [1e-4, 1e4])
def test_statistics_far_from_zero(scale):
    """A mean a thousand times the deviation costs no digits of the variance."""
    x = np.random.default_rng(0).standard_normal((4, 1000)) * scale + 1000 * scale
    y = F.layer_norm(clnet.tensor(x.astype(np.float32)), (1000,), eps=0.0).numpy()
    rounded = x.astype(np.float32).astype(np.float64)
    centred = rounded - rounded.mean(1, keepdims=True)
    np.testing.assert_allclose(y, centred / rounded.std(1, keepdims=True), atol=1e-3)


def test_long_rows_give_the_same(monkeypatch):
    given = [np.random.default_rng(i).standard_normal(s) for i, s in enumerate([(3, 70), 70, 70])]

    def gradients():
        x, w, b = (clnet.tensor(v.astype(np.float32)).requires_grad_() for v in given)
        F.layer_norm(x, (70,), w, b).square().sum().backward()
        return [a.grad.numpy() for a in (x, w, b)]

    whole = gradients()
    monkeypatch.setattr(row_norm, "_LONGEST_ROW", 16)
    for one, other in zip(whole, gradients(), strict=True):
        assert not np.array_equal(one, other)  # summed in another order
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4)


def test_rms_norm_of_16_bits_has_the_eps_of_32():
    x = clnet.full((1, 8), 0.01).bfloat16()  # whose square is far below bfloat16's spacing
    assert F.rms_norm(x, (8,)).float().numpy().max() == 1


def test_half_rms_norm_accumulates_in_float():
    x = clnet.full((2, 64), 300.0).half()  # the square overflows a half
    np.testing.assert_allclose(F.rms_norm(x, (64,)).numpy().astype(float), 1.0, rtol=2e-3)


def test_instance_norm_updates_running_statistics():
    torch = pytest.importorskip("torch", reason="the oracle is PyTorch, of the torch extra")
    x = np.random.default_rng(1).standard_normal((3, 4, 6)).astype(np.float32)
    ours = [clnet.zeros(4), clnet.ones(4)]
    theirs = [torch.zeros(4), torch.ones(4)]
    F.instance_norm(clnet.tensor(x), *ours, momentum=0.3)
    torch.nn.functional.instance_norm(torch.from_numpy(x), *theirs, momentum=0.3)
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-5, atol=1e-6)
    y = F.instance_norm(clnet.tensor(x), *ours, use_input_stats=False).numpy()
    z = torch.nn.functional.instance_norm(torch.from_numpy(x), *theirs, use_input_stats=False)
    np.testing.assert_allclose(y, z.numpy(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("name", "shape"),
    [("dropout1d", (40, 50, 3)), ("dropout2d", (40, 50, 3, 2)), ("dropout3d", (40, 50, 1, 2, 2)),
     ("dropout1d", (50, 3)), ("dropout2d", (40, 50, 3)), ("dropout3d", (500, 1, 2, 2)),
     ("dropout2d", (40, 50)), ("dropout2d", (40, 50, 2, 1, 2)),
     ("dropout3d", (500, 1, 2, 1, 2, 2))],
)  # fmt: skip
def test_whole_channels_drop(name, shape):
    x = clnet.ones(*shape, requires_grad=True)
    y = getattr(F, name)(x, 0.25)
    channels = shape[:2] if len(shape) > 3 or name == "dropout2d" or shape[0] == 40 else shape[:1]
    channels = shape[:1] if name == "dropout3d" and len(shape) != 5 else channels
    rows = y.detach().numpy().reshape(*channels, -1)
    assert (rows == rows[..., :1]).all()
    assert set(np.unique(rows)) <= {0, np.float32(4 / 3)}
    assert 0.6 < (rows > 0).mean() < 0.9
    y.backward(clnet.ones(*shape))
    np.testing.assert_array_equal(x.grad.numpy(), y.detach().numpy())
    assert getattr(F, name)(x, 0.25, training=False) is x
    assert not getattr(F, name)(x, 1.0).detach().numpy().any()


def test_alpha_dropout_keeps_mean_and_variance():
    clnet.manual_seed(3)
    x = clnet.randn(200, 500)
    y = F.alpha_dropout(x, 0.3, training=True).numpy()
    assert abs(y.mean()) < 0.02
    assert abs(y.std() - 1) < 0.02
    values, counts = np.unique(y, return_counts=True)
    assert abs(counts.max() / y.size - 0.3) < 0.01, values[counts.argmax()]
    assert F.alpha_dropout(x) is x
    assert not F.alpha_dropout(x, 1.0, training=True).numpy().any()


def test_feature_alpha_dropout_drops_whole_channels():
    y = F.feature_alpha_dropout(clnet.ones(30, 40, 3), 0.4, training=True).numpy()
    assert (y == y[..., :1]).all()
    assert len(np.unique(y)) == 2
    assert 0.3 < (y == y.min()).mean() < 0.5


def test_errors_say_what_is_wrong():
    x = clnet.ones(2, 4, 3)
    with pytest.raises(ShapeError, match=r"^layer_norm: x ends in normalized_shape; got x=\(2, 4"):
        F.layer_norm(x, (4,))
    with pytest.raises(ShapeError, match=r"^layer_norm: weight has the normalized_shape; got"):
        F.layer_norm(x, (3,), clnet.ones(4))
    with pytest.raises(ShapeError, match=r"^rms_norm: x ends in normalized_shape"):
        F.rms_norm(x, ())
    with pytest.raises(DtypeError, match=r"^layer_norm: operands are floating"):
        F.layer_norm(x.long(), (3,))
    with pytest.raises(ShapeError, match=r"^group_norm: num_groups divides the channels"):
        F.group_norm(x, 3)
    with pytest.raises(ShapeError, match=r"^group_norm: weight has one element a channel"):
        F.group_norm(x, 2, clnet.ones(2))
    with pytest.raises(ShapeError, match=r"^group_norm: x has a batch and a channel axis"):
        F.group_norm(clnet.ones(3), 1)
    with pytest.raises(ArgumentError, match=r"^instance_norm: a channel of an example has more"):
        F.instance_norm(clnet.ones(2, 3, 1))
    with pytest.raises(ShapeError, match=r"^local_response_norm: x is \(n, channels, ...\)"):
        F.local_response_norm(clnet.ones(2, 3), 2)
    with pytest.raises(ArgumentError, match=r"^local_response_norm: size is 1 or more"):
        F.local_response_norm(x, 0)
    with pytest.raises(ShapeError, match=r"^dropout2d: x has channels"):
        F.dropout2d(x[0, 0, 0])
    with pytest.raises(ShapeError, match=r"^dropout1d: x has 2 or 3 axes"):
        F.dropout1d(clnet.ones(1, 2, 3, 4))
    with pytest.raises(ArgumentError, match=r"^dropout1d: p lies in \[0, 1\]"):
        F.dropout1d(x, 1.5)
    with pytest.raises(ShapeError, match=r"^feature_alpha_dropout: x has a batch"):
        F.feature_alpha_dropout(clnet.ones(2), training=True)
    with pytest.raises(ShapeError, match=r"^bilinear: x1 and x2 end in the weight's last two"):
        F.bilinear(clnet.ones(2, 3), clnet.ones(2, 3), clnet.ones(1, 3, 4))
    with pytest.raises(ShapeError, match=r"^bilinear: the bias has one number for each output"):
        F.bilinear(clnet.ones(2, 3), clnet.ones(2, 4), clnet.ones(1, 3, 4), clnet.ones(2))
    with pytest.raises(ShapeError, match=r"^cosine_similarity: sizes differ"):
        F.cosine_similarity(clnet.ones(2, 3), clnet.ones(2, 4))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize(
    "call",
    [
        lambda x: F.layer_norm(x, (33,)),
        lambda x: F.layer_norm(x, (33,), clnet.full((33,), 0.5), clnet.ones(33)),
        lambda x: F.group_norm(x, 2),
        lambda x: F.instance_norm(x),
        lambda x: F.rms_norm(x, (33,)),
        lambda x: F.rms_norm(x, (33,), clnet.full((33,), 0.5)),
    ],
    ids=["layer", "layer affine", "group", "instance", "rms", "rms affine"],
)
def test_norms_of_16_bits_compute_in_32(call, dtype):
    kind = getattr(clnet, dtype)
    x = clnet.randn(2, 4, 33).to(dtype=kind).requires_grad_()
    y = call(x)
    assert y.dtype is kind
    expected = call(x.detach().float()).numpy()
    np.testing.assert_allclose(
        y.detach().float().numpy(), expected, atol=4 * kind.eps, rtol=kind.eps
    )
    y.float().sum().backward()
    assert x.grad.dtype is kind


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_dropouts_keep_the_dtype(dtype):
    kind = getattr(clnet, dtype)
    x = clnet.ones(30, 40, 3).to(dtype=kind)
    for y in (F.dropout1d(x, 0.5), F.alpha_dropout(x, 0.5, True), F.rrelu(-x, training=True)):
        assert y.dtype is kind
        assert len(np.unique(y.float().numpy())) > 1


def test_similarity_of_floats_and_whole_numbers():
    found = F.cosine_similarity(clnet.ones(1, 2), clnet.tensor([[3, 4]]))
    assert found.item() == pytest.approx(0.7 * 2**0.5)


@pytest.mark.parametrize(
    ("shape", "op", "launches"),
    [
        pytest.param((3, 6, 5, 4), "group_norm_backward", 2, id="an item has a group"),
        pytest.param((3, 6, 2, 2), "group_norm_sums", 3, id="short channels"),
    ],
)
def test_gradients_of_groups_are_few_passes(shape, op, launches):
    if in_groups(clnet.device().traits):
        op, launches = "group_norm_sums", 3
    x, weight = (clnet.ones(*size, requires_grad=True) for size in (shape, (6,)))
    y = F.group_norm(x, 3, weight, clnet.zeros(6, requires_grad=True))
    with clnet.profile() as seen:
        y.sum().backward()
    ops = [c.op for c in seen.commands if c.kind == "kernel"]
    assert ops.count(op) == launches, ops
    assert len(ops) <= 7, ops  # and of the sum, and the input's


def test_large_groups_in_items():
    """Parts of groups, ends of vectors, and as many groups as items take several of."""
    torch = pytest.importorskip("torch", reason="the oracle is PyTorch, of the torch extra")
    x = np.random.default_rng(1).standard_normal((20, 9, 59, 31)).astype(np.float32) + 100
    weight = np.linspace(-1, 1, 9, dtype=np.float32)
    want = [torch.tensor(v, dtype=torch.float64, requires_grad=True) for v in (x, weight)]
    expected = torch.nn.functional.group_norm(want[0], 3, want[1])
    found = [clnet.tensor(v, requires_grad=True) for v in (x, weight)]
    y = F.group_norm(found[0], 3, found[1])
    np.testing.assert_allclose(y.detach().numpy(), expected.detach().numpy(), atol=4e-5)
    slope = np.cos(x * 50)
    expected.backward(torch.tensor(slope, dtype=torch.float64))
    y.backward(clnet.tensor(slope))
    for ours, theirs, atol in zip(found, want, (1e-5, 2e-2), strict=True):
        np.testing.assert_allclose(ours.grad.numpy(), theirs.grad.numpy(), atol=atol)
