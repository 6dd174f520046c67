"""The ECE408 course report: a network for 48x48 Fashion-MNIST is trained, then asked and profiled.

Training and asking are processes of their own: the second one answers for all 10,000 test images in
one batch and reports what a course asks for: accuracy, time by layer, the kernels and the API calls
that make up 90%, wall time, processor and memory.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from .. import data, models
from ..autodiff.tape import no_grad
from ..compile import compile as compiled
from ..device import Device, device, synchronize
from ..io import load_state, save_state
from ..nn import functional as F
from ..optim import Adam
from ..profiling import Profile, profile
from ..profiling.table import duration, module_of, size
from ..profiling.two_tables import kernels_against_calls
from ..tensor import Tensor, tensor
from ..train import Trainer, accuracy
from ..values import mode
from ..values.generator import Generator
from ..values.settings import SETTINGS
from .workload import check_counts

_BAR = 0.8236
_BATCH, _LR = 100, 1e-3
_WHITE = 255.0
_ASK = "import sys; from clnet.bench.ece408 import ask; ask(sys.argv[1])"


def train(where: Device, folder: str | None, *, epochs: int, steps: int | None) -> models.ECE408:
    """The trained network.

    Args:
        where: the device.
        folder: of the data set's files.
        epochs: passes over the 60,000 images.
        steps: of a pass, when not all.
    """
    whole = data.ECE408(folder, train=True)
    many = len(whole) if steps is None else steps * _BATCH
    images, labels = (part[:many] for part in whole.arrays)
    loader = data.DataLoader(
        data.ArrayDataset(images, labels, classes=whole.classes),
        _BATCH,
        shuffle=True,
        drop_last=True,
        transform=data.ToFloat(_WHITE),
    )
    with mode.using(device=where, generator=Generator().manual_seed(0)):
        model = models.ece408()
        optimizer = Adam(model.parameters(), lr=_LR)
        trainer = Trainer(model, F.cross_entropy, optimizer, metrics={"accuracy": accuracy})
        trainer.fit(loader, epochs=epochs)
    return model


def ask(job: str) -> None:
    """Answer for the test images in one batch and report; the work of a process of its own.

    Args:
        job: JSON with ``weights``, ``device``, ``data``, ``images``, ``html`` and ``trace``.
    """
    wanted = json.loads(job)
    with profile(whole_program=True) as observed:
        where = device(wanted["device"])
        test = data.ECE408(wanted["data"], train=False)
        images, labels = (part[: wanted["images"]] for part in test.arrays)
        with mode.using(device=where):
            model = models.ece408()
        model.load_state_dict(load_state(wanted["weights"]).arrays)
        model.eval()

        def answer(x: Tensor) -> Tensor:
            with no_grad():
                return F.softmax(model(x), 1)

        x = tensor(images.astype(np.float32) / np.float32(_WHITE), device=where)
        found = compiled(answer)(x).numpy().argmax(1)
        synchronize(where)
    correct = float((found == labels).mean())
    if wanted["html"]:
        observed.save_html(wanted["html"], "ECE408: Fashion-MNIST at 48x48")
    if wanted["trace"]:
        observed.save_trace(wanted["trace"])
    print(report(observed, correct, len(labels)))


def report(observed: Profile, correct: float, images: int) -> str:
    """The course's report.

    Args:
        observed: the profile of the whole program.
        correct: the share of images answered right.
        images: how many there were.
    """
    before = observed.start.process or 0.0
    wall = before + observed.wall
    verdict = "above" if correct > _BAR else "NOT above"
    layers = observed.totals(module_of)
    in_order = dict.fromkeys(module_of(c) for c in observed.commands)
    times = [f"Op time: {layers[name].seconds:.6f} s  {name}" for name in in_order]
    lines = [
        f"{images} images in one batch",
        *times,
        f"Correctness: {correct:.4f}, {verdict} the course's {_BAR}",
        f"Wall time: {wall:.2f} s, of which {before:.2f} s Python and imports; CPU: "
        f"{100 * time.process_time() / wall:.0f}%; maximum RSS: "
        f"{size(observed.peak_resident_bytes)}; device time: {duration(observed.device_seconds)}",
    ]
    return "\n\n".join(
        ("\n".join(lines), observed.summary(), kernels_against_calls(observed)),
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Train, then ask; ``--help`` lists the options.

    Returns:
        The exit code of the process that asked.
    """
    parser = argparse.ArgumentParser(prog="clnet bench ece408", description=__doc__)
    parser.add_argument("--device", help="as in clnet.device()")
    parser.add_argument("--data", help="folder of the Fashion-MNIST files")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--steps", type=int, help="of an epoch, when not all")
    parser.add_argument("--images", type=int, default=10_000, help="of the test set (10,000)")
    parser.add_argument("--weights", metavar="FILE", help="use these, made by an earlier run")
    parser.add_argument("--html", metavar="FILE", help="write a report with charts")
    parser.add_argument("--trace", metavar="FILE", help="write a trace for ui.perfetto.dev")
    options = parser.parse_args(argv)
    check_counts("bench ece408", options, "epochs", "steps", "images")
    weights = _weights(options)
    job = {"weights": str(weights), "device": options.device, "data": options.data}
    job |= {"images": options.images, "html": options.html, "trace": options.trace}
    return subprocess.run([sys.executable, "-c", _ASK, json.dumps(job)], check=False).returncode


def _weights(options: argparse.Namespace) -> Path:
    """The file of the trained network; trained now unless one is given."""
    if options.weights is not None:
        return Path(options.weights)
    where = device(options.device)
    model = train(where, options.data, epochs=options.epochs, steps=options.steps)
    path = SETTINGS.cache_dir / "bench" / "ece408.safetensors"
    path.parent.mkdir(parents=True, exist_ok=True)
    save_state(path, {k: v.numpy() for k, v in model.state_dict().items()})
    print(f"weights: {path}", flush=True)
    return path


if __name__ == "__main__":
    sys.exit(main())
