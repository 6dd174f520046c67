"""The networks of ``clnet.models``: their sizes, their names, what they compute, how they load."""

from __future__ import annotations

import gc
from contextlib import nullcontext

import numpy as np
import pytest
from safetensors.numpy import save_file

import clnet
from clnet import models, nn
from clnet.errors import ArgumentError, CheckpointError, DeviceError, ShapeError
from clnet.io import load_state
from clnet.nn import functional as F
from tests.models.torchvision_answers import STATES

pytestmark = pytest.mark.device

# Published: torchvision's documentation; the papers' tables and code for the others.
PARAMETERS = {
    "resnet18": 11_689_512,
    "resnet34": 21_797_672,
    "resnet50": 25_557_032,
    "resnet101": 44_549_160,
    "alexnet": 61_100_840,
    "vgg11": 132_863_336,
    "vgg11_bn": 132_868_840,
    "vgg13": 133_047_848,
    "vgg13_bn": 133_053_736,
    "vgg16": 138_357_544,
    "vgg16_bn": 138_365_992,
    "vgg19": 143_667_240,
    "vgg19_bn": 143_678_248,
    "mobilenet_v2": 3_504_872,
    "densenet121": 7_978_856,
    "squeezenet1_0": 1_248_424,
    "squeezenet1_1": 1_235_496,
    "LeNet": 61_706,
    "resnet14": 174_138,
    "resnet20": 269_722,
    "resnet56": 853_018,
    "unet": 31_037_633,
    "gpt2": 124_439_808,
    "ece408": 880_470,
    "fcn_s": 117_997_696,
    "fcn_r": 14_205_962,
    "alexnet_s": 62_378_344,
    "alexnet_r": 89_578,
    "shi_resnet56": 855_050,
    "shi_lstm": 6_180_624 + 2_048,  # PyTorch's two biases for each gate
    "mixer_s16": 18_528_264,
    "mixer_b16": 59_880_472,
    "bert_base": 109_482_240,
    "llama2_7b": 6_738_415_616,
    "llama3_8b": 8_030_261_248,
    "DCGANGenerator": 3_576_704,
    "DCGANDiscriminator": 2_765_568,
    "DiffusionUNet": 35_746_307,
    "VAE": 652_824,
}
# state_dict entries of torchvision, first, some in between, and last.
NAMES = {
    "resnet18": ["conv1.weight", "layer2.0.downsample.1.running_var", "fc.bias"],
    "resnet50": ["conv1.weight", "layer3.5.bn3.num_batches_tracked", "fc.bias"],
    "alexnet": ["features.0.weight", "features.10.bias", "classifier.6.bias"],
    "vgg16": ["features.0.weight", "features.28.weight", "classifier.6.bias"],
    "vgg11_bn": ["features.0.weight", "features.26.running_mean", "classifier.6.bias"],
    "mobilenet_v2": [
        "features.0.0.weight",
        "features.1.conv.1.weight",
        "features.17.conv.1.1.running_mean",
        "features.18.1.weight",
        "classifier.1.bias",
    ],
    "densenet121": [
        "features.conv0.weight",
        "features.denseblock3.denselayer24.conv2.weight",
        "features.transition3.norm.running_mean",
        "features.norm5.weight",
        "classifier.bias",
    ],
    "squeezenet1_0": ["features.0.weight", "features.12.expand3x3.bias", "classifier.1.bias"],
    "squeezenet1_1": ["features.0.weight", "features.12.squeeze.bias", "classifier.1.bias"],
}
# How many entries torchvision's state_dict has.
ENTRIES = {"resnet18": 122, "resnet50": 320, "mobilenet_v2": 314, "densenet121": 727}
PHOTOGRAPHS = [
    *("resnet18", "resnet34", "resnet50", "resnet101", "alexnet", "vgg11", "vgg13_bn", "vgg16"),
    *("vgg19", "mobilenet_v2", "densenet121", "squeezenet1_0", "squeezenet1_1", "alexnet_s"),
]


def parameters(model):
    return sum(p.numel() for p in model.parameters())


@pytest.mark.parametrize("name", PARAMETERS)
def test_model_has_the_published_number_of_parameters(name):
    with clnet.abstract():
        assert parameters(getattr(models, name)()) == PARAMETERS[name]


def test_every_constructor_is_counted():
    constructors = {name for name in models.__all__ if name.islower()}
    counted = {*PARAMETERS, *STATES}
    sized = {"gpt", "gru_tagger", "lstm_language_model", "resnet14_bn", "translator"}
    assert constructors - counted == {*sized, "vae_loss"}


