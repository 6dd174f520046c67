"""Capabilities that are found out by trying: the verdict, where it is kept, and who is asked."""

from __future__ import annotations

import dataclasses
import sys

import numpy as np
import pyopencl as cl
import pytest

from clnet.device import device
from clnet.device import probe as module
from clnet.device.builtin_functions import POCL
from clnet.device.discovery import discover, select
from clnet.device.matrix_units import UNITS
from clnet.device.probe import Verdict, probe, takes_ptx
from clnet.values.cache import shelf

opening = sys.modules["clnet.device.device"]  # the package has a function of its name


@pytest.fixture(scope="module")
def context():
    return cl.Context([select(device().name, discover()).handle])


def test_only_devices_that_take_ptx_are_tried(context, tmp_path, monkeypatch):
    if takes_ptx(context):
        pytest.skip("this device takes PTX")
    monkeypatch.setattr(module, "_by_ptx", lambda _: pytest.fail("was tried"))
    monkeypatch.setattr(module, "_unit_in_processes", lambda _: Verdict(matrix_units="wmma"))
    assert probe(context, device().name, shelf(tmp_path)) == Verdict(False, 0, "wmma")


@pytest.mark.parametrize(
    ("kinds", "asked"),
    [
        (cl.device_type.GPU, True),
        (cl.device_type.GPU | cl.device_type.CPU, False),
        (cl.device_type.CPU, False),
    ],
)
def test_what_is_a_cpu_is_not_tried(kinds, asked, monkeypatch):
    """Oclgrind's simulator is of all kinds, and a process that tries costs it a second."""
    found, tried = select(device().name, discover()), []
    traits = dataclasses.replace(device().traits, dedicated_local_memory=True)

    class Handle:
        type = kinds

        def __getattr__(self, name):
            return getattr(found.handle, name)

    def seen(context, selector, kept):
        tried.append(selector)
        return Verdict()

    class Stop(Exception):  # what follows is not asked about
        pass

    def guarded(*_):
        raise Stop

    monkeypatch.setattr(opening, "_partition", lambda *_: Handle())
    monkeypatch.setattr(opening.cl, "Context", lambda _: None)
    monkeypatch.setattr(opening, "traits_of", lambda _: traits)
    monkeypatch.setattr(opening, "probe", seen)
    monkeypatch.setattr(opening, "guarded", guarded)
    with pytest.raises(Stop):
        opening.Device(found, 1)
    assert tried == [found.selector] * asked


def test_no_builtin_of_a_matrix_unit_is_found_where_there_is_none(monkeypatch):
    if device().identity.platform != POCL:
        pytest.skip("this device may have one")
    monkeypatch.setattr(module, "UNITS", {name: UNITS[name] for name in ("wmma", "dpas_8")})
    assert module._unit_in_processes(device().name) == Verdict()


def test_behind_a_unit_that_ends_its_process_the_others_are_tried(monkeypatch):
    answers = [["tried", "mfma_xf32", "mfma_1k"], ["tried", "mfma", "wmma_gfx12", "yes"]]
    given = []

    def process(function, selector, *names):
        given.append(names[0])
        return answers.pop(0)

    monkeypatch.setattr(module, "_process", process)
    assert module._unit_in_processes("card:0") == Verdict(matrix_units="wmma_gfx12")
    assert given == ["mfma_xf32", "mfma"]
    monkeypatch.setattr(module, "_process", lambda *_: [])
    assert module._unit_in_processes("card:0") is None


PRODUCTS = [
    ("wmma", "half"),
    ("mfma_1k", "bfloat16"),
    ("mfma_xf32", "float"),
    ("dpas_16_tf32", "float"),
]


@pytest.mark.parametrize(("name", "ctype"), PRODUCTS, ids=str)
def test_units_numbers_are_checked(name, ctype, monkeypatch):
    """What the trial's kernel gives to items and takes from them, with the product in NumPy."""
    unit = UNITS[name][ctype]

    def run(handle, source, kernel, x, count):
        assert unit.call.format(a="a_held", b="b_held", sums="sums") in source
        assert kernel == "probe_unit"
        rows = x.view(module._DTYPES[ctype]).astype(np.float32).reshape(-1, unit.steps)
        y = rows[: unit.rows] @ rows[unit.rows :].T
        y[-1, -1] += wrong
        return y.reshape(count)

    monkeypatch.setattr(module, "_run", run)
    wrong = 0
    assert module.unit_multiplies(None, unit, ctype)
    wrong = 1
    assert not module.unit_multiplies(None, unit, ctype)


def test_verdict_is_kept(context, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "takes_ptx", lambda _: True)
    monkeypatch.setattr(module, "_by_ptx", lambda _: Verdict(True, 98304))
    assert probe(context, device().name, shelf(tmp_path)) == Verdict(True, 98304)
    monkeypatch.setattr(module, "_by_ptx", lambda _: pytest.fail("was tried again"))
    assert probe(context, device().name, shelf(tmp_path)) == Verdict(True, 98304)
    (path,) = tmp_path.iterdir()
    path.write_text("[true, 98304]")
    monkeypatch.setattr(module, "_by_ptx", lambda _: Verdict())
    assert probe(context, device().name, shelf(tmp_path)) == Verdict()


def test_failed_trial_is_told_and_not_kept(context, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "takes_ptx", lambda _: True)
    with pytest.warns(RuntimeWarning, match="could not be tried"):
        assert probe(context, "nonsense:0", shelf(tmp_path)) == Verdict()
    assert not list(tmp_path.iterdir())


def test_trial_in_a_process_answers(context):
    if not takes_ptx(context):
        pytest.skip("PTX in a kernel ends the process here")
    verdict = module._by_ptx(device().name)
    assert verdict is not None
    assert verdict.asynchronous_copies


def test_local_memory_of_arrays_is_the_larger_of_two():
    traits = device().traits
    few = dataclasses.replace(traits, local_memory_bytes=1000, large_local_memory_bytes=0)
    assert few.static_local_bytes == 1000
    assert dataclasses.replace(few, large_local_memory_bytes=2000).static_local_bytes == 2000
