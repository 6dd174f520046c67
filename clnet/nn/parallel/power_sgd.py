"""PowerSGD: averages of gradients as products of two thin matrices, by PyTorch's names.

Vogels, Karimireddy and Jaggi, 2019. What such a product leaves out of a step's gradients is added
to the next step's.
"""

from __future__ import annotations

import random as python_random
from collections.abc import Sequence

from ...autodiff.tape import no_grad
from ...creation import zeros
from ...errors import ArgumentError
from ...ops.join import cat
from ...ops.orthogonal import qr
from ...random import randn
from ...ranks.membership import get_world_size
from ...ranks.operations import all_reduce
from ...ranks.world import Group
from ...tensor import Tensor
from ...values.futures import Future
from ...values.generator import Generator
from .comm_hook import GradBucket

__all__ = ["PowerSGDState", "powerSGD_hook"]


class PowerSGDState:
    """What :func:`powerSGD_hook` keeps from step to step.

    Args:
        process_group: who averages; None: all.
        matrix_approximation_rank: columns of the thin matrices.
        start_powerSGD_iter: so many steps are averaged as they are before.
        min_compression_rate: a gradient whose thin matrices are not so many times smaller is
            averaged as it is.
        use_error_feedback: whether what is left out is added to the next step's.
        warm_start: whether a step begins with the matrices of the one before.
        orthogonalization_epsilon: is added to the lengths of columns, which may be 0.
        random_seed: of the first matrices, the same on all ranks.
        compression_stats_logging_frequency: taken.
        batch_tensors_with_same_shape: taken.

    Attributes:
        iter: how many steps have been averaged.
        error_dict: what was left out, by bucket.

    Raises:
        ArgumentError: if thin matrices would come before the buckets stay what they are.
    """

    def __init__(
        self,
        process_group: Group | None,
        matrix_approximation_rank: int = 1,
        start_powerSGD_iter: int = 1_000,  # noqa: N803 - PyTorch's
        min_compression_rate: float = 2,
        use_error_feedback: bool = True,  # noqa: FBT001, FBT002 - PyTorch's
        warm_start: bool = True,  # noqa: FBT001, FBT002 - PyTorch's
        orthogonalization_epsilon: float = 0,
        random_seed: int = 0,
        compression_stats_logging_frequency: int = 10_000,
        batch_tensors_with_same_shape: bool = False,  # noqa: FBT001, FBT002 - PyTorch's
    ) -> None:
        del compression_stats_logging_frequency, batch_tensors_with_same_shape
        if (use_error_feedback or warm_start) and start_powerSGD_iter <= 1:
            raise ArgumentError(
                "PowerSGDState",
                "start_powerSGD_iter is 2 or more where something is kept from step to step",
                start_powerSGD_iter=start_powerSGD_iter,
            )
        if matrix_approximation_rank < 1:
            law = "matrix_approximation_rank is 1 or more"
            raise ArgumentError("PowerSGDState", law, given=matrix_approximation_rank)
        self.process_group, self.iter = process_group, 0
        self.matrix_approximation_rank = matrix_approximation_rank
        self.start_powerSGD_iter, self.min_compression_rate = (
            start_powerSGD_iter,
            min_compression_rate,
        )
        self.use_error_feedback, self.warm_start = use_error_feedback, warm_start
        self.orthogonalization_epsilon = orthogonalization_epsilon
        self.error_dict: dict[int, Tensor] = {}
        self.q_memory_dict: dict[int, list[Tensor]] = {}
        self._seeds = python_random.Random(random_seed)

    def compresses(self, matrix: Tensor) -> bool:
        """Whether thin matrices are enough times smaller."""
        n, m = matrix.shape
        few = (n + m) * min(n, m, self.matrix_approximation_rank)
        return few * self.min_compression_rate < n * m

    def first(self, bucket: int, matrices: Sequence[Tensor]) -> list[Tensor]:
        """A thin matrix for each matrix of a bucket to begin with, the same on all ranks."""
        if self.warm_start and bucket in self.q_memory_dict:
            return self.q_memory_dict[bucket]
        generator = Generator().manual_seed(self._seeds.randrange(2**31))
        found = list[Tensor]()
        for x in matrices:
            columns = min(*x.shape, self.matrix_approximation_rank)
            made = randn(x.shape[1], columns, generator=generator, device=x.device)
            found.append(made.to(x.dtype))
        return found


def powerSGD_hook(state: PowerSGDState, bucket: GradBucket) -> Future:  # noqa: N802 - PyTorch's
    """The mean over the ranks of each gradient, as the nearest product of two thin matrices found.

    Biases and other gradients of which little would be saved are averaged as they are.

    Args:
        state: what is kept.
        bucket: the gradients.
    """
    made, row, index = Future(), bucket.buffer(), bucket.index()
    with no_grad():
        if state.iter < state.start_powerSGD_iter:
            _average(state, [row])
        else:
            if state.use_error_feedback and index in state.error_dict:
                row.add_(state.error_dict[index])
            wanted = row.clone() if state.use_error_feedback else None
            matrices, others = list[Tensor](), list[Tensor]()
            for x in bucket.gradients():
                matrix = x.reshape(x.shape[0], -1) if x.ndim > 1 else x.reshape(-1, 1)
                thin = state.compresses(matrix)
                (matrices if thin else others).append(matrix if thin else x)
            _average(state, others)
            _compress(state, index, matrices)
            if wanted is not None:
                state.error_dict[index] = wanted - row
        if bucket.is_last():
            state.iter += 1
    made.set_result(row)
    return made


def _compress(state: PowerSGDState, bucket: int, matrices: Sequence[Tensor]) -> None:
    """Overwrite matrices, the same on all ranks, with what two steps of a power iteration give."""
    if not matrices:
        return
    epsilon = state.orthogonalization_epsilon
    qs = [_orthogonal(q, epsilon) for q in state.first(bucket, matrices)]
    ps = [x @ q for x, q in zip(matrices, qs, strict=True)]
    _average(state, ps)
    ps = [_orthogonal(p, epsilon) for p in ps]
    qs = [x.t() @ p for x, p in zip(matrices, ps, strict=True)]
    _average(state, qs)
    for x, p, q in zip(matrices, ps, qs, strict=True):
        x.copy_(p @ q.t())
    if state.warm_start:
        state.q_memory_dict[bucket] = qs


def _average(state: PowerSGDState, tensors: Sequence[Tensor]) -> None:
    """Overwrite tensors with their means over the ranks, in one exchange."""
    if not tensors:
        return
    size = get_world_size(state.process_group)
    if len(tensors) == 1 and tensors[0].is_contiguous():
        all_reduce(tensors[0], group=state.process_group)
        tensors[0].div_(size)
        return
    row = cat([x.reshape(-1) for x in tensors])
    all_reduce(row, group=state.process_group)
    row.div_(size)
    for x, part in zip(tensors, row.split([x.numel() for x in tensors]), strict=True):
        x.copy_(part.view(x.shape))


def _orthogonal(x: Tensor, epsilon: float) -> Tensor:
    """A matrix with columns of length 1 that span what the columns of another do."""
    if x.shape[1] > 2 and x.dtype.itemsize > 2:
        return qr(x)[0]
    columns = list[Tensor]()
    for column in x.t():
        for before in columns:
            column = column - (column * before).sum() * before
        length = (column * column).sum().sqrt() + epsilon
        columns.append((column / length).nan_to_num_(nan=0.0))
    return zeros(0, x.shape[0]) if not columns else cat([c[:, None] for c in columns], dim=1)
