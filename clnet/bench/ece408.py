"""The ECE408 course report: a network for 48x48 Fashion-MNIST is trained, then asked and profiled.

Training and asking are processes of their own: the second one answers for all 10,000 test images in
one batch and reports what a course asks for: accuracy, time by layer, the kernels and the API calls
that make up 90%, wall time, processor and memory. Several devices, or numbers of threads of a CPU,
are asked one after another, and stand in one table at the end.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .. import data, models
from ..autodiff.tape import no_grad
from ..compile import compile as compiled
from ..device import Device, DeviceKind, device, synchronize
from ..errors import ArgumentError
from ..io import load_state, save_state
from ..nn import functional as F
from ..optim import Adam
from ..profiling import Profile, profile
from ..profiling.table import aligned, duration, module_of, size
from ..profiling.two_tables import kernels_against_calls
from ..tensor import Tensor, tensor
from ..train import Trainer, accuracy
from ..values import mode
from ..values.generator import Generator
from ..values.settings import SETTINGS
from . import own_process
from .own_process import Fields
from .timing import environment_of
from .workload import check_counts, check_files

_BAR = 0.8236
_BATCH, _LR = 100, 1e-3
_WHITE = 255.0


def train(where: Device, whole: Any, *, epochs: int, steps: int | None) -> models.ECE408:
    """The trained network.

    Args:
        where: the device.
        whole: the data set.
        epochs: passes over the 60,000 images.
        steps: of a pass, when not all.
    """
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


def worker(job: Fields) -> None:
    """Answer for the test images in one batch and report; the work of a process of its own.

    Args:
        job: has ``weights``, ``device``, ``threads``, ``data``, ``images``, ``html`` and
            ``trace``.
    """
    with profile(whole_program=True) as observed:
        where = _opened(job["device"], job["threads"])
        test = data.ECE408(job["data"], train=False)
        images, labels = (part[: job["images"]] for part in test.arrays)
        with mode.using(device=where):
            model = models.ece408()
        model.load_state_dict(load_state(job["weights"]).arrays)
        model.eval()

        def answer(x: Tensor) -> Tensor:
            with no_grad():
                return F.softmax(model(x), 1)

        x = tensor(images.astype(np.float32) / np.float32(_WHITE), device=where)
        found = compiled(answer)(x).numpy().argmax(1)
        synchronize(where)
    correct = float((found == labels).mean())
    if job["html"]:
        observed.save_html(job["html"], "ECE408: Fashion-MNIST at 48x48")
    if job["trace"]:
        observed.save_trace(job["trace"])
    print(report(observed, correct, len(labels)))
    own_process.tell(_figures(observed, correct, where))


def _opened(name: str | None, threads: int | None) -> Device:
    """The device; one that has so many units need not be divided."""
    where = device(name)
    if threads is None or where.traits.compute_units == threads:
        return where
    return device(name, threads=threads)


def _figures(observed: Profile, correct: float, where: Device) -> Fields:
    """What stands in a column of the table of several devices."""
    layers = observed.totals(module_of)
    before = observed.start.process or 0.0
    wall = before + observed.wall
    return {
        "name": where.name,
        "layers": {module_of(c): layers[module_of(c)].seconds for c in observed.commands},
        "device_seconds": observed.device_seconds,
        "wall": wall,
        "processor": time.process_time() / wall,
        "resident": observed.peak_resident_bytes,
        "correct": correct,
    }


def beside(found: Sequence[Fields]) -> str:
    """One table of several devices, a column for each.

    Args:
        found: the figures of each, as :func:`ask` has them.
    """
    names = list(dict.fromkeys(name for f in found for name in f["layers"]))
    rows = [(*(f["title"] for f in found), "")]
    for name in names:
        times = [f["layers"].get(name) for f in found]
        rows.append((*("-" if s is None else duration(s) for s in times), name))
    rows += [
        (*(duration(f["device_seconds"]) for f in found), "all on the device"),
        (*(f"{f['wall']:.2f} s" for f in found), "wall time"),
        (*(f"{100 * f['processor']:.0f}%" for f in found), "of a processor"),
        (*(size(f["resident"]) for f in found), "maximum RSS"),
        (*(f"{f['correct']:.4f}" for f in found), "correctness"),
    ]
    return aligned(rows)


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
    parser.add_argument("--device", help="as in clnet.device(); several with commas, as cpu,gpu")
    parser.add_argument("--threads", help="of a CPU; several with commas, as 1,2")
    parser.add_argument("--data", help="folder of the Fashion-MNIST files")
    parser.add_argument("--download", action="store_true", help="download them if absent")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--steps", type=int, help="of an epoch, when not all")
    parser.add_argument("--images", type=int, default=10_000, help="of the test set (10,000)")
    parser.add_argument("--weights", metavar="FILE", help="use these, made by an earlier run")
    parser.add_argument("--html", metavar="FILE", help="write a report with charts")
    parser.add_argument("--trace", metavar="FILE", help="write a trace for ui.perfetto.dev")
    options = parser.parse_args(argv)
    check_counts("bench ece408", options, "epochs", "steps", "images")
    check_files("bench ece408", options, "html", "trace")
    places = _places(options)
    if options.download:  # the test images, too, before anything is trained
        data.ECE408(options.data, train=False, download=True)
    weights = _weights(options, *places[0])
    found: list[Fields] = []
    worst = 0
    for name, threads in places:
        job: Fields = {"weights": str(weights), "device": name, "threads": threads}
        job |= {"data": options.data, "images": options.images}
        job |= {"html": options.html, "trace": options.trace}
        code, figures = _in_process(job)
        worst = max(worst, code)
        if figures is not None:
            found.append(figures)
    if len(places) > 1:
        print("\n" + beside(found))
    return worst


def _places(options: argparse.Namespace) -> list[tuple[str | None, int | None]]:
    """Devices and threads to ask on, in order.

    Raises:
        ArgumentError: if threads are no numbers, or no device is a CPU.
    """
    names = [None] if options.device is None else options.device.split(",")
    if options.threads is None:
        return [(name, None) for name in names]
    if re.fullmatch(r"[1-9]\d{0,3}(,[1-9]\d{0,3})*", options.threads) is None:
        law = "--threads is given as 2, or 1,2"
        raise ArgumentError("bench ece408", law, threads=options.threads)
    counts = [int(text) for text in options.threads.split(",")]
    cpus = [name for name in names if device(name).traits.kind is DeviceKind.CPU]
    if not cpus:
        law = "threads are a CPU's"
        raise ArgumentError("bench ece408", law, device=device(names[0]).name)
    for threads in counts:
        device(cpus[0], threads=threads)  # refuses more than there are
    return [(n, t) for n in names for t in (counts if n in cpus else [None])]


def _in_process(job: Fields) -> tuple[int, Fields | None]:
    """Ask in a process of its own: its exit code, and its figures, if it came to any."""
    line = own_process.command("ece408", job, environment_of(job["threads"]))
    done = own_process.completed(line)
    print(done.text, flush=True)
    if not done.figures:
        return done.code or 1, None
    figures = done.figures[-1]
    threads = "" if job["threads"] is None else f", {job['threads']} threads"
    return done.code, {**figures, "title": (job["device"] or figures["name"]) + threads}


def _weights(options: argparse.Namespace, name: str | None, threads: int | None) -> Path:
    """The file of the trained network; trained now unless one is given."""
    if options.weights is not None:
        return Path(options.weights)
    whole = data.ECE408(options.data, train=True, download=options.download)
    where = _opened(name, threads)
    model = train(where, whole, epochs=options.epochs, steps=options.steps)
    path = SETTINGS.cache_dir / "bench" / "ece408.safetensors"
    path.parent.mkdir(parents=True, exist_ok=True)
    save_state(path, {k: v.numpy() for k, v in model.state_dict().items()})
    print(f"weights: {path}", flush=True)
    return path


if __name__ == "__main__":
    sys.exit(main())
