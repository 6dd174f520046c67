"""``nn.parallel.DataParallel``: parts of a batch on several devices of this process."""

# ruff: noqa: FBT001, FBT002 - PyTorch's signatures

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf
from time import perf_counter
from typing import Any

from ... import ops
from ...autodiff.custom import Function
from ...autodiff.tape import no_grad
from ...creation import empty
from ...errors import ArgumentError, DeviceError
from ...ops.shape import alias
from ...random import fork_rng
from ...tensor import Tensor
from ...values.containers import again
from ..module import Module

__all__ = ["DataParallel", "data_parallel", "gather", "replicate", "scatter"]


class DataParallel(Module):
    """A module that computes parts of a batch on several devices side by side.

    In each call tensors are divided along ``dim``, parameters copied to all devices, and results
    collected on the first. The devices' queues are filled one after another and run together: what
    a program draws and adds has one order, so the bits are the same at every run. Gradients come
    back to the module's own parameters, added in the devices' order. Buffers change where the
    module is (a batch norm's averages are those of the first part).

    Devices need not be alike: ``model.shares = [3, 1]`` gives the first three of four rows, and
    :meth:`measure` finds out what they do in a second. The same shares give the same bits.

    Processes (:class:`DistributedDataParallel`) copy less and need no second pass over parameters.

    Args:
        module: lies on the first device.
        device_ids: devices or their names, ``["pocl:0", "pocl:1"]``; None: the module's own.
        output_device: where results are collected; None: the first device.
        dim: the axis of the batch.

    Raises:
        DeviceError: if there is no such device; in a call, if the module lies elsewhere.
        ArgumentError: if a device is named twice, or the module is a compiled one.
    """

    def __init__(
        self, module: Module, device_ids: Any = None, output_device: Any = None, dim: int = 0
    ) -> None:
        super().__init__()
        if not isinstance(device_ids, list | tuple | None):
            raise ArgumentError("DataParallel", "device_ids is a list", device_ids=device_ids)
        self.module = module
        self.dim = dim
        # One device, whatever it is called, is the module's own: nothing is copied.
        names = list(device_ids or ())
        self.device_ids = [opened(name) for name in names] if len(names) > 1 else []
        if len(set(self.device_ids)) < len(self.device_ids):
            raise ArgumentError("DataParallel", "each device is named once", device_ids=names)
        self.shares: list[float] | None = None
        several = bool(self.device_ids)
        self.output_device = (
            (self.device_ids[0] if output_device is None else opened(output_device))
            if several
            else None
        )

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the module computes, of all parts behind each other."""
        if not self.device_ids:
            return self.module(*args, **kwargs)
        for name, x in (*self.module.named_parameters(), *self.module.named_buffers()):
            if x.device is not self.device_ids[0]:
                raise DeviceError(
                    "DataParallel",
                    "the module lies on the first device",
                    name=name,
                    device=x.device.name,
                    first=self.device_ids[0].name,
                    remedy="Call .to() of it",
                )
        shares = _checked(self.shares, len(self.device_ids))
        given = _scattered((args, kwargs), self.device_ids, self.dim, shares)
        replicas = replicate(self.module, self.device_ids[: len(given)])
        results = [r(*a, **k) for r, (a, k) in zip(replicas, given, strict=True)]
        return gather(results, self.output_device, self.dim)

    def measure(self, *args: Any, **kwargs: Any) -> list[float]:
        """Divide batches by what each device does in a second: ``shares`` are set.

        The module is called on each device alone, without gradients, after a call that builds its
        kernels; buffers and random numbers are what they were before.

        Args:
            *args: a batch, about as large as a device's part will be.
            **kwargs: the same, by name.

        Returns:
            The shares, of 1 together.
        """
        if not self.device_ids:
            self.shares = None
            return [1.0]
        before = [b.detach().clone() for b in self.module.buffers()]
        rates = [0.0] * len(self.device_ids)
        try:
            with no_grad(), fork_rng():
                for k, place in enumerate(self.device_ids):
                    first = self.device_ids[0]
                    module = replicate(self.module, [first, place] if k else [first])[-1]
                    (a, kw), *_ = _scattered((args, kwargs), [place], self.dim, None)
                    rates[k] = 1 / min(_seconds(module, a, kw, place) for _ in range(_CALLS))
        finally:
            for b, was in zip(self.module.buffers(), before, strict=True):
                b.detach().copy_(was)
        self.shares = [rate / sum(rates) for rate in rates]
        return list(self.shares)


_CALLS = 4  # of which the first builds kernels


def _seconds(module: Module, args: Any, kwargs: Any, device: Any) -> float:
    device.synchronize()
    begin = perf_counter()
    module(*args, **kwargs)
    device.synchronize()
    return perf_counter() - begin


def _checked(shares: Sequence[float] | None, count: int) -> list[float] | None:
    if shares is None:
        return None
    try:
        found = [float(s) for s in shares]
    except (TypeError, ValueError):
        found = []
    if len(found) != count or not all(0 < s < inf for s in found):
        raise ArgumentError(
            "DataParallel",
            "shares are numbers above 0, one for each device",
            shares=shares,
            devices=count,
        )
    return [s / max(found) for s in found]  # their sum is a number, too


def opened(name: Any) -> Any:
    """The device of a name; for ``nn.parallel`` alone."""
    return empty(0, device=name).device


def scatter(inputs: Any, target_gpus: Sequence[Any], dim: int = 0) -> list[Any]:
    """Parts of all tensors in nested containers, a part on each device; all else is in every part.

    Args:
        inputs: tensors, and containers of them.
        target_gpus: devices.
        dim: the axis along which tensors are divided; those of no axes are copied.

    Returns:
        As many as there are parts: fewer than devices for a short axis.
    """
    return _scattered(inputs, target_gpus, dim, None)


def _scattered(
    inputs: Any, target_gpus: Sequence[Any], dim: int, shares: Sequence[float] | None
) -> list[Any]:
    """As :func:`scatter`, by the devices' shares if there are some."""
    counts: list[int] = []

    def divided(value: Any) -> list[Any]:
        if isinstance(value, Tensor) and value.ndim:
            if shares is None:
                parts = ops.chunk(value, len(target_gpus), dim)
            else:
                parts = ops.split(value, _sizes(value.shape[dim], shares), dim)
            counts.append(len(parts))
            return [p.to(d) for p, d in zip(parts, target_gpus, strict=False)]
        if isinstance(value, Tensor):
            return [value.to(d) for d in target_gpus]
        if isinstance(value, list | tuple):
            columns = [divided(v) for v in value]
            return [again(value, row) for row in _rows(columns, len(target_gpus))]
        if isinstance(value, dict):
            rows = _rows([divided(v) for v in value.values()], len(target_gpus))
            return [dict(zip(value, row, strict=True)) for row in rows]
        return [value] * len(target_gpus)

    found = divided(inputs)
    return found[: min(counts, default=1)]


