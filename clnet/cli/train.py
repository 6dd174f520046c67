"""``clnet train``: a network on a data set, with settings that suit it."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from .. import mode, optim
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
    RandomHorizontalFlip,
)
from ..data.fashion_mnist import FOLDERS
from ..data.source import places
from ..device import Device, device
from ..errors import ArgumentError
from ..generator import Generator
from ..models import CNN, MLP
from ..nn import Module
from ..ops import cross_entropy
from ..train import Trainer, accuracy


@dataclass(frozen=True)
class Task:
    """A data set, and the settings that suit it.

    Attributes:
        load: ``load(root, train=..., download=...)``.
        epochs, batch_size, lr: the defaults (``lr`` for Adam).
        augmented: whether training images are shifted and mirrored.
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
MODELS: dict[str, Callable[..., Module]] = {"cnn": CNN, "mlp": MLP}
# The learning rates of the tasks are Adam's; what suits the others relates to them like this.
OPTIMIZERS: dict[str, tuple[Callable[..., optim.Optimizer], float, dict[str, float]]] = {
    "adam": (optim.Adam, 1.0, {}),
    "adamw": (optim.AdamW, 1.0, {}),
    "sgd": (optim.SGD, 25.0, {"momentum": 0.9}),
    "rmsprop": (optim.RMSprop, 0.5, {}),
}


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
        description="Train a network and print its accuracy on the test images. Options that are "
        "left out get values that suit the data set.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument(
        "dataset",
        choices=["auto", *TASKS],
        help=f"auto: {_AUTO_EPOCHS} epochs of fashion-mnist if CLNET_DATA or the cache has it, "
        "else the digits that come with clnet",
    )
    parser.add_argument("--model", choices=MODELS, default="cnn", help="the network")
    parser.add_argument("--epochs", type=int, help="epochs in all")
    parser.add_argument("--batch-size", type=int, help="examples in a batch")
    parser.add_argument("--lr", type=float, help="learning rate; it falls to 0 along a cosine")
    parser.add_argument("--optimizer", choices=OPTIMIZERS, default="adam", help="the optimiser")
    parser.add_argument("--seed", type=int, default=0, help="chooses weights, order and dropout")
    parser.add_argument("--device", help="such as nvidia:0, pocl, cpu, gpu (see: clnet devices)")
    parser.add_argument("--threads", type=int, help="compute units of a CPU to use")
    parser.add_argument("--no-compile", action="store_true", help="run every op as it comes")
    parser.add_argument("--checkpoint", metavar="DIR", help="folder for checkpoints")
    parser.add_argument("--resume", action="store_true", help="go on from the checkpoint in DIR")
    parser.add_argument("--data", metavar="PATH", help="folder of the data set's files")
    parser.add_argument("--download", action="store_true", help="download the data set if absent")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Train and report."""
    name, task = _chosen(arguments)
    epochs = task.epochs if arguments.epochs is None else arguments.epochs
    if epochs < 1:
        raise ArgumentError("train", "epochs is 1 or more", epochs=epochs)
    if arguments.resume and arguments.checkpoint is None:
        raise ArgumentError("train", "--resume needs --checkpoint DIR")
    chosen = device(arguments.device, threads=arguments.threads)
    generator = Generator().manual_seed(arguments.seed)
    training, test = (
        task.load(arguments.data, train=train, download=arguments.download)
        for train in (True, False)
    )
    loader, test_loader = _loaders(task, training, test, arguments)
    with mode.using(device=chosen, generator=generator):
        model = MODELS[arguments.model](training.arrays[0].shape[1:], len(training.classes))
        print(f"{name}: {len(training)} training images, {len(test)} test images")
        print(f"{arguments.model}: {sum(p.numel() for p in model.parameters()):,} parameters")
        print(f"device: {_described(chosen)}", flush=True)
        trainer = _trainer(model, task, arguments, steps=epochs * len(loader))
        if arguments.resume:
            trainer.resume()
        trainer.fit(loader, test_loader, epochs=epochs)
        result = trainer.evaluate(test_loader)
    print(f"test accuracy {result['accuracy']:.4f} on {_described(chosen)}")
    return 0


def _chosen(arguments: argparse.Namespace) -> tuple[str, Task]:
    name = arguments.dataset
    if name != "auto":
        return name, TASKS[name]
    if any(folder.is_dir() for folder in places(arguments.data, FOLDERS)):
        return "fashion-mnist", replace(TASKS["fashion-mnist"], epochs=_AUTO_EPOCHS)
    return "digits", TASKS["digits"]


def _loaders(
    task: Task, training: ArrayDataset, test: Dataset, arguments: argparse.Namespace
) -> tuple[DataLoader, DataLoader]:
    normalize = Normalize.of(training.arrays[0])
    varied = Compose([RandomHorizontalFlip(), RandomCrop(4), normalize])
    size = task.batch_size if arguments.batch_size is None else arguments.batch_size
    loader = DataLoader(
        training,
        size,
        shuffle=True,
        seed=arguments.seed,
        transform=varied if task.augmented else normalize,
    )
    return loader, DataLoader(test, max(size, 256), transform=normalize)


def _trainer(model: Module, task: Task, arguments: argparse.Namespace, *, steps: int) -> Trainer:
    make, factor, options = OPTIMIZERS[arguments.optimizer]
    lr = task.lr * factor if arguments.lr is None else arguments.lr
    optimizer = make(model.parameters(), lr=lr, **options)
    return Trainer(
        model,
        cross_entropy,
        optimizer,
        scheduler=optim.lr_scheduler.CosineAnnealingLR(optimizer, steps),
        scheduler_per_batch=True,
        metrics={"accuracy": accuracy},
        compile=not arguments.no_compile,
        checkpoint=arguments.checkpoint,
    )


def _described(chosen: Device) -> str:
    return f"{chosen.name} ({chosen.identity.name}, {chosen.identity.platform})"
