"""The smaller benchmarks by their command: each runs, and says what it should."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace

import pytest

import clnet
from clnet.bench import (
    attention,
    bandwidth,
    beside_tinygrad,
    cnn,
    conv,
    ece408,
    gemm,
    overhead,
    profiler,
    recurrent,
    start,
    step,
)
from clnet.bench.conv_layers import GROUPS
from clnet.cli import main
from clnet.data.fashion_mnist import FOLDERS
from clnet.data.source import places
from clnet.device import Target, device
from clnet.errors import ArgumentError
from clnet.kernels.conv import ConvGeometry
from clnet.profiling.table import duration
from tests.groups import are_compiled_wrongly
from tests.kernels.test_gemm_matrix import units_of

pytestmark = pytest.mark.device


@pytest.mark.slow
def test_course_report_has_all_that_is_asked_for(capfd, tmp_path):
    if not any(folder.is_dir() for folder in places(None, FOLDERS)):
        pytest.skip("no Fashion-MNIST here (CLNET_DATA)")
    page = tmp_path / "report.html"
    options = ["--epochs=1", "--steps=20", "--images=500", f"--html={page}"]
    assert main(["bench", "ece408", *options]) == 0
    out = capfd.readouterr().out
    (correct,) = re.findall(r"Correctness: ([\d.]+)", out)
    assert float(correct) > 0.4
    for part in ("500 images in one batch", "Op time: ", "maximum RSS", "Host: API calls"):
        assert part in out, out
    layers = re.findall(r"Op time: [\d.]+ s  ECE408\.(\w+)", out)
    assert [n for n in layers if n.startswith("conv")] == ["conv1", "conv2"]
    assert "The tables differ because" in out
    assert page.stat().st_size > 10_000


def test_course_report_of_several_devices_has_one_table():
    def figures(title, conv):
        return {"title": title, "layers": {"ECE408.conv1": conv}, "device_seconds": 2 * conv,
                "wall": 3.0, "processor": 1.5, "resident": 2**30, "correct": 0.85}  # fmt: skip

    table = ece408.beside([figures("pocl:0, 2 threads", 1.0), figures("nvidia:0", 0.001)])
    lines = table.splitlines()
    assert lines[0].startswith("pocl:0, 2 threads  nvidia:0")
    assert lines[1].split()[-1] == "ECE408.conv1"
    assert lines[1].startswith(duration(1.0).rjust(len("pocl:0, 2 threads"))), table
    assert lines[-1].split() == ["0.8500", "0.8500", "correctness"]


@pytest.mark.parametrize(
    ("options", "law"),
    [(["--threads", "two"], "--threads is given as 2"), (["--threads", "4096"], "threads lies in")],
)
def test_course_report_refuses_threads_that_are_none(options, law):
    with pytest.raises(ArgumentError, match=law):
        ece408.main([*options, "--device", "cpu"])


def test_first_step_says_where_the_time_went(monkeypatch, capsys):
    monkeypatch.setattr(start, "_WARM_RUNS", 1)
    run, kernels = start._run, []

    def from_the_users_cache(job, environment):
        del environment
        found = run(job, "{}")
        kernels.append(sorted(each["name"] for each in found["kernels"]))
        return found

    monkeypatch.setattr(start, "_run", from_the_users_cache)
    assert main(["bench", "start", "--net", "fashion-cnn", "--eager", "--json"]) == 0
    rows = list(map(json.loads, capsys.readouterr().out.splitlines()))
    ways = [(row["way"], row["cache"]) for row in rows]
    assert ways == [(way, cache) for way in ("compiled", "eager") for cache in ("cold", "warm")]
    for first, second in (rows[:2], rows[2:]):
        assert second["loaded"] == first["built"] + first["loaded"] > 5
        assert second["built"] == 0
        parts = sum(first[key] for key in ("import", "context", "model", "first_step"))
        assert parts < first["to_result"] < parts + 10  # with the start of Python
        assert 0 < first["later"] < first["first_step"]
    assert kernels[0] == kernels[1] != kernels[2] == kernels[3]


def test_a_cold_start_is_split_by_kernel_and_stage(monkeypatch, capsys):
    kernels = [
        {"name": "many", "rendering": 0, "front": 1, "code": 2, "loading": 0, "waiting": 9},
        {"name": "dear", "rendering": 0, "front": 2, "code": 5, "loading": 1, "waiting": 0},
        {"name": "many", "rendering": 1, "front": 1, "code": 1, "loading": 0, "waiting": 0},
    ]
    parts = {"to_result": 20.0, "import": 1.0, "context": 2.0, "model": 3.0, "first_step": 14.0}
    monkeypatch.setattr(start, "_run", lambda job, environment: {**parts, "kernels": kernels})
    assert main(["bench", "start", "--cold", "--net", "fcn-r", "--json"]) == 0
    dear, many = json.loads(capsys.readouterr().out)["kernels"]
    assert dear == {**kernels[1], "kernels": 1}
    stages = {"rendering": 1, "front": 2, "code": 3, "loading": 0, "waiting": 9}
    assert many == {"name": "many", "kernels": 2, **stages}
    assert main(["bench", "start", "--cold", "--net", "fcn-r"]) == 0
    *_, everything, told = capsys.readouterr().out.splitlines()
    assert everything.split()[:2] == ["3", "14.00"]
    assert told.startswith("20.00 s to the result: import 1.00 s")


def test_networks_of_the_zoo_are_started_too(monkeypatch, capsys):
    jobs = []

    def run(job, environment):
        del environment
        jobs.append(json.loads(job)["net"])
        return {**dict.fromkeys(("to_result", "import", "context"), 1.0), "kernels": []}

    monkeypatch.setattr(start, "_run", run)
    assert main(["bench", "start", "--cold", "--net", "vae,lstm", "--json"]) == 0
    titles = [json.loads(line)["title"] for line in capsys.readouterr().out.splitlines()]
    assert titles == ["vae training, batch 1024", start.WORKLOADS["lstm"].title]  # both have one
    assert main(["bench", "start", "--net", "fcn-r,nobody"]) == 1
    assert jobs == ["vae", "lstm"]  # none before all names are known
    assert "there is no such network; got found='nobody'" in capsys.readouterr().err


def test_cold_runs_have_a_cache_of_their_own(monkeypatch):
    seen = []

    def run(job, environment):
        seen.append(json.loads(environment))
        return {"to_result": float(len(seen))}

    monkeypatch.setattr(start, "_run", run)
    cold, warm = start.measure("fcn-r", None)
    assert (cold["to_result"], warm["to_result"]) == (1.0, 3.0)
    assert all(e == seen[0] and len(set(e.values())) == 1 for e in seen)
    assert set(seen[0]) == {"CLNET_CACHE_DIR", "POCL_CACHE_DIR"}


def test_profilers_cost_is_told_off_and_on(monkeypatch, capsys):
    monkeypatch.setattr(profiler, "_ROUNDS", 1)
    monkeypatch.setattr(profiler, "_TURN_SECONDS", 0.0)
    assert main(["bench", "profiler", "--net", "fashion-cnn", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["launches"] > 10
    assert 0 < found["asking"] < 0.01
    assert 0 < found["covered"] <= 1.01


@pytest.mark.parametrize(
    ("only", "size"), [("128-10", "64 x 10 x 128"), ("256", "256 x 256 x 256")]
)
@pytest.mark.parametrize("packed", [(), ("--packed",)], ids=["", "packed"])
def test_gemm_has_its_command(capsys, only, size, packed):
    options = ["--only", only, "--rounds", "1", "--against", "nothing", *packed]
    assert main(["bench", "gemm", *options]) == 0
    assert size in capsys.readouterr().out


def test_gemm_in_other_precisions(capsys):
    """Compared with float64 of what was rounded; 16 bits only where units multiply them."""
    options = ["--rounds", "1", "--cases", "transposed", "--json", "--against", "nothing"]
    assert main(["bench", "gemm", *options, "--precision", "tf32x3"]) == 0
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert len(found) == 3
    with pytest.raises(ArgumentError, match=r"--precision: the device has no matrix units.*bf16"):
        gemm.main([*options, "--precision", "bf16"])
    where = device()
    units = Target(units_of(where.traits), where.target.workspace_limit)
    case, bf16 = gemm.Case("small", 24, 16, 40, "NT"), gemm.PRECISIONS["bf16"]
    result = gemm.measure(case, where, units, rounds=1, peer=None, precision=bf16)
    assert 1e-4 < result.error < 1e-2
    exact = bf16._replace(error=1e-6)
    with pytest.raises(ArithmeticError, match="deviates from float64"):
        gemm.measure(case, where, units, rounds=1, peer=None, precision=exact)


def test_gemm_takes_the_groups_that_are_named(capsys):
    options = ["--rounds", "1", "--against", "nothing", "--only", "s"]
    assert main(["bench", "gemm", *options, "--cases", "transposed", "--portable"]) == 0
    lines = capsys.readouterr().out.splitlines()[2:]
    assert [line.split()[6] for line in lines] == ["NT", "TN", "TT"]
    assert main(["bench", "gemm", *options, "--cases", "launch", "--only", "one"]) == 0
    (line,) = capsys.readouterr().out.splitlines()[1:][1:]
    assert line.startswith("one element                   1 x 1 x 1 NN ")
    with pytest.raises(ArgumentError, match=r"--cases: no such group.*gone.*squares"):
        gemm.main(["--cases", "gone"])


def test_conv_takes_a_network_and_a_batch(capsys):
    options = ["--layers", "resnet-50", "--batch", "2", "--only", "512-2048", "--rounds", "1"]
    assert main(["bench", "conv", *options, "--against", "nothing", "--json"]) == 0
    rows = list(map(json.loads, capsys.readouterr().out.splitlines()))
    assert [row["direction"] for row in rows] == ["forward", "input_grad", "weight_grad"]
    for row in rows:
        sizes = {name: row["geometry"][name] for name in ("n", "ic", "h", "oc", "kh", "oh")}
        assert sizes == {"n": 2, "ic": 512, "h": 7, "oc": 2048, "kh": 1, "oh": 7}
        assert row["gflops"] == pytest.approx(4 * 49 * 512 * 2048 / row["seconds"] / 1e9)
    with pytest.raises(ArgumentError, match=r"--batch is 1 or more; got --batch=0"):
        conv.main(["--batch", "0"])


def test_conv_on_matrix_units(capsys, monkeypatch):
    here = device()
    monkeypatch.setattr(here, "target", Target(units_of(here.traits), here.target.workspace_limit))
    tiny = {"3x3 16-16 @8": ConvGeometry(1, 16, 8, 8, 16, 3, 3, 8, 8, ph=1, pw=1)}
    monkeypatch.setitem(GROUPS, "resnet-50", tiny)
    options = ["--layers", "resnet-50", "--rounds", "1", "--against", "nothing", "--json"]
    assert main(["bench", "conv", *options, "--precision", "float16"]) == 0
    rows = list(map(json.loads, capsys.readouterr().out.splitlines()))
    assert [row["algorithm"] for row in rows] == ["matrix"] * 3
    if not are_compiled_wrongly(here):
        by_128 = {"warpgroup_units": True, "local_memory_bytes": 2**18, "compute_units": 3}
        traits = replace(here.target.traits, **by_128)
        monkeypatch.setattr(here, "target", Target(traits, here.target.workspace_limit))
        assert main(["bench", "conv", *options, "--precision", "tf32x3"]) == 0
        rows = list(map(json.loads, capsys.readouterr().out.splitlines()))
        assert [row["algorithm"] for row in rows] == ["matrix"] * 3


@pytest.mark.parametrize("layout", ["plain", "blocked"])
def test_conv_ends_with_means_beside_pytorch(capsys, layout):
    pytest.importorskip("torch")
    options = ["--layers", "resnet-50", "--batch", "1", "--only", "@7", "--rounds", "1"]
    assert main(["bench", "conv", *options, "--layout", layout]) == 0
    lines = capsys.readouterr().out.splitlines()
    *layers, mean = [line for line in lines if "forward" in line][:3]
    assert [line[:12] for line in layers] == ["3x3 512-512 ", "1x1 512-2048"]
    column = {"plain": -1, "blocked": -5}[layout]
    ratios = [float(line.split()[column]) for line in layers]
    (found,) = re.findall(r"mean(?: of 2:)? +([\d.]+)", mean)
    # All three are printed with two decimals: the faster layer has few digits.
    low, high = (math.prod(ratio + half for ratio in ratios) ** 0.5 for half in (-0.005, 0.005))
    assert low - 0.0051 <= float(found) <= high + 0.0051


@pytest.mark.parametrize(("steps", "counted"), [(3, 3), (50, 30)])
def test_a_short_epoch_is_timed_too(steps, counted, monkeypatch):
    """Only where others follow, the first block is left out; a step takes a second here."""

    class Side:
        def steps(self, batches):
            clock[0] += len(batches) + (10 if clock[0] == 0 else 0)
            return [1.0] * len(batches)

    clock = [0.0]
    monkeypatch.setattr(cnn, "settle", lambda: None)
    monkeypatch.setattr(cnn.time, "perf_counter", lambda: clock[0])
    own, other = cnn._epoch(Side(), Side(), [None] * steps, check=True)
    assert other == steps
    assert own == steps + (10 if counted == steps else 0)


def test_programs_of_small_ops_train(device):
    x = clnet.rand(8, 16, device=device)
    labels = clnet.arange(8, device=device) % 4
    cases = overhead.programs(clnet.nn, clnet.optim, x, labels)
    train = cases["MLP, a step of SGD too"]
    before = cases["MLP"]().detach().numpy()
    for _ in range(3):
        train()
    assert abs(cases["MLP"]().detach().numpy() - before).max() > 0
    assert cases["layer norm"]().shape == (8, 16)


def test_programs_of_small_ops_have_their_costs(device):
    costs = overhead.program_costs(device, calls=2)
    assert "MLP, backward too" in costs
    assert all(0 < cost < 1e6 for cost in costs.values())


def test_the_same_step_again_has_the_same_bits(device):
    case = step.CASES["cnn"]
    _, replayed = step.losses(case, device, 3, 4)
    step.same_bits(case, device, 3, 4, replayed)
    with pytest.raises(ArithmeticError, match="loss 2 was"):
        step.same_bits(case, device, 3, 4, [*replayed[:2], replayed[2] + 1e-6])


def test_bandwidth_tells_both_directions_beside_a_copy(capsys, monkeypatch):
    small = {"global average pool": (4, 64, 56, 56), "SGD, momentum": (2**20,)}
    cases = [c._replace(shapes=(small[c.name],)) for c in bandwidth.CASES if c.name in small]
    monkeypatch.setattr(bandwidth, "CASES", cases)
    options = ["--rounds", "1", "--against", "nothing", "--json", "--only"]
    assert main(["bench", "bandwidth", *options, "global average pool"]) == 0
    assert main(["bench", "bandwidth", *options, "SGD, momentum"]) == 0
    pool, step = map(json.loads, capsys.readouterr().out.splitlines())
    for speed in (pool["forward"], pool["backward"], step["forward"]):
        assert speed["gigabytes"] > 0
        assert speed["of_copy"] > 0
    assert step["backward"] is None


def test_bandwidth_is_not_told_of_a_wrong_result(device):
    # In float32 little is left of x.
    inexact = bandwidth.Case("sum", ((4, 5),), lambda lib, x: lambda: (x + 1e6) - 1e6)
    with pytest.raises(ArithmeticError, match="sum: deviates from float64"):
        bandwidth.measure(inexact, device, rounds=1, peer=None)


def test_attention_is_compared_before_it_is_timed(capsys, device, monkeypatch):
    narrow = attention.Case(2, 9, 4, causal=True, dtype="bfloat16")
    monkeypatch.setattr(attention, "CASES", (attention.Case(2, 9, 4, causal=True), narrow))
    options = ["--rounds", "1", "--against", "nothing", "--only", narrow.name]
    assert main(["bench", "attention", *options]) == 0
    assert "2 x 9 x 4, causal, bfloat16" in capsys.readouterr().out
    monkeypatch.setattr(attention, "CASES", (attention.Case(2, 9, 4, causal=True),))
    options = ["--rounds", "1", "--against", "nothing"]
    assert main(["bench", "attention", *options, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["flops"] == 4 * 2 * 81 * 4 // 2 * found["batch"]
    assert 0 < found["forward"] < 10
    assert main(["bench", "attention", *options]) == 0
    assert "2 x 9 x 4, causal" in capsys.readouterr().out
    monkeypatch.setitem(attention._AGREE, "float32", 1e-12)
    with pytest.raises(ArithmeticError, match=r"causal: deviates from float64; got error="):
        attention.measure(attention.CASES[0], device, batch=1, rounds=1, peer=None)


def test_recurrent_layers_are_compared_before_they_are_timed(capsys, device, monkeypatch):
    sizes = ["--states", "5", "--batch", "3", "--steps", "2", "--rounds", "1"]
    assert main(["bench", "recurrent", *sizes, "--only", "batch 3, two"]) == 0
    shown = capsys.readouterr().out
    assert "GRU 5, batch 3, two" in shown
    assert "LSTM 5, batch 3, two" in shown
    assert main(["bench", "recurrent", *sizes, "--only", "GRU 5, batch 3, one", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["steps"] == 2
    assert 0 < found["asked"] < 10
    with pytest.raises(ArgumentError, match="--states and --batch are as 128,512"):
        recurrent.main(["--states", "5x"])
    monkeypatch.setattr(recurrent, "_AGREE", 1e-12)
    with pytest.raises(ArithmeticError, match=r"outputs deviate by \d"):
        recurrent.measure(recurrent.Case("LSTM", 5, 3, 2), device, steps=2, rounds=1, peer=None)


def test_a_tinygrad_that_is_not_there_is_named(tmp_path):
    without = tmp_path / "python"
    without.write_text("#!/bin/sh\necho no tinygrad here\nexit 3\n")
    without.chmod(0o755)
    with pytest.raises(ArgumentError, match=r"tinygrad does not run.*exit_code=3.*--python"):
        beside_tinygrad.main(["--python", str(without), "--case", "gemm-1024"])


def test_unknown_case_is_refused():
    with pytest.raises(ArgumentError, match=r"no such case.*gemm-1024"):
        beside_tinygrad.main(["--case", "gemm-7"])


def test_product_beside_tinygrad(capsys):
    pytest.importorskip("tinygrad", reason="pip install tinygrad")
    assert main(["bench", "tinygrad", "--case", "gemm-1024", "--rounds", "1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["ratio"] > 0
