"""Names of PyTorch's that cost nothing: types, attributes, settings, and modules to import."""

from __future__ import annotations

import contextlib
import copy
import functools
import subprocess
import sys

import clnet.backends.cudnn
import clnet.cuda.amp
import clnet.nn.utils.rnn
import numpy as np
import pytest
from clnet.nn.modules.batchnorm import _BatchNorm
from clnet.nn.modules.utils import _pair

import clnet
import clnet.utils.checkpoint
from clnet import nn
from clnet.errors import ArgumentError, DeviceError, DtypeError, GradientError
from clnet.values import mode

PARAMETER = "Parameter containing:\ntensor([1.], requires_grad=True)"
pytestmark = pytest.mark.device


def test_dtypes_have_their_second_names():
    wanted = {"long": "int64", "int": "int32", "short": "int16", "float": "float32"}
    wanted |= {"double": "float64", "half": "float16"}
    assert {k: getattr(clnet, k).name for k in wanted} == wanted
    assert isinstance(clnet.ones(1).dtype, clnet.dtype)


def test_a_shape_is_a_size():
    shape = clnet.zeros(2, 3, 4).shape
    assert isinstance(shape, clnet.Size)
    assert [type(n) for n in clnet.Size(clnet.tensor([2, 3]))] == [int, int]
    assert shape == (2, 3, 4)
    assert shape.numel() == 24
    assert shape[1:].numel() == 12
    assert shape[-1] == 4
    assert type(shape.__add__((5,))) is clnet.Size
    ends, none = (1,), ()
    for more in (ends + shape, none + shape, shape + ends, shape * 2, 2 * shape, shape * 0):
        assert type(more) is clnet.Size
    assert ends + shape == (1, 2, 3, 4)
    with pytest.raises(TypeError):
        shape + 3
    assert clnet.zeros(clnet.Size((2, 1))).view(shape[:1]).shape == (2,)


def test_device_is_a_class():
    device = clnet.ones(1).device
    assert isinstance(device, clnet.device)
    assert clnet.device(device) is device
    assert clnet.device(str(device)) is device
    assert str(device) == device.name
    assert clnet.ones(1).to(str(device)).device is device
    assert device.type in ("cpu", "gpu")
    assert device.index == int(device.name.rpartition(":")[2])
    assert copy.deepcopy({"device": device})["device"] is device
    with device:
        assert clnet.ones(1).device is device
    assert str(clnet.device | None)  # in annotations


def test_there_is_no_cuda_until_someone_says_which():
    assert not clnet.cuda.is_available()
    assert clnet.cuda.device_count() == 0
    with pytest.raises(DeviceError, match=r"there is no CUDA.*clnet.cuda.use"):
        clnet.ones(1).cuda()
    named = clnet.device("cuda", 1)  # programs name it and ask first
    assert isinstance(named, clnet.device)
    assert (named.type, named.index, str(named)) == ("cuda", 1, "cuda:1")
    assert named == clnet.device("cuda:1") != clnet.device("cuda")
    with pytest.raises(DeviceError, match="there is no CUDA"):
        clnet.ones(1).to(named)
    device = clnet.device()
    clnet.cuda.use(device)
    try:
        assert clnet.cuda.is_available()
        assert clnet.device("cuda:0") is device
        assert clnet.ones(1).cuda().is_cuda
        assert device.type == "cuda"
        assert next(nn.Linear(1, 1).cuda().parameters()).is_cuda
        assert clnet.cuda.LongTensor([1, 2]).tolist() == [1, 2]
        assert clnet.cuda.FloatTensor(2).is_cuda
        assert clnet.ones(1, dtype=clnet.int64).type(clnet.cuda.FloatTensor).tolist() == [1.0]
        assert clnet.ones(1).type("torch.cuda.DoubleTensor").type() == "torch.cuda.DoubleTensor"
        assert isinstance(clnet.ones(1), clnet.cuda.FloatTensor)
        assert not isinstance(clnet.ones(1), clnet.cuda.LongTensor)
    finally:
        clnet.cuda.use(None)
    assert not clnet.ones(1).is_cuda
    assert not isinstance(clnet.ones(1), clnet.cuda.FloatTensor)
    with pytest.raises(DeviceError):
        clnet.cuda.FloatTensor(2)
    with pytest.raises(DeviceError):
        clnet.set_default_tensor_type("torch.cuda.FloatTensor")
    with pytest.raises(AttributeError, match="FlatTensor"):
        _ = clnet.cuda.FlatTensor


