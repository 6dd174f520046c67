"""``torch.__future__``: switches of how modules are converted, which change nothing here."""

from __future__ import annotations

__all__: list[str] = []

_FLAGS = {"overwrite": False, "swap": False}


def set_overwrite_module_params_on_conversion(value: bool) -> None:  # noqa: FBT001 - PyTorch's
    """Keep it: parameters stay the objects that they are, whatever it says."""
    _FLAGS["overwrite"] = value


def get_overwrite_module_params_on_conversion() -> bool:
    """What was kept."""
    return _FLAGS["overwrite"]


def set_swap_module_params_on_conversion(value: bool) -> None:  # noqa: FBT001 - PyTorch's
    """Keep it: parameters stay the objects that they are, as if they were swapped."""
    _FLAGS["swap"] = value


def get_swap_module_params_on_conversion() -> bool:
    """What was kept."""
    return _FLAGS["swap"]
