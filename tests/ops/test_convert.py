"""Conversions by short names."""

from __future__ import annotations

import numpy as np
import pytest

import clnet

pytestmark = pytest.mark.device

DTYPES = {
    "float": "float32",
    "double": "float64",
    "half": "float16",
    "bfloat16": "bfloat16",
    "char": "int8",
    "short": "int16",
    "int": "int32",
    "long": "int64",
    "byte": "uint8",
    "bool": "bool",
}
OTHERWISE_TESTED = {
    **dict.fromkeys(DTYPES, "test_a_short_name_converts"),
    "type_as": "test_type_as_takes_the_others_dtype",
}


@pytest.mark.parametrize("name", DTYPES)
def test_a_short_name_converts(name, device):
    if name == "double" and not device.traits.float64:
        pytest.skip("the device has no double precision")
    y = getattr(clnet.tensor([0.0, 1.0, 2.75]), name)()
    assert y.dtype.name == DTYPES[name]
    expected = {"bool": [0, 1, 1]}.get(name, [0, 1, 2.75 if y.dtype.is_floating_point else 2])
    np.testing.assert_array_equal(y.numpy().astype(np.float64), expected)
    assert getattr(y, name)() is y


def test_gradients_flow_through_floating_types():
    x = clnet.tensor([1.0, 2.0], requires_grad=True)
    (x.half() * 3).float().sum().backward()
    assert x.grad.tolist() == [3.0, 3.0]


def test_type_as_takes_the_others_dtype():
    assert clnet.tensor([1.5]).type_as(clnet.tensor([1])).tolist() == [1]