def test_versions_compare_as_versions():
    version = type(clnet.__version__)
    assert version("0.10.1") > "0.9"
    assert version("1.2") >= (1, 2)
    assert version("1.2") == "1.2.0"
    assert not version("1.2+cpu") < (1, 2)


def test_tensors_of_sizes_and_of_data():
    assert clnet.Tensor(2, 3).shape == (2, 3)
    assert clnet.Tensor(2, 3, 0).shape == (2, 3, 0)
    assert clnet.Tensor([1, 2]).dtype is clnet.float32
    assert clnet.Tensor().shape == (0,)
    assert clnet.LongTensor([1, 2]).tolist() == [1, 2]
    assert clnet.ByteTensor(2).shape == (2,)
    assert isinstance(clnet.ones(1), clnet.FloatTensor)
    assert not isinstance(clnet.ones(1), clnet.LongTensor)


def test_what_a_tensor_says_of_itself():
    x = clnet.arange(6).reshape(2, 3)
    assert x.type() == "torch.LongTensor"
    assert x.type("torch.FloatTensor").dtype is clnet.float32
    assert x.type(clnet.HalfTensor).dtype is clnet.float16
    assert x.type(clnet.Tensor).dtype is clnet.float32
    assert x.mT.tolist() == x.T.tolist() == x.H.tolist() == [[0, 3], [1, 4], [2, 5]]
    assert (x.nbytes, x.itemsize, x.element_size()) == (48, 8, 8)
    assert (x.stride(0), x.stride(-1), x.stride()) == (3, 1, (3, 1))
    assert x.layout is clnet.strided
    assert not x.is_sparse
    assert not x.is_quantized
    assert x.data_ptr() == x[0].data_ptr() != x[1].data_ptr()
    assert x[1].storage_offset() == 3
    assert x.grad_fn is None
    assert (clnet.ones(1, requires_grad=True) * 2).grad_fn is not None
    assert x.is_signed()
    assert not x.byte().is_signed()
    assert x[0, 1].is_nonzero()
    assert x.pin_memory() is x
    assert x.cpu().tolist() == x.tolist()
    assert x.new(2).dtype is clnet.int64
    assert x.new([4]).tolist() == [4]
    assert x.new(size=(3, 4)).shape == (3, 4)


def test_a_tensor_becomes_a_view_of_itself():
    x = clnet.ones(2, 3)
    assert x.unsqueeze_(0) is x
    assert x.shape == (1, 2, 3)
    assert x.squeeze_().t_().shape == (3, 2)
    leaf = clnet.ones(2, requires_grad=True)
    with pytest.raises(GradientError, match="unsqueeze_: a leaf"):
        leaf.unsqueeze_(0)
    y = leaf * 2
    y.unsqueeze_(1).sum().backward()
    assert leaf.grad.tolist() == [2, 2]


def test_memory_in_place():
    x = clnet.arange(6.0)
    assert x.resize_(2, 2).tolist() == [[0, 1], [2, 3]]
    part = x.t()
    assert part.resize_as_(x).stride() == (1, 2)  # a shape that it has changes nothing
    part.resize_(3).fill_(7)
    assert x.tolist() == [[7, 7], [7, 3]]
    assert part.resize_(3000).shape == (3000,)
    assert x.set_(clnet.ones(3)).tolist() == [1, 1, 1]
    for name in ("arccos_", "sinc_", "deg2rad_", "lgamma_"):
        with pytest.raises(DtypeError, match="does not fit the dtype of what is overwritten"):
            getattr(clnet.arange(3), name)()
    assert clnet.arange(3.0).apply_(lambda v: v * 2).tolist() == [0, 2, 4]
    assert clnet.arange(3.0).map_(clnet.ones(3), lambda a, b: a + b).tolist() == [1, 2, 3]
    x = clnet.arange(3.0).map2_(clnet.ones(3), clnet.ones(1), lambda a, b, c: a + b * 2 + c)
    assert x.tolist() == [3, 4, 5]
    assert clnet.empty_strided((2, 3), (1, 2)).stride() == (1, 2)


