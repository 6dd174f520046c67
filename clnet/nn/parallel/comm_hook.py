"""What is done to a bucket of gradients instead of the all-reduce, by PyTorch's names.

A hook is a function of a state and a :class:`GradBucket` that gives a future of what the bucket's
gradients become. Those here take the group, or None, as their state.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...autodiff.tape import no_grad
from ...errors import DistributedError
from ...ranks.membership import get_world_size
from ...ranks.operations import all_reduce
from ...ranks.world import Group
from ...tensor import Tensor
from ...values.arguments import shown
from ...values.dtypes import DType, bfloat16, float16
from ...values.futures import Future

__all__ = [
    "GradBucket",
    "Hook",
    "allreduce_hook",
    "bf16_compress_hook",
    "bf16_compress_wrapper",
    "fp16_compress_hook",
    "fp16_compress_wrapper",
    "hooked",
]


class GradBucket:
    """Gradients that are exchanged together, in one tensor.

    Args:
        index: which bucket it is, the first that is exchanged 0.
        buffer: the gradients behind each other.
        parameters: whose they are.
        last: whether it is the last that is exchanged.
    """

    def __init__(
        self, index: int, buffer: Tensor, parameters: Sequence[Tensor], *, last: bool
    ) -> None:
        self._index, self._buffer, self._last = index, buffer, last
        self._parameters = list(parameters)

    def index(self) -> int:
        """Which bucket it is."""
        return self._index

    def is_last(self) -> bool:
        """Whether it is the last that is exchanged."""
        return self._last

    def buffer(self) -> Tensor:
        """The gradients, of one axis."""
        return self._buffer

    def set_buffer(self, buffer: Tensor) -> None:
        """Have others in their place: for a hook that goes on with another."""
        self._buffer = buffer

    def parameters(self) -> list[Tensor]:
        """Whose gradients they are."""
        return list(self._parameters)

    def gradients(self) -> list[Tensor]:
        """The gradients, each of its parameter's shape: views of the buffer."""
        parts = self._buffer.split([p.numel() for p in self._parameters])
        return [part.view(p.shape) for part, p in zip(parts, self._parameters, strict=True)]


Hook = Callable[[Any, GradBucket], Future]


def hooked(found: Any, bucket: GradBucket) -> Tensor:
    """What a hook's future holds: a tensor, or a list of one, for the bucket's elements.

    Raises:
        DistributedError: if it is something else.
    """
    x = found[0] if isinstance(found, list | tuple) and len(found) == 1 else found
    if not isinstance(x, Tensor) or x.numel() != bucket.buffer().numel():
        raise DistributedError(
            "DistributedDataParallel",
            "the future of a communication hook holds a tensor of the bucket's elements",
            holds=tuple(x.shape) if isinstance(x, Tensor) else shown(type(x).__name__),
            bucket=tuple(bucket.buffer().shape),
        )
    return x.reshape(-1).to(bucket.parameters()[0].dtype)


def _averaged(group: Group | None, x: Tensor) -> Future:
    """The mean over the ranks, divided before it is summed, so that it overflows less."""
    with no_grad():
        x.div_(get_world_size(group))
        work = all_reduce(x, group=group, async_op=True)
    if work is None:
        raise DistributedError("DistributedDataParallel", "this rank is in the hook's group")
    return work.get_future()


def allreduce_hook(process_group: Group | None, bucket: GradBucket) -> Future:
    """The mean over the ranks, as without a hook but for rounding."""
    return _averaged(process_group, bucket.buffer()).then(lambda done: done.value()[0])


def _narrowed(process_group: Group | None, bucket: GradBucket, dtype: DType) -> Future:
    wide = bucket.buffer()
    return _averaged(process_group, wide.to(dtype)).then(
        lambda done: done.value()[0].to(wide.dtype)
    )


def fp16_compress_hook(process_group: Group | None, bucket: GradBucket) -> Future:
    """The mean over the ranks of gradients in float16: half the bytes."""
    return _narrowed(process_group, bucket, float16)


def bf16_compress_hook(process_group: Group | None, bucket: GradBucket) -> Future:
    """The mean over the ranks of gradients in bfloat16: half the bytes."""
    return _narrowed(process_group, bucket, bfloat16)


def _wrapped(hook: Hook, dtype: DType) -> Hook:
    def narrow(state: Any, bucket: GradBucket) -> Future:
        wide = bucket.buffer().dtype
        bucket.set_buffer(bucket.buffer().to(dtype))
        return hook(state, bucket).then(lambda done: hooked(done.value(), bucket).to(wide))

    return narrow


def fp16_compress_wrapper(hook: Hook) -> Hook:
    """A hook that gets gradients in float16, and whose result is taken back from it."""
    return _wrapped(hook, float16)


def bf16_compress_wrapper(hook: Hook) -> Hook:
    """A hook that gets gradients in bfloat16, and whose result is taken back from it."""
    return _wrapped(hook, bfloat16)
