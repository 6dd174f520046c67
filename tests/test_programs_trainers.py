"""What trainers and loaders of weights asked for that was missing, beside PyTorch's answers."""

from __future__ import annotations

import ctypes
import enum
import io
from typing import ClassVar

import numpy as np
import pytest

import clnet
from clnet import nn
from clnet.errors import ArgumentError, CheckpointError, ShapeError
from clnet.face.storage import UntypedStorage
from tests.answers import torch


class _Schedule(enum.Enum):
    LINEAR = "linear"
    COSINE = "cosine"


class _Level(str, enum.Enum):
    HIGH = "high"


class _Flags(enum.Flag):
    A = 1
    B = 2


def _again(value, **given):
    file = io.BytesIO()
    clnet.save(value, file)
    file.seek(0)
    return clnet.load(file, **given)


def test_members_of_enumerations_are_stored():
    got = _again(
        {"a": _Schedule.COSINE, "b": [_Level.HIGH], "c": clnet.ones(2)}, weights_only=False
    )
    assert got["a"] is _Schedule.COSINE
    assert got["b"][0] is _Level.HIGH
    with pytest.raises(CheckpointError, match="weights_only"):
        _again(_Schedule.LINEAR, weights_only=True)
    with pytest.raises(CheckpointError, match="cannot be stored"):
        clnet.save(_Flags.A | _Flags.B, io.BytesIO())


def test_a_member_that_is_no_more(monkeypatch):
    file = io.BytesIO()
    clnet.save(_Schedule.COSINE, file)
    file.seek(0)
    kept = enum.Enum("_Schedule", {"LINEAR": "linear"}, module=__name__)
    monkeypatch.setitem(globals(), "_Schedule", kept)
    with pytest.raises(CheckpointError, match="has the member"):
        clnet.load(file, weights_only=False)


def test_a_files_bytes_are_a_storage(tmp_path):
    file = tmp_path / "bytes"
    values = np.arange(6, dtype=np.float32)
    file.write_bytes(b"head" + values.tobytes())
    found = UntypedStorage.from_file(file, shared=False, nbytes=28)
    x = clnet.asarray(found.untyped()[slice(4, 28, 1)], dtype=clnet.uint8).view(clnet.float32)
    assert x.reshape(2, 3).tolist() == values.reshape(2, 3).tolist()
    assert len(found) == 28
    assert len(UntypedStorage.from_file(file)) == 0
    with pytest.raises(ArgumentError, match="as many bytes"):
        UntypedStorage.from_file(file, nbytes=29)
    with pytest.raises(ArgumentError, match="read, not written"):
        UntypedStorage.from_file(file, shared=True, nbytes=4)


def test_bytes_of_a_storage():
    values = np.arange(12.0, dtype=np.float32).reshape(2, 6)
    ours, theirs = clnet.tensor(values)[1].untyped_storage(), torch.tensor(values)[1]
    theirs = theirs.untyped_storage()
    assert bytes(ours[4:12]) == bytes(theirs[4:12].tolist())
    assert ours[6] == theirs[6] == 128


@pytest.mark.parametrize("dtype", [clnet.float32, clnet.bfloat16, clnet.int8])
def test_what_a_pointer_points_at(dtype):
    x = (clnet.arange(40) * 3).to(dtype)
    if x.array.place() is None:
        pytest.skip("the device's memory is not the host's")
    part = x[8:20]
    part.add_(1)
    nbytes = part.numel() * part.element_size()
    assert (
        ctypes.string_at(part.data_ptr(), nbytes)
        == part.clone().view(clnet.uint8).numpy().tobytes()
    )
    assert part.untyped_storage().data_ptr() == x.data_ptr()
    assert part.data_ptr() == x.data_ptr() + 8 * part.element_size()
    assert clnet.ones(0).data_ptr() == torch.ones(0).data_ptr() == 0


def test_names_of_one_parameter():
    x = np.arange(12.0).reshape(2, 6)
    for given in ({"indices": (-1,), "dim": 1}, {"sections": 3, "dim": 1}):
        ours = clnet.tensor_split(clnet.tensor(x), **given)
        theirs = torch.tensor_split(torch.tensor(x), **given)
        assert [a.tolist() for a in ours] == [a.tolist() for a in theirs]


@pytest.mark.parametrize("mode", ["nearest", "bilinear", "bicubic"])
def test_images_of_bytes_in_another_size(mode):
    x = np.random.default_rng(3).integers(0, 256, (1, 2, 7, 9)).astype(np.uint8)
    ours = nn.functional.interpolate(clnet.tensor(x), size=(10, 5), mode=mode)
    theirs = torch.nn.functional.interpolate(torch.tensor(x), size=(10, 5), mode=mode)
    assert ours.dtype is clnet.uint8
    wide = ours.numpy().astype(int) - theirs.numpy().astype(int)
    assert np.abs(wide).max() <= (0 if mode == "nearest" else 1)


