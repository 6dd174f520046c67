"""A model in stages, one in each process; parts of a batch go through them one behind the other.

Either all parts go forward and then all back (Huang et al., "GPipe", 2019), or a part goes back as
soon as it can, so that a stage holds few at a time ("1F1B", Narayanan et al., "PipeDream", 2019).
Gradients are added in the parts' order in both: the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from ... import ops
from ...autodiff.tape import no_grad
from ...creation import empty
from ...errors import ArgumentError, DistributedError, ShapeError
from ...ranks.membership import group_of
from ...ranks.message import irecv, isend
from ...ranks.work import Work
from ...ranks.world import Group
from ...tensor import Tensor, tensor
from ...values.dtypes import from_name, int64
from ..module import Module

__all__ = ["PipelineStage", "Schedule1F1B", "ScheduleGPipe"]

_MOST_AXES = 8
_NAME_BYTES = 16
_SHAPE_TAG = 0
_FIRST_TAG = 1


class PipelineStage:
    """The part of a model that this process computes.

    Args:
        submodule: takes a tensor and gives one, whose first axis is the batch's. It may be
            compiled.
        stage_index: its place in the model: this rank's number in the group.
        num_stages: how many there are: as many as ranks in the group.
        device: where activations and gradients of other stages are put; None: the current one.
        input_args, output_args: taken: shapes are told before each batch.
        group: who takes part; None: all.

    Raises:
        DistributedError: if the processes are not joined, or a stage is not its rank's.
    """

    def __init__(
        self,
        submodule: Module,
        stage_index: int,
        num_stages: int,
        device: Any = None,
        input_args: Any = None,
        output_args: Any = None,
        group: Group | None = None,
    ) -> None:
        del input_args, output_args
        members = group_of("PipelineStage", group)
        if members is None:
            raise DistributedError("PipelineStage", "this rank is in the group")
        if (stage_index, num_stages) != (members.rank(), members.size()):
            raise DistributedError(
                "PipelineStage",
                "each rank has one stage, that of its number",
                stage=(stage_index, num_stages),
                rank=(members.rank(), members.size()),
            )
        self.submod, self.group = submodule, members
        self.stage_index, self.num_stages = stage_index, num_stages
        self.device = device

    @property
    def is_first(self) -> bool:
        """Whether it gets the batch."""
        return self.stage_index == 0

    @property
    def is_last(self) -> bool:
        """Whether it gives the result."""
        return self.stage_index == self.num_stages - 1


class _Held(NamedTuple):
    """What a stage keeps of a part between its way forward and its way back."""

    given: Tensor
    result: Tensor


class _Schedule:
    """A batch's way through the stages."""

    def __init__(
        self,
        stage: PipelineStage,
        n_microbatches: int,
        loss_fn: Callable[..., Tensor] | None = None,
        args_chunk_spec: Any = None,
        kwargs_chunk_spec: Any = None,
        output_merge_spec: Any = None,
        scale_grads: bool = True,  # noqa: FBT001, FBT002 - PyTorch's
    ) -> None:
        if any(
            spec is not None for spec in (args_chunk_spec, kwargs_chunk_spec, output_merge_spec)
        ):
            raise ArgumentError(type(self).__name__, "specs of chunks are None")
        if n_microbatches < 1:
            raise ArgumentError(
                type(self).__name__, "there is one part or more", n_microbatches=n_microbatches
            )
        self._stage, self._number = stage, n_microbatches
        self._loss_fn, self._scale = loss_fn, scale_grads
        self._sent: list[Work | None] = []
        # Of each direction, what is on its way while a part before it is computed.
        self._coming: dict[bool, tuple[Tensor, Work | None]] = {}

    def warm_up(self) -> int:
        """How many parts go forward before the first goes back."""
        raise NotImplementedError(f"{type(self).__name__}.warm_up")

    def step(
        self, *args: Tensor, target: Tensor | None = None, losses: list[Tensor] | None = None
    ) -> Tensor | None:
        """Take a batch forward and back; gradients are added to those of the stage's parameters.

        Args:
            *args: the batch, on the first stage alone.
            target: what the results are compared with, on the last stage alone.
            losses: a list that becomes the parts' losses, on the last stage.

        Returns:
            The results of all parts, on the last stage; None elsewhere.

        Raises:
            ArgumentError: if a stage gets what another needs, or there is no ``loss_fn``.
            ShapeError: if the batch does not divide evenly, or stages exchange what is no tensor.
            DistributedError: if another rank does not answer.
        """
        name = type(self).__name__
        if self._stage.is_last and (self._loss_fn is None or target is None):
            raise ArgumentError(f"{name}.step", "the last stage has a loss_fn and a target")
        found = self._run(args, target, backward=True)
        return self._told(found, losses)

    def eval(
        self, *args: Tensor, target: Tensor | None = None, losses: list[Tensor] | None = None
    ) -> Tensor | None:
        """As :meth:`step`, forward alone; without ``loss_fn`` there are no losses."""
        with no_grad():
            return self._told(self._run(args, target, backward=False), losses)

    def _told(
        self, found: tuple[list[Tensor], list[Tensor]], losses: list[Tensor] | None
    ) -> Tensor | None:
        results, lost = found
        if losses is not None:
            losses[:] = lost
        return ops.cat(results) if self._stage.is_last else None

    def _run(
        self, args: tuple[Tensor, ...], target: Tensor | None, *, backward: bool
    ) -> tuple[list[Tensor], list[Tensor]]:
        stage, number = self._stage, self._number
        if len(args) != int(stage.is_first):
            raise ArgumentError(
                type(self).__name__, "the first stage gets the batch, others none", given=len(args)
            )
        parts = _divided(args[0], number) if args else None
        targets = None if target is None else _divided(target, number)
        results: list[Tensor] = []
        lost: list[Tensor] = []
        held: dict[int, _Held] = {}
        shape = self._told_shape() if parts is None else None
        self._coming.clear()
        if parts is None:
            self._await(shape, 0, back=False)
        way = _order(number, self.warm_up()) if backward else ((True, p) for p in range(number))
        for forward, part in way:
            if not forward:
                self._backward(held.pop(part), part)
                continue
            x = parts[part] if parts is not None else self._received(shape, part, back=False)
            done = self._forward(x, part, differentiable=backward)
            if stage.is_last:
                results.append(done.result.detach())
                if targets is not None and self._loss_fn is not None:
                    done = _Held(done.given, self._loss_fn(done.result, targets[part]))
                    lost.append(done.result.detach())
            if backward:
                held[part] = done
            del x, done  # what waits for its way back is held there alone
        for work in self._sent:
            if work is not None:
                work.wait()
        self._sent.clear()
        return results, lost

    def _forward(self, x: Tensor, part: int, *, differentiable: bool) -> _Held:
        stage = self._stage
        if not stage.is_first and differentiable and x.dtype.is_floating_point:
            x.requires_grad_()
        y = stage.submod(x)
        if not stage.is_last:
            if not isinstance(y, Tensor) or y.ndim > _MOST_AXES:
                raise ShapeError("PipelineStage", "a stage gives one tensor", type=type(y).__name__)
            if part == 0:
                self._tell_shape(y)
                if differentiable:
                    self._await((tuple(y.shape), y.dtype), part, back=True)
            self._send(y, stage.stage_index + 1, part, back=False)
        return _Held(x, y)

    def _backward(self, held: _Held, part: int) -> None:
        stage, y = self._stage, held.result
        if stage.is_last:
            (y / self._number if self._scale else y).backward()
        else:
            grad = self._received((tuple(y.shape), y.dtype), part, back=True)
            if y.requires_grad:  # where nothing up to here is trained, it is not wanted
                y.backward(grad)
        if not stage.is_first:
            grad = held.given.grad
            self._send(
                ops.zeros_like(held.given) if grad is None else grad,
                stage.stage_index - 1,
                part,
                back=True,
            )

    def _send(self, x: Tensor, place: int, part: int, *, back: bool) -> None:
        tag = _FIRST_TAG + 2 * part + back
        dense = x.detach().contiguous()
        self._sent.append(isend(dense, group=self._stage.group, tag=tag, group_dst=place))

    def _await(self, shape: Any, part: int, *, back: bool) -> None:
        """Begin to receive a part's activations or gradients, if there is such a part."""
        if part == self._number:
            return
        stage = self._stage
        x = empty(shape[0], dtype=shape[1], device=stage.device)
        place = stage.stage_index + (1 if back else -1)
        tag = _FIRST_TAG + 2 * part + back
        self._coming[back] = x, irecv(x, group=stage.group, tag=tag, group_src=place)

    def _received(self, shape: Any, part: int, *, back: bool) -> Tensor:
        """What was awaited; that of the next part is from now on."""
        x, work = self._coming.pop(back)
        if work is not None:
            work.wait()
        self._await(shape, part + 1, back=back)
        return x

    def _tell_shape(self, y: Tensor) -> None:
        """Tell the next stage what is coming: axes, sizes, dtype's name."""
        sizes = [*y.shape, *(0 for _ in range(_MOST_AXES - y.ndim))]
        letters = y.dtype.name.encode().ljust(_NAME_BYTES)
        header = tensor([y.ndim, *sizes, *letters], dtype=int64, device=y.device)
        place = self._stage.stage_index + 1
        self._sent.append(isend(header, group=self._stage.group, tag=_SHAPE_TAG, group_dst=place))

    def _told_shape(self) -> Any:
        stage = self._stage
        header = empty(1 + _MOST_AXES + _NAME_BYTES, dtype=int64, device=stage.device)
        before = stage.stage_index - 1
        work = irecv(header, group=stage.group, tag=_SHAPE_TAG, group_src=before)
        if work is not None:
            work.wait()
        numbers = [int(n) for n in np.asarray(header.tolist())]
        name = bytes(numbers[1 + _MOST_AXES :]).decode().strip()
        return tuple(numbers[1 : 1 + numbers[0]]), from_name(name)


