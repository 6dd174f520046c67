"""One element of a result from the elements at its place: expressions, and numbers drawn.

:func:`pointwise` launches an expression on arrays of any strides and chooses among
``pointwise_vectors`` (CPUs), ``pointwise_runs`` (GPUs) and ``pointwise_small``;
:func:`pointwise_many` runs one expression on many arrays in one launch. ``random`` makes each
number of its place's counter, ``draws`` those whose parameters are arrays. ``special`` has
functions that take series or recurrences.
"""

from .draws import DRAWN_NUMBERS as DRAWN_NUMBERS
from .draws import draw_binomial as draw_binomial
from .draws import draw_gamma as draw_gamma
from .draws import draw_poisson as draw_poisson
from .pointwise import pointwise as pointwise
from .pointwise_many import MOST_ELEMENTS as MOST_ELEMENTS
from .pointwise_many import most_segments as most_segments
from .pointwise_many import pointwise_many as pointwise_many
from .random_numbers import bernoulli as bernoulli
from .random_numbers import dropout as dropout
from .random_numbers import integers as integers
from .random_numbers import normal as normal
from .random_numbers import uniform as uniform
from .special import RECURRENCES as RECURRENCES
from .special import special as special
