"""What layers do that no comparison with PyTorch shows: replays, modes, and errors."""

from __future__ import annotations

import copy
import sys

import numpy as np
import pytest

import clnet
from clnet import nn
from clnet.errors import ArgumentError, BoundsError, ShapeError


def images(n=4, c=3, seed=0):
    return clnet.tensor(np.random.default_rng(seed).standard_normal((n, c, 5, 5)).astype("float32"))


@pytest.mark.parametrize("momentum", [0.1, None])
def test_a_replay_advances_the_running_averages(momentum):
    eager, traced = (nn.BatchNorm2d(3, momentum=momentum) for _ in range(2))
    with clnet.no_grad():
        step = clnet.compile(lambda x: traced(x))
        for seed in range(3):
            expected = eager(images(seed=seed))
            assert np.array_equal(np.asarray(step(images(seed=seed))), np.asarray(expected))
    assert step.num_traces == 1
    assert traced.num_batches_tracked.item() == 3
    for name, value in eager.state_dict().items():
        assert np.array_equal(np.asarray(traced.state_dict()[name]), np.asarray(value)), name


class Launched:
    """The ops of all launches."""

    profiling = False

    def __init__(self):
        self.ops = []

    def command(self, record):
        self.ops.append(record.op)


def apart(layer, x):
    """What a batch norm does with ops of their own, as where an op is looked at by one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys.modules["clnet.ops.norm"], "moves_beside", lambda *operands: False)
        return layer(x)


@pytest.mark.parametrize("momentum", [0.1, None])
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
@pytest.mark.parametrize("shape", [(6, 3), (300, 40), (4, 3, 5, 5), (2, 3, 70, 71)], ids=str)
def test_running_averages_are_moved_by_whoever_finds_the_statistics(shape, dtype, momentum):
    """The bits of ops of their own, and no launch beside the norm's."""
    dtype = getattr(clnet, dtype)
    kind = nn.BatchNorm1d if len(shape) == 2 else nn.BatchNorm2d
    one, other = (kind(shape[1], momentum=momentum, dtype=dtype) for _ in range(2))
    if dtype is clnet.bfloat16:
        one.float(), other.float()  # as networks of mixed precision have them
    for seed in range(3):
        x = clnet.tensor(np.random.default_rng(seed).standard_normal(shape)).to(dtype)
        with clnet.device().queue.observe(launched := Launched()):
            y = one(x)
        assert np.array_equal(y.detach().float().numpy(), apart(other, x).detach().float().numpy())
    for name, value in other.state_dict().items():
        assert np.array_equal(one.state_dict()[name].numpy(), value.numpy()), name
    assert one.num_batches_tracked.item() == 3
    beside = {"to"} | ({"counted"} if momentum is None else set())
    assert {*launched.ops} - beside == {"batch_norm"}
    assert launched.ops.count("counted") == (momentum is None)


def test_running_averages_are_seen_through_whatever_holds_them():
    layer, x = nn.BatchNorm2d(3), images()
    state, count = layer.state_dict(), layer.num_batches_tracked.view(1)
    copied, versions = copy.deepcopy(layer), [b._version for b in layer.buffers()]
    layer(x)
    assert count.tolist() == [1]
    assert state["num_batches_tracked"].item() == 1
    assert state["running_mean"].tolist() == layer.running_mean.tolist() != [0.0] * 3
    assert copied.num_batches_tracked.item() == 0
    assert copied.running_var.tolist() == [1.0] * 3
    assert [b._version for b in layer.buffers()] == [v + 1 for v in versions]


