"""Convolutions with each rank's images, dense layers in parts with all: "one weird trick".

Run it with ``mpirun -n 2 python examples/hybrid_parallel.py``. An AlexNet has most of its
computing in convolutions and most of its parameters in dense layers: so the first divide the batch,
the second the parameters (Krizhevsky, 2014), and no gradient of a dense layer is exchanged.
"""

from __future__ import annotations

from clnet.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    gather_batch,
    parallelize_module,
)

import clnet
from clnet import distributed as dist
from clnet import nn, optim
from clnet.nn import functional as F


class Hybrid(nn.Module):
    """A small AlexNet for images of 32x32."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, width, 5, stride=2, padding=2),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(width, 2 * width, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
        )
        self.classifier = nn.Sequential(
            nn.Linear(32 * width, 64 * width), nn.ReLU(), nn.Linear(64 * width, 10)
        )

    def divide(self, mesh: dist.DeviceMesh) -> None:
        """Average the convolutions' gradients, divide the dense layers."""
        self.features = nn.parallel.DistributedDataParallel(self.features)
        styles = {"0": ColwiseParallel(), "2": RowwiseParallel()}
        parallelize_module(self.classifier, mesh, styles)

    def forward(self, x: clnet.Tensor) -> clnet.Tensor:
        """Scores of all ranks' images."""
        group = dist.group.WORLD
        return self.classifier(gather_batch(self.features(x), group))


def main(steps: int = 30, batch_size: int = 64, width: int = 16) -> float:
    """Train on pictures that all ranks draw alike; the last loss."""
    dist.init_process_group()
    rank, size = dist.get_rank(), dist.get_world_size()
    clnet.manual_seed(0)  # the dense layers' biases begin alike on all ranks
    model = Hybrid(width)
    model.divide(dist.init_device_mesh("cpu", (size,)))
    optimizer = optim.SGD(model.parameters(), lr=0.05, momentum=0.9)

    # Each class is a pattern under noise.
    patterns = clnet.randn(10, 3, 32, 32)
    labels = clnet.arange(0, batch_size) % 10
    rows = slice(rank * batch_size // size, (rank + 1) * batch_size // size)

    @clnet.compile
    def step(images: clnet.Tensor, labels: clnet.Tensor) -> clnet.Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        return loss

    loss = clnet.zeros(1)
    for number in range(steps):
        images = patterns[labels] + clnet.randn(batch_size, 3, 32, 32)
        loss = step(images[rows], labels)
        if rank == 0 and (number % 10 == 0 or number == steps - 1):
            print(f"step {number:3d}  loss {loss.item():.4f}", flush=True)
    dist.destroy_process_group()
    return loss.item()


if __name__ == "__main__":
    main()
