"""What the commands that train share: their options, and what is made of them."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path

from .. import optim
from ..data import DataLoader
from ..device import Device, device
from ..errors import ArgumentError
from ..nn import DataParallel, Module
from ..nn.parallel import DistributedDataParallel
from ..ranks.membership import get_rank, get_world_size, init_process_group, is_initialized
from ..train import (
    Callback,
    Curves,
    StepTimes,
    TensorBoard,
    TensorStatistics,
    Trainer,
    find_learning_rate,
)
from ..train.steps import PRECISIONS
from ..values.dtypes import DType, float32
from ..values.generator import Generator
from ..values.settings import SETTINGS
from .board import served

# By name: the class, how its usual learning rate relates to Adam's, and its settings.
OPTIMIZERS: dict[str, tuple[Callable[..., optim.Optimizer], float, dict[str, float | bool]]] = {
    "adam": (optim.Adam, 1.0, {}),
    "adamw": (optim.AdamW, 1.0, {}),
    "sgd": (optim.SGD, 25.0, {"momentum": 0.9, "nesterov": True}),
    "rmsprop": (optim.RMSprop, 0.5, {}),
}
SCHEDULES = ("cosine", "step", "constant")
_SHOWN_IMAGES = 16
_OF_NO_SETTING = ("run", "debug")
_DROPS = (0.5, 0.75)  # parts of a training after which the rate of "step" falls to a tenth


def training_options() -> argparse.ArgumentParser:
    """A parser with the options of every training, to be another one's parent."""
    parser = argparse.ArgumentParser(add_help=False)
    add = parser.add_argument
    add("--epochs", type=int, help="epochs in all")
    add("--batch-size", type=int, help="examples in a batch")
    add("--lr", type=float, help="learning rate")
    add(
        "--find-lr",
        action="store_true",
        help="train no further than it takes to suggest a learning rate",
    )
    add("--optimizer", choices=OPTIMIZERS, default="adam", help="default: %(default)s")
    add("--weight-decay", type=float, default=0.0, help="default: %(default)s")
    add(
        "--schedule",
        choices=SCHEDULES,
        default="cosine",
        help="how the rate falls: to 0 along a cosine, or to a tenth at a half and three quarters; "
        "default: %(default)s",
    )
    add(
        "--precision",
        choices=PRECISIONS,
        default="fp32",
        help="of products: bf16 and fp16 store and multiply in 16 bits (autocast), fp16 with "
        "scaled gradients; default: %(default)s",
    )
    add("--clip", type=float, metavar="NORM", help="the most that all gradients may measure")
    add("--seed", type=int, default=0, help="chooses weights, order and dropout")
    add("--device", help="such as nvidia:0, pocl, cpu, gpu (see: clnet devices)")
    add("--threads", type=int, help="compute units of a CPU to use")
    add(
        "--devices",
        metavar="NAMES",
        help="several, such as nvidia:0,nvidia:1: each computes a part of every batch (for several "
        "processes: mpirun -n 2 clnet train ...)",
    )
    add("--no-compile", action="store_true", help="run every op as it comes")
    add("--checkpoint", metavar="DIR", help="folder for checkpoints")
    add("--resume", action="store_true", help="go on from the checkpoint in DIR")
    _add_watching(parser)
    return parser


def _add_watching(parser: argparse.ArgumentParser) -> None:
    """Options that show a training and change nothing of it."""
    add = parser.add_argument
    add("--curves", metavar="FILE", help="draw loss and metrics, such as curves.png")
    add("--tensorboard", metavar="DIR", help="write the run for TensorBoard")
    add(
        "--board",
        nargs="?",
        const="runs",
        metavar="DIR",
        help="show the training live: write it for TensorBoard into a new folder in DIR (runs), "
        "and serve the page while it goes on",
    )
    add(
        "--log-every",
        type=int,
        default=100,
        metavar="N",
        help="print a line after every Nth step where there is no terminal; default: %(default)s",
    )
    add(
        "--statistics",
        action="store_true",
        help="after every epoch mean, deviation and histogram of every tensor (for TensorBoard, "
        "too)",
    )
    add(
        "--times",
        type=int,
        metavar="N",
        help="split the device's time of every Nth step into forward, backward and update",
    )


def check(arguments: argparse.Namespace) -> None:
    """Refuse options that do not fit together.

    Raises:
        ArgumentError: if a checkpoint is to be resumed that has no folder, a count is below 1, or
            another option makes no sense.
    """
    for name in ("--epochs", "--times", "--log-every"):
        count = vars(arguments)[name[2:].replace("-", "_")]
        if count is not None and count < 1:
            raise ArgumentError("train", f"{name} is 1 or more", **{name: count})
    if arguments.clip is not None and not arguments.clip > 0:
        raise ArgumentError("train", "--clip is above 0", **{"--clip": arguments.clip})
    if arguments.devices is not None and not all(map(str.strip, arguments.devices.split(","))):
        law = "--devices is one name or more, with commas (see: clnet devices)"
        raise ArgumentError("train", law, **{"--devices": repr(arguments.devices)})
    if arguments.devices and (arguments.device or arguments.threads or SETTINGS.ranks > 1):
        raise ArgumentError(
            "train",
            "--devices goes without --device, --threads and mpirun",
            **{"--devices": arguments.devices},
        )
    if arguments.find_lr and (arguments.devices or SETTINGS.ranks > 1):
        raise ArgumentError("train", "--find-lr runs in one process on one device")
    if arguments.board is not None and arguments.tensorboard is not None:
        raise ArgumentError("train", "--board and --tensorboard both name the run's folder")
    if arguments.resume and arguments.checkpoint is None:
        raise ArgumentError("train", "--resume needs --checkpoint DIR")


