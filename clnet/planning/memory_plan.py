"""``clnet.plan``: what a model needs of a device's memory, before it runs, on a device not here."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from math import sqrt
from typing import Any

from ..array import Array
from ..autodiff.recompute import checkpoint, checkpoint_sequential
from ..autodiff.tape import no_grad
from ..compile import compile as compiled
from ..creation import zeros
from ..device import AbsentDevice, Device, DeviceTraits, traits_for
from ..errors import ArgumentError, OutOfDeviceMemory
from ..nn import Module, ModuleList, Sequential
from ..ops import cross_entropy
from ..optim import Optimizer
from ..tensor import Tensor
from ..values import mode
from ..values.collector import collecting_what_is_new
from ..values.dtypes import DType, float32, int64
from ..values.generator import Generator

Loss = Callable[[Tensor, Tensor], Tensor]
Make = Callable[[Iterable[Tensor]], Optimizer]
_MIB = 2**20


@dataclass(frozen=True)
class Need:
    """What one way of running needs.

    Attributes:
        used: bytes in use at the peak, everything included.
        taken: bytes taken from the device for it: blocks that lie idle at the peak included.
        problem: why it cannot run, or None.
    """

    used: int
    taken: int
    problem: str | None = None


@dataclass(frozen=True)
class Forecast:
    """What :func:`plan` found; ``str()`` of it is a table.

    Attributes:
        traits: of the device.
        parameters: bytes of parameters and buffers.
        needs: by how it is run: ``"eager"``, ``"compiled"``, ``"compiled, recompute"`` (what
            ``clnet.compile`` does by itself where memory is short), and all with checkpoints.
        workspaces: bytes of scratch memory if every op had its own, if all share one, and what
            they add to a plan that puts them where nothing else lies.
    """

    traits: DeviceTraits
    parameters: int
    needs: dict[str, Need]
    workspaces: dict[str, int]

    @property
    def peak_bytes(self) -> int:
        """Bytes in use at the peak of the compiled function."""
        return self.needs["compiled"].used

    def fits(self, way: str = "compiled") -> bool:
        """Whether the device has room.

        Args:
            way: one of ``needs``.
        """
        need = self.needs[way]
        return need.problem is None and need.taken <= self.traits.global_memory_bytes

    def __str__(self) -> str:
        width = max(map(len, self.needs))
        lines = [
            f"device memory {self.traits.global_memory_bytes / _MIB:,.0f} MiB, "
            f"parameters {self.parameters / _MIB:,.1f} MiB",
            f"{'MiB':{width}}{'in use':>10}{'taken':>10}",
        ]
        for way, need in self.needs.items():
            verdict = need.problem or ("fits" if self.fits(way) else "does not fit")
            figures = f"{need.used / _MIB:10,.1f}{need.taken / _MIB:10,.1f}"
            lines.append(f"{way:{width}}{figures}  {verdict}")
        lines.append(
            "workspaces, MiB: "
            + ", ".join(f"{name} {n / _MIB:,.1f}" for name, n in self.workspaces.items())
        )
        return "\n".join(lines)


def plan(
    model: Module | Callable[[], Module],
    input_shape: Sequence[int],
    device: DeviceTraits | Device | str | None = None,
    *,
    optimizer: Make | None = None,
    loss: Loss = cross_entropy,
    target_shape: Sequence[int] | None = None,
    input_dtype: DType = float32,
    target_dtype: DType = int64,
) -> Forecast:
    """Does it fit? What a model needs of a device's memory; nothing is computed or compiled.

    A training step (forward, loss, backward, update) is planned where an optimiser is given, else a
    forward pass without gradients. The device need not be here: its traits suffice.

    Args:
        model: the model, or what makes it: then its parameters take no memory either.
        input_shape: of a batch.
        device: traits (``clnet devices --json`` prints them), a device or its name; None: the
            default device.
        optimizer: makes the optimiser of the parameters, such as ``clnet.optim.Adam``.
        loss: of outputs and targets.
        target_shape: of the targets; None: a class for every place of the outputs.
        input_dtype: of the inputs.
        target_dtype: of the targets.

    Returns:
        The figures.

    Raises:
        ArgumentError: what ``model`` makes is no module.
        ClnetError: whatever the model raises for such inputs.

    Example:
        >>> import clnet
        >>> forecast = clnet.plan(lambda: clnet.nn.Linear(100, 10), (64, 100))
        >>> forecast.fits()
        True
    """
    traits = traits_for(device)
    absent = AbsentDevice(traits)
    absent.pool.limit = None  # so that the figure is known, too, where it does not fit
    with (
        mode.using(device=absent, generator=Generator(), tracer=None),
        collecting_what_is_new(),
        _moved(model, absent) as m,
    ):
        x = zeros(*input_shape, dtype=input_dtype)
        job = _Job(m, optimizer, loss, x, _targets(m, x, target_shape, target_dtype))
        ways: dict[str, Callable[[], Any]] = {"eager": lambda: job.step}
        ways["compiled"] = lambda: compiled(job.step, recompute=False)
        if optimizer is not None:
            ways["compiled, recompute"] = lambda: compiled(job.step, recompute=True)
        needs: dict[str, Need] = {}
        workspaces: dict[str, int] = {}
        for way, make in ways.items():
            needs[way], found = _measured(absent, job, make())
            workspaces = workspaces or found
        if optimizer is not None:
            with _checkpointed(m):
                for way, make in ways.items():
                    needs[f"{way}, checkpoints"], _ = _measured(absent, job, make())
        held = [t.array.nbytes for t in (*m.parameters(), *m.buffers())]
    return Forecast(traits, sum(held), needs, workspaces)


@dataclass
class _Job:
    """A step, and what it is given."""

    model: Module
    make: Make | None
    loss: Loss
    x: Tensor
    target: Tensor | None

    def __post_init__(self) -> None:
        self.optimizer = None if self.make is None else self.make(self.model.parameters())

    def step(self, x: Tensor, target: Tensor) -> Tensor:
        """A training step's loss, or the model's output."""
        if self.optimizer is None:
            with no_grad():
                return self.model(x)
        self.optimizer.zero_grad()
        loss = self.loss(self.model(x), target)
        loss.backward()
        self.optimizer.step()
        return loss.detach()


def _targets(model: Module, x: Tensor, shape: Sequence[int] | None, dtype: DType) -> Tensor:
    if shape is None:
        with no_grad(), mode.using(abstract=True):
            outputs = model(x)
        found = outputs.shape if isinstance(outputs, Tensor) else (len(x),)
        shape = (*found[:1], *found[2:])
    return zeros(*shape, dtype=dtype)


def _measured(
    absent: AbsentDevice, job: _Job, step: Callable[..., Any]
) -> tuple[Need, dict[str, int]]:
    """Run twice, as a loop over batches would, and see what the pool had to give.

    Returns:
        That, and what workspaces cost in the plan, if there is one.
    """
    pool = absent.pool
    gc.collect()
    absent.queue.workspace.release()
    pool.empty_cache()
    pool.reset_peak()
    problem = None
    try:
        for _ in range(2):
            step(job.x, job.target)
    except OutOfDeviceMemory as error:
        problem = error.law
    figures = pool.statistics()
    plans = getattr(step, "plans", [])
    job.model.zero_grad()
    return Need(figures.peak_allocated, figures.peak_reserved, problem), (
        dict(plans[-1].memory.workspace_bytes) if plans else {}
    )


@contextmanager
def _moved(model: Module | Callable[[], Module], absent: AbsentDevice) -> Iterator[Module]:
    """The model with parameters and buffers on the absent device while the body runs."""
    if not isinstance(model, Module):
        made = model()
        if not isinstance(made, Module):
            raise ArgumentError("plan", "model is a module or makes one", made=made)
        yield made
        return
    with on_absent(model, absent):
        yield model


@contextmanager
def on_absent(model: Module, absent: AbsentDevice) -> Iterator[None]:
    """Have parameters and buffers on a device that is not here while the body runs.

    Args:
        model: whose they are.
        absent: the device.
    """
    tensors = [*model.parameters(), *model.buffers()]
    before = [(t, t.array, t.grad) for t in tensors]
    try:
        for t in tensors:
            t.grad = None
            t.array = Array.abstract(t.shape, t.dtype, absent)
            t.array.storage.materialize()
        yield
    finally:
        for t, array, grad in before:
            t.array, t.grad = array, grad


@contextmanager
def _checkpointed(model: Module) -> Iterator[None]:
    """Have the model's blocks computed again in backward while the body runs.

    Blocks are the modules of the outermost lists, and segments of rows of single layers.
    """
    before: dict[Module, Any] = {}  # a module's own ``forward``; None: it had its class's

    def change(module: Module, forward: Callable[..., Any]) -> None:
        if module not in before:  # one that stands at several places is one block
            before[module] = vars(module).get("forward")
            vars(module)["forward"] = forward

    def visit(module: Module) -> None:
        children = [m for m in vars(module)["_modules"].values() if m is not None]
        if _is_row(module) and len(children) > 1:
            blocks = any(list(child.children()) for child in children)
            segments = len(children) if blocks else max(round(sqrt(len(children))), 2)
            change(module, partial(checkpoint_sequential, children, segments))
        elif isinstance(module, ModuleList):
            for child in children:
                change(child, partial(checkpoint, child.forward))
        else:
            for child in children:
                visit(child)

    try:
        visit(model)
        yield
    finally:
        for module, forward in before.items():
            if forward is None:
                del vars(module)["forward"]
            else:
                vars(module)["forward"] = forward


def _is_row(module: Module) -> bool:
    """Whether it runs its layers one behind the other, and nothing else."""
    own = "forward" in vars(module) or type(module).forward is not Sequential.forward
    return isinstance(module, Sequential) and not own
