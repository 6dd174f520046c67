"""``clnet.fft`` against NumPy, at lengths of each kind, and gradients against differences."""

from __future__ import annotations

import numpy as np
import pytest

import clnet
from clnet.autograd import gradcheck, gradgradcheck
from clnet.errors import ArgumentError, DtypeError, ShapeError
from clnet.ops import fourier
from tests.answers import torch
from tests.ops.test_complex_parts import numbers

pytestmark = pytest.mark.device

Z = numbers(3, 12)
# One element, each radix, a prime, a length of two transforms.
LENGTHS = (1, 2, 12, 35, 13, 5000)


def close(found, expected, scale=1.0):
    expected = np.asarray(expected)
    host = found.detach().numpy()
    assert host.shape == expected.shape
    assert host.dtype.kind == expected.dtype.kind
    atol = 2e-6 * max(scale, float(np.abs(expected).max(initial=0)))
    np.testing.assert_allclose(host, expected, rtol=0, atol=atol)


@pytest.mark.parametrize("n", LENGTHS)
def test_lengths(n):
    z = numbers(2, n)
    close(clnet.fft.fft(clnet.tensor(z)), np.fft.fft(z))
    close(clnet.fft.ifft(clnet.tensor(z)), np.fft.ifft(z))
    close(clnet.fft.rfft(clnet.tensor(z.real)), np.fft.rfft(z.real))
    half = z[:, : n // 2 + 1]
    close(clnet.fft.irfft(clnet.tensor(half), n), np.fft.irfft(half, n))


@pytest.mark.parametrize("n", [12, 13])
def test_doubles(n, device):
    if not device.traits.float64:
        pytest.skip("the device has no doubles")
    z = numbers(2, n, dtype=np.complex128)
    found = clnet.fft.fft(clnet.tensor(z)).numpy()
    np.testing.assert_allclose(found, np.fft.fft(z), rtol=0, atol=1e-13)
    assert clnet.fft.rfft(clnet.tensor(z.real)).dtype is clnet.complex128
    assert clnet.fft.irfft(clnet.tensor(z)).dtype is clnet.float64


@pytest.mark.parametrize("norm", [None, "backward", "ortho", "forward"])
@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"])
def test_norms_sizes_and_axes(name, norm):
    z = Z.real if name in ("rfft", "ihfft") else Z
    function, reference = getattr(clnet.fft, name), getattr(np.fft, name)
    close(function(clnet.tensor(z), norm=norm), reference(z, norm=norm))
    close(function(clnet.tensor(z), 7, 1, norm), reference(z, 7, 1, norm))
    close(function(clnet.tensor(z), n=4, dim=0, norm=norm), reference(z, 4, 0, norm))


@pytest.mark.parametrize("name", ["fftn", "ifftn", "rfftn", "irfftn"])
def test_several_axes(name):
    z = numbers(3, 4, 5)
    z = z.real if name == "rfftn" else z
    function, reference = getattr(clnet.fft, name), getattr(np.fft, name)
    x = clnet.tensor(z)
    close(function(x), reference(z, axes=(0, 1, 2)))
    close(function(x, (2, 6), norm="ortho"), reference(z, (2, 6), (1, 2), "ortho"))
    close(function(x, dim=(2, 0)), reference(z, axes=(2, 0)))
    two = getattr(clnet.fft, name[:-1] + "2")
    close(two(x, s=(-1, 6)), reference(z, (4, 6), (1, 2)))


def test_hermitian_transforms_of_several_axes():
    x = clnet.tensor(numbers(3, 4, 5).real)
    for names in (("hfftn", "ihfftn"), ("hfft2", "ihfft2")):
        hfft, ihfft = (getattr(clnet.fft, name) for name in names)
        dims = None if names[0] == "hfftn" else (-2, -1)
        half = ihfft(x)
        axes = (0, 1, 2) if dims is None else dims
        close(half, np.fft.ifftn(x.numpy(), axes=axes)[..., :3])
        close(hfft(half, x.shape if dims is None else x.shape[1:]), x.numpy())


def test_frequencies_and_shifts():
    for n in (5, 6):
        close(clnet.fft.fftfreq(n, 0.5), np.fft.fftfreq(n, 0.5).astype(np.float32))
        close(clnet.fft.rfftfreq(n), np.fft.rfftfreq(n).astype(np.float32))
    for z in (numbers(4, 5), numbers(3)):
        x = clnet.tensor(z)
        np.testing.assert_array_equal(clnet.fft.fftshift(x).numpy(), np.fft.fftshift(z))
        np.testing.assert_array_equal(clnet.fft.ifftshift(x, 0).numpy(), np.fft.ifftshift(z, 0))


@pytest.mark.parametrize("n", [12, 13])
def test_gradients(n, device):
    if not device.traits.float64:
        pytest.skip("gradients are checked in float64")
    z = clnet.tensor(numbers(1, n), requires_grad=True)
    x = clnet.tensor(numbers(1, n).real, requires_grad=True)
    assert gradcheck(clnet.fft.fft, [z], samples=6)
    assert gradcheck(clnet.fft.rfft, [x], samples=6)
    assert gradcheck(lambda z: clnet.fft.irfft(z, n), [z], samples=26)
    assert gradcheck(lambda z: clnet.fft.hfft(z, n - 1), [z], samples=26)
    if n == 12:
        assert gradgradcheck(lambda x: clnet.fft.rfft(x).abs(), [x], samples=4)


def test_what_is_longer_than_a_line(monkeypatch, device):
    monkeypatch.setattr(fourier, "longest_line", lambda target, itemsize: 12)
    z = numbers(2, 120)
    x = clnet.tensor(z)
    close(clnet.fft.fft(x), np.fft.fft(z))
    close(clnet.fft.irfft(x, 120), np.fft.irfft(z, 120))
    close(clnet.fft.rfft(x.real), np.fft.rfft(z.real))


def test_compiled():
    x = clnet.tensor(Z)
    function = clnet.compile(lambda x: clnet.fft.irfft(clnet.fft.fft(x, 13) * 2j))
    for _ in range(2):
        close(function(x), np.fft.irfft(np.fft.fft(Z, 13) * 2j))


def test_whole_numbers_and_no_lines():
    close(clnet.fft.fft(clnet.arange(4)), np.fft.fft(np.arange(4)))
    close(clnet.fft.rfft(clnet.ones(4).half()), np.fft.rfft(np.ones(4)))
    assert clnet.fft.fft(clnet.zeros(0, 4)).shape == (0, 4)


def test_errors():
    x = clnet.tensor(Z)
    with pytest.raises(DtypeError, match=r"^rfft: the operand is real; got dtype=.*complex64"):
        clnet.fft.rfft(x)
    with pytest.raises(ArgumentError, match=r"^fft: a line has an element; got n=0"):
        clnet.fft.fft(x, 0)
    with pytest.raises(ArgumentError, match=r"^irfft: a line has an element; got n=0"):
        clnet.fft.irfft(x[:, :1])
    with pytest.raises(ArgumentError, match=r"^fft: norm is 'backward', 'ortho', 'forward'"):
        clnet.fft.fft(x, norm="both")
    with pytest.raises(ArgumentError, match=r"^fftn: there is a size for each axis, named once"):
        clnet.fft.fftn(x, (2, 2), (1,))
    with pytest.raises(ArgumentError, match=r"^fftfreq: n is above 0"):
        clnet.fft.fftfreq(-1)
    assert clnet.fft.fftfreq(0).tolist() == []
    with pytest.raises(ArgumentError, match=r"^rfftfreq: n is above 0"):
        clnet.fft.rfftfreq(4, 0.0)


SIGNAL = np.random.default_rng(8).standard_normal((2, 50)).astype(np.float32)
WINDOW = (np.hanning(10) + 0.1).astype(np.float32)
PARTS = [
    {"n_fft": 16},
    {"n_fft": 15, "hop_length": 5, "win_length": 10, "window": WINDOW, "onesided": False},
    {"n_fft": 16, "imag": True},
    {"n_fft": 16, "center": False, "normalized": True, "window": np.hanning(18)[1:-1]},
]


def spoken(library, settings):
    return {k: library.tensor(v) if k == "window" else v for k, v in settings.items()}


@pytest.mark.filterwarnings("ignore:.*window was not provided|.*shorter than the length")
@pytest.mark.parametrize("settings", PARTS)
def test_spectra_of_parts(settings):
    settings = dict(settings)
    signal = SIGNAL * (1 + 0.5j) if settings.pop("imag", False) else SIGNAL
    signal = signal.astype(np.result_type(signal.real.dtype, signal.dtype))
    x, other = clnet.tensor(signal), torch.tensor(signal)
    mine, theirs = spoken(clnet, settings), spoken(torch, settings)
    found = clnet.stft(x, return_complex=True, **mine)
    expected = torch.stft(other, return_complex=True, **theirs)
    close(found, expected.numpy())
    assert clnet.equal(x[0].stft(return_complex=False, **mine)[..., 1], found[0].imag)
    if "hop_length" in settings:  # the window leaves ends out
        with pytest.raises(ArgumentError, match="windows reach every place"):
            clnet.istft(found, **{**mine, "hop_length": 11})
        return
    for length in (None, 40, 60):
        back = torch.istft(expected, length=length, **theirs).numpy()
        close(clnet.istft(found, length=length, **mine), back, scale=4)


def test_gradients_of_spectra_of_parts():
    x = clnet.tensor(SIGNAL[0, :20].astype(np.float64), requires_grad=True)

    def there_and_back(x):
        spectrum = clnet.stft(x, 8, hop_length=2, return_complex=True)
        return clnet.istft(spectrum * spectrum.abs(), 8, hop_length=2)

    assert gradcheck(there_and_back, (x,))


def test_spectra_of_parts_refuse():
    x = clnet.tensor(SIGNAL)
    with pytest.raises(ArgumentError, match="return_complex is given for real signals"):
        clnet.stft(x, 16)
    with pytest.raises(ArgumentError, match="onesided goes with real signals"):
        clnet.stft(clnet.complex(x, x), 16, onesided=True)
    with pytest.raises(ShapeError, match="the signal holds a part"):
        clnet.stft(x, 64, center=False, return_complex=True)
    with pytest.raises(ShapeError, match=r"window is \(win_length,\)"):
        clnet.stft(x, 16, window=clnet.ones(4), return_complex=True)
    with pytest.raises(ArgumentError, match="win_length lies in"):
        clnet.stft(x, 16, win_length=17, return_complex=True)
    with pytest.raises(DtypeError, match="it takes complex"):
        clnet.istft(x, 16)
    with pytest.raises(ShapeError, match="there are n_fft frequencies"):
        clnet.istft(clnet.complex(x, x), 16)
