"""What can be computed, by family; each op is declared in one place, which also exports it."""

from .activation import *
from .arithmetic import *
from .create import *
from .function import PUBLIC_OPS, Face, Function, execute
from .matmul import *
from .shape import *
