"""Elements of tensors as host memory that MPI reads and writes.

Where a device's memory is the host's they are looked at where they lie; else they go through pinned
memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from itertools import accumulate
from typing import Any

import numpy as np

from ..array import Array, Visit
from ..device import DeviceKind, users_line
from ..device.large_pages import LargePages
from ..errors import DistributedError, DtypeError, ShapeError, TraceError
from ..tensor import Tensor
from ..values import mode
from ..values.arguments import shown

__all__ = [
    "apart",
    "arrived",
    "arriving",
    "as_it_lies",
    "checked_tensor",
    "checked_tensors",
    "read_only",
    "split_rows",
    "writable",
]

_PAGES = LargePages()


def checked_tensor(
    op_name: str, x: object, name: str = "tensor", *, traced: bool = False
) -> Tensor:
    """A tensor whose elements can be exchanged as they lie.

    Raises:
        DtypeError: if it is none.
        DistributedError: if it has a shape alone.
        ShapeError: if it is not dense.
        TraceError: in a function that is compiled, but where it may be ``traced``.
    """
    if not isinstance(x, Tensor):
        raise DtypeError(op_name, f"{name} is a tensor", type=shown(type(x).__name__))
    if mode.current().tracer is not None and not traced:
        raise TraceError(
            op_name,
            "a function that clnet.compile traces exchanges tensors, but not by reduce and "
            "reduce_scatter",
            line=users_line(),
            remedy="Compile what lies before and behind it",
        )
    if x.device.type == "meta":
        raise DistributedError(op_name, f"{name} has elements", shape=x.shape, device=x.device.type)
    if not x.array.contiguous:
        raise ShapeError(
            op_name, f"{name} is dense", shape=x.shape, strides=x.stride(), remedy="x.contiguous()"
        )
    return x


def as_it_lies(x: Any) -> Any:
    """A tensor with its axes in the order in which they lie: dense where only that was another."""
    if not isinstance(x, Tensor) or x.array.contiguous or mode.current().tracer is not None:
        return x
    strides = x.array.strides
    order = sorted(range(x.ndim), key=lambda d: (strides[d], -x.shape[d]), reverse=True)
    return x.detach().permute(order)


def apart(x: Tensor, *others: Tensor) -> Tensor:
    """What a tensor holds, for who reads it while others are written: a copy if it shares memory.

    PyTorch's programs collect into a tensor of which their own part is a view.
    """
    shared = any(x.array.storage is y.array.storage for y in others)
    return x.detach().clone() if shared else x


def checked_tensors(
    op_name: str,
    given: object,
    name: str,
    *,
    count: int,
    like: Tensor,
    sizes: bool = True,
    traced: bool = False,
) -> list[Tensor]:
    """One tensor for each rank, each of as many elements as another, and of its dtype.

    Args:
        op_name: for errors.
        given: the list.
        name: what it is called.
        count: how many ranks there are.
        like: the other.
        sizes: False: of any number of elements.
        traced: whether they may be of a function that is compiled.

    Raises:
        DistributedError: if they are not so many, or do not fit.
    """
    if not isinstance(given, list | tuple) or len(given) != count:
        raise DistributedError(
            op_name,
            f"{name} holds a tensor for each rank",
            ranks=count,
            given=len(given) if isinstance(given, list | tuple) else shown(given),
        )
    found = [checked_tensor(op_name, x, name, traced=traced) for x in given]
    for i, x in enumerate(found):
        if (sizes and x.numel() != like.numel()) or x.dtype is not like.dtype:
            raise DistributedError(
                op_name,
                f"the tensors of {name} have the size and dtype of what each rank gives",
                place=i,
                listed=(tuple(x.shape), x.dtype),
                given=(tuple(like.shape), like.dtype),
            )
    return found


def split_rows(
    op_name: str, name: str, x: Tensor, sizes: Sequence[int] | None, count: int
) -> list[Tensor]:
    """Parts of a dense tensor along its first axis, one for each rank.

    Raises:
        DistributedError: if the sizes are no rows of the tensor, all of them.
    """
    rows = x.shape[0] if x.ndim else 0
    found = [rows // count] * count if not sizes else [int(n) for n in sizes]
    if not x.ndim or len(found) != count or min(found) < 0 or sum(found) != rows:
        raise DistributedError(
            op_name,
            f"split sizes of {name} are rows for each rank, all together",
            shape=tuple(x.shape),
            sizes=found,
            ranks=count,
        )
    starts = accumulate(found, initial=0)
    return [x.detach()[i : i + n] for i, n in zip(starts, found, strict=False)]


def writable(*tensors: Tensor, read: bool = True) -> AbstractContextManager[Sequence[np.ndarray]]:
    """Their elements in a row each, to be overwritten: the tensors have changed when the body ends.

    Args:
        *tensors: dense.
        read: whether what they hold is asked for.
    """
    return _visited(tensors, read=read, write=True)


@contextmanager
def arriving(x: Tensor, *, stands: bool) -> Iterator[Callable[[], np.ndarray]]:
    """Its elements are asked for, to be overwritten; what is called waits for them.

    They come while ranks agree on what they do. Faults that kernels found in data are told later.

    Args:
        x: dense.
        stands: whether the caller waits, and enqueues nothing meanwhile.
    """
    visit = x.array.visit(read=True, write=True, stands=stands)
    try:
        yield lambda: arrived(visit)
    finally:
        visit.wait()
        visit.end()


def read_only(*tensors: Tensor) -> AbstractContextManager[Sequence[np.ndarray]]:
    """Their elements in a row each."""
    return _visited(tensors, read=True, write=False)


@contextmanager
def _visited(tensors: Sequence[Tensor], *, read: bool, write: bool) -> Iterator[list[np.ndarray]]:
    with ExitStack() as stack:
        arrays = [x.array for x in tensors]
        found = [stack.enter_context(x.on_host(read=read, write=write)) for x in arrays]
        yield [_looked_at(x, host) for x, host in zip(arrays, found, strict=True)]


def _looked_at(x: Array, host: np.ndarray) -> np.ndarray:
    """An array's elements on the host; a processor's get large pages if they come again.

    A GPU that shares the host's memory holds its pages.
    """
    if x.device.traits.kind is DeviceKind.CPU:
        _PAGES.used(host)
    return host


def arrived(visit: Visit) -> np.ndarray:
    """A visited array's elements, when they are there."""
    return _looked_at(visit.array, visit.wait())
