"""Trials: what a driver does beside the mathematics of ops, asked by itself.

Copies at odd places, the order of commands, memory that is apart, what work-items know of their
grid, barriers, and whole steps of training. Each yields what was found and what was expected.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..compile import compile as compiled
from ..creation import asarray, zeros
from ..device import Device, Storage
from ..errors import ClnetError
from ..nn import Linear
from ..optim import SGD, Adam
from ..tensor import Tensor
from ..user_kernel import kernel
from ..values.generator import Generator
from .case import Finding, Outcome, off

Yielded = Iterator[tuple[str, np.ndarray, np.ndarray, float]]
_SHOWN = 160
_WIDEST = 16


@dataclass(frozen=True)
class Trial:
    """Something a driver does.

    Attributes:
        name, family: as a case has them.
        run: yields what was asked, what was found, what was expected, and the tolerance.
    """

    name: str
    family: str
    run: Callable[[Device], Yielded]


def attempt(trial: Trial, device: Device) -> Outcome:
    """Run a trial; an error that is raised is a finding, like a wrong number."""
    outcome = Outcome(trial.name, trial.family)
    try:
        with device:
            for way, found, wanted, tolerance in trial.run(device):
                share, law = off(np.asarray(found), np.asarray(wanted), tolerance)
                outcome.worst = max(outcome.worst, share)
                if law:
                    outcome.findings.append(Finding(way, law))
    except (ClnetError, RuntimeError) as error:
        outcome.findings.append(Finding("call", f"{type(error).__name__}: {str(error)[:_SHOWN]}"))
    return outcome


def _bytes(count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, count, np.uint8)


def _storage(device: Device, nbytes: int) -> Storage:
    storage = Storage(device, nbytes)
    storage.materialize()
    return storage


def copies(device: Device) -> Yielded:
    """To the device, on it and back, of odd sizes and at odd places."""
    for size in (1, 3, 255, 4097, 1_000_003):
        sent, back = _bytes(size), np.zeros(size, np.uint8)
        storage = _storage(device, size)
        device.queue.upload(storage, sent)
        device.queue.download(back, storage)
        yield f"{size} bytes there and back", back, sent, 0
    whole = _bytes(5000, 1)
    first, second = _storage(device, 5000), _storage(device, 5000)
    device.queue.upload(first, whole)
    device.queue.upload(second, np.zeros(5000, np.uint8))
    device.queue.upload(first, whole[:77], 1234)
    device.queue.copy(second, first, 2001, target_bytes=36, source_bytes=1100)
    back = np.zeros(5000, np.uint8)
    device.queue.download(back, second)
    expected = np.zeros(5000, np.uint8)
    there = whole.copy()
    there[1234 : 1234 + 77] = whole[:77]
    expected[36 : 36 + 2001] = there[1100 : 1100 + 2001]
    yield "a copy on the device", back, expected, 0
    part = np.zeros(129, np.uint8)
    device.queue.download(part, first, 1271)
    yield "bytes from the middle", part, there[1271 : 1271 + 129], 0
    with device.queue.map(first, 300, 1200) as seen:
        yield "bytes that are mapped", seen.copy(), there[1200:1500], 0


def order(device: Device) -> Yielded:
    """Commands run one after another, and what was sent may be changed at once."""
    x, expected = zeros(3001), np.zeros(3001, np.float32)
    given = np.empty(3001, np.float32)
    for step in range(24):
        given[:] = np.arange(3001) % (step + 3)
        sent = asarray(given, device=device)
        given[:] = 1e9
        x = (sent + 1) + x * 0.5  # a kernel reads at once what was sent
        expected = np.arange(3001, dtype=np.float32) % (step + 3) + 1 + expected * np.float32(0.5)
        if step % 5 == 4:
            yield f"what was found after {step + 1} steps", x.numpy(), expected, 0


def memory(device: Device) -> Yielded:
    """Tensors that live at the same time hold what they were given."""
    held = [zeros(size, device=device) + k for k, size in enumerate([65, 700, 5000] * 6)]
    for k, x in enumerate(held):
        if k % 2:
            x.mul_(3)
    for k, x in enumerate(held):
        yield f"tensor {k}", x.numpy(), np.full(x.shape, k * (3 if k % 2 else 1), np.float32), 0


_GRID = kernel("""
__kernel void doctor_grid(__global const int *x, int n, __global int *y)
{
    const int i = get_global_id(0), j = get_global_id(1), w = get_global_size(0);
    const int at = j * w + i;
    if (at >= n) return;
    y[at] = x[0] + (int)(get_group_id(0) * 1000000 + get_local_id(0) * 10000
        + get_group_id(1) * 1000 + get_local_id(1) * 100
        + get_num_groups(0) * 10 + get_local_size(0) + get_local_size(1));
}
""")
_EXCHANGE = kernel("""
__kernel void doctor_exchange(__global const float *x, int rounds, __global float *y)
{
    __local float tile[16];
    const int i = get_local_id(0), at = get_global_id(0);
    float mine = x[at];
    for (int r = 0; r < rounds; r++) {
        tile[i] = mine;
        barrier(CLK_LOCAL_MEM_FENCE);
        mine = 0.5f * mine + tile[15 - i] + tile[(i + r) % 16];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    y[at] = mine;
}
""")
_COUNT = kernel("""
__kernel void doctor_count(__global const int *x, int n, __global int *y, __global int *last)
{
    __local int here;
    const int at = get_global_id(0);
    if (get_local_id(0) == 0) here = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (at < n) atomic_add(&here, x[at]);
    barrier(CLK_LOCAL_MEM_FENCE);
    if (get_local_id(0) == 0) y[get_group_id(0)] = here;
    last[at] = at < n ? x[at] : -1;
}
""")
_LOADS = kernel("""
__kernel void doctor_loads(__global const float *x, int from, __global float *y)
{
    const int i = get_global_id(0);
    const float4 a = vload4(i, x + from);
    const float8 b = vload8(i, x + from + 1);
    vstore4(a * 2 + b.lo + b.hi, i, y + 1);
    if (i == 0) y[0] = a.x;
}
""")
_WIDE = kernel("""
__kernel void doctor_wide(__global const float *x, int from, __global float *y)
{
    const int i = get_global_id(0);
    const float16 a = vload16(i, x + from);
    vstore8(a.lo * 2 + a.hi, i, y);
}
""")
_HALVES = kernel("""
__kernel void doctor_halves(__global const float *x, int n, __global half *h, __global float *y)
{
    const int i = get_global_id(0);
    if (i >= n) return;
    vstore_half_rte(x[i], i, h);
    y[i] = vload_half(i, h);
}
""")
_ROUND = kernel("""
__kernel void doctor_round(__global const float *x, __global const float *z, int n,
    __global float *y, __global int *whole)
{
    const int i = get_global_id(0);
    if (i >= n) return;
    y[5 * i] = fma(x[i], z[i], -1.0f);
    y[5 * i + 1] = x[i] / z[i];
    y[5 * i + 2] = rint(x[i] * 1024);
    y[5 * i + 3] = fmin(x[i], z[i]) + 8 * fmax(x[i], z[i]);
    y[5 * i + 4] = select(x[i], z[i], (int)(x[i] > 1));
    whole[4 * i] = convert_int_rte(x[i] * 512);
    whole[4 * i + 1] = mul_hi(as_int(x[i]), as_int(z[i]));
    whole[4 * i + 2] = convert_uchar_sat(300 * (x[i] - 1) * 512);
    whole[4 * i + 3] = (int)(((long)as_int(x[i]) * as_int(z[i])) >> 17) + clz(i + 1);
}
""")


def grid(device: Device) -> Yielded:
    """What work-items know of their place, in two dimensions, down to the last group."""
    y = _GRID(asarray(np.array([5], np.int32), device=device), 12 * 10, shape=(120,),
              global_size=(12, 10), local_size=(4, 2))  # fmt: skip
    j, i = np.divmod(np.arange(120), 12)
    groups = i // 4 * 1_000_000 + i % 4 * 10_000 + j // 2 * 1000 + j % 2 * 100
    yield "numbers of items and groups", y.numpy(), (groups + 5 + 30 + 6).astype(np.int32), 0


def barriers(device: Device) -> Yielded:
    """Items of a group see what the others wrote."""
    x = np.random.default_rng(2).standard_normal(80).astype(np.float32)
    found = _EXCHANGE(asarray(x, device=device), 5, global_size=80, local_size=16)
    mine = x.reshape(5, 16).astype(np.float64)
    for r in range(5):
        mine = 0.5 * mine + mine[:, ::-1] + mine[:, (np.arange(16) + r) % 16]
    yield "numbers exchanged in groups", found.numpy(), mine.ravel(), 1e-6
    counts = np.random.default_rng(3).integers(0, 9, 70).astype(np.int32)
    sums, last = _COUNT(
        asarray(counts, device=device), 70, shape=[(5,), (80,)], global_size=80, local_size=16
    )
    padded = np.pad(counts, (0, 10))
    yield "sums by atomic additions", sums.numpy(), padded.reshape(5, 16).sum(1, dtype=np.int32), 0
    yield "numbers of the last group", last.numpy()[:70], counts, 0


def vectors(device: Device) -> Yielded:
    """Vectors from places that are not aligned; numbers of 16 bits; rounding."""
    x = np.random.default_rng(4).standard_normal(90).astype(np.float32)
    found = _LOADS(asarray(x, device=device), 3, shape=(17,), global_size=4, local_size=1)
    at, lane = np.arange(4)[:, None], np.arange(4)
    rows = x[3 + 4 * at + lane] * 2 + x[4 + 8 * at + lane] + x[8 + 8 * at + lane]
    yield "vectors at odd places", found.numpy(), np.concatenate([x[3:4], rows.ravel()]), 1e-6
    if device.traits.simd_width >= _WIDEST:
        yield wide_vectors(device)
    halves, back = _HALVES(asarray(x, device=device), 90, shape=[(90,), (90,)], global_size=90)
    yield "halves", halves.numpy(), x.astype(np.float16), 0
    yield "floats of halves", back.numpy(), x.astype(np.float16).astype(np.float32), 0


def wide_vectors(device: Device) -> tuple[str, np.ndarray, np.ndarray, float]:
    """Vectors of 16 floats, as a trial yields it.

    PoCL 3.0 on AMD's Zen 3 and 4 loses their upper half; clnet uses vectors of 8 there.
    """
    x = np.random.default_rng(4).standard_normal(90).astype(np.float32)
    found = _WIDE(asarray(x, device=device), 5, shape=(32,), global_size=4, local_size=1)
    pairs = x[5:69].reshape(4, 2, 8)
    return "vectors of 16", found.numpy(), (pairs[:, 0] * 2 + pairs[:, 1]).ravel(), 1e-6


def rounding(device: Device) -> Yielded:
    """Built-in functions that have one right result."""
    steps = np.arange(1, 65, dtype=np.float32) / 8192
    x, z = (1 + steps).astype(np.float32), (1 - steps).astype(np.float32)
    y, whole = _ROUND(
        *(asarray(v, device=device) for v in (x, z)), 64, shape=[(64, 5), (64, 4)], global_size=64
    )
    wide, far = x.astype(np.float64), z.astype(np.float64)
    expected = [
        wide * far - 1,
        wide / far,
        np.rint(wide * 1024),
        far + 8 * wide,
        np.where(x > 1, z, x),
    ]
    for place, name in enumerate(("fma", "division", "rint", "fmin and fmax", "select")):
        found = y.numpy()[:, place]
        # A quotient may be off by 2.5 units in the last place.
        yield name, found, expected[place].astype(np.float32), 3e-7 if name == "division" else 0
    bits = [v.view(np.int32).astype(np.int64) for v in (x, z)]
    wholes = [
        np.rint(wide * 512).astype(np.int64),
        (bits[0] * bits[1]) >> 32,
        np.clip(np.trunc(300 * (wide - 1) * 512), 0, 255).astype(np.int64),
        (((bits[0] * bits[1]) >> 17) & 0xFFFFFFFF)
        + np.array([32 - int(k).bit_length() for k in range(1, 65)]),
    ]
    for place, name in enumerate(("convert_int_rte", "mul_hi", "convert_uchar_sat", "long")):
        wanted = wholes[place].astype(np.uint32).view(np.int32)
        yield name, whole.numpy()[:, place], wanted, 0


def _trained(device: Device, name: str, optimizer: Any, *, whole: bool) -> list[np.ndarray]:
    rng = np.random.default_rng(6)
    layer = Linear(7, 3, device=device)
    weight, bias = (rng.standard_normal(shape).astype(np.float32) for shape in ((3, 7), (3,)))
    layer.load_state_dict({"weight": asarray(weight), "bias": asarray(bias)})
    optimizer = optimizer(layer.parameters())
    x = asarray(rng.standard_normal((19, 7)).astype(np.float32), device=device)
    y = asarray(rng.standard_normal((19, 3)).astype(np.float32), device=device)

    def step(x: Tensor, y: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss = ((layer(x) - y) ** 2).mean()
        loss.backward()
        optimizer.step()
        return loss

    run = compiled(step) if whole else step
    losses = [run(x, y) for _ in range(4)]
    return [layer.weight.detach().numpy(), np.array([loss.item() for loss in losses])]


def _expected(kind: str) -> list[np.ndarray]:
    rng = np.random.default_rng(6)
    weight, bias = (rng.standard_normal(s).astype(np.float32).astype(float) for s in ((3, 7), (3,)))
    x, y = (rng.standard_normal(s).astype(np.float32).astype(float) for s in ((19, 7), (19, 3)))
    kept = [[np.zeros_like(p), np.zeros_like(p)] for p in (weight, bias)]
    losses: list[float] = []
    for t in range(1, 5):
        apart = x @ weight.T + bias - y
        losses.append(float(np.mean(apart**2)))
        c = 2 * apart / apart.size
        for p, g, state in zip((weight, bias), (c.T @ x, c.sum(0)), kept, strict=True):
            if kind == "SGD":
                state[0] = g if t == 1 else 0.9 * state[0] + g
                p -= 0.1 * state[0]
            else:
                state[0] = 0.9 * state[0] + 0.1 * g
                state[1] = 0.999 * state[1] + 0.001 * g * g
                root = np.sqrt(state[1] / (1 - 0.999**t)) + 1e-8
                p -= 0.05 * state[0] / (1 - 0.9**t) / root
    return [weight, np.array(losses)]


def training(device: Device) -> Yielded:
    """Four steps of two optimisers, eager and compiled, beside the formulas."""
    kinds = {
        "SGD": lambda p: SGD(p, lr=0.1, momentum=0.9),
        "Adam": lambda p: Adam(p, lr=0.05),
    }
    for name, make in kinds.items():
        expected = _expected(name)
        for way, whole in (("eager", False), ("compiled", True)):
            found = _trained(device, name, make, whole=whole)
            for what, a, b in zip(("weights", "losses"), found, expected, strict=True):
                yield f"{what} of {name}, {way}", a, b, 2e-5


def normals(device: Device) -> Yielded:
    """Normal numbers have the moments of a normal distribution."""
    generator = Generator(device=device).manual_seed(5)
    x = zeros(40_000, device=device).normal_(generator=generator).numpy().astype(np.float64)
    yield "their mean and square", np.array([x.mean() + 1, (x * x).mean()]), np.ones(2), 0.02


def all_trials() -> list[Trial]:
    """Every trial, the simplest first."""
    return [
        Trial("copies", "commands", copies),
        Trial("order of commands", "commands", order),
        Trial("memory apart", "commands", memory),
        Trial("grid", "language", grid),
        Trial("barriers and atomics", "language", barriers),
        Trial("vectors and halves", "language", vectors),
        Trial("rounding of built-in functions", "language", rounding),
        Trial("normal numbers", "random", normals),
        Trial("training", "optimisers", training),
    ]
