"""Convolutions of any number of axes in float64, tap by tap, and settings drawn at random.

The references share no code with clnet, and are not PyTorch's: a convolution is a sum over taps of
slices of the padded array, a transposed one lays its taps on an array that is cut to size last.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np

Sizes = tuple[int, ...]
Sides = tuple[tuple[int, int], ...]
CHANNELS = (1, 1, 2, 3, 4, 5, 8, 16, 17, 32)  # of a group; whole vectors, and off them
MODES = {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}  # PyTorch's, and NumPy's


@dataclass(frozen=True)
class Setting:
    """One convolution, or transposed convolution, with all that can be set.

    Attributes:
        transposed: which of the two.
        batch: images; None: one, without that axis.
        groups: divides the channels.
        channels: of ``x`` and of ``y``, in a group.
        size, kernel, stride, dilation: one number an axis.
        padding: as it is given to the op.
        extra: output padding.
        bias: whether there is one.
        mode: ``"zeros"``, or how a layer fills its padding.
    """

    transposed: bool
    batch: int | None
    groups: int
    channels: tuple[int, int]
    size: Sizes
    kernel: Sizes
    stride: Sizes
    dilation: Sizes
    padding: Sizes | str
    extra: Sizes
    bias: bool
    mode: str = "zeros"

    @property
    def sides(self) -> Sides:
        """Padding before and behind each axis; of an odd ``"same"`` the larger part is behind."""
        if self.padding == "same":
            reach = [d * (k - 1) for d, k in zip(self.dilation, self.kernel, strict=True)]
            return tuple((r // 2, r - r // 2) for r in reach)
        if self.padding == "valid":
            return ((0, 0),) * len(self.size)
        return tuple((int(p), int(p)) for p in self.padding)

    @property
    def out(self) -> Sizes:
        """The size of ``y``."""
        axes = zip(self.size, self.kernel, self.stride, self.dilation, self.sides, strict=True)
        reach = [(n, d * (k - 1), s, low + high) for n, k, s, d, (low, high) in axes]
        if self.transposed:
            sums = zip(reach, self.extra, strict=True)
            return tuple((n - 1) * s + r - pad + e + 1 for (n, r, s, pad), e in sums)
        return tuple((n + pad - r - 1) // s + 1 for n, r, s, pad in reach)

    @property
    def valid(self) -> bool:
        """Whether PyTorch takes it: a result that is not empty, padding that its mode can fill."""
        if self.mode == "reflect" and any(
            max(p) >= n for p, n in zip(self.sides, self.size, strict=True)
        ):
            return False
        if self.mode == "circular" and any(
            max(p) > n for p, n in zip(self.sides, self.size, strict=True)
        ):
            return False
        return min(self.out) >= 1

    def shapes(self) -> tuple[Sizes, Sizes, Sizes | None]:
        """Of ``x``, the weight and the bias."""
        a, b = self.channels
        total, given = self.groups * a, self.groups * b
        lead = () if self.batch is None else (self.batch,)
        weight = (total, b, *self.kernel) if self.transposed else (given, a, *self.kernel)
        return (*lead, total, *self.size), weight, (given,) if self.bias else None

    @property
    def terms(self) -> int:
        """The longest sum in the results and in the gradients."""
        taps = int(np.prod(self.kernel))
        pixels = max(self.batch or 1, 1) * int(np.prod(self.size if self.transposed else self.out))
        return max(taps * max(self.channels), pixels)


def draw(rng: np.random.Generator, *, layer: bool = False) -> Setting:
    """A setting that PyTorch takes; of a layer: padding filled in a drawn mode."""
    while True:
        setting = _draw(rng, layer=layer)
        work = int(np.prod(setting.kernel)) * int(np.prod(np.maximum(setting.out, 1)))
        work *= int(np.prod(setting.channels)) * setting.groups * (setting.batch or 1)
        if setting.valid and work < 2e6:
            return setting


def _draw(rng: np.random.Generator, *, layer: bool) -> Setting:
    def numbers(low: int, high: int) -> Sizes:
        return tuple(int(v) for v in rng.integers(low, high + 1, axes))

    axes = int(rng.integers(1, 4))
    transposed = not layer and bool(rng.random() < 0.5)
    one = rng.random() < 0.3  # plain settings are what most kernels are chosen for
    stride, dilation = numbers(1, 1 if one else 4), numbers(1, 1 if one else 4)
    padding: Sizes | str = numbers(0, 4)
    if not transposed and rng.random() < 0.2:
        padding = str(rng.choice(["same", "valid"]))
        stride = (1,) * axes if padding == "same" else stride
    most = [max(s, d) for s, d in zip(stride, dilation, strict=True)]
    extra = tuple(int(rng.integers(0, m)) if transposed else 0 for m in most)
    a, b = (int(c) for c in rng.choice(CHANNELS, 2))
    depthwise = rng.random() < 0.15
    return Setting(
        transposed,
        None if rng.random() < 0.1 else int(rng.choice([0, 1, 1, 2, 3])),
        int(rng.choice([2, 3, 8, 16, 17])) if depthwise else int(rng.choice([1, 1, 1, 2, 3])),
        (1, int(rng.choice([1, 1, 2]))) if depthwise else (a, b),
        numbers(1, 20 if axes == 1 else 9),
        numbers(1, 4),
        stride,
        dilation,
        padding,
        extra,
        bool(rng.random() < 0.5),
        str(rng.choice(list(MODES))) if layer else "zeros",
    )


def forward(x: np.ndarray, weight: np.ndarray, bias: np.ndarray | None, s: Setting) -> np.ndarray:
    """``y`` of a setting."""
    return gradients(x, weight, bias, None, s)[0]


def gradients(
    x: np.ndarray,
    weight: np.ndarray,
    bias: np.ndarray | None,
    gy: np.ndarray | None,
    s: Setting,
) -> tuple[np.ndarray, ...]:
    """``y``, and with ``gy`` the gradients of its operands."""
    lead = () if s.batch is None else (s.batch,)
    plain = x.reshape(s.batch if lead else 1, s.groups, s.channels[0], *s.size)
    filters = weight.reshape(s.groups, -1, *weight.shape[1:])
    n = plain.shape[0]
    shape = (n, s.groups, s.channels[1], *s.out)
    given = None if gy is None else gy.reshape(shape)
    walk = _transposed if s.transposed else _convolved
    y, gx, gw = walk(plain, filters, given, s)
    if bias is not None:
        y = y + bias.reshape(s.groups, s.channels[1], *(1,) * len(s.size))
    y = y.reshape(*lead, s.groups * s.channels[1], *s.out)
    if given is None:
        return (y,)
    found = [y, gx.reshape(x.shape), gw.reshape(weight.shape)]
    if bias is not None:
        found.append(given.sum((0, *range(3, given.ndim))).reshape(-1))
    return tuple(found)


def _taps(s: Setting, steps: Sizes) -> Iterator[tuple[tuple[int, ...], tuple[slice, ...]]]:
    """Each tap, and the slice of the padded array that meets it."""
    for tap in product(*map(range, s.kernel)):
        axes = zip(tap, s.dilation, s.stride, steps, strict=True)
        yield tap, tuple(slice(t * d, t * d + (n - 1) * by + 1, by) for t, d, by, n in axes)


def _convolved(x: np.ndarray, weight: np.ndarray, gy: np.ndarray | None, s: Setting):
    sides = ((0, 0),) * 3 + s.sides
    padded = np.pad(x, sides, mode=MODES.get(s.mode, "constant"))
    y = np.zeros((*x.shape[:2], s.channels[1], *s.out))
    gx, gw = np.zeros(padded.shape), np.zeros(weight.shape)
    for tap, at in _taps(s, s.out):
        part, filters = padded[(..., *at)], weight[(..., *tap)]
        y += np.einsum("ngc...,goc->ngo...", part, filters)
        if gy is not None:
            gx[(..., *at)] += np.einsum("ngo...,goc->ngc...", gy, filters)
            flat = (*x.shape[:2], -1, int(np.prod(s.out)))
            gw[(..., *tap)] = np.einsum(
                "ngop,ngcp->goc", gy.reshape(flat[0], flat[1], s.channels[1], flat[3]),
                part.reshape(flat[0], flat[1], s.channels[0], flat[3]),
            )  # fmt: skip
    return y, _folded(gx, x.shape, s), gw


def _folded(gx: np.ndarray, shape: Sizes, s: Setting) -> np.ndarray:
    """The gradient of padding: what each padded place was copied from gets what arrived there."""
    if s.mode == "zeros":
        cut = tuple(slice(low, low + n) for (low, _), n in zip(s.sides, s.size, strict=True))
        return gx[(..., *cut)]
    for axis, (low, high) in enumerate(s.sides, start=3):
        source = np.pad(np.arange(shape[axis]), (low, high), mode=MODES[s.mode])
        moved = np.moveaxis(gx, axis, 0)
        out = np.zeros((shape[axis], *moved.shape[1:]))
        np.add.at(out, source, moved)
        gx = np.moveaxis(out, 0, axis)
    return gx


def _transposed(x: np.ndarray, weight: np.ndarray, gy: np.ndarray | None, s: Setting):
    axes = zip(s.size, s.kernel, s.stride, s.dilation, s.extra, strict=True)
    whole = tuple((n - 1) * by + d * (k - 1) + 1 + e for n, k, by, d, e in axes)
    cut = tuple(slice(low, n - high) for (low, high), n in zip(s.sides, whole, strict=True))
    y = np.zeros((*x.shape[:2], s.channels[1], *whole))
    gx, gw = np.zeros(x.shape), np.zeros(weight.shape)
    arrived = np.zeros(y.shape)
    if gy is not None:
        arrived[(..., *cut)] = gy
    pixels = int(np.prod(s.size))
    for tap, at in _taps(s, s.size):
        filters = weight[(..., *tap)]
        y[(..., *at)] += np.einsum("ngc...,gco->ngo...", x, filters)
        part = arrived[(..., *at)]
        gx += np.einsum("ngo...,gco->ngc...", part, filters)
        gw[(..., *tap)] = np.einsum(
            "ngcp,ngop->gco", x.reshape(*x.shape[:3], pixels), part.reshape(*part.shape[:3], pixels)
        )
    return y[(..., *cut)], gx, gw
