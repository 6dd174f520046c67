"""``clnet bench scaling``: jobs of one and two workers, what is refused, and the table."""

from __future__ import annotations

import json

import pytest

from clnet.bench import scaling
from clnet.cli import main
from tests.answers import ORACLE
from tests.ranks.launch import mpirun

SMALL = ["--net", "fashion-cnn", "--batch", "8", "--rounds", "1", "--json"]


def lines(capfd) -> list[dict]:
    return [json.loads(x) for x in capfd.readouterr().out.splitlines() if x.startswith("{")]


@pytest.mark.device
def test_two_workers_are_timed_and_foretold(capfd):
    mpirun()
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
        (["--workers", "0"], "--workers is as 1,2,4"),
        (["--workers", "3", "--batch", "8"], "the batch is divided evenly"),
        (["--rounds", "0"], "--rounds"),
    ],
)
def test_jobs_that_make_no_sense_are_refused(options, complaint, capsys):
    assert main(["bench", "scaling", *options]) == 1
    assert complaint in capsys.readouterr().err


def test_a_job_that_fails_is_counted(monkeypatch, capsys):
    monkeypatch.setattr(scaling, "_WORKER", "raise SystemExit(3)  # {}")
    assert main(["bench", "scaling", *SMALL, "--workers", "1"]) == 1
    assert capsys.readouterr().out.strip() == ""


def test_the_table_has_shares_and_ideals(capsys):
    def of(workers: int, best: float, alone: float | None, devices: str | None) -> dict:
        return {
            "side": "clnet",
            "workers": workers,
            "threads": 2 // workers,
            "devices": devices,
            "title": "a net",
            "best_ms": best,
            "median_ms": best + 1,
            "alone_ms": alone,
            "foretold_ms": alone,
        }

    scaling._say([of(1, 100, None, None), of(2, 80, 60, None)], as_json=False, each=False)
    assert capsys.readouterr().out.splitlines()[-1].split() == [
        *("2", "1", "80.00", "81.00", "25.0%", "60.00", "1.25")
    ]
    for each, ideal in ((False, "0.62"), (True, "1.25")):
        scaling._say([of(1, 100, None, "a,b"), of(2, 80, 60, "a,b")], as_json=False, each=each)
        assert capsys.readouterr().out.splitlines()[-1].split()[-1] == ideal
