"""``torch.distributed.fsdp``: modules whose parameters lie in parts, by PyTorch's names."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from ..errors import ArgumentError
from ..nn.parallel import fully_sharded, wrap_policy
from ..nn.parallel.fully_shard import *
from ..nn.parallel.fully_sharded import *
from ..nn.parallel.sharded import MixedPrecisionPolicy as MixedPrecisionPolicy
from ..optim.grad_scaler import GradScaler as ShardedGradScaler


def _wrap(module: Any, **given: Any) -> Any:
    """A module as one of its own."""
    return fully_sharded.FullyShardedDataParallel(module, **given)


def _refused_block(**given: Any) -> Any:
    """Refuse.

    Raises:
        ArgumentError: always.
    """
    del given
    law, remedy = "modules are wrapped where they are made", "Pass auto_wrap_policy"
    raise ArgumentError("enable_wrap", law, remedy=remedy)


wrap = ModuleType("torch.distributed.fsdp.wrap", "Which modules are gathered on their own.")
wrap.__dict__.update(
    {name: getattr(wrap_policy, name) for name in wrap_policy.__all__},
    wrap=_wrap,
    enable_wrap=_refused_block,
)
sharded_grad_scaler = ModuleType("torch.distributed.fsdp.sharded_grad_scaler")
sharded_grad_scaler.__dict__["ShardedGradScaler"] = ShardedGradScaler
api = fully_sharded_data_parallel = sys.modules[__name__]
