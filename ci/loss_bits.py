#!/usr/bin/env python3
"""Hash the bits of ten losses of every network of the zoo, eager and compiled.

    python ci/loss_bits.py [--steps N] [NETWORK ...]

Prints a line for each network and mode, on ``CLNET_DEVICE``: names, the hash, the last loss.
Whoever rewrites kernels without meaning to change a result runs it before and after, and compares
the lines. Inputs are small, and widths are where a network has them; seeds are fixed.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

import clnet
from clnet import models, nn
from clnet.nn import functional as F

CLASSES, BATCH, WORDS = 10, 2, 50
PHOTOGRAPH = (3, 64, 64)
# By the name of what makes it: the network, and the shape of an example.
NETWORKS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "alexnet": (lambda: models.alexnet(CLASSES), PHOTOGRAPH),
    "alexnet_r": (models.alexnet_r, (3, 32, 32)),
    "alexnet_s": (models.alexnet_s, (3, 224, 224)),
    "CNN": (lambda: models.CNN((1, 8, 8), CLASSES), (1, 8, 8)),
    "densenet121": (lambda: models.densenet121(CLASSES), (3, 32, 32)),
    "ece408": (models.ece408, (1, 48, 48)),
    "fcn_r": (models.fcn_r, (784,)),
    "LeNet": (models.LeNet, (1, 28, 28)),
    "MLP": (lambda: models.MLP((64,), CLASSES, hidden=(32,)), (64,)),
    "mobilenet_v2": (lambda: models.mobilenet_v2(CLASSES, width_mult=0.25), (3, 32, 32)),
    "resnet14": (models.resnet14, (3, 32, 32)),
    "resnet14_bn": (models.resnet14_bn, (3, 32, 32)),
    "resnet20": (models.resnet20, (3, 32, 32)),
    "resnet56": (models.resnet56, (3, 32, 32)),
    "resnet18": (lambda: models.resnet18(CLASSES), (3, 32, 32)),
    "resnet34": (lambda: models.resnet34(CLASSES), (3, 32, 32)),
    "resnet50": (lambda: models.resnet50(CLASSES), (3, 32, 32)),
    "resnet101": (lambda: models.resnet101(CLASSES), (3, 32, 32)),
    "shi_resnet56": (models.shi_resnet56, (3, 32, 32)),
    "squeezenet1_0": (lambda: models.squeezenet1_0(CLASSES), PHOTOGRAPH),
    "squeezenet1_1": (lambda: models.squeezenet1_1(CLASSES), PHOTOGRAPH),
    "unet": (lambda: models.UNet(3, 1, features=(8, 16, 32)), (3, 32, 32)),
    "vgg11": (lambda: models.vgg11(CLASSES), (3, 32, 32)),
    "vgg11_bn": (lambda: models.vgg11_bn(CLASSES), (3, 32, 32)),
    "vgg13": (lambda: models.vgg13(CLASSES), (3, 32, 32)),
    "vgg13_bn": (lambda: models.vgg13_bn(CLASSES), (3, 32, 32)),
    "vgg16": (lambda: models.vgg16(CLASSES), (3, 32, 32)),
    "vgg16_bn": (lambda: models.vgg16_bn(CLASSES), (3, 32, 32)),
    "vgg19": (lambda: models.vgg19(CLASSES), (3, 32, 32)),
    "vgg19_bn": (lambda: models.vgg19_bn(CLASSES), (3, 32, 32)),
    "resnext50_32x4d": (lambda: models.resnext50_32x4d(CLASSES), (3, 32, 32)),
    "mobilenet_v3_small": (lambda: models.mobilenet_v3_small(CLASSES), PHOTOGRAPH),
    "mnasnet1_0": (lambda: models.mnasnet1_0(CLASSES), PHOTOGRAPH),
    "efficientnet_b0": (lambda: models.efficientnet_b0(CLASSES), (3, 32, 32)),
    "shufflenet_v2_x0_5": (lambda: models.shufflenet_v2_x0_5(CLASSES), PHOTOGRAPH),
    "ConvNeXt": (
        lambda: models.ConvNeXt((16, 32, 64, 128), (1, 1, 2, 1), num_classes=CLASSES),
        PHOTOGRAPH,
    ),
    "VisionTransformer": (
        lambda: models.VisionTransformer(32, 8, 2, 4, 64, 128, num_classes=CLASSES),
        (3, 32, 32),
    ),
    "gpt": (lambda: models.gpt(WORDS, 16), ()),
    "lstm_language_model": (lambda: models.lstm_language_model(WORDS, hidden_size=32), ()),
}
# Networks as large as the paper's or the publication's, of layers that others above have, too.
LEFT_OUT = {
    *("fcn_s", "gpt2", "shi_lstm", "resnet152", "resnext101_32x8d", "mobilenet_v3_large"),
    *("wide_resnet50_2", "wide_resnet101_2", "shufflenet_v2_x1_0"),
    *("convnext_tiny", "convnext_small", "convnext_base", "vit_b_16", "vit_b_32", "vit_l_16"),
    *("efficientnet_b1", "efficientnet_b2", "efficientnet_b3", "efficientnet_b4"),
}


def losses(name: str, *, compiled: bool, steps: int) -> np.ndarray:
    """The losses of a network's first steps of momentum on one batch.

    Args:
        name: of :data:`NETWORKS`.
        compiled: whether the step is compiled.
        steps: how many.

    Returns:
        float32, ``(steps,)``.
    """
    clnet.manual_seed(7)
    make, shape = NETWORKS[name]
    model = make()
    x, y = batch(name, shape)
    optimizer = clnet.optim.SGD(model.parameters(), lr=0.001, momentum=0.9, weight_decay=1e-4)

    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        out = model(x)
        out = out[0] if isinstance(out, tuple) else out
        if out.ndim == y.ndim:
            loss = F.binary_cross_entropy_with_logits(out, y)
        elif y.ndim == 2:  # words
            loss = F.cross_entropy(out.flatten(0, 1), y.flatten())
        else:
            loss = F.cross_entropy(out, y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    run = clnet.compile(step) if compiled else step
    return np.array([run(x, y).item() for _ in range(steps)], np.float32)


def batch(name: str, shape: tuple[int, ...]) -> tuple[Any, Any]:
    """A batch of a network's inputs and targets, the same each time."""
    random = np.random.default_rng(5)
    if not shape:
        words = random.integers(0, WORDS, (2, 16, BATCH))
        return tuple(clnet.tensor(np.ascontiguousarray(w)) for w in words)
    x = clnet.tensor(random.standard_normal((BATCH, *shape)).astype(np.float32))
    if name == "unet":
        mask = random.integers(0, 2, (BATCH, 1, *shape[1:])).astype(np.float32)
        return x, clnet.tensor(mask)
    return x, clnet.tensor(random.integers(0, CLASSES, BATCH))


def main() -> None:
    """Print the lines."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("networks", nargs="*", help="of which; all, if none is named")
    parser.add_argument("--steps", type=int, default=10)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    made = {name for name in models.__all__ if name.islower()}
    if not options.networks and (missing := made - LEFT_OUT - set(NETWORKS)):
        print(f"left out, without a line in NETWORKS: {sorted(missing)}", file=sys.stderr)
    for name in options.networks or NETWORKS:
        for way in ("eager", "compiled"):
            bits = losses(name, compiled=way == "compiled", steps=options.steps)
            digest = hashlib.sha256(bits.tobytes()).hexdigest()[:16]
            print(f"{name:20} {way:8} {digest} {bits[-1]:.9g}", flush=True)


if __name__ == "__main__":
    main()
