"""Transforms of whole batches of images, on the host; random ones depend on no thread's timing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import ArgumentError, ShapeError
from .counter import Draw


class Transform(Protocol):
    """A function of a batch ``(n, ...)``, and of the examples it was drawn from."""

    def __call__(self, x: NDArray[Any], draw: Draw, /) -> NDArray[Any]:
        """The transformed batch; ``x`` itself is left as it is."""
        ...


class Compose:
    """Apply transforms one after the other; each draws random numbers of its own.

    Args:
        transforms: in the order of their use.
    """

    def __init__(self, transforms: Sequence[Transform]) -> None:
        self.transforms = tuple(transforms)

    def __call__(self, x: NDArray[Any], draw: Draw) -> NDArray[Any]:
        """Apply them all."""
        for stream, transform in enumerate(self.transforms):
            x = transform(x, replace(draw, stream=stream))
        return x


class ToFloat:
    """``y = x / high`` in float32: bytes become numbers from 0 to 1.

    Args:
        high: the value that becomes 1.
    """

    def __init__(self, high: float = 255.0) -> None:
        self.high = high

    def __call__(self, x: NDArray[Any], draw: Draw) -> NDArray[Any]:
        """Divide, in float32."""
        return np.divide(x, np.float32(self.high), dtype=np.float32)


class ChannelStats(NamedTuple):
    """Mean and standard deviation of each channel, ``(c,)`` each, float64."""

    mean: NDArray[np.float64]
    std: NDArray[np.float64]


def channel_stats(images: NDArray[Any], *, chunk: int = 1024) -> ChannelStats:
    """Mean and (population) standard deviation of each channel.

    Args:
        images: ``(n, c, ...)``, any real dtype, ``n`` 1 or more.
        chunk: images converted to float64 at a time.

    Returns:
        The two, on the scale of ``images``.

    Raises:
        ShapeError: if there is no image or no channel axis.
    """
    if images.ndim < 2 or images.size == 0:
        raise ShapeError("channel_stats", "needs images (n, c, ...)", images=images.shape)
    axes = (0, *range(2, images.ndim))
    count = images.size // images.shape[1]
    parts = [images[i : i + chunk] for i in range(0, len(images), chunk)]
    mean: Any = sum(part.sum(axis=axes, dtype=np.float64) for part in parts) / count
    # A second pass, because the mean of squares less the squared mean cancels.
    column = _per_channel(mean, images.ndim)
    square: Any = sum(np.square(part - column).sum(axis=axes) for part in parts)
    return ChannelStats(mean, np.sqrt(square / count))


class Normalize:
    """``y[:, c] = (x[:, c] - mean[c]) / std[c]`` in float32.

    Args:
        mean: ``(c,)``.
        std: ``(c,)``, positive.

    Raises:
        ArgumentError: if the two differ in length, or a ``std`` is not positive.
    """

    def __init__(self, mean: ArrayLike, std: ArrayLike) -> None:
        self.mean = np.asarray(mean, dtype=np.float32).reshape(-1)
        self.std = np.asarray(std, dtype=np.float32).reshape(-1)
        if self.mean.shape != self.std.shape or not (self.std > 0).all():
            raise ArgumentError(
                "Normalize",
                "mean and std have one value for each channel, std positive",
                mean=self.mean.tolist(),
                std=self.std.tolist(),
            )

    @classmethod
    def of(cls, images: NDArray[Any]) -> Normalize:
        """The one that gives ``images`` mean 0 and standard deviation 1 in each channel.

        Args:
            images: ``(n, c, ...)``, on the scale this transform will meet (before or after
                :class:`ToFloat`).

        Returns:
            The transform.
        """
        return cls(*channel_stats(images))

    def __call__(self, x: NDArray[Any], draw: Draw) -> NDArray[Any]:
        """Shift and scale each channel."""
        if x.ndim < 2 or x.shape[1] != len(self.mean):
            raise ShapeError(
                "Normalize",
                "axis 1 is not the channels it was made for",
                x=x.shape,
                channels=len(self.mean),
            )
        y = np.subtract(x, _per_channel(self.mean, x.ndim), dtype=np.float32)
        y /= _per_channel(self.std, x.ndim)
        return y


class RandomCrop:
    """A window of the image's own size out of the image padded with zeros, at a random place.

    Args:
        padding: zeros on each side.
    """

    def __init__(self, padding: int) -> None:
        if padding < 1:
            raise ArgumentError("RandomCrop", "padding is 1 or more", padding=padding)
        self.padding = padding

    def __call__(self, x: NDArray[Any], draw: Draw) -> NDArray[Any]:
        """Crop each image at its own place."""
        _check_images("RandomCrop", x)
        n, _, h, w = x.shape
        p = self.padding
        padded = np.pad(x, ((0, 0), (0, 0), (p, p), (p, p)))
        windows = np.lib.stride_tricks.sliding_window_view(padded, (h, w), axis=(2, 3))
        top, left = (draw.integers(2 * p + 1, lane=lane) for lane in (0, 1))
        return windows[np.arange(n), :, top, left]


class RandomHorizontalFlip:
    """The image mirrored left to right, with probability one half."""

    def __call__(self, x: NDArray[Any], draw: Draw) -> NDArray[Any]:
        """Mirror the images that the draw chose."""
        _check_images("RandomHorizontalFlip", x)
        flipped = draw.integers(2).astype(bool)
        return np.where(flipped[:, None, None, None], x[..., ::-1], x)


class RandomErasing:
    """A rectangle of the image becomes ``value``, with probability ``p`` (Zhong et al. 2020).

    Its area and its height over width (on a logarithmic scale) are uniform between their bounds,
    and its place is uniform within the image; a side longer than the image's is cut to it.

    Args:
        p: the probability, 0 to 1.
        scale: bounds of the area, as parts of the image's, 0 to 1.
        ratio: bounds of height over width, positive.
        value: of the pixels erased; 0 is the mean of images behind :class:`Normalize`.

    Raises:
        ArgumentError: if a bound makes no sense.
    """

    def __init__(
        self,
        p: float = 0.5,
        scale: tuple[float, float] = (0.02, 0.33),
        ratio: tuple[float, float] = (0.3, 3.3),
        value: float = 0.0,
    ) -> None:
        if not (0 <= p <= 1 and 0 <= scale[0] <= scale[1] <= 1 and 0 < ratio[0] <= ratio[1]):
            raise ArgumentError(
                "RandomErasing",
                "p and scale lie between 0 and 1, ratio is positive, lower bounds first",
                p=p,
                scale=scale,
                ratio=ratio,
            )
        self.p, self.scale, self.ratio, self.value = p, scale, ratio, value

    def __call__(self, x: NDArray[Any], draw: Draw) -> NDArray[Any]:
        """Erase a rectangle of the images that the draw chose."""
        _check_images("RandomErasing", x)
        h, w = x.shape[2:]
        area = draw.uniform(*self.scale, lane=1) * (h * w)
        ratio = np.exp(draw.uniform(*np.log(self.ratio), lane=2))
        rows = _span(np.sqrt(area * ratio), h, draw.uniform(lane=3))
        columns = _span(np.sqrt(area / ratio), w, draw.uniform(lane=4))
        chosen = draw.uniform(lane=0) < self.p
        erased = chosen[:, None, None] & rows[:, :, None] & columns[:, None, :]
        return np.where(erased[:, None], np.asarray(self.value, x.dtype), x)


def _span(length: NDArray[Any], size: int, place: NDArray[Any]) -> NDArray[np.bool_]:
    """Which of ``size`` positions a span covers, ``(n, size)``; ``place`` is from 0 up to 1."""
    length = np.minimum(np.rint(length), size)
    start = np.floor(place * (size - length + 1))
    at = np.arange(size)
    return (at >= start[:, None]) & (at < (start + length)[:, None])


def _per_channel(values: NDArray[Any], ndim: int) -> NDArray[Any]:
    """``(c,)`` as ``(c, 1, ...)``, to broadcast against ``(n, c, ...)`` of ``ndim`` axes."""
    return values.reshape(-1, *(1,) * (ndim - 2))


def _check_images(op: str, x: NDArray[Any]) -> None:
    if x.ndim != 4:
        raise ShapeError(op, "needs images (n, c, h, w)", x=x.shape)
