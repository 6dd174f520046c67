"""``torch.utils.hooks``: the handle of a hook, by which it is taken away again."""

from __future__ import annotations

from ..autodiff.tensor_hook import HookHandle as RemovableHandle

__all__ = ["RemovableHandle"]
