"""``clnet.nn.functional``: the ops that PyTorch has there, exported by their own declarations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..ops.function import PUBLIC_OPS, Face

if TYPE_CHECKING:  # what the names below are, for those who read no values
    from ..ops import *  # noqa: F403 - each op's module owns its list

__all__ = sorted(n for n, (_, face) in PUBLIC_OPS.items() if Face.FUNCTIONAL in face)  # pyright: ignore[reportUnsupportedDunderAll]
globals().update({name: PUBLIC_OPS[name][0] for name in __all__})
