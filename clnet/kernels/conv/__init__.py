"""Convolutions of plain arrays, in three directions: forward and the gradients of input and weight.

:func:`conv_forward`, :func:`conv_input_grad` and :func:`conv_weight_grad` choose an
:class:`Algorithm` and launch it; :func:`choose`, :func:`fits` and :func:`winograd_obstacle` say
which and why. :func:`im2col` and :func:`col2im` lay out columns for others. A convolution is
described by its :class:`ConvGeometry`; :class:`Operands` and :class:`ConvTrial` make one to
compare candidates on.

The algorithms: ``conv_direct`` and ``conv_planes`` (no memory beside the operands),
``conv_implicit`` with ``conv_implicit_weight`` (a product whose operand is gathered),
``conv_im2col`` (columns, then a product), ``conv_winograd``, ``conv_depthwise``, and
``conv_matrix`` (on matrix units, between images whose channels are dense; :func:`computes_on_units`
says where), which leaves to ``conv_warpgroup`` what 128 items at once do faster; by those
``conv_split``, with ``conv_lines``, computes float32 as three products of TF32, where images lie in
an :class:`Order` that makes it pay; ``conv_volume`` computes volumes of a :class:`VolumeGeometry`
on CPUs as ``conv_direct`` does images; ``conv_parts`` adds up what slices of a sum gave.
"""

from .conv import Algorithm as Algorithm
from .conv import Order as Order
from .conv import choose as choose
from .conv import computes_on_units as computes_on_units
from .conv import conv_forward as conv_forward
from .conv import conv_input_grad as conv_input_grad
from .conv import conv_weight_grad as conv_weight_grad
from .conv import fits as fits
from .conv import pairs_pay as pairs_pay
from .conv import winograd_obstacle as winograd_obstacle
from .conv_geometry import ConvGeometry as ConvGeometry
from .conv_geometry import ConvProblem as ConvProblem
from .conv_geometry import Direction as Direction
from .conv_im2col import col2im as col2im
from .conv_im2col import im2col as im2col
from .conv_log import log_choice as log_choice
from .conv_obstacle import ConvObstacle as ConvObstacle
from .conv_trial import ConvTrial as ConvTrial
from .conv_trial import Operands as Operands
from .conv_volume import VolumeGeometry as VolumeGeometry
from .conv_volume import volume_forward as volume_forward
from .conv_volume import volume_input_grad as volume_input_grad
from .conv_volume import volume_weight_grad as volume_weight_grad
from .conv_volume import volumes_pay as volumes_pay
