"""What can be computed, by family; each op is declared in one place, which also exports it."""

from .activation import *
from .arithmetic import *
from .bilinear import *
from .conv import *
from .conv_nd import *
from .create import *
from .distance import *
from .dropout import *
from .function import PUBLIC_OPS as PUBLIC_OPS
from .function import Face as Face
from .function import Function as Function
from .function import execute as execute
from .grid_sample import *
from .group_norm import *
from .index import *
from .interpolate import *
from .loss import *
from .matmul import *
from .norm import *
from .pad import *
from .pixel import *
from .pool import *
from .pool_nd import *
from .random import *
from .reduce import *
from .shape import *
from .softmax import *
from .unfold import *
