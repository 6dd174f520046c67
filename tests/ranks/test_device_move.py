"""What only moves between ranks, by devices that tests tell to, and by hosts."""

from __future__ import annotations

import pytest

from tests.ranks.launch import passed

pytestmark = pytest.mark.device


@pytest.mark.parametrize(("who", "ranks"), [("device", 2), ("device", 3), ("host", 4), ("", 2)])
def test_all_that_moves_is_there_with_every_bit(who, ranks):
    told = passed(ranks, "device_moves", **({"CLNET_SUMS": who} if who else {}))
    assert told == [f"rank {rank} of {ranks}" for rank in range(ranks)]


@pytest.mark.parametrize(
    ("variables", "ranks"),
    [({"CLNET_SUMS": "device"}, 2), ({}, 3), ({"ELSEWHERE": "1", "CLNET_SUMS": "device"}, 2)],
    ids=["by devices", "by hosts", "by MPI"],
)
def test_messages_come_with_every_bit(variables, ranks):
    told = passed(ranks, "device_messages", **variables)
    assert told == [f"rank {rank} of {ranks}" for rank in range(ranks)]
