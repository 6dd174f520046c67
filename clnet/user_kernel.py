"""``clnet.kernel``: OpenCL C that a user writes, launched on tensors like a kernel of clnet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any, NoReturn

from . import ops
from .array import Array
from .device import Launch, Target
from .errors import ArgumentError, DeviceError, DtypeError, GradientError, ShapeError
from .kernels.grid import in_groups, items
from .kernels.template import render_source
from .kernels.user_source import Parameter, UserSource
from .ops.machinery.function import Arrays, Function, apply
from .tensor import Tensor
from .values.arguments import checked, integer, is_sequence, is_tensor, number, shown
from .values.dtypes import Kind
from .values.shapes import Shape, round_up

__all__ = ["UserKernel", "kernel"]

_SQUARE = 16
_DIMENSIONS = 3


class Launched(Function):
    """One launch of a user's kernel."""

    source: UserSource
    shapes: tuple[Shape, ...]
    numbers: tuple[Any, ...]
    global_size: tuple[int, ...]
    local_size: tuple[int, ...] | None
    flops: int

    @property
    def name(self) -> str:
        """The kernel's."""
        return self.source.name

    def infer(self, *inputs: Array) -> tuple[Array, ...]:
        dtypes = [p.dtype for p in self.source.parameters if p.written]
        device = inputs[0].device
        return tuple(
            Array.abstract(shape, dtype, device)
            for shape, dtype in zip(self.shapes, dtypes, strict=True)
        )

    def lower(self, target: Target, outputs: Arrays, inputs: Arrays) -> list[Launch]:
        local = self.local_size or _local_size(target, self.global_size)
        if prod(local) > target.traits.max_group_size:
            _refuse(
                self.name,
                "a group has no more work-items than the device allows",
                local_size=local,
                allowed=target.traits.max_group_size,
            )
        if not prod(self.global_size):
            return []
        self.source.launched_in(local)
        arrays = {True: iter(outputs), False: iter(inputs)}
        numbers = iter(self.numbers)
        args: list[Any] = []
        for parameter in self.source.parameters:
            if parameter.pointer:
                array = next(arrays[parameter.written])
                args += [array.storage, array.offset]
            else:
                args.append(next(numbers))
        sizes = zip(self.global_size, local, strict=True)
        return [
            Launch(
                self.source,
                tuple(round_up(size, group) for size, group in sizes),
                local,
                tuple(args),
                flops=self.flops,
                bytes=sum(array.nbytes for array in (*outputs, *inputs)),
            )
        ]

    def backward(self, saved: Any, grads: Any, needs: Any) -> Any:
        raise GradientError(
            self.name,
            "a kernel of one's own has no gradient",
            remedy="Call it in the forward of a clnet.autograd.Function, whose backward gives it",
        )


class UserKernel:
    """A kernel that a user wrote; made by :func:`kernel`.

    Attributes:
        name: the ``__kernel``'s.
    """

    def __init__(self, source: UserSource) -> None:
        self._source = source
        self.name = source.name

    def __repr__(self) -> str:
        names = ", ".join(p.name for p in self._source.parameters)
        return f"clnet.kernel({self.name}: {names})"

    def __call__(
        self,
        *args: Any,
        shape: Sequence[Any] | None = None,
        global_size: int | Sequence[int] | None = None,
        local_size: int | Sequence[int] | None = None,
        flops: int = 0,
    ) -> Any:
        """Launch it once.

        Args:
            *args: in the kernel's order, all but the results: a tensor for each pointer to
                ``const``, of its dtype and on one device; a number for each other parameter. A
                tensor that is not contiguous is copied first.
            shape: of the result; of several, a list of shapes. None: the first tensor's.
            global_size: work-items, of up to three dimensions; rounded up to whole groups, so the
                kernel guards its end. None: one for each element of the first result.
            local_size: work-items of a group, of as many dimensions. None: as the device likes it.
            flops: arithmetic operations of the launch, for profiles.

        Returns:
            A dense tensor for each pointer to what is not ``const``, in their order: a tensor where
            there is one, else a tuple. What the kernel does not write of it holds anything.

        Raises:
            ArgumentError: if arguments are missing, or a number does not fit its parameter.
            DtypeError: if a tensor is of another dtype than its pointer.
            DeviceError: if tensors are on several devices.
            ShapeError: if a size is negative, or there are too few shapes.
            BuildError: if the device's compiler refuses the source.
        """
        tensors, numbers = self._sorted(args)
        shapes = self._shapes(shape, tensors)
        sizes = _sizes(
            self.name, "global_size", prod(shapes[0]) if global_size is None else global_size
        )
        group = None if local_size is None else _sizes(self.name, "local_size", local_size)
        if group is not None and (len(group) != len(sizes) or min(group) < 1):
            _refuse(
                self.name,
                "a group has the dimensions of the grid, each at least 1",
                global_size=sizes,
                local_size=group,
            )
        dense = [ops.contiguous(x) for x in tensors]
        op = Launched(
            self._source, shapes, numbers, sizes, group, integer(self.name, "flops", flops)
        )
        return apply(op, *dense)

    def _sorted(self, args: Sequence[Any]) -> tuple[list[Tensor], tuple[Any, ...]]:
        """Tensors and numbers, each in order, that fit their parameters."""
        wanted = [p for p in self._source.parameters if not p.written]
        if len(args) != len(wanted):
            _refuse(
                self.name,
                "it takes a tensor or a number for each parameter but its results",
                parameters=", ".join(p.name for p in wanted),
                given=len(args),
            )
        tensors: list[Tensor] = []
        numbers: list[Any] = []
        for parameter, value in zip(wanted, args, strict=True):
            if parameter.pointer:
                tensors.append(self._tensor(parameter, value))
            else:
                numbers.append(self._number(parameter, value))
        devices = {x.device for x in tensors}
        if len(devices) > 1:
            raise DeviceError(
                self.name,
                "tensors are on one device",
                devices=", ".join(map(str, devices)),
                remedy="Move them with .to(device)",
            )
        return tensors, tuple(numbers)

    def _tensor(self, parameter: Parameter, value: Any) -> Tensor:
        if not is_tensor(value):
            _refuse(self.name, f"{parameter.name} is a tensor", given=shown(value))
        same = value.dtype is parameter.dtype
        if not same and not (value.dtype.kind is Kind.BOOL and parameter.dtype.itemsize == 1):
            raise DtypeError(
                self.name,
                f"{parameter.name} leads to {parameter.dtype!r}",
                dtype=value.dtype,
                remedy="Convert it with .to(dtype)",
            )
        return value

    def _number(self, parameter: Parameter, value: Any) -> Any:
        if parameter.dtype.is_floating_point:
            return number(self.name, parameter.name, value)
        found = integer(self.name, parameter.name, value)
        bits = 8 * parameter.dtype.itemsize
        least, most = (
            (0, 2**bits - 1) if parameter.unsigned else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
        )
        if not least <= found <= most:
            _refuse(self.name, f"{parameter.name} is from {least} to {most}", given=found)
        return found

    def _shapes(self, shape: Any, tensors: Sequence[Tensor]) -> tuple[Shape, ...]:
        """A shape for each result."""
        results = [p.name for p in self._source.parameters if p.written]
        given = tensors[0].shape if shape is None else shape
        given = given if is_sequence(given) else [given]
        one = not given or not isinstance(given[0], Sequence)
        several: list[Any] = [given] if one else list(given)
        if shape is None:
            several *= len(results)
        if len(several) != len(results):
            raise ShapeError(
                self.name,
                "there is a shape for each result",
                results=", ".join(results),
                shapes=several,
            )
        shapes = tuple(tuple(integer(self.name, "shape", n) for n in each) for each in several)
        if any(n < 0 for each in shapes for n in each):
            raise ShapeError(self.name, "sizes are 0 or more", shapes=shapes)
        return shapes


