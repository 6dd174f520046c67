"""All that choosing kernels depends on."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from .traits import DeviceTraits
from .tunings import Tunings


@dataclass(frozen=True)
class Target:
    """All that choosing kernels depends on; a plan for an absent device needs no more.

    Attributes:
        traits: the device's numbers.
        workspace_limit: bytes of scratch memory an algorithm may ask for.
        tunings: what was measured on it, or on devices like it.
        choices: what was chosen so far, by kernel and problem; it is looked up first.
        launches: those of ops that come again, by op and how its arrays lie; see
            :mod:`clnet.ops.machinery.lowering`.
        walks: walks back along the tape that come again; see :mod:`clnet.autodiff.kept_walk`.
        answers: what families of kernels can do, by question, so that no call reckons it anew.
    """

    traits: DeviceTraits
    workspace_limit: int
    tunings: Tunings = field(default_factory=Tunings, compare=False)
    choices: dict[tuple[str, Any], Any] = field(
        default_factory=dict[tuple[str, Any], Any], init=False, compare=False, repr=False
    )
    launches: dict[Any, Any] = field(
        default_factory=dict[Any, Any], init=False, compare=False, repr=False
    )
    walks: list[Any] = field(default_factory=list[Any], init=False, compare=False, repr=False)
    answers: dict[tuple[str, Any], Any] = field(
        default_factory=dict[tuple[str, Any], Any], init=False, compare=False, repr=False
    )