def test_parameters_have_attributes_and_modules_buffers():
    layer = nn.Linear(2, 2)
    layer.weight.no_decay = True
    layer.steps = nn.Buffer(clnet.ones(1))
    layer.table = nn.Buffer(clnet.ones(1), persistent=False)
    assert layer.weight.no_decay
    assert copy.deepcopy(layer).weight.no_decay
    assert [*layer.state_dict()] == ["weight", "bias", "steps"]
    assert [n for n, _ in layer.named_buffers()] == ["steps", "table"]


def test_set_grad_enabled_holds_from_its_call_on():
    clnet.set_grad_enabled(False)
    try:
        assert not clnet.is_grad_enabled()
    finally:
        clnet.set_grad_enabled(True)
    with clnet.set_grad_enabled(False):
        assert not clnet.is_grad_enabled()
    assert clnet.is_grad_enabled()

    @clnet.no_grad
    def recorded():
        return clnet.is_grad_enabled()

    assert not recorded()
    assert clnet.is_grad_enabled()


def test_one_device_is_parallel_enough():
    both = nn.DataParallel(nn.Linear(2, 1), device_ids=[0])
    x = clnet.ones(3, 2)
    assert [*both.state_dict()] == ["module.weight", "module.bias"]
    assert nn.parallel.data_parallel(both.module, x).tolist() == both(x).tolist()


def test_settings_without_effect_are_taken():
    clnet.backends.cudnn.benchmark = True
    clnet.backends.cudnn.allow_tf32 = False  # kept, of no effect
    clnet.use_deterministic_algorithms(True)
    with clnet.backends.cuda.sdp_kernel(enable_flash=False):
        assert clnet.are_deterministic_algorithms_enabled()
    with pytest.raises(ArgumentError, match=r"no code is fetched.*clnet.models"):
        clnet.hub.load("pytorch/vision", "resnet18")


def test_a_hub_loads_what_is_here(tmp_path):
    (tmp_path / "part.py").write_text("WIDTH = 3\n")
    (tmp_path / "hubconf.py").write_text(
        "import clnet\nfrom part import WIDTH\n"
        "def wide(inputs, pretrained=False):\n    return clnet.nn.Linear(inputs, WIDTH)\n"
    )
    folder, before = str(tmp_path), [*sys.path]
    layer = clnet.hub.load(folder, "wide", 2, source="local", pretrained=True, trust_repo=True)
    assert layer.weight.shape == (3, 2)
    assert sys.path == before
    for wrong, law in ((folder, "a function of that name"), (f"{folder}/no", "has a hubconf")):
        with pytest.raises(ArgumentError, match=law):
            clnet.hub.load(wrong, "deep", source="local")


def test_a_hub_finds_weights_that_are_here(tmp_path):
    clnet.save({"w": clnet.ones(2)}, tmp_path / "net.pth")

    def loaded(name, **options):
        url = f"https://example.com/models/{name}.pth"
        return clnet.hub.load_state_dict_from_url(url, str(tmp_path), **options)

    assert loaded("net")["w"].tolist() == [1.0, 1.0]
    assert loaded("other", file_name="net.pth", map_location="cpu")["w"].tolist() == [1.0, 1.0]
    with pytest.raises(ArgumentError, match=r"no weights are downloaded.*Download it to .*vgg.pth"):
        loaded("vgg")


def test_what_is_not_done_is_said_once():
    script = "import clnet\nfor _ in range(3):\n    f = clnet.jit.script(len)\nassert f is len"
    run = [sys.executable, "-W", "always", "-c", script]
    told = subprocess.run(run, capture_output=True, text=True, check=True).stderr
    assert told.count("stay as they are") == 1


def test_how_float32_products_are_computed_is_kept():
    assert clnet.get_float32_matmul_precision() == "highest"
    with mode.using():
        clnet.set_float32_matmul_precision("high")
        assert clnet.get_float32_matmul_precision() == "high"
    with pytest.raises(ArgumentError, match="it is one of"):
        clnet.set_float32_matmul_precision("low")


