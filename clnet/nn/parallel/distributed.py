"""``nn.parallel.DistributedDataParallel``: each process computes a part of the batch."""

# ruff: noqa: FBT001, FBT002 - PyTorch's signatures

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from ...autodiff.custom import Function
from ...autodiff.leaf import make_dense
from ...autodiff.tape import leaves_behind
from ...errors import ArgumentError, DistributedError, TraceError
from ...ops.shape import alias
from ...ranks.many import broadcast_many
from ...ranks.membership import group_of
from ...ranks.message import gathered_objects
from ...ranks.operations import ReduceOp, all_reduce
from ...ranks.world import Group
from ...tensor import Tensor, tensor
from ...values import mode
from ...values.containers import again
from ...values.dtypes import int32
from ..module import Module
from .bucket import Bucket, buckets_of, usual_bytes
from .comm_hook import Hook
from .joining import Joining

__all__ = ["DistributedDataParallel"]


class DistributedDataParallel(Module):
    """A module whose gradients are averaged over processes while ``backward`` still runs.

    Each process (``mpirun -n 4 ...``, then ``distributed.init_process_group()``) has the module and
    calls it with its share of the batch. Parameters and buffers begin as those of rank 0. As soon
    as all gradients of a bucket are there they are summed, in a thread; ``backward`` ends when all
    are, so that the optimisers of all ranks make the same step. The sums have one order: the same
    bits at every run with so many processes.

    A training step that is compiled as a whole has the exchange among its steps, and the device
    goes on with ``backward`` meanwhile. Or a compiled module is wrapped,
    ``DistributedDataParallel(clnet.compile(module))``: forward and backward are plans, the exchange
    lies behind them.

    Args:
        module: has parameters that require gradients.
        device_ids: taken: the module stays where it is.
        output_device: taken.
        dim: taken.
        broadcast_buffers: whether each forward pass begins with rank 0's buffers; False: each rank
            keeps its own, from the beginning.
        init_sync: whether parameters and buffers begin as rank 0's.
        process_group: who takes part; None: all.
        bucket_cap_mb: MiB of gradients that are summed together; None: 25, or a tenth of all if
            that is more. The first has 1, the last a quarter.
        find_unused_parameters: whether forward looks which parameters its result does not depend
            on. Those that no rank uses keep the gradient they have.
        check_reduction: taken.
        gradient_as_bucket_view: taken: gradients are views of their bucket.
        static_graph: taken.
        mixed_precision: taken, None.
        device_mesh: taken, None.
        forward_sync_buffers: newer, in the place of ``broadcast_buffers``; False: they begin as
            rank 0's, and each rank keeps its own from then on.

    Attributes:
        module: the module.
        process_group: who takes part.
        require_backward_grad_sync: whether ``backward`` averages; see :meth:`no_sync`.

    Raises:
        DistributedError: if the processes are not joined, or have other parameters; in ``backward``
            if a parameter got no gradient and ``find_unused_parameters`` is False.
        ArgumentError: if nothing requires a gradient.
    """

    def __init__(
        self,
        module: Module,
        device_ids: Any = None,
        output_device: Any = None,
        dim: int = 0,
        broadcast_buffers: bool | None = None,
        init_sync: bool = True,
        process_group: Group | None = None,
        bucket_cap_mb: float | None = None,
        find_unused_parameters: bool = False,
        check_reduction: bool = False,
        gradient_as_bucket_view: bool = False,
        static_graph: bool = False,
        mixed_precision: Any = None,
        device_mesh: Any = None,
        forward_sync_buffers: bool | None = None,
    ) -> None:
        name = type(self).__name__
        del device_ids, output_device, dim, check_reduction, gradient_as_bucket_view, static_graph
        super().__init__()
        if mixed_precision is not None or device_mesh is not None:
            raise ArgumentError(name, "mixed_precision and device_mesh are None")
        group = group_of(name, process_group)
        if group is None:
            raise DistributedError(name, "this rank is in the group")
        trained = {n: p for n, p in module.named_parameters() if p.requires_grad}
        if not trained:
            raise ArgumentError(
                name,
                "the module has parameters that require a gradient",
                remedy="Leave the wrapper out",
            )
        self.module = module
        self.process_group = group
        begin_alike = forward_sync_buffers is not None or broadcast_buffers is not False
        given = broadcast_buffers if forward_sync_buffers is None else forward_sync_buffers
        self.broadcast_buffers = given is not False
        self.find_unused_parameters = find_unused_parameters
        self.require_backward_grad_sync = True
        self.__dict__["_way"] = _Way()
        self.__dict__["_names"] = {id(p): n for n, p in trained.items()}
        self._check_alike(name)
        self.__dict__["_joining"] = self.__dict__["_hook"] = None
        if init_sync:
            self._take_over([*module.parameters(), *(module.buffers() if begin_alike else ())])
        total = sum(p.array.nbytes for p in trained.values())
        most = usual_bytes(total) if bucket_cap_mb is None else int(bucket_cap_mb * 2**20)
        self._reduced = _Reduction(buckets_of(list(trained.values()), most), self)
        for p in trained.values():
            p.register_post_accumulate_grad_hook(self._reduced.arrived)

    def _check_alike(self, name: str) -> None:
        """All ranks have the same parameters, by name, shape and dtype."""
        here = [(n, tuple(p.shape), str(p.dtype)) for n, p in self.module.named_parameters()]
        found = gathered_objects(name, self.process_group, here)
        for rank, there in zip(self.process_group.ranks, found, strict=True):
            if there != found[0]:
                pairs = zip([*there, None], [*found[0], None], strict=False)
                other, first = next((a, b) for a, b in pairs if a != b)
                raise DistributedError(
                    name,
                    "all ranks have the same parameters",
                    rank=rank,
                    has=other,
                    first_rank_has=first,
                )

    def _take_over(self, tensors: list[Tensor], root: int = 0) -> None:
        """Tensors become those of a rank of the group."""
        broadcast_many([t.detach() for t in tensors], self.process_group, root)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the module computes of this rank's share."""
        syncs = self.require_backward_grad_sync
        if (tracer := mode.current().tracer) is not None:
            tracer.watch(self._way)
        root, joining = 0, self._joining
        if joining is not None and syncs and mode.current().grad:
            joining.tell(goes_on=True)
            root = joining.root
        buffers = list(self.module.buffers())
        if self.broadcast_buffers and buffers and syncs:
            self._take_over(buffers, root)
        result = self.module(*args, **kwargs)
        if not mode.current().grad:
            return result
        if not syncs:
            self._reduced.expect_nothing()
            return result
        return self._reduced.expect(result, look=self.find_unused_parameters)

    def register_comm_hook(self, state: object, hook: Hook) -> None:
        """Have each bucket of gradients exchanged by a hook, and not averaged; once.

        Args:
            state: the hook's first argument.
            hook: takes the state and a :class:`.GradBucket`, and gives a future of a tensor of the
                bucket's elements, which become the gradients: as
                ``dist.all_reduce(bucket.buffer(), async_op=True).get_future()``.

        Raises:
            ArgumentError: if it cannot be called, or there is one.
        """
        name = "register_comm_hook"
        if not callable(hook):
            raise ArgumentError(name, "hook can be called", type=type(hook).__name__)
        if self._hook is not None:
            raise ArgumentError(name, "a hook is registered once", hook=self._hook[0])
        self.__dict__["_hook"] = hook, state
        self._way.hooked = True

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Gradients of forward passes within are only added up here; the next outside averages."""
        way = self._way
        before = self.require_backward_grad_sync, way.adds_up
        self.__dict__["require_backward_grad_sync"] = False
        if mode.current().tracer is None:  # else the plan has it among its steps
            way.adds_up = True
        try:
            yield
        finally:
            self.__dict__["require_backward_grad_sync"], way.adds_up = before

    @contextmanager
    def join(
        self,
        divide_by_initial_world_size: bool = True,
        enable: bool = True,
        throw_on_early_termination: bool = False,
    ) -> Iterator[None]:
        """Let ranks have unequal numbers of batches; all ranks enter it.

        A rank that leaves the body takes part in the others' exchanges, with gradients of 0, until
        all have left it. Then parameters and buffers become those of a rank that trained to the
        end.

        Args:
            divide_by_initial_world_size: whether gradients are divided by the number of all ranks,
                and not of those that have batches.
            enable: False: nothing is done.
            throw_on_early_termination: whether it is an error, on all ranks, that one has left.

        Raises:
            DistributedError: if one has left, with ``throw_on_early_termination``.
            TraceError: in a step that is compiled as a whole.
        """
        if not enable:
            yield
            return
        joining = Joining(
            self.process_group,
            by_initial=divide_by_initial_world_size,
            throws=throw_on_early_termination,
        )
        self.__dict__["_joining"] = joining
        self._way.joins = True
        try:
            yield
            buffers = list(self.module.buffers()) if self.broadcast_buffers else []
            while joining.tell(goes_on=False):
                if buffers:
                    self._take_over(buffers, joining.root)
                self._reduced.follow()
            self._take_over([*self.module.parameters(), *buffers], joining.root)
        finally:
            self.__dict__["_joining"] = None
            self._way.joins = False


@dataclass
class _Way:
    """How gradients are exchanged just now: a step that is compiled for one way has no other.

    Attributes:
        hooked: by a communication hook.
        adds_up: not at all, in ``no_sync``.
        joins: beside ranks that have no batch left, in ``join``.
    """

    hooked: bool = False
    adds_up: bool = False
    joins: bool = False

    @property
    def _clnet_version(self) -> tuple[bool, ...]:
        return (self.hooked, self.adds_up, self.joins)


class _Reduction:
    """The buckets of a module, and which of them are on their way.

    Attributes:
        expected: whether the gradients that come next are averaged: those of a forward pass.
    """

    def __init__(self, buckets: list[Bucket], owner: DistributedDataParallel) -> None:
        self._buckets = buckets
        self._owner = owner
        self._bucket_of = {id(p): b for b in buckets for p in b.parameters}
        self._used: set[int] = set()
        self._added: set[int] = set()
        self._begun = 0
        self._running = False
        self._looked = False
        self.expected = False

    def expect(self, result: Any, *, look: bool) -> Any:
        """A backward pass follows.

        Args:
            result: what forward gave.
            look: whether unused parameters are found by it; else all are used.

        Returns:
            The result; where it depends on no parameter, tensors like its own that tell of their
            backward pass, in which other ranks wait for this one.
        """
        used = _leaves_of(result) & set(self._bucket_of) if look else None
        self._await(used)
        if (tracer := mode.current().tracer) is not None:  # of forward alone, or of all
            tracer.record_action(lambda: self._await(used))
        if used is not None and not used:
            anyone = self._buckets[0].parameters[0]
            return exchanged(result, lambda x: _Telling.apply(x, anyone, self))
        return result

    def expect_nothing(self) -> None:
        """A backward pass follows that only adds up here."""
        self.expected = False
        if (tracer := mode.current().tracer) is not None:
            tracer.record_action(self._go_without)

    def _go_without(self) -> None:
        self.expected = False

    def _await(self, used: set[int] | None) -> None:
        """Wait for the gradients of the parameters that are used; None: of all."""
        for bucket in self._buckets:
            bucket.reset()
        self._begun, self._running, self.expected = 0, False, True
        self._looked = used is not None
        self._used = set(self._bucket_of) if used is None else used
        for bucket in self._buckets:
            bucket.waiting &= self._used

    def arrived(self, leaf: Tensor) -> None:
        """Called when a leaf's gradient is whole; one that is sparse is exchanged dense."""
        if mode.current().tracer is None:
            make_dense([leaf])
        if self._owner.find_unused_parameters:
            self._add(leaf)
            if (tracer := mode.current().tracer) is not None:
                tracer.record_action(lambda: self._add(leaf))
        if self.expected:
            self._bucket_of[id(leaf)].waiting.discard(id(leaf))
            self.go_on()

    def _add(self, leaf: Tensor) -> None:
        """Keep that a leaf has a gradient, also of a pass that only added up, to be averaged."""
        self._added.add(id(leaf))

    def go_on(self) -> None:
        """Begin with what is whole, within a backward pass that is the expected one."""
        if not self.expected:
            return
        if not self._running:
            self._running = True
            after = mode.current().after_backward
            if after is None:
                raise DistributedError(
                    "DistributedDataParallel", "gradients come by Tensor.backward()"
                )
            after.append(self.finish)
        while self._begun < len(self._buckets) and not self._buckets[self._begun].waiting:
            self._begin(self._begun)  # in one order on all ranks
            self._begun += 1

    def _begin(self, place: int, *, absent: bool = False) -> None:
        self._buckets[place].begin(
            self._owner.process_group,
            absent=absent,
            hook=self._owner._hook,
            place=(place, place == len(self._buckets) - 1),
        )

    def finish(self) -> None:
        """Called when a backward pass is over."""
        self._running = False
        self.expect_nothing()
        missing = [self._owner._names[i] for b in self._buckets for i in b.waiting]
        if missing:
            raise DistributedError(
                "DistributedDataParallel",
                "backward reaches every parameter",
                without_gradient=sorted(missing)[:5],
                number=len(missing),
                remedy="Let the loss depend on all that forward gave"
                if self._looked
                else "Pass find_unused_parameters=True, or call backward() once for each "
                "forward pass",
            )
        if self._looked and mode.current().tracer is not None:
            raise TraceError(
                "DistributedDataParallel",
                "which parameters no rank uses is not known in a step that is compiled",
                remedy="Leave find_unused_parameters out, or wrap the compiled module",
            )
        unused = self._unused() if self._looked else set[int]()
        joining = self._owner._joining
        factor = 1.0 if joining is None else joining.factor
        try:
            for bucket in self._buckets:
                bucket.finish(unused, factor)
        except BaseException:
            for bucket in self._buckets:
                with suppress(Exception):  # what goes wrong in the others is the same trouble
                    bucket.settled()
            raise

    def follow(self) -> None:
        """Take part in the exchanges of others' backward pass; nothing changes here."""
        for place in range(len(self._buckets)):
            self._begin(place, absent=True)
        if self._owner.find_unused_parameters:
            self._used = set()
            self._added.clear()  # what is left of them is given up, as gradients of 0
            self._unused()
        for bucket in self._buckets:
            bucket.settled()
            bucket.reset()

    def _unused(self) -> set[int]:
        """The parameters that no rank has used, now or in passes before that only added up."""
        keys = list(self._bucket_of)
        here = self._used | self._added
        self._added.clear()
        used = tensor([int(k in here) for k in keys], dtype=int32)
        all_reduce(used, ReduceOp.MAX, group=self._owner.process_group)
        return {k for k, u in zip(keys, used.tolist(), strict=True) if not u}


