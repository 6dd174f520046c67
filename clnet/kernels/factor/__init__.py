"""Factorizations of matrices, a group a matrix: triangular, orthogonal, and by eigenvalues.

``householder`` makes reflections and applies them, ``triangle`` factors by elimination and solves
triangular systems, ``symmetric`` does so for symmetric matrices, ``spectrum`` finds their
eigenvalues, ``schur`` and ``eigenvectors`` those of others, ``rotations`` singular values. Of
complex matrices ``unitary`` has the reflections, ``complex_triangle`` the elimination and
``complex_schur`` the eigenvalues.
"""

from .complex_schur import complex_eigen as complex_eigen
from .complex_triangle import complex_lu as complex_lu
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
from .unitary import unitary as unitary
from .unitary import unitary_form as unitary_form
from .unitary import unitary_reflect as unitary_reflect
