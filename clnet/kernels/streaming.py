"""When a result is stored past the caches: ``stream`` of ``lib/prelude.mako``."""

from __future__ import annotations

from collections.abc import Sequence

from ..array import Array

# Results that the caches would not keep.
STREAM_BYTES = 16 * 2**20
LINE_BYTES = 64
# Panels and packed filters that go past the caches: more than those of second level hold. Besides,
# whoever reads them need not ask for lines that another core has changed.
PACKED_BYTES = 4 * 2**20


def aligned(outputs: Sequence[Array]) -> bool:
    """Whether arrays begin where a line of the caches does, counted from their storages' begin."""
    return not any(a.offset * a.dtype.itemsize % LINE_BYTES for a in outputs)


def streams(out: Array, lanes: int) -> bool:
    """Whether an array, written a whole vector at a time, is stored past the caches.

    Args:
        out: dense.
        lanes: elements of a vector, which have to fill a line.
    """
    whole = lanes * out.dtype.itemsize == LINE_BYTES
    return whole and out.nbytes >= STREAM_BYTES and aligned([out])


def streams_rows(out: Array, n: int, lanes: int) -> bool:
    """Whether rows of ``n`` elements, written a vector at a time, are stored past the caches.

    Args:
        out: dense rows.
        n: their length.
        lanes: elements of a vector, which have to fill a line.
    """
    return n % lanes == 0 and streams(out, lanes)


def streams_packed(packed: Array, lanes: int) -> bool:
    """Whether what is packed for products, a vector at a time, is stored past the caches.

    Args:
        packed: panels of numbers, dense.
        lanes: elements of a vector, which have to fill a line.
    """
    whole = lanes * packed.dtype.itemsize == LINE_BYTES
    return whole and packed.nbytes > PACKED_BYTES and aligned([packed])
