"""Batches of a data set in a reproducible order; where a batch goes is not its business."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import ArgumentError, CheckpointError, TraceError
from ..values import mode
from .counter import Draw, permutation
from .dataset import Arrays, Dataset
from .prefetch import prefetched
from .transform import Transform


class DataLoader:
    """Batches of a data set, epoch after epoch.

    Each pass over the loader is one epoch. The order and the random transforms are functions of
    ``seed``, the epoch and the example alone, so two loaders with the same arguments give the same
    batches bit for bit, whatever the threads do; and a loader given another's :meth:`state_dict`
    goes on with the very batch the other would have given next. A pass that was left early is over:
    the next one is the next epoch.

    Args:
        dataset: the examples.
        batch_size: examples in a batch; the last one may have fewer.
        shuffle: whether each epoch has a random order of its own.
        drop_last: whether a last batch that is not full is left out.
        seed: chooses the orders and the random transforms.
        prefetch: batches made ahead in a thread; 0 makes each when it is asked for.
        transform: applied to the first array of each batch (the images).

    Raises:
        ArgumentError: if ``batch_size`` is below 1 or ``prefetch`` below 0.

    Example:
        >>> from clnet.data import ArrayDataset
        >>> data = ArrayDataset(np.arange(10) * 10, np.arange(10))
        >>> for x, y in DataLoader(data, 4):
        ...     print(x, y)
        [ 0 10 20 30] [0 1 2 3]
        [40 50 60 70] [4 5 6 7]
        [80 90] [8 9]
    """

    def __init__(
        self,
        dataset: Dataset,
        batch_size: int = 1,
        *,
        shuffle: bool = False,
        drop_last: bool = False,
        seed: int = 0,
        prefetch: int = 2,
        transform: Transform | None = None,
    ) -> None:
        if batch_size < 1:
            raise ArgumentError("DataLoader", "batch_size is 1 or more", batch_size=batch_size)
        if prefetch < 0:
            raise ArgumentError("DataLoader", "prefetch is 0 or more", prefetch=prefetch)
        self.dataset = dataset
        self.batch_size = batch_size
        self.shuffle = shuffle
        self.drop_last = drop_last
        self.seed = seed
        self.prefetch = prefetch
        self.transform = transform
        self._epoch = 0
        self._position = 0  # batches of this epoch that the consumer has got
        self._resumed = False
        self._latest: object = None  # identifies the pass whose progress counts

    def __len__(self) -> int:
        """Batches in an epoch."""
        n = len(self.dataset)
        return n // self.batch_size if self.drop_last else -(-n // self.batch_size)

    @property
    def epoch(self) -> int:
        """The epoch of the pass under way, or of the next one; the first is 0."""
        return self._epoch

    def __iter__(self) -> Generator[Arrays]:
        if mode.current().tracer is not None:
            law = "a pass over the data lies inside a function that clnet.compile traces"
            raise TraceError("DataLoader", law, remedy="Iterate outside, and compile what is done")
        if self._position and not self._resumed:  # the last pass was left early
            self._epoch += 1
            self._position = 0
        self._resumed = False
        self._latest = this = object()
        return self._pass(this, self._epoch, self._position)

    def _pass(self, this: object, epoch: int, start: int) -> Generator[Arrays]:
        """The batches of one epoch; keeps the position while it is the latest pass."""
        batches = self._batches(epoch, start)
        if self.prefetch:
            batches = prefetched(batches, self.prefetch)
        with closing(batches):  # a pass left early stops its thread now, not when it is collected
            for position, batch in enumerate(batches, start + 1):
                if self._latest is this:
                    self._position = position
                yield batch
        if self._latest is this:
            self._epoch, self._position = epoch + 1, 0

    def _batches(self, epoch: int, start: int) -> Generator[Arrays]:
        order = self._order(epoch)
        for i in range(start, len(self)):
            indices = order[i * self.batch_size : (i + 1) * self.batch_size]
            batch = self.dataset.fetch(indices)
            if self.transform is not None:
                images = self.transform(batch[0], Draw(self.seed, epoch, indices))
                batch = (images, *batch[1:])
            yield batch

    def _order(self, epoch: int) -> NDArray[np.intp]:
        n = len(self.dataset)
        return permutation(n, self.seed, epoch=epoch) if self.shuffle else np.arange(n)

    def state_dict(self) -> dict[str, Any]:
        """Where the loader stands: after the batch the consumer got last.

        Returns:
            Plain numbers and booleans, for a checkpoint.
        """
        return {"epoch": self._epoch, "position": self._position, **self._identity()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on where ``state`` was taken: the next pass is the rest of that epoch.

        Args:
            state: what :meth:`state_dict` gave.

        Raises:
            CheckpointError: if it is of a loader with other arguments or another length, or no such
                state; the loader is then left as it was.
        """
        mine = self._identity()
        expected = {"epoch", "position", *mine}
        if set(state) != expected:
            raise CheckpointError(
                "DataLoader", "not a loader's state", keys=sorted(state), expected=sorted(expected)
            )
        theirs = {name: state[name] for name in mine}
        if theirs != mine:
            raise CheckpointError(
                "DataLoader",
                "the state is of a loader that gives other batches",
                state=theirs,
                loader=mine,
            )
        epoch, position = state["epoch"], state["position"]
        if epoch < 0 or not 0 <= position <= len(self):
            raise CheckpointError(
                "DataLoader",
                "the state's position is outside the epoch",
                epoch=epoch,
                position=position,
                batches=len(self),
            )
        self._epoch, self._position, self._resumed, self._latest = epoch, position, True, None

    def _identity(self) -> dict[str, Any]:
        """What decides the order of the batches."""
        return {
            "length": len(self.dataset),
            "batch_size": self.batch_size,
            "shuffle": self.shuffle,
            "drop_last": self.drop_last,
            "seed": self.seed,
        }
