"""The contest of the seven networks: its sides agree, it refuses what is not whole, it goes on."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

import clnet
from clnet.bench import chart, contest, paper, shi2016, torch_networks
from clnet.bench.peer import peer_on
from clnet.bench.side import Ours, Theirs
from clnet.bench.workload import OTHERS, PAPER, WORKLOADS, Workload, chosen, with_batch
from clnet.device import DeviceKind
from clnet.errors import ArgumentError, ClnetError

SMALL = WORKLOADS["fashion-cnn"]


def outcome(**changes):
    fields = contest.Outcome(
        workload="resnet-56", title="ResNet-56", device="a cpu", threads=2, seconds=2.0,
        turns=[2.0], parameters=855_050, gflop=96.37, gflops=48.2, of_gemm=0.4, of_copy=0.3,
        kernel_seconds=1.9, profiled_seconds=2.0, launches=900, peak_bytes=2**29,
        peak_resident_bytes=2**30, first_seconds=9.0, peer="PyTorch 2", peers={"default": 4.0},
        ratios={"default": 2.0}, peer_peak_bytes={"default": 2**28},
    ).fields()  # fmt: skip
    return fields | changes


def test_the_papers_table_is_whole():
    assert len(paper.TABLE) == 392
    assert {e.net for e in paper.TABLE} == {w.title for w in PAPER}
    exact = {(e.net, e.tool, e.column): e.seconds for e in paper.TABLE}
    assert exact["FCN-S", "Caffe", "D8"] == 15.444
    assert exact["LSTM", "Torch", "K80"] == 0.560


@pytest.mark.parametrize(
    ("net", "columns", "tool", "seconds"),
    [
        ("AlexNet-S", ("G1080",), "Caffe", 0.021),  # MXNet's 0.014 left half the network out
        ("LSTM", ("D4", "S4"), "TF", 1.935),  # CNTK's 0.090 had 1/32 of the words
        ("FCN-R", ("S16",), "CNTK", 0.252),
    ],
)
def test_what_cannot_be_compared_is_never_the_best(net, columns, tool, seconds):
    best = paper.best(net, columns)
    assert (best.tool, best.seconds) == (tool, seconds)


def test_figures_with_as_many_threads_stand_beside_ours():
    assert [e.column for e in paper.beside("FCN-S", 2)] == ["D2", "S16", "G1080"]
    assert [e.column for e in paper.beside("FCN-S", None)] == ["S16", "G1080"]
    assert paper.beside("Fashion-MNIST CNN", 2) == []


def test_the_whole_table_is_printed(capsys):
    assert shi2016.main(["--paper"]) == 0
    out = capsys.readouterr().out
    rows = [
        line.split()
        for line in out.splitlines()
        if re.search(r" (Caffe|CNTK|TF|MXNet|Torch) ", line)
    ]
    rows = [row for row in rows if row[-1] in {w.title for w in PAPER} and len(row) == 15]
    assert len(rows) == 35
    assert ["0.186(!)", "CNTK", "LSTM"] in [[row[0], *row[-2:]] for row in rows]
    assert all(len(row) == 15 for row in rows)


def test_ours_stand_below_by_threads():
    rows = paper.table({("FCN-S", 1): 0.5, ("FCN-S", 2): 0.25, ("Fashion-MNIST CNN", 1): 9.0})
    assert rows[0][-4:] == ("ours 1", "ours 2", "tool", "network")
    assert rows[-1][-4:] == ("0.500", "0.250", "clnet", "FCN-S")
    assert len(rows) == 7  # heads, five tools and ours
    assert paper.table({("Fashion-MNIST CNN", 1): 9.0}) == []


@pytest.mark.parametrize(
    ("threads", "columns"),
    [(2, ("D2", "S2")), (16, ("S16",)), (14, ()), (None, ("G980", "G1080", "K80"))],
)
def test_equal_threads_are_compared(threads, columns):
    assert paper.equal_threads(threads) == columns


@pytest.mark.parametrize("workload", [*PAPER, *OTHERS], ids=lambda w: w.name)
def test_twins_have_the_same_parameters(workload):
    torch = pytest.importorskip("torch")
    with torch.device("meta"):
        twin = torch_networks.build(torch, workload.name)
    with clnet.abstract():
        ours = workload.make()
    assert [p.shape for p in ours.parameters()] == [tuple(p.shape) for p in twin.parameters()]


@pytest.mark.device
def test_both_sides_take_the_same_steps(device):
    pytest.importorskip("torch")
    ours = Ours(SMALL, device)
    theirs = Theirs(SMALL, peer_on(device), ours.weights(), "channels_last")
    for _ in range(3):
        ours.step()
        theirs.step()
        np.testing.assert_allclose(ours.result(), theirs.result(), rtol=1e-4)


@pytest.mark.device
@pytest.mark.parametrize("words", [False, True], ids=["", "with states"])
def test_later_steps_are_not_traced(device, words):
    """A step with states is given those of the one before, which lie beside it."""
    ours = Ours(with_batch(WORKLOADS["lstm"], 2) if words else SMALL, device)
    traces = []
    for _ in range(4):
        ours.step()
        traces.append(ours.traces)
    assert traces[1:] == [traces[1]] * 3


@pytest.mark.device
def test_contest_checks_and_times_both(device, monkeypatch, tmp_path):
    pytest.importorskip("torch")
    monkeypatch.setattr(contest, "_LEAST_ROUNDS", 2)
    monkeypatch.setattr(contest, "_TURN_SECONDS", 0.0)
    limits = clnet.profiling.Limits(100.0, 10.0)
    monkeypatch.setattr(contest, "measured_limits", lambda device: limits)
    found = contest.run(SMALL, device, threads=1, torch_modes=["default"], seconds=0.0)
    assert found.parameters == 421_642
    assert found.gflops == pytest.approx(SMALL.gflop / found.seconds)
    assert 0 < found.kernel_seconds <= found.profiled_seconds * 1.1
    assert found.peers["default"] > 0
    assert found.ratios["default"] > 0
    assert json.loads(json.dumps(found.fields()))["launches"] > 10


@pytest.mark.device
def test_sides_that_disagree_are_not_timed(device, monkeypatch):
    pytest.importorskip("torch")
    limits = clnet.profiling.Limits(100.0, 10.0)
    monkeypatch.setattr(contest, "measured_limits", lambda device: limits)
    weights = Ours.weights
    monkeypatch.setattr(Ours, "weights", lambda self: [w * 1.2 for w in weights(self)])
    with pytest.raises(ArithmeticError, match="gradients differ from PyTorch"):
        contest.run(SMALL, device, torch_modes=["default"], seconds=0.0)


@pytest.mark.device
def test_a_mode_that_disagrees_with_pytorch_itself_is_left_out(device, monkeypatch):
    pytest.importorskip("torch")
    monkeypatch.setattr(contest, "_LEAST_ROUNDS", 2)
    monkeypatch.setattr(contest, "_TURN_SECONDS", 0.0)
    limits = clnet.profiling.Limits(100.0, 10.0)
    monkeypatch.setattr(contest, "measured_limits", lambda device: limits)

    class Wrong(Theirs):
        def __init__(self, workload, peer, weights, torch_mode):
            if torch_mode == "channels_last":
                weights = [w * 1.2 for w in weights]
            super().__init__(workload, peer, weights, torch_mode)

    monkeypatch.setattr(contest, "Theirs", Wrong)
    modes = ["default", "channels_last"]
    found = contest.run(SMALL, device, threads=1, torch_modes=modes, seconds=0.0)
    assert found.ratios.keys() == {"default"}
    assert re.fullmatch(r"failed: off by .* times what is allowed", found.peers["channels_last"])


@pytest.mark.device
def test_dead_parameters_are_refused(device):
    class Half(clnet.nn.Module):
        def __init__(self):
            super().__init__()
            self.alive, self.dead = clnet.nn.Linear(4, 3), clnet.nn.Linear(4, 3)

        def forward(self, x):
            self.dead(x)
            return self.alive(x)

    ours = Ours(Workload("half", "Half", Half, (8, 4), 3, 1e-6, sgd={"lr": 0.1}), device)
    ours.step()
    with pytest.raises(ArgumentError, match=r"gets no gradient.*dead\.weight, dead\.bias"):
        ours.refuse_dead_parameters()


def test_report_shows_ours_theirs_and_the_papers():
    text = shi2016.report([outcome(), outcome(workload="fashion-cnn", title="Fashion-MNIST CNN")])
    assert "855,050" in text
    assert "2.00" in text
    assert "3.222 Torch D2, 2.368 Torch D4, 0.074 MXNet G1080" in text
    assert "MXNet has one batch norm more" in text
    heads = next(line for line in text.splitlines() if line.startswith("default"))
    assert heads.split() == ["default", "ratio", "peak", "threads", "network"]
    assert re.search(r"4\.0000 +2\.00 +256\.0 MiB +2 +ResNet-56", text)
    without = shi2016.report([outcome(peer_peak_bytes={})])
    assert "default  ratio  threads  network" in without


def test_a_run_that_was_cut_off_goes_on(monkeypatch, tmp_path, capsys):
    jobs = []

    def measured(module, job):
        assert module == "shi2016"
        jobs.append((job["net"], job["threads"]))
        if job["net"] == "fcn-r":
            return None
        title = WORKLOADS[job["net"]].title
        return outcome(workload=job["net"], title=title, threads=job["threads"], peers={})

    monkeypatch.setattr(shi2016, "measured", measured)
    monkeypatch.setattr(shi2016, "_threads", lambda options: [1, 2])
    results = str(tmp_path / "found.jsonl")
    shown = ["--results", results, "--resume"]
    assert shi2016.main(["--net", "fcn-s", *shown]) == 0
    assert shi2016.main(["--net", "fcn-s,lstm,fcn-r", *shown]) == 1  # one of them failed
    nets = [net for net, _ in jobs]
    assert nets == ["fcn-s", "fcn-s", "lstm", "lstm", "fcn-r", "fcn-r"]
    out = capsys.readouterr().out
    assert out.count("FCN-S") >= 2
    assert "1/32 of the work" in out


@pytest.mark.parametrize(
    "wrong",
    [{"threads": "2"}, {"threads": 2.5}, {"peer": 3}, {"turns": [None]}, {"peers": {"a": []}}],
)
def test_figures_of_another_type_are_refused(tmp_path, wrong):
    results = tmp_path / "found.jsonl"
    rows = (outcome(threads=1), outcome(threads=None), outcome(**wrong))
    results.write_text("\n".join(json.dumps(row) for row in rows[:2]))
    assert len(shi2016._earlier(results)) == 2
    results.write_text("\n".join(json.dumps(row) for row in rows))
    with pytest.raises(ClnetError, match="not what this benchmark writes"):
        shi2016._earlier(results)


def test_chart_is_a_picture(tmp_path):
    pytest.importorskip("matplotlib")
    chart.write([outcome(), outcome(threads=1)], tmp_path / "chart.png")
    data = (tmp_path / "chart.png").read_bytes()
    assert data.startswith(b"\x89PNG")
    assert len(data) > 10_000


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--net", "vgg"], "no such network.*fcn-s"),
        (["--against", "torch", "--torch-mode", "best"], "no such mode"),
        (["--threads", "two"], "numbers from 1 on, with commas"),
        (["--threads", "2,0"], "numbers from 1 on, with commas"),
    ],
)
@pytest.mark.device
def test_wrong_options_are_named(device, arguments, message):
    if "--threads" in arguments and device.traits.kind is not DeviceKind.CPU:
        pytest.skip("threads are a CPU's")
    with pytest.raises(ArgumentError, match=message):
        shi2016.main(arguments)


def test_names_choose_workloads():
    assert [w.title for w in chosen(None)] == [w.title for w in PAPER]
    assert len(chosen("all")) == len(PAPER) + len(OTHERS)
    assert [w.name for w in chosen("LSTM,fcn-s")] == ["lstm", "fcn-s"]
