"""Parameters of which each rank holds a part: gathered while a module runs, and freed behind it.

What is here is one module's; who makes units, and what programs call, is in
:mod:`.fully_shard`.
"""

# It puts other tensors in the place of a module's own parameters.
# pyrefly: ignore-errors[protected-access]

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from typing import Any
from weakref import ReferenceType

from ... import ops
from ...autodiff.custom import Function
from ...autodiff.divided import NORMS_OF_PARTS
from ...autodiff.tape import no_grad
from ...creation import empty, zeros
from ...errors import DistributedError, TraceError
from ...ops.multi_tensor import overwrite_many
from ...ops.shape import alias
from ...ranks.device_sum import may_add
from ...ranks.differentiable import own_part
from ...ranks.mesh import DeviceMesh
from ...ranks.operations import ReduceOp, all_gather_into_tensor, all_reduce
from ...ranks.placement import Shard
from ...ranks.scattering import reduce_scatter_tensor
from ...ranks.work import Work
from ...ranks.world import Group
from ...tensor import Tensor
from ...values import mode
from ...values.dtypes import DType
from ...values.shapes import Shape, Strides, contiguous_strides
from ..module import Module
from ..parameter import Parameter
from .ahead import Coming, Order
from .averaging import Averages, Job
from .distributed import exchanged
from .divided import DividedParameter, OfAllParts

__all__ = ["MixedPrecisionPolicy", "Unit"]

Place = tuple[Module, str]
"""A module and the name that a parameter has there."""


@dataclass(frozen=True)
class MixedPrecisionPolicy:
    """Dtypes of a module whose parameters lie in parts.

    Attributes:
        param_dtype: parameters are gathered and computed with in; None: their own. The parts that
            the optimiser updates stay as they are.
        reduce_dtype: gradients are averaged in; None: ``param_dtype``.
        output_dtype: floating results become; None: as they come.
        cast_forward_inputs: whether floating arguments become ``param_dtype``.
    """

    param_dtype: DType | None = None
    reduce_dtype: DType | None = None
    output_dtype: DType | None = None
    cast_forward_inputs: bool = True


