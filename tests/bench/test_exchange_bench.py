"""``clnet bench allreduce``: sums of two ranks beside mpi4py's, and what is refused."""

from __future__ import annotations

import json

import pytest

from clnet.bench import exchange
from clnet.cli import main
from tests.ranks.launch import mpirun


@pytest.mark.device
def test_sums_of_two_ranks_are_checked_and_timed(capfd):
    mpirun()
    assert main(["bench", "allreduce", "--sizes", "0.004,0.5", "--rounds", "1", "--json"]) == 0
    small, large = (json.loads(x) for x in capfd.readouterr().out.splitlines())
    assert (small["mib"], large["mib"]) == (0.004, 0.5)
    for way in ("clnet", "mpi4py", "pieces", "map"):
        assert 0 < small[way]["best_ms"] == small[way]["median_ms"]


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--sizes", "1,many"], "--sizes is as 1,4,16"),
        (["--sizes", "0"], "--sizes is as 1,4,16"),
        (["--rounds", "0"], "--rounds"),
        (["--workers", "0"], "--workers"),
    ],
)
def test_what_makes_no_sense_is_refused(options, complaint, monkeypatch, capsys):
    monkeypatch.setattr(exchange, "_PROGRAM", "raise SystemExit('a job was run')")
    assert main(["bench", "allreduce", *options]) == 1
    assert complaint in capsys.readouterr().err
