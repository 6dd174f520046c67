"""Ranks that train a small network, killed at random moments and resumed: the weights at the end.

As a program it is one rank of the training: ``mpirun -n 2 python -m tests.ranks.survivor FOLDER
WAY``, eager or compiled; with a :class:`Moment` as well (``VICTIM DOING NUMBER PART``) one rank
has itself killed in the middle of what it does.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np

import clnet
from clnet import distributed as dist
from clnet import nn, optim
from clnet.data import ArrayDataset, DataLoader
from clnet.ranks.world import Group
from clnet.train import Callback, Trainer, trainer
from clnet.utils import data
from tests.ranks.launch import CHECKOUT, SOON, mpirun

EPOCHS = 10
RANKS = 2
WAYS = ("eager", "compiled")
DOINGS = (*WAYS, "collective", "loading", "checkpoint", "any")
_MARK = "CLNET_SURVIVOR"
_END_SECONDS = 300
_MOST = {"checkpoint": 20, "any": 1}  # how often it is done before; of others:
_STEPS = 40
_ANY_SECONDS = 1.5  # from the moment in which all ranks have joined
_LAST = "last.safetensors"
# A process beside the victim, whose clock Python's lock does not stop; its end says it is killed.
_KILLER = """
import os, signal, sys, time
pause = float(sys.stdin.readline())
time.sleep(pause)
with open(sys.argv[1], "w") as file:
    file.write(str(time.monotonic()))
