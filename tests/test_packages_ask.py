"""Names that packages of PyTorch's world import: they are there, and do what they can."""

from __future__ import annotations

import contextlib
import importlib

import numpy as np
import pytest

import clnet
from clnet import nn
from clnet.errors import (
    ArgumentError,
    ClnetError,
    DeviceError,
    DtypeError,
    GradientError,
    KindError,
    ShapeError,
)
from tests.answers import torch

pytestmark = pytest.mark.device


def cube(x, y):
    return (x**3 * y).sum()


@pytest.mark.skipif(torch is None, reason="PyTorch is not installed")
def test_functional_derivatives_are_pytorchs():
    host = [np.array([1.0, 2.0], np.float32), np.array([3.0, -1.0], np.float32)]
    ours, theirs = [clnet.tensor(h) for h in host], [torch.tensor(h) for h in host]
    mine, peer = clnet.autograd.functional, torch.autograd.functional

    def flat(tree):
        return [np.asarray(t.tolist()) for t in clnet.utils._pytree.tree_leaves(tree)]

    for name in ("jacobian", "hessian"):
        got, want = getattr(mine, name)(cube, tuple(ours)), getattr(peer, name)(cube, tuple(theirs))
        for a, b in zip(flat(got), flat(want), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5)
    for name, v in (("vjp", None), ("jvp", 1), ("vhp", 1), ("hvp", 1)):
        got = getattr(mine, name)(cube, tuple(ours), None if v is None else tuple(ours))
        want = getattr(peer, name)(cube, tuple(theirs), None if v is None else tuple(theirs))
        for a, b in zip(flat(got), flat(want), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5)
    matrix = mine.jacobian(lambda x: x.outer(x), ours[0])
    assert matrix.shape == (2, 2, 2)


def test_functional_says_what_it_takes():
    x = clnet.ones(2)
    with pytest.raises(ArgumentError, match="v is given"):
        clnet.autograd.functional.vjp(lambda x: x * 2, x)
    with pytest.raises(ArgumentError, match="shapes of the input"):
        clnet.autograd.functional.jvp(lambda x: x * 2, x, v=clnet.ones(3))
    with pytest.raises(ArgumentError, match="one number"):
        clnet.autograd.functional.hessian(lambda x: x * 2, x)
    with pytest.raises(KindError, match="gives tensors"):
        clnet.autograd.functional.jacobian(lambda x: 3, x)
    with pytest.raises(ArgumentError, match="strategy is reverse-mode or forward-mode"):
        clnet.autograd.functional.jacobian(lambda x: x, x, strategy="backward")
    with pytest.raises(ArgumentError, match="not both"):
        clnet.autograd.functional.hessian(cube, (x, x), strict=True, vectorize=True)


STRICT = {
    "an output off the tape": lambda f, m, x: f.jacobian(lambda x: m.ones(2), x, strict=True),
    "an input": lambda f, m, x: f.jacobian(lambda x, y: x * 2, (x, x), strict=True),
    "vjp": lambda f, m, x: f.vjp(lambda x, y: x.sum(), (x, x), strict=True),
    "jvp": lambda f, m, x: f.jvp(lambda x, y: x.sum(), (x, x), (x, x), strict=True),
    "vhp": lambda f, m, x: f.vhp(lambda x: x.sum(), x, x, strict=True),
    "hvp": lambda f, m, x: f.hvp(lambda x: x.sum(), x, x, strict=True),
    "hessian": lambda f, m, x: f.hessian(lambda x: x.sum(), x, strict=True),
    "a graph": lambda f, m, x: f.jacobian(lambda x: x * 2, x, create_graph=True, strict=True),
    # and what is no error
    "all": lambda f, m, x: f.hessian(lambda x, y: (x * x * y * y).sum(), (x, x), strict=True),
    "linear": lambda f, m, x: f.jvp(lambda x: x * 2, x, x, strict=True),
}


