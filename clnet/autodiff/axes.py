"""``torch._C._functorch``: what packages ask of tensors inside ``vmap``; no axis is hidden here."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

from ..errors import ArgumentError

__all__ = ["AXES", "hidden", "refusing"]


def refusing(name: str) -> Callable[..., Any]:
    """A function that hides an axis, or shows it: it refuses."""

    def refused(*args: Any, **kwargs: Any) -> Any:
        law = "no tensor carries an axis unseen"
        raise ArgumentError(name, law, remedy="Call clnet.func.vmap")

    return refused


def _no(x: Any, *given: Any) -> bool:
    """False."""
    return False


def _itself(x: Any, *given: Any) -> Any:
    """What is given."""
    return x


def _no_level(x: Any) -> int:
    """The level of a tensor in no transform."""
    return -1


AXES: dict[str, Any] = {name: refusing(name) for name in ("_add_batch_dim", "_remove_batch_dim")}
hidden = ModuleType("torch._C._functorch", "Of transforms.")
hidden.__dict__.update(
    AXES,
    get_unwrapped=_itself,
    is_batchedtensor=_no,
    is_functorch_wrapped_tensor=_no,
    is_gradtrackingtensor=_no,
    is_legacy_batchedtensor=_no,
    maybe_get_bdim=_no_level,
    maybe_get_level=_no_level,
)