def test_tf32_is_allowed_by_the_names_of_pytorchs_backends():
    matmul = clnet.backends.cuda.matmul
    with mode.using():
        assert (matmul.allow_tf32, matmul.fp32_precision) == (False, "ieee")
        matmul.allow_tf32 = True
        assert (clnet.get_float32_matmul_precision(), matmul.fp32_precision) == ("high", "tf32")
        matmul.fp32_precision = "ieee"
        assert (clnet.get_float32_matmul_precision(), matmul.allow_tf32) == ("highest", False)
        matmul.fp32_precision = "tf32"
        assert matmul.allow_tf32
        with pytest.raises(ArgumentError, match="it is one of"):
            matmul.fp32_precision = "fp8"


def test_modules_are_found_where_pytorch_has_them():
    assert clnet.nn.utils.rnn is sys.modules["clnet.nn.packed"]
    assert issubclass(nn.BatchNorm1d, _BatchNorm)
    assert _pair(3) == (3, 3) == _pair([3, 3])
    assert nn.parameter.Parameter is nn.Parameter
    assert nn.modules.conv.Conv2d is nn.Conv2d
    assert sys.modules["clnet.nn.packed"].__spec__.name == "clnet.nn.packed"
    with pytest.raises(ModuleNotFoundError):
        __import__("clnet.nn.nowhere")


def test_a_checkpoint_takes_pytorchs_settings():
    x = clnet.ones(2, requires_grad=True)
    clnet.utils.checkpoint.checkpoint(clnet.exp, x, use_reentrant=False).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), np.exp([1, 1]), rtol=1e-6)
    with clnet.utils.checkpoint.set_checkpoint_early_stop(False):
        pass


def test_a_checkpoint_runs_in_its_contexts():
    entered = []

    @contextlib.contextmanager
    def named(name):
        entered.append(name)
        yield

    x = clnet.ones(2, requires_grad=True)
    run = functools.partial(
        clnet.utils.checkpoint.checkpoint,
        clnet.exp,
        x,
        context_fn=lambda: (named("forward"), named("again")),
    )
    y = run(use_reentrant=False)
    assert entered == ["forward"]
    y.sum().backward()
    assert entered == ["forward", "again"]
    with pytest.raises(ArgumentError, match="context_fn goes with"):
        run(use_reentrant=True)


def test_gradients_of_several_tensors():
    x = clnet.autograd.Variable(clnet.ones(2), requires_grad=True)
    y = nn.Parameter(clnet.ones(2))
    clnet.autograd.backward([(x * y).sum(), x.sum()])
    assert x.grad.tolist() == [2, 2]
    assert isinstance(x, clnet.autograd.Variable)
    x.grad = y.grad = None
    (x * y).sum().backward(inputs=[x])
    assert x.grad.tolist() == [1, 1]
    assert y.grad is None


def test_figures_for_tensorboard(tmp_path):
    pytest.importorskip("tensorboard")
    from clnet.utils.tensorboard import SummaryWriter  # noqa: PLC0415

    with SummaryWriter(tmp_path) as writer:
        writer.add_scalar("loss", clnet.tensor(1.5), 3)
        writer.add_scalar("return", np.array([[2.5]], np.float32), 3)
        writer.add_histogram("weights", clnet.arange(5.0), 3)
        writer.add_image("image", clnet.rand(3, 4, 4), 3)
    (written,) = tmp_path.iterdir()
    text = written.read_bytes()
    assert b"loss" in text
    assert np.float32(2.5).tobytes() in text
    assert b"weights" in text
    assert b"PNG" in text


