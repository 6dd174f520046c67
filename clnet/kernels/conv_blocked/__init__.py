"""Convolutions between arrays blocked by channels, on CPUs; compiled functions alone hold these.

:func:`choose_form` chooses a :class:`BlockedForm` by an estimate of its cost, or None: stay
plain; :func:`considered` says what stands against each. :func:`blocked_forward`,
:func:`blocked_input_grad` and :func:`blocked_weight_grad` launch it with filters that
:func:`pack_filters` packed; :func:`reorder` makes blocked arrays of plain ones and back.

The algorithms: ``conv_blocked_direct``, ``conv_blocked_winograd``, ``conv_blocked_few_channels``
(few plain channels in front), ``conv_blocked_depthwise`` (a filter for each channel) and
``conv_blocked_grouped`` (groups of channels), both of all three directions, and the weight
gradients ``conv_blocked_gathered_weight``, ``conv_blocked_weight`` (1x1 on large maps) and
``conv_blocked_winograd_weight``.
"""

from .blocked_form import BlockedAlgorithm as BlockedAlgorithm
from .blocked_form import BlockedForm as BlockedForm
from .blocked_form import block_size as block_size
from .conv_blocked import FormChoice as FormChoice
from .conv_blocked import blocked_forward as blocked_forward
from .conv_blocked import blocked_input_grad as blocked_input_grad
from .conv_blocked import blocked_weight_grad as blocked_weight_grad
from .conv_blocked import choose_form as choose_form
from .conv_blocked import considered as considered
from .conv_blocked import pack_filters as pack_filters
from .conv_blocked import packed_size as packed_size
from .conv_blocked import with_packing as with_packing
from .reorder import reorder as reorder
