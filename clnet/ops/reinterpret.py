"""The same memory in another shape or as another dtype: PyTorch's ``view``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..array import Array
from ..errors import ShapeError
from ..values.dtypes import DType
from ..values.shapes import resolve_reshape
from .machinery.another import as_another
from .machinery.execution import execute
from .machinery.function import Face, Function, apply, op
from .shape import Copy, Reshape, sizes_of

if TYPE_CHECKING:
    from ..tensor import Tensor


class Reinterpret(Function):
    """The same bytes as elements of another dtype."""

    op_name = "view"
    takes_complex = True
    differentiable = ()

    dtype: DType

    def infer(self, x: Array) -> tuple[Array, ...]:
        """The last axis is as many times longer or shorter as elements are narrower or wider."""
        old, new = x.dtype.itemsize, self.dtype.itemsize
        if old == new:
            return (Array(x.storage, x.shape, x.strides, x.offset, self.dtype),)
        if x.ndim == 0 or (x.strides[-1] != 1 and x.shape[-1] != 1):
            raise ShapeError(
                "view",
                "elements of other bytes lie side by side along the last axis",
                shape=x.shape,
                strides=x.strides,
                dtype=self.dtype,
                remedy="Take x.contiguous() first" if x.ndim else "Take x.reshape(1) first",
            )
        bytes_of = [n * old for n in (x.shape[-1], *x.strides[:-1], x.offset)]
        if any(n % new for n in bytes_of):
            raise ShapeError(
                "view",
                "rows are whole numbers of elements of the wider dtype",
                shape=x.shape,
                strides=x.strides,
                offset=x.offset,
                dtype=self.dtype,
            )
        last, *strides, offset = (n // new for n in bytes_of)
        return (Array(x.storage, (*x.shape[:-1], last), (*strides, 1), offset, self.dtype),)


@op(Face.METHOD, seen=as_another)
def view(x: Tensor, *shape: Any, dtype: DType | None = None) -> Tensor:
    """As :func:`reshape`, but never a copy; or the same bytes as elements of another dtype.

    Args:
        x: any shape and dtype.
        *shape: sizes, or one sequence of them; or a dtype.
        dtype: the dtype by name. Of narrower elements the last axis has more, of wider ones fewer.

    Returns:
        A view. Through a dtype, also its own, no gradient flows, as in PyTorch.

    Raises:
        ShapeError: if only a copy could have that shape or dtype, or the number of elements
            differs.
    """
    if dtype is None and len(shape) == 1 and isinstance(shape[0], DType):
        (dtype,), shape = shape, ()
    if dtype is None:
        return apply(Reshape(resolve_reshape("view", x.shape, sizes_of("view", shape))), x)
    if shape:
        raise ShapeError("view", "it is of a shape or of a dtype", shape=shape, dtype=dtype)
    return apply(Reinterpret(dtype), x)


def memory_copied(array: Array, memo: dict[int, Any]) -> Array:
    """An array over a copy of its memory, the same for all that lie in it.

    Args:
        array: it, maybe a view.
        memo: by the ``id`` of storages their copies so far, as ``copy.deepcopy`` hands it on.
    """
    storage, itemsize = array.storage, array.dtype.itemsize
    if id(storage) not in memo:
        whole = Array(storage, (storage.nbytes // itemsize,), (1,), 0, array.dtype)
        memo[id(storage)] = execute(Copy(), (whole,))[0].storage
    return Array(memo[id(storage)], array.shape, array.strides, array.offset, array.dtype)