def test_names_that_loaders_ask_modules_for():
    m = nn.BatchNorm1d(2)
    m.register_buffer("place", clnet.ones(1), persistent=False)
    assert m._non_persistent_buffers_set == {"place"}
    assert nn.module._EXTRA_STATE_KEY_SUFFIX == torch.nn.modules.module._EXTRA_STATE_KEY_SUFFIX
    attention = nn.MultiheadAttention(4, 2)
    with clnet.no_grad():
        attention.in_proj_bias.fill_(1)
    attention._reset_parameters()
    assert attention.in_proj_bias.tolist() == [0.0] * 12
    clnet._dynamo.mark_static_address(m.weight)
    assert clnet._dynamo.utils.is_compile_supported("cpu")


def _sets(side):
    c = side.distributions.constraints
    return {
        "cat": c.cat([c.positive, c.real, c.less_than(1.0)], dim=-1, lengths=[1, 2, 1]),
        "stack": c.stack([c.positive, c.real, c.less_than(1.0), c.positive], dim=-1),
        "mixture": c.MixtureSameFamilyConstraint(c.positive),
        "vectors": c.MixtureSameFamilyConstraint(c.simplex),
    }


@pytest.mark.parametrize("name", ["cat", "stack", "mixture", "vectors"])
def test_constraints_made_of_others(name):
    ours, theirs = _sets(clnet)[name], _sets(torch)[name]
    x = np.random.default_rng(3).standard_normal((2, 5, 4))
    x[0] = np.abs(x[0]) / np.abs(x[0]).sum(-1, keepdims=True)
    assert (ours.event_dim, ours.is_discrete) == (theirs.event_dim, theirs.is_discrete)
    assert ours.check(clnet.tensor(x)).tolist() == theirs.check(torch.tensor(x)).tolist()


@pytest.mark.parametrize("name", ["cat", "stack"])
def test_transforms_into_constraints_made_of_others(name):
    x = np.random.default_rng(4).standard_normal((3, 4))
    ours = clnet.distributions.biject_to(_sets(clnet)[name])(clnet.tensor(x))
    theirs = torch.distributions.biject_to(_sets(torch)[name])(torch.tensor(x))
    np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=1e-12)


def test_constraints_that_depend_on_parameters():
    c = clnet.distributions.constraints

    class _Own:
        @c.dependent_property(is_discrete=True, event_dim=1)
        def support(self):
            return c.interval(0, self.high)

        @c.dependent_property
        def plain(self):
            return c.real

        high = 3

    assert repr(_Own().support) == "Interval(lower_bound=0, upper_bound=3)"
    assert _Own().plain is c.real
    assert (_Own.support.is_discrete, _Own.support.event_dim) == (True, 1)
    assert [*map(c.is_dependent, (_Own.support, c.dependent, c.real))] == [True, True, False]
    assert c.dependent(event_dim=2).event_dim == 2


def test_correlations_from_any_numbers():
    x = np.random.default_rng(5).standard_normal((2, 6))
    found = []
    for side in (clnet, torch):
        transform = side.distributions.transform_to(side.distributions.constraints.corr_cholesky)
        given = side.tensor(x, requires_grad=True)
        y = transform(given)
        slope = transform.log_abs_det_jacobian(given, y)
        (y.sum() + slope.sum()).backward()
        parts = (y, slope, transform.inv(y), given.grad)
        found.append([v.detach().numpy() for v in parts])
        shapes = transform.forward_shape((2, 6)), transform.inverse_shape((2, 4, 4))
        assert [tuple(s) for s in shapes] == [(2, 4, 4), (2, 6)]
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-10, atol=1e-12)
    transform = clnet.distributions.transforms.CorrCholeskyTransform()
    with pytest.raises(ShapeError, match="below a diagonal"):
        transform.forward_shape((5,))
    with pytest.raises(ShapeError, match="square"):
        transform.inverse_shape((5, 4))


def _exponential(side):
    class _Exponential(side.distributions.ExponentialFamily):
        arg_constraints: ClassVar = {}
        _mean_carrier_measure = 0

        def __init__(self, rate):
            self.rate = rate
            super().__init__(rate.shape)

        @property
        def _natural_params(self):
            return (-self.rate,)

        def _log_normalizer(self, x):
            return -side.log(-x)

    return _Exponential


def test_entropies_of_a_programs_own_family():
    rates = np.array([0.5, 1.0, 3.0])
    ours = _exponential(clnet)(clnet.tensor(rates)).entropy()
    theirs = _exponential(torch)(torch.tensor(rates)).entropy()
    np.testing.assert_allclose(ours.detach().numpy(), theirs.detach().numpy(), rtol=1e-12)
    np.testing.assert_allclose(ours.detach().numpy(), 1 - np.log(rates), rtol=1e-12)


def test_a_function_that_is_compiled_knows_it():
    """Libraries leave out what reads values then, such as whether a mask hides anything."""

    def forward(x, mask):
        if not clnet.compiler.is_compiling() and bool(mask.all()):
            return x * 2
        return clnet.where(mask, x * 2, 0.0)

    compiled = clnet.compile(forward)
    x, mask = clnet.tensor([1.0, 2.0, 3.0]), clnet.tensor([True, True, True])
    assert not clnet.compiler.is_compiling()
    for _ in range(3):
        assert compiled(x, mask).tolist() == [2, 4, 6]
    assert compiled(x, ~mask).tolist() == [0, 0, 0]
    assert "plan on" in str(compiled.explain())
    assert not clnet.compiler.is_compiling()
    assert not clnet.compiler.is_exporting()
