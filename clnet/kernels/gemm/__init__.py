"""Matrix products, ``epilogue(alpha * a @ b + beta * out)``, of any strides, batched.

:func:`gemm` chooses and launches; :func:`pack_for` says how a right operand that is read often is
packed once; :func:`finishes` says whether a product's kernel should apply the expressions of a
:class:`.epilogue.Finish` before it stores its result; :func:`gemm_together` multiplies
several small products in one launch.

The choice: ``gemm_skinny`` (few rows), ``gemm_unpacked`` (up to 16 rows, short sums) and
``gemm_packed`` on CPUs, where ``gemm_pair`` has it multiply bfloat16 (:func:`pairs_fit`),
``gemm_tiled`` on devices with local memory, ``gemm_matrix`` on matrix units (:func:`multiplies`),
``gemm_any`` for what is left. ``gemm_problem`` describes a product, ``gemm_trial`` makes one to
compare candidates on.
"""

from .gemm import Multiplied as Multiplied
from .gemm import finishes as finishes
from .gemm import gemm as gemm
from .gemm import gemm_together as gemm_together
from .gemm import lasting_copy_pays as lasting_copy_pays
from .gemm import pack_for as pack_for
from .gemm import pack_into as pack_into
from .gemm import panel_elements as panel_elements
from .gemm_laid import COPY_BYTES_S as COPY_BYTES_S
from .gemm_laid import COPY_S as COPY_S
from .gemm_laid import copies_fit as copies_fit
from .gemm_laid import laid as laid
from .gemm_matrix import TILES as MATRIX_TILES
from .gemm_matrix import MatrixLoads as MatrixLoads
from .gemm_matrix import MatrixTile as MatrixTile
from .gemm_matrix import multiplies as multiplies
from .gemm_matrix import small as small_matrix_tile
from .gemm_pair import pairs_fit as pairs_fit
from .gemm_problem import BATCH_AXES as BATCH_AXES
from .gemm_problem import Problem as Problem
from .gemm_summed import summed as summed
from .gemm_warpgroup import MAP_WORDS as MAP_WORDS
from .gemm_warpgroup import MOST_STRIDE as MOST_STRIDE
from .gemm_warpgroup import WarpgroupChoice as WarpgroupChoice
from .gemm_warpgroup import WarpgroupSums as WarpgroupSums
from .gemm_warpgroup import emulates_warpgroups as emulates_warpgroups
from .gemm_warpgroup import has_warpgroups as has_warpgroups
from .warpgroup_tile import ALIGNED_BYTES as ALIGNED_BYTES
from .warpgroup_tile import WarpgroupTile as WarpgroupTile

__all__ = [
    "ALIGNED_BYTES",
    "COPY_BYTES_S",
    "COPY_S",
    "MAP_WORDS",
    "MATRIX_TILES",
    "MOST_STRIDE",
    "MatrixLoads",
    "MatrixTile",
    "Multiplied",
    "Problem",
    "WarpgroupChoice",
    "WarpgroupSums",
    "WarpgroupTile",
    "copies_fit",
    "emulates_warpgroups",
    "finishes",
    "gemm",
    "gemm_together",
    "has_warpgroups",
    "laid",
    "lasting_copy_pays",
    "multiplies",
    "pack_for",
    "pack_into",
    "pairs_fit",
    "panel_elements",
    "small_matrix_tile",
    "summed",
]