@pytest.mark.skipif(torch is None, reason="PyTorch is not installed")
@pytest.mark.parametrize("name", STRICT)
def test_strict_derivatives_refuse_what_depends_on_nothing(name):
    fine = name in ("all", "linear")
    for m, error in ((torch, RuntimeError), (clnet, ArgumentError)):
        with contextlib.nullcontext() if fine else pytest.raises(error, match="strict"):
            STRICT[name](m.autograd.functional, m, m.ones(2))


def test_a_strict_change_along_a_direction():
    x = clnet.ones(2)
    with pytest.raises(ArgumentError, match="jvp: where strict"):
        clnet.func.jvp(lambda x: clnet.ones(2), (x,), (x,), strict=True)
    assert clnet.func.jvp(lambda x: x * 2, (x,), (x,), strict=True)[1].tolist() == [2, 2]


class Doubled(clnet.autograd.Function):
    """Overwrites its argument."""

    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        return x.mul_(2)

    @staticmethod
    @clnet.autograd.function.once_differentiable
    def backward(ctx, grad):
        return grad * 2


def test_what_a_function_overwrites_is_its_result():
    x = clnet.ones(3, requires_grad=True)
    y = x * 1
    assert Doubled.apply(y) is y
    y.sum().backward()
    assert x.grad.tolist() == [2.0] * 3
    with pytest.raises(GradientError, match="leaf"):
        Doubled.apply(clnet.ones(1, requires_grad=True))


def test_operators_of_python_have_gradients_and_those_of_cpp_are_named():
    library = clnet.library

    @library.custom_op("mine::square", mutates_args=())
    def square(x: clnet.Tensor) -> clnet.Tensor:
        return x * x

    @square.register_fake
    def _(x):
        return x

    square.register_autograd(
        lambda ctx, grad: grad * 10 * ctx.saved_tensors[0],
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
    )
    x = clnet.tensor([1.0, 3.0], requires_grad=True)
    library.operators.mine.square(x).sum().backward()
    assert x.grad.tolist() == [10.0, 30.0]
    assert library.operators.relu is clnet.ops.relu
    with pytest.raises(ClnetError, match="C\\+\\+"):
        library.operators.theirs.nms(x)
    with pytest.raises(OSError, match="load_library"):
        library.operators.load_library("x.so")


def test_an_operators_arguments_go_by_name_too():
    """PyTorch gives the same: defaults are among the inputs, what goes by name alone beside."""
    seen = []

    @clnet.library.custom_op("mine::scaled", mutates_args=())
    def scaled(x, a, b=1.0, *, c=0.0):
        return x * a - b + c

    def setup(ctx, inputs, keyword_only_inputs, output):
        seen.append((inputs[1:], keyword_only_inputs))
        ctx.a = inputs[1]

    scaled.register_autograd(lambda ctx, grad: (grad * ctx.a, None, None), setup_context=setup)
    x = clnet.ones(1, requires_grad=True)
    y = scaled(x, b=3.0, a=2.0)
    y.backward()
    assert (y.item(), x.grad.item()) == (-1, 2)
    assert scaled(x, 2.0, c=5.0).item() == 6
    assert seen == [((2.0, 3.0), {"c": 0.0}), ((2.0, 1.0), {"c": 5.0})]


@pytest.mark.parametrize(
    "name",
    [
        *("autograd.function", "autograd.functional", "serialization", "onnx", "multiprocessing"),
        *("profiler", "utils.model_zoo", "utils.dlpack", "utils.data.dataloader", "compiler"),
        *("utils.data._utils.collate", "jit.annotations", "_dynamo.utils", "__config__", "_C"),
        *("ao.quantization", "distributed.nn", "nn.modules.lazy", "autograd.graph", "overrides"),
        *("autograd.forward_ad", "distributed.device_mesh", "cuda.nvtx", "cuda.random", "types"),
        *("nn.attention.flex_attention", "_subclasses.fake_tensor", "_utils", "nn.parallel"),
        *("fx.experimental.proxy_tensor", "_dynamo.exc", "_dynamo.eval_frame", "storage"),
        *("_dynamo._trace_wrapped_higher_order_op", "autograd.grad_mode", "testing"),
        *("utils.flop_counter", "distributions.wishart", "nn.parallel.distributed"),
    ],
)
def test_modules_can_be_imported(name):
    assert importlib.import_module(f"clnet.{name}").__doc__


