"""Packages that say ``import torch`` find clnet when they are told to, and never otherwise."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

import clnet
from tests.children import ending_soon

pytestmark = pytest.mark.device


def told(script: str) -> str:
    """What a fresh process prints."""
    run, here = [sys.executable, "-c", script], {**os.environ, "PYTHONPATH": ending_soon()}
    return subprocess.run(run, capture_output=True, text=True, check=True, env=here).stdout


def test_programs_find_clnet():
    script = """
import sys, clnet, clnet.torch_compat
assert 'torch' not in sys.modules
clnet.torch_compat.install()
import torch, importlib.metadata, importlib.util
assert importlib.util.find_spec('torch').name == 'torch' and torch.torch is torch
import torch.nn as nn
import torch.nn.functional as F
import torch.backends.cudnn as cudnn
from torch import Tensor, optim
from torch.nn.modules.utils import _pair
from torch.optim.lr_scheduler import StepLR
from torch.utils.data import DataLoader
assert nn is clnet.nn and F.relu is clnet.nn.functional.relu and Tensor is clnet.Tensor
assert sys.modules['torch.nn.functional'] is sys.modules['clnet.nn.functional']
assert torch.__version__ >= '2.0' and importlib.metadata.version('torch') == torch.__version__
loss = nn.Linear(2, 1)(torch.ones(3, 2)).mean()
loss.backward()
assert [str(name) for name in (torch.float32, torch.strided)] == ['torch.float32', 'torch.strided']
assert f'{torch.ones(2, 3).shape[:1]} {torch.Size()}' == 'torch.Size([2]) torch.Size([])'
for missing in ('import torch.xpu.streams', 'torch.sparse_bsr_tensor'):
    try: exec(missing)
    except (ImportError, AttributeError) as error: print(error)
clnet.torch_compat.uninstall()
assert str(clnet.float32) == 'clnet.float32' and str(clnet.Size((2, 3))) == '(2, 3)'
assert 'torch' not in sys.modules and 'torch.nn' not in sys.modules
"""
    first, second = told(script).splitlines()
    assert "Devices are named" in first
    assert "'torch' has no attribute 'sparse_bsr_tensor'" in second
    assert "docs/differences.md" in first
    assert "docs/differences.md" in second


def test_pytorch_itself_is_left_alone():
    pytest.importorskip("torch")
    script = """
import torch, clnet.torch_compat
try: clnet.torch_compat.install()
except ValueError as error: print(error)
"""
    assert "PyTorch itself is imported already" in told(script)


@pytest.mark.parametrize("way", ["install", "use_einops"])
def test_einops_takes_our_tensors(way):
    pytest.importorskip("einops")
    script = f"""
import clnet, clnet.torch_compat
clnet.torch_compat.{way}()
{"import torch" * (way == "install")}
from einops import rearrange, reduce
x = clnet.arange(24.0).reshape(2, 3, 4)
print([*rearrange(x, 'b c d -> b (c d)').shape], reduce(x, 'b c d -> b c', 'mean').tolist()[0][0])
"""
    assert told(script) == "[2, 12] 1.5\n"


def test_it_costs_nothing_unless_imported():
    script = "import sys, clnet\nprint([m for m in sys.modules if 'compat' in m and 'clnet' in m])"
    assert told(script) == "[]\n"


def test_cuda_can_be_named():
    script = """
import clnet, clnet.torch_compat
clnet.torch_compat.install(device=clnet.device())
import torch
device = torch.device('cuda' if torch.cuda.is_available() else 'cpu')
print(device.type, torch.ones(1, device=device).is_cuda)
"""
    assert told(script) == "cuda True\n"


PROGRAM = """
import sys
import torch
from torch.utils.data import DataLoader

class Squares:
    def __len__(self): return 4
    def __getitem__(self, i): return torch.tensor(i * i), torch.__name__

def main():
    for x, name in DataLoader(Squares(), 4, num_workers=1):
        print(x.tolist(), set(name), sys.argv[1:])
"""


@pytest.mark.parametrize("guarded", [True, False], ids=["guarded", "not guarded"])
def test_workers_of_a_program_find_clnet(tmp_path, guarded):
    script = tmp_path / "program.py"
    script.write_text(PROGRAM + ("if __name__ == '__main__':\n    main()" if guarded else "main()"))
    run = [sys.executable, "-m", "clnet.torch_compat", str(script), "--epochs", "1"]
    done = subprocess.run(run, capture_output=True, text=True, check=True)
    assert done.stdout == "[0, 1, 4, 9] {'torch'} ['--epochs', '1']\n"
    alone = "program.py has no if __name__ == '__main__', so that a worker would run it all"
    assert (alone in done.stderr) == (not guarded)


def test_a_program_is_told_what_cuda_is(tmp_path):
    """On the command line, and in the processes that the program spawns."""
    script = tmp_path / "program.py"
    script.write_text("""
import sys, torch, multiprocessing
def show(): print(sys.argv[1:], torch.cuda.is_available(), torch.ones(1).cuda().is_cuda)
if __name__ == "__main__":
    show()
    process = multiprocessing.get_context("spawn").Process(target=show)
    process.start()
    process.join()
""")
    run = [sys.executable, "-m", "clnet.torch_compat", "--cuda", clnet.device().name, str(script)]
    done = subprocess.run([*run, "--lr"], capture_output=True, text=True, check=True)
    assert done.stdout == 2 * "['--lr'] True True\n"
    done = subprocess.run(run[:-2], capture_output=True, text=True, check=False)
    assert "[--cuda DEVICE] SCRIPT" in done.stderr


def test_a_compiled_module_lies_below_its_name_in_a_state():
    script = """
import copy, sys
if PACKAGE == 'clnet':
    import clnet.torch_compat
    clnet.torch_compat.install()
import torch
from torch import nn
net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
made = torch.compile(net, backend='eager')
print(list(made.state_dict()), made._orig_mod is net, isinstance(made, nn.Module))
for walk in ('named_parameters', 'named_buffers', 'named_modules', 'named_children'):
    print([name for name, _ in getattr(made, walk)()])
print(isinstance(made, torch._dynamo.eval_frame.OptimizedModule), list(made._modules))
print(made.load_state_dict(made.state_dict()), len(list(made.parameters())))
print(made(torch.ones(2, 3)).ndim, list(copy.deepcopy(made).state_dict())[0])
try: made.load_state_dict(net.state_dict())
except RuntimeError as error: print('Missing key(s)' in str(error))
class Around(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = made
    def forward(self, x):
        return self.inner(x)
around = Around().eval()
print(list(around.state_dict()), [name for name, _ in around.named_parameters()])
print(around.load_state_dict(around.state_dict()), net.training, around(torch.ones(2, 3)).ndim)
print(torch.compile(lambda x: x + 1, backend='eager')(torch.ones(1)).tolist())
print(torch.compile(backend='eager')(lambda x: x * 2)(torch.ones(1)).tolist())
"""
    pytest.importorskip("torch")
    ours, theirs = (told(f"PACKAGE = {name!r}\n{script}") for name in ("clnet", "torch"))
    assert ours == theirs
