"""``clnet bench scaling``: jobs of one and two workers, what is refused, and the table."""

from __future__ import annotations

import json
import subprocess
import sys
import time

import pytest

from clnet.bench import own_process, scaling
from clnet.cli import main
from tests.answers import ORACLE
from tests.ranks.launch import mpirun

# AlexNet-S has 250 MB of weights; its layers with fewer features are divided as they are. Nothing
# is foretold, which other tests ask for: half of a job's time.
SMALLER = """
from clnet.bench import scaling
scaling._foretold = lambda *given: None
from dataclasses import replace
from clnet import nn
from clnet.bench.workload import WORKLOADS
def smaller():
    return nn.Sequential(
        *(nn.Conv2d(3, 8, 5, stride=2), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()),
        *(nn.Linear(72, 48), nn.ReLU(), nn.Linear(48, 32), nn.ReLU(), nn.Linear(32, 10)),
    )
given = WORKLOADS["alexnet-s"]
WORKLOADS["alexnet-s"] = replace(given, make=smaller, input_shape=(4, 3, 17, 17), classes=10)
"""
# What a link takes is measured by sums of 64 MiB, 15 of them; a name that is gone ends the worker.
SHORT_SUMS = """
from clnet.bench import link
assert hasattr(link, "_BYTES")
link._BYTES = (2**20, 2**22)
"""
# One block of the GPT, whose step is traced and measured three times, shows it as four do.
ONE_BLOCK = """
from clnet.bench import scaling
from clnet.models import GPT
assert hasattr(scaling, "gpt")
scaling.gpt = lambda words, length: GPT(words, length, n_layer=1)
"""
SMALL = ["--net", "fashion-cnn", "--batch", "8", "--rounds", "1", "--json"]


def lines(capfd) -> list[dict]:
    return [json.loads(x) for x in capfd.readouterr().out.splitlines() if x.startswith("{")]


def begin_with(lines: str, patch: pytest.MonkeyPatch) -> None:
    """Workers do this before their job."""
    call = "{worker}(job)\n"
    before = own_process._PROGRAM.removesuffix(call)
    assert before != own_process._PROGRAM
    patch.setattr(own_process, "_PROGRAM", before + lines + call)


@pytest.mark.device
def test_two_workers_are_timed_and_foretold(capfd, monkeypatch):
    mpirun()
    begin_with(SHORT_SUMS, monkeypatch)
    assert main(["bench", "scaling", *SMALL, "--workers", "2"]) == 0
    (two,) = lines(capfd)
    assert (two["side"], two["workers"], two["title"]) == ("clnet", 2, "Fashion-MNIST CNN, batch 8")
    assert 0 < two["best_ms"] <= two["median_ms"]
    assert two["alone_ms"] > 0
    assert two["foretold_ms"] > 0


@pytest.mark.slow
@pytest.mark.device
def test_pytorch_runs_beside(capfd):
    pytest.importorskip("torch", reason=ORACLE)
    assert main(["bench", "scaling", *SMALL, "--workers", "1", "--against", "torch"]) == 0
    mine, its = lines(capfd)
    assert (mine["side"], its["side"]) == ("clnet", "torch")
    assert its["best_ms"] > 0
    assert mine["foretold_ms"] is None


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--net", "lstm"], "--net is a network that is trained on images"),
        (["--way", "data,rows"], "--way is of data, in-parts, threads, hybrid, row-column, pipe"),
        (["--way", "threads", "--workers", "2", "--devices", "cpu"], "has a device for each"),
        (["--way", "hybrid"], "--way hybrid divides dense layers behind convolutions"),
        (["--way", "pipeline", "--net", "alexnet-s"], "--way pipeline divides a GPT's blocks"),
        (["--workers", "0"], "--workers is as 1,2,4"),
        (["--workers", "3", "--batch", "8"], "the batch is divided evenly"),
        (["--workers", "1,3", "--batch", "8"], "the batch is divided evenly"),
        (["--rounds", "0"], "--rounds"),
        (["--threads", "-2"], "--threads"),
        (["--devices", "pocl:77"], "pocl:77"),
    ],
)
def test_jobs_that_make_no_sense_are_refused(options, complaint, monkeypatch, capsys):
    monkeypatch.setattr(own_process, "_PROGRAM", "raise SystemExit('a job was run')")
    monkeypatch.setattr(scaling, "_result", lambda _: pytest.fail("a job was run"))
    assert main(["bench", "scaling", *options]) == 1
    assert complaint in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.device