def test_modules_that_are_not_here_say_so_when_they_are_used():
    with pytest.raises(ArgumentError, match="quantised"):
        clnet.ao.quantization.prepare(nn.Linear(1, 1))
    with pytest.raises(AttributeError, match="differences"):
        _ = clnet._C.no_such_name
    assert clnet.ao.quantization.QuantStub()(3) == 3
    with clnet.profiler.record_function("part"):
        assert clnet._C._get_tracing_state() is None
    assert "OpenCL" in clnet.__config__.show()
    assert not clnet.compiler.is_compiling()


def test_steps_of_a_profiler_are_counted_as_pytorchs():
    action = clnet.profiler.schedule(wait=1, warmup=1, active=2, repeat=1, skip_first=1)
    names = [action(step).name for step in range(7)]
    assert names == ["NONE", "NONE", "WARMUP", "RECORD", "RECORD_AND_SAVE", "NONE", "NONE"]


def test_losses_of_programs_inherit_their_reduction():
    weighted = nn.modules.loss._WeightedLoss(clnet.ones(3), reduction="sum")
    assert (weighted.reduction, weighted.weight.shape) == ("sum", (3,))
    assert nn.modules.loss._Loss(size_average=False).reduction == "sum"
    assert nn.modules.loss._Loss(reduce=False).reduction == "none"
    assert isinstance(nn.Conv2d(1, 1, 1), nn.modules.conv._ConvNd)
    assert isinstance(nn.BatchNorm1d(1), nn.modules.batchnorm._NormBase)


def test_arrays_of_other_libraries_come_by_dlpack():
    x = clnet.utils.dlpack.from_dlpack(np.arange(3, dtype=np.float32))
    assert x.tolist() == [0.0, 1.0, 2.0]


@pytest.mark.parametrize("kind", ["conv", "transposed", "linear"])
def test_a_layer_does_the_norm_behind_it(kind):
    layer, norm, x = {
        "conv": lambda: (nn.Conv2d(4, 6, 3, groups=2), nn.BatchNorm2d(6), clnet.randn(2, 4, 5, 5)),
        "transposed": lambda: (
            *(nn.ConvTranspose2d(4, 6, 3, bias=False), nn.BatchNorm2d(6)),
            clnet.randn(2, 4, 5, 5),
        ),
        "linear": lambda: (nn.Linear(4, 6), nn.BatchNorm1d(6, affine=False), clnet.randn(5, 4)),
    }[kind]()
    fuse = nn.utils.fusion.fuse_linear_bn_eval if kind == "linear" else None
    fuse = fuse or (lambda a, b: nn.utils.fusion.fuse_conv_bn_eval(a, b, kind == "transposed"))
    norm(layer(x))  # statistics that are not the first
    with pytest.raises(ArgumentError, match="in evaluation"):
        fuse(layer, norm)
    expected = norm.eval()(layer.eval()(x))
    found = fuse(layer, norm)(x)
    np.testing.assert_allclose(found.detach().numpy(), expected.detach().numpy(), atol=1e-5)


def test_fused_weights_are_trained_as_the_layers_are():
    conv, norm = nn.Conv2d(2, 3, 1), nn.BatchNorm2d(3)
    conv.weight.requires_grad = False
    rest = (norm.running_mean, norm.running_var, norm.eps, norm.weight, norm.bias)
    fused = nn.utils.fusion.fuse_conv_bn_weights(conv.weight, conv.bias, *rest)
    assert [p.requires_grad for p in fused] == [False, True]


