"""Methods whose modules are imported when they are first asked for, and dense tensors' sparsity."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..errors import ArgumentError
from ..tensor import Tensor
from ..values.arguments import checked

__all__ = ["AS_FUNCTIONS", "attach"]


class _Later:
    """A method that a module has which a training step does without.

    Args:
        load: gives a module by its name below ``clnet``.
        module: that name.
        name: the function there.
    """

    def __init__(self, load: Callable[[str], Any], module: str, name: str) -> None:
        self._load, self._place = load, (module, name)

    def __set_name__(self, owner: type, public: str) -> None:
        self._owner, self._public = owner, public
        setattr(owner, public, self)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        module, name = self._place
        function = getattr(self._load(module), name)
        setattr(self._owner, self._public, function)
        return function if instance is None else function.__get__(instance)


class _LaterOfModules(_Later):
    """One that PyTorch's modules do not have: what a program calls so itself goes before it."""

    gives_way = True

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        module, name = self._place
        for table in () if instance is None else ("_parameters", "_buffers", "_modules"):
            if self._public in vars(instance).get(table, {}):
                return vars(instance)[table][self._public]
        function = getattr(self._load(module), name)
        return function if instance is None else function.__get__(instance)


def to_dense(x: Tensor, dtype: Any = None, *, masked_grad: bool | None = None) -> Tensor:
    """A dense tensor itself, converted if a dtype is given."""
    return x if dtype is None else x.to(dtype)


def sparse_dim(x: Tensor) -> int:
    """0: no axis of a dense tensor has indices."""
    return 0


def dense_dim(x: Tensor) -> int:
    """All axes of a dense tensor."""
    return x.ndim


def attach(load: Callable[[str], Any], modules: type) -> None:
    """Give tensors and modules these methods.

    Args:
        load: gives a module by its name below ``clnet``; the facade's, since nothing below it may
            import what stands above.
        modules: the class of modules.
    """
    for public, (module, name) in _LATER.items():
        _Later(load, module, name).__set_name__(Tensor, public)
    _Later(load, "compile.entry", "compile_module").__set_name__(modules, "compile")
    _LaterOfModules(load, "planning.model_summary", "summary").__set_name__(modules, "summary")


def _of_sparse(name: str) -> Callable[[Tensor], Any]:
    def method(x: Tensor) -> Any:
        law, hint = "the tensor is sparse", "Convert it with x.to_sparse()"
        raise ArgumentError(name, law, shape=x.shape, remedy=hint)

    method.__name__ = method.__qualname__ = name
    method.__doc__ = "Of sparse tensors; refused."
    return method


AS_FUNCTIONS = frozenset(
    """
    abs_ acos_ acosh_ addmv_ arccos_ arccosh_ arcsin_ arcsinh_ arctan_ arctanh_ as_strided_ asin_
    asinh_ atan_ atanh_ ceil_ clamp_ clamp_max_ clamp_min_ clip_ conj_physical_ cos_ cosh_ deg2rad_
    detach detach_ erf_ erfc_ exp2_ exp_ expm1_ fill_ fix_ floor_ frac_ gcd_ get_device i0_
    index_put_ is_distributed is_same_size is_signed lcm_ ldexp_ log10_ log1p_ log2_ log_ logit_
    nan_to_num_ narrow_copy neg_ negative_ put rad2deg_ reciprocal_ resize_as_ round_ rsqrt_
    sigmoid_ sin_ sinc_ sinh_ sqrt_ square_ tan_ tanh_ trunc_ xlogy_ zero_
    """.split()
)
"""Methods that PyTorch has as functions of the tensor, too."""
_OF_SPARSE = (
    "coalesce indices values is_coalesced crow_indices col_indices ccol_indices row_indices"
)
_LATER = {
    "__array_namespace__": ("array_api", "namespace_of"),
    "stft": ("fft", "stft"),
    "istft": ("fft", "istft"),
    "to_sparse": ("sparse", "dense_to_sparse"),
    "to_sparse_coo": ("sparse", "dense_to_coo"),
    "to_sparse_csr": ("sparse", "dense_to_csr"),
    "to_sparse_csc": ("sparse", "dense_to_csc"),
    "sparse_mask": ("sparse", "sparse_mask"),
    "_clnet_looked_up": ("sparse.rows", "looked_up"),
}
for _name in _OF_SPARSE.split():
    setattr(Tensor, _name, _of_sparse(_name))
for _method in (to_dense, sparse_dim, dense_dim):
    setattr(Tensor, _method.__name__, checked(_method, skip=1))
