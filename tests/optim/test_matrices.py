"""Adafactor and Muon, which take matrices otherwise than vectors; complex parameters."""

from __future__ import annotations

import numpy as np
import pytest

import clnet
from clnet.errors import ArgumentError, DtypeError, ShapeError

pytestmark = pytest.mark.device


@pytest.mark.parametrize("shape", [(4, 3, 2), (5, 1), ()], ids=str)
def test_factors_of_any_shape_agree_with_pytorch(shape):
    torch = pytest.importorskip("torch", reason="the torch extra is not installed")
    rng = np.random.default_rng(3)
    start, *grads = (rng.standard_normal((4, *shape)) + 0.5).astype(np.float32)
    found = []
    for library in (torch, clnet):
        p = library.tensor(start, requires_grad=True)
        optimizer = library.optim.Adafactor([p], lr=0.1, weight_decay=0.01)
        for g in grads:
            p.grad = library.tensor(g)
            optimizer.step()
        state = {k: tuple(v.shape) for k, v in optimizer.state[p].items() if k != "step"}
        found.append((p.detach().numpy(), state))
    np.testing.assert_allclose(found[1][0], found[0][0], rtol=1e-5, atol=1e-6)
    assert found[0][1] == found[1][1]


MUON = [
    {"lr": 0.02},
    {"lr": 0.02, "nesterov": False, "adjust_lr_fn": "match_rms_adamw", "ns_steps": 3},
]


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("options", MUON, ids=["default", "others"])
def test_orthogonal_steps_agree_with_pytorch(options, compiled):
    """To some parts in a hundred of a step: both compute in bfloat16, with 8 bits."""
    torch = pytest.importorskip("torch", reason="the torch extra is not installed")
    found = []
    for library in (torch, clnet):
        rng = np.random.default_rng(4)
        hosts = [rng.standard_normal(s).astype(np.float32) for s in ((5, 3), (3, 7))]
        ps = [library.tensor(x, requires_grad=True) for x in hosts]
        optimizer = library.optim.Muon(ps, **options)

        def step(*grads, ps=ps, optimizer=optimizer):
            for p, grad in zip(ps, grads, strict=True):
                p.grad = grad
            optimizer.step()

        if compiled and library is clnet:
            step = clnet.compile(step)
        for turn in range(4):
            step(*[library.tensor(rng.standard_normal(x.shape).astype(np.float32)) for x in hosts])
            optimizer.param_groups[0]["lr"] *= 0.5 if turn == 1 else 1
        found.append([p.detach().numpy() - x for p, x in zip(ps, hosts, strict=True)])
    for theirs, ours in zip(*found, strict=True):
        assert np.abs(theirs).max() > 5e-3
        np.testing.assert_allclose(ours, theirs, atol=0.03 * np.abs(theirs).max())


def test_muon_makes_a_matrix_nearly_orthogonal_and_goes_on_from_its_state():
    """Without PyTorch: singular values of a step are near 1, and a state continues."""
    start = np.random.default_rng(6).standard_normal((6, 4)).astype(np.float32)
    p = clnet.tensor(start, requires_grad=True)
    optimizer = clnet.optim.Muon([p], lr=1.0, weight_decay=0.0, adjust_lr_fn="match_rms_adamw")
    p.grad = clnet.tensor(start[::-1].copy())
    optimizer.step()
    moved = (start - p.detach().numpy()) / (0.2 * 6**0.5)
    sizes = np.linalg.svd(moved, compute_uv=False)
    assert sizes.min() > 0.5
    assert sizes.max() < 1.5
    q = clnet.tensor(p.detach().numpy(), requires_grad=True)
    other = clnet.optim.Muon([q], lr=1.0, weight_decay=0.0, adjust_lr_fn="match_rms_adamw")
    other.load_state_dict(optimizer.state_dict())
    q.grad = clnet.tensor(p.grad.numpy())
    for one in (optimizer, other):
        one.step()
    np.testing.assert_array_equal(p.detach().numpy(), q.detach().numpy())


def test_muon_takes_matrices_alone():
    with pytest.raises(ShapeError, match="matrices"):
        clnet.optim.Muon([clnet.ones(3, requires_grad=True)])
    matrix = clnet.ones(2, 3, requires_grad=True)
    for options in ({"lr": -1}, {"adjust_lr_fn": "other"}, {"ns_steps": 100}):
        with pytest.raises(ArgumentError, match="Muon"):
            clnet.optim.Muon([matrix], **options)


_SETTINGS = {"SGD": {"momentum": 0.9}, "Adagrad": {"initial_accumulator_value": 0.5}}


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("name", ["SGD", "AdamW", "Rprop", "Adagrad"])
def test_the_parts_of_complex_parameters_are_parameters(name, compiled):
    torch = pytest.importorskip("torch", reason="the torch extra is not installed")
    rng = np.random.default_rng(5)
    start, *grads = rng.standard_normal((4, 3, 2)) + 1j * rng.standard_normal((4, 3, 2))
    found = []
    for library in (torch, clnet):
        p = library.tensor(start, requires_grad=True)
        options = _SETTINGS.get(name, {})
        optimizer = getattr(library.optim, name)([p], lr=0.1, **options)

        def step(g, p=p, optimizer=optimizer):
            p.grad = g
            optimizer.step()

        run = clnet.compile(step) if compiled and library is clnet else step
        for g in grads:
            run(library.tensor(g))
        found.append(p.detach().numpy())
    assert np.abs(found[0] - start).min() > 1e-2
    np.testing.assert_allclose(found[1], found[0], rtol=1e-6)


@pytest.mark.parametrize("name", ["Adafactor", "Muon", "LBFGS", "Lamb", "LARS"])
def test_where_norms_are_taken_parameters_are_real(name):
    p = clnet.tensor(np.ones((2, 2), np.complex64), requires_grad=True)
    with pytest.raises(DtypeError, match=f"{name}: parameters are real"):
        getattr(clnet.optim, name)([p])
