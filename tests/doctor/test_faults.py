"""Faults planted under the queue: the doctor finds each, and none where there is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from clnet.doctor.examine import everything, examine
from tests.doctor.faulty import FAULTS, Driver, Fault, planted

pytestmark = pytest.mark.device


def named(*names: str):
    asked = [one for one in everything() if one.name in names]
    assert len(asked) == len(names)
    return asked


@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_a_fault_is_found(fault: Fault, tmp_path: Path):
    with planted(fault.driver(), tmp_path) as device:
        outcomes = examine(
            device, named(*fault.asked), enough=lambda outcome: bool(outcome.findings)
        )
    assert any(outcome.findings for outcome in outcomes)


def test_a_driver_without_a_fault_has_no_finding(tmp_path: Path):
    asked = {name for fault in FAULTS for name in fault.asked}
    with planted(Driver(), tmp_path) as device:
        outcomes = examine(device, named(*asked))
    assert [(o.name, o.findings) for o in outcomes if o.findings] == []
    assert len(outcomes) == len(asked)
