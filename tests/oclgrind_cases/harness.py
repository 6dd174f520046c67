"""What the cases share: exact buffers, targets of both shapes, and the account of what was run."""

from __future__ import annotations

import os
import pkgutil
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from importlib import import_module
from multiprocessing import get_context
from multiprocessing.connection import Connection
from types import ModuleType
from typing import Any

import numpy as np
import pyopencl as cl

import clnet.kernels
from clnet.array import Array
from clnet.device import Launch, Scratch, Target, device
from clnet.device import buffer_pool as pool_module
from clnet.kernels.kernel import Kernel, Rendered
from clnet.kernels.tile import Tile
from clnet.values.dtypes import DType
from clnet.values.shapes import contiguous_strides

RNG = np.random.default_rng(17)
_START = RNG.bit_generator.state
REALS = (np.float32, np.float64)
# One patch of items: of larger tiles most items have nothing of a small product.
SMALLEST_TILE = Tile(16, 32, 8, 4, 4, 4)
# So many bytes of buffers are left behind: a process more takes longer than launches beside them.
_MOST_BYTES = 300_000

Case = Callable[[Target], None]

_cases: list[tuple[Case, tuple[str, ...]]] = []
_seen: dict[str, set[Any]] = defaultdict(set)


def cpu_shaped(simd_width: int) -> Target:
    """A CPU with vectors of so many floats."""
    opened = device()
    traits = replace(
        opened.traits, dedicated_local_memory=False, simd_width=simd_width, compute_units=2
    )
    return replace(opened.target, traits=traits)


def gpu_shaped() -> Target:
    """A GPU with groups so small that tiny arrays take several."""
    opened = device()
    traits = replace(
        opened.traits,
        dedicated_local_memory=True,
        simd_width=1,
        compute_units=2,
        max_group_size=64,
        local_memory_bytes=32768,
    )
    return replace(opened.target, traits=traits)


def emulated_warpgroups(target: Target, local_memory_bytes: int) -> Target:
    """A target whose 128 items multiply together, on matrix units that local memory stands for."""
    traits = replace(
        target.traits,
        matrix_units="emulated ptx",
        warpgroup_units=True,
        local_memory_bytes=local_memory_bytes,
        max_group_size=max(target.traits.max_group_size, 128),
    )
    return replace(target, traits=traits)


# What a run under Oclgrind takes. Its check for uninitialised values mistakes lane 10 or so of a
# shuffle's mask for an undefined one (it compares the lane with an unrelated constant of LLVM's),
# so the vectors of 16 lanes are run apart, without that check.
SHAPES = {
    "narrow": {"cpu": partial(cpu_shaped, 4), "gpu": gpu_shaped},
    "wide": {"cpu": partial(cpu_shaped, 16)},
}


def case(*shapes: str) -> Callable[[Case], Case]:
    """Make a function of a target a case, for ``"cpu"``- or ``"gpu"``-shaped kernels or both."""

    def register(function: Case) -> Case:
        _cases.append((function, shapes or ("cpu", "gpu")))
        return function

    return register


def run(launches: list[Launch]) -> None:
    """Enqueue them in order, and remember which kernels they were, with which parameters."""
    for launch in launches:
        assert isinstance(launch.kernel, Rendered)
        _seen[launch.kernel.name].add(tuple(launch.kernel.params.items()))
        device().queue.launch(launch)


def given(values: np.ndarray, *, before: int = 0) -> Array:
    """An input whose buffer ends with its last element.

    Args:
        values: the input.
        before: elements of the buffer before the first.
    """
    values = np.asarray(values)
    whole = Array.from_numpy(
        np.concatenate([np.zeros(before, values.dtype), values.ravel()]), device()
    )
    return whole.view(values.shape, contiguous_strides(values.shape), before)


