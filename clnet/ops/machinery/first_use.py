"""The first use of a kernel on a driver nobody has tried: its op is computed in a plainer way, too.

Compilers are wrong about single kernels: about a vector's width, a barrier in a loop, a matrix
unit. No list of tests knows them all, but clnet has several kernels for most ops. So where
``device.first_uses`` says that it is wanted, an op whose kernels are new to the driver is computed
twice on drawn numbers, by the kernels that the device's traits choose and by those of the plainest
device; where they differ, the least is left out that makes them agree (:mod:`clnet.device.guard`).
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from ...array import Array
from ...device import Device, KernelSource, Launch, Queue, Storage, Target
from ...device.guard import keep, left_out, plainer
from ...errors import ClnetError, OutOfDeviceMemory
from ...values import mode
from ...values.dtypes import DType, float32
from .function import Arrays, Function

_MOST_BYTES = 256 * 2**20
# Of the largest element: sums in another order, operands that are rounded for matrix units.
_TOLERANCES = {"float64": 1e-6, "float32": 1e-3}
_NARROW_TOLERANCE = 3e-2


class LeftOut(Exception):
    """What was chosen for the device holds no more: it is used without something from now on."""


def look(
    function: Function,
    target: Target,
    outputs: Arrays,
    inputs: Arrays,
    launches: Sequence[Launch],
) -> None:
    """Compare an op's kernels with plainer ones, if they are new to the driver.

    Where memory is too short for both, they are compared at a later use.

    Args:
        function: the op.
        target: the device's, when the op was lowered.
        outputs: its arrays; ``infer`` gave them. They are not touched.
        inputs: its arrays; integers among them that have memory are read, since they may be places.
        launches: what ``lower`` gave for them.

    Raises:
        LeftOut: if the plainer kernels give other numbers, as a warning has said; or if another
            thread has found such a thing since the op was lowered.
    """
    arrays = inputs or outputs
    if not launches or not arrays:
        return
    device = arrays[0].storage.device
    uses = device.first_uses
    if uses is None:
        return
    new = uses.new([launch.kernel for launch in launches])
    if not new or sum(s.nbytes for s in {a.storage for a in (*inputs, *outputs)}) > _MOST_BYTES:
        return
    with device.lock:
        if device.target is not target:
            raise LeftOut
        try:
            with _trying(device.queue):
                found = _Comparison(device, function, outputs, inputs).wrong(launches)
        except OutOfDeviceMemory:
            return
        if found:
            _leave_out(device, function, new, *found[0])
            raise LeftOut
        if found is None:
            uses.compared += 1
        else:
            uses.alone += 1
    uses.agreed(new)


@contextmanager
def _trying(queue: Queue) -> Iterator[None]:
    """Have what kernels find wrong with drawn data be told to nobody; under the device's lock."""
    faults, queue.faults = queue.faults, queue.faults.untold()
    try:
        yield
    finally:
        queue.faults = faults


class _Comparison:
    """An op on drawn numbers, computed by kernels for several targets."""

    def __init__(self, device: Device, function: Function, outputs: Arrays, inputs: Arrays) -> None:
        self._device, self._function = device, function
        self._outputs, self._inputs = outputs, inputs
        self._contents = {a.storage: _drawn(a) for a in (*outputs, *inputs)}

    def wrong(self, launches: Sequence[Launch]) -> list[tuple[str, dict[str, Any]]] | None:
        """What to leave out, in a list; an empty one: there is no other way; None: nothing."""
        ways = [*plainer(self._device.traits)]
        if not ways:
            return []
        plain = self._numbers(self._device.target_without(ways[-1][1]), launches)
        if plain is None:
            return []
        chosen = self._numbers(self._device.target, ())
        if chosen is None or self._agree(chosen, plain):
            return None
        for name, changes in ways[:-1]:
            found = self._numbers(self._device.target_without(changes), ())
            if found is not None and self._agree(found, plain):
                return [(name, changes)]
        return [ways[-1]]

    def _numbers(self, target: Target, unlike: Sequence[Launch]) -> list[np.ndarray] | None:
        """What the kernels for a target write; None if they are those of ``unlike``, or none."""
        widened = _is_widened(self._function, target, self._inputs)
        memory: dict[Storage, Storage] = {}
        for storage, content in self._contents.items():
            numbers = content.astype(np.float32) if widened and _is_narrow(content) else content
            memory[storage] = copy = Storage(self._device, numbers.nbytes)
            copy.materialize()
            if numbers.size:
                self._device.queue.upload(copy, numbers)
        outputs, inputs = (
            tuple(_at(memory[a.storage], a, widened=widened) for a in arrays)
            for arrays in (self._outputs, self._inputs)
        )
        try:
            launches = self._function.lower(target, outputs, inputs)
        except ClnetError:  # an op of a rewritten trace, whose arrays lie as wide vectors want them
            return None
        if _kernels(launches) == _kernels(unlike):
            return None
        self._device.queue.run(launches)
        return [y.numpy() for y in self._written(outputs, inputs)]

    def _written(self, outputs: Arrays, inputs: Arrays) -> Arrays:
        return (*outputs, *(inputs[i] for i in self._function.mutates))

    def _agree(self, these: list[np.ndarray], those: list[np.ndarray]) -> bool:
        dtypes = [y.dtype for y in self._written(self._outputs, self._inputs)]
        return all(map(_close, dtypes, these, those))


