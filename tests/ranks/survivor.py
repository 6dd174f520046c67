"""Ranks that train a small network, killed at random moments and resumed: the weights at the end.

As a program it is one rank of the training: ``mpirun -n 2 python -m tests.ranks.survivor FOLDER``.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from zlib import crc32

import numpy as np

import clnet
from clnet import distributed as dist
from clnet import nn, optim
from clnet.data import ArrayDataset, DataLoader
from clnet.train import Trainer
from tests.ranks.launch import CHECKOUT, mpirun

EPOCHS = 30
RANKS = 2
_MARK = "CLNET_SURVIVOR"
_END_SECONDS = 60
_MOMENTS = 1.5  # seconds from the moment in which all ranks have joined
_LAST = "last.safetensors"


@dataclass
class Survival:
    """What came of it.

    Attributes:
        ends: seconds from each kill to the end of the job.
        finished: weights of each training that was killed on its way and came to its end.
        orphans: processes that outlived their job.
        left: files that a job left in ``/dev/shm``.
    """

    ends: list[float] = field(default_factory=list)
    finished: list[str] = field(default_factory=list)
    orphans: list[str] = field(default_factory=list)
    left: set[str] = field(default_factory=set)


def main() -> None:
    """One rank."""
    folder = Path(sys.argv[1])
    dist.init_process_group(timeout=30)
    print(f"<joined {os.getpid()}>", flush=True)
    clnet.manual_seed(5 + dist.get_rank())
    # Gradients of 0.4 MB: they are summed through memory that the ranks share.
    network = nn.Sequential(nn.Linear(20, 4096), nn.ReLU(), nn.Dropout(0.2), nn.Linear(4096, 3))
    model = nn.parallel.DistributedDataParallel(network)
    optimizer = optim.Adam(model.parameters(), lr=0.01)
    trainer = Trainer(
        model,
        nn.functional.cross_entropy,
        optimizer,
        progress=False,
        checkpoint=folder,
        checkpoint_every=2,
    )
    if (folder / _LAST).exists():
        trainer.resume(folder / _LAST)
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((96, 20)).astype(np.float32), rng.integers(0, 3, 96)
    loader = DataLoader(ArrayDataset(x, y), 12, shuffle=True, seed=1)
    trainer.fit(loader, epochs=EPOCHS)
    weights = b"".join(p.detach().numpy().tobytes() for p in network.parameters())
    print(f"<weights {crc32(weights):08x}>", flush=True)
    dist.destroy_process_group()


def undisturbed(folder: Path) -> str:
    """The weights at the end of a training that nobody kills."""
    job = _begun(folder)
    found = _weights(*job.communicate(timeout=_END_SECONDS))
    assert found is not None, "the training failed"
    return found


def killed(folder: Path, kills: int, seed: int) -> Survival:
    """Kill a rank of a training, resume it, and so on; when it comes to its end, begin anew.

    Args:
        folder: for checkpoints.
        kills: how many.
        seed: of the moments and of who is killed.
    """
    chance, found, before = random.Random(seed), Survival(), _shared()
    while len(found.ends) < kills:
        job = _begun(folder)
        assert job.stdout is not None
        told = ""
        while len(pids := re.findall(r"<joined (\d+)>", told)) < RANKS:
            line = job.stdout.readline()
            assert line, "a rank ended before it was killed"
            told += line
        time.sleep(chance.random() * _MOMENTS)
        victim = int(chance.choice(pids))
        if job.poll() is None:
            os.kill(victim, signal.SIGKILL)
            start = time.monotonic()
            job.communicate(timeout=_END_SECONDS)
            found.ends.append(time.monotonic() - start)
            found.orphans += _alive(str(folder))
        else:
            _finish(folder, _weights(told + job.communicate()[0], ""), found)
        found.left |= _shared() - before
    job = _begun(folder)
    _finish(folder, _weights(*job.communicate(timeout=_END_SECONDS)), found)
    found.left &= _shared()  # without those of jobs beside these, which have ended by now
    return found


def _finish(folder: Path, weights: str | None, found: Survival) -> None:
    assert weights is not None, "a resumed training failed"
    found.finished.append(weights)
    shutil.rmtree(folder)


def _begun(folder: Path) -> subprocess.Popen[str]:
    here = {**os.environ, "PYTHONPATH": str(CHECKOUT), "CLNET_BUILD_PROCESSES": "0"}
    here |= {_MARK: str(folder), "CLNET_THREADS": "1"}
    command = [mpirun(), "-n", str(RANKS), sys.executable, "-m", "tests.ranks.survivor"]
    return subprocess.Popen(
        [*command, str(folder)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=here,
        cwd=CHECKOUT,
    )


def _weights(told: str, _errors: str | None) -> str | None:
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
