"""Along axes: sums and other folds, their places (argmax), running sums; distances of rows.

:func:`reduce` folds any axes by a :class:`Reduction`, :func:`reduce_pairs` what a :class:`Pairing`
makes of two arrays, :func:`reduce_spread` gives variances; :func:`reduce_many` measures many arrays
in one launch; :func:`arg_reduce` gives places; :func:`scan`, :func:`running_extreme` and
:func:`running_logsum` run along one axis; :func:`check` reports elements that are :class:`Bad`;
:func:`distances` are those of all rows of two matrices, and :func:`differences` what their
gradients are sums of.
"""

from .arg_reduce import arg_reduce as arg_reduce
from .check import Bad as Bad
from .check import check as check
from .distances import differences as differences
from .distances import distances as distances
from .reduce import Reduction as Reduction
from .reduce import reduce as reduce
from .reduce_many import Measure as Measure
from .reduce_many import reduce_many as reduce_many
from .reduce_pairs import Pairing as Pairing
from .reduce_pairs import reduce_pairs as reduce_pairs
from .reduce_spread import reduce_spread as reduce_spread
from .running_extreme import running_extreme as running_extreme
from .running_logsum import running_logsum as running_logsum
from .running_logsum import running_logsum_gradient as running_logsum_gradient
from .running_product_slope import running_product_slope as running_product_slope
from .scan import Scan as Scan
from .scan import scan as scan
