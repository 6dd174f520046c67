"""Elements by their indices, and orders: gather and its gradients, scatter, sort.

Gradients add up what went to one place in a fixed order: indices are sorted first (:func:`sort`),
then ``segment`` sums each run. Whole numbers are counted by atomics, which know no order.
"""

from .bag_sums import bag_sums as bag_sums
from .bag_sums import sums_bags as sums_bags
from .count import search_rows as search_rows
from .count import tally as tally
from .gather import extremes_along as extremes_along
from .gather import fold_indices as fold_indices
from .gather import gather_along as gather_along
from .gather import gather_along_gradient as gather_along_gradient
from .gather import gather_rows as gather_rows
from .gather import gather_rows_gradient as gather_rows_gradient
from .gather import meet_along as meet_along
from .gather import meets_in_order as meets_in_order
from .gather import multiplies_along as multiplies_along
from .gather import multiply_along_gradient as multiply_along_gradient
from .gather import put_along as put_along
from .gather import put_rows as put_rows
from .gather import takes_extremes as takes_extremes
from .order import sort_lines as sort_lines
from .segment import starts_of_runs as starts_of_runs
from .sort import sort as sort
from .top import beats_sorting as beats_sorting
from .top import top as top
from .true_places import MOST_AXES as MOST_AXES
from .true_places import true_places as true_places
from .true_places import unravel as unravel
from .unordered import first_extreme as first_extreme