class _Telling(Function):
    """A tensor as it is; in its backward pass, that of no parameter, the exchange begins, too."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, anyone: Tensor, reduction: _Reduction) -> Tensor:
        """The tensor; that a parameter is given makes it one that has a gradient."""
        del anyone
        ctx.reduction = reduction
        return alias(x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        """The gradient of the tensor; none of the parameter."""
        ctx.reduction.go_on()
        return grad, None, None


def _leaves_of(result: Any) -> set[int]:
    """The ``id`` of the leaves that the tensors in a result depend on."""
    return {id(leaf) for leaf in leaves_behind(_tensors_in(result))}


def _tensors_in(result: Any) -> list[Tensor]:
    """All tensors that a result holds; it may hold itself."""
    found: list[Tensor] = []
    seen: dict[int, Any] = {}
    left = [result]
    while left:
        value = left.pop()
        if isinstance(value, Tensor):
            found.append(value)
        elif id(value) not in seen:
            seen[id(value)] = value
            if isinstance(value, list | tuple):
                left += value
            else:
                inside = value if isinstance(value, dict) else getattr(value, "__dict__", {})
                left += inside.values()
    return found


def exchanged(value: Any, other: Callable[[Tensor], Tensor]) -> Any:
    """A result with other tensors of floating point in lists, tuples and dicts."""
    if isinstance(value, Tensor):
        return other(value) if value.dtype.is_floating_point else value
    if isinstance(value, list | tuple):
        return again(value, (exchanged(v, other) for v in value))
    if isinstance(value, dict):
        return type(value)((k, exchanged(v, other)) for k, v in value.items())
    return value