def _sizes(n: int, shares: Sequence[float]) -> list[int]:
    """So many rows for each, one at least; for fewer rows than devices, one for each of the first.

    Whole rows that are left go to those who miss most, the first of them first.
    """
    count = max(min(n, len(shares)), 1)
    total = sum(shares[:count])
    wanted = [n * share / total for share in shares[:count]]
    sizes = [max(int(w), min(n, 1)) for w in wanted]
    while sum(sizes) != n:
        missing = n > sum(sizes)
        order = sorted(range(count), key=lambda k: sizes[k] - wanted[k], reverse=not missing)
        k = next(k for k in order if missing or sizes[k] > 1)
        sizes[k] += 1 if missing else -1
    return sizes


def _rows(columns: list[list[Any]], most: int) -> list[tuple[Any, ...]]:
    if not columns:
        return [()] * most
    return list(zip(*columns, strict=False))


class _Spread(Function):
    """Parameters on several devices; their gradients are added in the devices' order."""

    @staticmethod
    def forward(ctx: Any, devices: Sequence[Any], *given: Tensor) -> tuple[Tensor, ...]:
        """Those of each device behind those of the one before: copies, aliases on their own."""
        ctx.set_materialize_grads(False)
        ctx.count, ctx.device = len(given), given[0].device
        return tuple(
            x for d in devices for x in (map(alias, given) if d is ctx.device else _moved(given, d))
        )

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        """The sums."""
        totals: list[Tensor | None] = [None] * ctx.count
        for start in range(0, len(grads), ctx.count):
            there = [(k, g) for k in range(ctx.count) if (g := grads[start + k]) is not None]
            here = _moved([g for _, g in there], ctx.device)
            for (k, _), g in zip(there, here, strict=True):
                before = totals[k]
                totals[k] = g if before is None else before + g
        return (None, *totals)


