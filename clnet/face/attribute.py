"""What a PyTorch program asks a tensor beside its ops: where it is, how it lies, what it is called.

All of them cost nothing: answers from what the tensor knows, views, and copies to where it is.
"""

# ruff: noqa: FBT001, FBT002 - PyTorch's names and signatures

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any

import numpy as np

from .. import ops
from ..array import Array
from ..autodiff.move import move
from ..autodiff.overwrite import turn
from ..autodiff.tape import Node, version_of
from ..creation import empty
from ..device import DeviceName, cuda_device, current_device, devices
from ..device import device as open_device
from ..errors import ArgumentError, DtypeError, GradientError, ShapeError
from ..ops.convert import converted
from ..ops.machinery.function import PUBLIC_OPS
from ..ops.machinery.pointwise import OF_NUMBERS
from ..ops.shape import alias, in_its_order
from ..tensor import Tensor, tensor
from ..values import mode
from ..values.arguments import checked
from ..values.dtypes import (
    DType,
    Kind,
    as_dtype,
    bfloat16,
    bool_,
    default_float,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
)
from ..values.override import call_over, takes_over, taking_over
from ..values.plain import shown
from ..values.shapes import Size, contiguous_strides, normalize_dim
from ..values.words import WORDS, MemoryFormat
from .storage import UntypedStorage, place_of

__all__ = [
    "TYPE_NAMES",
    "destination",
    "empty_strided",
    "typed_class",
    "typename",
]

_STRIDES = attrgetter("array.strides")
_CONTIGUOUS, _OFFSET = attrgetter("array.contiguous"), attrgetter("array.offset")

TYPE_NAMES: dict[str, DType] = {
    "FloatTensor": float32,
    "DoubleTensor": float64,
    "HalfTensor": float16,
    "BFloat16Tensor": bfloat16,
    "ByteTensor": uint8,
    "CharTensor": int8,
    "ShortTensor": int16,
    "IntTensor": int32,
    "LongTensor": int64,
    "BoolTensor": bool_,
}
"""PyTorch's old names of tensors of a dtype."""
_NAME_OF = {dtype: name for name, dtype in TYPE_NAMES.items()}


def _is_known_type(spelling: str) -> DType:
    """The dtype of ``"torch.FloatTensor"`` and the like.

    Raises:
        ArgumentError: if there is none of that name.
    """
    found = TYPE_NAMES.get(spelling.rpartition(".")[2])
    if found is None:
        raise ArgumentError("type", "there is no such type", type=repr(spelling))
    return found


def _sizes(given: tuple[Any, ...]) -> tuple[Any, ...]:
    """A shape is given as such, not as data of whole numbers; nothing is a line of nothing."""
    if len(given) == 1 and isinstance(given[0], Size):
        return tuple(given[0])
    return given or (0,)


def _shared(given: tuple[Any, ...], dtype: DType, device: Any) -> Tensor | None:
    """The elements of a storage, or of a tensor of the dtype, in its memory; None: it is neither.

    As PyTorch's old constructors have it; a tensor stays on the tape.
    """
    one = given[0] if len(given) == 1 else None
    if isinstance(one, UntypedStorage):
        return one.elements_of(dtype)
    if type(one) is not Tensor or one.dtype is not dtype:
        return None
    return alias(one) if device is None or open_device(device) is one.device else None


class _TypedClass(type):
    """The class of ``clnet.FloatTensor``: called as PyTorch's, an instance is any such tensor."""

    dtype: DType
    place: str | None

    def __call__(cls, *given: Any, device: Any = None) -> Tensor:
        device = device or cls.place
        if (found := _shared(given, cls.dtype, device)) is not None:
            return found
        given = _sizes(given)
        if given and not all(isinstance(n, int) for n in given):
            return tensor(given[0], dtype=cls.dtype, device=device)
        return empty(given, dtype=cls.dtype, device=device)

    def __instancecheck__(cls, instance: Any) -> bool:
        fits = isinstance(instance, Tensor) and instance.dtype is cls.dtype
        return fits and (cls.place is None or _is_on_cuda(instance))


def typed_class(name: str, place: str | None = None) -> Any:
    """``clnet.FloatTensor`` and the like: of sizes, or of data; and the type of such tensors.

    Args:
        name: without a module.
        place: the device of such tensors, ``"cuda"``; None: any.
    """
    dtype = TYPE_NAMES[name]
    return _TypedClass(
        name, (), {"dtype": dtype, "place": place, "__doc__": f"Tensors of {dtype.name}."}
    )


def _is_on_cuda(x: Tensor) -> bool:
    return x.device is cuda_device()


