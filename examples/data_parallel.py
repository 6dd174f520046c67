"""A batch spread over processes: each computes its part, and gradients are averaged.

    mpirun -n 2 python examples/data_parallel.py            # digits, a small network
    mpirun -n 2 python examples/data_parallel.py cifar10    # photographs, ResNet-20
    mpirun --hostfile hosts -n 4 python examples/data_parallel.py

needs ``pip install 'clnet[mpi]'``; alone it is one process with all of the batch. All processes of
a machine take its first GPU: where there are several, say which has which, as in
``clnet.set_default_device(f"gpu:{rank}")``. A hostfile has a line for each machine, such as
``first:2`` and ``second:2``: clnet, the program and the data lie there, too.
"""

import sys
from itertools import islice

import clnet
from clnet import distributed as dist
from clnet import nn, optim
from clnet.data import CIFAR10, DataLoader, Digits, Normalize
from clnet.models import CNN, resnet20
from clnet.nn import functional as F


def main(epochs=5, steps=None, data="digits"):
    """Train; ``steps`` limits the batches of an epoch, and those that are tested."""
    if dist.is_available():
        dist.init_process_group()
    rank, size = (dist.get_rank(), dist.get_world_size()) if dist.is_initialized() else (0, 1)
    source = {"digits": Digits, "cifar10": CIFAR10}[data]
    train, test = source(train=True), source(train=False)
    transform = Normalize.of(train.arrays[0])
    loader = DataLoader(train, 128, shuffle=True, seed=0, drop_last=True, transform=transform)
    clnet.manual_seed(rank)  # the weights become those of rank 0
    small = data == "digits"
    net = CNN(train.arrays[0].shape[1:], len(train.classes)) if small else resnet20()
    model = clnet.compile(net)
    if size > 1:
        model = nn.parallel.DistributedDataParallel(model)
    optimizer = optim.Adam(model.parameters(), lr=2e-3)
    part = 128 // size

    for epoch in range(epochs):
        model.train()
        for images, labels in islice(loader, steps):
            mine = slice(rank * part, (rank + 1) * part)
            optimizer.zero_grad()
            loss = F.cross_entropy(model(clnet.tensor(images[mine])), clnet.tensor(labels[mine]))
            loss.backward()  # ends when the gradients of all processes are averaged
            optimizer.step()
        mean = loss.detach().clone()
        if size > 1:
            dist.all_reduce(mean, dist.ReduceOp.AVG)
        model.eval()
        right = seen = 0
        with clnet.no_grad():
            for images, labels in islice(DataLoader(test, 500, transform=transform), steps):
                found = model(clnet.tensor(images)).argmax(1)
                right += (found == clnet.tensor(labels)).sum().item()
                seen += len(labels)
        if rank == 0:
            print(f"epoch {epoch + 1}: loss {mean.item():.4f}, test accuracy {right / seen:.4f}")


if __name__ == "__main__":
    main(data=(sys.argv[1:] or ["digits"])[0])
