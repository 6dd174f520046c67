"""Processes that are forked: what they can do, and that they never wait for what does not come."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.device,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork"),
]
ROOT = Path(__file__).parents[1]

BEGIN = """
import gc, multiprocessing, os, signal, subprocess, sys, threading, traceback
import numpy as np
import clnet
from clnet.errors import DeviceError

def child(body, leaves=False):
    "What a forked process prints, which does body() and ends as any process does, or leaves."
    read, write = os.pipe()
    sys.stdout.flush()
    number = os.fork()
    if number == 0:
        signal.alarm(60)
        os.dup2(write, 1)
        os.close(read), os.close(write)
        sys.stdout = open(1, "w", closefd=False)
        body()
        if leaves:  # to end as any process does takes a third of a second: all objects are copied
            sys.stdout.flush()
            os._exit(0)
        sys.exit(0)
    os.close(write)
    with open(read) as pipe:
        said = pipe.read()
    status = os.waitpid(number, 0)[1]
    assert status == 0, (status, said)
    return said.strip()

def refusal(use):
    "What the user is told."
    try:
        use()
    except DeviceError as error:
        print(error)
    else:
        print("no error")
"""


def run(program: str, *, code: int = 0) -> str:
    """What a process prints that runs a program; at its end, and in a child, nothing is left."""
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}
    with subprocess.Popen(
        [sys.executable, "-X", "faulthandler", "-c", BEGIN + program],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environ,
        start_new_session=True,
    ) as process:
        try:
            said, complaint = process.communicate(timeout=480)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    assert process.returncode == code, said + complaint
    assert "leaked" not in complaint, complaint
    assert "Error" not in complaint, complaint
    return said


USES = {
    "an op": "x + 1",
    "an op in place": "x.add_(1)",
    "a value": "x.numpy()",
    "text": "repr(x)",
    "a new tensor": "clnet.ones(3)",
    "an upload": "clnet.tensor([1.0])",
    "an upload beside it": "clnet.tensor([1.0], device=x.device)",
    "a map": "x.map().__enter__()",
    "a replay": "twice(x)",
    "a trace": "clnet.compile(lambda x: x * 3)(x)",
    "a gradient": "(w * w).sum().backward()",
    "a copy": "x.copy_(x)",
    "waiting": "clnet.synchronize()",
    "waiting on it": "x.device.synchronize()",
    "figures": "clnet.memory_allocated(x.device)",
    "free memory": "clnet.empty_cache(x.device)",
    "a profile": "clnet.profile().__enter__()",
    "devices": "clnet.devices()",
    "the device": "clnet.device()",
    "a model": "clnet.nn.Linear(2, 2)",
    "random numbers": "clnet.rand(2)",
}


def test_any_use_in_a_child_is_an_error_with_a_remedy():
    said = run(
        f"""
x, w = clnet.ones(3) + 1, clnet.ones(3, requires_grad=True)
twice = clnet.compile(lambda x: x + x)
for _ in range(3):
    twice(x)
uses = {USES!r}
for name, use in uses.items():
    told = child(lambda: refusal(lambda: eval(use)), leaves=True)
    print(name, "|", told.replace("\\n", " "))
assert (x + twice(x)).tolist() == [6.0] * 3  # the parent goes on undisturbed
assert clnet.memory_allocated() > 0
"""
    )
    lines = said.splitlines()
    assert [line.split(" | ")[0] for line in lines] == list(USES)
    for line in lines:
        assert "before this process was forked" in line, line
        assert "spawn" in line, line


def test_a_child_releases_nothing_and_ends():
    """Tensors, plans and kernels of the parent go, one by one and at exit, while it computes."""
    run("""
model = clnet.nn.Linear(64, 64)
step = clnet.compile(clnet.no_grad()(model))
x = clnet.ones(256, 64)
tensors = [clnet.ones(1000) + i for i in range(20)]
for _ in range(3):
    step(x)

def body():
    global step, model, x, tensors
    tensors.clear()
    del step, model, x
    gc.collect()

for _ in range(3):
    for _ in range(50):  # under way at the fork
        y = step(x)
    child(body)
    child(lambda: None)
    with clnet.profile() as p:  # with events that nobody has waited for
        y = step(x)
        child(lambda: None)
assert y.tolist() == model(x).tolist()
""")


def test_threads_of_the_parent_hold_locks_at_the_fork():
    run("""
