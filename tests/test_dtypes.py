"""Element types and promotion."""

from __future__ import annotations

import copy
import pickle
from itertools import product

import ml_dtypes
import numpy as np
import pytest

from clnet.errors import DtypeError
from clnet.values import dtypes
from clnet.values.dtypes import ALL, Kind, from_name, from_numpy, of_levels, of_scalar, promote


@pytest.mark.parametrize("dtype", ALL, ids=repr)
def test_names_and_numpy_dtypes_lead_back(dtype):
    assert from_name(dtype.name) is dtype
    assert from_numpy(dtype.numpy) is dtype
    assert pickle.loads(pickle.dumps(dtype)) is dtype
    assert copy.deepcopy(dtype) is dtype
    assert dtype.itemsize == dtype.numpy.itemsize
    assert repr(dtype) == f"clnet.{dtype.name}"
    assert dtype.is_floating_point == (dtype.kind is Kind.FLOATING)


def test_byte_order_does_not_matter():
    assert from_numpy(np.dtype(">f4")) is dtypes.float32


@pytest.mark.parametrize("dtype", [d for d in ALL if d.is_floating_point], ids=repr)
def test_eps_is_numpys(dtype):
    assert dtype.eps == float(ml_dtypes.finfo(dtype.numpy).eps)
    assert dtypes.int32.eps == 0


@pytest.mark.parametrize(("a", "b"), list(product(ALL, ALL)), ids=lambda d: d.name)
def test_promotion_commutes_and_keeps_the_higher_kind(a, b):
    assert promote(a, b) is promote(b, a)
    assert promote(a, b).kind == max(a.kind, b.kind)
    assert promote(a, a) is a


@pytest.mark.parametrize(
    ("a", "b", "result"),
    [
        ("uint8", "int8", "int16"),
        ("uint8", "int32", "int32"),
        ("float16", "bfloat16", "float32"),
        ("int64", "float16", "float16"),
        ("bool", "int8", "int8"),
        ("float32", "float64", "float64"),
    ],
)
def test_promotion_of_mixed_operands(a, b, result):
    assert promote(from_name(a), from_name(b)) is from_name(result)


@pytest.mark.parametrize(("a", "b"), list(product(ALL, ALL)), ids=lambda d: d.name)
def test_promotion_equals_pytorchs(a, b):
    torch = pytest.importorskip("torch", reason="the oracle is PyTorch")
    expected = torch.promote_types(getattr(torch, a.name), getattr(torch, b.name))
    assert promote(a, b).name == str(expected).removeprefix("torch.")


def test_scalars_only_raise_the_kind():
    assert of_scalar(value=True) is dtypes.bool_
    assert of_scalar(3) is dtypes.int64
    assert of_scalar(3.0) is dtypes.float32
    assert of_scalar(np.int8(3)) is dtypes.int64
    assert of_scalar(np.float16(3)) is dtypes.float32
    assert of_levels(dtypes.int8, of_scalar(3)) is dtypes.int8
    assert of_levels(dtypes.int8, of_scalar(3.0)) is dtypes.float32
    assert of_levels(dtypes.float16, of_scalar(3.0)) is dtypes.float16
    assert of_levels(dtypes.bool_, of_scalar(3)) is dtypes.int64
    assert of_levels(dtypes.int8, of_scalar(1j)) is dtypes.complex64
    assert of_levels(dtypes.float64, of_scalar(1j)) is dtypes.complex128
    assert of_levels(dtypes.complex64, of_scalar(3.0)) is dtypes.complex64


def test_what_has_no_dtype_is_refused():
    with pytest.raises(
        DtypeError, match=r"^dtype: has no such name; got name='float8'. Use one of bool, uint8"
    ):
        from_name("float8")
    with pytest.raises(
        DtypeError, match=r"^dtype: NumPy's dtype has no counterpart; got dtype=uint16. convert"
    ):
        from_numpy(np.dtype(np.uint16))
    with pytest.raises(DtypeError, match=r"^dtype: a scalar is a bool or a number; got type=str$"):
        of_scalar("3")
