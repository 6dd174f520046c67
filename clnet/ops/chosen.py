"""What a mask picks inside a function that ``clnet.compile`` traces, where nobody can count it.

It keeps the size of what was picked from. So it can be computed with element by element, assigned
under the same mask, or summed up; what needs to know how many elements there are is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

from ..device import users_line
from ..errors import TraceError
from ..values.dtypes import bool_
from .arithmetic import where
from .machinery.function import PUBLIC_OPS
from .reduce import sum as total
from .shape import expand, overwrite, to_dtype

if TYPE_CHECKING:
    from ..tensor import Tensor

_COMPOSED = "add sub div pow clamp clip float double to detach clone masked_fill where".split()
_LOSSES = "mse_loss l1_loss smooth_l1_loss huber_loss binary_cross_entropy_with_logits".split()


def is_of_elements(op: str) -> bool:
    """Whether an op, by its name, takes tensors element by element."""
    door, _ = PUBLIC_OPS.get(op, (None, None))
    return op in _COMPOSED or getattr(door, "of_elements", False)


def _operator(name: str) -> Callable[..., Any]:
    def compute(self: Chosen, *others: Any) -> Any:
        return self.apart(name, lambda *given: getattr(given[0], name)(*given[1:]), self, *others)

    return compute


class Chosen:
    """The elements of ``whole`` at which ``mask`` is true.

    Args:
        whole: any shape.
        mask: bool, the first axes of that shape.
        key: the mask as the user gave it, by which it is known again.

    What lies elsewhere in ``whole`` becomes a number of which most functions have a finite value
    and gradient: NaN times a gradient of 0 would be NaN.
    """

    def __init__(self, whole: Tensor, mask: Tensor, key: Tensor) -> None:
        self._mask, self._key, self._version = mask, key, key.array.storage.version
        filler = True if whole.dtype is bool_ else 0.5 if whole.dtype.is_floating_point else 1
        self._whole = where(mask, whole, whole.detach().new_full((), filler))

    def under(self, key: Any) -> Tensor:
        """What is assigned where the mask is true.

        Raises:
            TraceError: if ``key`` is another mask, or was written in between.
        """
        if key is not self._key or key.array.storage.version != self._version:
            self._refuse("__setitem__", "Assign under the mask that picked: m = x > 0; x[m] = ...")
        return self._whole

    def __clnet_called__(
        self, op: str, function: Callable[..., Any], args: Any, given: dict[str, Any]
    ) -> Any:
        """What an op gives of this and other arguments."""
        if op in ("sum", "mean") and len(args) == 1 and not given:
            return self._reduced(op)
        if op in _LOSSES:
            kind = given.get("reduction", "mean")
            one = self.apart(op, function, *args, **{**given, "reduction": "none"})
            return one if kind == "none" else one._reduced(kind)
        if is_of_elements(op) and "out" not in given:
            return self.apart(op, function, *args, **given)
        if op == "__setitem__" and args[-1] is self:
            x, key = args[0], args[1]
            new = self.under(key[0] if type(key) is tuple else key)
            return overwrite(x, where(self._mask, to_dtype(new, x.dtype), x), "index")
        return self._refuse(op)

    @classmethod
    def __apply_function__(cls, function: Any, inputs: Any) -> NoReturn:
        """Nothing takes this for a tensor unasked."""
        next(x for x in inputs if isinstance(x, cls))._refuse(function.name)

    def apart(self, op: str, function: Callable[..., Any], *args: Any, **given: Any) -> Chosen:
        """A function of single elements."""
        inner = self._whole.ndim - self._key.ndim

        def plain(value: Any) -> Any:
            if isinstance(value, Chosen):
                return value.under(self._key)
            if hasattr(value, "ndim") and value.ndim > inner:
                self._refuse(op)
            return value

        y = function(*map(plain, args), **{k: plain(v) for k, v in given.items()})
        return Chosen(y, self._mask, self._key)

    def _reduced(self, kind: str) -> Tensor:
        kept = total(where(self._mask, self._whole, 0))
        if kind == "sum":
            return kept
        return kept / total(expand(self._mask, self._whole.shape)).to(kept.dtype)

    def refuse_as_result(self) -> NoReturn:
        """What a compiled function returns is a tensor.

        Raises:
            TraceError: in any case.
        """
        self._refuse("compile")

    def _refuse(self, op: str, remedy: str | None = None) -> NoReturn:
        raise TraceError(
            op,
            "how many elements a mask picks is not known in a function that clnet.compile traces",
            mask=self._key.shape,
            line=users_line(),
            remedy=remedy or "Choose elements by clnet.where, or compute outside of the function",
        )

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        method = getattr(type(self._whole), name, None)
        if method is None and not hasattr(self._whole, name):
            raise AttributeError(name)
        op = name.removesuffix("_")
        if not (is_of_elements(op) or name in ("sum", "mean")):
            self._refuse(name)

        def call(*args: Any, **given: Any) -> Any:
            if op == name and method is not None:
                return method(self, *args, **given)
            y = self.apart(name, getattr(type(self._whole), op), self, *args, **given)
            self._whole = y._whole.to(self._whole.dtype)
            return self

        return call

    def __matmul__(self, other: Any) -> Any:
        self._refuse("matmul")

    __rmatmul__ = __matmul__

    def __len__(self) -> int:
        self._refuse("len")

    def __bool__(self) -> bool:
        self._refuse("bool")

    def __iter__(self) -> Any:
        self._refuse("iter")

    def __getitem__(self, key: Any) -> Any:
        self._refuse("__getitem__")

    __neg__, __abs__, __invert__ = map(_operator, ("__neg__", "__abs__", "__invert__"))
    __add__, __radd__ = map(_operator, ("__add__", "__radd__"))
    __sub__, __rsub__ = map(_operator, ("__sub__", "__rsub__"))
    __mul__, __rmul__ = map(_operator, ("__mul__", "__rmul__"))
    __truediv__, __rtruediv__ = map(_operator, ("__truediv__", "__rtruediv__"))
    __floordiv__, __mod__, __pow__ = map(_operator, ("__floordiv__", "__mod__", "__pow__"))
    __and__, __or__, __xor__ = map(_operator, ("__and__", "__or__", "__xor__"))
    __lt__, __le__, __gt__, __ge__ = map(_operator, ("__lt__", "__le__", "__gt__", "__ge__"))
