"""A GPT in stages, one in each process: ``mpirun -n 2 python examples/pipeline_gpt.py``.

On several machines, ``mpirun --hostfile hosts -n 2 python examples/pipeline_gpt.py`` with a file
of lines like ``first:1`` and ``second:1``: clnet, the program and the data lie there, too. In one
process there is one stage.
"""

from __future__ import annotations

from clnet.distributed.pipelining import PipelineStage, Schedule1F1B

import clnet
from clnet import distributed as dist
from clnet import nn, optim
from clnet.models.gpt import GPTBlock
from clnet.nn import functional as F

TEXT = "a pipeline is full when every stage has a part of the batch to work on. "


class Tables(nn.Module):
    """Letters and places as vectors."""

    def __init__(self, letters: int, length: int, width: int) -> None:
        super().__init__()
        self.letters, self.places = nn.Embedding(letters, width), nn.Embedding(length, width)

    def forward(self, tokens: clnet.Tensor) -> clnet.Tensor:
        """``(n, length, width)``."""
        return self.letters(tokens) + self.places.weight[: tokens.shape[1]]


def main(steps: int = 60, length: int = 24, width: int = 32, blocks: int = 4) -> float:
    """Train; the mean loss of the last step, on the last stage."""
    dist.init_process_group()
    rank, size = dist.get_rank(), dist.get_world_size()
    clnet.manual_seed(0)
    letters = sorted(set(TEXT))
    layers = [
        Tables(len(letters), length, width),
        *(GPTBlock(width, 4, 0.0) for _ in range(blocks)),
        nn.Sequential(nn.LayerNorm(width), nn.Linear(width, len(letters))),
    ]
    own = range(rank * len(layers) // size, (rank + 1) * len(layers) // size)
    part = nn.Sequential(*(layers[k] for k in own))
    stage = PipelineStage(clnet.compile(part), rank, size)

    def loss_fn(scores: clnet.Tensor, targets: clnet.Tensor) -> clnet.Tensor:
        return F.cross_entropy(scores.transpose(1, 2), targets)

    schedule = Schedule1F1B(stage, n_microbatches=4, loss_fn=loss_fn)
    optimizer = optim.AdamW(part.parameters(), lr=3e-3)
    numbers = clnet.tensor([letters.index(letter) for letter in TEXT * 4])
    windows = clnet.stack([numbers[k : k + length + 1] for k in range(0, 64, 4)])
    last = 0.0
    for number in range(steps):
        optimizer.zero_grad()
        losses: list[clnet.Tensor] = []
        schedule.step(
            *((windows[:, :-1],) if stage.is_first else ()),
            target=windows[:, 1:] if stage.is_last else None,
            losses=losses,
        )
        optimizer.step()
        if stage.is_last:
            last = sum(loss.item() for loss in losses) / len(losses)
            if number % 10 == 0 or number == steps - 1:
                print(f"step {number:3d}  loss {last:.4f}", flush=True)
    dist.destroy_process_group()
    return last


if __name__ == "__main__":
    main()
