"""Convolutions and products of integers of 8 bits, for quantised inference.

Images lie with channels last, ``(n, h, w, c)``, uint8, the channels of a pixel rounded up to fours
(:func:`stored_channels`); :func:`quantise_images` makes them of floats and
:func:`dequantise_images` floats of them, :func:`integer_max_pool` takes maxima of windows and
:func:`add_images` sums. Filters are packed once (:func:`pack_integers`), in the order in which
:func:`integer_conv` reads them; those of one channel each are :func:`integer_depthwise`'s. A linear
layer is a convolution of images of one pixel.

Sums are of 32 bits and exact, so results are the same on every device; what makes floats of them
is one product, and one more and a sum for what is added, each rounded.
"""

from .integer_conv import IntegerEpilogue as IntegerEpilogue
from .integer_conv import Quantisation as Quantisation
from .integer_conv import integer_conv as integer_conv
from .integer_depthwise import depthwise_entries as depthwise_entries
from .integer_depthwise import integer_depthwise as integer_depthwise
from .integer_depthwise import takes_depthwise as takes_depthwise
from .integer_depthwise import takes_filters as takes_filters
from .integer_images import add_images as add_images
from .integer_images import dequantise_images as dequantise_images
from .integer_images import quantise_images as quantise_images
from .integer_images import stored_channels as stored_channels
from .integer_pack import pack_integers as pack_integers
from .integer_pack import packed_shapes as packed_shapes
from .integer_pool import integer_max_pool as integer_max_pool
