#!/usr/bin/env python3
"""Networks that nobody tuned for, trained and asked with clnet and with PyTorch.

    python ci/unseen.py [--device nvidia:0] [--batch N] [--rounds N] [--check] [--eager] [--profile]
        [NETWORK ...]

Both begin with the same weights. Losses of four steps, gradients of the first and answers are
compared, clnet's eager ones and compiled ones; then steps are timed in turns with PyTorch's eager
ones (two threads; with ``--device``, its first CUDA device). ``--batch`` repeats all inputs along
their first axis, which some networks do not take. Prints milliseconds of clnet compiled, and
PyTorch's time over it: of a training step, of an answer; and the seconds of the first compiled
step.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
os.environ.setdefault("POCL_AFFINITY", "1")

import numpy as np
import torch

import clnet
from ci.unseen_networks import NETWORKS, Case

STEPS = 4
TURN = 0.06


class Side:
    """A case in one library.

    Args:
        library: ``torch`` or ``clnet``.
        case: made for it.
        wrap: compiles a function, or gives it.
    """

    def __init__(self, library: Any, case: Case, wrap: Callable[[Any], Any]) -> None:
        self.library, self.case = library, case
        self.inputs = [library.tensor(x) for x in case.inputs]
        self.optimizer = case.optimizer(library, case.model.parameters())
        self.step = wrap(self._step)
        self.ask = wrap(self._ask)

    def _step(self, *inputs: Any) -> Any:
        if self.case.train is not None:
            return self.case.train(self.case.model, self.optimizer, *inputs)
        assert self.case.loss is not None
        self.optimizer.zero_grad()
        loss = self.case.loss(self.case.model, *inputs)
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    def _ask(self, *inputs: Any) -> Any:
        assert self.case.answer is not None
        with self.library.no_grad():
            return self.case.answer(self.case.model, *inputs)

    def losses(self) -> tuple[list[float], dict[str, np.ndarray], float]:
        """Of some steps; the first one's gradients, and its seconds."""
        found, gradients, first = [], {}, 0.0
        for number in range(STEPS):
            begin = time.perf_counter()
            found.append(float(self.step(*self.inputs)))
            if number == 0:
                first = time.perf_counter() - begin
                for name, p in self.case.model.named_parameters():
                    if p.grad is not None:
                        gradients[name] = np.array(p.grad.detach().cpu().numpy())
        return found, gradients, first

    def answer(self) -> np.ndarray:
        """Of a network in evaluation."""
        self.case.model.eval()
        return np.array(self.ask(*self.inputs).cpu().numpy()).astype(np.float64)

    def wait(self) -> None:
        """Until all is done."""
        if self.library is clnet:
            clnet.synchronize()
        elif torch.cuda.is_available():
            torch.cuda.synchronize()


def made(name: str, library: Any, weights: dict[str, np.ndarray] | None, batch: int) -> Case:
    """A case of so many times its inputs, with those weights."""
    torch.manual_seed(0)
    case = NETWORKS[name](library)
    case.inputs = [np.concatenate([x] * batch) for x in case.inputs]
    if weights is not None:
        state = {k: clnet.tensor(v) for k, v in weights.items()}
        case.model.load_state_dict(state)
    return case


def apart(ours: Any, theirs: Any) -> float:
    """The largest difference, of the largest number."""
    a, b = np.asarray(ours, np.float64), np.asarray(theirs, np.float64)
    if a.shape != b.shape:
        return float("inf")
    return float(np.abs(a - b).max() / (np.abs(b).max() + 1e-12))


def turn(run: Callable[..., Any], side: Side, repeats: int) -> float:
    """Seconds of a call."""
    time.sleep(0.02)
    run(*side.inputs)
    side.wait()
    begin = time.perf_counter()
    for _ in range(repeats):
        run(*side.inputs)
    side.wait()
    return (time.perf_counter() - begin) / repeats


def ratio(which: str, ours: Side, theirs: Side, rounds: int) -> tuple[float, float]:
    """Our milliseconds and PyTorch's time over ours, medians of turns."""
    runs = [(getattr(side, which), side) for side in (ours, theirs)]
    for _ in range(20):  # chains are built beside, behind the 16th replay
        turn(*runs[0], 1)
    time.sleep(1.0)
    counts = [max(2, int(TURN / turn(run, side, 2))) for run, side in runs]
    took = [
        [turn(run, side, n) for (run, side), n in zip(runs, counts, strict=True)]
        for _ in range(rounds)
    ]
    return 1e3 * statistics.median(t[0] for t in took), statistics.median(b / a for a, b in took)


