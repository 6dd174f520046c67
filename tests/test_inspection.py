"""Questions about tensors and dtypes: PyTorch's answers."""

from __future__ import annotations

import pytest

import clnet
from clnet.errors import DtypeError, ShapeError

pytestmark = pytest.mark.device


def test_what_a_tensor_is():
    x = clnet.zeros(2, 3)
    assert clnet.is_tensor(x)
    assert not clnet.is_tensor([0])
    assert (clnet.is_floating_point(x), x.is_floating_point(), x.long().is_floating_point()) == (
        True,
        True,
        False,
    )
    assert not clnet.is_complex(x)
    assert (clnet.numel(x), x.nelement(), x.ndimension(), x.element_size()) == (6, 6, 2, 4)
    if any(found.kind is clnet.DeviceKind.CPU for found in clnet.devices()):
        assert x.cpu().device.traits.kind is clnet.DeviceKind.CPU


def test_what_a_dtype_holds():
    limits = clnet.finfo(clnet.bfloat16)
    assert (limits.eps, limits.bits, limits.max) == (2**-7, 16, -limits.min)
    assert clnet.iinfo(clnet.int8) == (8, 127, -128)
    with pytest.raises(DtypeError, match="the dtype is floating"):
        clnet.finfo(clnet.int8)
    with pytest.raises(DtypeError, match="the dtype holds whole numbers"):
        clnet.iinfo(clnet.float32)
    assert clnet.get_default_dtype() is clnet.float32


def test_what_comes_of_two():
    assert clnet.promote_types(clnet.int64, clnet.float16) is clnet.float16
    assert clnet.result_type(clnet.zeros(2, dtype=clnet.int32), 2.5) is clnet.float32
    assert clnet.can_cast(clnet.int64, clnet.float16)
    assert not clnet.can_cast(clnet.float16, clnet.int64)
    assert clnet.broadcast_shapes((3, 1), [4]) == (3, 4)
    with pytest.raises(ShapeError, match="broadcast_shapes"):
        clnet.broadcast_shapes((3,), (4,))
    with pytest.raises(ShapeError, match=r"broadcast_shapes: sizes are 0 or more"):
        clnet.broadcast_shapes((2, -2), (1,))


def test_contexts_by_a_flag():
    x = clnet.ones(2, requires_grad=True)
    with clnet.set_grad_enabled(False):
        assert not (x * 2).requires_grad
        with clnet.set_grad_enabled(True):
            assert (x * 2).requires_grad
        with clnet.inference_mode(False):
            assert (x * 2).requires_grad
        assert not clnet.is_inference_mode_enabled()
    with clnet.inference_mode():
        assert not (x * 2).requires_grad
        assert clnet.is_inference_mode_enabled()

    @clnet.inference_mode
    def inferred():
        return (x * 2).requires_grad, clnet.is_inference_mode_enabled()

    assert inferred() == (False, True)

    @clnet.set_grad_enabled(False)
    def silent():
        return x * 2

    assert not silent().requires_grad


def test_a_number_that_is_nowhere_is_formatted_as_text():
    x = clnet.empty((), device="meta")
    assert f"{x}" == repr(x)


def test_a_number_is_formatted_as_one():
    assert f"{clnet.tensor(1.5):.2f} {clnet.tensor(3):03d}" == "1.50 003"
    assert f"{clnet.ones(2)}" == str(clnet.ones(2))
    with pytest.raises(ValueError, match="format"):
        f"{clnet.ones(2):.2f}"
