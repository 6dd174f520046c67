"""What processes exchange: ``clnet.distributed`` under PyTorch's names, on MPI.

``mpirun -n 4 python program.py`` starts the processes, ``init_process_group()`` joins them.
"""

from .membership import *
from .message import *
from .operations import *
from .scattering import *
from .work import Work as Work
from .world import Group as ProcessGroup  # noqa: F401 - PyTorch's name
