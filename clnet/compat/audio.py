"""torchaudio without its compiled part: loops that it has in Python, too, and what it asks first.

Its wheel loads a library when it is imported, and takes no failure for an answer. Nothing of that
is loaded; what torchaudio computes with PyTorch's functions alone, nearly all, does without.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

__all__ = ["OPERATORS", "is_library"]

_FILTERING = "torchaudio.functional.filtering"


def is_library(path: Any) -> bool:
    """Whether a file is torchaudio's compiled part."""
    return Path(str(path)).parent.parts[-2:] == ("torchaudio", "lib")


def _in_python(name: str) -> Callable[..., Any]:
    def call(*args: Any) -> Any:
        return getattr(sys.modules[_FILTERING], name)(*args)

    return call


OPERATORS: dict[str, Callable[..., Any]] = {
    "_torchaudio::cuda_version": lambda: None,
    "_torchaudio::is_align_available": lambda: False,
    "torchaudio::_lfilter_core_loop": _in_python("_lfilter_core_generic_loop"),
    "torchaudio::_overdrive_core_loop": _in_python("_overdrive_core_loop_generic"),
}
"""Those that it calls."""