def test_a_gradient_of_a_gradient_goes_through_an_older_batch():
    """Running averages are no operands that a later batch changes."""

    def slope(run):
        layer, x = nn.BatchNorm2d(3), images().requires_grad_()
        y = run(layer, x)
        run(layer, images(seed=1))
        (first,) = clnet.autograd.grad((y**3).sum(), x, create_graph=True)
        (second,) = clnet.autograd.grad((first * images(seed=2)).sum(), x)
        return first.detach().numpy(), second.numpy()

    for ours, theirs in zip(slope(lambda layer, x: layer(x)), slope(apart), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_running_averages_of_another_kind_are_moved_apart():
    """Of another dtype, in one memory, or with steps between them."""
    x = images()
    both, steps, halves = clnet.zeros(6), clnet.zeros(6), clnet.zeros(3, dtype=clnet.float16)
    expected = nn.BatchNorm2d(3)
    expected(x)
    for mean, var in ((both[:3], both[3:]), (steps[::2], steps[1::2]), (halves, clnet.ones(3))):
        var.fill_(1)
        clnet.nn.functional.batch_norm(x, mean, var, training=True)
        np.testing.assert_allclose(mean.numpy(), expected.running_mean.numpy(), rtol=2e-3)
        np.testing.assert_allclose(var.numpy(), expected.running_var.numpy(), rtol=2e-3)


def test_a_change_of_mode_is_traced_anew():
    norm = nn.BatchNorm2d(3)
    with clnet.no_grad():
        step = clnet.compile(lambda x: norm(x))
        trained = np.asarray(step(images()))
        norm.eval()
        evaluated = np.asarray(step(images()))
    assert step.num_traces == 2
    assert norm.num_batches_tracked.item() == 1
    assert not np.allclose(trained, evaluated, atol=1e-2)


def test_running_averages_stay_where_tracking_is_switched_off():
    norm, x = nn.BatchNorm2d(3), images()
    expected = nn.BatchNorm2d(3)(x)
    norm.track_running_stats = False
    assert np.array_equal(norm(x).detach().numpy(), expected.detach().numpy())
    assert norm.running_mean.tolist() == [0.0] * 3
    assert norm.num_batches_tracked.item() == 0


def test_running_averages_are_forgotten():
    norm = nn.BatchNorm2d(3)
    norm(images())
    assert norm.running_mean.tolist() != [0.0] * 3
    norm.reset_running_stats()
    assert norm.running_mean.tolist() == [0.0] * 3
    assert norm.running_var.tolist() == [1.0] * 3
    assert norm.num_batches_tracked.item() == 0


def test_dropout_drops_in_training_alone():
    clnet.manual_seed(0)
    x = clnet.ones(100, 100, requires_grad=True)
    layer = nn.Dropout(0.25)
    y = layer(x)
    values = np.asarray(y.detach())
    assert set(np.unique(values)) == {0.0, np.float32(1 / 0.75)}
    assert abs((values == 0).mean() - 0.25) < 5 * np.sqrt(0.25 * 0.75 / x.numel())
    y.backward(clnet.ones(100, 100))
    assert np.array_equal(np.asarray(x.grad), values)  # the same elements are dropped
    assert layer.eval()(x) is x


def test_dropout_differs_from_call_to_call_also_in_a_replay():
    layer = nn.Dropout(0.5)
    step = clnet.compile(lambda x: layer(x))
    x = clnet.ones(64)
    assert step(x).tolist() != step(x).tolist()
    assert step.num_traces == 1


LOSSES = [
    nn.CrossEntropyLoss,
    nn.NLLLoss,
    nn.MSELoss,
    nn.L1Loss,
    nn.SmoothL1Loss,
    nn.HuberLoss,
    nn.BCELoss,
    nn.BCEWithLogitsLoss,
]


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.__name__)
def test_a_reduction_that_does_not_exist(loss):
    message = f"{loss.__name__}: reduction is 'mean', 'sum' or 'none'; got reduction='max'"
    with pytest.raises(ArgumentError, match=message):
        loss(reduction="max")


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (
            lambda: nn.Conv2d(3, 4, 3, groups=2),
            ArgumentError,
            "Conv2d: groups divides the channels",
        ),
        (
            lambda: nn.Conv2d(3, 4, 3, padding_mode="mirror"),
            ArgumentError,
            "padding_mode is one of zeros, reflect, replicate, circular; got padding_mode='mirror'",
        ),
        (
            lambda: nn.Conv2d(3, 4, 3, padding="around"),
            ArgumentError,
            r"Conv2d: padding is a number, one for each axis, 'same' or 'valid'; got padding",
        ),
        (
            lambda: nn.Conv2d(3, 4, 3, stride=2, padding="same"),
            ArgumentError,
            r"padding 'same' needs stride 1; got stride=\(2, 2\)",
        ),
        (
            lambda: nn.Conv2d(3, 4, (3, 3, 3)),
            ShapeError,
            r"kernel_size is an int or 2 ints; got value=\(3, 3, 3\)",
        ),
        (lambda: nn.Dropout(1.5), ArgumentError, r"Dropout: p lies in \[0, 1\]; got p=1.5"),
        (
            lambda: nn.Embedding(5, 2, padding_idx=5),
            BoundsError,
            "padding_idx is one of the rows; got padding_idx=5, num_embeddings=5",
        ),
        (lambda: nn.GELU("erf")(clnet.ones(1)), ArgumentError, "approximate is 'none' or 'tanh'"),
    ],
)
def test_a_setting_that_does_not_exist(make, error, message):
    with pytest.raises(error, match=message):
        make()


