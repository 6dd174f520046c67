"""At length what tests do of survival: ``python ci/survival.py kills|steps|ranks [COUNT] ...``.

``kills``: writers of files that are killed at random moments (1,000 of each kind). ``steps``: a
small network trained so many steps (1,000,000), eager and compiled, or one of both; memory and
speed of the first and last tenth are printed, and it fails if memory grew. ``ranks [COUNT]
[SEED]``: one of two ranks that train is killed (20 times: within an eager or a compiled step, an
exchange, while it loads a batch or writes a checkpoint, or at any time) and the training resumed;
it fails if the job takes more than 10 s to end, says not in one line who has died, leaves a process
or shared memory, or comes to other weights than undisturbed.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import clnet
from tests.ranks import survivor
from tests.test_survival import WRITERS, Training, killed

_END_SECONDS = 10


def steps(count: int, ways: Sequence[str]) -> int:
    """Train, ``"eager"`` or ``"compiled"``; 1 if memory grew."""
    grew = 0
    device = clnet.device()
    for way in ways:
        training = Training(device, compiled=way == "compiled")
        tenth, rates, memory = max(count // 10, 1), list[float](), list[tuple[int, int]]()
        for _ in range(10):
            start = time.perf_counter()
            training.steps(tenth)
            rates.append(tenth / (time.perf_counter() - start))
            held = device.pool.statistics()
            memory.append((held.allocated, resident_kib()))
        print(
            f"{way}: {10 * tenth:,} steps; steps a second {rates[0]:,.0f} first, {rates[-1]:,.0f} "
            f"last; device bytes {memory[0][0]:,}, {memory[-1][0]:,}; "
            f"process KiB {memory[0][1]:,}, {memory[-1][1]:,}",
            flush=True,
        )
        grew |= memory[-1][0] > memory[0][0] or memory[-1][1] > memory[0][1] * 1.05
    return int(grew)


def ranks(count: int, seed: int) -> int:
    """Kill ranks; 1 if something is not as it should be."""
    with tempfile.TemporaryDirectory() as folder:
        wanted = survivor.undisturbed(Path(folder, "undisturbed"))
        found = survivor.killed(Path(folder, "killed"), count, seed)
    late = [seconds for seconds in found.ends if seconds > _END_SECONDS]
    other = [way for way, weights in found.finished if weights != wanted[way]]
    for moment, seconds in zip(found.moments, found.ends, strict=True):
        print(f"rank {moment.victim}, {moment.doing} {moment.number}: {seconds:.2f} s")
    print(
        f"ranks, seed {seed}: {len(found.ends)} killed; the job ended {min(found.ends):.2f} to "
        f"{max(found.ends):.2f} s later, {len(late)} later than {_END_SECONDS} s; one line named "
        f"rank and host of {len(found.ends) - len(found.unnamed)}; "
        f"{len(found.finished)} trainings came to their end, {len(other)} with other weights than "
        f"undisturbed; {len(found.orphans)} processes and {len(found.left)} files were left"
    )
    print(*found.unnamed, sep="\n", end="")
    return int(bool(late or other or found.orphans or found.left or found.unnamed))


def resident_kib() -> int:
    """Memory of this process."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return int(next(line for line in lines if line.startswith("VmRSS")).split()[1])


def main() -> int:
    """What the command line asks for."""
    what, count = sys.argv[1], int((sys.argv[2:] or [0])[0])
    if what == "ranks":
        return ranks(count or 20, int((sys.argv[3:] or [5])[0]))
    if what == "steps":
        return steps(count or 1_000_000, sys.argv[3:] or ("eager", "compiled"))
    for writer in WRITERS:
        with tempfile.TemporaryDirectory() as folder:
            kills, partly, absent = killed(writer, Path(folder), count or 1000)
        print(
            f"{writer}: {kills:,} writers killed, {partly:,} of them while they wrote; every file "
            f"was whole" + (f", or not there ({absent:,})" if absent else ""),
            flush=True,
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
