"""Modules made to compute in 8 bits: close to float32, with what was asked left out."""

from __future__ import annotations

import numpy as np
import pytest

import clnet
from clnet import nn
from clnet.data import DataLoader, Digits, Normalize
from clnet.errors import ArgumentError
from clnet.onnx.filters import _as_read, _largest_sum, quantised_filters
from clnet.onnx.images import Layer

pytest.importorskip("onnx", reason="the package onnx is not installed: pip install 'clnet[onnx]'")

RNG = np.random.default_rng(3)


def normals(*shape):
    return RNG.normal(size=shape).astype(np.float32)


class Residual(nn.Module):
    """Batch norms, a sum, a pool, a depthwise convolution, a dense layer."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, 10, 3, padding=1), nn.BatchNorm2d(10), nn.ReLU(), nn.MaxPool2d(2)
        )
        self.conv1, self.bn1 = nn.Conv2d(10, 10, 3, padding=1, bias=False), nn.BatchNorm2d(10)
        self.conv2, self.bn2 = nn.Conv2d(10, 10, 1), nn.BatchNorm2d(10)
        self.depthwise = nn.Conv2d(10, 10, 3, groups=10)
        self.fc = nn.Linear(10, 7)

    def forward(self, x):
        x = self.stem(x)
        y = nn.functional.relu(self.bn1(self.conv1(x)))
        y = nn.functional.relu(self.bn2(self.conv2(y)) + x)
        return self.fc(self.depthwise(y).mean((2, 3)))


def trained(model, *shape):
    """Running statistics that are something, and evaluation."""
    model.train()
    with clnet.no_grad():
        for _ in range(20):
            model(clnet.as_tensor(normals(8, *shape) + 0.5))
    return model.eval()


def layers(module):
    """The layers on the integer kernels, and the labels of all other steps."""
    steps = module._program.steps
    found = [s.attributes["does"] for s in steps if isinstance(s.attributes.get("does"), Layer)]
    return found, [s.label.split()[0] for s in steps if not s.label.startswith("integer")]


@pytest.mark.device
@pytest.mark.parametrize("reduce_range", [True, False])
def test_a_network_is_close_to_float32(reduce_range):
    """Within hundredths of the outputs' spread, alike compiled and at another batch size."""
    clnet.manual_seed(0)
    model = trained(Residual(), 3, 12, 14)
    batches = [normals(8, 3, 12, 14) + 0.5 for _ in range(4)]
    made = clnet.quantize(
        model, [(b, np.zeros(8)) for b in batches], num_batches=3, reduce_range=reduce_range
    )
    found, others = layers(made)
    assert len(found) == 5
    assert others == ["ReduceMean"]
    x = clnet.as_tensor(normals(5, 3, 12, 14) + 0.5)
    with clnet.no_grad():
        wanted, eager = model(x).numpy(), made(x).numpy()
        compiled = clnet.compile(made)(x).numpy()
    np.testing.assert_array_equal(compiled, eager)
    assert 0 < np.abs(eager - wanted).max() < 0.06 * wanted.std() * 4


@pytest.mark.device
def test_layers_are_left_out_by_name_and_the_file_gives_the_same(tmp_path):
    clnet.manual_seed(1)
    model = trained(Residual(), 3, 8, 8)
    batches = [normals(4, 3, 8, 8)]
    made = clnet.quantize(
        model, batches, exclude=["conv2", "fc"], path=tmp_path / "q.onnx", per_channel=False
    )
    found, others = layers(made)
    assert len(found) == 3
    assert others.count("Conv") == 1
    assert others[-1] == "Gemm"
    for does in found:
        assert len(np.unique(does.factor)) == 1
    x = clnet.as_tensor(batches[0])
    read = clnet.onnx.load(tmp_path / "q.onnx")
    with clnet.no_grad():
        np.testing.assert_array_equal(read(x).numpy(), made(x).numpy())


@pytest.mark.device
def test_dense_layers_of_several_axes_and_inputs():
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(9, 6), nn.Linear(5, 6, bias=False)

        def forward(self, x, y):
            return nn.functional.gelu(self.a(x)) + self.b(y)

    model = Two().eval()
    x, y = normals(3, 4, 9), normals(3, 4, 5)
    made = clnet.quantize(model, [(x, y)])
    assert len(layers(made)[0]) == 2
    given = clnet.as_tensor(x), clnet.as_tensor(y)
    wanted = model(*given).detach().numpy()
    assert np.abs(made(*given).numpy() - wanted).max() < 0.05 * np.abs(wanted).max()


