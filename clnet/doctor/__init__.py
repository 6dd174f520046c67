"""``clnet doctor``: does a device compute what it should?

A stranger's driver is asked small computations of every family of kernels, forward and backward,
eager and compiled, and compared with NumPy in double precision; and what a driver does beside them:
copies, order, barriers, vectors, rounding.

- ``case``: a computation, its reference, how it is asked; ``cases``, ``further``: all of
  them; ``draw``: their inputs; ``reference``: what ops compute, in NumPy;
- ``trial``: what is asked of a driver beside the mathematics of ops;
- ``examine``: all of it, in this process or in one that may die;
- ``incident``: what a program did when it failed, for an issue (``clnet report``);
- ``rate``: products and copies beside the peak of arithmetic;
- ``report``: what was found, as text and JSON, and two reports side by side.
"""

from .examine import everything, examine
from .report import Report, compared, diagnose, read, shown

__all__ = ["Report", "compared", "diagnose", "everything", "examine", "read", "shown"]
