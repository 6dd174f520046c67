"""What fails under a training step: memory, a compiler, a device, a process; and what is left.

An error has clnet's words, nothing leaks, and a state that is loaded afterwards trains on with the
bits of a run that nothing disturbed. ``python ci/survival.py`` does kills and steps at length.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import nullcontext
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pyopencl as cl
import pytest

import clnet
from clnet import nn
from clnet.errors import BuildError, CheckpointError, DeviceError, OutOfDeviceMemory
from tests.children import ending_soon
from tests.doctor.faulty import Driver, planted

pytestmark = pytest.mark.device


class Training:
    """Steps of a small network, from one state."""

    def __init__(self, device, *, compiled: bool) -> None:
        clnet.manual_seed(3)
        self.net = nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 3)).to(device)
        self.optimizer = clnet.optim.Adam(self.net.parameters(), lr=0.1)
        rng = np.random.default_rng(0)
        x, y = rng.standard_normal((6, 5)), rng.integers(0, 3, 6)
        self.x = clnet.tensor(x.astype(np.float32), device=device)
        self.y = clnet.tensor(y, device=device)
        self.start = [
            {k: v.detach().numpy().copy() for k, v in self.net.state_dict().items()},
            deepcopy(self.optimizer.state_dict()),
        ]
        self.step = clnet.compile(self.plain) if compiled else self.plain

    def plain(self, x, y):
        self.optimizer.zero_grad()
        loss = nn.functional.cross_entropy(self.net(x), y)
        loss.backward()
        self.optimizer.step()
        return loss

    def steps(self, count: int) -> None:
        """Take some steps."""
        for _ in range(count):
            self.step(self.x, self.y).item()

    def again(self) -> None:
        """From the first state on."""
        with self.x.device:
            values = {k: clnet.tensor(v) for k, v in self.start[0].items()}
        self.net.load_state_dict(values)
        self.net.zero_grad()
        self.optimizer.load_state_dict(self.start[1])

    def losses(self) -> list[float]:
        self.again()
        return [self.step(self.x, self.y).item() for _ in range(3)]


class Countdown:
    """Fails from a call on."""

    def __init__(self, real, error) -> None:
        self.real, self.error, self.calls = real, error, 0
        self.left: int | None = None

    def __call__(self, *args, **given):
        self.calls += 1
        if self.left is not None:
            if self.left == 0:
                raise self.error()
            self.left -= 1
        return self.real(*args, **given)


def no_room() -> OutOfDeviceMemory:
    return OutOfDeviceMemory("out of device memory", "injected")


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_memory_that_runs_out_at_any_allocation_is_told_and_nothing_leaks(
    device, monkeypatch, compiled
):
    training = Training(device, compiled=compiled)
    expected = training.losses()
    take = Countdown(device.pool.take, no_room)
    monkeypatch.setattr(device.pool, "take", take)
    training.losses()
    held = device.pool.statistics().allocated
    before, failed = take.calls, 0
    training.again()
    training.step(training.x, training.y)
    for first in range(take.calls - before):
        training.again()
        take.left = first
        try:
            training.step(training.x, training.y).item()
        except OutOfDeviceMemory:
            failed += 1
        finally:
            take.left = None
        assert training.losses() == expected, first
    assert failed >= (2 if compiled else 10)
    assert device.pool.statistics().allocated <= held


@pytest.mark.parametrize("kind", ["Lamb", "LARS", "Adafactor", "LBFGS"])
def test_memory_that_runs_out_within_a_step_leaves_it_whole_or_says_so(device, monkeypatch, kind):
    params = [nn.Parameter(clnet.ones(n, 3)) for n in (2, 4)]
    given = {"max_iter": 1} if kind == "LBFGS" else {}
    optimizer = getattr(clnet.optim, kind)(params, lr=0.1, **given)

    def closure() -> Any:
        optimizer.zero_grad()
        loss = sum(((p - 3) ** 2).sum() for p in params)
        loss.backward()
        return loss

    optimizer.step(closure)
    start = [p.detach().numpy().copy() for p in params], deepcopy(optimizer.state_dict())
    optimizer.step(closure)
    expected = [p.tolist() for p in params]
    take, whole, torn = Countdown(device.pool.take, no_room), 0, 0
    monkeypatch.setattr(device.pool, "take", take)
    for first in range(100):
        for p, value in zip(params, start[0], strict=True):
            p.data.copy_(clnet.tensor(value))
        optimizer.load_state_dict(start[1])
        take.left = first
        try:
            optimizer.step(closure)
            break
        except OutOfDeviceMemory:
            take.left = None
        try:
            optimizer.step(closure)
        except CheckpointError:
            torn += 1
        else:
            assert [p.tolist() for p in params] == expected, first
            whole += 1
        finally:
            take.left = None
    assert whole > 3
    assert (torn > 0) == (kind != "LBFGS")


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_a_build_that_fails_at_any_kernel_is_told_and_the_next_call_is_right(tmp_path, compiled):
    class Refuses(Driver):
        """The compiler fails at each text once."""

        def __init__(self) -> None:
            super().__init__()
            self.refused: dict[str, int] = {}

        def Program(self, context, *given):  # noqa: N802 - pyopencl's
            made = super().Program(context, *given)
            text = given[0] if isinstance(given[0], str) else ""
            name = text.partition("__kernel")[2].partition("(")[0]
            # With a header, without it, and once more for the log.
            if name and self.refused.setdefault(name, 0) < 3:
                self.refused[name] += 1
                made.build = self._fails
            return made

        @staticmethod
        def _fails(*args, **given):
            raise cl.RuntimeError("injected: the compiler ended")

    driver, told = Refuses(), list[str]()
    with planted(driver, tmp_path) as device:
        while True:
            try:
                training = Training(device, compiled=compiled)
                losses = training.losses()
                break
            except BuildError as error:
                told.append(str(error))
                assert len(told) < 60, "it fails once for each kernel"
    assert len(told) >= len(driver.refused) // 2 > 4
    assert all("injected" in text for text in told)
    assert losses == Training(clnet.device(), compiled=compiled).losses()


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_a_lost_device_is_told_at_whatever_command(tmp_path, compiled):
    class Lost(Driver):
        left: int | None = None

        def _count(self) -> None:
            if self.left is not None:
                if self.left == 0:
                    raise cl.LogicError("injected: INVALID_COMMAND_QUEUE")
                self.left -= 1

        def enqueue_nd_range_kernel(self, *args):
            self._count()
            return super().enqueue_nd_range_kernel(*args)

        def enqueue_copy(self, *args, **given):
            self._count()
            return cl.enqueue_copy(*args, **given)

    driver = Lost()
    with planted(driver, tmp_path) as device:
        training = Training(device, compiled=compiled)
        expected = training.losses()
        for first in range(0, 30, 1 if compiled else 3):
            driver.left = first
            with pytest.raises(DeviceError, match="the device may be lost"):
                training.steps(30)
            driver.left = None
            assert training.losses() == expected, first


def test_a_driver_without_memory_for_a_command_is_out_of_memory(tmp_path):
    class Full(Driver):
        full = False

        def enqueue_nd_range_kernel(self, *args):
            if self.full:
                raise cl.MemoryError("injected: MEM_OBJECT_ALLOCATION_FAILURE")
            return super().enqueue_nd_range_kernel(*args)

    driver = Full()
    with planted(driver, tmp_path) as device:
        x = clnet.zeros(5, device=device)
        driver.full = True
        with pytest.raises(OutOfDeviceMemory, match="no memory left for a command"):
            x + 1
        driver.full = False
        assert (x + 1).tolist() == [1.0] * 5


# What writes a file that tells a number in all its parts, and reads it.
CHECKPOINT = """
from clnet.io.checkpoint import load_checkpoint, save_checkpoint
def write(path, k):
    values = np.full((300, 300), k, np.float32)
    save_checkpoint(path, {"step": k, "weights": values, "rates": [k / 2, (k, None)]})
