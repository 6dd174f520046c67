"""What a device did and what that cost: tables, per layer and per op, traces and reports."""

from .limits import Limits, known_limits, measured_limits
from .memory import (
    MemoryHolder,
    MemorySnapshot,
    memory_snapshot,
    memory_stats,
    memory_summary,
    record_memory_history,
)
from .profile import Profile, profile
from .startup import StartUp
from .total import Total

__all__ = [
    "Limits",
    "MemoryHolder",
    "MemorySnapshot",
    "Profile",
    "StartUp",
    "Total",
    "known_limits",
    "measured_limits",
    "memory_snapshot",
    "memory_stats",
    "memory_summary",
    "profile",
    "record_memory_history",
]
