"""Data sets, samplers and a loader that yields tensors, as ``torch.utils.data`` has them.

``dataset`` holds examples by index or in a stream, ``sampler`` says which come when, ``collate``
makes a batch of tensors of examples, ``loader`` puts these together and ``worker`` has processes
make batches ahead. ``clnet.data`` is the sibling whose batches are NumPy arrays, made by threads.
"""

from __future__ import annotations

from types import ModuleType

from . import collate as _collate
from . import loader as dataloader  # noqa: F401 - PyTorch's name
from . import sampler as distributed  # noqa: F401
from . import worker as _worker
from .collate import default_collate, default_convert
from .dataset import (
    ChainDataset,
    ConcatDataset,
    Dataset,
    IterableDataset,
    StackDataset,
    Subset,
    TensorDataset,
    random_split,
)
from .loader import DataLoader
from .passes import Kind as _DatasetKind  # noqa: F401
from .pipes import IterDataPipe, MapDataPipe, datapipes, graph_settings  # noqa: F401
from .sampler import (
    BatchSampler,
    DistributedSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)
from .worker import WorkerInfo, get_worker_info

__all__ = [
    "BatchSampler",
    "ChainDataset",
    "ConcatDataset",
    "DataLoader",
    "Dataset",
    "DistributedSampler",
    "IterDataPipe",
    "IterableDataset",
    "MapDataPipe",
    "RandomSampler",
    "Sampler",
    "SequentialSampler",
    "StackDataset",
    "Subset",
    "SubsetRandomSampler",
    "TensorDataset",
    "WeightedRandomSampler",
    "WorkerInfo",
    "default_collate",
    "default_convert",
    "get_worker_info",
    "random_split",
]

_utils = ModuleType("torch.utils.data._utils", "Where packages look for what makes batches.")
_pinning = ModuleType("torch.utils.data._utils.pin_memory", "Memory that a device reads as it is.")
_pinning.__dict__["pin_memory"] = lambda data, device=None: data
_signals = ModuleType("torch.utils.data._utils.signal_handling", "Nothing is done at signals.")
for _name in ("_set_worker_signal_handlers", "_set_worker_pids", "_remove_worker_pids"):
    _signals.__dict__[_name] = lambda *args: None
for _name in ("_set_SIGCHLD_handler", "_error_if_any_worker_fails"):
    _signals.__dict__[_name] = lambda: None
_utils.__dict__.update(collate=_collate, worker=_worker, pin_memory=_pinning)
_utils.__dict__.update(signal_handling=_signals, HAS_NUMPY=True, python_exit_status=False)
_utils.__dict__["MP_STATUS_CHECK_INTERVAL"] = 5.0  # seconds
