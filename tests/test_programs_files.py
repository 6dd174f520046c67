"""Where programs find names: PyTorch's files, and what ``import *`` gives of its modules."""

from __future__ import annotations

import importlib

import numpy as np
import pytest

import clnet
from clnet import nn
from clnet.errors import ArgumentError
from clnet.nn import functional as F

_FILES = """
distributions.transforms ExpTransform
functional broadcast_shapes istft stft unravel_index
nn.common_types _ratio_2_t _size_2_t _size_any_t
nn.modules ParameterDict ParameterList SyncBatchNorm
nn.modules.batchnorm LazyBatchNorm2d SyncBatchNorm
nn.modules.channelshuffle ChannelShuffle
nn.modules.container ParameterDict ParameterList
nn.modules.conv LazyConv2d LazyConvTranspose1d
nn.modules.instancenorm LazyInstanceNorm3d
nn.modules.linear LazyLinear
nn.modules.loss CTCLoss KLDivLoss TripletMarginLoss
nn.utils.init skip_init
nn.utils.memory_format convert_conv2d_weight_memory_format
optim.adadelta Adadelta
optim.adagrad Adagrad
optim.adamw AdamW
optim.nadam NAdam
optim.radam RAdam
optim.sparse_adam SparseAdam
"""


@pytest.mark.parametrize("line", _FILES.split("\n")[1:-1])
def test_files_of_pytorch_have_their_names(line):
    file, *names = line.split()
    found = importlib.import_module(f"clnet.{file}")
    assert all(hasattr(found, name) for name in names)


_STARS = """
autograd Function Variable backward gradcheck grad_mode no_grad
distributions ExpTransform Normal TanhTransform transforms
multiprocessing Event Pool Process Queue get_context spawn
nn.utils clip_grad_norm_ parametrize remove_weight_norm rnn spectral_norm weight_norm
torch BoolTensor FloatTensor LongTensor autocast clamp_ detach exp_ fill_ relu_
"""


@pytest.mark.parametrize("line", _STARS.split("\n")[1:-1])
def test_a_star_gives_what_it_gives_of_pytorch(line):
    module, *names = line.split()
    found: dict[str, object] = {}
    exec(f"from clnet{'' if module == 'torch' else '.' + module} import *", found)
    assert not set(names) - set(found)


def test_older_bases_of_functions_are_taken():
    class Rounded(clnet.autograd.function.InplaceFunction):
        @staticmethod
        def forward(ctx, x, *, inplace=False):
            return x.round()

        @staticmethod
        def backward(ctx, g):
            return 2 * g

    x = clnet.tensor([0.4, 1.6], requires_grad=True)
    y = Rounded.apply(x)
    y.sum().backward()
    assert (y.tolist(), x.grad.tolist(), Rounded(True).inplace) == ([0.0, 2.0], [2.0, 2.0], True)


@pytest.mark.device
def test_gradients_of_a_convolution_by_themselves():
    rng = np.random.default_rng(0)
    x, weight = (
        clnet.tensor(rng.standard_normal(s, np.float32), requires_grad=True)
        for s in ((2, 4, 7), (6, 2, 3))
    )
    y = F.conv1d(x, weight, None, 2, 1, 1, 2)
    g = clnet.tensor(rng.standard_normal(tuple(y.shape), np.float32))
    wanted = clnet.autograd.grad(y, (x, weight), g, create_graph=True)
    given = (2, 1, 1, 2)
    found = (
        nn.grad.conv1d_input(x.shape, weight, g, *given),
        nn.grad.conv1d_weight(x, weight.shape, g, *given),
    )
    for ours, theirs in zip(found, wanted, strict=True):
        np.testing.assert_allclose(ours.tolist(), theirs.tolist(), rtol=1e-5, atol=1e-6)
    found[0].square().sum().backward()  # which is differentiable, too
    again = weight.grad.clone()
    weight.grad = None
    wanted[0].square().sum().backward()
    np.testing.assert_allclose(again.numpy(), weight.grad.numpy(), rtol=1e-4, atol=1e-5)


def test_a_memory_format_of_filters_changes_no_result():
    net = nn.Sequential(nn.Conv2d(1, 2, 1))
    found = nn.utils.convert_conv2d_weight_memory_format(net, clnet.channels_last)
    assert found is net
    with pytest.raises(ArgumentError, match="one of PyTorch's"):
        nn.utils.convert_conv2d_weight_memory_format(net, "nhwc")
