"""A model in stages, in several processes; parts of a batch go through them one behind the other.

Either all parts go forward and then all back (Huang et al., "GPipe", 2019), or a part goes back as
soon as it can, so that a stage holds few at a time ("1F1B", Narayanan et al., "PipeDream", 2019).
Gradients are added in the parts' order in both: the same bits. A process may have several stages,
which a part comes round to one after another: it waits less where processes begin and end
(:mod:`.interleaved`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

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
from ...values.record import NamedTuple
from ..module import Module

__all__ = ["Action", "PipelineStage", "Schedule", "Schedule1F1B", "ScheduleGPipe"]

_MOST_AXES = 8
_NAME_BYTES = 16


class PipelineStage:
    """The part of a model that this process computes.

    Args:
        submodule: takes a tensor and gives one, whose first axis is the batch's. It may be
            compiled.
        stage_index: its place in the model: this rank's number in the group, or so many times the
            number of ranks further.
        num_stages: how many there are: as many as ranks in the group, or a multiple of it.
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
        place, over = stage_index % members.size(), num_stages % members.size()
        if (place, over) != (members.rank(), 0) or not 0 <= stage_index < num_stages:
            raise DistributedError(
                "PipelineStage",
                "each rank has the stage of its number, and those a number of ranks further",
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


class Action(NamedTuple):
    """What a process does next: a part goes through a stage, forward or back."""

    stage: int
    part: int
    forward: bool


class _Held(NamedTuple):
    """What a stage keeps of a part between its way forward and its way back."""

    given: Tensor
    result: Tensor


class _Way:
    """A batch's way through one stage of this process: messages, and what waits for its way back.

    Args:
        stage: this.
        number: of parts.
        order: which parts come forward, and which back, in turn.
        batch: of the first stage, its parts.
    """

    def __init__(
        self,
        stage: PipelineStage,
        number: int,
        order: dict[bool, list[int]],
        batch: list[Tensor] | None,
    ) -> None:
        self.stage, self.held = stage, dict[int, _Held]()
        self.sent: list[Work | None] = []
        self._number, self._order, self._batch = number, order, batch
        self._shapes: dict[bool, tuple[tuple[int, ...], Any]] = {}
        # Of each direction, what is on its way while a part before it is computed.
        self._coming: dict[bool, tuple[Tensor, Work | None]] = {}

    def given(self, part: int) -> Tensor:
        """A part as it comes to the stage."""
        if self._batch is not None:
            return self._batch[part]
        if True not in self._shapes:
            self._shapes[True] = self._told_shape()
            self._await(part, forward=True)
        return self._received(part, forward=True)

    def hand_on(self, y: Any, part: int, *, differentiable: bool) -> None:
        """Send what the stage gives to the next."""
        if not isinstance(y, Tensor) or y.ndim > _MOST_AXES:
            raise ShapeError("PipelineStage", "a stage gives one tensor", type=type(y).__name__)
        if False not in self._shapes:
            self._tell_shape(y)
            self._shapes[False] = tuple(y.shape), y.dtype
            if differentiable:
                self._await(self._order[False][0], forward=False)
        self._send(y, self.stage.stage_index, part, forward=True)

    def gradient(self, part: int) -> Tensor:
        """Of what the stage has handed on."""
        return self._received(part, forward=False)

    def hand_back(self, grad: Tensor, part: int) -> None:
        """Send the gradient of what came to the stage."""
        self._send(grad, self.stage.stage_index - 1, part, forward=False)

    def _tag(self, behind: int, part: int, *, forward: bool) -> int:
        """Of a part between a stage and the next; two processes share some such places."""
        size = self.stage.group.size()
        place = behind // size * self._number + part
        return self.stage.num_stages // size + 2 * place + (not forward)

    def _send(self, x: Tensor, behind: int, part: int, *, forward: bool) -> None:
        tag, size = self._tag(behind, part, forward=forward), self.stage.group.size()
        dense, place = x.detach().contiguous(), (behind + forward) % size
        self.sent.append(isend(dense, group=self.stage.group, tag=tag, group_dst=place))

    def _await(self, part: int, *, forward: bool) -> None:
        """Begin to receive a part's activations or gradients."""
        stage, (shape, dtype) = self.stage, self._shapes[forward]
        x = empty(shape, dtype=dtype, device=stage.device)
        behind = stage.stage_index - forward
        place = (behind + (not forward)) % stage.group.size()
        tag = self._tag(behind, part, forward=forward)
        self._coming[forward] = x, irecv(x, group=stage.group, tag=tag, group_src=place)

    def _received(self, part: int, *, forward: bool) -> Tensor:
        """What was awaited; that of the next part is from now on."""
        x, work = self._coming.pop(forward)
        if work is not None:
            work.wait()
        order = self._order[forward]
        if part != order[-1]:
            self._await(order[order.index(part) + 1], forward=forward)
        return x

    def _tell_shape(self, y: Tensor) -> None:
        """Tell the next stage what is coming: axes, sizes, dtype's name."""
        sizes = [*y.shape, *(0 for _ in range(_MOST_AXES - y.ndim))]
        letters = y.dtype.name.encode().ljust(_NAME_BYTES)
        header = tensor([y.ndim, *sizes, *letters], dtype=int64, device=y.device)
        group, behind = self.stage.group, self.stage.stage_index
        tag, place = behind // group.size(), (behind + 1) % group.size()
        self.sent.append(isend(header, group=group, tag=tag, group_dst=place))

    def _told_shape(self) -> tuple[tuple[int, ...], Any]:
        group, behind = self.stage.group, self.stage.stage_index - 1
        header = empty(1 + _MOST_AXES + _NAME_BYTES, dtype=int64, device=self.stage.device)
        tag, place = behind // group.size(), behind % group.size()
        work = irecv(header, group=group, tag=tag, group_src=place)
        if work is not None:
            work.wait()
        numbers = [int(n) for n in np.asarray(header.tolist())]
        name = bytes(numbers[1 + _MOST_AXES :]).decode().strip()
        return tuple(numbers[1 : 1 + numbers[0]]), from_name(name)


class Schedule:
    """A batch's way through the stages of this process.

    Args:
        stages: in order.
        n_microbatches: in so many parts a batch is divided, evenly.
        loss_fn: of a result and its targets, a mean over the examples.
        specs: taken, None: parts are cut along the first axis.
        scale_grads: whether gradients are means over the parts, and not sums.
    """

    def __init__(
        self,
        stages: Sequence[PipelineStage],
        n_microbatches: int,
        loss_fn: Callable[..., Tensor] | None,
        *,
        specs: Sequence[Any],
        scale_grads: bool,
    ) -> None:
        if any(spec is not None for spec in specs):
            raise ArgumentError(type(self).__name__, "specs of chunks are None")
        if n_microbatches < 1:
            raise ArgumentError(
                type(self).__name__, "there is one part or more", n_microbatches=n_microbatches
            )
        size = stages[0].group.size() if stages else 0
        wanted = [stages[0].group.rank() + i * size for i in range(len(stages))] if stages else []
        found, number = [s.stage_index for s in stages], size * len(stages)
        if not stages or found != wanted or any(s.num_stages != number for s in stages):
            raise ArgumentError(
                type(self).__name__,
                "it is given all stages of this rank, in order, as many on every rank",
                stages=found,
                num_stages=[s.num_stages for s in stages],
                ranks=size,
            )
        self._stages, self._number = tuple(stages), n_microbatches
        self._loss_fn, self._scale = loss_fn, scale_grads

    def actions(self) -> list[Action]:
        """What this process does for a batch, in order."""
        raise NotImplementedError(f"{type(self).__name__}.actions")

    def step(
        self, *args: Tensor, target: Tensor | None = None, losses: list[Tensor] | None = None
    ) -> Tensor | None:
        """Take a batch forward and back; gradients are added to those of the stages' parameters.

        Args:
            *args: the batch, on the rank of the first stage alone.
            target: what the results are compared with, on the rank of the last stage alone.
            losses: a list that becomes the parts' losses, where the last stage is.

        Returns:
            The results of all parts, where the last stage is; None elsewhere.

        Raises:
            ArgumentError: if a stage gets what another needs, or there is no ``loss_fn``.
            ShapeError: if the batch does not divide evenly, or stages exchange what is no tensor.
            DistributedError: if another rank does not answer.
        """
        name = type(self).__name__
        if self._stages[-1].is_last and (self._loss_fn is None or target is None):
            raise ArgumentError(f"{name}.step", "the last stage has a loss_fn and a target")
        return self._told(self._run(args, target, backward=True), losses)

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
        return ops.cat(results) if self._stages[-1].is_last else None

    def _run(
        self, args: tuple[Tensor, ...], target: Tensor | None, *, backward: bool
    ) -> tuple[list[Tensor], list[Tensor]]:
        number, first = self._number, self._stages[0].is_first
        if len(args) != int(first):
            raise ArgumentError(
                type(self).__name__, "the first stage gets the batch, others none", given=len(args)
            )
        batch = _divided(args[0], number) if args else None
        targets = None if target is None else _divided(target, number)
        todo = [a for a in self.actions() if a.forward or backward]
        ways = {}
        for stage in self._stages:
            own = [a for a in todo if a.stage == stage.stage_index]
            order = {way: [a.part for a in own if a.forward is way] for way in (True, False)}
            ways[stage.stage_index] = _Way(stage, number, order, batch if stage.is_first else None)
        results: list[Tensor] = []
        lost: list[Tensor] = []
        for action in todo:
            way = ways[action.stage]
            if not action.forward:
                self._backward(way, action.part)
                continue
            done = self._forward(way, action.part, differentiable=backward)
            if way.stage.is_last:
                results.append(done.result.detach())
                if targets is not None and self._loss_fn is not None:
                    loss = self._loss_fn(done.result, targets[action.part])
                    done = _Held(done.given, loss)
                    lost.append(loss.detach())
            if backward:
                way.held[action.part] = done
            del done  # what waits for its way back is held there alone
        for way in ways.values():
            for work in way.sent:
                if work is not None:
                    work.wait()
        return results, lost

    def _forward(self, way: _Way, part: int, *, differentiable: bool) -> _Held:
        stage, x = way.stage, way.given(part)
        if not stage.is_first and differentiable and x.dtype.is_floating_point:
            x.requires_grad_()
        y = stage.submod(x)
        if not stage.is_last:
            way.hand_on(y, part, differentiable=differentiable)
        return _Held(x, y)

    def _backward(self, way: _Way, part: int) -> None:
        given, y = way.held.pop(part)
        if way.stage.is_last:
            (y / self._number if self._scale else y).backward()
        else:
            grad = way.gradient(part)
            if y.requires_grad:  # where nothing up to here is trained, it is not wanted
                y.backward(grad)
        if not way.stage.is_first:
            own = given.grad
            way.hand_back(ops.zeros_like(given) if own is None else own, part)


class _OfOneStage(Schedule):
    """The schedules of processes that have a stage each."""

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
        specs = args_chunk_spec, kwargs_chunk_spec, output_merge_spec
        super().__init__([stage], n_microbatches, loss_fn, specs=specs, scale_grads=scale_grads)

    def warm_up(self) -> int:
        """How many parts go forward before the first goes back."""
        raise NotImplementedError(f"{type(self).__name__}.warm_up")

    def actions(self) -> list[Action]:
        stage, first = self._stages[0].stage_index, self.warm_up()
        done = [Action(stage, part, forward=True) for part in range(first)]
        for part in range(self._number):
            done.append(Action(stage, part, forward=False))
            if first + part < self._number:
                done.append(Action(stage, first + part, forward=True))
        return done


class ScheduleGPipe(_OfOneStage):
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


class Schedule1F1B(_OfOneStage):
    """A part goes back as soon as it can: a stage holds one, and one for each stage behind it.

    Arguments are those of :class:`ScheduleGPipe`.
    """

    def warm_up(self) -> int:
        """One for this stage, and one for each behind it."""
        stage = self._stages[0]
        return min(self._number, stage.num_stages - stage.stage_index)


def _divided(x: Tensor, number: int) -> list[Tensor]:
    if x.ndim == 0 or x.shape[0] % number:
        raise ShapeError("pipeline", "a batch divides evenly", shape=x.shape, n_microbatches=number)
    return [part.contiguous() for part in ops.chunk(x, number)]
