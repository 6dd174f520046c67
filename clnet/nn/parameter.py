"""What modules train and keep: parameters and buffers, also of a shape that nobody knows yet."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, ClassVar

from ..creation import empty
from ..errors import ArgumentError, ShapeError
from ..face.subclass import disabled
from ..tensor import Tensor
from ..values.arguments import checked_class
from ..values.dtypes import DType
from ..values.plain import require_tensors
from ..values.shapes import Size

__all__ = [
    "Buffer",
    "Parameter",
    "UninitializedBuffer",
    "UninitializedParameter",
    "UninitializedTensorMixin",
    "is_lazy",
]


class Parameter(Tensor):
    """A tensor that a module trains: a leaf that requires a gradient.

    Args:
        data: its first value; the elements are shared, not copied: of one that lies on several
            ranks those of this rank's part. None: there are none.
        requires_grad: whether it is trained.
    """

    __slots__ = ()
    __torch_function__ = staticmethod(disabled)
    """Of subclasses, too: what is called with parameters gives tensors."""

    def __init__(
        self,
        data: Tensor | Any = None,
        requires_grad: bool = True,  # noqa: FBT001, FBT002 - PyTorch's
    ) -> None:
        given = getattr(data, "_local", data)  # of a DTensor
        require_tensors("Parameter", data=empty(0) if given is None else given)
        super().__init__((empty(0) if given is None else given).array)
        self.requires_grad_(requires_grad)

    def __deepcopy__(self, memo: dict[int, Any]) -> Parameter:
        """The elements alone, as PyTorch copies parameters: no gradient, and no shared memory."""
        made = object.__new__(type(self))  # whatever its constructor takes
        Tensor.__init__(made, self.detach().clone().array)
        memo[id(self)] = made.requires_grad_(self.requires_grad)
        vars(made).update(copy.deepcopy(vars(self), memo))
        return made

    def __repr__(self) -> str:
        return f"Parameter containing:\n{super().__repr__()}"


class _BufferClass(type):
    """A buffer is a tensor that says so; every tensor of a module's buffers is an instance."""

    def __call__(cls, data: Tensor | None = None, *, persistent: bool = True) -> Tensor:
        require_tensors("Buffer", data=empty(0) if data is None else data)
        made = (empty(0) if data is None else data).detach()
        vars(made)["is_buffer"] = True
        vars(made)["persistent"] = persistent
        return made

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, Tensor) and "is_buffer" in vars(instance)


class Buffer(metaclass=_BufferClass):
    """A tensor that becomes a buffer of the module it is assigned to.

    Args:
        data: its value; the elements are shared, not copied.
        persistent: whether it belongs to the module's state.
    """


_WITHOUT_ELEMENTS = frozenset(
    "bfloat16 copy_ cpu cuda detach double float get_device half is_complex is_floating_point "
    "requires_grad_ size to type".split()
)
"""What may be asked of a parameter that has no shape yet."""


class UninitializedTensorMixin:
    """What parameters and buffers share whose shape is found at the first forward."""

    cls_to_become: ClassVar[type[Tensor]]
    __slots__ = ()
    __taking_over__ = True

    def __new__(cls, *args: Any, **given: Any) -> Any:
        """Empty, until ``__init__`` says of which dtype."""
        return object.__new__(cls)

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Nothing is computed with what has no elements yet, and would pass for an empty tensor.

        Raises:
            ArgumentError: if it is called with what needs elements.
        """
        if func.__name__ not in _WITHOUT_ELEMENTS:
            raise ArgumentError(
                func.__name__,
                "parameters of a lazy layer have elements after the first forward",
                type=cls.__name__,
                remedy="Call the module once with an example before",
            )
        return disabled(func, types, args, kwargs)

    def share_memory_(self) -> Any:
        """Nothing is there to share.

        Raises:
            ArgumentError: always.
        """
        law = "parameters of a lazy layer have memory after the first forward"
        raise ArgumentError("share_memory_", law, type=type(self).__name__)

    def materialize(
        self, shape: int | Sequence[int], device: Any = None, dtype: DType | None = None
    ) -> None:
        """Become an ordinary one with elements of any value.

        Args:
            shape: its shape.
            device: where; None: where it was to be.
            dtype: of the elements; None: as it was to be.
        """
        own: Any = self
        made = empty(
            shape,
            device=own.device if device is None else device,
            dtype=dtype or own.dtype,
        )
        own.array, own.version = made.array, made.version
        own.__class__ = self.cls_to_become

    @property
    def shape(self) -> Size:
        """There is none yet.

        Raises:
            ShapeError: always.
        """
        raise ShapeError(
            type(self).__name__,
            "the shape is known after the first forward",
            remedy="Call the module once with an example before you look at its parameters",
        )

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"


class UninitializedParameter(UninitializedTensorMixin, Parameter):
    """A parameter of a lazy layer, without a shape.

    Args:
        requires_grad: whether it is trained.
        device: where it will be; None: the current device.
        dtype: of its elements; None: the default.
    """

    __slots__ = ()
    cls_to_become = Parameter

    def __init__(
        self,
        requires_grad: bool = True,  # noqa: FBT001, FBT002 - PyTorch's
        device: Any = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__(empty(0, device=device, dtype=dtype), requires_grad)


class UninitializedBuffer(UninitializedTensorMixin, Tensor):
    """A buffer of a lazy layer, without a shape.

    Args:
        requires_grad: whether gradients flow to it.
        device: where it will be; None: the current device.
        dtype: of its elements; None: the default.
        persistent: whether it belongs to the module's state.
    """

    __slots__ = ()
    cls_to_become = Tensor

    def __init__(
        self,
        requires_grad: bool = False,  # noqa: FBT001, FBT002 - PyTorch's
        device: Any = None,
        dtype: DType | None = None,
        persistent: bool = True,  # noqa: FBT001, FBT002
    ) -> None:
        super().__init__(empty(0, device=device, dtype=dtype).array)
        self.requires_grad_(requires_grad)
        vars(self).update(is_buffer=True, persistent=persistent)


def is_lazy(param: Any) -> bool:
    """Whether it is a parameter or buffer without a shape."""
    return isinstance(param, UninitializedTensorMixin)


checked_class(Parameter)