def _grad_fn(x: Tensor) -> Node | None:
    tracer = mode.current().tracer
    if tracer is None or x.node is not None or x.is_leaf:
        return x.node
    return tracer.given(x).node


def _version(x: Tensor) -> int:
    own = version_of(x.array.storage)
    return _asked(x, lambda given: version_of(given.array.storage), since=own)


def _asked(x: Tensor, question: Callable[[Tensor], Any], *, since: Any = None) -> Any:
    """What a tensor answers; in a function that is traced the argument that it stands for does.

    Args:
        x: the tensor.
        question: of a tensor.
        since: what is added to the argument's answer.
    """
    tracer = mode.current().tracer
    if tracer is None:
        return question(x)
    if not tracer.is_given(x):
        tracer.require_laid(x, "stride")
        return question(x)
    answer = tracer.ask(x, question)
    return answer if since is None else answer + since


def _transposed(x: Tensor, name: str = "mT") -> Tensor:
    if x.ndim < 2:
        raise ShapeError(name, "the tensor has two axes or more", shape=x.shape)
    return x.transpose(-2, -1)


def _adjoint(x: Tensor) -> Tensor:
    return ops.conj(_transposed(x, "mH"))


def _matrix_transposed(x: Tensor) -> Tensor:
    if x.ndim not in (0, 2):
        raise ShapeError("H", "the tensor is a matrix", shape=x.shape)
    return x.transpose(0, 1) if x.ndim else x


_PROPERTIES: dict[str, tuple[Callable[[Tensor], Any], str]] = {
    "mT": (_transposed, "The last two axes exchanged, without a copy."),
    "mH": (_adjoint, "As ``mT``; of complex numbers the conjugates."),
    "H": (lambda x: ops.conj(_matrix_transposed(x)), "As ``mH``, of a matrix."),
    "real": (ops.real, "Real parts, a view; a real tensor itself."),
    "imag": (ops.imag, "Imaginary parts of complex numbers, a view."),
    "is_cuda": (_is_on_cuda, "Whether it is on the device that is called ``cuda``."),
    "is_cpu": (lambda x: x.device.type == "cpu", "Whether it is on a CPU."),
    "layout": (lambda x: WORDS["strided"], "``clnet.strided``."),
    "nbytes": (lambda x: x.numel() * x.dtype.itemsize, "Bytes of its elements."),
    "itemsize": (lambda x: x.dtype.itemsize, "Bytes of an element."),
    "is_meta": (lambda x: x.device.type == "meta", "Whether it has a shape, but no elements."),
    "_cdata": (id, "A number of the tensor's own, by which programs know it again."),
    "_version": (
        _version,
        "How often its memory was written in place.",
    ),
    "grad_fn": (_grad_fn, "What made it on the tape; None for a leaf."),
    "names": (lambda x: (None,) * x.ndim, "Axes have no names."),
    "name": (lambda x: None, "Tensors have no names."),
    "output_nr": (lambda x: x.index, "Which output of ``grad_fn`` it is."),
}
_SET = {k: lambda x, v, k=k: getattr(x, k).__setitem__(..., v) for k in ("real", "imag")}
_FALSE = (
    *("is_sparse", "is_sparse_csr", "is_quantized", "is_mps", "is_xpu", "is_xla"),
    *("is_ipu", "is_vulkan", "is_mkldnn", "is_nested", "is_mtia", "is_maia"),
)


def stride(x: Tensor, dim: int | None = None) -> Any:
    """Steps along the axes, in elements, or along one of them."""
    found = _asked(x, _STRIDES)
    return found if dim is None else found[normalize_dim("stride", dim, x.ndim)]


def is_contiguous(x: Tensor, memory_format: MemoryFormat | None = None) -> bool:
    """Whether its elements lie densely in row-major order."""
    return _asked(x, _CONTIGUOUS)


def type_(x: Tensor, dtype: Any = None, non_blocking: bool = False) -> Any:
    """The old name of its type, ``"torch.FloatTensor"``; with a dtype, converted to that."""
    if dtype is None:
        place = "torch.cuda" if _is_on_cuda(x) else "torch"
        return f"{place}.{_NAME_OF[x.dtype]}"
    if isinstance(dtype, str):
        place = "cuda" if dtype.startswith("torch.cuda.") else None
        return x.to(place, dtype=_is_known_type(dtype))
    if isinstance(dtype, _TypedClass):
        return x.to(dtype.place, dtype=dtype.dtype)
    return x.to(dtype=default_float() if dtype is Tensor else as_dtype(dtype))


