"""PTX for another target, tensor maps' words, and the trial that decides whether they are used."""

from __future__ import annotations

import json

import numpy as np
import pyopencl as cl
import pytest

from clnet.device import WARPGROUP_UNITS, device, map_form
from clnet.device import probe as module
from clnet.device.builder import build
from clnet.device.discovery import discover, select
from clnet.device.probe import Verdict, takes_ptx
from clnet.device.warpgroups import MARK, TRIAL, is_marked, retargeted

PTX = b"//\n.version 8.8\n.target sm_90\n.address_size 64\n//@ wgmma.fence.sync.aligned;\nret;\0\0"


def test_marked_lines_are_taken_in_for_the_target_that_has_them():
    text = retargeted(PTX)
    assert text == (
        b"//\n.version 8.8\n.target sm_90a\n.address_size 64\nwgmma.fence.sync.aligned;\nret;"
    )


@pytest.mark.parametrize("target", [b"sm_80", b"sm_90a", b"sm_100"])
def test_programs_for_other_targets_are_left(target):
    assert retargeted(PTX.replace(b"sm_90", target)) is None


def test_a_builder_gives_nothing_if_there_is_nothing_to_replace():
    context = cl.Context([select(device().name, discover()).handle])
    text = "__kernel void k(__global float *y) { y[0] = 1; }"
    binary, *_ = build(context, text, (), ((rb"no such text", b""),))
    assert not binary, "the process that asked builds it itself, and says what is wrong"
    assert build(context, text, ())[0]


def test_only_marked_sources_are_loaded_again():
    assert is_marked(TRIAL)
    assert TRIAL.count(MARK) == 4
    assert not is_marked("// a comment of C\n__kernel void k(__global float *y) { *y = 1; }")


def test_words_of_a_map_are_those_of_the_drivers_function():
    # Seen in maps that cuTensorMapEncodeTiled made, of rank 2, lines of 128 bytes swizzled.
    assert map_form(WARPGROUP_UNITS["half"], 2) == 1 << 4 | 6 << 7 | 3 << 13 | 2 << 17
    assert map_form(WARPGROUP_UNITS["bfloat16"], 2) == 1 << 4 | 10 << 7 | 3 << 13 | 2 << 17
    tf32 = 1 << 4 | 7 << 7 | 3 << 13 | 2 << 17 | 1 << 16
    assert map_form(WARPGROUP_UNITS["float"], 2) == tf32
    assert map_form(WARPGROUP_UNITS["float"], 4) - tf32 == 2 << 4


@pytest.mark.parametrize("multiply", [True, False])
@pytest.mark.parametrize("units", ["ptx", ""])
def test_warpgroups_are_tried_last_and_behind_other_units(units, multiply, monkeypatch, capsys):
    found = Verdict(True, 232000, units)
    monkeypatch.setattr(module, "takes_ptx", lambda _: True)
    monkeypatch.setattr(module, "try_device", lambda _: found)
    monkeypatch.setattr(
        module, "warpgroups_multiply", lambda _: multiply if units else pytest.fail("was tried")
    )
    module.answer(device().name)
    lines = capsys.readouterr().out.splitlines()
    assert lines == ["ptx", json.dumps(found), *(["yes"] if units and multiply else [])]
    verdict = module._told(lines, device().name)
    assert verdict == found._replace(warpgroup_units=bool(units) and multiply)


def test_a_compiler_without_ptx_multiplies_by_no_warpgroups(monkeypatch):
    handle = select(device().name, discover()).handle
    if takes_ptx(handle):
        pytest.skip("this device takes PTX")
    plain = "__kernel void probe_warpgroup(__global float *y) { *y = 1; }"
    monkeypatch.setattr(module, "TRIAL", plain)
    assert not module.warpgroups_multiply(handle)


def test_source_with_marks_is_refused_where_no_ptx_comes_out():
    here = device()
    if takes_ptx(select(here.name, discover()).handle):
        pytest.skip("this device takes PTX")
    text = f"__kernel void k(__global float *y) {{ *y = 1; }} // {MARK}"
    with pytest.raises(cl.RuntimeError, match="no PTX"):
        here.programs._compiled(text, ("-cl-std=CL1.2",))


def test_trials_numbers_are_exact():
    """The sums of the trial are whole numbers that float32 holds."""
    drawn = np.random.default_rng(1).integers(-8, 9, (72, 64))
    assert np.abs(drawn[:64] @ drawn[64:].reshape(64, 8)).max() < 2**24