@pytest.mark.parametrize("name", NAMES)
def test_state_has_torchvisions_names(name):
    with clnet.abstract():
        names = list(getattr(models, name)().state_dict())
    assert [names[0], names[-1]] == [NAMES[name][0], NAMES[name][-1]]
    assert set(NAMES[name]) <= set(names)
    assert len(names) == ENTRIES.get(name, len(names))


@pytest.mark.parametrize("name", PHOTOGRAPHS)
def test_photographs_become_classes(name):
    with clnet.abstract():
        assert getattr(models, name)()(clnet.zeros(2, 3, 224, 224)).shape == (2, 1000)


def test_shi_networks_take_their_batches():
    for row in models.SHI_NETWORKS:
        with clnet.abstract():
            model = row.make()
            if row.name == "LSTM":
                tokens = clnet.zeros(*row.input_shape, row.batch_size, dtype=clnet.int64)
                logits, (h, c) = model(tokens)
                assert logits.shape == (*row.input_shape, row.batch_size, row.classes)
                assert h.shape == c.shape == (2, row.batch_size, 256)
            else:
                y = model(clnet.zeros(row.batch_size, *row.input_shape))
                assert y.shape == (row.batch_size, row.classes)


# On the device: models small enough for a test that trains one step.
SMALL = {
    "LeNet": (lambda: models.LeNet(), (1, 28, 28)),
    "resnet14": (models.resnet14, (3, 32, 32)),
    "resnet20": (models.resnet20, (3, 32, 32)),
    "shi_resnet56": (models.shi_resnet56, (3, 32, 32)),
    "alexnet_r": (models.alexnet_r, (3, 32, 32)),
    "squeezenet1_1": (lambda: models.squeezenet1_1(10), (3, 33, 33)),
    "mobilenet_v2": (lambda: models.mobilenet_v2(10, width_mult=0.25), (3, 32, 32)),
    "ece408": (models.ece408, (1, 48, 48)),
}


@pytest.mark.parametrize("name", SMALL)
def test_every_parameter_gets_a_gradient(name):
    clnet.manual_seed(0)
    make, shape = SMALL[name]
    model = make().train()
    x = clnet.randn(2, *shape)
    loss = F.cross_entropy(model(x), clnet.tensor([3, 7]))
    loss.backward()
    for parameter_name, parameter in model.named_parameters():
        gradient = parameter.grad
        assert gradient is not None, parameter_name
        assert np.isfinite(gradient.numpy()).all(), parameter_name


def test_shortcut_without_parameters_takes_every_other_pixel():
    block = models.cifar_resnet.CifarBlock(2, 4, norm=False, projection=False)
    nn.init.zeros_(block.conv2.weight)
    x = np.random.default_rng(0).random((1, 2, 4, 4), dtype=np.float32)
    y = block(clnet.tensor(x)).detach().numpy()
    np.testing.assert_array_equal(y[:, :2], x[:, :, ::2, ::2])
    assert not y[:, 2:].any()


def test_blocks_are_the_identity_at_first_if_asked():
    model = models.resnet18(10, zero_init_residual=True)
    assert not model.layer1[0].bn2.weight.detach().numpy().any()
    assert model.layer1[0].bn1.weight.detach().numpy().all()


DRAWN_ONCE = {
    "resnet18": lambda: models.resnet18(10),
    "resnet20": models.resnet20,
    "mobilenet_v2": lambda: models.mobilenet_v2(10, width_mult=0.25),
}


@pytest.mark.parametrize("name", DRAWN_ONCE)
def test_weights_drawn_once_are_those_drawn_twice(name, monkeypatch):
    def made():
        clnet.manual_seed(7)
        state = {k: v.numpy() for k, v in DRAWN_ONCE[name]().state_dict().items()}
        return state | {"next": clnet.rand(4).numpy()}

    once = made()
    for family in (models.resnet, models.cifar_resnet, models.mobilenet):
        monkeypatch.setattr(family, "drawn_later", lambda **_: nullcontext())
    twice = made()
    assert once.keys() == twice.keys()
    for key in once:
        np.testing.assert_array_equal(once[key], twice[key])


def test_weights_are_drawn_once(device):
    clnet.synchronize()
    with clnet.profile() as profile:
        models.resnet18(10, zero_init_residual=True)
    drawn = [c for c in profile.commands if c.name.startswith("random")]
    assert len(drawn) == 20 + 2  # convolutions; the dense layer's two


