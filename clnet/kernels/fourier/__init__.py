"""Discrete Fourier transforms: of lines whose length is a product of 2, 3, 5 and 7.

What is longer, or has other factors, is made of these by ``ops/fourier.py``.
"""

from .stockham import longest_line as longest_line
from .stockham import radices_of as radices_of
from .stockham import transform_lines as transform_lines
