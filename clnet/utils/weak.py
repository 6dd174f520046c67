"""``torch.utils.weak``: weak references that compare by identity, and tables of such keys.

A tensor's ``==`` gives a tensor, so tables of the standard library cannot have tensors as keys.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Mapping, MutableMapping
from typing import Any

__all__ = ["TensorWeakRef", "WeakIdKeyDictionary", "WeakIdRef", "WeakTensorKeyDictionary"]


class WeakIdRef(weakref.ref[Any]):
    """A weak reference that equals another if both are to one living object.

    Args:
        key: the object.
        callback: called with the reference when the object is gone.
    """

    __slots__ = ("_id",)
    _id: int

    def __new__(cls, key: Any, callback: Any = None) -> WeakIdRef:
        """The reference."""
        made = super().__new__(cls, key, callback)
        made._id = id(key)  # of a dead object too: tables must find what they drop
        return made

    def __hash__(self) -> int:
        return self._id

    def __eq__(self, other: object) -> bool:
        here = self()
        there = other() if isinstance(other, weakref.ref) else None
        return self is other if here is None or there is None else here is there


class TensorWeakRef:
    """A weak reference to a tensor, called to get it, or None."""

    def __init__(self, tensor: Any) -> None:
        self.ref = weakref.ref(tensor)

    def __call__(self) -> Any:
        """The tensor; None if it is gone."""
        return self.ref()


class WeakIdKeyDictionary(MutableMapping[Any, Any]):
    """A table whose keys are compared by identity, and dropped with the objects.

    Args:
        dict: what is in it at first.
        ref_type: the class of the references.
    """

    def __init__(self, dict: Any = None, ref_type: Any = WeakIdRef) -> None:  # noqa: A002 - PyTorch's
        self.ref_type = ref_type
        self.data: Any = {}
        own = weakref.ref(self)

        def dropped(gone: Any) -> None:
            table = own()
            if table is not None:
                table.data.pop(gone, None)

        self._dropped = dropped
        if dict is not None:
            self.update(dict)

    def __getitem__(self, key: Any) -> Any:
        return self.data[self.ref_type(key)]

    def __setitem__(self, key: Any, value: Any) -> None:
        self.data[self.ref_type(key, self._dropped)] = value

    def __delitem__(self, key: Any) -> None:
        del self.data[self.ref_type(key)]

    def __contains__(self, key: object) -> bool:
        try:
            return self.ref_type(key) in self.data
        except TypeError:  # what cannot be referred to weakly
            return False

    def __len__(self) -> int:
        return len(self.data)

    def __iter__(self) -> Iterator[Any]:
        for reference in [*self.data]:
            key = reference()
            if key is not None:
                yield key

    def __repr__(self) -> str:
        return f"<{type(self).__name__} at {id(self):#x}>"

    def keyrefs(self) -> list[Any]:
        """The references."""
        return [*self.data]

    def copy(self) -> WeakIdKeyDictionary:
        """Another table of the same keys and values."""
        made = type(self)(ref_type=self.ref_type)
        made.update(self)
        return made

    __copy__ = copy

    def __ior__(self, other: Mapping[Any, Any]) -> Any:
        self.update(other)
        return self


WeakTensorKeyDictionary = WeakIdKeyDictionary
WeakRef = weakref.ref
