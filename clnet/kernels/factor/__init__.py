"""Factorizations of matrices, a group a matrix: triangular, orthogonal, and by eigenvalues.

``householder`` makes reflections and applies them, ``triangle`` factors by elimination and solves
triangular systems, ``symmetric`` does so for symmetric matrices, ``spectrum`` finds their
eigenvalues, ``schur`` those of others, ``rotations`` singular values.
"""

from .householder import householder as householder
from .householder import reflect as reflect
from .rotations import orthogonal_rows as orthogonal_rows
from .schur import general_eigen as general_eigen
from .spectrum import symmetric_eigen as symmetric_eigen
from .symmetric import ldl as ldl
from .symmetric import ldl_substitute as ldl_substitute
from .triangle import cholesky as cholesky
from .triangle import exchanged as exchanged
from .triangle import lu as lu
from .triangle import substitute as substitute
