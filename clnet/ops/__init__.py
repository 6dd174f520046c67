"""What can be computed, by family; each op is declared in one place, which also exports it."""

from .activation import *
from .arithmetic import *
from .attention import *
from .conv import *
from .create import *
from .function import PUBLIC_OPS as PUBLIC_OPS
from .function import Face as Face
from .function import Function as Function
from .function import execute as execute
from .index import *
from .loss import *
from .margin_loss import *
from .matmul import *
from .norm import *
from .pool import *
from .random import *
from .rearrange import *
from .reduce import *
from .rnn import *
from .shape import *
from .softmax import *
from .softmax import softmax as softmax
from .sort import *
from .sort import sort as sort
