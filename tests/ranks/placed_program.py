"""Computing with DTensors, by clnet's processes or PyTorch's: prints what came of it.

Written for PyTorch: ``python -m torch.distributed.run --nproc-per-node 2 placed_program.py`` and
``python -m clnet.torchrun`` with the same arguments.
"""

import copy
import json

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    loss_parallel,
    parallelize_module,
)

dist.init_process_group("gloo")
mesh = init_device_mesh("cpu", (dist.get_world_size(),))
found = {}


def values(*shape):
    count = 1
    for size in shape:
        count *= size
    return ((torch.arange(count) * 37 % 23).float() / 11 - 1).reshape(shape)


def lies(x):
    (place,) = x.placements
    return f"S{place.dim}" if place.is_shard() else "R" if place.is_replicate() else "P"


def laid(x, how):
    if how == "P":
        local = x / 2 if dist.get_rank() == 0 else x / 2 / (dist.get_world_size() - 1)
        return DTensor.from_local(local.clone().requires_grad_(), mesh, [Partial()])
    place = Replicate() if how == "R" else Shard(int(how[1:]))
    return distribute_tensor(x.clone().requires_grad_(), mesh, [place])


def flat(x):
    return x.detach().reshape(-1).tolist()


def whole(x):
    return flat(x.full_tensor())


def case(name, function, *operands):
    """The result, how it lies, and the gradients of the operands; and of tensors that are whole."""
    inputs = [laid(x, how) for x, how in operands]
    y = function(*inputs)
    (y * y).sum().backward()
    grads = [whole(x.grad) for x, (_, how) in zip(inputs, operands, strict=True) if how != "P"]
    tensors = [x.clone().requires_grad_() for x, _ in operands]
    z = function(*tensors)
    (z * z).sum().backward()
    wanted = [flat(x.grad) for x, (_, how) in zip(tensors, operands, strict=True) if how != "P"]
    found[name] = [lies(y), [list(y.shape), whole(y), *grads], [list(z.shape), flat(z), *wanted]]


a, b, row, column = values(4, 6), values(4, 6) * 0.5 + 2, values(6) + 3, values(4, 1) + 3
HOWS = ("R", "S0", "S1")
for how in (*HOWS, "P"):
    for name, f in {
        "exp": torch.exp,
        "times": lambda x: 3 * x,
        "minus": lambda x: 1 - x,
        "neg": lambda x: -x,
        "power": lambda x: x**2,
        "relu": F.relu,
        "gelu": F.gelu,
        "sum": lambda x: x.sum(),
        "sum0": lambda x: x.sum(0),
        "sum1": lambda x: x.sum(dim=-1, keepdim=True),
        "mean": lambda x: x.mean(),
        "mean1": lambda x: torch.mean(x, 1),
        "amax": lambda x: x.amax(1),
        "softmax": lambda x: F.softmax(x, dim=1),
        "log_softmax": lambda x: x.log_softmax(-1),
        "t": lambda x: x.t(),
        "view": lambda x: x.view(4, 2, 3),
        "flatten": lambda x: x.reshape(4, 2, 3).flatten(0, 1),
        "unsqueeze": lambda x: x.unsqueeze(1),
        "clamp": lambda x: x.clamp(min=0.1),
    }.items():
        case(f"{name} {how}", f, (a, how))
for one in HOWS:
    for other in HOWS:
        case(f"add {one} {other}", lambda x, y: x + y, (a, one), (b, other))
        case(f"div {one} {other}", torch.div, (a, one), (b, other))
        case(f"matmul {one} {other}", torch.matmul, (a, one), (values(6, 2), other))
        case(f"bmm3 {one} {other}", torch.matmul, (values(4, 2, 6), one), (values(6, 8), other))
        case(f"linear {one} {other}", F.linear, (a, one), (values(8, 6), other), (values(8), "R"))
    case(f"row {one}", lambda x, y: x * y, (a, one), (row, "R"))
    case(f"column {one}", lambda x, y: x - y, (a, one), (column, "R"))
    case(f"layer_norm {one}", lambda x, w: F.layer_norm(x, (6,), w), (a, one), (row, "R"))
case("bmm S0", torch.bmm, (values(4, 2, 3), "S0"), (values(4, 3, 2), "S0"))
case("partial sums", lambda x, y: x + y, (a, "P"), (b, "P"))

x = laid(a, "S0")
with torch.no_grad():
    x *= 2
    x -= laid(b, "S0")
found["in place"] = [lies(x), [list(x.shape), whole(x)], [[4, 6], flat(2 * a - b)]]

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.GELU(), torch.nn.Linear(8, 5))
for number, p in enumerate(model.parameters()):
    p.data.copy_(values(*p.shape) * 0.3 + number * 0.1)
plan = {
    "0": ColwiseParallel(use_local_output=False),
    "2": RowwiseParallel(use_local_output=False),
}
alone = copy.deepcopy(model)
z = alone(a)
(z * z).sum().backward()
parallelize_module(model, mesh, plan)
y = model(a)
(y * y).sum().backward()
found["layers"] = [
    lies(y),
    [list(y.shape), whole(y), *(whole(p.grad) for p in model.parameters())],
    [list(z.shape), flat(z), *(flat(p.grad) for p in alone.parameters())],
]

target = torch.tensor([1, 5, 0, 3])
weight = values(6) + 2
for reduction in ("mean", "sum", "none"):
    for ignored in (-100, 5):
        for weights in (None, weight):
            settings = {"reduction": reduction, "ignore_index": ignored}
            x, y = laid(a, "S1"), a.clone().requires_grad_()
            with loss_parallel():
                loss = F.cross_entropy(x, target, weights, **settings)
                loss.sum().backward()
            other = F.cross_entropy(y, target, weights, **settings)
            other.sum().backward()
            found[f"loss {reduction} {ignored} {weights is not None}"] = [
                lies(loss),
                [list(loss.shape), whole(loss), whole(x.grad)],
                [list(other.shape), flat(other), flat(y.grad)],
            ]
if dist.get_rank() == 0:
    print("<<" + json.dumps(found) + ">>", flush=True)
dist.destroy_process_group()
