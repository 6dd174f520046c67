"""Names that programs of others call and that lie beside the usual ones, by PyTorch's meaning."""

from __future__ import annotations

import functools
import importlib
import subprocess
import sys
import warnings

import numpy as np
import pytest

import clnet
from clnet import nn
from clnet.errors import ArgumentError, DtypeError, ShapeError
from clnet.nn import functional as F
from clnet.nn import parallel

pytestmark = pytest.mark.device


def drawn(*shape):
    return clnet.tensor(np.random.default_rng(0).standard_normal(shape, np.float32))


def test_gradients_of_softmaxes_are_those_of_the_tape():
    g = drawn(3, 5) * 2
    for function, inner in (
        (F.softmax, clnet._softmax_backward_data),
        (F.log_softmax, clnet._log_softmax_backward_data),
    ):
        x = drawn(3, 5).requires_grad_()
        y = function(x, 1)
        y.backward(g)
        found = inner(grad_output=g, output=y.detach(), dim=1, input_dtype=clnet.float64)
        assert found.dtype is clnet.float64
        np.testing.assert_allclose(found.numpy(), x.grad.numpy(), rtol=1e-4, atol=1e-6)


def test_products_of_bytes_and_samples():
    x, y = (clnet.randint(-128, 128, s, dtype=clnet.int8) for s in ((3, 70), (70, 4)))
    found = clnet._int_mm(x, y)
    assert found.dtype is clnet.int32
    assert (found.numpy() == x.numpy().astype(np.int32) @ y.numpy().astype(np.int32)).all()
    with pytest.raises(DtypeError, match="int8"):
        clnet._int_mm(x.float(), y)
    with pytest.raises(ShapeError, match="matrices"):
        clnet._int_mm(x, y[0])
    shares = clnet._sample_dirichlet(clnet.full((4, 3), 2.0))
    np.testing.assert_allclose(shares.sum(1).numpy(), 1, rtol=1e-5)


def test_functional_of_floats_is_a_place_for_observers():
    class Doubled(nn.Module):
        def forward(self, x):
            return 2 * x

    f = nn.quantized.FloatFunctional()
    f.activation_post_process = Doubled()
    x, y = clnet.tensor([1.0, -2.0]), clnet.tensor([3.0, 1.0])
    assert f.add(x, y).tolist() == [8.0, -2.0]
    assert f.mul(x, y).tolist() == [6.0, -4.0]
    assert f.add_relu(x, y).tolist() == [8.0, 0.0]
    assert f.cat([x, y]).tolist() == [2.0, -4.0, 6.0, 2.0]
    assert f.matmul(x, y).item() == 2.0
    assert f.add_scalar(x, 1.0).tolist() == [2.0, -1.0]
    assert f.mul_scalar(x, 3.0).tolist() == [3.0, -6.0]
    with pytest.raises(RuntimeError, match="not intended"):
        f(x)


def test_steps_of_data_parallel(device):
    layers = [nn.Linear(2, 2), nn.Linear(2, 3)]
    x = drawn(4, 2)
    found = parallel.parallel_apply(layers, [x, (x,)])
    assert [tuple(y.shape) for y in found] == [(4, 2), (4, 3)]
    with pytest.raises(ArgumentError, match="its arguments"):
        parallel.parallel_apply(layers, [x])
    of = parallel._functions
    here = [device]
    (part,) = of.Scatter.apply(here, None, 0, x)
    (same,) = of.Scatter.apply(here, [4], 0, x)
    assert part.tolist() == same.tolist() == x.tolist()
    assert of.Gather.apply(device, 0, x, x).shape == (8, 2)
    leaf = drawn(3).requires_grad_()
    a, b = of.Broadcast.apply([device, device], leaf)
    (a + 2 * b).sum().backward()
    assert leaf.grad.tolist() == [3.0] * 3
    sums = of.ReduceAddCoalesced.apply(device, 2, x, leaf, x, leaf)
    np.testing.assert_allclose(sums[0].numpy(), 2 * x.numpy())
    np.testing.assert_allclose(sums[1].detach().numpy(), 2 * leaf.detach().numpy())


def test_words_of_losses():
    of = F._Reduction
    assert [of.get_enum(word) for word in ("none", "mean", "sum")] == [0, 1, 2]
    with pytest.warns(UserWarning, match="deprecated"):
        assert of.get_enum("elementwise_mean") == 1
    with pytest.raises(ValueError, match="one of"):
        of.get_enum("max")
    flags = [(None, None), (False, None), (None, False), (True, True)]
    words = [of.legacy_get_string(*each, emit_warning=False) for each in flags]
    assert words == ["mean", "sum", "none", "mean"]
    with pytest.warns(UserWarning, match="reduction='sum'"):
        assert of.legacy_get_enum(False, True) == 2
    assert nn.NLLLoss2d is nn.NLLLoss


