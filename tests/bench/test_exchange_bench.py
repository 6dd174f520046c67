"""``clnet bench allreduce``: sums of two ranks beside mpi4py's, and what is refused."""

from __future__ import annotations

import json

import pytest

from clnet.bench import exchange, own_process
from clnet.bench.own_process import parted
from clnet.cli import main
from tests.ranks.launch import mpirun, run


@pytest.mark.device
def test_sums_of_two_ranks_are_checked_and_timed(capfd):
    mpirun()
    assert main(["bench", "allreduce", "--sizes", "0.004,0.5", "--rounds", "1", "--json"]) == 0
    small, large = (json.loads(x) for x in capfd.readouterr().out.splitlines())
    assert (small["mib"], large["mib"]) == (0.004, 0.5)
    for way in ("clnet", "mpi4py", "pieces", "map"):
        assert 0 < small[way]["best_ms"] == small[way]["median_ms"]


@pytest.mark.device
def test_every_other_exchange_is_checked_and_timed():
    """Of three ranks, in one job."""
    program = """
from clnet.bench import exchange
for op in exchange._OPS[1:]:
    exchange.worker({"op": op, "sizes": [0.5], "rounds": 1, "devices": None})
"""
    done = run(3, "-c", program)
    assert done.returncode == 0, done.stderr
    found, _ = parted(done.stdout)
    assert [sorted(figures) for figures in found] == [["clnet", "mib", "mpi4py"]] * 6
    assert len(exchange._row(found[0])) == 4


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
    monkeypatch.setattr(own_process, "_PROGRAM", "raise SystemExit('a job was run')")
    assert main(["bench", "allreduce", *options]) == 1
    assert complaint in capsys.readouterr().err