stop = threading.Event()
sys.setswitchinterval(1e-5)

def work():
    f = clnet.compile(lambda x: x * 2)
    while not stop.is_set():
        x = clnet.ones(50)
        for _ in range(20):
            f(x)
            clnet.compile(lambda x: x.exp() * 2)(x)

clnet.compile(lambda x: x + 1)(clnet.ones(50))  # so that each child's parent has used a device
threads = [threading.Thread(target=work) for _ in range(3)]
for thread in threads:
    thread.start()
for _ in range(8):
    assert "forked" in child(lambda: refusal(lambda: clnet.ones(3)))
    told = child(leaves=True, body=lambda: print(clnet.Generator().take(4), gc.isenabled()))
    assert told == "(0, 0) True", told
stop.set()
for thread in threads:
    thread.join()
""")


def test_a_child_of_before_the_first_use_uses_devices():
    run("""
def body():
    x = clnet.ones(3, requires_grad=True)
    (x * 2).sum().backward()
    print(clnet.compile(lambda x: x + 1)(x.detach()).tolist(), x.grad.tolist())

first, second = child(body), child(body)
assert first == second == "[2.0, 2.0, 2.0] [2.0, 2.0, 2.0]", first
assert (clnet.ones(3) + 1).tolist() == [2.0] * 3
""")


def test_children_without_devices_work():
    """Workers of a loader, of Optuna and of ``multiprocessing``, and programs that are called."""
    run("""
from clnet.data import ArrayDataset, DataLoader
x = clnet.ones(3) + 1

def body():
    data = ArrayDataset(np.arange(12), np.arange(12))
    print(sum(int(a.sum()) for a, _ in DataLoader(data, 4, shuffle=True)))

assert child(body) == "66"
with multiprocessing.get_context("fork").Pool(3) as pool:
    assert pool.map(np.square, range(20)) == [n * n for n in range(20)]
assert subprocess.run(["true"], preexec_fn=lambda: None).returncode == 0
assert x.tolist() == [2.0] * 3
""")


def test_workers_of_the_parent_are_left_to_it():
    """A child that lets go of a pass doesn't end it, and no copy outlives a parent's pipe."""
    run("""
import clnet.utils.data

def loader():
    return clnet.utils.data.DataLoader(
        np.arange(8), num_workers=2, collate_fn=list, multiprocessing_context="fork"
    )

begun = iter(loader())
assert next(begun) == [0]

def left():
    try:
        list(begun)
    except clnet.errors.WorkerError as error:
        print(error)

assert "those of the process that this one was forked from" in child(left, leaves=True)
assert list(begun) == [[n] for n in range(1, 8)]

read, write = os.pipe()
if os.fork() == 0:
    begun = iter(loader())
    next(begun)
    os.kill(os.getpid(), signal.SIGKILL)
os.close(write)
signal.alarm(60)
assert os.read(read, 1) == b""  # once all who had the pipe are gone, the workers too
os.wait()
""")


def test_children_made_anew_use_devices(tmp_path):
    """``spawn`` and ``forkserver``, as the error advises."""
    script = tmp_path / "script.py"
    script.write_text("""
import multiprocessing, sys
import clnet

def work(n):
    return (clnet.ones(2) * n).tolist()

if __name__ == "__main__":
    assert work(3) == [3.0, 3.0]
    for method in ("spawn", "forkserver"):
        with multiprocessing.get_context(method).Pool(2) as pool:
            assert pool.map(work, range(4)) == [[n, n] for n in range(4)]
""")
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}
    subprocess.run([sys.executable, str(script)], check=True, timeout=480, env=environ)


def test_tensors_sent_to_a_forked_worker_are_refused_there():
    said = run("""
def work(given, answers):
    try:
        answers.put(given.get().tolist())
    except DeviceError as error:
        answers.put(str(error))

context = multiprocessing.get_context("fork")
x, given, answers = clnet.ones(3) + 1, context.Queue(), context.Queue()
worker = context.Process(target=work, args=(given, answers))
worker.start()
given.put(x)
print(answers.get(timeout=60))
worker.join(60)
assert worker.exitcode == 0
""")
    assert "before this process was forked" in said


def test_a_grandchild_is_told_too():
    said = run("""
x = clnet.ones(3) + 1
print(child(lambda: print(child(lambda: refusal(lambda: x.numpy())))))
""")
    assert "before this process was forked" in said
