"""The dtype of floats for which none is given, chosen as in PyTorch."""

from __future__ import annotations

import numpy as np
import pytest

import clnet
from clnet.errors import ArgumentError, DtypeError

pytestmark = pytest.mark.device


@pytest.fixture(autouse=True)
def float32_again():
    yield
    clnet.set_default_dtype(clnet.float32)


MADE = {
    "tensor": lambda m: m.tensor([1.5, 2]),
    "number": lambda m: m.tensor(0.1),
    "complex": lambda m: m.tensor([1j]),
    "array": lambda m: m.tensor(np.ones(2, np.float32)),
    "whole": lambda m: m.tensor([1, 2]),
    "zeros": lambda m: m.zeros(2, 3),
    "ones": lambda m: m.ones(2),
    "empty": lambda m: m.empty(2),
    "full": lambda m: m.full((2,), 0.5),
    "rand": lambda m: m.rand(2),
    "randn": lambda m: m.randn(2),
    "arange": lambda m: m.arange(0, 1, 0.25),
    "linspace": lambda m: m.linspace(0, 1, 5),
    "eye": lambda m: m.eye(2),
    "window": lambda m: m.hann_window(4),
    "frequencies": lambda m: m.fft.fftfreq(4),
    "Tensor": lambda m: m.Tensor([1.0, 2.0]),
    "sizes": lambda m: m.Tensor(2, 2),
    "quotient": lambda m: m.tensor([1, 2]) / 3,
    "product": lambda m: m.tensor([1, 2]) * 0.5,
    "exponential": lambda m: m.tensor([1, 2]).exp(),
    "beside float32": lambda m: m.ones(2, dtype=m.float32) * 0.5,
    "beside complex": lambda m: m.tensor([1, 2]) * 1j,
    "linear": lambda m: m.nn.Linear(2, 3)(m.ones(4, 2)),
    "convolution": lambda m: m.nn.Conv2d(1, 2, 3)(m.ones(1, 1, 4, 4)),
    "norm": lambda m: m.nn.BatchNorm1d(3)(m.ones(4, 3)),
    "recurrent": lambda m: m.nn.LSTM(2, 3)(m.ones(4, 1, 2))[0],
    "attention": lambda m: m.nn.TransformerEncoderLayer(4, 2, 8)(m.ones(3, 1, 4)),
    "embedding": lambda m: m.nn.Embedding(3, 2)(m.tensor([0, 2])),
    "lazy": lambda m: m.nn.LazyLinear(2)(m.ones(3, 4)),
    "slopes": lambda m: m.nn.PReLU().weight,
    "mask": lambda m: m.nn.Transformer.generate_square_subsequent_mask(3),
    "distribution": lambda m: m.distributions.Normal(0.0, 1.0).log_prob(m.tensor(0.5)),
}
NOT_FLOAT64 = {
    "array": clnet.float32,
    "whole": clnet.int64,
    "beside float32": clnet.float32,
    "complex": clnet.complex128,
    "beside complex": clnet.complex128,
}


def test_all_that_is_made_has_it():
    clnet.set_default_dtype(clnet.float64)
    assert clnet.get_default_dtype() is clnet.float64
    found = {name: make(clnet).dtype for name, make in MADE.items()}
    assert found == {name: NOT_FLOAT64.get(name, clnet.float64) for name in MADE}
    assert clnet.tensor(0.1).item() == 0.1
    assert (clnet.tensor([1, 2]) / 3).tolist() == [1 / 3, 2 / 3]
    assert "dtype" not in repr(clnet.ones(2))
    assert "float32" in repr(clnet.ones(2, dtype=clnet.float32))
    clnet.set_default_dtype(clnet.float32)
    assert (clnet.tensor([1, 2]) / 3).dtype is clnet.float32


def test_what_is_made_is_pytorchs():
    torch = pytest.importorskip("torch")
    for name in ("float64", "bfloat16"):
        given = {n: m for n, m in MADE.items() if name == "float64" or n in ("zeros", "quotient")}
        clnet.set_default_dtype(getattr(clnet, name))
        torch.set_default_dtype(getattr(torch, name))
        try:
            wanted = {n: str(make(torch).dtype).split(".")[-1] for n, make in given.items()}
        finally:
            torch.set_default_dtype(torch.float32)
        assert {n: make(clnet).dtype.name for n, make in given.items()} == wanted


def test_a_step_in_float64():
    """Weights, gradients and an optimiser's step; a plan is of the default it was made under."""
    step = clnet.compile(lambda x: clnet.ones(3) * x)
    x = clnet.tensor([1, 2, 3])
    assert step(x).dtype is clnet.float32
    clnet.set_default_tensor_type("torch.DoubleTensor")
    assert step(x).dtype is clnet.float64
    model = clnet.nn.Sequential(clnet.nn.Linear(2, 4), clnet.nn.Tanh(), clnet.nn.Linear(4, 1))
    optimizer = clnet.optim.Adam(model.parameters(), lr=0.1)
    before = model[0].weight.detach().clone()
    loss = (model(clnet.randn(5, 2)) ** 2).mean()
    loss.backward()
    optimizer.step()
    assert loss.dtype is model[0].weight.grad.dtype is clnet.float64
    assert not clnet.equal(before, model[0].weight)
    clnet.set_default_tensor_type(clnet.FloatTensor)
    assert clnet.ones(1).dtype is clnet.float32


def test_other_dtypes_are_refused():
    with pytest.raises(DtypeError, match=r"^set_default_dtype: the dtype is floating"):
        clnet.set_default_dtype(clnet.int32)
    with pytest.raises(ArgumentError, match=r"^set_default_tensor_type: it is one of"):
        clnet.set_default_tensor_type(clnet.LongTensor)
    assert clnet.ones(1).dtype is clnet.float32
