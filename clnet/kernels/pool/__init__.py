"""Maxima and means over windows, of plain and of blocked planes; sums along axes; samples.

Weighted sums go along axes, samples are taken at the places of a grid. A window is a
:class:`Window`, or a :class:`Window3` for volumes. Each function has its gradient beside it.
``pool_vectors`` is the CPUs' way through plain float32 planes; ``max_pool`` and ``avg_pool`` choose
it or a kernel for all shapes.
"""

from .avg_pool import adaptive_avg_pool as adaptive_avg_pool
from .avg_pool import adaptive_avg_pool_gradient as adaptive_avg_pool_gradient
from .avg_pool import avg_pool as avg_pool
from .avg_pool_grad import avg_pool_gradient as avg_pool_gradient
from .axis_map import axis_map as axis_map
from .blocked_means import Means as Means
from .blocked_means import blocked_avg_pool as blocked_avg_pool
from .blocked_means import blocked_avg_pool_gradient as blocked_avg_pool_gradient
from .blocked_pool import blocked_max_pool as blocked_max_pool
from .blocked_pool import blocked_max_pool_gradient as blocked_max_pool_gradient
from .grid_sample import Taps as Taps
from .grid_sample import grid_sample as grid_sample
from .grid_sample import grid_sample_image as grid_sample_image
from .grid_sample import grid_sample_places as grid_sample_places
from .last_max_pool import last_max_pool as last_max_pool
from .last_max_pool import last_max_pool_gradient as last_max_pool_gradient
from .max_pool import max_pool as max_pool
from .max_pool import max_pool_gradient as max_pool_gradient
from .window import Window as Window
from .window_max import Window3 as Window3
from .window_max import window_max as window_max
