"""How ops are written as nodes: an exporter for each, by family.

An op without one is written as what it decomposes into, if it says that.
"""

from . import index, layers, pointwise, recurrent, shape, windows
from .registry import EXPORTERS, Exporter, Given, NotExported, exporter

__all__ = [
    "EXPORTERS",
    "Exporter",
    "Given",
    "NotExported",
    "exporter",
    "index",
    "layers",
    "pointwise",
    "recurrent",
    "shape",
    "windows",
]