def test_pictures_sounds_and_points_for_tensorboard(tmp_path):
    loader = pytest.importorskip("tensorboard.backend.event_processing.event_file_loader")
    from tensorboard.util.tensor_util import make_ndarray  # noqa: PLC0415

    with clnet.utils.tensorboard.SummaryWriter(tmp_path) as writer:
        writer.add_images("images", clnet.rand(10, 3, 4, 5))
        writer.add_image("mask", clnet.rand(4, 5) > 0.5, dataformats="HW")
        writer.add_audio("sound", clnet.rand(1, 100) * 2 - 1, sample_rate=8000)
        right, guess = clnet.tensor([1, 1, 0]), clnet.tensor([0.9, 0.2, 0.4])
        writer.add_pr_curve("curve", right, guess, num_thresholds=3)
        points = (clnet.rand(4, 2), list("abcd"), clnet.rand(4, 3, 5, 5))
        writer.add_embedding(*points, global_step=3, tag="a/b")
        with pytest.raises(clnet.errors.ShapeError, match="a label or an image of each point"):
            writer.add_embedding(clnet.rand(4, 2), ["one"])
        with pytest.raises(clnet.errors.ShapeError, match=r"image=\(4, 5\), dataformats=CHW"):
            writer.add_image("mask", clnet.rand(4, 5))
        assert writer.get_logdir() == str(tmp_path)
    (path,) = tmp_path.glob("events*")
    events = list(loader.EventFileLoader(str(path)).Load())
    found = {v.tag: make_ndarray(v.tensor) for event in events for v in event.summary.value}
    assert list(found["images"][:2]) == [b"40", b"8"]
    assert found["mask"][2][1:4] == b"PNG"
    assert found["sound"].ravel()[0][:4] == b"RIFF"
    # Above 0, 1/2 and 1: true and false positives, true and false negatives, precision, recall.
    assert found["curve"][:4].tolist() == [[2, 1, 0], [1, 0, 0], [0, 1, 1], [0, 1, 2]]
    assert (
        'tensor_path: "00003/a-b/tensors.tsv"' in (tmp_path / "projector_config.pbtxt").read_text()
    )
    assert (tmp_path / "00003/a-b/metadata.tsv").read_text() == "a\nb\nc\nd\n"
    assert (tmp_path / "00003/a-b/sprite.png").exists()


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda m: m.ones(2, 3), "tensor([[1., 1., 1.],\n        [1., 1., 1.]])"),
        (lambda m: m.tensor([1.5, float("nan")]), "tensor([1.5000,    nan])"),
        (lambda m: m.tensor([1e-8, 1.0]), "tensor([1.0000e-08, 1.0000e+00])"),
        (lambda m: m.zeros(0, 3), "tensor([], size=(0, 3))"),
        (lambda m: m.ones(2, dtype=m.int32), "tensor([1, 1], dtype=torch.int32)"),
        (lambda m: m.ones(1, requires_grad=True), "tensor([1.], requires_grad=True)"),
        (lambda m: m.ones(1, requires_grad=True) * 2, "tensor([2.], grad_fn=<MulBackward0>)"),
        (lambda m: m.arange(2000), "tensor([   0,    1,    2,  ..., 1997, 1998, 1999])"),
        (lambda m: m.nn.Parameter(m.ones(1)), PARAMETER),
    ],
)  # fmt: skip
def test_the_text_of_a_tensor_is_pytorchs(make, text):
    assert repr(make(clnet)).replace("clnet.", "torch.") == text


def test_numbers_that_once_stood_before_operands():
    x, a, e = clnet.ones(3), clnet.full((3,), 2.0), clnet.eye(3)
    for found, wanted in (
        (clnet.addcmul(x, 0.5, a, a), [3, 3, 3]),
        (x.addcdiv(0.5, a, a), [1.5, 1.5, 1.5]),
        (clnet.add(x, 2, a), [5, 5, 5]),
        (clnet.addmm(2, e, 3, e, e).diagonal(), [5, 5, 5]),
        (e.addmm(2, e, e).diagonal(), [3, 3, 3]),
        (clnet.addmv(2, x, 3, e, a), [8, 8, 8]),
    ):
        assert found.tolist() == wanted
    for wrong in (lambda: clnet.add(x, a, a), lambda: clnet.addmm(2, e, e, e, e)):
        with pytest.raises(DtypeError, match="arguments do not fit"):
            wrong()


def test_parts_are_assigned_to():
    z = clnet.tensor([1 + 2j, 3 + 4j])
    z.real, z.imag = 5, clnet.tensor([6.0, 7.0])
    assert z.tolist() == [5 + 6j, 5 + 7j]
    x = clnet.zeros(2)
    x.real = 1.0
    assert x.tolist() == [1, 1]
    assert reversed(clnet.arange(3)).tolist() == [2, 1, 0]
