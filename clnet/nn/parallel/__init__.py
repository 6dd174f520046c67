"""``nn.parallel``: a module on several devices, or in several processes."""

from . import distributed as distributed
from . import parts as _functions  # noqa: F401 - PyTorch's name
from . import scatter_gather as scatter_gather
from .data_parallel import DataParallel as DataParallel
from .data_parallel import data_parallel as data_parallel
from .data_parallel import gather as gather
from .data_parallel import replicate as replicate
from .data_parallel import scatter as scatter
from .distributed import DistributedDataParallel as DistributedDataParallel
from .parts import parallel_apply as parallel_apply
from .sync_batch_norm import SyncBatchNorm as SyncBatchNorm
