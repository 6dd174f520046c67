"""Exchanges with other ranks in profiles, traces and the times of steps."""

from __future__ import annotations

import json
import re

import pytest

from clnet.device import Command
from clnet.profiling import Profile
from clnet.profiling.exchanges import hidden_seconds
from clnet.train import StepTime
from clnet.values.exchanges import Exchange, observed_exchanges, tell_exchange
from tests.ranks.launch import SOON, run


def command(start: float, seconds: float, kind: str = "kernel") -> Command:
    return Command("d", kind, kind, "", "", "", 0, 0, start, seconds, 0.0, 0.0, 0, 0)


def test_kernels_beside_an_exchange_hide_it():
    exchange = Exchange("all_reduce", 0.0, 1.0, 3.0, 8)
    assert (exchange.waited, exchange.seconds) == (1.0, 2.0)
    kernels = [command(0.0, 1.5), command(1.25, 0.5), command(2.5, 9.0), command(1.0, 2.0, "map")]
    assert hidden_seconds([exchange], kernels) == pytest.approx(0.75 + 0.5)
    assert hidden_seconds([exchange], []) == 0


def test_a_step_tells_the_share_of_its_exchanges():
    alone = StepTime(3, 1.0, 2.0, 0.5)
    assert "exchange" not in str(alone)
    told = str(StepTime(3, 1.0, 2.0, 0.5, exchange=2.0, hidden=1.5))
    assert told.endswith(", exchange 2.00 ms (1.50 beside kernels; 12% of the step)")


def test_who_looks_on_is_told_until_the_end():
    with observed_exchanges() as outer:
        with observed_exchanges() as inner:
            tell_exchange(Exchange("send", 0.0, 0.0, 1.0, 0))
        tell_exchange(Exchange("recv", 0.0, 0.0, 1.0, 0))
    assert [e.call for e in outer] == ["send", "recv"]
    assert [e.call for e in inner] == ["send"]


def test_a_profile_alone_has_no_exchanges():
    found = Profile()
    assert "exchange" not in found.summary()
    assert found.fields()["exchanges"]["calls"] == 0


PROGRAM = """
import json, sys
import clnet
from clnet import distributed as dist, nn, optim
from clnet.data import ArrayDataset, DataLoader
from clnet.train import StepTimes, Trainer
import numpy as np
dist.init_process_group(timeout=60)
rank = dist.get_rank()
with clnet.profile() as p:
    dist.all_reduce(clnet.ones(1000))
    dist.send(clnet.ones(3), 1) if rank == 0 else dist.recv(clnet.zeros(3), 0)
p.save_trace(sys.argv[1], ranks=dist.group.WORLD)
assert sorted(e.call for e in p.exchanges)[0] == "all_reduce"
(joined,) = (e for e in p.exchanges if e.call == "all_reduce")
assert joined.bytes == 4000 and 0 < joined.seconds < p.wall
assert "Exchanges with other ranks" in p.summary()
assert p.fields()["exchanges"]["calls"] == len(p.exchanges) == 2
times = StepTimes(1)
net = nn.Sequential(nn.Linear(4, 2), nn.BatchNorm1d(2))  # of parameters and counts
with clnet.profile() as p:
    model = nn.parallel.DistributedDataParallel(net)
assert {e.call: e.bytes for e in p.exchanges}["broadcast_many"] == 4 * (8 + 2 + 4 * 2) + 8
trainer = Trainer(model, nn.functional.mse_loss, optim.SGD(model.parameters(), lr=0.1),
                  progress=False, callbacks=[times])
x = np.ones((8, 4), np.float32)
trainer.fit(DataLoader(ArrayDataset(x, x[:, :2]), 4), epochs=1)
assert len(times.steps) == 2 and all(s.exchange > s.hidden >= 0 for s in times.steps)
assert trainer.history.epochs[0]["exchange_ms"] > 0
print(f"<{rank} is done>")
dist.destroy_process_group()
"""


@pytest.mark.device
def test_ranks_have_tracks_in_one_trace(tmp_path):
    done = run(2, "-c", PROGRAM, str(tmp_path / "trace.json"), **SOON)
    assert done.returncode == 0, done.stdout + done.stderr
    assert sorted(re.findall("<(.) is done>", done.stdout)) == ["0", "1"]
    found = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    names = [e["args"]["name"] for e in found if e["name"] == "process_name"]
    assert [n for n in names if n.endswith("host")] == ["rank 0: host", "rank 1: host"]
    assert len([n for n in names if n.startswith("rank 1: ")]) == 2
    joined = [e for e in found if e["name"] == "all_reduce"]
    assert len({e["pid"] for e in joined}) == 2
    first, second = joined
    # They took place at the same time, as both clocks have it.
    assert abs(first["ts"] + first["dur"] - second["ts"] - second["dur"]) < 1e6
