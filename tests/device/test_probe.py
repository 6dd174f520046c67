"""Capabilities that are found out by trying: the verdict, where it is kept, and who is asked."""

from __future__ import annotations

import dataclasses
import os
import sys

import numpy as np
import pyopencl as cl
import pytest

from clnet.device import device
from clnet.device import probe as module
from clnet.device.builtin_functions import POCL
from clnet.device.discovery import discover, select
from clnet.device.matrix_units import UNITS
from clnet.device.probe import Trial, Verdict, lines_of, takes_ptx
from clnet.values.cache import shelf

opening = sys.modules["clnet.device.device"]  # the package has a function of its name


HANDLE = select(device().name, discover()).handle


@pytest.fixture
def told(monkeypatch):
    """A function: what processes print from then on, each what was not yet printed."""

    def told(*printed):
        left = list(printed)

        class Process:
            def __init__(self, module, function, *given, keeps=()):
                self.printed = left.pop(0) if left else pytest.fail("was tried again")
                asked.append((function, *given))

            def lines(self):
                return self.printed

        monkeypatch.setattr(module, "Process", Process)
        return asked

    asked = []
    return told


def test_this_device_is_tried(tmp_path):
    verdict = Trial(device().name, shelf(tmp_path)).verdict()
    if takes_ptx(HANDLE):
        assert verdict.asynchronous_copies
    elif device().identity.platform == POCL:
        assert verdict == Verdict()
    assert [path.is_file() for path in tmp_path.iterdir()] == [True]


def test_what_is_tried_together_is_found_alone():
    if not takes_ptx(HANDLE):
        pytest.skip("programs are not PTX text here")
    sizes = [nbytes for nbytes in module._SIZES if nbytes > HANDLE.local_mem_size]
    assert module.try_device(HANDLE) == module._tried(HANDLE, sizes, "")


def test_verdicts_are_what_a_process_says(tmp_path, told):
    copies = '[true, 98304, "ptx", false]'
    told(["ptx", copies, "yes"], ["ptx", copies], ["tried", "wmma", "yes"], ["tried", *_NAMES])
    found = [Trial("card:0", shelf(tmp_path / str(i))).verdict() for i in range(4)]
    assert found[:2] == [Verdict(True, 98304, "ptx", True), Verdict(True, 98304, "ptx", False)]
    assert found[2:] == [Verdict(False, 0, "wmma"), Verdict()]


_NAMES = [name for name in UNITS if name != "ptx"]


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

    class Seen:
        def __init__(self, selector, kept, line):
            tried.append(selector)

        def verdict(self):
            return Verdict()

    class Stop(Exception):  # what follows is not asked about
        pass

    def guarded(*_):
        raise Stop

    monkeypatch.setattr(opening, "_partition", lambda *_: Handle())
    monkeypatch.setattr(opening.cl, "Context", lambda _: None)
    monkeypatch.setattr(opening, "traits_of", lambda _: traits)
    monkeypatch.setattr(opening, "Trial", Seen)
    monkeypatch.setattr(opening, "guarded", guarded)
    with pytest.raises(Stop):
        opening.Device(found, 1)
    assert tried == [found.selector] * asked


def test_no_builtin_of_a_matrix_unit_is_found_where_there_is_none():
    if device().identity.platform != POCL:
        pytest.skip("this device may have one")
    lines = lines_of(module.__name__, "answer_units", device().name, "wmma", "dpas_8")
    assert lines == ["tried", "wmma", "dpas_8", "no"]


def test_behind_a_unit_that_ends_its_process_the_others_are_tried(tmp_path, told):
    asked = told(["tried", *_NAMES[:2]], ["tried", _NAMES[2], _NAMES[3], "yes"])
    assert Trial("card:0", shelf(tmp_path)).verdict() == Verdict(matrix_units=_NAMES[3])
    assert asked == [("answer", "card:0"), ("answer_units", "card:0", *_NAMES[2:])]


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


def test_verdict_is_kept(tmp_path, told):
    told(["ptx", '[true, 98304, "", false]'])
    trial = Trial("card:0", shelf(tmp_path))
    again = [trial.verdict(), trial.verdict(), Trial("card:0", shelf(tmp_path)).verdict()]
    assert again == [Verdict(True, 98304)] * 3
    (path,) = tmp_path.iterdir()
    path.write_text("[true, 98304]")
    told(["tried", *_NAMES])
    assert Trial("card:0", shelf(tmp_path)).verdict() == Verdict()


@pytest.mark.parametrize("printed", [[], ["ptx"], ["ptx", "[true,"]], ids=str)
def test_failed_trial_is_told_and_not_kept(printed, tmp_path, told):
    told(printed, printed)
    with pytest.warns(RuntimeWarning, match="could not be tried"):
        assert Trial("card:0", shelf(tmp_path)).verdict() == Verdict()
    assert not list(tmp_path.iterdir())


def test_a_trial_that_failed_is_begun_once_more(tmp_path, told):
    """The driver of a machine that has just started may not answer yet."""
    told([], ["ptx", '[true, 98304, "", false]'])
    assert Trial("card:0", shelf(tmp_path)).verdict() == Verdict(True, 98304)


def test_a_process_that_tries_knows_little_of_clnet(tmp_path, monkeypatch):
    """All of it takes longer to import than most trials take."""
    (tmp_path / "look.py").write_text(
        "import sys\ndef look():\n    import clnet.device.probe\n"
        "    print(*[name for name in ('clnet.nn', 'clnet.ops') if name in sys.modules])\n"
    )
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), *sys.path]))
    assert lines_of("look", "look") == [""]


def test_local_memory_of_arrays_is_the_larger_of_two():
    traits = device().traits
    few = dataclasses.replace(traits, local_memory_bytes=1000, large_local_memory_bytes=0)
    assert few.static_local_bytes == 1000
    assert dataclasses.replace(few, large_local_memory_bytes=2000).static_local_bytes == 2000
