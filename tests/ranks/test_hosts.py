"""Ranks on two hosts, which are network namespaces: what goes by memory, and what by the cable."""

from __future__ import annotations

import re

import pytest

from tests.ranks import hosts
from tests.ranks.launch import CHECKOUT

pytestmark = pytest.mark.device

PROGRAM = """
import platform
import numpy as np
import clnet
from clnet import distributed as dist
from clnet.ranks.membership import group_of
dist.init_process_group(timeout=60)
rank, size = dist.get_rank(), dist.get_world_size()
x = clnet.arange(600_011).float() * (rank + 1)
dist.all_reduce(x)
wanted = np.arange(600_011, dtype=np.float32) * (size * (size + 1) // 2)
assert (x.numpy() == wanted).all()
near = group_of("", None).nearby()
print(f"<{platform.node()[-1]}{rank} {near.here.size} {near._across.size}>")
dist.destroy_process_group()
"""

LEAVING = """
import os, time
from clnet import distributed as dist
dist.init_process_group(timeout=60)
rank = dist.get_rank()
dist.barrier()
"""


def test_two_ranks_on_each_of_two_hosts_sum():
    if reason := hosts.missing():
        pytest.skip(reason)
    done, sent = hosts.run(2, ["-c", PROGRAM])
    assert done.returncode == 0, done.stdout + done.stderr
    found = sorted(re.findall("<(.*?)>", done.stdout))
    assert found == ["a0 2 2", "a1 2 2", "b2 2 2", "b3 2 2"]
    # Each host has summed its ranks' before: 2.4 MB go each way, not those of all ranks.
    assert 2.4e6 < sent < 6e6


def test_a_rank_that_dies_is_told_from_another_host():
    if reason := hosts.missing():
        pytest.skip(reason)
    program = f"{LEAVING}\nif rank == 1:\n    os.kill(os.getpid(), 9)\ntime.sleep(60)"
    done, _ = hosts.run(1, ["-c", program])
    told = re.findall(r"clnet: rank (\d) of 2 on \S+-(.), process \d+, has died", done.stderr)
    assert told == [("1", "b")]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["data_parallel", "hybrid_parallel", "pipeline_gpt"])
def test_examples_run_on_two_hosts(name):
    if reason := hosts.missing():
        pytest.skip(reason)
    program = f"import sys; sys.path.insert(0, {str(CHECKOUT / 'examples')!r}); import {name} as e"
    done, sent = hosts.run(1, ["-c", f"{program}\ne.main(steps=2)\nprint('<ended>')"])
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("<ended>") == 2
    assert sent > 10_000