class Piece:
    """One parameter of a unit.

    Args:
        parameter: the whole, of which this rank takes its part.
        places: where modules have it.
        mesh: of one axis: the ranks that have parts.

    Attributes:
        shard: this rank's part, as ``chunk`` cuts the first axis.
        rows: of a part, but the last ones', which are padded to as many.
        size: elements of a padded part.
    """

    def __init__(self, parameter: Parameter, places: Sequence[Place], mesh: DeviceMesh) -> None:
        if parameter.ndim == 0:
            raise DistributedError(
                "fully_shard",
                "a parameter has an axis to be divided along",
                name=places[0][1],
                remedy="Let it have the shape (1,), or ignore it",
            )
        group = mesh.get_group()
        self.places = list(places)
        self.shape = tuple(parameter.shape)
        self.rows = -(-self.shape[0] // group.size())
        self.size = self.rows * prod(self.shape[1:])
        own = own_part(parameter.detach(), 0, group).contiguous().clone()
        self.shard = DividedParameter(own, requires_grad=parameter.requires_grad)
        beyond = vars(parameter).get(NORMS_OF_PARTS)
        vars(self.shard).update(vars(parameter))
        vars(self.shard).update(
            {"device_mesh": mesh, "placements": (Shard(0),), "whole": self.shape},
            is_gathered=True,
            **{NORMS_OF_PARTS: OfAllParts(group, beyond)},
        )
        if isinstance(parameter, DividedParameter):
            before: Any = parameter
            self.shard.beyond = (before.device_mesh, before.placements, before.whole)
        self.put(self.shard)

    def put(self, value: Tensor) -> None:
        """Let the modules have this in the parameter's place."""
        for owner, name in self.places:
            owner._parameters[name] = value

    def padded(self, dtype: DType) -> Tensor:
        """This rank's part, ``(size,)``."""
        own = self.shard.detach() if self.shard.dtype is dtype else self.shard.detach().to(dtype)
        own = _seen(own, (own.numel(),))
        missing = self.size - own.numel()
        return ops.cat([own, zeros(missing, dtype=dtype, device=own.device)]) if missing else own

    def whole_of(self, rows: Tensor) -> Tensor:
        """The parameter of all ranks' padded parts, ``(ranks, size)``."""
        return _seen(rows.reshape(-1), self.shape)

    def parts_of(self, whole: Tensor, ranks: int) -> Tensor:
        """All ranks' padded parts of a tensor of the parameter's shape, ``(ranks, size)``."""
        missing = ranks * self.size - whole.numel()
        if missing:
            flat = whole.reshape(-1)
            whole = ops.cat([flat, zeros(missing, dtype=flat.dtype, device=flat.device)])
        return _seen(whole, (ranks, self.size))


def _seen(x: Tensor, shape: Shape, start: int = 0, strides: Strides | None = None) -> Tensor:
    """Elements of a tensor in another shape, off the tape, from one on.

    They are what slices and ``reshape`` give, each of which costs the host as much as a launch: a
    block of a transformer has a dozen parameters, which are looked at ten times in a step.
    """
    array = x.array if x.array.contiguous else x.contiguous().array
    strides = contiguous_strides(shape) if strides is None else strides
    return Tensor(array.view(shape, strides, array.offset + start))


@dataclass(frozen=True, eq=False)
class _Freed:
    """What the tape keeps of a whole parameter: where it is found when it is gathered again."""

    place: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int


class Unit:
    """The parameters of one module that are gathered and freed together.

    Args:
        module: whose they are.
        found: each with the places where it is.
        mesh: the ranks that have parts.
        replicas: ranks that have the same part, whose gradients are averaged, too.
        policy: dtypes.
        reshard: whether parameters are freed behind the forward pass, and gathered again for the
            backward pass; None: unless it is the outermost.

    Attributes:
        keeps_outermost: whether nobody said whether they are freed.
        sync: whether gradients are averaged; else they are only added up here.
        reduces_replicas: whether those of replicas are.
        divides_by: what sums of gradients are divided by; None: the number of ranks.
        ahead: the whole parameters, which are on their way for the next who wants them.
        followers: who was gathered behind it last time, forward and backward.
    """

    def __init__(
        self,
        module: Module,
        found: Sequence[tuple[Parameter, Sequence[Place]]],
        *,
        mesh: DeviceMesh,
        replicas: Group | None,
        policy: MixedPrecisionPolicy,
        reshard: bool | int | None,
    ) -> None:
        self.module, self.mesh, self.replicas = module, mesh, replicas
        self.group = mesh.get_group()
        self.policy, self.reshard, self.keeps_outermost = policy, bool(reshard), reshard is None
        self.sync = self.reduces_replicas = True
        self.divides_by: float | None = None
        self.pieces = [Piece(p, places, mesh) for p, places in found]
        self._whole: list[Tensor] | None = None
        self._is_open = False
        self._asked: list[Tensor] | None = None
        self._unsynced: list[Tensor | None] = [None] * len(self.pieces)
        self.ahead: Coming | None = None
        self.followers: dict[str, ReferenceType[Unit]] = {}

    # Forward.

    def run(self, forward: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """A forward pass with whole parameters, which are the tape's alone afterwards."""
        policy = self.policy
        if policy.cast_forward_inputs and policy.param_dtype is not None:
            args, kwargs = _cast((args, kwargs), policy.param_dtype)
        asked, self._asked = self._asked, None
        if not self.pieces or (self._is_open and asked is None):
            result = forward(*args, **kwargs)
        else:
            result = self._gathered_run(forward, args, kwargs, asked)
        return result if policy.output_dtype is None else _cast(result, policy.output_dtype)

    def _gathered_run(
        self, forward: Callable[..., Any], args: Any, kwargs: Any, asked: list[Tensor] | None
    ) -> Any:
        self._whole = None
        grad = mode.current().grad
        trained = any(piece.shard.requires_grad for piece in self.pieces)
        if asked is None or (grad and trained and all(x.node is None for x in asked)):
            asked = list(_Gathered.apply(self, *(piece.shard for piece in self.pieces)))
        given = asked
        node = next((x.node for x in given if x.node is not None), None)
        before = mode.current().saved_hooks
        hooks = _Hooks(self, given, before) if grad and self.reshard else None
        with self._showing(given), mode.using(saved_hooks=hooks.pair if hooks else before):
            result = forward(*args, **kwargs)
        if not (grad and self.reshard and node is not None):
            return result
        return _each(result, lambda x: _Opens.apply(x, self, node) if x.requires_grad else x)

    @contextmanager
    def _showing(self, values: Sequence[Tensor]) -> Iterator[None]:
        """A block in which modules have these, and no longer their parts."""
        self._show(values)
        try:
            yield
        finally:
            self.hide()

    def _show(self, values: Sequence[Tensor]) -> None:
        for piece, value in zip(self.pieces, values, strict=True):
            piece.put(value)
        self._is_open = True

    def hide(self) -> None:
        """Let modules have their parts again, and whole parameters go."""
        for piece in self.pieces:
            piece.put(piece.shard)
        self._is_open, self._whole, self._asked = False, None, None

    @property
    def is_open(self) -> bool:
        """Whether modules have whole parameters now."""
        return self._is_open

    def show_whole(self, *, on_tape: bool) -> list[Tensor]:
        """Let modules have whole parameters until :meth:`hide`; all ranks call it.

        Args:
            on_tape: whether gradients flow from them to the parts; else they are tensors apart.
        """
        whole: list[Tensor]
        if on_tape:
            whole = list(_Gathered.apply(self, *(piece.shard for piece in self.pieces)))
            self._asked = whole
        else:
            whole = [Parameter(x, p.shard.requires_grad) for x, p in self._pairs()]
        self._show(whole)
        return whole

    def _pairs(self) -> Iterator[tuple[Tensor, Piece]]:
        return zip(self.gather(), self.pieces, strict=True)

    def keep(self, whole: Sequence[Tensor]) -> None:
        """Overwrite the parts with those of whole parameters."""
        for piece, value in zip(self.pieces, whole, strict=True):
            piece.shard.detach().copy_(own_part(value.detach(), 0, self.group))

    def gather(self) -> list[Tensor]:
        """The whole parameters, off the tape; those of one dtype in one message."""
        order = Order.of(self)
        found = None if order is None else order.taken(self)
        if found is None:
            found = self._coming(async_op=False)
        for work in found.works:
            work.wait()
        if order is not None:
            order.go_on(self)
        return self._parted(found.rows)

    def begin(self) -> None:
        """Begin to gather, for the next :meth:`gather`."""
        self.ahead = self._coming(async_op=True)

    def _coming(self, *, async_op: bool) -> Coming:
        rows, works = list[Tensor](), list[Work]()
        with mode.using(grad=False, autocast=None):
            for dtype, places in self._by_dtype().items():
                own = ops.cat([self.pieces[k].padded(dtype) for k in places])
                shape = self.group.size(), own.numel()
                everyone = empty(shape, dtype=dtype, device=own.device)
                if own.numel():
                    work = all_gather_into_tensor(
                        everyone, own, group=self.group, async_op=async_op
                    )
                    works += [] if work is None else [work]
                rows.append(everyone)
        return Coming(rows, works, self._state())

    def _parted(self, rows: Sequence[Tensor]) -> list[Tensor]:
        """The whole parameters of all ranks' padded parts, as they were gathered."""
        found: dict[int, Tensor] = {}
        with mode.using(grad=False, autocast=None):
            for everyone, places in zip(rows, self._by_dtype().values(), strict=True):
                start, (ranks, total) = 0, everyone.shape
                for k in places:
                    piece = self.pieces[k]
                    rows_of = _seen(everyone, (ranks, piece.size), start, (total, 1))
                    found[k] = piece.whole_of(rows_of)
                    start += piece.size
        return [found[k] for k in range(len(self.pieces))]

    def _state(self) -> list[Any]:
        """Tells whether parts are what they were, and gathered alike."""
        shards = [p.shard.array for p in self.pieces]
        return [self.policy, *((x.storage, x.storage.version) for x in shards)]

    def is_current(self, coming: Coming) -> bool:
        """Whether parts are as they were when it was begun."""
        return self._state() == coming.state

    def _by_dtype(self) -> dict[DType, list[int]]:
        given: dict[DType, list[int]] = {}
        for k, piece in enumerate(self.pieces):
            dtype = piece.shard.dtype
            if self.policy.param_dtype is not None and dtype.is_floating_point:
                dtype = self.policy.param_dtype
            given.setdefault(dtype, []).append(k)
        return given

    @property
    def is_first(self) -> bool:
        """Whether this rank is the first of all that have parts or copies."""
        return self.group.rank() == 0 and (self.replicas is None or self.replicas.rank() == 0)

    # Backward.

    def whole(self) -> list[Tensor]:
        """The whole parameters in a backward pass, gathered once for it."""
        if self._whole is None:
            self._whole = self.gather()
            ends = mode.current().walk_ends
            if ends is not None:
                ends.append(self.hide)
        return self._whole

    def open_again(self, node: Any) -> None:
        """Let modules have whole parameters in a backward pass, for what is computed again there.

        Args:
            node: that gathered them, to which their gradients go.
        """
        self._show([Tensor(x.array, node, k) for k, x in enumerate(self.whole())])

    def reduce(self, grads: Sequence[Tensor | None]) -> list[Tensor | None]:
        """Gradients of the parts, of those of whole parameters; None: it only added them up."""
        waiting = self._unsynced
        if not self.sync and mode.current().tracer is not None:
            raise TraceError(
                "fully_shard",
                "a step that is compiled averages its gradients",
                remedy="Leave set_requires_gradient_sync(False) out, or the compiling",
            )
        given = [
            g if w is None else w if g is None else w + g
            for g, w in zip(grads, waiting, strict=True)
        ]
        if not self.sync:
            self._unsynced = given
            return [None] * len(given)
        self._unsynced = [None] * len(given)
        averages = None if self._is_looked_at() else Averages.of_walk()
        if averages is None:
            found: list[Tensor | None] = [None] * len(given)
            for _ in self._averaged(given, found):
                pass  # it waits by itself
            return found
        coming = [_room_for(p.shard) if p.shard.requires_grad else None for p in self.pieces]
        averages.go_on()
        averages.begin(self._filled(given, coming))
        return coming

    def _is_looked_at(self) -> bool:
        """Whether somebody looks at a part's gradient before the walk back ends."""
        hooks = [p.shard.hooks for p in self.pieces]
        return any(given is not None and given.awaits for given in hooks)

    def _filled(self, given: list[Tensor | None], coming: list[Tensor | None]) -> Job:
        """Let averages become the gradients that were given out before they were there."""
        found: list[Tensor | None] = [None] * len(given)
        yield from self._averaged(given, found, async_op=True)
        with no_grad():
            both = zip(coming, found, strict=True)
            pairs = [(x, y) for x, y in both if x is not None and y is not None and x.numel()]
            overwrite_many(pairs)

    def _averaged(
        self, given: list[Tensor | None], found: list[Tensor | None], *, async_op: bool = False
    ) -> Job:
        """The averages of whole parameters' gradients that are this rank's.

        Args:
            given: let go as soon as they are exchanged.
            found: is given them.
            async_op: whether what exchanges them is given, to be waited for.
        """
        how = ReduceOp.AVG if self.divides_by is None else ReduceOp.SUM
        begun = [
            (at, *self._begin(self._rows(given, dtype, at), how, async_op=async_op))
            for dtype, at in self._trained().items()
        ]
        given.clear()
        yield [work for _, _, work in begun]
        own = [(at, x.clone() if may_add(x.device) else x) for at, x, _ in begun]
        del begun
        if self.replicas is not None and self.reduces_replicas:
            yield [all_reduce(x, how, self.replicas, async_op) for _, x in own if x.numel()]
        for at, mine in own:
            self._parted_average(mine, at, found)

    def _begin(self, rows: Tensor, how: ReduceOp, *, async_op: bool) -> tuple[Tensor, Work | None]:
        """What will be this rank's of the sums of rows, and what exchanges them."""
        like = {"dtype": rows.dtype, "device": rows.device}
        here = may_add(rows.device)  # in place, which saves a copy of all
        mine = rows[self.group.rank()] if here else empty(rows.shape[1], **like)
        if not mine.numel():
            return mine, None
        work = reduce_scatter_tensor(
            mine, rows.reshape(-1), how, group=self.group, async_op=async_op
        )
        return mine, work

    def _rows(self, given: list[Tensor | None], dtype: DType, places: list[int]) -> Tensor:
        """Gradients as they are exchanged: of each rank's parts a row."""
        ranks, rows = self.group.size(), list[Tensor]()
        with no_grad():
            for k in places:
                piece, g = self.pieces[k], given[k]
                if g is None:
                    g = zeros(piece.shape, dtype=dtype, device=piece.shard.device)
                rows.append(piece.parts_of(g.detach().to(dtype), ranks))
            return ops.cat(rows, 1)

    def _parted_average(self, mine: Tensor, places: list[int], found: list[Tensor | None]) -> None:
        """The parameters' own gradients of what this rank has of a sum."""
        with no_grad():
            mine = mine if self.divides_by is None else mine / self.divides_by
            start = 0
            for k in places:
                shard = self.pieces[k].shard
                own = _seen(mine, shard.array.shape, start)
                found[k] = own if own.dtype is shard.dtype else own.to(shard.dtype)
                start += self.pieces[k].size

    def _trained(self) -> dict[DType, list[int]]:
        """The parameters that require gradients, by the dtype in which those are averaged."""
        found: dict[DType, list[int]] = {}
        for dtype, places in self._by_dtype().items():
            trained = [k for k in places if self.pieces[k].shard.requires_grad]
            if trained:
                found.setdefault(self.policy.reduce_dtype or dtype, []).extend(trained)
        return found


class _Gathered(Function):
    """The whole parameters of all ranks' parts, whose gradients are averaged and parted again."""

    @staticmethod
    def forward(ctx: Any, unit: Unit, *shards: Tensor) -> tuple[Tensor, ...]:
        """All of a unit."""
        ctx.unit = unit
        ctx.set_materialize_grads(False)
        whole = unit.gather()
        frozen = [x for x, s in zip(whole, shards, strict=True) if not s.requires_grad]
        ctx.mark_non_differentiable(*frozen)
        return tuple(whole)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Any, ...]:
        """The parts' gradients; the whole parameters are not needed any more."""
        ctx.unit.hide()
        return None, *ctx.unit.reduce(grads)


class _Opens(Function):
    """A module's result as it is; before its backward pass the module is gathered again."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, unit: Unit, node: Any) -> Tensor:
        """The tensor."""
        ctx.unit, ctx.node = unit, node
        return alias(x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        """The gradient."""
        ctx.unit.open_again(ctx.node)
        return grad, None, None


class _Hooks:
    """What the tape keeps of a forward pass: of whole parameters, only which they are.

    Args:
        unit: whose parameters they are.
        given: the whole parameters.
        outer: the hooks around these, which see all else.
    """

    def __init__(self, unit: Unit, given: Sequence[Tensor], outer: Any) -> None:
        self._unit, self._outer = unit, outer
        # Those that share memory do so again when they are gathered again.
        self._places = {id(x.array.storage): k for k, x in enumerate(given)}
        self._given = [x.dtype for x in given]

    @property
    def pair(self) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
        """As the mode takes them."""
        return self._pack, self._unpack

    def _pack(self, x: Tensor) -> Any:
        place = self._places.get(id(x.array.storage))
        if place is not None and x.dtype is self._given[place]:
            return _Freed(place, x.array.shape, x.array.strides, x.array.offset)
        if self._outer is None:
            return NotImplemented
        found = self._outer[0](x)
        return found if found is NotImplemented else (found,)

    def _unpack(self, kept: Any) -> Any:
        if not isinstance(kept, _Freed):
            return self._outer[1](kept[0])
        array = self._unit.whole()[kept.place].array
        return Tensor(array.view(kept.shape, kept.strides, kept.offset))


def _room_for(x: Tensor) -> Tensor:
    return empty(tuple(x.shape), dtype=x.dtype, device=x.device)


def _each(value: Any, change: Callable[[Tensor], Tensor]) -> Any:
    """A value with other floating tensors in it."""
    return exchanged(value, change)


def _cast(value: Any, dtype: DType) -> Any:
    return _each(value, lambda x: x.to(dtype))
