"""What holds for every test."""

from __future__ import annotations

import gc
import os
import random
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import hypothesis
import numpy as np
import pytest
from _pytest.doctest import DoctestModule
from hypothesis.internal.conjecture import providers

# Before clnet reads its settings: memory nobody has written is NaN (CLNET_POISON=0 leaves it out).
os.environ.setdefault("CLNET_POISON", "1")
# Before NumPy and PyTorch are loaded, here and in children: their threads spin while they wait, on
# cores that other workers need.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import clnet
from clnet.errors import DeviceError
from tests import chains, groups, left_on, reporting

hypothesis.settings.register_profile(
    "reproducible",
    deadline=None,  # the first example may compile a kernel
    derandomize=True,
    max_examples=50,
)
hypothesis.settings.load_profile("reproducible")
# It would draw constants of clnet's modules, too, of those that this process has imported: a test
# alone drew others than among all, and each worker parsed 900 files, 4 s of a core.
if hasattr(providers, "_get_local_constants"):
    providers._get_local_constants = lambda: providers._local_constants

# Intel's OpenCL runtime leaves the processor's "invalid" flag set, and NumPy then warns of its own,
# sound results; references with NaN in them are compared, not guessed from warnings.
np.seterr(invalid="ignore")


# What modules of the tests draw from, and where each was when the tests were collected.
_GENERATORS: dict[np.random.Generator, Any] = {}

TESTS = Path(__file__).parent


def pytest_configure(config: pytest.Config) -> None:
    """Plugins of ours, which hold for clnet's modules, too."""
    reporting.pytest_configure(config)
    config.pluginmanager.register(Examples())
    config.pluginmanager.register(SetAside())
    config.pluginmanager.register(left_on.LeftOn())


pytest_terminal_summary = reporting.pytest_terminal_summary


@pytest.hookimpl(tryfirst=True)  # before the fixtures, which may draw weights
def pytest_runtest_setup() -> None:
    """Each test draws the same numbers, whichever tests ran before it, and where."""
    clnet.manual_seed(0)
    np.random.seed(0)  # what libraries under test draw from
    random.seed(0)
    for generator, state in _GENERATORS.items():
        generator.bit_generator.state = state
    if "torch" in sys.modules:
        # torch.manual_seed tells accelerators, too, each with the stack of the call: 1.5 ms.
        sys.modules["torch"].default_generator.manual_seed(0)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes minutes begins first: at the end one worker would be alone with it."""
    items.sort(key=lambda item: "oclgrind" not in item.nodeid)
    modules = [module for name, module in sys.modules.items() if name.startswith("tests.")]
    for value in (value for module in modules for value in vars(module).values()):
        if isinstance(value, np.random.Generator):
            _GENERATORS[value] = value.bit_generator.state


class Examples:
    """A pytest plugin that looks for examples where there are some.

    They are in the docstrings of one in fourteen of clnet's modules, and of none of the tests. To
    import the others and look through them takes a second of a core, in each worker.
    """

    @pytest.hookimpl(wrapper=True)
    def pytest_collect_file(self, file_path: Path):
        """Leave out modules without any."""
        found = yield
        modules = [each for each in found if isinstance(each, DoctestModule)]
        if not modules:
            return found
        if TESTS in file_path.parents or b">>>" not in file_path.read_bytes():
            return [each for each in found if each not in modules]
        # pytest would import what is not there yet, and its packages, a second time.
        import_module(".".join(file_path.relative_to(TESTS.parent).with_suffix("").parts))
        return found


class SetAside:
    """A pytest plugin that keeps Python's searches for garbage short.

    What was collected are half a million objects, and a worker has three times as many in the end.
    Some tests search for all garbage, or look at all objects, and plans search again and again.
    """

    files_in_between = 8

    def __init__(self):
        self.files = 0

    def pytest_collection_finish(self) -> None:
        """What was collected stays."""
        _set_aside()

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_teardown(self, item: pytest.Item, nextitem: pytest.Item | None) -> None:
        """And so does what is left of some files."""
        if nextitem is not None and nextitem.path != item.path:
            self.files += 1
            if self.files % self.files_in_between == 0:
                _set_aside()


def _set_aside() -> None:
    gc.collect()
    gc.freeze()


@pytest.fixture
def nothing_frozen():
    """The collector looks through all objects; behind the test only through young ones."""
    gc.unfreeze()
    yield
    gc.collect(1)  # all are half a million and more: 1.3 s
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def kernels_of_groups():
    """What only GPUs launch is compiled in a fifth of the time on a CPU: see :mod:`.groups`."""
    with pytest.MonkeyPatch.context() as patch:
        groups.compile_fast(patch)
        yield


@pytest.fixture(scope="session", autouse=True)
def no_chains():
    """Nobody waits for chains: see :mod:`.chains`."""
    with pytest.MonkeyPatch.context() as patch:
        chains.leave_out(patch)
        yield


@pytest.fixture(scope="session", autouse=True)
def no_header():
    """No kernel of the session needed the driver's header: a function that it names is declared."""
    yield
    assert clnet.device().programs.statistics.with_header == 0, (
        "a kernel names a function that clnet/device/builtin_functions.py does not declare"
    )


@pytest.fixture
def device():
    """The device that tests run on: ``CLNET_DEVICE``, else the default one."""
    return clnet.device()


@pytest.fixture
def part_of_device(device):
    """One compute unit of the device: a device of its own, with memory of its own."""
    if device.traits.compute_units == 1:
        pytest.skip("the device has one compute unit and cannot be divided")
    try:
        return clnet.device(threads=1)
    except DeviceError as error:
        pytest.skip(f"the runtime cannot divide the device: {error.law}")
