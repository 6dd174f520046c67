"""Why the table of kernels and the table of API calls of one program differ, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .table import duration

if TYPE_CHECKING:
    from .profile import Profile

# Ends of the calls' names; what is neither waits nor enqueues makes ready.
_WAITING = ("clFinish", "ReadBuffer", "WriteBuffer", "MapBuffer")
_ENQUEUEING = ("clSetKernelArg", "NDRangeKernel", "CopyBuffer")


def kernels_against_calls(profile: Profile) -> str:
    """Sentences that say where the wall time went, and why the two tables are not alike.

    Args:
        profile: a finished one.
    """
    calls = profile.call_totals()
    everything = sum(t.seconds for t in calls.values())
    waiting = sum(t.seconds for name, t in calls.items() if name.endswith(_WAITING))
    enqueuing = sum(t.seconds for name, t in calls.items() if name.endswith(_ENQUEUEING))
    starting = everything - waiting - enqueuing
    wall = profile.wall or 1.0
    rest = max(wall - everything, 0.0)
    before = profile.start.process
    lead = "" if before is None else f"Python and the imports took {duration(before)} before that. "
    return (
        f"Kernels and copies took {duration(profile.device_seconds)} on the device, "
        f"{100 * profile.device_seconds / wall:.0f}% of {duration(profile.wall)}; the host spent "
        f"{duration(everything)} in API calls: {duration(waiting)} in calls that wait for the "
        f"device or hand data over, {duration(starting)} in calls that make ready (context, "
        f"kernels, memory) and {duration(enqueuing)} in enqueueing. The tables differ because a "
        "kernel runs on the device's clock while the call that enqueued it has long returned: "
        "only a call that waits sees its time, whichever kernel that is, and what is made ready "
        f"once is in the host's table alone. {lead}The other {duration(rest)} are Python, reading "
        "files and preparing data."
    )