def normal(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    """Normally distributed numbers."""
    return RNG.normal(size=shape).astype(dtype)


def output(shape: tuple[int, ...], dtype: Any = np.float32) -> Array:
    """An output of NaNs, or of an integer that no case computes: what is not written shows."""
    kind = np.dtype(dtype)
    value = np.nan if kind.kind in "fc" else 1 if kind == np.bool_ else np.iinfo(kind).max - 7
    return given(np.full(shape, value, kind))


def transposed(array: Array) -> Array:
    """The last two axes exchanged, without a copy."""
    (*batch, rows, columns), (*steps, down, right) = array.shape, array.strides
    return array.view((*batch, columns, rows), (*steps, right, down))


def near(actual: Array, expected: np.ndarray, *, terms: int = 16) -> None:
    """Compare with a reference.

    Args:
        actual: the result.
        expected: the reference, computed in float64.
        terms: how many roundings the result may show.
    """
    values = actual.numpy()
    assert values.shape == expected.shape, (values.shape, expected.shape)
    eps = float(np.finfo(values.dtype).eps) if values.dtype.kind in "fc" else 0.0
    np.testing.assert_allclose(values, expected, rtol=terms * eps, atol=terms * eps)


@contextmanager
def constants(owner: Any, **values: Any) -> Iterator[None]:
    """A module's constants replaced, so that small arrays are cut up as large ones are."""
    before = {name: getattr(owner, name) for name in values}
    for name, value in values.items():
        setattr(owner, name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(owner, name, value)


def execute(*families: ModuleType, shapes: str) -> None:
    """Run the cases of all families imported; the narrow ones must launch all their kernels.

    Some at a time, in a process of their own: what begins is a copy of this one.

    Args:
        families: modules with cases, and with ``MODULES``: the kernel modules they answer for.
        shapes: ``"narrow"`` or ``"wide"``.

    Raises:
        AssertionError: if a number is wrong, or a kernel or a parameter's value is missing.
    """
    turns = [
        (function, name) for function, wanted in _cases for name in SHAPES[shapes] if name in wanted
    ]
    processes, done = get_context("fork"), 0
    while done < len(turns):
        answers, told = processes.Pipe(duplex=False)
        child = processes.Process(target=_some, args=(turns, done, SHAPES[shapes], told))
        child.start()
        told.close()
        try:
            done, seen = answers.recv()
        except EOFError:
            raise AssertionError("a case failed: see above") from None
        finally:
            child.join()
        for name, params in seen.items():
            _seen[name] |= params
    if shapes == "narrow":
        modules = [module for family in families for module in family.MODULES]
        missing = [text for kernel in kernels_of(*modules) for text in _missing(kernel)]
        assert not missing, "\n".join(["no case has:", *missing])


def _some(
    turns: Sequence[tuple[Case, str]], first: int, targets: Mapping[str, Any], told: Connection
) -> None:
    """Run cases from one on, until their buffers are many bytes, and say where to go on.

    Oclgrind remembers who accessed each byte of all buffers there are, and forgets it with every
    launch: so launches take the longer, the more was run before.
    """
    if "OCLGRIND_LOG" in os.environ:  # a context writes over what another one found
        os.environ["OCLGRIND_LOG"] += f".{first}"
    done = first
    with _exact_buffers() as created:
        while done < len(turns) and sum(created) < _MOST_BYTES:
            function, name = turns[done]
            start, RNG.bit_generator.state = time.process_time(), _START
            function(targets[name]())
            took = time.process_time() - start
            print(f"{took:6.2f} s  {function.__name__}, {name}-shaped", flush=True)
            done += 1
    told.send((done, dict(_seen)))


def kernels_of(*modules: ModuleType) -> list[Kernel]:
    """The kernels that modules define, alone or several in a tuple."""
    values = (value for module in modules for value in vars(module).values())
    each = (value if isinstance(value, tuple) else (value,) for value in values)
    return [kernel for several in each for kernel in several if type(kernel) is Kernel]


def kernel_modules() -> list[ModuleType]:
    """Every module of kernels that defines one."""
    names = (
        found.name for found in pkgutil.walk_packages(clnet.kernels.__path__, "clnet.kernels.")
    )
    return [module for module in map(import_module, names) if kernels_of(module)]


def _missing(kernel: Kernel) -> list[str]:
    """What was not launched: the kernel, a flag's value, an optional part, a real type."""
    seen = _seen[kernel.name]
    if not seen:
        return [f"{kernel.name}: a launch"]
    texts = []
    for name, kind in kernel.declared.parameters.items():
        values = {dict(each)[name] for each in seen}
        if name == "emulated":
            continue  # the instructions that are emulated are NVIDIA's alone
        if kind == "bool":
            wanted = {True, False}
        elif "None" in kind:
            wanted = {None} if values != {None} else {"a value"}
        elif values & {"float", "double"} and kind == "str":
            wanted = {"float", "double"}
        else:
            continue
        texts += [f"{kernel.name}: {name}={value}" for value in sorted(wanted - values, key=str)]
    return texts


@contextmanager
def _exact_buffers() -> Iterator[list[int]]:
    """Every array in a new buffer of its size, scratch memory too: Oclgrind sees a buffer's ends.

    No buffer is released: Oclgrind would take what it knows of it for knowledge of the next one.
    Nor is a byte of it written at once, as the pool does: it would take that byte for the whole.

    Yields:
        How many bytes each has that was created so far.
    """
    created: list[int] = []

    def scratch(memory: Scratch, shape: tuple[int, ...], dtype: DType) -> Array:
        array = Array.abstract(shape, dtype, memory.device)
        array.storage.materialize()
        return array

    def untouched(nbytes: int) -> cl.Buffer:
        created.append(nbytes)
        return cl.Buffer(device().queue._context, cl.mem_flags.READ_WRITE, nbytes)

    kept: list[Any] = []
    pool = device().pool
    with (
        constants(pool_module, size_class=lambda nbytes: max(nbytes, 1)),
        constants(pool, _create=untouched),
        constants(pool, give_back=kept.append),
        constants(Array, scratch=staticmethod(scratch)),
    ):
        yield created