def cuda(
    x: Tensor,
    device: Any = None,
    non_blocking: bool = False,
    memory_format: MemoryFormat | None = None,
) -> Tensor:
    """On the device that is called ``cuda`` (``clnet.cuda.use``)."""
    return x.to("cuda" if device is None or isinstance(device, int) else device)


def data_ptr(x: Tensor) -> int:
    """Where its first element is in the host's memory, which is waited for.

    Where it is not the host's memory, and while a function is traced, it is a number that two
    tensors share whose first elements are the same memory, and no address. On ``meta`` it is 0.
    """
    if not x.numel() or x.device.type == "meta":
        return 0
    return place_of(x) + x.array.offset * x.dtype.itemsize


def get_device(x: Tensor) -> int:
    """The number of its device; -1 on a CPU."""
    return -1 if x.device.type == "cpu" else x.device.index


def storage_offset(x: Tensor) -> int:
    """Elements of the memory before the first."""
    return _asked(x, _OFFSET)


def is_signed(x: Tensor) -> bool:
    """Whether its dtype holds numbers below 0."""
    return x.dtype.kind is not Kind.BOOL and x.dtype is not uint8


def is_nonzero(x: Tensor) -> bool:
    """Whether the only element is not 0; waits for the device."""
    if x.numel() != 1:
        raise ShapeError("is_nonzero", "the tensor has one element", shape=x.shape)
    return bool(x)


def is_same_size(x: Tensor, other: Tensor) -> bool:
    """Whether the shapes are the same."""
    return x.shape == other.shape


def is_set_to(x: Tensor, tensor: Tensor) -> bool:
    """Whether both are the same elements of the same memory, in the same order."""
    a, b = x.array, tensor.array
    same = (a.shape, a.strides, a.offset) == (b.shape, b.strides, b.offset)
    return a.storage is b.storage and same


def is_inference(x: Tensor) -> bool:
    """Whether its memory was first used in ``inference_mode``; it may be computed with as any."""
    return x.array.storage.inference


def _no(x: Tensor) -> bool:
    """False: there are no such tensors."""
    return False


def itself(x: Tensor, *args: Any, **given: Any) -> Tensor:
    """The tensor itself: memory is neither pinned nor shared between processes."""
    return x


def new(x: Tensor, *given: Any, size: Sequence[int] | None = None, device: Any = None) -> Tensor:
    """A tensor of its dtype on its device: of sizes, or of data; a tensor's or storage's memory."""
    if size is not None:
        given = (Size(size),)
    where = x.device if device is None else open_device(device)
    if given and isinstance(given[0], str | bytes):
        raise DtypeError("new", "it takes sizes or data", given=shown(given[0]))
    if (found := _shared(given, x.dtype, where)) is not None:
        return found
    given = _sizes(given)
    if given and not all(isinstance(n, int) for n in given):
        try:
            return tensor(given[0], dtype=x.dtype, device=where)
        except DtypeError as error:
            raise DtypeError("new", error.law, remedy=error.remedy, **error.values) from None
    return empty(given, dtype=x.dtype, device=where)


def apply_(x: Tensor, callable: Callable[[Any], Any]) -> Tensor:  # noqa: A002 - PyTorch's
    """Overwrite each element with what a function of Python numbers gives, on the host."""
    flat = [callable(value) for value in x.detach().reshape(-1).tolist()]
    return x.copy_(tensor(flat, dtype=x.dtype, device=x.device).reshape(x.shape))


def map_(x: Tensor, tensor: Tensor, callable: Callable[[Any, Any], Any]) -> Tensor:  # noqa: A002
    """Overwrite each element with a function of it and the one beside it, on the host."""
    other = tensor.detach().expand(x.shape).reshape(-1).tolist()
    values = iter(other)
    return apply_(x, lambda value: callable(value, next(values)))


def map2_(x: Tensor, x1: Tensor, x2: Tensor, callable: Callable[..., Any]) -> Tensor:  # noqa: A002
    """Overwrite each element with a function of it and those of two others, on the host."""
    beside = [y.detach().expand(x.shape).reshape(-1).tolist() for y in (x1, x2)]
    values = zip(*beside, strict=True)
    return apply_(x, lambda value: callable(value, *next(values)))


def become(x: Tensor, take: Callable[[Tensor], Tensor], name: str) -> Tensor:
    """Let a tensor itself be a view of what it was; returns it.

    Args:
        x: the tensor.
        take: gives the view.
        name: of the op that gives it.

    Raises:
        GradientError: of a leaf that requires gradients, while they are recorded.
    """
    if x.is_leaf and x.requires_grad and mode.current().grad:
        raise GradientError(
            f"{name}_",
            "a leaf that requires gradients is not changed in place while they are recorded",
            shape=x.shape,
            remedy=f"Do it under clnet.no_grad(), or use {name}",
        )
    turn(x, take, f"{name}_")
    return x