def spread(devices: Sequence[Any], given: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Copies on each device, for ``nn.parallel`` alone: those of the first, of the next, ..."""
    found = _Spread.apply(tuple(devices), *given)
    return found if isinstance(found, tuple) else (found,)


def _moved(given: Sequence[Tensor], device: Any) -> list[Tensor]:
    """Tensors of one dtype and device on another, in one message."""
    if len(given) < 2 or given[0].device is device:
        return [x.to(device) for x in given]
    row = ops.cat([x.reshape(-1) for x in given]).to(device)
    pieces = ops.split(row, [x.numel() for x in given])
    return [piece.view(x.shape) for piece, x in zip(pieces, given, strict=True)]


# A message takes the host 30 us; a bus of 10 GB/s takes as long for these.
_SMALL_BYTES = 2**18


def _messages(tensors: Sequence[Tensor]) -> list[list[Tensor]]:
    """Tensors that go together: the small ones, first, since a network's first layers have some."""
    small: dict[Any, list[Tensor]] = {}
    for x in (given := list({id(x): x for x in tensors}.values())):
        if x.array.nbytes <= _SMALL_BYTES:
            small.setdefault(x.dtype, []).append(x)
    return [*small.values(), *([x] for x in given if x.array.nbytes > _SMALL_BYTES)]


def replicate(network: Module, devices: Sequence[Any], detach: bool = False) -> list[Module]:
    """A module on several devices: new modules whose parameters are copies on the tape.

    Args:
        network: lies on the first device.
        devices: where.
        detach: whether the copies are off the tape.

    Raises:
        ArgumentError: if a part of it is compiled: its plans are of one device.
    """
    spread: dict[int, tuple[Tensor, ...]] = {}
    own = [*network.parameters(), *network.buffers()]
    for group in _messages([x for x in own if x.requires_grad and not detach]):
        found = _Spread.apply(tuple(devices), *group)
        spread.update((id(x), found[k :: len(group)]) for k, x in enumerate(group))
    for group in _messages([x for x in own if id(x) not in spread]):
        plain = [x.detach() for x in group]
        places = [plain if d is plain[0].device else _moved(plain, d) for d in devices]
        spread.update(zip(map(id, group), zip(*places, strict=True), strict=True))
    for x in network.buffers():
        spread[id(x)] = (x, *spread[id(x)][1:])  # which forward changes
    return [_replica(network, lambda x, k=k: spread[id(x)][k], {}) for k in range(len(devices))]


def _replica(module: Module, copied: Callable[[Tensor], Tensor], made: dict[int, Any]) -> Module:
    if id(module) in made:
        return made[id(module)]
    if not issubclass(type(module), Module):
        raise ArgumentError(
            "replicate", "a compiled module is one device's", module=type(module).__name__
        )
    new = made[id(module)] = type(module).__new__(type(module))
    new.__dict__.update(module.__dict__)
    for table in ("_parameters", "_buffers"):
        own = module.__dict__[table]
        new.__dict__[table] = {n: None if x is None else copied(x) for n, x in own.items()}
    new.__dict__["_modules"] = {
        n: None if m is None else _replica(m, copied, made)
        for n, m in module.__dict__["_modules"].items()
    }
    return new


def gather(outputs: Sequence[Any], target_device: Any, dim: int = 0) -> Any:
    """Tensors of several devices behind each other on one, in containers like theirs.

    Args:
        outputs: what each device gave: tensors, or containers of them, all alike.
        target_device: where.
        dim: the axis; tensors without axes become rows of one.
    """
    first = outputs[0]
    if isinstance(first, Tensor):
        moved = [x.to(target_device) for x in outputs]
        return ops.cat(moved, dim) if first.ndim else ops.stack(moved)
    if isinstance(first, dict):
        return type(first)((k, gather([o[k] for o in outputs], target_device, dim)) for k in first)
    if isinstance(first, list | tuple):
        return again(first, (gather(c, target_device, dim) for c in zip(*outputs, strict=True)))
    return first


def data_parallel(
    module: Module,
    inputs: Any,
    device_ids: Sequence[Any] | None = None,
    output_device: Any = None,
    dim: int = 0,
    module_kwargs: dict[str, Any] | None = None,
) -> Any:
    """What :class:`DataParallel` gives for ``inputs``: a tensor, or a tuple of arguments."""
    given = inputs if isinstance(inputs, tuple) else (inputs,)
    return DataParallel(module, device_ids, output_device, dim)(*given, **(module_kwargs or {}))