def _is_widened(function: Function, target: Target, inputs: Arrays) -> bool:
    """Whether ``execute`` would run an op between conversions to float32."""
    narrow = any(x.dtype.is_floating_point and x.dtype.itemsize < float32.itemsize for x in inputs)
    return narrow and not function.sixteen_bit and not function.narrow_on(target, inputs)


def _is_narrow(numbers: np.ndarray) -> bool:
    return numbers.itemsize == 2 and numbers.dtype.kind not in "iu"


def _at(memory: Storage, array: Array, *, widened: bool) -> Array:
    """An array that lies in other memory as this one does."""
    narrow = array.dtype.is_floating_point and array.dtype.itemsize < float32.itemsize
    dtype = float32 if widened and narrow else array.dtype
    return Array(memory, array.shape, array.strides, array.offset, dtype)


def _kernels(launches: Sequence[Launch]) -> list[KernelSource]:
    return [launch.kernel for launch in launches]


def _drawn(array: Array) -> np.ndarray:
    """Bytes for the storage of an array: floats in [0, 1); integers as they are, or 0."""
    storage, dtype = array.storage, array.dtype
    count = storage.nbytes // dtype.itemsize
    rng = np.random.default_rng(storage.nbytes)
    if dtype.is_floating_point or dtype.is_complex:
        each = dtype.real if dtype.is_complex else dtype
        numbers = rng.random(storage.nbytes // each.itemsize, np.float32).astype(each.numpy)
    elif storage.buffer is not None and count:
        numbers = np.empty(count, dtype.numpy)
        storage.device.queue.download(numbers, storage)
    else:
        numbers = np.zeros(count, dtype.numpy)
    return numbers


def _close(dtype: DType, a: np.ndarray, b: np.ndarray) -> bool:
    """Whether two results are the same but for rounding."""
    if not (dtype.is_floating_point or dtype.is_complex):
        return np.array_equal(a, b)
    tolerance = _TOLERANCES.get(dtype.real.name, _NARROW_TOLERANCE)
    if mode.current().float32_precision != "highest":
        tolerance = max(tolerance, _NARROW_TOLERANCE)
    wide = np.complex128 if dtype.is_complex else np.float64
    with np.errstate(invalid="ignore"):  # 16-bit numbers that are none
        x, y = a.astype(wide), b.astype(wide)
    finite = np.isfinite(y)
    if not np.array_equal(np.isfinite(x), finite):
        return False
    largest = np.abs(y[finite]).max(initial=0)
    return bool((np.abs(x[finite] - y[finite]) <= tolerance * largest).all())


def _leave_out(
    device: Device,
    function: Function,
    kernels: Sequence[KernelSource],
    name: str,
    changes: dict[str, Any],
) -> None:
    """Use the device without something, in this process and in those to come, and say so."""
    before, already = left_out(device.identity)
    every = " and ".join(filter(None, (before, name)))
    device.leave_out(changes)
    keep(device.identity, every, {**already, **changes})
    names = ", ".join(dict.fromkeys(k.name for k in kernels))
    warnings.warn(
        f"device {device.name!r}: {names} (of {function.name}) gives other numbers than plainer "
        f"kernels do; {name} are not used from now on, with this driver. clnet doctor says more",
        RuntimeWarning,
        stacklevel=4,
    )
