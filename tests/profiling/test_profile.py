"""Profiles: what is counted, where it is put, and that looking changes nothing."""

from __future__ import annotations

import gc
import json
import os
import re
import subprocess
import sys
import time

import numpy as np
import pytest

import clnet
from clnet.device import Call, Command, Watch
from clnet.nn import functional as F
from clnet.profiling import Limits, Total, known_limits, limits, measured_limits
from clnet.profiling.chrome_trace import events
from clnet.profiling.table import activity, duration
from clnet.profiling.total import dearest, totals_of_calls, totals_of_commands
from clnet.values.cache import shelf

pytestmark = pytest.mark.device


def command(name="gemm", seconds=1.0, **changes):
    fields = {"device": "d", "kind": "kernel", "name": name, "op": "matmul", "module_path": "fc"}
    fields |= {"phase": "forward", "flops": 10**9, "bytes": 10**8, "start": 0.0}
    fields |= {"seconds": seconds, "host_start": 0.0, "host_seconds": 1e-5}
    return Command(**(fields | {"allocations": 1, "allocated_bytes": 512} | changes))


@pytest.fixture(scope="module")
def step():
    """A training step of a small network, with its model and batch."""
    model = clnet.nn.Sequential(clnet.nn.Linear(40, 30), clnet.nn.ReLU(), clnet.nn.Linear(30, 5))
    optimizer = clnet.optim.SGD(model.parameters(), lr=0.1)
    rng = np.random.default_rng(0)
    x = clnet.tensor(rng.standard_normal((16, 40), dtype=np.float32))
    y = clnet.tensor(rng.integers(0, 5, 16))

    def train(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return lambda run=train: run(x, y), train


def test_commands_know_their_module_op_and_phase(step):
    run, _ = step
    with clnet.profile() as p:
        run()
    found = {(c.module_path, c.phase) for c in p.commands}
    expected = {("Sequential.0", "forward"), ("Sequential.0", "backward"), ("SGD", "update")}
    assert expected <= found
    ops = p.totals(lambda c: c.op)
    assert ops["linear"].calls >= 2
    assert ops["linear"].flops >= 2 * 16 * (40 * 30 + 30 * 5)
    assert all(seconds > 0 for seconds in p.phases().values())


def test_compiled_steps_are_seen_launch_by_launch(step):
    run, train = step
    replayed = clnet.compile(train)
    run(replayed)
    with clnet.profile() as p:
        run(replayed)
    assert {"Sequential.2", "SGD"} <= {c.module_path for c in p.commands}


def test_looking_changes_no_bit():
    x = clnet.tensor(np.linspace(0, 1, 1000, dtype=np.float32))
    plain = x.exp().numpy()
    with clnet.profile():
        seen = x.exp().numpy()
    np.testing.assert_array_equal(seen, plain)


def test_memory_goes_back_while_it_looks():
    big = 2**22
    clnet.zeros(big // 4)
    clnet.synchronize()
    gc.collect()
    with clnet.profile() as p:
        before = clnet.memory_allocated()
        for _ in range(3):
            clnet.zeros(big // 4)
        gc.collect()
        assert clnet.memory_allocated() == before
    assert sum(c.allocated_bytes for c in p.commands) >= 3 * big
    assert p.peak_allocated_bytes >= before


def test_device_times_lie_within_the_body_and_their_calls(device):
    x = clnet.ones(1000)
    device.synchronize()
    begin = time.perf_counter()
    with clnet.profile() as p:
        x.exp()
    end = time.perf_counter()
    (exp,) = [c for c in p.commands if c.op == "exp"]
    slack = 0.05  # a busy machine may be slow to answer
    assert begin <= exp.host_start <= end
    assert begin - slack <= exp.start <= exp.start + exp.seconds <= end + slack


def test_calls_of_the_host_are_timed():
    with clnet.profile() as p:
        clnet.tensor([1.0, 2.0]).exp().tolist()
    calls = p.call_totals()
    names = {"clEnqueueNDRangeKernel", "clSetKernelArg", "clEnqueueWriteBuffer"}
    assert names | {"clEnqueueReadBuffer"} <= set(calls)
    assert calls["clEnqueueNDRangeKernel"].calls == sum(c.kind == "kernel" for c in p.commands)
    assert p.wall > sum(c.seconds for c in p.calls) > 0


def test_kernels_that_are_new_count_as_start_up():
    x = clnet.ones(3)
    with clnet.profile() as first:
        (x * 0.123 + x.exp().exp()).tanh().cosh().sinh().exp2().tolist()
    with clnet.profile() as second:
        (x * 0.123 + x.exp().exp()).tanh().cosh().sinh().exp2().tolist()
    assert second.start.built == second.start.loaded == 0
    assert first.start.built + first.start.loaded >= second.start.built + second.start.loaded
    assert second.start.process is None


def test_a_device_opened_in_the_body_is_seen(part_of_device):
    part = part_of_device
    with clnet.profile() as p:
        clnet.ones(3, device=part).exp().tolist()
    assert part.name in {c.device for c in p.commands}


def test_one_device_alone_can_be_asked_for(device):
    with clnet.profile(device) as p:
        clnet.ones(3).exp()
    assert set(p.devices) == {device.name}


def test_totals_add_up():
    rows = [command(seconds=1.0), command(seconds=3.0), command("relu", 0.5, phase="backward")]
    found = totals_of_commands(rows, lambda c: c.name)
    assert list(found) == ["gemm", "relu"]
    gemm = found["gemm"]
    assert (gemm.calls, gemm.seconds, gemm.least, gemm.most) == (2, 4.0, 1.0, 3.0)
    assert (gemm.average, gemm.gflops, gemm.gbytes) == (2.0, 0.5, 0.05)
    assert (gemm.allocations, gemm.allocated_bytes) == (2, 1024)
    (total,) = totals_of_calls([Call("clFinish", 0.0, 2.0)]).values()
    assert (total.kind, total.seconds) == ("call", 2.0)


@pytest.mark.parametrize(("share", "kept"), [(0.9, 2), (0.5, 1), (1.0, 4), (0.95, 3)])
def test_tables_are_cut_at_a_share(share, kept):
    seconds = {"a": 60, "b": 30, "c": 6, "d": 4}
    totals = {n: Total(calls=1, seconds=s, least=s, most=s) for n, s in seconds.items()}
    assert len(dearest(totals, share)) == kept


def test_rows_have_the_profilers_columns_and_fractions():
    totals = totals_of_commands([command(seconds=0.5)], lambda c: c.name)
    head, row = activity(totals, Limits(gflops=4.0, gbytes=0.4), 0.9).splitlines()
    assert head.split()[:7] == ["Type", "Time(%)", "Time", "Calls", "Avg", "Min", "Max"]
    wanted = "kernel 100.00% 500.000ms 1 500.000ms 500.000ms 500.000ms 2.00 50% 0.20 50% gemm"
    assert row.split() == wanted.split()


@pytest.mark.parametrize(
    ("seconds", "text"), [(2, "2.000s"), (0.0125, "12.500ms"), (3e-6, "3.000us"), (0, "0")]
)
def test_durations_have_a_fitting_unit(seconds, text):
    assert duration(seconds) == text


def test_summary_has_every_part(step):
    run, _ = step
    with clnet.profile() as p:
        run().item()
    text = p.summary()
    of_all = len({c.op for c in p.commands})
    assert re.search(rf"^By op: \d+ of {of_all} make up \d+\.\d% of ", text, re.MULTILINE), text
    head = (
        "Time(%) Forward Backward Update Host Calls Allocs Bytes GFLOP/s of gemm GB/s of copy Name"
    )
    heads = [line.split() for line in text.splitlines() if "Allocs" in line]
    assert heads == [head.split()] * 2
    assert p.host.user + p.host.system == p.cpu > 0
    assert p.host.minor_faults >= 0
    assert f"page faults: {p.host.minor_faults:,} at first touch" in text
    # Which modules make up most of the time differs from run to run.
    for part in ("wall ", "peak RSS", "start-up", "Device: kernels", "Host: API", "Sequential."):
        assert part in text, text
    fields = json.loads(json.dumps(p.fields()))
    assert fields["device_seconds"] == pytest.approx(sum(k["seconds"] for k in fields["kernels"]))
    assert sum(fields["phases"].values()) == pytest.approx(fields["device_seconds"])


def test_trace_has_calls_commands_modules_and_memory(step, tmp_path):
    run, _ = step
    with clnet.profile() as p:
        run().item()
    p.save_trace(tmp_path / "trace.json")
    found = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert found == json.loads(json.dumps(list(events(p))))
    slices = [e for e in found if e["ph"] == "X"]
    assert sum(e["pid"] == 1 for e in slices) == len(p.calls)
    assert sum(e["pid"] > 1 and e["tid"] == 1 for e in slices) == len(p.commands)
    assert {"Sequential.0", "SGD"} <= {e["name"] for e in slices if e["tid"] == 2}
    assert all(e["ts"] >= 0 and e["dur"] >= 0 for e in slices if e["pid"] == 1)
    assert any(e["ph"] == "C" for e in found)


@pytest.fixture
def quick(monkeypatch, tmp_path):
    """Limits are measured in no time, on a machine that is idle, and kept in a folder."""
    monkeypatch.setattr(limits, "_shelf", lambda: shelf(tmp_path / "cache"))
    monkeypatch.setattr(limits, "_GEMM_SIZES", (128,))
    monkeypatch.setattr(limits, "_COPY_BYTES", 2**20)
    monkeypatch.setattr(limits._Others, "share", lambda self: 0.0)
    return tmp_path / "cache"


def test_limits_are_measured_once_and_kept(device, quick):
    assert known_limits(device) is None
    found = measured_limits(device)
    assert known_limits(device) == found == measured_limits(device)
    (path,) = quick.iterdir()
    path.write_text("torn")
    assert known_limits(device) is None


def test_limits_of_a_busy_machine_say_so_and_are_measured_again(device, quick, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(limits._Others, "share", lambda self: 0.5)
        found = measured_limits(device)
    assert found.disturbed
    assert "the machine was busy with other things" in found.text()
    assert known_limits(device) == found
    again = measured_limits(device)
    assert not again.disturbed
    assert "busy" not in again.text()
    assert measured_limits(device) == again


def test_what_others_compute_is_told_from_what_we_do(monkeypatch):
    if limits._busy_seconds() is None:
        pytest.skip("the system does not say what its processors do")
    processors, busy = os.cpu_count() or 1, iter([100.0, 100.0 + 3.0])
    clock, own = iter([10.0, 12.0]), iter([1.0, 2.0])
    monkeypatch.setattr(limits, "_busy_seconds", lambda: next(busy))
    monkeypatch.setattr(limits.time, "perf_counter", lambda: next(clock))
    monkeypatch.setattr(limits.time, "process_time", lambda: next(own))
    assert limits._Others().share() == pytest.approx((3.0 - 1.0) / (2.0 * processors))


def test_limits_that_cannot_be_kept_say_so(device, quick):
    quick.write_text("in the way")
    with pytest.warns(RuntimeWarning, match="^cache: cannot write .*CLNET_CACHE_DIR"):
        assert measured_limits(device).gflops > 0
    assert known_limits(device) is None


WITHOUT_UNIX = """
import importlib, os, pkgutil, sys
for name in ("resource", "fcntl", "pwd", "grp", "termios"):
    sys.modules[name] = None  # as on Windows
import clnet
for found in pkgutil.walk_packages(clnet.__path__, "clnet."):
    if not found.name.endswith("__main__"):
        importlib.import_module(found.name)
with clnet.profile() as profile:
    clnet.ones(3).sum().item()
    begin = os.times().user
    while os.times().user == begin:  # which goes on in hundredths of a second
        pass
print(profile.host.user > 0, profile.host.minor_faults, profile.peak_resident_bytes)
print(profile.summary())
"""


def test_where_python_has_no_resource_module_nothing_is_made_up():
    """Everything is imported and profiles are made without the modules that Windows lacks."""
    command = [sys.executable, "-c", WITHOUT_UNIX]
    found = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert found.returncode == 0, found.stderr
    assert found.stdout.startswith("True None None\n")
    assert "page faults: unknown" in found.stdout
    assert "peak RSS unknown" in found.stdout


@pytest.mark.parametrize("end", [False, True])
def test_nobody_looks_on_after_an_interrupt(device, monkeypatch, end):
    """Ctrl-C just when the observers were set, or when the last one was taken away."""
    watch, own = device.queue._watch, Watch.set

    def interrupted(self, observers):
        own(self, observers)
        if bool(observers) is not end:
            monkeypatch.undo()
            raise KeyboardInterrupt

    monkeypatch.setattr(Watch, "set", interrupted)
    with pytest.raises(KeyboardInterrupt), clnet.profile():
        clnet.ones(3)
    assert watch.observers == ()
    assert watch.callees == ()
