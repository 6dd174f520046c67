"""``torch.permute_copy`` and the like: what an op that gives a view gives, in memory of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .. import ops
from ..errors import ShapeError
from ..ops.shape import alias, dense_copy, overwrite
from ..tensor import Tensor

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__: list[str] = []


def _slice(
    x: Tensor, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Tensor:
    """Elements ``start`` to ``end`` of an axis, every ``step`` of them."""
    at: list[Any] = [slice(None)] * x.ndim
    at[dim] = slice(start, end, step)
    return x[tuple(at)]


_OPS: Any = Tensor  # whose methods are declared by the ops
_VIEWS: dict[str, Callable[..., Any]] = {
    "alias": alias,
    "as_strided": _OPS.as_strided,
    "detach": _OPS.detach,
    "diagonal": _OPS.diagonal,
    "expand": _OPS.expand,
    "permute": _OPS.permute,
    "select": _OPS.select,
    "slice": _slice,
    "split": _OPS.split,
    "split_with_sizes": _OPS.split,
    "squeeze": _OPS.squeeze,
    "t": _OPS.t,
    "transpose": _OPS.transpose,
    "unbind": _OPS.unbind,
    "unfold": _OPS.unfold,
    "unsqueeze": _OPS.unsqueeze,
    "view": _OPS.view,
    "view_as_complex": ops.view_as_complex,
    "view_as_real": ops.view_as_real,
}
"""By the names of their copies, without ``_copy``."""


def _filled(name: str, y: Tensor, out: Tensor) -> Tensor:
    """``out`` with the elements of ``y``; without elements it takes the shape, as PyTorch's.

    Raises:
        ShapeError: if it has another shape.
    """
    if out.shape != y.shape:
        if out.numel():
            raise ShapeError(name, "out has the result's shape", out=out.shape, result=y.shape)
        out.resize_(y.shape)
    return overwrite(out, y, name)


def _copied(name: str) -> Callable[..., Any]:
    view = _VIEWS[name.removesuffix("_copy")]

    def copied(input: Tensor, *args: Any, out: Any = None, **given: Any) -> Any:  # noqa: A002
        made: Tensor | Sequence[Tensor] = view(input, *args, **given)
        if isinstance(made, Tensor):
            return dense_copy(made) if out is None else _filled(name, made, out)
        if out is None:
            return tuple(map(dense_copy, made))
        for x, own in zip(made, out, strict=True):
            _filled(name, x, own)
        return None

    copied.__name__ = copied.__qualname__ = name
    copied.__module__ = "clnet"  # where it is found again, pickled
    copied.__doc__ = f"As ``{name.removesuffix('_copy')}``, dense and in memory of its own."
    return copied


globals().update({f"{name}_copy": _copied(f"{name}_copy") for name in _VIEWS})
