"""Gradients of many parameters in one tensor, which is summed over ranks as a whole."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

from ... import ops
from ...autodiff.tape import no_grad
from ...errors import DistributedError, TraceError
from ...ranks.operations import ReduceOp, all_reduce
from ...ranks.work import Work
from ...ranks.world import Group
from ...tensor import Tensor
from ...values import mode
from ...values.futures import Future
from .comm_hook import GradBucket, Hook, hooked

FIRST_BYTES = 2**20
"""The first bucket is smaller, so that the exchange begins early."""
LAST_BYTES = 2**18
"""So is the last: when backward is over nothing is left to compute while it is exchanged."""
_USUAL_BYTES = 25 * 2**20
# Each costs a meeting of the ranks and some turns of Python, 0.3 to 0.5 ms beside two H200.
_MOST_USUAL = 10
# A bias that comes before a large weight would be a bucket of its own: less than this part of what
# comes next goes with it.
_SMALL_PART = 1 / 8


def usual_bytes(total: int) -> int:
    """The most of a bucket, if nobody says: 25 MiB, or more than that so that there are some ten.

    Args:
        total: bytes of all gradients.
    """
    return max(_USUAL_BYTES, -(-total // _MOST_USUAL))


@dataclass(eq=False)
class Bucket:
    """Parameters whose gradients are exchanged together.

    Attributes:
        parameters: of one dtype and device, in the order in which backward reaches them.
        waiting: the ``id`` of those whose gradients are not there yet.
        summed: the gradients in a row, while they are exchanged.
        work: the exchange, once it has begun.
        coming: what a hook has been given, and the future that it gave.
    """

    parameters: tuple[Tensor, ...]
    waiting: set[int] = field(default_factory=set)
    summed: Tensor | None = None
    work: Work | None = None
    coming: tuple[GradBucket, Future] | None = None

    def reset(self) -> None:
        """Wait for all gradients."""
        self.waiting = {id(p) for p in self.parameters}
        self.summed = self.work = self.coming = None

    def begin(
        self,
        group: Group,
        *,
        absent: bool = False,
        hook: tuple[Hook, Any] | None = None,
        place: tuple[int, bool] = (0, True),
    ) -> None:
        """Begin to average the gradients over the ranks of a group; a missing one counts as 0.

        Args:
            group: who takes part.
            absent: whether all of this rank's are missing.
            hook: what is called instead, and its state.
            place: which of the buckets it is, and whether the last.

        Raises:
            TraceError: if there is a hook in a function that is compiled.
            DistributedError: if a hook gives no future.
        """
        with no_grad():
            parts = [
                (ops.zeros_like(p) if absent or p.grad is None else p.grad.detach()).reshape(-1)
                for p in self.parameters
            ]
            self.summed = ops.cat(parts)
            if hook is not None:
                self.coming = self._hooked(*hook, *place)
                return
            self.work = all_reduce(self.summed, ReduceOp.AVG, group=group, async_op=True)

    def _hooked(self, hook: Hook, state: Any, index: int, last: bool) -> tuple[GradBucket, Future]:  # noqa: FBT001
        name = "DistributedDataParallel"
        if mode.current().tracer is not None:
            raise TraceError(
                name,
                "a communication hook is called in each backward pass",
                remedy="Wrap the compiled module: DistributedDataParallel(clnet.compile(module))",
            )
        summed: Any = self.summed
        bucket = GradBucket(index, summed, self.parameters, last=last)
        coming = hook(state, bucket)
        if not isinstance(coming, Future):
            law = "a communication hook gives a future, as work.get_future()"
            raise DistributedError(name, law, type=type(coming).__name__)
        return bucket, coming

    def settled(self) -> Tensor | None:
        """The averages, when they are there; None: they were not begun."""
        if self.coming is not None:
            bucket, future = self.coming
            return hooked(future.wait(), bucket)
        if self.work is not None:
            self.work.wait()
        return None if self.work is None else self.summed

    def finish(self, unused: set[int], factor: float = 1.0) -> None:
        """Wait for the averages; from now on they are the gradients, and lie in one memory.

        Args:
            unused: the ``id`` of parameters that no rank has used, which keep what they have.
            factor: what the averages are multiplied by.
        """
        found = self.settled()
        if found is None:
            return
        start = 0
        with no_grad():
            summed = found if factor == 1 else found * factor
            for p in self.parameters:
                piece = summed[start : start + p.numel()]
                start += p.numel()
                if id(p) not in unused:
                    p.grad = piece.reshape(p.shape)
        self.summed = self.work = self.coming = None


def buckets_of(parameters: Sequence[Tensor], most_bytes: int) -> list[Bucket]:
    """Parameters in buckets, the last first: backward comes to them in about that order.

    Args:
        parameters: in the order of the model.
        most_bytes: of a bucket; a larger parameter is alone, but for small ones before it.
    """
    last = min(LAST_BYTES, most_bytes)
    early = sum(size <= last for size in accumulate(p.array.nbytes for p in parameters))
    made = _filled(reversed(parameters[early:]), min(FIRST_BYTES, most_bytes), most_bytes)
    return made + _filled(reversed(parameters[:early]), last, last)


def _filled(parameters: Iterable[Tensor], first: int, most: int) -> list[Bucket]:
    """Buckets in order, of parameters of one dtype and device; of so many bytes the first."""
    made: list[Bucket] = []
    open_ones: dict[Any, list[Tensor]] = {}
    for p in parameters:
        key = (p.dtype, p.device)
        held = open_ones.setdefault(key, [])
        limit = most if made else first
        size, more = sum(x.array.nbytes for x in held), p.array.nbytes
        if size + more > limit and size > more * _SMALL_PART:
            made.append(Bucket(tuple(held)))
            open_ones[key] = held = []
        held.append(p)
    return made + [Bucket(tuple(held)) for held in open_ones.values() if held]