def test_layers_of_other_blocks_draw_their_own_weights():
    class Gated(models.resnet.BasicBlock):
        def __init__(self, inplanes: int, planes: int, stride: int = 1) -> None:
            super().__init__(inplanes, planes, stride)
            self.gate = nn.Linear(planes, planes)

    model = models.resnet.ResNet(Gated, (1, 1, 1, 1), num_classes=3)
    bound = 1 / 64**0.5
    weight = model.layer1[0].gate.weight.detach().numpy()
    assert np.abs(weight).max() <= bound
    assert weight.std() > bound / 2


def test_unet_gives_a_class_for_every_pixel():
    clnet.manual_seed(0)
    model = models.UNet(1, 3, features=(4, 8, 16))
    assert model(clnet.randn(1, 1, 16, 24)).shape == (1, 3, 16, 24)
    with pytest.raises(ArgumentError, match="multiples of 4"):
        model(clnet.randn(1, 1, 16, 22))


def test_state_of_the_language_model_carries_on():
    clnet.manual_seed(0)
    model = models.lstm_language_model(11, hidden_size=8)
    tokens = clnet.tensor(np.random.default_rng(0).integers(0, 11, (6, 2)))
    whole, _ = model(tokens)
    first, state = model(tokens[:4])
    second, _ = model(tokens[4:], state)
    parts = np.concatenate([first.detach().numpy(), second.detach().numpy()])
    np.testing.assert_allclose(parts, whole.detach().numpy(), rtol=1e-5, atol=1e-6)


def test_gpt_does_not_look_ahead():
    clnet.manual_seed(0)
    model = models.GPT(11, 8, n_layer=2, n_head=2, n_embd=8).eval()
    tokens = np.random.default_rng(0).integers(0, 11, (1, 8))
    before = model(clnet.tensor(tokens)).detach().numpy()
    tokens[0, 5] = (tokens[0, 5] + 1) % 11
    after = model(clnet.tensor(tokens)).detach().numpy()
    np.testing.assert_array_equal(before[:, :5], after[:, :5])
    assert (before[:, 5:] != after[:, 5:]).any()
    assert model.lm_head.weight is model.wte.weight


@pytest.mark.parametrize(
    ("make", "error", "law"),
    [
        (lambda: models.SqueezeNet("2_0"), ArgumentError, "version is '1_0' or '1_1'"),
        (lambda: models.UNet(features=(8,)), ArgumentError, "two sizes or more"),
        (lambda: models.GPT(8, n_head=3, n_embd=8), ArgumentError, "n_head divides n_embd"),
        (lambda: models.GPT(8, 4)(clnet.zeros(1, 5, dtype=clnet.int64)), ShapeError, "block_size"),
        (
            lambda: models.LSTMLanguageModel(8, 4, hidden_size=5, tie_weights=True),
            ArgumentError,
            "tied weights",
        ),
    ],
)
def test_sizes_that_do_not_fit_are_refused(make, error, law):
    with pytest.raises(error, match=law):
        make()


def test_weights_saved_by_pytorch_are_loaded(tmp_path):
    """A file as ``safetensors.torch.save_file(model.state_dict(), path)`` writes it."""
    clnet.manual_seed(0)
    model = models.resnet20()
    rng = np.random.default_rng(0)
    state = {
        name: np.array(3) if value.ndim == 0 else rng.random(value.shape, dtype=np.float32)
        for name, value in model.state_dict().items()
    }
    save_file(state, tmp_path / "weights.safetensors")
    with clnet.abstract():
        loaded = models.resnet20()
    loaded.load_state_dict(load_state(tmp_path / "weights.safetensors").arrays)
    for name, value in loaded.state_dict().items():
        np.testing.assert_array_equal(value.numpy(), state[name])
    with pytest.raises(CheckpointError, match="fc"):
        models.resnet20(7).load_state_dict(state)


def test_abstract_model_takes_no_memory_and_cannot_be_read():
    gc.collect()  # networks of other tests that wait for it would be counted
    before = clnet.memory_allocated()
    state = clnet.get_rng_state().tolist()
    with clnet.abstract():
        model = models.vgg16()
        y = model(clnet.zeros(1, 3, 224, 224))
    assert clnet.memory_allocated() == before
    assert clnet.get_rng_state().tolist() == state
    with pytest.raises(DeviceError, match="no elements"):
        y.detach().numpy()
    with pytest.raises(DeviceError, match="no elements"):
        model(clnet.zeros(1, 3, 224, 224))
