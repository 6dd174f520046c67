"""Arrays and training states in safetensors files; no device, no tensor."""

from __future__ import annotations

from .checkpoint import load_checkpoint, save_checkpoint
from .state import State, load_state, save_state

__all__ = ["State", "load_checkpoint", "load_state", "save_checkpoint", "save_state"]