def opened(arguments: argparse.Namespace) -> tuple[Device, Generator]:
    """The device and the generator of a training; processes of ``mpirun`` are joined.

    Each draws numbers of its own. The device of ``--device gpu:{rank}`` is that of the rank.
    """
    rank, name = 0, arguments.device
    if SETTINGS.ranks > 1:
        if not is_initialized():
            init_process_group()
        rank = get_rank()
        name = None if name is None else name.replace("{rank}", str(rank))
    generator = Generator().manual_seed(arguments.seed + rank)
    if arguments.devices:
        return device(arguments.devices.split(",")[0]), generator
    return device(name, threads=arguments.threads), generator


def spread(model: Module, arguments: argparse.Namespace) -> Module:
    """The model in several processes, or on several devices, as was asked for."""
    if SETTINGS.ranks > 1:
        return DistributedDataParallel(model)
    if arguments.devices:
        return DataParallel(model, arguments.devices.split(","))
    return model


def is_first() -> bool:
    """Whether this is the process that prints."""
    return not is_initialized() or get_rank() == 0


def optimizer(model: Module, arguments: argparse.Namespace, *, lr: float) -> optim.Optimizer:
    """The optimiser of a model.

    Args:
        model: whose parameters.
        arguments: the options.
        lr: the rate that suits Adam, for those who give none.
    """
    make, factor, settings = OPTIMIZERS[arguments.optimizer]
    rate = lr * factor if arguments.lr is None else arguments.lr
    return make(model.parameters(), lr=rate, weight_decay=arguments.weight_decay, **settings)


def scheduler(
    of: optim.Optimizer, arguments: argparse.Namespace, *, steps: int
) -> optim.lr_scheduler.LRScheduler:
    """The schedule of the learning rate over so many steps."""
    if arguments.schedule == "cosine":
        return optim.lr_scheduler.CosineAnnealingLR(of, steps)
    drops = [] if arguments.schedule == "constant" else [int(part * steps) for part in _DROPS]
    return optim.lr_scheduler.MultiStepLR(of, drops)


def callbacks(
    arguments: argparse.Namespace,
    model: Module,
    input_shape: Sequence[int],
    input_dtype: DType = float32,
) -> list[Callback]:
    """What looks on at the training, as the options ask.

    Args:
        arguments: the options.
        model: what is trained.
        input_shape: of a batch.
        input_dtype: of the inputs.
    """
    chosen: list[Callback] = []
    if arguments.times is not None:
        first = not is_initialized() or get_rank() == 0
        chosen.append(StepTimes(arguments.times, shown=first))
    statistics = TensorStatistics(shown=True) if arguments.statistics else None
    if statistics is not None:
        chosen.append(statistics)
    if arguments.curves is not None and is_first():
        chosen.append(Curves(arguments.curves))
    folder = arguments.tensorboard
    if arguments.board is not None:
        what = Path(str(vars(arguments).get("dataset") or arguments.path)).stem
        folder = Path(arguments.board) / time.strftime(f"{what}-{arguments.model}-%m%d-%H%M%S")
    if folder is not None and is_first():
        texts = {
            "settings": "\n".join(
                f"--{name.replace('_', '-')} {value}"
                for name, value in vars(arguments).items()
                if value is not None and value is not False and name not in _OF_NO_SETTING
            ),
            "model": str(model.summary(input_shape, input_dtype=input_dtype)),
        }
        chosen.append(TensorBoard(folder, statistics, images=_SHOWN_IMAGES, texts=texts))
    return chosen


@contextmanager
def training(trainer: Trainer, arguments: argparse.Namespace) -> Iterator[None]:
    """What is around a training: its checkpoint and the page of ``--board``.

    It goes on from the checkpoint if that is asked for, else it says which one it is about to
    replace; whoever stops it by Ctrl-C is told how to go on.

    Raises:
        CheckpointError: if there is none to go on from, or it is of another training.
    """
    last = trainer.last_checkpoint
    if arguments.resume:
        trainer.resume()
    elif last is not None and last.exists() and is_first():
        print(f"{last}: replaced by this training; --resume would go on from it", flush=True)
    no_board = arguments.board is None or not is_first()
    with nullcontext() if no_board else served(Path(arguments.board)):
        try:
            yield
        except KeyboardInterrupt:
            if last is not None and last.exists() and is_first():
                print(f"{last}: the same command with --resume goes on from here", flush=True)
            raise


def suggest_rate(trainer: Trainer, loader: DataLoader) -> int:
    """Print a learning rate for a trainer's model, and the losses that speak for it."""
    search = find_learning_rate(trainer.model, trainer.loss_fn, trainer.optimizer, loader)
    for rate, loss in list(zip(search.rates, search.losses, strict=True))[::5]:
        print(f"{rate:10.3g}  loss {loss:.4f}")
    print(f"suggested learning rate {search.suggestion:.2g}")
    return 0


def described(chosen: Device) -> str:
    """A device's name, and what it is."""
    return f"{chosen.name} ({chosen.identity.name}, {chosen.identity.platform})"


def where(chosen: Device, arguments: argparse.Namespace) -> str:
    """:func:`described`, and how many of them there are."""
    if arguments.devices:
        return f"{arguments.devices} ({chosen.identity.name}, {chosen.identity.platform})"
    if is_initialized() and get_world_size() > 1:
        return f"{described(chosen)}, {get_world_size()} processes"
    return described(chosen)
