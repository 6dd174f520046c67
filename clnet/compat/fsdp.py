"""``torch.distributed.fsdp``: names that programs import; weights are not spread over processes."""

from __future__ import annotations

from enum import Enum, auto
from types import ModuleType
from typing import Any, NoReturn

from ..errors import DistributedError
from ..nn import Module
from ..nn.parallel.fully_shard import *
from ..nn.parallel.sharded import MixedPrecisionPolicy

__all__ = [
    "BackwardPrefetch",
    "CPUOffload",
    "FullStateDictConfig",
    "FullyShardedDataParallel",
    "MixedPrecision",
    "ShardingStrategy",
    "StateDictType",
    "fully_shard",
]


class FullyShardedDataParallel(Module):
    """A module whose weights are spread over processes: there is none.

    Raises:
        DistributedError: always.
    """

    def __init__(self, module: Any, *args: Any, **kwargs: Any) -> None:
        super().__init__()
        fully_shard(module)


class StateDictType(Enum):
    """What a state holds."""

    FULL_STATE_DICT = auto()
    LOCAL_STATE_DICT = auto()
    SHARDED_STATE_DICT = auto()


class ShardingStrategy(Enum):
    """What is spread."""

    FULL_SHARD = auto()
    SHARD_GRAD_OP = auto()
    NO_SHARD = auto()
    HYBRID_SHARD = auto()
    _HYBRID_SHARD_ZERO2 = auto()


class BackwardPrefetch(Enum):
    """When weights are asked for."""

    BACKWARD_PRE = auto()
    BACKWARD_POST = auto()


class _Settings:
    """Settings by name, which nothing reads."""

    def __init__(self, *args: Any, **given: Any) -> None:
        self.__dict__.update(given)


class MixedPrecision(_Settings):
    """Dtypes of weights, gradients and buffers."""


class CPUOffload(_Settings):
    """Whether weights lie in the host's memory."""


class FullStateDictConfig(_Settings):
    """How a state is gathered."""


FullOptimStateDictConfig = ShardedStateDictConfig = ShardedOptimStateDictConfig = (
    FullStateDictConfig
)


def _policy(*args: Any, **given: Any) -> bool:
    """False: no module is wrapped."""
    return False


wrap = ModuleType("torch.distributed.fsdp.wrap", "Which modules are spread: none.")
wrap.__dict__.update(
    dict.fromkeys(
        (
            *("_or_policy", "always_wrap_policy", "lambda_auto_wrap_policy"),
            *("size_based_auto_wrap_policy", "transformer_auto_wrap_policy"),
        ),
        _policy,
    ),
    wrap=fully_shard,
)
fully_sharded_data_parallel = ModuleType("torch.distributed.fsdp.fully_sharded_data_parallel")
fully_sharded_data_parallel.__dict__.update(
    {name: value for name, value in globals().items() if not name.startswith("__")}
)
