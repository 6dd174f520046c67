"""What a device did and what that cost: tables, per layer and per op, traces and reports."""

from .limits import Limits, known_limits, measured_limits
from .profile import Profile, profile
from .startup import StartUp
from .total import Total

__all__ = [
    "Limits",
    "Profile",
    "StartUp",
    "Total",
    "known_limits",
    "measured_limits",
    "profile",
]
