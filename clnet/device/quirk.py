"""What a driver says of its device beside what it does: numbers for a report, tried where possible.

Nothing of it changes which kernels are chosen; that is the work of :mod:`.traits`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pyopencl as cl

from .discovery import discover, select
from .quiet_build import built

_EMPTY = "__kernel void quirk(__global float *y) { y[get_global_id(0)] = 1; }"
_DENORMAL = """
__kernel void quirk(__global float *y) { y[get_global_id(0)] *= 0.5f; }
"""
_SUB_GROUP = """
__kernel void quirk(__global float *y)
{
    y[get_global_id(0)] = sub_group_reduce_add(1.0f);
}
"""
_ITEMS = 64
_REFUSED = "refused"
_EVENTS = 20

Numbers = dict[str, Any]


def quirks(selector: str) -> Numbers:
    """Numbers and capabilities of a device, by name: as stated, and as found where both are there.

    Args:
        selector: the device's name, ``"pocl:0"``, as ``clnet devices`` lists it.

    Returns:
        Numbers, texts and booleans; ``"refused"`` for what the driver gave an error for.
    """
    handle = select(selector.partition("[")[0], discover()).handle
    context = cl.Context([handle])
    queue = cl.CommandQueue(
        context, handle, properties=cl.command_queue_properties.PROFILING_ENABLE
    )
    extensions = set(handle.extensions.split())
    found: Numbers = {
        "float64": bool(handle.double_fp_config),
        "float16": "cl_khr_fp16" in extensions,
        "sub-groups stated": bool({"cl_khr_subgroups", "cl_intel_subgroups"} & extensions),
        "command buffers": "cl_khr_command_buffer" in extensions,
        "denormals stated": bool(handle.single_fp_config & cl.device_fp_config.DENORM),
        "largest group stated": handle.max_work_group_size,
        "largest allocation stated": handle.max_mem_alloc_size,
        "event resolution stated ns": handle.profiling_timer_resolution,
    }
    tried: dict[str, Callable[[Any, Any, Any], Any]] = {
        "denormals kept": _denormals,
        "largest group compiled": _compiled_group,
        "largest allocation made": _allocation,
        "event resolution found ns": _resolution,
        "round trip us": _round_trip,
    }
    if found["sub-groups stated"]:
        tried["sub-group size"] = _sub_group
    for name, attempt in tried.items():
        found[name] = _tried(attempt, context, queue, handle)
    return found


def _tried(attempt: Callable[[Any, Any, Any], Any], *where: Any) -> Any:
    try:
        return attempt(*where)
    except cl.Error:
        return _REFUSED


def _kernel(context: Any, text: str) -> Any:
    return cl.Kernel(built(cl.Program(context, text)), "quirk")


def _run(context: Any, queue: Any, text: str, y: np.ndarray) -> Any:
    """What a kernel makes of some numbers; gives its event."""
    flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
    memory = cl.Buffer(context, flags, hostbuf=y)
    event = _kernel(context, text)(queue, (y.size,), (min(y.size, _ITEMS),), memory)
    cl.enqueue_copy(queue, y, memory)
    queue.finish()
    return event


def _denormals(context: Any, queue: Any, handle: Any) -> bool:
    y = np.full(_ITEMS, 1e-39, np.float32)
    _run(context, queue, _DENORMAL, y)
    return bool((y == np.float32(1e-39) / 2).all())


def _compiled_group(context: Any, queue: Any, handle: Any) -> int:
    return _kernel(context, _EMPTY).get_work_group_info(
        cl.kernel_work_group_info.WORK_GROUP_SIZE, handle
    )


def _allocation(context: Any, queue: Any, handle: Any) -> int:
    """The largest buffer whose two ends can be written and read, of those stated and its halves."""
    size = handle.max_mem_alloc_size
    while size > 1 and not _has_ends(context, queue, size):
        size //= 2
    return size


def _has_ends(context: Any, queue: Any, size: int) -> bool:
    ends = np.arange(16, dtype=np.uint8)[:size]
    try:
        memory = cl.Buffer(context, cl.mem_flags.READ_WRITE, size)
        for place in (0, size - ends.nbytes):
            back = np.zeros_like(ends)
            cl.enqueue_copy(queue, memory, ends, dst_offset=place)
            cl.enqueue_copy(queue, back, memory, src_offset=place)
            if not np.array_equal(back, ends):
                return False
        memory.release()
    except cl.Error:
        return False
    return True


def _resolution(context: Any, queue: Any, handle: Any) -> int:
    """The smallest step between times of events, in ns."""
    y = np.zeros(_ITEMS, np.float32)
    events = [_run(context, queue, _EMPTY, y) for _ in range(_EVENTS)]
    times = sorted({t for e in events for t in (e.profile.start, e.profile.end)})
    return int(min((b - a for a, b in pairwise(times)), default=0))


def _sub_group(context: Any, queue: Any, handle: Any) -> int:
    y = np.zeros(_ITEMS, np.float32)
    _run(context, queue, _SUB_GROUP, y)
    return int(y[0])


def _round_trip(context: Any, queue: Any, handle: Any) -> float:
    """Microseconds from enqueueing an empty kernel until the host knows that it ran; the median."""
    plain = cl.CommandQueue(context, handle)  # one that takes no times
    kernel = _kernel(context, _EMPTY)
    memory = cl.Buffer(context, cl.mem_flags.READ_WRITE, 4 * _ITEMS)
    times: list[float] = []
    for _ in range(_EVENTS):
        start = time.perf_counter()
        kernel(plain, (_ITEMS,), (_ITEMS,), memory)
        plain.finish()
        times.append(time.perf_counter() - start)
    return round(1e6 * float(np.median(times)), 1)