@pytest.mark.parametrize(
    ("layer", "shape", "message"),
    [
        (nn.Linear(3, 4), (2, 5), r"linear: .*x=\(2, 5\), weight=\(4, 3\) \(in Linear\)"),
        (
            nn.Sequential(nn.ReLU(), nn.Conv2d(3, 4, 3)),
            (2, 5, 8, 8),
            r"expects 3 input channels but x has 5; .* \(in Sequential.1, Conv2d\)",
        ),
        (nn.BatchNorm2d(3), (2, 4, 5, 5), r"4 axes, and 3 channels; got x=\(2, 4, 5, 5\)"),
        (nn.BatchNorm2d(3), (2, 3), r"BatchNorm2d: x has 4 axes, and 3 channels; got x=\(2, 3\)"),
        (nn.BatchNorm1d(3), (2, 3, 5, 5), "BatchNorm1d: x has 2 or 3 axes, and 3 channels"),
    ],
    ids=["Linear", "Conv2d", "BatchNorm2d channels", "BatchNorm2d axes", "BatchNorm1d axes"],
)
def test_an_input_that_does_not_fit(layer, shape, message):
    with pytest.raises(ShapeError, match=message):
        layer(clnet.zeros(shape))


def test_one_value_a_channel_leaves_the_running_averages_alone():
    norm = nn.BatchNorm1d(3)
    with pytest.raises(ArgumentError, match="training needs more than one value a channel"):
        norm(clnet.ones(1, 3))
    assert norm.num_batches_tracked.item() == 0
    assert norm.running_mean.tolist() == [0.0] * 3


def test_classes_that_do_not_fit():
    with pytest.raises(ShapeError, match=r"cross_entropy: .* \(in CrossEntropyLoss\)"):
        nn.CrossEntropyLoss()(clnet.zeros(4, 3), clnet.zeros(5, dtype=clnet.int64))


def test_a_layer_is_made_on_a_device_and_in_a_dtype(device):
    if not device.traits.float64:
        pytest.skip("the device has no double precision")
    layer = nn.Conv2d(2, 2, 1, device=device, dtype=clnet.float64)
    assert layer.weight.device is device
    assert layer.bias.dtype is clnet.float64
    assert nn.BatchNorm2d(2, device=device, dtype=clnet.float64).running_var.device is device


def test_unflatten_splits_an_axis():
    layer = nn.Unflatten(1, (2, -1))
    assert layer(clnet.zeros(3, 6, 2)).shape == (3, 2, 3, 2)
    assert repr(layer) == "Unflatten(dim=1, unflattened_size=(2, -1))"


def test_fractional_pooling_layers_call_their_ops():
    flat = nn.FractionalMaxPool2d(2, output_ratio=0.5, return_indices=True)
    y, index = flat(images())
    assert y.shape == index.shape == (4, 3, 2, 2)
    samples = clnet.rand(4, 1, 3)
    deep = nn.FractionalMaxPool3d(2, (2, 3, 4), _random_samples=samples)
    y = deep(images().unsqueeze(1))
    expected = nn.functional.fractional_max_pool3d(
        images().unsqueeze(1), 2, (2, 3, 4), _random_samples=samples
    )
    assert np.array_equal(y.numpy(), expected.numpy())
    assert repr(deep) == "FractionalMaxPool3d(kernel_size=2, output_size=(2, 3, 4))"
    assert repr(flat) == "FractionalMaxPool2d(kernel_size=2, output_ratio=0.5)"