def test_numbers_are_written_as_numbers():
    x = clnet.tensor([1.5, 2.0])
    assert f"{x.sum()} {x[0]:.3f} {clnet.tensor(7)} {clnet.tensor(True)}" == "3.5 1.500 7 True"
    assert f"{x}" == "tensor([1.5000, 2.0000])"


def test_weights_of_recurrent_layers_stay_as_they_are():
    layer = nn.LSTM(2, 3)
    before = {n: id(p) for n, p in layer.named_parameters()}
    assert layer.flatten_parameters() is None
    assert before == {n: id(p) for n, p in layer.named_parameters()}


def test_there_is_no_cuda_in_the_version():
    assert (clnet.version.cuda, clnet.version.hip) == (None, None)
    assert clnet.version.__version__ == clnet.__version__


def test_parts_of_a_text_are_joined_by_packages():
    text = importlib.import_module("clnet._tensor_str")
    x = clnet.tensor([[1.0, 2.5]], requires_grad=True)
    contents = text._tensor_str(x, 7)
    assert contents == "[[1.0000, 2.5000]]"
    assert text._str_intern(x) == repr(x)
    assert (
        text._add_suffixes("Index(" + contents, ["size=3"], 6, False)
        == f"Index({contents}, size=3)"
    )
    assert text._add_suffixes("a(1", ["b", "c"], 2, True) == "a(1,\n  b, c)"
    assert text.PRINT_OPTS.precision == 4


def test_futures_wait_for_what_is_set():
    futures = importlib.import_module("clnet.futures")
    first, second = futures.Future(), futures.Future(devices=["cpu"])
    both, twice = futures.collect_all([first, second]), first.then(lambda f: f.value() * 2)
    failed = first.then(lambda f: f.value() / 0)
    first.set_result(3)
    assert not both.done()
    second.set_result(4)
    assert twice.wait() == 6
    assert futures.wait_all(both.wait()) == [3, 4]
    assert futures.collect_all([]).wait() == []
    with pytest.raises(ZeroDivisionError):
        failed.wait()


def test_what_graph_packages_import_is_there():
    loader = importlib.import_module("clnet.utils.data.dataloader")
    assert issubclass(loader._MultiProcessingDataLoaderIter, loader._BaseDataLoaderIter)
    rpc = importlib.import_module("clnet.distributed.rpc")
    assert not rpc.is_available()
    with pytest.raises(DeviceError, match=r"rpc.init_rpc: there is no group of processes"):
        rpc.init_rpc("worker")
    with pytest.raises(DeviceError, match="all_reduce, broadcast, send and recv"):
        rpc.RRef(1)
    profiler = importlib.import_module("clnet.autograd.profiler")
    assert profiler.EventList([1]) == [1]


def test_dtypes_that_no_tensor_has_are_named_and_refused():
    known = {clnet.float32: 4, clnet.uint16: 2, clnet.float8_e4m3fn: 1}
    assert known[clnet.uint16] == clnet.uint16.itemsize == 2
    assert clnet.float8_e4m3fn.is_floating_point
    assert not isinstance(clnet.uint16, clnet.dtype)
    with pytest.raises(
        DtypeError, match=r"^zeros: dtype is a dtype or None; got dtype=AbsentDType"
    ):
        clnet.zeros(2, dtype=clnet.uint16)
    with pytest.raises(DtypeError, match="AbsentDType"):
        clnet.ones(2).to(clnet.uint32)


def test_a_number_is_not_gone_through():
    """SciPy asks with :func:`numpy.iterable` whether it may, which takes a TypeError for no."""
    number = clnet.tensor(2.0)
    assert not np.iterable(number)
    for asked in (iter, len, list):
        with pytest.raises(TypeError, match="the tensor has an axis") as info:
            asked(number)
        assert isinstance(info.value, ShapeError)
    assert [float(x) for x in clnet.ones(2)] == [1, 1]