@pytest.mark.device
def test_a_model_of_onnx_is_quantised_by_its_inputs():
    """An imported model of two inputs, the second of which the first layer does not read."""
    axes = {"x": {0: "n"}, "y": {0: "n"}}
    layer = nn.Linear(6, 4)
    proto = clnet.onnx.export(
        lambda x, y: nn.functional.relu(layer(x)) + y,
        (clnet.zeros(2, 6), clnet.zeros(2, 4)),
        input_names=["x", "y"],
        dynamic_axes=axes,
    )
    x, y = normals(9, 6), normals(9, 4)
    made = clnet.quantize(clnet.onnx.load(proto), [(x, y)])
    assert len(layers(made)[0]) == 1
    wanted = layer(clnet.as_tensor(x)).relu().detach().numpy() + y
    found = made(clnet.as_tensor(x), clnet.as_tensor(y)).numpy()
    assert np.abs(found - wanted).max() < 0.05 * np.abs(wanted).max()


@pytest.mark.device
def test_a_model_of_one_batch_size_is_quantised_for_it():
    """As exported without dynamic axes: it reshapes to sizes that it holds."""
    layer = nn.Linear(6, 4)
    proto = clnet.onnx.export(lambda x: layer(x.reshape(2, 6)).relu(), (clnet.zeros(2, 3, 2),))
    x = normals(2, 3, 2)
    made = clnet.quantize(clnet.onnx.load(proto), [x])
    wanted = layer(clnet.as_tensor(x).reshape(2, 6)).relu().detach().numpy()
    assert np.abs(made(clnet.as_tensor(x)).numpy() - wanted).max() < 0.05 * np.abs(wanted).max()


@pytest.mark.device
def test_digits_are_read_as_well_in_8_bits():
    """Within half a point of float32, of the 360 digits of the test."""
    train, test = Digits(train=True), Digits(train=False)
    transform = Normalize.of(train.arrays[0])
    clnet.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1, bias=False),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(32 * 16, 10),
    )
    optimizer = clnet.optim.Adam(model.parameters(), lr=3e-3)

    @clnet.compile
    def step(x, y):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()

    for _ in range(6):
        for x, y in DataLoader(train, 64, shuffle=True, drop_last=True, transform=transform):
            step(clnet.as_tensor(x), clnet.as_tensor(y))
    model.eval()
    made = clnet.quantize(model, DataLoader(train, 64, transform=transform), num_batches=5)
    x, y = next(iter(DataLoader(test, len(test), transform=transform)))
    with clnet.no_grad():
        right = [
            float((net(clnet.as_tensor(x)).argmax(1).numpy() == y).mean()) for net in (model, made)
        ]
    assert right[0] > 0.95
    assert right[1] > right[0] - 0.005


@pytest.mark.device
@pytest.mark.parametrize(
    ("given", "settings", "text"),
    [
        ([], {}, "the loader gives a batch"),
        ([normals(2, 3)], {"num_batches": 0}, "num_batches is at least 1"),
        ([normals(2, 3)], {"exclude": "0"}, "exclude is a list of names"),
        ([normals(2, 3)], {"exclude": ["0"]}, "has a convolution or dense layer"),
    ],
)
def test_what_cannot_be_is_said(given, settings, text):
    with pytest.raises(ArgumentError, match=text):
        clnet.quantize(nn.Sequential(nn.Linear(3, 2)), given, **settings)


@pytest.mark.parametrize("shape", [(9, 5, 3, 3), (4, 16, 1, 1), (33, 7), (3, 2, 2, 5)])
def test_narrow_filters_keep_four_products_in_16_bits(shape):
    """And others reach the whole range; both are the nearest numbers at their scale."""
    w = normals(*shape)
    w[0] *= 1e-6
    w[1] = 0
    w[-1] = np.abs(w[-1])
    for narrow in (False, True):
        filters, scale = quantised_filters(w, per_channel=True, narrow=narrow)
        again = filters * scale.reshape(-1, *[1] * (w.ndim - 1))
        assert np.abs(again - w).max() <= scale.max() * 0.5001
        assert np.all(np.abs(again - w).reshape(len(w), -1).max(1) <= scale * 0.5001)
        sums = _largest_sum(_as_read(filters).astype(np.float64))
        assert sums.max() <= 128 if narrow else (np.abs(filters).max() == 127)
        assert not filters[1].any()
        one = quantised_filters(w, per_channel=False, narrow=narrow)[1]
        assert len(np.unique(one)) == 1