def read(path):
    found = load_checkpoint(path)
    k = found["step"]
    assert (found["weights"] == k).all() and found["rates"] == [k / 2, (k, None)]
    return k
"""
TUNINGS = """
import clnet
from clnet.device.tunings import Database, Entry
shipped = sorted(Path(clnet.__file__).with_name("tunings").glob("*.jsonl"))[0]
subject = Database.parse(shipped.read_text()).subject
def write(path, k):
    entries = [Entry("gemm", 1, {"m": m}, {"tile": k}, 1.0, 2.0) for m in range(300)]
    Database(subject).updated(entries).write(path)
def read(path):
    found = Database.parse(path.read_text()).entries.values()
    (k,) = {entry.choice["tile"] for entry in found}
    assert len(found) == 300
    return k
"""
CACHE = """
from clnet.values.cache import shelf
from clnet.values.cache_file import pack, unpack
FOLDER = "kernels/0123456789abcdef"
def write(path, k):
    place = shelf(path.parent / "cache", *FOLDER.split("/"))
    for i in range(20):
        place.write(str(i), str(k).encode() * 1000)
    pack(path, path.parent / "cache", {FOLDER: "a device"})
def read(path):
    into = Path(tempfile.mkdtemp(dir=path.parent))
    unpack(path, into, [FOLDER])
    place = shelf(into, *FOLDER.split("/"))
    (found,) = {place.read(str(i)) for i in range(20)}
    shutil.rmtree(into)
    return int(found[: len(found) // 1000])
"""
MODEL = """
import onnx
from clnet.onnx.saving import save
def write(path, k):
    weights = onnx.numpy_helper.from_array(np.full((300, 300), k, np.float32), "w")
    x, y = (onnx.helper.make_tensor_value_info(n, 1, [300, 300]) for n in "xy")
    node = onnx.helper.make_node("Add", ["x", "w"], ["y"])
    graph = onnx.helper.make_graph([node], "g", [x], [y], [weights])
    save(onnx.helper.make_model(graph), path, external=EXTERNAL)
def read(path):
    if EXTERNAL and not path.exists():
        return None
    (tensor,) = onnx.load(path).graph.initializer
    (k,) = {*onnx.numpy_helper.to_array(tensor).ravel().tolist()}
    return int(k)
"""
KILLED = """
import os, random, shutil, signal, sys, tempfile, time
from pathlib import Path
import numpy as np
exec(sys.argv[3])
path, count = Path(sys.argv[1], "file"), int(sys.argv[2])
random.seed(5)
write(path, 0)
least = partly = absent = kills = 0
# Where others use the cores, most are killed while they wait for one: so many more are.
while kills < count or (partly + absent == 0 and kills < 20 * count):
    kills += 1
    ends = os.pipe()
    child = os.fork()
    if child == 0:
        k = least
        while True:
            k += 1
            write(path, k)
            os.write(ends[1], b".")
    os.read(ends[0], 1)
    time.sleep(random.random() * 0.02)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    os.close(ends[0]), os.close(ends[1])
    k = read(path)
    if k is None:
        absent += 1
        k = least = least + 1
        write(path, k)
    else:
        assert k > least, (k, least)
    for part in [*path.parent.rglob(".clnet-*")]:  # one at most: of this writer
        shutil.rmtree(part) if part.is_dir() else part.unlink()
        partly += 1
    least = k
print(kills, partly, absent)
"""


WRITERS = {
    "checkpoint": CHECKPOINT,
    "tunings": TUNINGS,
    "exported cache": CACHE,
    "model": "EXTERNAL = False" + MODEL,
    "model with its tensors apart": "EXTERNAL = True" + MODEL,
}


def killed(writer: str, folder: Path, count: int) -> tuple[int, int, int]:
    """Kill so many writers of a file.

    Returns:
        How many that were, how many left a part, and how many left no file.
    """
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(folder), str(count), WRITERS[writer]],
        env={**os.environ, "PYTHONPATH": ending_soon()},
        capture_output=True,
        text=True,
        timeout=60 + 4 * count,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    kills, partly, absent = map(int, done.stdout.split())
    return kills, partly, absent


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.parametrize("writer", WRITERS)
def test_a_file_is_whole_whenever_its_writer_is_killed(tmp_path, writer):
    if "model" in writer:
        pytest.importorskip("onnx")
    kills, partly, absent = killed(writer, tmp_path, 20)
    assert kills >= 20
    assert partly + absent > 0, "some were killed while they wrote"
    assert absent == 0 or "apart" in writer


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_memory_stays_flat_over_many_steps(device, compiled):
    training = Training(device, compiled=compiled)
    for _ in range(20):
        training.step(training.x, training.y)
    device.synchronize()
    before = device.pool.statistics()
    for _ in range(300):
        training.step(training.x, training.y)
    device.synchronize()
    after = device.pool.statistics()
    assert after.allocated <= before.allocated
    assert after.num_device_allocations == before.num_device_allocations


HASH = """
import hashlib, sys
import clnet
from clnet import nn
clnet.manual_seed(1)
net = nn.Sequential(nn.Conv2d(2, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(),
                    nn.Dropout(0.3), nn.Linear(8 * 49, 5))
optimizer = clnet.optim.Adam(net.parameters())
x, y = clnet.randn(9, 2, 7, 7), clnet.randint(0, 5, (9,))
def step(x, y):
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(net(x), y)
    loss.backward()
    optimizer.step()
    return loss
run = clnet.compile(step) if sys.argv[1] == "compiled" else step
for _ in range(4):
    run(x, y)
found = hashlib.sha256()
for value in net.state_dict().values():
    found.update(value.detach().numpy().tobytes())
print(found.hexdigest())
"""


@pytest.mark.parametrize("way", ["eager", "compiled"])
def test_processes_train_to_the_same_bits(way):
    def run(**environment: str) -> str:
        done = subprocess.run(
            [sys.executable, "-c", HASH, way],
            env={
                **os.environ,
                "PYTHONPATH": ending_soon(),
                **environment,
            },
            capture_output=True,
            text=True,
            timeout=300,
            check=True,
        )
        return done.stdout

    # In another process, with other hashes of Python's, and without poison.
    assert run(PYTHONHASHSEED="1") == run(PYTHONHASHSEED="2", CLNET_POISON="0")


def started(folder: Path) -> subprocess.Popen[str]:
    """A process that trains a small network, with a cache in a folder."""
    head, _, rest = HASH.partition("nn.Conv2d(2")
    small = f"{head}nn.Flatten(), nn.Linear(98, 5)){rest[rest.index(chr(10) + 'optimizer') :]}"
    return subprocess.Popen(
        [sys.executable, "-c", small, "eager"],
        env={
            **os.environ,
            "PYTHONPATH": ending_soon(),
            "CLNET_CACHE_DIR": str(folder / "clnet"),
            "POCL_CACHE_DIR": str(folder / "pocl"),
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.skipif(not hasattr(signal, "SIGSTOP"), reason="no process is suspended here")
def test_processes_on_one_cold_cache_and_one_that_is_suspended_train_to_the_same_bits(tmp_path):
    processes = [started(tmp_path) for _ in range(2)]
    for _ in range(4):  # while it builds, and while it trains
        time.sleep(0.4)
        processes[0].send_signal(signal.SIGSTOP)
        time.sleep(0.3)
        processes[0].send_signal(signal.SIGCONT)
    told = [process.communicate(timeout=300) for process in processes]
    assert [process.returncode for process in processes] == [0, 0], told
    again = started(tmp_path).communicate(timeout=300)
    assert told == [again, again]
    assert again[1] == ""


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_many_shapes_hold_no_more_memory_again(device, compiled):
    layer = nn.Linear(3, 4).to(device)

    def plain(x):
        return nn.functional.softmax(layer(x), dim=1).sum()

    run = clnet.compile(plain) if compiled else plain

    def shapes(counts):
        for count in counts:
            loss = run(clnet.ones(count, 3, device=device))
            loss.backward()
            assert loss.item() == pytest.approx(count, rel=1e-5)
            layer.zero_grad()
        device.synchronize()
        return device.pool.statistics().allocated

    many = range(1, 301, 10 if compiled else 1)
    once = shapes(many)
    built = device.programs.statistics.built
    crowded = pytest.warns(RuntimeWarning, match="more than 16 forms")
    with crowded if compiled else nullcontext():
        assert shapes(many) <= once
        assert shapes(range(284, 301)) <= once
    assert device.programs.statistics.built <= built + 4
