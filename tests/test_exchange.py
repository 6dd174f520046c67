"""Memory given to other libraries and taken from them: DLPack, buffers, pickles."""

from __future__ import annotations

import gc
import pickle

import numpy as np
import pytest

import clnet
from clnet.errors import ArgumentError, ExchangeError
from clnet.utils import dlpack
from tests.answers import torch

pytestmark = pytest.mark.device

DTYPES = ("bool", "uint8", "int8", "int16", "int32", "int64", "float32", "float64", "complex64")


@pytest.mark.parametrize("name", DTYPES)
def test_both_ways_with_numpy(name):
    host = np.arange(6).reshape(2, 3).astype(name)
    x = clnet.from_dlpack(host)
    assert (x.shape, x.dtype.name) == ((2, 3), name)
    np.testing.assert_array_equal(np.from_dlpack(x), host)
    np.testing.assert_array_equal(np.from_dlpack(x.T), host.T)


def test_memory_of_a_cpu_device_is_given_away_without_a_copy():
    x = clnet.arange(6.0)
    view = np.from_dlpack(x)
    assert not view.flags.writeable
    copied = np.from_dlpack(x, copy=True)
    x.add_(1)
    clnet.synchronize()
    if x.device.type == "cpu":
        assert view.tolist() == [1, 2, 3, 4, 5, 6]
        assert np.from_dlpack(x, copy=False).tolist() == view.tolist()
    assert copied.tolist() == [0, 1, 2, 3, 4, 5]


def test_what_was_given_away_outlives_its_tensor():
    view = np.from_dlpack(clnet.arange(1000.0))
    gc.collect()
    others = [clnet.zeros(1000) for _ in range(8)]  # would take the memory, had it come back
    clnet.synchronize()
    assert view.tolist() == np.arange(1000.0).tolist()
    assert len(others) == 8


def test_both_ways_with_pytorch():
    x = clnet.arange(6.0).reshape(2, 3)
    theirs = torch.from_dlpack(x)
    assert theirs.tolist() == x.tolist()
    assert clnet.from_dlpack(theirs * 2).tolist() == (x * 2).tolist()
    assert clnet.from_dlpack(theirs.bfloat16()).dtype is clnet.bfloat16
    assert torch.utils.dlpack.from_dlpack(dlpack.to_dlpack(x)).tolist() == x.tolist()


def test_tensors_of_clnet_are_shared():
    x = clnet.ones(2)
    shared, copied = clnet.from_dlpack(x), clnet.from_dlpack(x, copy=True)
    x.zero_()
    assert (shared.tolist(), copied.tolist()) == ([0, 0], [1, 1])
    assert clnet.from_dlpack(x, copy=False).tolist() == [0, 0]


def test_what_cannot_be_exchanged_is_refused():
    x = clnet.ones(2)
    with pytest.raises(ExchangeError, match=r"off the tape.*Use x.detach"):
        np.from_dlpack(clnet.ones(2, requires_grad=True))
    with pytest.raises(BufferError, match="memory of other libraries is copied"):
        clnet.from_dlpack(np.ones(2), copy=False)
    with pytest.raises(ExchangeError, match="an object with __dlpack__"):
        clnet.from_dlpack(3)
    with pytest.raises(ExchangeError, match="DLPack has such numbers"):
        np.from_dlpack(x.bfloat16())
    with pytest.raises(ExchangeError, match="given away in host memory"):
        x.__dlpack__(dl_device=(2, 0))
    with pytest.raises(ExchangeError, match="an order of their own"):
        x.to_device("cpu", stream=1)


def test_an_old_capsule_is_the_memory_itself_where_no_copy_is_allowed():
    """Of strided views, too; what the other library writes is there."""
    torch = pytest.importorskip("torch")
    x = clnet.arange(12.0).reshape(3, 4)[1:, ::2].detach()
    theirs = torch.utils.dlpack.from_dlpack(x.__dlpack__(copy=False))
    assert theirs.tolist() == x.tolist()
    theirs[1, 1] = 99
    assert x[1, 1].item() == 99
    assert torch.utils.dlpack.from_dlpack(clnet.zeros(0, 2).__dlpack__(copy=False)).shape == (0, 2)


def test_devices_and_buffers():
    x = clnet.arange(6.0).reshape(2, 3)
    assert x.__dlpack_device__() == (1, 0)
    # NumPy asks for a buffer first, and forgets why it got none: an index out of range was lost.
    assert not hasattr(x, "__buffer__")
    assert x.to_device(x.device) is x
    assert clnet.asarray(memoryview(np.ones((2, 2)))).tolist() == [[1, 1], [1, 1]]


def test_pickles_are_opened_on_the_current_device():
    x = clnet.arange(3.0, requires_grad=True)
    text = pickle.dumps(x)
    with clnet.device(str(x.device)):
        opened = pickle.loads(text)
    assert (opened.tolist(), opened.requires_grad) == ([0, 1, 2], True)
    with pytest.raises(ArgumentError):
        clnet.device("no such device")


def test_numpys_functions_of_a_tensor_give_a_tensor():
    x = clnet.tensor([4.0, 9.0])
    for found in (np.sqrt(x), np.add(x, -2.0) ** 0.5 * 0 + np.sqrt(x)):
        assert isinstance(found, clnet.Tensor)
        assert found.tolist() == [2, 3]
        assert found.dtype is clnet.float32
        assert found.device is x.device
    assert np.isnan(x).dtype is clnet.uint8  # as PyTorch's
    assert np.log(clnet.tensor(1.0)).shape == ()
    assert type(np.sqrt(x.requires_grad_())) is np.ndarray  # it is no part of the tape
    assert np.asarray(x).tolist() == [4, 9]