def compare(name: str, options: argparse.Namespace) -> str:
    """A row of the table."""
    case = made(name, torch, None, options.batch)
    weights = {k: v.cpu().numpy().copy() for k, v in case.model.state_dict().items()}
    theirs = Side(torch, case, lambda f: f)
    wanted, gradients, _ = theirs.losses()
    sides: dict[str, Callable[[Any], Any]] = {}
    if not options.eager:
        sides["compiled"] = clnet.compile
    if options.check or options.eager:
        sides["eager"] = lambda f: f
    notes, first, peak, ours = [], 0.0, 0.0, None
    for kind, wrap in sides.items():
        clnet.reset_peak_memory_stats()
        ours = Side(clnet, made(name, clnet, weights, options.batch), wrap)
        losses, found, first = ours.losses()
        off = apart(losses, wanted)
        if not off < 1e-3:
            notes.append(f"{kind} losses {losses} {wanted}")
        if set(found) != set(gradients):
            notes.append(f"{kind} gradients of {set(found) ^ set(gradients)}")
        largest = max(float(np.abs(g).max()) for g in gradients.values())
        for key, value in gradients.items():
            if key in found and not (
                np.abs(found[key] - value).max() < 2e-3 * np.abs(value).max() + 1e-4 * largest
            ):
                notes.append(f"{kind} gradient {key} {apart(found[key], value):.1e}")
        peak = clnet.max_memory_allocated() / 2**20
    assert ours is not None
    train = asked = (float("nan"), float("nan"))
    if options.profile:
        _profiled("step", ours)
    if options.rounds:
        train = ratio("step", ours, theirs, options.rounds)
    if case.answer is not None:
        state = {k: v.detach().cpu().numpy().copy() for k, v in case.model.state_dict().items()}
        ours.case.model.load_state_dict({k: clnet.tensor(v) for k, v in state.items()})
        answers = apart(ours.answer(), theirs.answer())
        if not answers < 2e-3:
            notes.append(f"answers {answers:.1e}")
        if options.profile:
            _profiled("ask", ours)
        if options.rounds:
            asked = ratio("ask", ours, theirs, options.rounds)
    return (
        f"{name:20} {train[0]:8.2f} {train[1]:6.2f}  {asked[0]:8.2f} {asked[1]:6.2f}"
        f"  first {first:5.1f} s  {peak:6.1f} MiB  {'; '.join(notes)[:400]}"
    )


def _profiled(which: str, ours: Side) -> None:
    run = getattr(ours, which)
    for _ in range(3):
        run(*ours.inputs)
    ours.wait()
    with clnet.profile() as seen:
        run(*ours.inputs)
        ours.wait()
    print(which, f"{1e3 * seen.wall:.2f} ms", len(seen.commands), "commands")
    print(seen.table(share=0.95))
    by = sorted(seen.commands, key=lambda c: -c.seconds)[:14]
    for c in by:
        print(
            f"   {1e6 * c.seconds:8.1f} us  {c.name:28} {c.bytes:>10} B {c.flops:>12} flop {c.op}"
        )


def main() -> int:
    """All that are named, or all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("networks", nargs="*")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--check", action="store_true", help="compare eager execution, too")
    parser.add_argument("--eager", action="store_true", help="time clnet eager")
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--device", help="of a GPU that both have; PyTorch's is the first")
    parser.add_argument("--batch", type=int, default=1, help="so many times the inputs")
    options = parser.parse_args()
    torch.set_num_threads(2)
    if options.device:
        torch.set_default_device("cuda")
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
        torch.backends.cudnn.benchmark = True
        clnet.set_default_device(options.device)
    torch.set_grad_enabled(True)
    failed = 0
    for name in options.networks or NETWORKS:
        failed += not said(name, options)
    return failed


def said(name: str, options: argparse.Namespace) -> bool:
    """Print a network's row, or what it failed with; whether it was compared."""
    try:
        print(compare(name, options), flush=True)
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        print(f"{name:20} {type(error).__name__}: {str(error)[:300]} ({place.name})")
        if options.profile:
            traceback.print_exc()
        return False
    return True


if __name__ == "__main__":
    sys.exit(main())
