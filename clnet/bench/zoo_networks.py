"""The networks that ``clnet bench zoo`` times: ours, PyTorch's, and batches for both."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np

from .. import models, nn
from ..device import AbsentDevice, current_device
from ..models.parts import StochasticDepth
from . import zoo_twins
from .diffusion_twin import diffusion
from .precision import FULL, Precision
from .torch_networks import build
from .workload import Workload

_CLASSES, _SIDE = 1000, 224
_WORDS, _LENGTH, _TAGS, _TAGGED = 8192, 256, 17, 64
_GAN, _NOISE, _PIXELS, _LATENT = 64, 100, 784, 20
_UNIT = (32, 64, (1, 2, 2), 16)  # side, channels, their factors, groups
_FEW_IMAGES = 8  # a text takes as long as so many images, about
_MANY = 32  # of the smallest networks, so many times as many examples
_NORMED = 30.0  # behind fresh batch norms rounding grows: PyTorch's own layouts differ as much

Batch = tuple[tuple[np.ndarray, ...], np.ndarray]


class DCGAN(nn.Sequential):
    """A generator whose images a discriminator judges."""

    def __init__(self) -> None:
        super().__init__(models.DCGANGenerator(_NOISE, _GAN), models.DCGANDiscriminator(_GAN))


@dataclass(frozen=True)
class Network:
    """A network of the zoo.

    Attributes:
        make: ours.
        twin: PyTorch's, of the module ``torch``.
        drawn: of a generator of random numbers and a batch, inputs and targets.
        loss: as :class:`.workload.Workload` has it.
        sensitivity: the same.
        image: whether inputs begin with images, which may lie by channels.
    """

    make: Callable[[], nn.Module]
    twin: Callable[[Any], Any]
    drawn: Callable[[np.random.Generator, int], Batch]
    loss: Callable[[Any, Any, Any], Any]
    sensitivity: float = 1.0
    image: bool = False


def has_torchvision() -> bool:
    """Whether it is installed."""
    return find_spec("torchvision") is not None


def workload(name: str, batch: int, *, training: bool, precision: Precision = FULL) -> Workload:
    """What a contest needs of a network.

    Args:
        name: of :data:`NAMES`.
        batch: images; of texts fewer.
        training: whether it is trained or asked.
        precision: what it computes in.
    """
    network = _ZOO[name]
    drawn = partial(network.drawn, np.random.default_rng(0), batch)
    shape = drawn()[0][0].shape
    drawn = partial(_again, network, batch)
    direction = "training" if training else "inference"
    return Workload(
        f"{name}, {direction}",
        f"{name} {direction}, batch {shape[0]}",
        partial(_undropped, network.make),
        shape if network.image else (*shape, *[1] * (4 - len(shape)))[:2],
        0,
        0.0,
        training=training,
        sgd={"lr": 1e-3, "momentum": 0.9},
        sensitivity=network.sensitivity * precision.roughness,
        drawn=drawn,
        loss=network.loss,
        twin=partial(_undropped_twin, network.twin),
        precision=precision,
    )


def _again(network: Network, batch: int) -> Batch:
    return network.drawn(np.random.default_rng(0), batch)


def _undropped(make: Callable[[], nn.Module]) -> nn.Module:
    """The network, which drops nothing; and no dense layer begins with zeros, as answers would."""
    model = make()
    absent = isinstance(current_device(), AbsentDevice)  # where no element can be looked at
    for module in model.modules():
        if isinstance(module, nn.Dropout | StochasticDepth):
            module.p = 0.0
        elif absent or not isinstance(module, nn.Linear):
            continue
        elif not module.weight.detach().numpy().any():
            nn.init.normal_(module.weight, 0.0, 0.02)
    return model


def _undropped_twin(twin: Callable[[Any], Any], torch: Any) -> Any:
    model = twin(torch)
    for module in model.modules():
        if type(module).__name__ in ("Dropout", "StochasticDepth"):
            module.p = 0.0
    return model


def _of_classes(functional: Any, scores: Any, classes: Any) -> Any:
    return functional.cross_entropy(scores, classes)


def _of_words(functional: Any, scores: Any, words: Any) -> Any:
    return functional.cross_entropy(scores.flatten(0, 1), words.flatten())


def _of_stepped_words(functional: Any, found: Any, words: Any) -> Any:
    return functional.cross_entropy(found[0].flatten(0, 1), words.flatten())


def _of_values(functional: Any, found: Any, values: Any) -> Any:
    return functional.mse_loss(found, values)


def _of_texts(functional: Any, found: Any, values: Any) -> Any:
    return functional.mse_loss(found[1], values)


def _of_judged(functional: Any, found: Any, values: Any) -> Any:
    return functional.binary_cross_entropy(found, values)


def _of_pixels(functional: Any, found: Any, pixels: Any) -> Any:
    result, mean, spread = found
    wrong = functional.binary_cross_entropy(result, pixels)
    return wrong - 0.001 * (1 + spread - mean * mean - spread.exp()).mean()


def _photographs(rng: np.random.Generator, batch: int, side: int = _SIDE) -> Batch:
    x = rng.standard_normal((batch, 3, side, side), dtype=np.float32)
    return (x,), rng.integers(0, _CLASSES, batch)


def _texts(rng: np.random.Generator, batch: int) -> Batch:
    words = rng.integers(0, _WORDS, (2, max(batch // _FEW_IMAGES, 1), _LENGTH))
    return (words[0],), words[1]


def _long_texts(rng: np.random.Generator, batch: int) -> Batch:
    words, longest, *_ = _GPT2
    drawn = rng.integers(0, words, (2, max(batch // _FEW_IMAGES, 1), longest))
    return (drawn[0],), drawn[1]


def _steps(rng: np.random.Generator, batch: int) -> Batch:
    words = rng.integers(0, _LSTM_WORDS, (2, _LSTM_STEPS, 2 * batch))
    return (words[0],), words[1]


def _pairs(rng: np.random.Generator, batch: int) -> Batch:
    words = rng.integers(0, _WORDS, (3, max(batch // _FEW_IMAGES, 1), _LENGTH // 2))
    return (words[0], words[1]), words[2]


def _wholes(rng: np.random.Generator, batch: int) -> Batch:
    (words,), _ = _texts(rng, batch)
    return (words,), rng.standard_normal((len(words), _BERT.hidden_size), dtype=np.float32)


def _tagged(rng: np.random.Generator, batch: int) -> Batch:
    shape = (8 * batch, _TAGGED)
    return (rng.integers(0, _WORDS, shape),), rng.integers(0, _TAGS, shape)


def _noise(rng: np.random.Generator, batch: int) -> Batch:
    x = rng.standard_normal((4 * batch, _NOISE, 1, 1), dtype=np.float32)
    return (x,), np.ones(len(x), np.float32)


def _digits(rng: np.random.Generator, batch: int) -> Batch:
    x = rng.random((_MANY * batch, _PIXELS), np.float32)
    return (x, rng.standard_normal((len(x), _LATENT), dtype=np.float32)), x


def _noisy(rng: np.random.Generator, batch: int) -> Batch:
    x = rng.standard_normal((2, batch, 3, _UNIT[0], _UNIT[0]), dtype=np.float32)
    return (x[0], rng.integers(0, 1000, batch)), x[1]


def _diffusion() -> nn.Module:
    side, ch, factors, groups = _UNIT
    return models.DiffusionUNet(
        side, ch=ch, ch_mult=factors, attn_resolutions=(16,), groups=groups, dropout=0.0
    )


def _diffusion_twin(torch: Any) -> Any:
    _, ch, factors, groups = _UNIT
    return diffusion(torch, ch, factors, 2, (False, True, False), groups)


def _dcgan_twin(torch: Any) -> Any:
    parts = (zoo_twins.generator(torch, _NOISE, _GAN), zoo_twins.discriminator(torch, _GAN))
    return torch.nn.Sequential(*parts)


def _translator() -> nn.Module:
    return models.Translator(
        _WORDS, _WORDS, emb_size=256, nhead=4, num_layers=3, dim_feedforward=1024, dropout=0.0
    )


def _photograph(name: str, torch: Any) -> Any:
    del torch
    from torchvision import models as photographs  # noqa: PLC0415 - an optional peer

    if name == "vit_s_16":  # which it has no name for
        return photographs.VisionTransformer(*_VIT_S)
    settings: dict[str, Any] = {"weights": None, **_WHOLE.get(name, {})}
    if name in _WHOLE:
        settings["init_weights"] = False
    return getattr(photographs, name)(**settings)


_BERT = models.BertConfig(_WORDS, 512, 4, 8, 2048, 512, 2, 0.0, 0.0)
_LLAMA = models.LlamaConfig(_WORDS, 512, 1408, 6, 8, 4)
_GPT2 = (50257, 1024, 12, 12, 768)  # words, the longest text, blocks, heads, features
_LSTM_WORDS, _LSTM_STEPS = 10000, 32
_VIT_S = (224, 16, 12, 6, 384, 1536)
# Classes from the middle are no part of what is timed.
_WHOLE: dict[str, dict[str, bool]] = {
    "googlenet": {"aux_logits": False},
    "inception_v3": {"aux_logits": False},
}
# By name, how much rounding grows.
OF_TORCHVISION = {
    "resnet18": _NORMED,
    "resnext50_32x4d": _NORMED,
    "wide_resnet50_2": _NORMED,
    "densenet121": _NORMED,
    "vgg11": 1.0,
    "squeezenet1_1": 1.0,
    "mobilenet_v2": _NORMED,
    "mobilenet_v3_small": _NORMED,
    "mobilenet_v3_large": _NORMED,
    "efficientnet_b0": _NORMED,
    "mnasnet1_0": _NORMED,
    "shufflenet_v2_x1_0": _NORMED,
    "regnet_y_400mf": _NORMED,
    "googlenet": _NORMED,
    "inception_v3": _NORMED,
    "convnext_tiny": 1.0,
    "swin_t": 1.0,
    "vit_b_16": 1.0,
    "vit_s_16": 1.0,
    "vgg16": 4.0,  # in bfloat16 the first filters' gradients are 43% off float32's
    "resnet50": _NORMED,
}
_ZOO = {
    **{
        name: Network(
            partial(models.VisionTransformer, *_VIT_S)
            if name == "vit_s_16"
            else partial(getattr(models, name), **_WHOLE.get(name, {})),
            partial(_photograph, name),
            partial(_photographs, side=299 if name == "inception_v3" else _SIDE),
            _of_classes,
            grows,
            image=True,
        )
        for name, grows in OF_TORCHVISION.items()
    },
    "mixer": Network(
        models.mixer_s16,
        lambda torch: zoo_twins.mixer(torch, 512, 8, _SIDE, _CLASSES),
        _photographs,
        _of_classes,
        image=True,
    ),
    "bert": Network(
        lambda: models.Bert(_BERT), lambda torch: zoo_twins.bert(torch, _BERT), _wholes, _of_texts
    ),
    "llama": Network(
        lambda: models.Llama(_LLAMA),
        lambda torch: zoo_twins.llama(torch, _LLAMA),
        _texts,
        _of_words,
    ),
    "gpt2": Network(
        models.gpt2, lambda torch: zoo_twins.gpt(torch, *_GPT2), _long_texts, _of_words
    ),
    "lstm": Network(models.shi_lstm, lambda torch: build(torch, "lstm"), _steps, _of_stepped_words),
    "translator": Network(
        _translator,
        lambda torch: zoo_twins.translator(torch, _WORDS, _WORDS, 256, 4, 3),
        _pairs,
        _of_words,
    ),
    "tagger": Network(
        lambda: models.gru_tagger(_WORDS, _TAGS),
        lambda torch: zoo_twins.tagger(torch, _WORDS, _TAGS, 128, 2),
        _tagged,
        _of_words,
    ),
    "dcgan": Network(DCGAN, _dcgan_twin, _noise, _of_judged, _NORMED, image=True),
    "vae": Network(
        models.VAE, lambda torch: zoo_twins.vae(torch, _PIXELS, 400, _LATENT), _digits, _of_pixels
    ),
    "diffusion": Network(_diffusion, _diffusion_twin, _noisy, _of_values, image=True),
}
NAMES = tuple(_ZOO)
