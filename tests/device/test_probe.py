"""Capabilities that are found out by trying: the verdict, where it is kept, and who is asked."""

from __future__ import annotations

import dataclasses

import pyopencl as cl
import pytest

from clnet.device import device
from clnet.device import probe as module
from clnet.device.discovery import discover, select
from clnet.device.probe import Verdict, probe, takes_ptx
from clnet.values.cache import shelf


@pytest.fixture(scope="module")
def context():
    return cl.Context([select(device().name, discover()).handle])


def test_only_devices_that_take_ptx_are_tried(context, tmp_path, monkeypatch):
    if takes_ptx(context):
        pytest.skip("this device takes PTX")
    monkeypatch.setattr(module, "_in_a_process", lambda _: pytest.fail("was tried"))
    assert probe(context, device().name, shelf(tmp_path)) == Verdict(False, 0)


def test_verdict_is_kept(context, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "takes_ptx", lambda _: True)
    monkeypatch.setattr(module, "_in_a_process", lambda _: Verdict(True, 98304))
    assert probe(context, device().name, shelf(tmp_path)) == Verdict(True, 98304)
    monkeypatch.setattr(module, "_in_a_process", lambda _: pytest.fail("was tried again"))
    assert probe(context, device().name, shelf(tmp_path)) == Verdict(True, 98304)
    (path,) = tmp_path.iterdir()
    path.write_text("[true, 98304]")
    monkeypatch.setattr(module, "_in_a_process", lambda _: Verdict())
    assert probe(context, device().name, shelf(tmp_path)) == Verdict()


def test_failed_trial_is_told_and_not_kept(context, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "takes_ptx", lambda _: True)
    with pytest.warns(RuntimeWarning, match="could not be tried"):
        assert probe(context, "nonsense:0", shelf(tmp_path)) == Verdict()
    assert not list(tmp_path.iterdir())


def test_trial_in_a_process_answers(context):
    if not takes_ptx(context):
        pytest.skip("PTX in a kernel ends the process here")
    verdict = module._in_a_process(device().name)
    assert verdict is not None
    assert verdict.asynchronous_copies


def test_local_memory_of_arrays_is_the_larger_of_two():
    traits = device().traits
    few = dataclasses.replace(traits, local_memory_bytes=1000, large_local_memory_bytes=0)
    assert few.static_local_bytes == 1000
    assert dataclasses.replace(few, large_local_memory_bytes=2000).static_local_bytes == 2000
