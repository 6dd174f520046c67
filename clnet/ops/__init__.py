"""What can be computed, by family; each op is declared in one place, which also exports it."""

from typing import TYPE_CHECKING

from .activation import *
from .arithmetic import *
from .attention import *
from .chain import *
from .complex_parts import *
from .contraction import *
from .conv import *
from .conv_nd import *
from .convert import *
from .covariance import *
from .create import *
from .ctc import *
from .definite import *
from .distance import *
from .distinct import *
from .dropouts import *
from .eigen import *
from .elimination import *
from .embedding import *
from .embedding_bags import *
from .fake_quantize import *
from .fractional_pool import *
from .gamma import *
from .group_norms import *
from .grouped import *
from .indefinite import *
from .index import *
from .inplace import *
from .join import *
from .leastsquares import *
from .likelihood_loss import *
from .loss import *
from .lowrank import *
from .machinery.execution import execute as execute
from .machinery.function import PUBLIC_OPS as PUBLIC_OPS
from .machinery.function import Face as Face
from .machinery.function import Function as Function
from .margin_loss import *
from .masked import *
from .mathematics import *
from .matmul import *
from .multihead import *
from .norm import *
from .numeric import *
from .orthogonal import *
from .padding import *
from .patches import *
from .pixel import *
from .pool import *
from .pool_nd import *
from .quantile import *
from .random import *
from .random_choice import *
from .rearrange import *
from .reduce import *
from .reinterpret import *
from .replacement import *
from .resampling import *
from .rnn import *
from .row_norm import *
from .sampling import *
from .scan import *
from .scatter import *
from .search import *
from .segment import *
from .shape import *
from .softmax import *
from .softmax import softmax as softmax
from .sort import *
from .sort import sort as sort
from .special import *
from .special_functions import *
from .spectral import *
from .stacking import *
from .statistic import *
from .subscript import *
from .synonym import *
from .triangular import *
from .vector import *

if TYPE_CHECKING:  # modules use others of these names, too, which a checker takes from the last
    from .arithmetic import floor as floor
    from .arithmetic import floor_divide as floor_divide
    from .arithmetic import log1p as log1p
    from .arithmetic import mul as mul
    from .arithmetic import remainder as remainder
    from .arithmetic import sqrt as sqrt
    from .masked import where as where
    from .mathematics import isfinite as isfinite
    from .numeric import mode as mode
    from .reduce import prod as prod
    from .scatter import one_hot as one_hot
    from .stacking import adjoint as adjoint

# What is shown here checks its arguments; the modules' own names, by which ops call each other, do
# not.
for _name, (_function, _) in PUBLIC_OPS.items():
    globals()[_name if _name.isidentifier() else _function.__name__] = _function