def test_checkpoints_of_old_programs():
    from clnet.utils import checkpoint  # noqa: PLC0415

    x = (drawn(2).requires_grad_() * 2, drawn(2), 3)
    a, b, c = checkpoint.detach_variable(x)
    assert a.is_leaf
    assert a.requires_grad
    assert not b.requires_grad
    assert c == 3
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        checkpoint.check_backward_validity([a, b])
    with pytest.warns(UserWarning, match="requires_grad"):
        checkpoint.check_backward_validity([b])
    assert clnet.autograd._is_checkpoint_valid()


def test_a_policy_of_checkpoints_changes_memory_alone():
    from clnet.utils import checkpoint  # noqa: PLC0415

    def kept(context, op, *args, **given):
        return checkpoint.CheckpointPolicy.MUST_SAVE

    x = drawn(2).requires_grad_()
    for policy in (kept, [clnet.mm, clnet.exp]):
        calls = []

        def block(x, calls=calls):
            calls.append(1)
            return x.exp().sin()

        contexts = functools.partial(checkpoint.create_selective_checkpoint_contexts, policy)
        y = checkpoint.checkpoint(block, x, use_reentrant=False, context_fn=contexts)
        (found,) = clnet.autograd.grad(y.sum(), x)
        (plain,) = clnet.autograd.grad(x.exp().sin().sum(), x)
        assert found.tolist() == plain.tolist()
        assert len(calls) == 2
    with pytest.raises(clnet.errors.ArgumentError, match="a function, or a list of operators"):
        checkpoint.create_selective_checkpoint_contexts([1])


def test_what_is_queued_is_called_when_backward_is_done():
    engine = clnet.autograd.Variable._execution_engine
    x = drawn(3).requires_grad_()
    seen = []

    def hook(grad):
        engine.queue_callback(lambda: seen.append(x.grad is not None))
        engine.queue_callback(lambda: engine.queue_callback(lambda: seen.append("queued later")))

    y = x * 2
    y.register_hook(hook)
    y.sum().backward()
    assert seen == [True, "queued later"]
    with pytest.raises(RuntimeError, match="during backward"):
        engine.queue_callback(print)


def test_places_that_are_asked_whether_they_are_there():
    for kind in ("xpu", "mps", "mtia"):
        module = getattr(clnet, kind)
        assert not module.is_available()
        assert module.device_count() == 0
        with pytest.raises(RuntimeError, match="Devices are named"):
            module.current_allocated_memory()
    assert clnet.cpu.is_available()
    assert clnet.cpu.device_count() == 1
    clnet.cpu.synchronize()
    with clnet.cpu.stream(clnet.cpu.current_stream()), clnet.cuda.device_of(drawn(1)):
        pass
    assert not importlib.import_module("clnet.utils._triton").has_triton()


def test_sizes_as_tensors():
    of = clnet.onnx.operators
    x = drawn(2, 3)
    assert of.shape_as_tensor(x).tolist() == [2, 3]
    assert of.reshape_from_tensor_shape(x, clnet.tensor([3, -1])).shape == (3, 2)


def test_names_of_initialisers():
    x = clnet.empty(50)
    assert nn.init._no_grad_uniform_(x, 2.0, 3.0).min() >= 2
    assert nn.init._no_grad_normal_(x, 9.0, 0.1).mean() > 8
    assert nn.init._no_grad_fill_(x, 5.0).tolist() == [5.0] * 50
    assert nn.init._no_grad_zero_(x).tolist() == [0.0] * 50


def test_files_with_the_names_of_functions_and_modules_that_are_not_here():
    script = """
import clnet.torch_compat
clnet.torch_compat.install()
from torch.nn.utils.spectral_norm import spectral_norm
import torch.nn.utils.weight_norm
from torch.nn.parallel.parallel_apply import parallel_apply
from torch.nn.parallel.replicate import replicate
from torch.nn.parallel.data_parallel import DataParallel
from torch.autograd.gradcheck import gradcheck
import torch
assert torch.nn.utils.spectral_norm is spectral_norm and callable(torch.nn.utils.weight_norm)
assert torch.nn.parallel.replicate is replicate and torch.autograd.gradcheck is gradcheck
from torch.ao.nn.quantized import FloatFunctional
from torch.cuda.profiler import profile
torch.cuda.memory._record_memory_history()
torch._functorch.config.enable_autograd_cache = True
torch._dynamo.utils.counters.clear()
torch._dynamo.config.cache_size_limit = max(64, torch._dynamo.config.cache_size_limit)
torch._dynamo.config.recompile_limit *= 2
from torch._ops import ops
assert ops is torch.ops
from torch.export import Dim, export
for call in (lambda net: export(net, ()), torch.ao.quantization.quantize_dynamic):
    try: call(None)
    except ValueError as error: print(error)
clnet.torch_compat.uninstall()
import sys
assert not any(name.split('.')[0] == 'torch' for name in sys.modules)
"""
    run = [sys.executable, "-c", script]
    told = subprocess.run(run, capture_output=True, text=True, check=True).stdout.splitlines()
    assert "export: it takes a module" in told[0]
    assert "ao.quantization.quantize_dynamic: there are no quantised types" in told[1]
