"""``clnet.fft``: discrete Fourier transforms, whole and of parts of signals, in PyTorch's names."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod, sqrt
from typing import Any

from .creation import arange
from .errors import ArgumentError, DtypeError, ShapeError
from .ops import conj, index_add, movedim, narrow, pad, roll, view_as_real
from .ops.complex_parts import complex_of
from .ops.fourier import of_real, to_real, transform
from .ops.shape import to_dtype
from .tensor import Tensor
from .values import mode
from .values.arguments import checked
from .values.dtypes import DType, complex64, complex128, default_float, float32
from .values.shapes import axis_of

__all__ = [
    "fft",
    "fft2",
    "fftfreq",
    "fftn",
    "fftshift",
    "hfft",
    "hfft2",
    "hfftn",
    "ifft",
    "ifft2",
    "ifftn",
    "ifftshift",
    "ihfft",
    "ihfft2",
    "ihfftn",
    "irfft",
    "irfft2",
    "irfftn",
    "rfft",
    "rfft2",
    "rfftfreq",
    "rfftn",
]

Sizes = int | Sequence[int] | None
_LAST_TWO = (-2, -1)
_NORMS = {"backward": 0.0, None: 0.0, "ortho": 0.5, "forward": 1.0}


def _axes(name: str, x: Tensor, s: Sizes, dim: Sizes) -> tuple[list[int], list[int | None]]:
    """The axes to transform, and how many elements are taken of each; None: all."""
    sizes = None if s is None else [s] if isinstance(s, int) else list(s)
    if dim is None:
        count = x.ndim if sizes is None else len(sizes)
        dims = list(range(x.ndim - count, x.ndim))
    else:
        dims = [dim] if isinstance(dim, int) else list(dim)
    dims = [axis_of(name, d, x.shape) for d in dims]
    whole: list[int | None] = [None] * len(dims)
    if len(set(dims)) != len(dims) or (sizes is not None and len(sizes) != len(dims)):
        raise ArgumentError(name, "there is a size for each axis, named once", s=s, dim=dim)
    if sizes is None or isinstance(s, int):  # -1 stands for all only among several
        return dims, whole if sizes is None else [*sizes]
    return dims, [None if n == -1 else n for n in sizes]


def _cut(name: str, x: Tensor, n: int) -> Tensor:
    """``n`` elements along the last axis: the first ones, or all and zeros."""
    if n < 1:
        raise ArgumentError(name, "a line has an element", n=n, shape=x.shape)
    have = x.shape[-1]
    if have >= n:
        return x if have == n else narrow(x, -1, 0, n)
    return pad(x, (0, n - have))


def _scale(name: str, norm: str | None, n: int, *, back: bool) -> float:
    """What a transform over ``n`` elements is multiplied with."""
    if norm not in _NORMS:
        law = "norm is 'backward', 'ortho', 'forward' or None"
        raise ArgumentError(name, law, norm=repr(norm))
    power = _NORMS[norm]
    power = 1 - power if back else power
    return 1.0 if power == 0 else 1 / (n if power == 1 else sqrt(n))


def _complexed(x: Tensor) -> Tensor:
    """In complex numbers: of whole numbers and 16-bit floats those of 32-bit parts."""
    if x.dtype.is_complex:
        return x
    return to_dtype(x, complex128 if x.dtype.name == "float64" else complex64)


def _realed(name: str, x: Tensor) -> Tensor:
    if x.dtype.is_complex:
        hint = "Take x.real, or use fft"
        raise DtypeError(name, "the operand is real", dtype=x.dtype, remedy=hint)
    return x if x.dtype.name == "float64" else to_dtype(x, float32)


def _many(name: str, x: Tensor, s: Sizes, dim: Sizes, norm: str | None, *, back: bool) -> Tensor:
    """Transforms along several axes, one after the other."""
    dims, sizes = _axes(name, x, s, dim)
    x, count = _complexed(x), 1
    for axis, n in zip(dims, sizes, strict=True):
        line = movedim(x, axis, -1)
        line = _cut(name, line, line.shape[-1] if n is None else n)
        count *= line.shape[-1]
        x = movedim(transform(line, 1 if back else -1), -1, axis)
    scale = _scale(name, norm, count, back=back)
    return x if scale == 1 else x * scale


def _from_real(name: str, x: Tensor, s: Sizes, dim: Sizes, norm: str | None) -> Tensor:
    dims, sizes = _axes(name, x, s, dim)
    if not dims:
        raise ArgumentError(name, "an axis is transformed", dim=dim)
    line = movedim(_realed(name, x), dims[-1], -1)
    line = _cut(name, line, line.shape[-1] if sizes[-1] is None else sizes[-1])
    y = movedim(of_real(line), -1, dims[-1])
    rest = [y.shape[d] if n is None else n for d, n in zip(dims[:-1], sizes[:-1], strict=True)]
    y = _many(name, y, rest, dims[:-1], None, back=False) if rest else y
    scale = _scale(name, norm, line.shape[-1] * prod(rest), back=False)  # of 1 or more, now
    return y if scale == 1 else y * scale


def _to_real(name: str, x: Tensor, s: Sizes, dim: Sizes, norm: str | None) -> Tensor:
    dims, sizes = _axes(name, x, s, dim)
    if not dims:
        raise ArgumentError(name, "an axis is transformed", dim=dim)
    rest = [x.shape[d] if n is None else n for d, n in zip(dims[:-1], sizes[:-1], strict=True)]
    y = _many(name, x, rest, dims[:-1], "forward", back=True) if rest else _complexed(x)
    line = movedim(y, dims[-1], -1)
    n = 2 * (line.shape[-1] - 1) if sizes[-1] is None else sizes[-1]
    if n < 1:
        raise ArgumentError(name, "a line has an element", n=n, shape=x.shape)
    found = movedim(to_real(_cut(name, line, n // 2 + 1), n), -1, dims[-1])
    scale = _scale(name, norm, n * prod(rest), back=True)
    return found if scale == 1 else found * scale


_OTHER_WAY = {None: "forward", "backward": "forward", "forward": "backward", "ortho": "ortho"}


def _other_way(name: str, norm: str | None) -> str:
    _scale(name, norm, 1, back=False)
    return _OTHER_WAY[norm]


@checked
def fft(
    input: Tensor,  # noqa: A002 - PyTorch's names, here and below
    n: int | None = None,
    dim: int = -1,
    norm: str | None = None,
) -> Tensor:
    """``y[k]``, the sum of ``x[j] exp(-2 pi i j k / n)`` along an axis.

    Args:
        input: any shape and dtype.
        n: how many elements are transformed: the first ones, or all and zeros; None: all.
        dim: the axis.
        norm: ``"backward"`` (None): as it is; ``"ortho"``: over ``sqrt(n)``; ``"forward"``: over n.

    Returns:
        complex, of the shape but for ``n`` elements along the axis.

    Raises:
        ArgumentError: if there are no elements, or no such ``norm``.

    Example:
        >>> import clnet
        >>> clnet.fft.fft(clnet.tensor([1.0, 2, 3, 4])).tolist()
        [(10+0j), (-2+2j), (-2+0j), (-2-2j)]
    """
    return _many("fft", input, n, dim, norm, back=False)


@checked
def ifft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:  # noqa: A002
    """The inverse of :func:`fft`; arguments as its, ``norm`` says what that was scaled with."""
    return _many("ifft", input, n, dim, norm, back=True)


@checked
def rfft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:  # noqa: A002
    """The first ``n // 2 + 1`` elements of :func:`fft` of real numbers; arguments as its.

    Raises:
        DtypeError: if ``input`` is complex.
    """
    return _from_real("rfft", input, n, dim, norm)


@checked
def irfft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:  # noqa: A002
    """The inverse of :func:`rfft`: n real numbers, ``2 (m - 1)`` of m elements if n is None."""
    return _to_real("irfft", input, n, dim, norm)


@checked
def hfft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:  # noqa: A002
    """:func:`fft` of the signal of which ``input`` is one half, the other its conjugates: real."""
    return _to_real("hfft", conj(input), n, dim, _other_way("hfft", norm))


@checked
def ihfft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:  # noqa: A002
    """The inverse of :func:`hfft`: half of :func:`ifft` of real numbers."""
    return conj(_from_real("ihfft", input, n, dim, _other_way("ihfft", norm)))


@checked
def fftn(input: Tensor, s: Sizes = None, dim: Sizes = None, norm: str | None = None) -> Tensor:  # noqa: A002
    """:func:`fft` along several axes.

    Args:
        input: any shape and dtype.
        s: how many elements are transformed along each axis; None: all.
        dim: the axes; None: all, or the last ones that ``s`` has sizes for.
        norm: as :func:`fft`'s, for the product of the sizes.
    """
    return _many("fftn", input, s, dim, norm, back=False)


@checked
def ifftn(input: Tensor, s: Sizes = None, dim: Sizes = None, norm: str | None = None) -> Tensor:  # noqa: A002
    """The inverse of :func:`fftn`; arguments as its."""
    return _many("ifftn", input, s, dim, norm, back=True)


@checked
def rfftn(input: Tensor, s: Sizes = None, dim: Sizes = None, norm: str | None = None) -> Tensor:  # noqa: A002
    """:func:`rfft` along the last of several axes, then :func:`fft` along the others."""
    return _from_real("rfftn", input, s, dim, norm)


@checked
def irfftn(input: Tensor, s: Sizes = None, dim: Sizes = None, norm: str | None = None) -> Tensor:  # noqa: A002
    """The inverse of :func:`rfftn`; real."""
    return _to_real("irfftn", input, s, dim, norm)


@checked
def hfftn(input: Tensor, s: Sizes = None, dim: Sizes = None, norm: str | None = None) -> Tensor:  # noqa: A002
    """:func:`hfft` along the last of several axes, :func:`fft` along the others; real."""
    return _to_real("hfftn", conj(input), s, dim, _other_way("hfftn", norm))


@checked
def ihfftn(input: Tensor, s: Sizes = None, dim: Sizes = None, norm: str | None = None) -> Tensor:  # noqa: A002
    """The inverse of :func:`hfftn`."""
    return conj(_from_real("ihfftn", input, s, dim, _other_way("ihfftn", norm)))


@checked
def fft2(
    input: Tensor,  # noqa: A002
    s: Sizes = None,
    dim: Sizes = _LAST_TWO,
    norm: str | None = None,
) -> Tensor:
    """:func:`fftn` along the last two axes, or those of ``dim``."""
    return _many("fft2", input, s, dim, norm, back=False)


@checked
def ifft2(
    input: Tensor,  # noqa: A002
    s: Sizes = None,
    dim: Sizes = _LAST_TWO,
    norm: str | None = None,
) -> Tensor:
    """:func:`ifftn` along the last two axes, or those of ``dim``."""
    return _many("ifft2", input, s, dim, norm, back=True)


@checked
def rfft2(
    input: Tensor,  # noqa: A002
    s: Sizes = None,
    dim: Sizes = _LAST_TWO,
    norm: str | None = None,
) -> Tensor:
    """:func:`rfftn` along the last two axes, or those of ``dim``."""
    return _from_real("rfft2", input, s, dim, norm)


@checked
def irfft2(
    input: Tensor,  # noqa: A002
    s: Sizes = None,
    dim: Sizes = _LAST_TWO,
    norm: str | None = None,
) -> Tensor:
    """:func:`irfftn` along the last two axes, or those of ``dim``."""
    return _to_real("irfft2", input, s, dim, norm)


@checked
def hfft2(
    input: Tensor,  # noqa: A002
    s: Sizes = None,
    dim: Sizes = _LAST_TWO,
    norm: str | None = None,
) -> Tensor:
    """:func:`hfftn` along the last two axes, or those of ``dim``."""
    return _to_real("hfft2", conj(input), s, dim, _other_way("hfft2", norm))


@checked
def ihfft2(
    input: Tensor,  # noqa: A002
    s: Sizes = None,
    dim: Sizes = _LAST_TWO,
    norm: str | None = None,
) -> Tensor:
    """:func:`ihfftn` along the last two axes, or those of ``dim``."""
    return conj(_from_real("ihfft2", input, s, dim, _other_way("ihfft2", norm)))


def _frequencies(
    name: str, first: int, last: int, n: int, d: float, settings: dict[str, Any]
) -> Tensor:
    if n < 0 or (n == 0 and last > first) or d == 0:
        raise ArgumentError(name, "n is above 0, and d not 0", n=n, d=d)
    grad = settings.pop("requires_grad")
    dtype = settings.pop("dtype") or default_float()
    whole = arange(first, last, dtype=dtype, **settings)
    return (whole * (1 / (n * d) if n else 1.0)).requires_grad_(grad)


@checked
def fftfreq(
    n: int,
    d: float = 1.0,
    *,
    dtype: DType | None = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """The frequencies of :func:`fft`'s elements: 0, 1 ... then the negative ones, over ``n d``.

    Args:
        n: elements that were transformed, 0 or more (of :func:`rfftfreq` 1 or more).
        d: from one sample to the next.
        dtype: the element type; None: the default one.
        device: as :func:`clnet.device` takes it; None: the current one.
        requires_grad: whether gradients flow to it.

    Raises:
        ArgumentError: if there are fewer, or ``d`` is 0.
    """
    settings = {"dtype": dtype, "device": device, "requires_grad": False}
    ordered = _frequencies("fftfreq", -(n // 2), n - n // 2, n, d, settings)
    return roll(ordered, -(n // 2)).requires_grad_(requires_grad)


@checked
def rfftfreq(
    n: int,
    d: float = 1.0,
    *,
    dtype: DType | None = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """The frequencies of :func:`rfft`'s elements; arguments as :func:`fftfreq`'s."""
    settings = {"dtype": dtype, "device": device, "requires_grad": requires_grad}
    return _frequencies("rfftfreq", 0, n // 2 + 1, n, d, settings)


def _shifted(name: str, x: Tensor, dim: Sizes, *, back: bool) -> Tensor:
    dims, _ = _axes(name, x, None, dim)
    if not dims:
        return x.clone()
    steps = [(x.shape[d] + 1) // 2 if back else x.shape[d] // 2 for d in dims]
    return roll(x, steps, dims)


@checked
def fftshift(input: Tensor, dim: Sizes = None) -> Tensor:  # noqa: A002
    """Frequency 0 in the middle of all axes, or of those of ``dim``."""
    return _shifted("fftshift", input, dim, back=False)


@checked
def ifftshift(input: Tensor, dim: Sizes = None) -> Tensor:  # noqa: A002
    """The inverse of :func:`fftshift`."""
    return _shifted("ifftshift", input, dim, back=True)


# Spectra of parts of a signal.


def _window(
    name: str, window: Tensor | None, n_fft: int, win_length: int | None, like: Tensor
) -> Tensor | None:
    """A window in the middle of ``n_fft`` elements; None: all ones."""
    length = n_fft if win_length is None else win_length
    if not 0 < length <= n_fft:
        raise ArgumentError(name, "win_length lies in [1, n_fft]", win_length=length, n_fft=n_fft)
    if window is not None and window.shape != (length,):
        raise ShapeError(name, "window is (win_length,)", window=window.shape, win_length=length)
    if length == n_fft:
        return window
    kind = like.dtype.real if like.dtype.is_complex else like.dtype
    shape = like.new_ones(length, dtype=kind) if window is None else window
    left = (n_fft - length) // 2
    return pad(shape, (left, n_fft - length - left))


def _lengthened(x: Tensor, count: int, mode: str) -> Tensor:
    if x.dtype.is_complex:
        return complex_of(_lengthened(x.real, count, mode), _lengthened(x.imag, count, mode))
    return pad(x.unsqueeze(1), (count, count), mode).squeeze(1)


def _hop(name: str, n_fft: int, hop_length: int | None) -> int:
    hop = n_fft // 4 if hop_length is None else hop_length
    if n_fft < 1 or hop < 1:
        raise ArgumentError(name, "n_fft and hop_length are above 0", n_fft=n_fft, hop_length=hop)
    return hop


@checked
def stft(
    input: Tensor,  # noqa: A002
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Tensor | None = None,
    center: bool = True,  # noqa: FBT001, FBT002
    pad_mode: str | None = "reflect",
    normalized: bool = False,  # noqa: FBT001, FBT002
    onesided: bool | None = None,  # noqa: FBT001
    return_complex: bool | None = None,  # noqa: FBT001
    align_to_window: bool | None = None,  # noqa: FBT001
) -> Tensor:
    """Fourier transforms of overlapping parts of a signal, each times a window.

    Args:
        input: signals, ``(t,)`` or ``(b, t)``.
        n_fft: the length of a part.
        hop_length: from one part to the next; None: ``n_fft // 4``.
        win_length: of the window, which stands in a part's middle; None: ``n_fft``.
        window: ``(win_length,)``; None: ones.
        center: parts are centred at multiples of the hop: the signal is padded at both ends.
        pad_mode: with what, as for ``pad``; nobody reads it without ``center``.
        normalized: divide by ``sqrt(n_fft)``.
        onesided: only the first ``n_fft // 2 + 1`` frequencies; None: of real signals.
        return_complex: complex numbers, else pairs along a last axis; must be given for real ones.
        align_to_window: None or False.

    Returns:
        ``(frequencies, parts)``, behind ``b``.

    Raises:
        ShapeError: if the signal is shorter than a part, or shapes do not fit.
        ArgumentError: if a setting is out of range, or ``return_complex`` is missing.
    """
    hop = _hop("stft", n_fft, hop_length)
    wide = input.dtype.is_complex or (window is not None and window.dtype.is_complex)
    if return_complex is None and not wide:
        hint = "Say return_complex=True"
        raise ArgumentError("stft", "return_complex is given for real signals", remedy=hint)
    if align_to_window:
        raise ArgumentError("stft", "align_to_window is None or False", align_to_window=True)
    if input.ndim not in (1, 2):
        raise ShapeError("stft", "the signal is (t,) or (b, t)", input=input.shape)
    shape = _window("stft", window, n_fft, win_length, input)
    x = input.reshape(1, -1) if input.ndim == 1 else input
    if center:
        x = _lengthened(x, n_fft // 2, pad_mode or "reflect")
    if x.shape[-1] < n_fft:
        raise ShapeError("stft", "the signal holds a part", input=input.shape, n_fft=n_fft)
    parts = x.unfold(-1, n_fft, hop)
    parts = parts if shape is None else parts * shape
    half = not wide if onesided is None else onesided
    if half and wide:
        raise ArgumentError("stft", "onesided goes with real signals", dtype=input.dtype)
    y = (rfft if half else fft)(parts, norm="ortho" if normalized else None).transpose(-1, -2)
    y = y if input.ndim == 2 else y.squeeze(0)
    return y if return_complex is None or return_complex else view_as_real(y.contiguous())


@checked
def istft(
    input: Tensor,  # noqa: A002
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Tensor | None = None,
    center: bool = True,  # noqa: FBT001, FBT002
    normalized: bool = False,  # noqa: FBT001, FBT002
    onesided: bool | None = None,  # noqa: FBT001
    length: int | None = None,
    return_complex: bool = False,  # noqa: FBT001, FBT002
) -> Tensor:
    """The signal of which :func:`stft` gave this, by least squares (Griffin, Lim 1984).

    Args:
        input: complex, ``(frequencies, parts)``, or with ``b`` in front.
        n_fft: as :func:`stft`'s, and so all others.
        hop_length: as there.
        win_length: as there.
        window: as there.
        center: as there.
        normalized: as there.
        onesided: None: if there are fewer than ``n_fft`` frequencies.
        length: of the signal; None: as far as the parts reach.
        return_complex: the signal is complex; of all frequencies then, and no half.

    Returns:
        ``(t,)``, or ``(b, t)``.

    Raises:
        ShapeError: if the frequencies are not those of ``n_fft``.
        ArgumentError: if the windows leave a place of the signal out.
    """
    hop = _hop("istft", n_fft, hop_length)
    half = input.shape[-2] != n_fft if onesided is None else onesided
    if not input.dtype.is_complex or input.ndim not in (2, 3):
        hint = "Take view_as_complex(x)"
        raise DtypeError("istft", "it takes complex (b, f, t)", dtype=input.dtype, remedy=hint)
    if input.shape[-2] != (n_fft // 2 + 1 if half else n_fft):
        law = "there are n_fft frequencies, or n_fft // 2 + 1"
        raise ShapeError("istft", law, input=input.shape, n_fft=n_fft)
    x = (input if input.ndim == 3 else input.unsqueeze(0)).transpose(-1, -2)
    norm = "ortho" if normalized else None
    if return_complex:
        parts = ifft(x, norm=norm)
    else:  # of all frequencies, the first half says it
        parts = irfft(narrow(x, -1, 0, n_fft // 2 + 1), n_fft, norm=norm)
    shape = _window("istft", window, n_fft, win_length, parts)
    shape = parts.new_ones(n_fft, dtype=input.dtype.real) if shape is None else shape
    batch, count, _ = parts.shape
    whole = n_fft + hop * (count - 1)
    first = arange(count, device=input.device).reshape(-1, 1) * hop
    places = (first + arange(n_fft, device=input.device)).reshape(-1)
    flat = (parts * shape).reshape(batch, -1)
    y = index_add(flat.new_zeros(batch, whole), 1, places, flat)
    square = (shape * shape).expand(count, n_fft).reshape(-1)
    weight = index_add(square.new_zeros(whole), 0, places, square)
    start = n_fft // 2 if center else 0
    end = whole - start if length is None else min(start + length, whole)
    y, weight = y[:, start:end], weight[start:end]
    if mode.current().tracer is None and bool((weight.abs() < 1e-11).any()):
        raise ArgumentError("istft", "windows reach every place of the signal", hop_length=hop)
    y = y / weight
    y = y if length is None or y.shape[-1] == length else pad(y, (0, length - y.shape[-1]))
    return y if input.ndim == 3 else y.squeeze(0)