@pytest.mark.parametrize(
    ("net", "ways"),
    [("gpt", "data,in-parts,threads,row-column,pipeline"), ("alexnet-s", "data,hybrid")],
)
def test_every_way_has_the_losses_of_one_worker(net, ways, monkeypatch, capfd):
    mpirun()
    begin_with(SMALLER, monkeypatch)
    options = ["--net", net, "--batch", "4", "--rounds", "1", "--json", "--workers", "1,2"]
    assert main(["bench", "scaling", *options, "--way", ways]) == 0
    one, *several = lines(capfd)
    assert [x["way"] for x in several] == ways.split(",")
    for found in several:
        assert found["losses"] == pytest.approx(one["losses"], rel=1e-3)
        assert found["peak_bytes"] > 0


@pytest.mark.slow
@pytest.mark.device
def test_what_the_planner_does_not_divide_is_timed_alone(capfd, monkeypatch):
    """Three workers have parts of other sizes than the planner knows."""
    mpirun()
    begin_with(SHORT_SUMS + ONE_BLOCK, monkeypatch)
    options = ["--net", "gpt", "--batch", "3", "--rounds", "1", "--json", "--workers", "3"]
    assert main(["bench", "scaling", *options, "--way", "row-column"]) == 0
    (found,) = lines(capfd)
    assert found["best_ms"] > 0
    assert found["foretold_ms"] is None


def test_other_losses_are_told(capsys):
    common = {"side": "clnet", "way": "data", "workers": 2, "batch": 4}
    found = [{**common, "losses": [2.0]}, {**common, "losses": [2.1]}]
    assert scaling._differing(found, "fp32") == 1
    assert "losses [2.1] differ from [2.0]" in capsys.readouterr().err
    assert scaling._differing([*found[:1], {**found[0], "losses": [2.0001]}], "fp32") == 0


@pytest.mark.parametrize(
    ("absent", "options", "complaint"),
    [
        ("mpi4py", ["--workers", "1,2"], "several workers need MPI"),
        ("torch", ["--workers", "1", "--against", "torch"], "--against torch needs PyTorch"),
    ],
)
def test_what_is_not_installed_is_told_before_any_job(
    absent, options, complaint, monkeypatch, capsys
):
    monkeypatch.setattr(scaling, "find_spec", lambda name: None if name == absent else True)
    monkeypatch.setattr(scaling, "_result", lambda _: pytest.fail("a job was run"))
    assert main(["bench", "scaling", *SMALL, *options]) == 1
    assert complaint in capsys.readouterr().err


def test_a_worker_that_waits_for_one_that_failed_is_ended():
    programs = ("import time; time.sleep(100)", "raise SystemExit(3)")
    processes = [
        subprocess.Popen([sys.executable, "-c", x], stdout=subprocess.PIPE, text=True)
        for x in programs
    ]
    begin = time.monotonic()
    assert scaling._result(processes) is None
    assert time.monotonic() - begin < 50
    assert all(process.returncode for process in processes)


def test_a_job_that_fails_is_counted(monkeypatch, capsys):
    monkeypatch.setattr(own_process, "_PROGRAM", "raise SystemExit(3)")
    assert main(["bench", "scaling", *SMALL, "--workers", "1"]) == 1
    assert capsys.readouterr().out.strip() == ""


def test_the_table_has_shares_and_ideals(capsys):
    def of(workers: int, best: float, alone: float | None, devices: str | None) -> dict:
        return {
            "side": "clnet",
            "way": "data",
            "workers": workers,
            "threads": 2 // workers,
            "devices": devices,
            "title": "a net",
            "best_ms": best,
            "median_ms": best + 1,
            "alone_ms": alone,
            "foretold_ms": alone,
            "peak_bytes": 3 * 2**20,
            "losses": [2.5, 2.0],
        }

    scaling._say([of(1, 100, None, None), of(2, 80, 60, None)], as_json=False, each=False)
    assert capsys.readouterr().out.splitlines()[-1].split() == [
        *("data", "2", "1", "80.00", "81.00", "25.0%", "60.00", "1.25", "3", "2.50000")
    ]
    for each, ideal in ((False, "0.62"), (True, "1.25")):
        scaling._say([of(1, 100, None, "a,b"), of(2, 80, 60, "a,b")], as_json=False, each=each)
        assert capsys.readouterr().out.splitlines()[-1].split()[-3] == ideal
