"""Networks with torchvision's names against what torchvision gave: sizes, names, results."""

from __future__ import annotations

import numpy as np
import pytest

import clnet
from clnet import models
from clnet.errors import ArgumentError, ShapeError
from clnet.kernels.conv import conv_direct
from tests.models.torchvision_answers import RESULTS, STATES, drawn, fingerprint

pytestmark = pytest.mark.device

SETTINGS = {"vit_b_32": {"image_size": 64}}
# In CI; the others are slow.
OFTEN = {"mobilenet_v3_small", "shufflenet_v2_x0_5"}


@pytest.mark.parametrize("name", STATES)
def test_states_are_torchvisions(name):
    with clnet.abstract():
        model = getattr(models, name)().eval()
        count, entries, mark = STATES[name]
        assert sum(p.numel() for p in model.parameters()) == count
        shapes = {key: tuple(value.shape) for key, value in model.state_dict().items()}
        assert (len(shapes), fingerprint(shapes)) == (entries, mark)
        assert model(clnet.zeros(2, 3, 224, 224)).shape == (2, 1000)


@pytest.mark.parametrize(
    "name", [n if n in OFTEN else pytest.param(n, marks=pytest.mark.slow) for n in RESULTS]
)
def test_results_and_gradients_are_torchvisions(name, monkeypatch):
    # Convolutions take the tiles of small ones: they run once, and a kernel for each takes longer.
    monkeypatch.setattr(conv_direct, "SMALL_FLOPS", 2**40)
    model = getattr(models, name)(7, **SETTINGS.get(name, {})).eval()
    state = model.state_dict()
    model.load_state_dict(
        {
            key: value if key.endswith("_index") else drawn(key, tuple(value.shape))
            for key, value in state.items()
        }
    )
    side = 75 if name == "inception_v3" else 64
    image = np.random.default_rng(0).standard_normal((2, 3, side, side)).astype(np.float32)
    x = clnet.tensor(image, requires_grad=True)
    y = model(x)
    (y * clnet.tensor(np.linspace(-1, 1, 14, dtype=np.float32).reshape(2, 7))).sum().backward()
    classes, slope = RESULTS[name]
    found = y[1].detach().numpy()
    np.testing.assert_allclose(found, classes, atol=2e-4 * np.abs(classes).max())
    assert np.ptp(classes) > 0.1
    np.testing.assert_allclose(np.abs(x.grad.numpy()).sum(), slope, rtol=1e-3)


def test_classes_from_the_middle_come_in_training():
    with clnet.abstract():
        x = clnet.zeros(2, 3, 299, 299)
        found = models.googlenet(7)(x)
        assert found._fields == ("logits", "aux_logits2", "aux_logits1")
        assert [y.shape for y in found] == [(2, 7)] * 3
        assert [y.shape for y in models.inception_v3(7)(x)] == [(2, 7)] * 2
        assert models.googlenet(7, aux_logits=False)(x).shape == (2, 7)
        assert models.inception_v3(7, aux_logits=False)(x).shape == (2, 7)


def test_whole_examples_are_dropped_in_training():
    layer = models.convnext.StochasticDepth(0.5)
    x = clnet.ones(64, 2, 3, 3)
    clnet.manual_seed(0)
    y = layer(x).numpy()
    assert {float(v) for v in y[:, 0, 0, 0]} == {0.0, 2.0}
    assert all(np.ptp(example) == 0 for example in y)
    np.testing.assert_array_equal(layer.eval()(x).numpy(), x.numpy())
    assert repr(layer) == "StochasticDepth(p=0.5)"


def test_errors_name_what_is_wrong():
    with pytest.raises(ArgumentError, match=r"^ResNet: groups and other widths are for bottle"):
        models.ResNet(models.resnet.BasicBlock, (1, 1, 1, 1), groups=2)
    with clnet.abstract():
        with pytest.raises(ShapeError, match=r"^VisionTransformer: an image is whole patches"):
            models.vit_b_16(image_size=100)
        with pytest.raises(ShapeError, match=r"^VisionTransformer: images have the size"):
            models.vit_b_32(image_size=64)(clnet.zeros(1, 3, 32, 32))
