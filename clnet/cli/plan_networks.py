"""The networks that ``clnet plan`` knows by name, with a batch and a loss for each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from .. import models, nn
from ..nn import functional as F
from ..ops import cross_entropy, zeros_like
from ..planning.memory_plan import Loss
from ..tensor import Tensor
from ..values.dtypes import DType, float32, int64

_IMAGENET, _CIFAR, _MNIST = (3, 224, 224), (3, 32, 32), (1, 28, 28)
_WORDS, _TAGS = 8192, 17
_AUXILIARY = 0.3  # what classes from the middle of a network count, as its authors have it


@dataclass(frozen=True)
class Network:
    """A network, and what it is trained with.

    Attributes:
        make: makes it.
        shape: of an example.
        dtype: of the input.
        loss: of outputs and targets.
        each_place: whether there is a target for each element of the input.
        words_first: whether the batch is the second axis.
    """

    make: Callable[[], nn.Module]
    shape: tuple[int, ...]
    dtype: DType = float32
    loss: Loss = cross_entropy
    each_place: bool = False
    words_first: bool = False

    @property
    def classifies(self) -> bool:
        """Whether it gives a score for each class, and nothing else."""
        return self.loss is cross_entropy

    def batch(self, size: int, shape: Sequence[int]) -> tuple[int, ...]:
        """The shape of a batch.

        Args:
            size: examples.
            shape: of each.
        """
        return (*shape, size) if self.words_first else (size, *shape)

    def targets(self, batch: tuple[int, ...]) -> tuple[int, ...] | None:
        """The shape of a batch's targets; None: a class for every place of the outputs.

        Args:
            batch: its shape.
        """
        if self.each_place:
            return batch
        return None if self.classifies else batch[:1]


class _WithOthers(nn.Module):
    """A network as a module of its first input.

    Args:
        network: the network.
        others: of the first input, what else it is given.
    """

    def __init__(self, network: nn.Module, others: Callable[[Tensor], tuple[Tensor, ...]]) -> None:
        super().__init__()
        self.network = network
        self._others = others

    def forward(self, x: Tensor) -> Any:
        """What the network gives."""
        return self.network(x, *self._others(x))


def _of_words(found: Any, words: Tensor) -> Tensor:
    scores = found[0] if isinstance(found, tuple) else found
    return cross_entropy(scores.flatten(0, 1), words.flatten())


def _with_auxiliary(found: Any, classes: Tensor) -> Tensor:
    logits, *others = found
    loss = cross_entropy(logits, classes)
    for other in others:
        loss = loss + _AUXILIARY * cross_entropy(other, classes)
    return loss


def _of_squares(found: Any, targets: Tensor) -> Tensor:
    """Means of squares of all outputs."""
    del targets
    outputs = found if isinstance(found, tuple) else (found,)
    loss = (outputs[0] * outputs[0]).mean()
    for y in outputs[1:]:
        loss = loss + (y * y).mean()
    return loss


def _of_pixels(found: Tensor, targets: Tensor) -> Tensor:
    del targets
    return F.binary_cross_entropy_with_logits(found, zeros_like(found))


def _translator() -> nn.Module:
    return _WithOthers(models.translator(_WORDS, _WORDS), lambda words: (words,))


def _diffusion() -> nn.Module:
    def times(x: Tensor) -> tuple[Tensor, ...]:
        return (x.new_zeros((len(x),), dtype=int64),)

    return _WithOthers(models.DiffusionUNet(), times)


def _named(shape: tuple[int, ...], *names: str) -> dict[str, Network]:
    return {name: Network(getattr(models, name), shape) for name in names}


def _texts(make: Callable[[], nn.Module], words: int, **settings: Any) -> Network:
    return Network(make, (words,), int64, _of_words, each_place=True, **settings)


NETWORKS: dict[str, Network] = {
    **_named(
        _IMAGENET,
        *("alexnet", "vgg11", "vgg13", "vgg16", "vgg19"),
        *("vgg11_bn", "vgg13_bn", "vgg16_bn", "vgg19_bn"),
        *("resnet18", "resnet34", "resnet50", "resnet101", "resnet152"),
        *("resnext50_32x4d", "resnext101_32x8d", "wide_resnet50_2", "wide_resnet101_2"),
        *("densenet121", "squeezenet1_0", "squeezenet1_1", "mobilenet_v2"),
        *("mobilenet_v3_small", "mobilenet_v3_large", "mnasnet1_0"),
        *("shufflenet_v2_x0_5", "shufflenet_v2_x1_0", "regnet_x_400mf", "regnet_y_400mf"),
        *("efficientnet_b0", "convnext_tiny", "convnext_small", "convnext_base"),
        *("vit_b_16", "vit_b_32", "vit_l_16", "swin_t", "swin_s", "mixer_s16", "mixer_b16"),
    ),
    **_named((3, 240, 240), "efficientnet_b1"),
    **_named((3, 288, 288), "efficientnet_b2"),
    **_named((3, 300, 300), "efficientnet_b3"),
    **_named((3, 380, 380), "efficientnet_b4"),
    "googlenet": Network(models.googlenet, _IMAGENET, loss=_with_auxiliary),
    "inception_v3": Network(models.inception_v3, (3, 299, 299), loss=_with_auxiliary),
    **_named(_CIFAR, "resnet14", "resnet14_bn", "resnet20", "resnet56"),
    "MLP": Network(partial(models.MLP, _MNIST, 10), _MNIST),
    "CNN": Network(partial(models.CNN, _MNIST, 10), _MNIST),
    "LeNet": Network(models.LeNet, _MNIST),
    "ece408": Network(models.ece408, (1, 48, 48)),
    "unet": Network(models.unet, (3, 256, 256), loss=_of_pixels),
    "DCGANGenerator": Network(models.DCGANGenerator, (100, 1, 1), loss=_of_squares),
    "DCGANDiscriminator": Network(models.DCGANDiscriminator, (3, 64, 64), loss=_of_squares),
    "VAE": Network(models.VAE, (784,), loss=_of_squares),
    "DiffusionUNet": Network(_diffusion, _CIFAR, loss=_of_squares),
    "lstm_language_model": _texts(
        partial(models.lstm_language_model, _WORDS), 64, words_first=True
    ),
    "gru_tagger": _texts(partial(models.gru_tagger, _WORDS, _TAGS), 64),
    "gpt": _texts(partial(models.gpt, _WORDS), 256),
    "gpt2": _texts(models.gpt2, 1024),
    "bert_base": Network(models.bert_base, (512,), int64, _of_squares),
    "translator": _texts(_translator, 128),
    "llama2_7b": _texts(models.llama2_7b, 2048),
    "llama3_8b": _texts(models.llama3_8b, 2048),
    "fcn_s": Network(models.fcn_s, (26752,)),
    "fcn_r": Network(models.fcn_r, (784,)),
    "alexnet_s": Network(models.alexnet_s, _IMAGENET),
    "alexnet_r": Network(models.alexnet_r, _CIFAR),
    "shi_resnet56": Network(models.shi_resnet56, _CIFAR),
    "shi_lstm": _texts(models.shi_lstm, 32, words_first=True),
}
