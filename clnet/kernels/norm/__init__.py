"""Normalisation: by channels (batch, group), by rows (layer, RMS), and moments of blocked channels.

Statistics first (:func:`batch_norm_statistics`, in parts where there is much to sum, into
:class:`Running` ones, too), then a
pointwise step (:func:`normalized`, its gradient by :func:`slope`); rows in one pass
(:func:`row_norm`, :func:`row_norm_grad`).
"""

from .blocked_norm import blocked_moments as blocked_moments
from .blocked_norm import blocked_sums as blocked_sums
from .norm import batch_norm as batch_norm
from .norm import batch_norm_grad as batch_norm_grad
from .norm import batch_norm_statistics as batch_norm_statistics
from .norm import group_norm as group_norm
from .norm import group_norm_sums as group_norm_sums
from .norm import normalized as normalized
from .norm import slope as slope
from .norm import spread as spread
from .norm_groups import groups_grad as groups_grad
from .norm_groups import whole_groups as whole_groups
from .row_norm import row_norm as row_norm
from .row_norm_grad import row_norm_grad as row_norm_grad
from .running import Running as Running
from .running import Statistics as Statistics
