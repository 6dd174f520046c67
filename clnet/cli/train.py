"""``clnet train``: a network on a data set of images, with settings that suit it."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from .. import models
from ..data import (
    CIFAR10,
    MNIST,
    ArrayDataset,
    Compose,
    DataLoader,
    Dataset,
    Digits,
    FashionMNIST,
    Normalize,
    RandomCrop,
    RandomErasing,
    RandomHorizontalFlip,
    Transform,
    random_split,
)
from ..data.fashion_mnist import FOLDERS
from ..data.source import places
from ..errors import ArgumentError
from ..models import CNN, MLP
from ..nn import Module
from ..ops import cross_entropy
from ..train import Trainer, accuracy
from ..values import mode
from . import options, train_text


@dataclass(frozen=True)
class Task:
    """A data set, and the settings that suit it.

    Attributes:
        load: ``load(root, train=..., download=...)``.
        epochs, batch_size, lr: the defaults (``lr`` for Adam).
        augmented: whether training images are shifted and mirrored by default.
    """

    load: Callable[..., ArrayDataset]
    epochs: int
    batch_size: int
    lr: float
    augmented: bool = False


def _digits(root: str | None, *, train: bool, download: bool) -> ArrayDataset:
    if root is not None:
        raise ArgumentError("digits", "they come with clnet", data=root, remedy="Leave --data out")
    return Digits(train=train)


TASKS = {
    "fashion-mnist": Task(FashionMNIST, epochs=4, batch_size=128, lr=2e-3),
    "mnist": Task(MNIST, epochs=3, batch_size=128, lr=2e-3),
    "digits": Task(_digits, epochs=20, batch_size=32, lr=2e-3),
    "cifar10": Task(CIFAR10, epochs=20, batch_size=128, lr=2e-3, augmented=True),
}
_RESIDUAL = {
    "resnet14": models.resnet14,
    "resnet14_bn": models.resnet14_bn,
    "resnet20": models.resnet20,
    "resnet56": models.resnet56,
}
MODELS = ("cnn", "mlp", "lenet", *_RESIDUAL)
_AUTO_EPOCHS = 2  # what `make demo` has time for where it finds Fashion-MNIST


def add_command(commands: Any, shared: argparse.ArgumentParser) -> None:
    """Put the command into the parser.

    Args:
        commands: where sub-commands are added.
        shared: options of all commands.
    """
    parser = commands.add_parser(
        "train",
        parents=[shared],
        help="train a network on a data set",
        description="Train a network on a data set. `clnet train DATASET --help` lists the options "
        "of each.",
    )
    kinds = parser.add_subparsers(required=True, metavar="dataset")
    training = options.training_options()
    _add_image_options(training)
    auto = (
        f"{_AUTO_EPOCHS} epochs of fashion-mnist if CLNET_DATA or the cache has it, else the "
        "digits that come with clnet"
    )
    for name in ("auto", *TASKS):
        text = auto if name == "auto" else f"images of {name}"
        kind = kinds.add_parser(
            name,
            parents=[shared, training],
            help=text,
            description=f"Train a network on {text}, and print its accuracy on the test images. "
            "Options that are left out get values that suit the data set.",
        )
        kind.set_defaults(run=run, dataset=name)
    train_text.add_command(kinds, shared)


def _add_image_options(training: argparse.ArgumentParser) -> None:
    """Options of trainings on images alone."""
    training.add_argument("--model", choices=MODELS, default="cnn", help="default: %(default)s")
    training.add_argument(
        "--width", type=int, metavar="N", help="channels of a residual network's first stage: 16"
    )
    training.add_argument(
        "--augment",
        action=argparse.BooleanOptionalAction,
        help="shift and mirror the training images (default: for cifar10)",
    )
    training.add_argument(
        "--erase",
        type=float,
        metavar="P",
        help="erase a rectangle of a training image with this probability",
    )
    training.add_argument(
        "--label-smoothing",
        type=float,
        default=0.0,
        metavar="PART",
        help="of the targets' weight, spread over all classes",
    )
    training.add_argument(
        "--validation",
        type=float,
        metavar="PART",
        help="hold out so many of the training images, as a part of 1, and measure them after "
        "every epoch instead of the test images",
    )
    training.add_argument("--data", metavar="PATH", help="folder of the data set's files")
    training.add_argument("--download", action="store_true", help="download it if absent")


def run(arguments: argparse.Namespace) -> int:
    """Train and report."""
    options.check(arguments)
    name, task = _chosen(arguments)
    epochs = arguments.epochs or task.epochs
    chosen, generator = options.opened(arguments)
    training, test = (
        task.load(arguments.data, train=train, download=arguments.download)
        for train in (True, False)
    )
    loader, validation_loader, test_loader = _loaders(task, training, test, arguments)
    with mode.using(device=chosen, generator=generator):
        shape = training.arrays[0].shape[1:]
        model = _model(arguments, shape, len(training.classes))
        if options.is_first():
            print(f"{name}: {len(loader.dataset)} training images, {len(test)} test images")
            print(f"{arguments.model}: {sum(p.numel() for p in model.parameters()):,} parameters")
            print(f"device: {options.where(chosen, arguments)}", flush=True)
        optimizer = options.optimizer(model, arguments, lr=task.lr)
        trainer = Trainer(
            options.spread(model, arguments),
            partial(cross_entropy, label_smoothing=arguments.label_smoothing),
            optimizer,
            scheduler=options.scheduler(optimizer, arguments, steps=epochs * len(loader)),
            scheduler_per_batch=True,
            metrics={"accuracy": accuracy},
            precision=arguments.precision,
            clip_grad_norm=arguments.clip,
            compile=not arguments.no_compile,
            checkpoint=arguments.checkpoint,
            callbacks=options.callbacks(arguments, model, (loader.batch_size, *shape)),
            log_every=arguments.log_every,
        )
        if arguments.find_lr:
            return options.suggest_rate(trainer, loader)
        with options.training(trainer, arguments):
            trainer.fit(loader, validation_loader, epochs=epochs)
            result = trainer.evaluate(test_loader)
    if options.is_first():
        place = options.where(chosen, arguments)
        print(f"test accuracy {result['accuracy']:.4f} on {place}")
    return 0


def _chosen(arguments: argparse.Namespace) -> tuple[str, Task]:
    name = arguments.dataset
    if name != "auto":
        return name, TASKS[name]
    if any(folder.is_dir() for folder in places(arguments.data, FOLDERS)):
        return "fashion-mnist", replace(TASKS["fashion-mnist"], epochs=_AUTO_EPOCHS)
    return "digits", TASKS["digits"]


def _model(arguments: argparse.Namespace, shape: Sequence[int], classes: int) -> Module:
    name, width = arguments.model, arguments.width
    if name in _RESIDUAL:
        if shape[0] != 3:
            raise ArgumentError(name, "it takes images of three channels", images=tuple(shape))
        return _RESIDUAL[name](classes, width=16 if width is None else width)
    if width is not None:
        raise ArgumentError("train", "--width is a residual network's", model=name)
    if name == "lenet":
        if tuple(shape[1:]) != (28, 28):
            raise ArgumentError(name, "it takes images of 28x28", images=tuple(shape))
        return models.LeNet(classes, in_channels=shape[0])
    return {"cnn": CNN, "mlp": MLP}[name](shape, classes)


def _loaders(
    task: Task, training: ArrayDataset, test: Dataset, arguments: argparse.Namespace
) -> tuple[DataLoader, DataLoader, DataLoader]:
    """Of the training images, of those measured after each epoch, and of the test images."""
    images: Any = training.arrays[0]
    examples, held_out = training, test
    if arguments.validation is not None:
        part = arguments.validation
        if not 0 < part < 1:
            raise ArgumentError("train", "validation lies between 0 and 1", validation=part)
        examples, held_out = random_split(training, [1 - part, part], seed=arguments.seed)
        images = images[np.sort(examples.indices)]
    normalize = Normalize.of(images)
    augmented = task.augmented if arguments.augment is None else arguments.augment
    varied: list[Transform] = [normalize]
    if augmented:
        varied = [RandomHorizontalFlip(), RandomCrop(4), normalize]
    if arguments.erase is not None:
        varied.append(RandomErasing(arguments.erase))
    size = task.batch_size if arguments.batch_size is None else arguments.batch_size
    loader = DataLoader(
        examples,
        size,
        shuffle=True,
        seed=arguments.seed,
        transform=Compose(varied),
    )
    measured, tested = (
        DataLoader(data, max(size, 256), transform=normalize) for data in (held_out, test)
    )
    return loader, measured, tested