@checked
def kernel(
    source: str,
    *,
    name: str | None = None,
    params: Mapping[str, Any] | None = None,
    options: Sequence[str] = (),
) -> UserKernel:
    """OpenCL C of one's own, to be called on tensors.

    Its launches are ops like any other: in order with clnet's own, recorded by
    :func:`clnet.compile`, named in profiles, counted in the memory plan. Equal calls may be made
    one: the results depend on the arguments alone. A gradient is given by an
    :class:`clnet.autograd.Function` around it.

    Args:
        source: OpenCL C 1.2 with a ``__kernel void`` function. ``__global const T *`` and
            ``__constant T *`` are tensors that it reads, ``__global T *`` results that it writes,
            all else are numbers; ``T`` is one of ``char uchar short int long half float double``.
            Memory of a group is declared in the body.
        name: which kernel, where the source has several.
        params: what the source, a Mako template, is rendered with; None: it is plain OpenCL C.
        options: build options, as ``"-DTILE=16"``.

    Returns:
        What launches it.

    Raises:
        ArgumentError: if there is no such kernel, a parameter is of another type, or nothing is
            read or written.
        TemplateError: if the template cannot be rendered.

    Example:
        >>> import clnet
        >>> saxpy = clnet.kernel('''
        ... __kernel void saxpy(__global const float *x, __global const float *y, float a, int n,
        ...                     __global float *z) {
        ...     const int i = get_global_id(0);
        ...     if (i < n) z[i] = a * x[i] + y[i];
        ... }''')
        >>> saxpy(clnet.ones(3), clnet.arange(3.0), 2, 3).tolist()
        [2.0, 3.0, 4.0]
    """
    if params is not None:
        source = render_source(source, params)
    made = UserSource(source, name, tuple(options))
    for written, what in ((True, "writes"), (False, "reads")):
        if not any(p.pointer and p.written is written for p in made.parameters):
            raise ArgumentError(
                "kernel",
                f"there is a tensor that it {what}",
                kernel=made.name,
                remedy="What is read is a pointer to const; what is written is not",
            )
    return UserKernel(made)


def _local_size(target: Target, sizes: tuple[int, ...]) -> tuple[int, ...]:
    """Groups as the device likes them."""
    if len(sizes) == 1:
        return items(target, sizes[0])["local_size"]
    if not in_groups(target.traits):
        return (1,) * len(sizes)
    side = min(_SQUARE, int(target.traits.max_group_size**0.5))
    return (side, side, *(1,) * (len(sizes) - 2))


def _sizes(name: str, what: str, given: int | Sequence[int]) -> tuple[int, ...]:
    several: Sequence[Any] = given if isinstance(given, list | tuple) else [given]
    found = tuple([integer(name, what, size) for size in several])
    if not 1 <= len(found) <= _DIMENSIONS or min(found) < 0:
        _refuse(name, f"{what} has 1 to {_DIMENSIONS} sizes, 0 or more", given=found)
    return found


def _refuse(name: str, law: str, **facts: Any) -> NoReturn:
    raise ArgumentError(name, law, **facts)
