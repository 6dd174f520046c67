"""What exponentiates scores: softmax along an axis, cross entropy over classes, attention.

Each is one kernel a direction that keeps a running maximum, so that nothing overflows; the
gradients are beside them. :func:`read_views` says of attention whether its operands may be views,
:func:`writes_anywhere` whether its results may, :func:`drops_weights` whether it drops weights,
:func:`attends_on_units` whether it is computed on matrix units, of 16-bit numbers as they are.
:class:`Settings` are a cross entropy's, :class:`Scores` and :class:`Drop` an attention's.
"""

from .attention import Drop as Drop
from .attention import Scores as Scores
from .attention import attention as attention
from .attention import attention_grad as attention_grad
from .attention import drops_weights as drops_weights
from .attention import writes_anywhere as writes_anywhere
from .attention_delta import attention_delta as attention_delta
from .attention_delta import in_runs as in_runs
from .attention_matrix import attends_on_units as attends_on_units
from .attention_tiles import read_views as read_views
from .cross_entropy import Settings as Settings
from .cross_entropy import cross_entropy as cross_entropy
from .cross_entropy_grad import cross_entropy_grad as cross_entropy_grad
from .softmax import log_softmax as log_softmax
from .softmax import log_softmax_grad as log_softmax_grad
from .softmax import softmax as softmax
from .softmax import softmax_grad as softmax_grad