def _in_place(name: str) -> Callable[..., Tensor]:
    """A view that the tensor itself becomes: ``unsqueeze_`` of ``unsqueeze``."""
    function = PUBLIC_OPS[name][0]

    def view(x: Tensor, *args: Any, **given: Any) -> Tensor:
        return become(x, lambda before: function(before, *args, **given), name)

    view.__name__ = view.__qualname__ = f"{name}_"
    view.__doc__ = f"Let the tensor itself become its :func:`{name}`; returns it."
    return view


VIEWS_IN_PLACE = ("squeeze", "unsqueeze", "t", "transpose", "swapaxes", "swapdims")


@checked
def empty_strided(
    size: Sequence[int],
    stride: Sequence[int],
    *,
    dtype: DType | None = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """A tensor of a shape with elements of any value; they lie densely whatever the strides.

    Raises:
        ArgumentError: if a stride is negative, or there is not one for each size.
    """
    if len(size) != len(stride) or min(stride, default=0) < 0:
        law = "there is a stride of 0 or more for each size"
        raise ArgumentError("empty_strided", law, size=tuple(size), stride=tuple(stride))
    where = current_device() if device is None else device
    x = empty(*size, dtype=dtype, device=where, requires_grad=requires_grad)
    order = sorted(range(len(size)), key=lambda axis: -stride[axis])
    dense = contiguous_strides(tuple(size[axis] for axis in order))
    if [stride[axis] for axis in order] == list(dense):  # the axes in another order
        laid = empty(*(size[axis] for axis in order), dtype=dtype, device=where)
        laid = laid.permute([order.index(axis) for axis in range(len(size))])
        return laid.requires_grad_(requires_grad)
    return x


def typename(obj: Any) -> str:
    """The name of an object's type: of a tensor the old one, ``"torch.FloatTensor"``.

    Of a class or a function its own, with the module.
    """
    if isinstance(obj, Tensor):
        return type_(obj)
    place = getattr(obj, "__module__", None) or type(obj).__module__
    own = getattr(obj, "__qualname__", None) or getattr(obj, "__name__", None)
    name = own or type(obj).__qualname__
    return name if place == "builtins" else f"{place}.{name}"


_FLAGS = {"non_blocking", "memory_format", "copy"}


def destination(
    op_name: str, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Any, DType | None]:
    """The device and the dtype that a call of ``to`` names.

    Args:
        op_name: for the errors.
        args: devices, dtypes, tensors, and PyTorch's flags.
        kwargs: ``device``, ``dtype``, ``other`` and the flags.

    Raises:
        DtypeError: if there is an argument that ``to`` does not take.
        ArgumentError: if the memory format is none.
    """
    device, dtype = kwargs.get("device"), kwargs.get("dtype")
    unknown = kwargs.keys() - {"device", "dtype", "other", "tensor", *_FLAGS}
    if unknown:
        raise DtypeError(op_name, "it takes no argument of that name", unexpected=sorted(unknown))
    order = kwargs.get("memory_format")
    if not (order is None or isinstance(order, MemoryFormat)):
        law = "memory_format is a MemoryFormat"
        raise ArgumentError(op_name, law, memory_format=shown(order))
    if args and isinstance(args[0], bool):
        law = "a dtype, a device or a tensor comes before the flags"
        raise DtypeError(op_name, law, first=args[0])
    given = "device" in kwargs
    for arg in (*args, kwargs.get("other"), kwargs.get("tensor")):
        if isinstance(arg, Tensor):
            dtype, device = arg.dtype, arg.device
        elif isinstance(arg, DType):
            dtype = arg
        elif isinstance(arg, str | DeviceName | int | np.integer) and type(arg) is not bool:
            if given:
                law = "one device is named"
                raise DtypeError(op_name, law, device=shown(kwargs["device"]), too=shown(arg))
            device = arg
        elif arg is not None and type(arg) is not bool:
            dtype = as_dtype(arg)
    return device, None if dtype is None else as_dtype(dtype)


def to(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Converted to a dtype, moved to a device, or both; itself if nothing changes.

    Args:
        self: the tensor.
        *args: a dtype, a device (or its name), or a tensor to be like.
        **kwargs: ``device=``, ``dtype=``, ``copy=True`` for another tensor in any case; PyTorch's
            ``non_blocking`` is taken, and ``memory_format`` as by :func:`clone`.

    Returns:
        The tensor. A move between devices goes through the host, and the gradient goes back.

    Raises:
        TraceError: if it would leave its device in a function that is compiled.
    """
    if args and takes_over(type(args[0])) and mode.current().takes_over:
        return call_over(taking_over(args), vars(Tensor)["to"], (self, *args), kwargs)
    device, dtype = destination("to", args, kwargs)
    order = kwargs.get("memory_format")
    result = self if dtype is None else converted(self, dtype, order)
    target = result.device if device is None else open_device(device)
    if target is result.device:
        again = kwargs.get("copy") and result is self
        return ops.clone(result, memory_format=order) if again else result
    return in_its_order(result, lambda x: move(x, target), order)


def cpu(x: Tensor, memory_format: MemoryFormat | None = None) -> Tensor:
    """On the host's processor as an OpenCL device; itself if it is there, or if there is none."""
    if x.device.type == "cpu" or not any(f.handle and f.kind.value == "cpu" for f in devices()):
        return x
    return x.to("cpu")


def where(x: Tensor, condition: Tensor, other: Any) -> Tensor:
    """Its elements where the condition is true, else those of ``other``, broadcast."""
    return ops.where(condition, x, other)


def element_size(x: Tensor) -> int:
    """Bytes of an element."""
    return x.dtype.itemsize


def _of_sizes_or_data(given: tuple[Any, ...]) -> Array:
    """The elements of ``Tensor(2, 3)``, of any value, or of ``Tensor([1.0, 2.0])``."""
    if len(given) == 1 and not isinstance(given[0], int):
        one = given[0]
        if isinstance(one, Tensor):
            return one.array
        return (empty(*one) if isinstance(one, Size) else tensor(one, dtype=default_float())).array
    return empty(*given).array


Tensor.to = to
Tensor.of_sizes_or_data = staticmethod(_of_sizes_or_data)


def new_of(x: Tensor, host: np.ndarray) -> Tensor:
    """A tensor of an array on the device of ``x``, of the array's dtype."""
    return tensor(host, device=x.device)


def contains(x: Tensor, value: Any) -> bool:
    """``value in x``: whether an element equals it; waits for the device."""
    return bool(ops.any(ops.eq(x, value)))


def rounded(x: Tensor, digits: int = 0) -> Tensor:
    """``round(x)``: the elements rounded, as tensors are."""
    return ops.round(x, decimals=digits)


def dim_order(x: Tensor, ambiguity_check: Any = False) -> tuple[int, ...]:
    """The axes from the outermost in memory to the innermost.

    Args:
        x: any tensor.
        ambiguity_check: refuse a tensor whose axes might be in another order: True, or formats
            among which is one alone.

    Raises:
        ArgumentError: if the order is ambiguous.
    """
    found = tuple(sorted(range(x.ndim), key=lambda a: (-x.stride()[a], a)))
    steps = [x.stride()[a] for a in found]
    if ambiguity_check and (len(set(steps)) != len(steps) or 1 in x.shape):
        raise ArgumentError("dim_order", "axes are in one order", shape=x.shape, stride=x.stride())
    return found


_METHODS: dict[str, Callable[..., Any]] = {
    "type": type_,
    "new_of": new_of,
    "__contains__": contains,
    "__round__": rounded,
    "__trunc__": Tensor.__int__,
    **{f.__name__: f for f in (stride, is_contiguous, cuda, data_ptr, get_device, storage_offset)},
    **{f.__name__: f for f in (cpu, where, element_size)},
    **{f.__name__: f for f in (is_signed, is_nonzero, is_same_size, is_set_to, is_inference, new)},
    **{f.__name__: f for f in (apply_, map_, map2_)},
    **dict.fromkeys(("pin_memory", "share_memory_"), itself),
    **dict.fromkeys(("is_pinned", "is_shared", "is_distributed"), _no),
    "dim_order": dim_order,
}

for _name, (_get, _doc) in _PROPERTIES.items():
    setattr(Tensor, _name, property(_get, _SET.get(_name), doc=_doc))
for _name in _FALSE:
    setattr(Tensor, _name, property(lambda x: False, doc="False: there are no such tensors."))
for _name, _function in _METHODS.items():
    setattr(Tensor, _name, checked(_function, _name, skip=1) if _function is not itself else itself)
for _name in VIEWS_IN_PLACE:
    setattr(Tensor, f"{_name}_", _in_place(_name))
OF_NUMBERS.update(dict.fromkeys(("add", "sub", "mul", "div", "floor_divide"), tensor))
