"""What a driver is wrong about is left out: the least that helps, kept for the devices to come."""

from __future__ import annotations

import warnings
from dataclasses import replace
from unittest.mock import patch

import pytest

import clnet
from clnet.cli import main
from clnet.device import Device
from clnet.device.discovery import discover, select
from clnet.device.guard import guarded, keep, left_out, plainer
from clnet.doctor.case import Finding, Outcome
from clnet.doctor.examine import everything, examine
from clnet.doctor.report import empty_report, mended
from clnet.values.settings import SETTINGS
from tests.doctor.faulty import Rewriting, planted

pytestmark = pytest.mark.device


# A compiler that is wrong where a kernel has vectors of 8 or 16 floats.
WRONG = (r"(float(?:8|16) multiply_add\([^{]*\{\s*return x \* y)", r"\1 * 1.001f")


@pytest.fixture
def settings(tmp_path):
    """A cache of its own."""
    own = replace(SETTINGS, cache_dir=tmp_path)
    with (
        patch("clnet.device.guard.SETTINGS", own),
        patch("clnet.device.device.SETTINGS", own),
    ):
        yield own


def test_each_alone_comes_before_more_together(device):
    traits = replace(device.traits, simd_width=8, matrix_units="ptx", float16=False)
    ways = [*plainer(traits)]
    assert ways[0] == ("matrix units", {"matrix_units": ""})
    assert ways[1] == ("vectors of 8 floats", {"simd_width": 4})
    assert ways[2] == ("vectors", {"simd_width": 1})
    assert ways[3] == (
        "matrix units and vectors of 8 floats",
        {"matrix_units": "", "simd_width": 4},
    )
    assert [*plainer(replace(device.traits, simd_width=1, float16=False, matrix_units=""))] == []


def test_the_least_that_helps_is_found(device):
    traits = replace(device.traits, simd_width=8, matrix_units="ptx", float16=False)
    asked = []

    def ask(changes, only):
        asked.append((changes, only))
        wrong = (
            changes.get("simd_width", 8) > 1 if only is None else changes.get("simd_width", 8) > 4
        )
        return [Outcome("exp", "f", [Finding("a", "b")] if wrong else [])]

    assert mended(traits, ["exp"], ask) == ("vectors", {"simd_width": 1})
    assert asked == [
        ({"matrix_units": ""}, ["exp"]),
        ({"simd_width": 4}, ["exp"]),
        ({"simd_width": 4}, None),
        ({"simd_width": 1}, ["exp"]),
        ({"simd_width": 1}, None),
    ]
    assert (
        mended(traits, ["exp"], lambda *given: [Outcome("exp", "f", [Finding("a", "b")])]) is None
    )


def test_a_driver_that_is_wrong_about_vectors_is_right_without(tmp_path):
    names = ["product, several tiles", "convolution, many channels"]
    with planted(Rewriting(WRONG), tmp_path) as device:
        if device.traits.simd_width < 8:
            pytest.skip("the device has no wide vectors")
        whole = device.traits
        asked = everything(names)
        assert any(outcome.findings for outcome in examine(device, asked))

        def ask(changes, only):
            device.leave_out({"simd_width": whole.simd_width, **changes})
            return examine(device, asked)

        found = mended(whole, names, ask)
    assert found is not None
    assert found[1]["simd_width"] <= 4


def test_what_is_kept_is_left_out_of_devices_to_come(device, settings):
    found = select(None if SETTINGS.device is None else SETTINGS.device, discover())
    assert guarded(device.traits, device.identity, "pocl:0") == device.traits
    keep(device.identity, "vectors", {"simd_width": 1})
    with pytest.warns(RuntimeWarning, match="is wrong about vectors; kernels that need them"):
        opened = Device(found, None)
    assert opened.traits.simd_width == opened.target.traits.simd_width == 1
    assert clnet.exp(clnet.zeros(300, device=opened)).tolist() == [1.0] * 300
    keep(device.identity, "", {})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert Device(found, None).traits.simd_width == device.traits.simd_width


def test_the_command_mends(device, settings, monkeypatch, capsys):
    ill = empty_report(device)
    ill.outcomes = [Outcome("exp", "pointwise", [Finding("a", "b")])]
    monkeypatch.setattr("clnet.cli.doctor.diagnose", lambda device, **given: ill)
    monkeypatch.setattr(
        "clnet.cli.doctor.examine_apart", lambda *given, **named: (ill.outcomes, [])
    )
    assert main(["doctor", "--mend"]) == 1
    assert "nothing that is left out makes it right" in capsys.readouterr().out
    right = [Outcome("exp", "pointwise")]
    monkeypatch.setattr("clnet.cli.doctor.examine_apart", lambda *given, **named: (right, []))
    if [*plainer(device.traits)]:
        assert main(["doctor", "--mend"]) == 0
        assert "is used without from now on" in capsys.readouterr().out
        with pytest.warns(RuntimeWarning, match="is wrong about"):
            guarded(device.traits, device.identity, "pocl:0")
        # What was found before is left out still.
        keep(device.identity, "images", {"images": 0})
        assert main(["doctor", "--mend"]) == 0
        assert "without images and " in capsys.readouterr().out
        name, changes = left_out(device.identity)
        assert name.startswith("images and ")
        assert changes["images"] == 0
        assert len(changes) > 1
