"""The tensor: an array on the tape, with Python's operators and PyTorch's methods."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np

from . import ops
from .array import Array
from .autodiff.data import give_data, take_data
from .autodiff.given import checked_flag, held_by, listed_inputs, require_gradient
from .autodiff.overwrite import node_of, overwrite, refresh, set_node
from .autodiff.tape import Node
from .autodiff.tensor_hook import GradientHooks, HookHandle, add_hooks, hooks_of
from .autodiff.walk import root_gradient, walk_back
from .device import Device, current_device
from .device import device as open_device
from .errors import DtypeError, GradientError, NoAxisError, ShapeError
from .host import Number, OnHost
from .ops.create import Full, MakeInto, held, mark_inference, of_host
from .ops.machinery.autocast import cast
from .ops.machinery.execution import execute
from .ops.machinery.function import PUBLIC_OPS, Face, Function, comparison
from .ops.machinery.lowering import kind_of
from .ops.reinterpret import memory_copied
from .values import mode
from .values.arguments import checked, shown
from .values.changes import FLAGS
from .values.dtypes import DType, from_numpy, of_scalar
from .values.foreign import host_array, host_of
from .values.override import SEQUENCES, is_unknown
from .values.shapes import Size, normalize_dim, size_of
from .values.varying import is_varying


class _First(int):
    """The index of what has no node: 0, told from the 0 of ``Tensor(2, 3, 0)``."""


_FIRST = _First()
_ARRAY = attrgetter("array")
_F = TypeVar("_F", bound=Callable[..., Any])
_NUMBERS = frozenset({int, float, bool, complex})


def _operator(function: _F) -> _F:
    """An op as Python's operator, known by the op's name."""
    door = function.__door__  # pyrefly: ignore[missing-attribute] - what is exported has one
    return checked(door.function, door.op, known_as=function, operator=True)


def _reflected(function: Callable[[Any, Any], Any]) -> Callable[[Tensor, Any], Tensor]:
    def operator(self: Tensor, other: Any) -> Any:
        # Python repeats sequences, [0] * n, and `numbers += x` takes the elements.
        if type(other) not in _NUMBERS and (isinstance(other, SEQUENCES) or is_unknown(other)):
            return NotImplemented
        return function(other, self)

    return operator


class Tensor(OnHost):
    """Elements of one dtype on one device, and how they were made.

    Made by :func:`clnet.tensor`, :func:`clnet.zeros` and their like, and by ops on tensors.

    Attributes:
        array: the elements.
        node: what made it on the tape, None for a leaf.
        index: which output of ``node`` it is.
        source: what it is a view of, and the op that took it; None if it was not taken on record.
        version: the storage's when the tensor was made, or last written on the tape.
        hooks: of its gradient, if it is a leaf; None: there never were any.
    """

    __slots__ = (
        *("__dict__", "__weakref__", "_grad", "_node", "_requires_grad", "array", "hooks", "index"),
        *("source", "version"),
    )
    node = property(node_of, set_node)
    _turned = False  # into a view of what it was
    of_sizes_or_data: ClassVar[Callable[[tuple[Any, ...]], Array]]
    """What ``Tensor(2, 3)`` and ``Tensor([1.0])`` look at, said in ``face/attribute.py``."""
    __array_priority__ = 1000  # a NumPy operand on the left leaves the operator to the tensor

    def __init__(self, array: Any = (), node: Any = None, index: int = _FIRST, *sizes: int) -> None:
        try:
            self.version = array.storage.version
        except AttributeError:  # PyTorch's: of sizes, or of data
            if type(array) is tuple and not array and hasattr(self, "array"):
                return  # a subclass's own, after its __new__
            given = (array, *((node,) if node is not None else ()))
            given += (index, *sizes) if index is not _FIRST else ()
            array, node, index = Tensor.of_sizes_or_data(given), None, 0
            self.version = array.storage.version
        self.array: Array = array
        self._node: Node | None = node
        self.index = index
        self.source: tuple[Tensor, Function] | None = None
        self.hooks: GradientHooks | None = None
        self._grad: Tensor | None = None
        self._requires_grad = False

    @classmethod
    def __apply_function__(cls, function: Function, inputs: tuple[Any, ...]) -> tuple[Tensor, ...]:
        """Run an op and, where a gradient is wanted, put it on the tape."""
        now = mode.current()
        if now.batching and (found := now.batching[-1].applied(function, inputs)) is not None:
            return found
        recording, needed = now.grad, False
        for x in inputs:
            if not isinstance(x, Tensor):
                law, hint = "operands are tensors", "Make one with clnet.tensor(...)"
                raise DtypeError(function.name, law, type=type(x).__name__, remedy=hint)
            array = x.array
            if x.version < array.storage.recorded:
                refresh(function, x)
            if array.dtype.is_complex and not function.takes_complex:
                found = function.of_complex(*inputs)
                return found if isinstance(found, tuple) else (found,)
            if recording and (x._requires_grad or x._node is not None):
                needed = True
        if recording and now.tracer is not None:
            now.tracer.see_flags(inputs)
        if now.autocast is not None:
            function, inputs = cast(now.autocast, function, inputs)
        known = inputs
        if needed and function.mutates:
            if not function.beside:
                overwrite(function, inputs)
                return ()
            known = inputs[: -function.beside]
        arrays = execute(function, tuple(map(_ARRAY, inputs)))
        if needed and arrays:
            needs = tuple([x._requires_grad or x._node is not None for x in known])
            plain = function.repeats and function.sixteen_bit
            kind = arrays[0].form if plain else kind_of(function, inputs, arrays)
            node = Node(function, known, needs, arrays, Tensor, kind)
            flows = function.differentiable
            made: tuple[Tensor, ...] = ()
            for k, a in enumerate(arrays):
                flow = a.dtype.differentiable and (flows is None or k in flows)
                made += (Tensor(a, node, k) if flow else Tensor(a),)
        else:
            made = tuple(map(Tensor, arrays))
            if now.inference:
                mark_inference(arrays, inputs)
        if recording and not function.repeats:
            for x, y in zip(inputs, made, strict=False):
                if y.array.storage is x.array.storage:
                    y.source = (x, function)
        return made

    # What it is.

    @property
    def shape(self) -> Size:
        """Sizes of the axes."""
        return size_of(self.array.shape)

    @property
    def dtype(self) -> DType:
        """The element type."""
        return self.array.dtype

    @property
    def device(self) -> Device:
        """Where its elements are."""
        return self.array.storage.device

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.array.shape)

    @property
    def T(self) -> Tensor:  # noqa: N802 - PyTorch's name
        """The axes in reverse order, without a copy."""
        return self.permute(tuple(range(self.ndim))[::-1])

    @property
    def is_leaf(self) -> bool:
        """Whether no recorded op made it."""
        tracer = mode.current().tracer
        return self.node is None if tracer is None else tracer.is_leaf(self)

    @property
    def requires_grad(self) -> bool:
        """Whether gradients flow to it."""
        if (tracer := mode.current().tracer) is not None:
            tracer.see_flags((self,))
        return self._requires_grad or self.node is not None

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        self.requires_grad_(value)

    def requires_grad_(self, requires_grad: bool = True) -> Tensor:  # noqa: FBT001, FBT002 - PyTorch's
        """Ask for (or stop) gradients to this leaf; returns it.

        Raises:
            GradientError: if it is not a leaf, or not floating.
        """
        flag = checked_flag(self, requires_grad)
        if (tracer := mode.current().tracer) is not None:
            tracer.flagged[id(self)] = self
        before, self._requires_grad = self._requires_grad, flag
        if flag is not before and self.array.storage.moves is not None:
            FLAGS.tell()
        return self

    def size(self, dim: int | None = None) -> Any:
        """The shape, or the size of one axis."""
        return self.shape if dim is None else self.shape[normalize_dim("size", dim, self.ndim)]

    def dim(self) -> int:
        """Number of axes."""
        return self.ndim

    def numel(self) -> int:
        """Number of elements."""
        return self.array.size

    ndimension, nelement = dim, numel

    def is_complex(self) -> bool:
        """Whether its elements are complex numbers."""
        return self.dtype.is_complex

    def is_floating_point(self) -> bool:
        """Whether its elements are floating."""
        return self.dtype.is_floating_point

    @property
    def grad(self) -> Tensor | None:
        """The gradient that ``backward`` collected, of this shape, or None."""
        tracer = mode.current().tracer
        return self._grad if tracer is None else tracer.grad_read(self, self._grad)

    @grad.setter
    def grad(self, value: Tensor | None) -> None:
        require_gradient(self, value)
        tracer = mode.current().tracer
        if tracer is None:
            self._grad = value
        else:
            tracer.grad_written(self, value)

    @grad.deleter
    def grad(self) -> None:
        self.grad = None

    @property
    def retains_grad(self) -> bool:
        """Whether ``backward`` leaves a gradient here although this is no leaf."""
        hooks = None if self.node is None else hooks_of(self)
        return hooks is not None and hooks.kept

    def retain_grad(self) -> None:
        """Have ``backward`` leave the gradient in ``grad``, as leaves have it.

        Raises:
            GradientError: if the tensor requires no gradient.
        """
        hooks = add_hooks("retain_grad", self)
        if self.node is not None:
            hooks.keep_for(self)

    def register_hook(self, hook: Callable[[Tensor], Tensor | None]) -> HookHandle:
        """Call ``hook(grad)`` when all of this tensor's gradient is there; what it returns counts.

        The hooks of leaves are called at the end of the walk, before ``grad`` is added to. In a
        compiled function a hook runs when that is traced; what it computes is part of the plan.

        Args:
            hook: gives None, or another gradient of the same shape, dtype and device.

        Returns:
            A handle whose ``remove()`` takes it away again.

        Raises:
            GradientError: if the tensor requires no gradient.
        """
        return add_hooks("register_hook", self).add(hook)

    def register_post_accumulate_grad_hook(self, hook: Callable[[Tensor], None]) -> HookHandle:
        """Call ``hook(tensor)`` each time that ``backward`` has added to this leaf's ``grad``.

        That is as soon as all of its gradient is there, while the walk goes on.

        Returns:
            A handle whose ``remove()`` takes it away again.

        Raises:
            GradientError: if the tensor requires no gradient, or is no leaf.
        """
        name = "register_post_accumulate_grad_hook"
        if self.node is not None:
            raise GradientError(name, "the tensor is a leaf", remedy="Use register_hook()")
        return add_hooks(name, self).add_accumulated(hook)

    def __len__(self) -> int:
        if not self.shape:
            raise NoAxisError("len", "the tensor has an axis", shape=self.shape)
        return self.shape[0]

    def __reversed__(self) -> Tensor:
        """The tensor, turned round along its first axis, as in PyTorch."""
        return ops.flip(self, 0) if self.ndim else self

    def __iter__(self) -> Iterator[Tensor]:
        if not self.shape:
            law, hint = "the tensor has an axis", "x.item() is its number"
            raise NoAxisError("iter", law, shape=self.shape, remedy=hint)
        return (self[i] for i in range(len(self)))

    def __copy__(self) -> Tensor:
        """A leaf in the same memory, without the gradient."""
        made = _leaf(type(self), self.array, self.requires_grad)
        vars(made).update(vars(self))
        return made

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        if self.node is not None:
            raise GradientError("deepcopy", "only leaves are copied deeply", remedy="Use detach()")
        copied = _leaf(type(self), memory_copied(self.array, memo), self._requires_grad)
        memo[id(self)] = copied
        copied._grad = copy.deepcopy(self._grad, memo)
        vars(copied).update(copy.deepcopy(vars(self), memo))
        return copied

    def __reduce__(self) -> tuple[Any, ...]:
        host = self.detach()._read("pickle").numpy()  # of what is on the tape a leaf is made
        return _unpickled, (type(self), host, self.requires_grad), vars(self) or None

    def detach(self) -> Tensor:
        """The same elements, off the tape."""
        return Tensor(self.array.off_tape())

    def detach_(self) -> Tensor:
        """Take this tensor itself off the tape; returns it."""
        self.node, self._requires_grad, self.array = None, False, self.array.off_tape()
        return self

    @property
    def data(self) -> Tensor:
        """The same elements, which the tape does not watch; or other ones, in their memory."""
        return take_data(self)

    @data.setter
    def data(self, value: Tensor) -> None:
        give_data(self, value)

    def copy_(self, source: Tensor | Number) -> Tensor:
        """Overwrite the elements with those of ``source``, broadcast and converted.

        Raises:
            ShapeError: if ``source`` does not broadcast to the tensor.
            GradientError: if it is on the tape and gradients are recorded.
        """
        given = source if isinstance(source, Tensor) else tensor(source, device=self.device)
        if given.device is not self.device:
            given = given.to(self.device)
        return ops.shape.overwrite(self, given)

    def fill_(self, value: Tensor | Number) -> Tensor:
        """Overwrite every element; returns the tensor.

        Args:
            value: a number, or a tensor without axes, which gets the gradient of all elements.

        Raises:
            ShapeError: if a tensor has axes.
        """
        if isinstance(value, Tensor):
            if value.ndim:
                raise ShapeError("fill_", "value has no axes", value=value.shape)
            return self.copy_(value)
        function = Full(self.shape, held("fill_", value, self.dtype), self.dtype, self.device)
        Tensor.__apply_function__(MakeInto("fill_", function), (self,))
        return self

    def zero_(self) -> Tensor:
        """Overwrite every element with 0; returns the tensor."""
        return self.fill_(0)

    # Gradients.

    def backward(
        self,
        gradient: Tensor | None = None,
        retain_graph: bool | None = None,  # noqa: FBT001 - PyTorch's
        create_graph: bool = False,  # noqa: FBT001, FBT002
        inputs: Any = None,
    ) -> None:
        """Add the gradient of this tensor to ``grad`` of every leaf that requires one, as a whole.

        Args:
            gradient: gradient of the final value with respect to this tensor, of its shape; None
                stands for 1 and needs a tensor of one element.
            retain_graph: keep what the tape saved, to walk it again; None: as ``create_graph``.
            create_graph: record the walk, so that the gradients can be differentiated.
            inputs: the tensors whose ``grad`` is added to, one or several; None: all leaves.

        Raises:
            GradientError: if it requires no gradient, has more than one element and no ``gradient``
                is given, or a saved tensor was freed or changed.
        """
        self.array.require_alone()
        # What the caller or a hook holds is not to become a leaf's, which later passes add to.
        seen = held_by([gradient])
        walk_back(
            [self],
            [root_gradient("backward", self, gradient)],
            listed_inputs(inputs),
            seen,
            retain_graph=create_graph if retain_graph is None else retain_graph,
            create_graph=create_graph,
        )

    # Operators.

    __neg__, __pos__, __abs__ = ops.neg, ops.positive, ops.abs
    __invert__ = ops.bitwise_not
    __matmul__, __rmatmul__ = _operator(ops.matmul), _reflected(ops.matmul)
    __add__, __radd__ = _operator(ops.add), _reflected(ops.add)
    __sub__, __rsub__ = _operator(ops.sub), _reflected(ops.sub)
    __mul__, __rmul__ = _operator(ops.mul), _reflected(ops.mul)
    __truediv__, __rtruediv__ = _operator(ops.div), _reflected(ops.div)
    __floordiv__, __rfloordiv__ = _operator(ops.floor_divide), _reflected(ops.floor_divide)
    __mod__, __rmod__ = _operator(ops.remainder), _reflected(ops.remainder)
    __pow__, __rpow__ = _operator(ops.pow), _reflected(ops.pow)
    __and__, __rand__ = _operator(ops.bitwise_and), _reflected(ops.bitwise_and)
    __or__, __ror__ = _operator(ops.bitwise_or), _reflected(ops.bitwise_or)
    __xor__, __rxor__ = _operator(ops.bitwise_xor), _reflected(ops.bitwise_xor)
    __lshift__, __rlshift__ = _operator(ops.bitwise_left_shift), _reflected(ops.bitwise_left_shift)
    __rshift__, __rrshift__ = (
        _operator(ops.bitwise_right_shift),
        _reflected(ops.bitwise_right_shift),
    )
    __lt__, __le__ = _operator(ops.lt), _operator(ops.le)
    __gt__, __ge__ = _operator(ops.gt), _operator(ops.ge)
    __eq__: Any = comparison(ops.eq)  # elementwise, as PyTorch's
    __ne__: Any = comparison(ops.ne)
    __hash__ = object.__hash__

    if TYPE_CHECKING:  # the methods that ops export are attached below

        def __getattr__(self, name: str) -> Any: ...
        def __getitem__(self, index: Any) -> Tensor: ...


@checked
def tensor(
    data: Any, *, dtype: DType | None = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """A tensor with a copy of the data.

    Args:
        data: a number, nested sequences of numbers, a NumPy array or a tensor, also PyTorch's; or a
            storage, whose bytes are read as elements of ``dtype``.
        dtype: the element type; None: the array's own, the default for floats, int64 for ints.
        device: as :func:`clnet.device` takes it; None: the current one.
        requires_grad: whether gradients flow to it.

    Returns:
        A leaf.

    Raises:
        DtypeError: if clnet or the device has no such type.
        ShapeError: if nested sequences are ragged.
    """
    if hasattr(type(data), "elements_of"):  # a storage
        data = data.elements_of(dtype)
    if isinstance(data, Tensor):
        own = data.detach().to(device=device, dtype=dtype)
        return (ops.clone(own) if own.array is data.array else own).requires_grad_(requires_grad)
    if is_varying(data) and (dtype or of_scalar(data)).is_floating_point:
        return full((), data, dtype=dtype, device=device, requires_grad=requires_grad)
    host = host_array(data, typed=dtype is not None)
    kind = dtype or from_numpy(host.dtype)
    if host.dtype.kind == "c" and not kind.is_complex:
        hint = "Take its real part, or give a complex dtype"
        raise DtypeError("tensor", "the dtype holds the data", dtype=kind, remedy=hint)
    try:
        host = host_of(data, host, kind)
    except (TypeError, ValueError, OverflowError) as error:
        raise DtypeError("tensor", "data are numbers", data=shown(data), error=error) from None
    where = current_device() if device is None else open_device(device)
    return of_host(Tensor, host, where).requires_grad_(requires_grad)


@checked
def full(
    size: int | Sequence[int],
    fill_value: Number,
    *,
    dtype: DType | None = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """A tensor of one value.

    Args:
        size: the shape.
        fill_value: the value.
        dtype: the element type; None: that of the value.
        device: as :func:`clnet.device` takes it; None: the current one.
        requires_grad: whether gradients flow to it.

    Returns:
        A leaf of that shape.
    """
    shape = (size,) if isinstance(size, int) else tuple(size)
    kind = dtype or of_scalar(fill_value)
    target = current_device() if device is None else open_device(device)
    function = Full(shape, held("full", fill_value, kind), kind, target)
    return Tensor.__apply_function__(function, ())[0].requires_grad_(requires_grad)


def _leaf(kind: type[Tensor], array: Array, requires_grad: bool) -> Tensor:  # noqa: FBT001
    """A leaf of a subclass, whatever its constructor takes."""
    Tensor.__init__(made := object.__new__(kind), array)
    return made.requires_grad_(requires_grad)


def _unpickled(kind: type[Tensor], host: np.ndarray, requires_grad: bool) -> Tensor:  # noqa: FBT001
    """A tensor from a pickle, on the current device."""
    return _leaf(kind, Array.from_numpy(host, current_device()), requires_grad)


for _name in ("backward", "copy_", "fill_", "requires_grad_", "size"):
    setattr(Tensor, _name, checked(getattr(Tensor, _name), skip=1))
for _name, (_function, _face) in PUBLIC_OPS.items():
    if Face.METHOD in _face:
        setattr(Tensor, _name.removeprefix("Tensor."), _function)
# Classes that take over ask which of the two it was: monai's splits a batch in one of them only.
Tensor.unbind = checked(PUBLIC_OPS["unbind"][0].__wrapped__, "unbind")  # pyrefly: ignore[missing-attribute]
for _text in (
    *("add add_", "sub sub_", "mul mul_", "truediv div_", "floordiv floor_divide_"),
    *("mod remainder_", "pow pow_", "and bitwise_and_", "or bitwise_or_", "xor bitwise_xor_"),
    *("lshift bitwise_left_shift_", "rshift bitwise_right_shift_"),
):
    _sign, _name = _text.split()
    setattr(Tensor, f"__i{_sign}__", _operator(PUBLIC_OPS[_name][0]))