os.kill(os.getppid(), signal.SIGKILL)
"""


@dataclass(frozen=True)
class Moment:
    """When a rank is killed.

    Attributes:
        victim: the rank.
        doing: of :data:`DOINGS`: in a step, an exchange, while it waits for a batch or writes a
            checkpoint; ``"any"``: whatever it does so long after all have joined.
        number: how often it does so before.
        part: where in it, of the time that it took before; of ``"any"`` seconds.
    """

    victim: int
    doing: str
    number: int
    part: float


@dataclass
class Survival:
    """What came of it.

    Attributes:
        moments: when ranks were killed.
        ends: seconds from each kill to the end of the job.
        unnamed: what jobs said whose line does not name the rank and the host, or is not one.
        finished: ways of trainings that were killed and came to their end, and their weights.
        orphans: processes that outlived their job.
        left: files that a job left in ``/dev/shm``.
    """

    moments: list[Moment] = field(default_factory=list)
    ends: list[float] = field(default_factory=list)
    unnamed: list[str] = field(default_factory=list)
    finished: list[tuple[str, str]] = field(default_factory=list)
    orphans: list[str] = field(default_factory=list)
    left: set[str] = field(default_factory=set)


class _Watched:
    """What a rank does, of which one kind is counted, and ended in its middle.

    Args:
        folder: for the killer's time.
        moment: None: this rank is not killed.
    """

    def __init__(self, folder: Path, moment: Moment | None) -> None:
        self._moment, self._count, self._took = moment, 0, 0.001
        self._killer = None
        if moment is not None:
            words = [sys.executable, "-I", "-S", "-c", _KILLER, f"{folder}.killed"]
            self._killer = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)

    @contextmanager
    def doing(self, what: str) -> Iterator[None]:
        """The body is what it does."""
        if self._moment is None or what != self._moment.doing:
            yield
            return
        if self._count == self._moment.number:
            self.kill_in(self._moment.part * self._took)
        self._count += 1
        start = time.perf_counter()
        yield
        self._took = time.perf_counter() - start

    def kill_in(self, seconds: float) -> None:
        """Have this process killed."""
        assert self._killer is not None
        assert self._killer.stdin is not None
        self._killer.stdin.write(f"{seconds}\n".encode())
        self._killer.stdin.flush()

    def end(self) -> None:
        """The rank was not killed."""
        if self._killer is not None:
            self._killer.kill()
            self._killer.communicate()

    def within(self, what: str, job: Callable[..., Any]) -> Callable[..., Any]:
        """The function, as something that the rank does."""

        def watched(*args: Any, **settings: Any) -> Any:
            with self.doing(what):
                return job(*args, **settings)

        return watched


class _Steps(Callback):
    def __init__(self, watched: _Watched, way: str) -> None:
        self._watched, self._way = watched, way

    def around_step(self, *_: Any) -> Any:
        return self._watched.doing(self._way)


class _Loaded(DataLoader):
    """Batches that come together with a number from a process of its own."""

    watched: _Watched
    numbers: Iterator[Any]

    def __iter__(self) -> Any:
        batches = super().__iter__()
        while True:
            with self.watched.doing("loading"):
                next(self.numbers)
                batch = next(batches, None)
            if batch is None:
                return
            yield batch


def main() -> None:
    """One rank."""
    folder, way = Path(sys.argv[1]), sys.argv[2]
    dist.init_process_group(timeout=30)
    moment = None
    if sys.argv[3:]:
        victim, doing, number, part = sys.argv[3:]
        moment = Moment(int(victim), doing, int(number), float(part))
    watched = _Watched(folder, moment if moment and dist.get_rank() == moment.victim else None)
    if moment is not None and moment.doing == "any" and dist.get_rank() == moment.victim:
        watched.kill_in(moment.part)
    _watch_exchanges(watched)
    numbers = iter(data.DataLoader(range(10_000), num_workers=1))  # which draws a seed
    clnet.manual_seed(5 + dist.get_rank())
    # Gradients of 0.4 MB: they are summed through memory that the ranks share.
    network = nn.Sequential(nn.Linear(20, 4096), nn.ReLU(), nn.Dropout(0.2), nn.Linear(4096, 3))
    model = nn.parallel.DistributedDataParallel(network)
    optimizer = optim.Adam(model.parameters(), lr=0.01)
    training = Trainer(
        model,
        nn.functional.cross_entropy,
        optimizer,
        progress=False,
        compile=way == "compiled",
        checkpoint=folder,
        checkpoint_every=2,
        callbacks=[_Steps(watched, way)],
    )
    if (folder / _LAST).exists():
        training.resume(folder / _LAST)
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((96, 20)).astype(np.float32), rng.integers(0, 3, 96)
    loader = _Loaded(ArrayDataset(x, y), 12, shuffle=True, seed=1)
    loader.watched = watched
    loader.numbers = numbers
    training.fit(loader, epochs=EPOCHS)
    watched.end()
    weights = b"".join(p.detach().numpy().tobytes() for p in network.parameters())
    print(f"<weights {crc32(weights):08x}>", flush=True)
    dist.destroy_process_group()


def _watch_exchanges(watched: _Watched) -> None:
    meet = Group.meet

    def met(group: Group, job: Callable[[], Any], *, begin: bool = False) -> Any:
        return meet(group, watched.within("collective", job), begin=begin)

    Group.meet = met
    trainer.save_checkpoint = watched.within("checkpoint", trainer.save_checkpoint)


def undisturbed(folder: Path, ways: Iterable[str] = WAYS) -> dict[str, str]:
    """The weights at the end of trainings that nobody kills, by their ways.

    Args:
        folder: for checkpoints.
        ways: of :data:`WAYS`.
    """
    return {way: _to_its_end(folder / way, way) for way in ways}


def _to_its_end(folder: Path, way: str) -> str:
    told, errors = _begun(folder, way).communicate(timeout=_END_SECONDS)
    weights = _weights(told)
    assert weights is not None, f"a training failed: {errors}"
    return weights


def killed(folder: Path, kills: int, seed: int, doings: tuple[str, ...] = DOINGS) -> Survival:
    """Kill a rank of a training, resume it, and so on; when it comes to its end, begin anew.

    Args:
        folder: for checkpoints.
        kills: how many, as many of each kind.
        seed: of the moments and of who is killed.
        doings: the kinds.
    """
    chance, found, before = random.Random(seed), Survival(), _shared()
    while len(found.ends) < kills:
        doing = doings[len(found.ends) % len(doings)]
        way = doing if doing in WAYS else chance.choice(WAYS)
        victim = 0 if doing == "checkpoint" else chance.randrange(RANKS)  # only rank 0 writes one
        number = chance.randrange(_MOST.get(doing, _STEPS))
        part = chance.random() * (_ANY_SECONDS if doing == "any" else 1)
        _kill(folder / way, way, Moment(victim, doing, number, part), found)
        found.left |= _shared() - before
    for way in WAYS:
        if (folder / way / _LAST).exists():
            found.finished.append((way, _to_its_end(folder / way, way)))
    found.left &= _shared()  # without those of jobs beside these, which have ended by now
    return found


def _kill(folder: Path, way: str, moment: Moment, found: Survival) -> None:
    """Have a rank killed; a training that comes to its end before is begun anew, next time."""
    time_file = Path(f"{folder}.killed")
    time_file.unlink(missing_ok=True)
    job = _begun(folder, way, moment)
    told, errors = job.communicate(timeout=_END_SECONDS)
    end = time.monotonic()
    found.orphans += _alive(str(folder))
    if not time_file.exists():
        weights = _weights(told)
        assert weights is not None, f"a resumed training failed: {errors}"
        found.finished.append((way, weights))
        shutil.rmtree(folder)
        return
    found.moments.append(moment)
    found.ends.append(end - float(time_file.read_text()))
    lines = re.findall(r"clnet: rank (\d) of \d on (\S+), process \d+, has died", errors)
    if lines != [(str(moment.victim), os.uname().nodename)] or errors.count("clnet: ") > 1:
        found.unnamed.append(f"{moment}: {errors}")


def _begun(folder: Path, way: str, moment: Moment | None = None) -> subprocess.Popen[str]:
    here = {**os.environ, **SOON, "CLNET_BUILD_PROCESSES": "0"}
    here |= {_MARK: str(folder), "CLNET_THREADS": "1"}
    command = [mpirun(), "-n", str(RANKS), sys.executable, "-m", "tests.ranks.survivor"]
    command += [str(folder), way]
    if moment is not None:
        command += [str(moment.victim), moment.doing, str(moment.number), str(moment.part)]
    return subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=here,
        cwd=CHECKOUT,
    )


def _weights(told: str) -> str | None:
    """What all ranks print at the end, if they do, and the same."""
    found = re.findall("<weights (.*?)>", told)
    return found[0] if len(found) == RANKS and len(set(found)) == 1 else None


def _shared() -> set[str]:
    """The names of MPICH's, which would outlive the processes."""
    return {path.name for path in Path("/dev/shm").glob("mpich_shm_*")}


def _alive(mark: str) -> list[str]:
    """Processes of a job that are there a second after its end."""
    time.sleep(1)
    wanted = f"{_MARK}={mark}\0".encode()
    return [p.parent.name for p in Path("/proc").glob("[0-9]*/environ") if wanted in _bytes(p)]


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:  # the process has ended meanwhile
        return b""


if __name__ == "__main__":
    main()
