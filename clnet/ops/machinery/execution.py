"""Runs ops on arrays, or has them recorded; it decides nothing about what they compute."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter

from ...array import Array, Uncounted
from ...device import Device, Launch, Target
from ...errors import DeviceError, GradientError, OutOfDeviceMemory
from ...expr import Input
from ...values import mode
from ...values.dtypes import DType, float32
from ...values.shapes import broadcast_strides
from .first_use import LeftOut, look
from .function import Arrays, Function
from .lowering import key_of, launches_of
from .pointwise import Pointwise

_STORAGE = attrgetter("storage")
_TOLD_INPUTS = 4


def execute(function: Function, inputs: tuple[Array, ...]) -> tuple[Array, ...]:
    """Infer, take memory, lower and enqueue; or let the tracer record it instead.

    Args:
        function: the op with its settings.
        inputs: its arrays.

    Returns:
        Its outputs.

    Raises:
        ClnetError: whatever ``infer`` finds wrong; nothing has been changed then.
        OutOfDeviceMemory: if an output or the scratch memory does not fit.
    """
    try:
        return _executed(function, inputs)
    except OutOfDeviceMemory as error:
        error.tell_op(function.name, told_inputs(inputs))
        raise


def told_inputs(inputs: Sequence[Array]) -> str:
    """An op's first inputs, for whoever is told that memory does not suffice."""
    told = [f"{x.dtype.name} {x.shape}" for x in inputs[:_TOLD_INPUTS]]
    told += ["..."] * (len(inputs) > _TOLD_INPUTS)
    return f"[{', '.join(told)}]"


def _executed(function: Function, inputs: tuple[Array, ...]) -> tuple[Array, ...]:
    """A view, an op that came so before, or one that is inferred, lowered and run.

    What costs least is asked about first. A trace records instead of running.
    """
    now = mode.current()
    plain = now.tracer is None and not now.abstract and now.anomaly is None
    if plain and function.views:
        outputs = function.infer(*inputs)
        for output in outputs:
            output.storage.materialize()
        return outputs
    if plain and function.repeats:
        storages = list(map(_STORAGE, inputs))
        device = storages[0].device if storages else function.device
        key = key_of(function, inputs, storages, now.float32_precision)
        kept = device.target.launches.get(key)
        if kept is not None and device.first_uses is None:  # as inputs that lay so before
            outputs = tuple(map(Array.like, kept.outputs))
            storages[:0] = map(_STORAGE, outputs)
            again, args = device.queue.run_again, (kept.launches, function, storages)
            if not kept.mutates:
                again(*args, function.varying, len(outputs))
                return outputs
            if not now.inference:
                _require_outside(function, kept.mutates, inputs)
            with device.lock:  # who finds the new version finds what was written
                again(*args, function.varying, len(outputs))
                _written(kept.mutates, inputs)
            return outputs
    device = _common_device(function, inputs)
    outputs = function.infer(*inputs)
    narrow = not function.sixteen_bit and any(_narrow(x) for x in inputs)
    if narrow and not function.narrow_on(device.target, inputs):
        return _between_conversions(function, inputs, outputs)
    if now.tracer is not None:
        now.tracer.record(function, inputs, outputs)
    elif now.abstract:
        _written(function.mutates, inputs)
    else:
        anomaly = now.anomaly
        clean = () if anomaly is None else anomaly.look_before(function, inputs)
        target = device.target
        launches = launches_of(function, target, outputs, inputs)
        if device.first_uses is not None and _differs(function, target, outputs, inputs, launches):
            return _executed(function, inputs)
        for launch in launches:
            launch.op, launch.module_path, launch.phase = function.name, now.module_path, now.phase
        if function.mutates:
            if not now.inference:
                _require_outside(function, function.mutates, inputs)
            with device.lock:  # who finds the new version finds what was written
                device.queue.run(launches, outputs)
                _written(function.mutates, inputs)
        elif launches:
            device.queue.run(launches, outputs)
        else:  # views, most often
            for output in outputs:
                output.storage.materialize()
        if anomaly is not None:
            anomaly.look(function, inputs, outputs, clean)
    return outputs


def _differs(
    function: Function, target: Target, outputs: Arrays, inputs: Arrays, launches: list[Launch]
) -> bool:
    """Whether kernels new to the driver are wrong; they are left out then, and others chosen."""
    try:
        look(function, target, outputs, inputs, launches)
    except LeftOut:
        return True
    return False


def _require_outside(
    function: Function, positions: Sequence[int], inputs: tuple[Array, ...]
) -> None:
    """Refuse to overwrite what ``inference_mode`` made, outside of it.

    Raises:
        GradientError: if an op would, but through ``x.data``.
    """
    for position in positions:
        x = inputs[position]
        if x.storage.inference and type(x) is not Uncounted:
            raise GradientError(
                function.name,
                "Inplace update to inference tensor outside InferenceMode is not allowed",
                shape=x.shape,
                remedy="Overwrite a clone() of it, or make it under no_grad()",
            )


def _written(positions: Sequence[int], inputs: tuple[Array, ...]) -> None:
    for position in positions:
        inputs[position].storage.written(seen=type(inputs[position]) is not Uncounted)


def _between_conversions(
    function: Function, inputs: tuple[Array, ...], outputs: tuple[Array, ...]
) -> tuple[Array, ...]:
    """The op in float32: 16-bit inputs are widened, and outputs inferred with 16 bits narrowed.

    The conversions are ops of their own, so the pool, or a plan by lifetimes, takes the memory in
    between back at once, and what rewrites a trace sees pointwise ops.
    """
    wide = tuple(_widened(x) if _narrow(x) else x for x in inputs)
    found = execute(function, wide)
    return tuple(
        y if y.dtype is wanted.dtype else _converted(y, wanted.dtype)
        for y, wanted in zip(found, outputs, strict=True)
    )


def _narrow(x: Array) -> bool:
    return x.dtype.is_floating_point and x.dtype.itemsize < float32.itemsize


def _widened(x: Array) -> Array:
    """In float32; its axes keep their order in memory, and what is repeated stays repeated."""
    once = tuple(1 if step == 0 else n for n, step in zip(x.shape, x.strides, strict=True))
    order = sorted(range(x.ndim), key=lambda axis: -x.strides[axis])
    wide = _converted(
        x.view(tuple(once[a] for a in order), tuple(x.strides[a] for a in order)), float32
    )
    strides = tuple(wide.strides[order.index(axis)] for axis in range(x.ndim))
    return wide.view(x.shape, broadcast_strides(once, strides, x.shape))


def _converted(x: Array, dtype: DType) -> Array:
    return execute(Pointwise("to", (Input(0),), (), float32, (dtype,)), (x,))[0]


def _common_device(function: Function, inputs: tuple[Array, ...]) -> Device:
    if not inputs:
        return function.device
    device = inputs[0].storage.device
    for array in inputs:
        if array.storage.device is not device:
            raise DeviceError(
                function.name,
                "operands are on different devices",
                devices=", ".join(a.device.name for a in inputs),
                remedy="Move one with .to(device)",
            )
    return device