class ScheduleGPipe(_Schedule):
    """All parts of a batch go forward, then all go back; a stage holds all of them in between.

    Args:
        stage: this process's.
        n_microbatches: in so many parts a batch is divided, evenly.
        loss_fn: of a result and its targets, a mean over the examples.
        args_chunk_spec, kwargs_chunk_spec, output_merge_spec: taken, None: along the first axis.
        scale_grads: whether gradients are means over the parts, and not sums.
    """

    def warm_up(self) -> int:
        """All."""
        return self._number


class Schedule1F1B(_Schedule):
    """A part goes back as soon as it can: a stage holds one, and one for each stage behind it.

    Arguments are those of :class:`ScheduleGPipe`.
    """

    def warm_up(self) -> int:
        """One for this stage, and one for each behind it."""
        return min(self._number, self._stage.num_stages - self._stage.stage_index)


def _order(number: int, first: int) -> Iterator[tuple[bool, int]]:
    """Forward (True) and back, part by part, the first parts forward alone."""
    for part in range(first):
        yield True, part
    for part in range(number):
        yield False, part
        if first + part < number:
            yield True, first + part


def _divided(x: Tensor, number: int) -> list[Tensor]:
    if x.ndim == 0 or x.shape[0] % number:
        raise ShapeError("pipeline", "a batch divides evenly", shape=x.shape, n_microbatches=number)
    return [part.contiguous() for part in ops.chunk(x, number)]
