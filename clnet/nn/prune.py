"""``nn.utils.prune``: parameters of which parts are 0, by a mask that is kept beside them.

A pruned ``weight`` is what ``weight_orig``, a parameter, and ``weight_mask``, a buffer, make before
every call of the module.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from numbers import Integral, Real
from typing import Any, ClassVar

from .. import ops, random
from ..autograd import no_grad
from ..errors import ArgumentError, DtypeError, ShapeError
from ..tensor import Tensor
from .module import Module

__all__ = [
    "BasePruningMethod",
    "CustomFromMask",
    "Identity",
    "L1Unstructured",
    "LnStructured",
    "PruningContainer",
    "RandomStructured",
    "RandomUnstructured",
    "custom_from_mask",
    "global_unstructured",
    "identity",
    "is_pruned",
    "l1_unstructured",
    "ln_structured",
    "random_structured",
    "random_unstructured",
    "remove",
]


class BasePruningMethod:
    """What programs derive their way of pruning from: :meth:`compute_mask` says what stays."""

    PRUNING_TYPE: ClassVar[str] = "unstructured"
    dim: int = -1
    _tensor_name: str = ""

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """1 where an element stays, 0 where it goes.

        Args:
            t: how much each element counts.
            default_mask: what was there before, of the same shape.
        """
        raise NotImplementedError

    def __call__(self, module: Module, inputs: Any) -> None:
        """What happens before the module is called."""
        del inputs
        module.__dict__[self._tensor_name] = self.apply_mask(module)

    def apply_mask(self, module: Module) -> Tensor:
        """The parameter, with 0 where it is pruned."""
        mask = getattr(module, f"{self._tensor_name}_mask")
        return mask * getattr(module, f"{self._tensor_name}_orig")

    def is_of(self, name: str) -> bool:
        """Whether it is a parameter of this name that is pruned."""
        return self._tensor_name == name

    def prune(
        self, t: Tensor, default_mask: Tensor | None = None, importance_scores: Tensor | None = None
    ) -> Tensor:
        """A tensor with 0 where it is pruned; arguments as :meth:`apply` and a mask before."""
        mask = ops.ones_like(t) if default_mask is None else default_mask
        return t * self.compute_mask(t if importance_scores is None else importance_scores, mask)

    @classmethod
    def apply(
        cls,
        module: Module,
        name: str,
        *args: Any,
        importance_scores: Tensor | None = None,
        **kwargs: Any,
    ) -> Any:
        """Prune a parameter of a module, further if it is pruned already.

        Args:
            module: whose parameter it is.
            name: the parameter's.
            *args: of the constructor.
            importance_scores: what counts in the place of the elements, of the same shape.
            **kwargs: of the constructor.

        Raises:
            ShapeError: if the scores have another shape.
        """
        method = cls(*args, **kwargs)
        method._tensor_name = name
        hung = method._hang(module, importance_scores)
        hung(module, ())
        return hung

    @no_grad()
    def _hang(self, module: Module, importance_scores: Tensor | None) -> BasePruningMethod:
        """Hang it into a module, with others if there are; gives what the hook is."""
        method, name = self, self._tensor_name
        before = _hook_of(module, name)
        weight = getattr(module, name)
        scores = weight.detach() if importance_scores is None else importance_scores
        if scores.shape != weight.shape:
            law = "importance_scores have the parameter's shape"
            raise ShapeError("prune", law, expected=tuple(weight.shape), got=tuple(scores.shape))
        if before is None:
            mask = method.compute_mask(scores, ops.ones_like(weight.detach()))
            delattr(module, name)  # here, since an error above leaves the module as it was
            module.register_parameter(f"{name}_orig", weight)
            module.register_buffer(f"{name}_mask", mask.to(weight.dtype))
        else:
            key, old = before
            container = old if isinstance(old, PruningContainer) else PruningContainer(old)
            mask = container.mask_with(method, scores, getattr(module, f"{name}_mask"))
            del module._clnet_hooks.before[key]
            setattr(module, f"{name}_mask", mask.to(weight.dtype))
            method = container
        module.register_forward_pre_hook(method)
        return method

    def remove(self, module: Module) -> None:
        """Make the pruned parameter an ordinary one, with its zeros."""
        name = self._tensor_name
        with no_grad():
            pruned = self.apply_mask(module)
        parameter = getattr(module, f"{name}_orig")
        parameter.data = pruned
        for part in (f"{name}_orig", f"{name}_mask", name):
            delattr(module, part)
        module.register_parameter(name, parameter)


class PruningContainer(BasePruningMethod):
    """Ways of pruning one after another, each of what those before it left.

    Args:
        *args: the ways.
    """

    PRUNING_TYPE = "container"

    def __init__(self, *args: BasePruningMethod) -> None:
        self._pruning_methods: tuple[BasePruningMethod, ...] = ()
        for method in args:
            self._tensor_name = self._tensor_name or method._tensor_name
            self.add_pruning_method(method)

    def add_pruning_method(self, method: Any) -> None:
        """One more.

        Raises:
            DtypeError: if it is none.
            ArgumentError: if it is one of another parameter.
        """
        if not isinstance(method, BasePruningMethod):
            law = "a pruning method is added"
            raise DtypeError("PruningContainer", law, type=type(method).__name__)
        if method._tensor_name != self._tensor_name:
            law = "a pruning method of the same parameter is added"
            names = {"name": self._tensor_name, "added": method._tensor_name}
            raise ArgumentError("PruningContainer", law, **names)
        self._pruning_methods += (method,)

    def mask_with(self, method: Any, t: Tensor, default_mask: Tensor) -> Tensor:
        """:meth:`compute_mask` with one more way, which is not added if there is an error."""
        before = self._pruning_methods
        self.add_pruning_method(method)
        try:
            return self.compute_mask(t, default_mask)
        except BaseException:
            self._pruning_methods = before
            raise

    def __len__(self) -> int:
        return len(self._pruning_methods)

    def __iter__(self) -> Any:
        return iter(self._pruning_methods)

    def __getitem__(self, k: int) -> BasePruningMethod:
        return self._pruning_methods[k]

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The mask before, and what the newest way takes of what that left, of ``t``'s dtype."""
        method, mask = self._pruning_methods[-1], default_mask.to(t.dtype, copy=True)
        if method.PRUNING_TYPE == "global":
            return method.compute_mask(t, mask)
        if method.PRUNING_TYPE == "unstructured":
            left = mask == 1
            mask[left] = method.compute_mask(t[left], mask[left]).to(mask.dtype)
            return mask
        axis = method.dim % t.ndim
        others = [k for k in range(t.ndim) if k != axis]
        rows = mask.sum(others).nonzero().flatten()
        found = method.compute_mask(t.index_select(axis, rows), mask.index_select(axis, rows))
        return mask.index_copy(axis, rows, found.to(mask.dtype))


class Identity(BasePruningMethod):
    """Prunes nothing; the parameter is renamed as if it did."""

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The mask before."""
        del t
        return default_mask


class _Amount(BasePruningMethod):
    """Prunes a part.

    Args:
        amount: a part between 0 and 1, or a whole number of elements or channels.

    Raises:
        DtypeError: if it is no number.
        ArgumentError: if it is neither.
    """

    def __init__(self, amount: float) -> None:
        law = "amount is a part between 0.0 and 1.0, or a whole number from 0"
        if not isinstance(amount, Real):  # NumPy's, too
            raise DtypeError(type(self).__name__, law, amount=type(amount).__name__)
        whole = isinstance(amount, Integral)
        if isinstance(amount, bool) or amount < 0 or not (whole or amount <= 1):
            raise ArgumentError(type(self).__name__, law, amount=amount)
        self.amount = amount

    def count(self, n: int) -> int:
        """How many of ``n`` go."""
        found = self.amount if isinstance(self.amount, Integral) else round(self.amount * n)
        if found > n:
            law = "amount is at most what there is to prune"
            raise ArgumentError(type(self).__name__, law, amount=self.amount, size=n)
        return int(found)

    def without_least(self, scores: Tensor, mask: Tensor) -> Tensor:
        """A mask with 0 at the elements of the least scores, too."""
        gone = scores.flatten().topk(self.count(scores.numel()), largest=False).indices
        return mask.flatten().index_fill(0, gone, 0).reshape(mask.shape)


class RandomUnstructured(_Amount):
    """Prunes elements that are drawn; arguments as :func:`random_unstructured`."""

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Drawn elements go."""
        return self.without_least(random.rand_like(t), default_mask)


class L1Unstructured(_Amount):
    """Prunes the elements of least absolute value; arguments as :func:`l1_unstructured`."""

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The least go."""
        return self.without_least(abs(t), default_mask)


class _Channels(_Amount):
    PRUNING_TYPE = "structured"

    def scores(self, t: Tensor) -> Tensor:
        """How much each channel counts."""
        raise NotImplementedError

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Whole channels go: those that count least."""
        scores = self.scores(t)
        kept = self.without_least(scores, ops.ones_like(scores)).to(default_mask.dtype)
        shape = [1] * t.ndim
        shape[self.dim] = -1
        return default_mask * kept.reshape(shape)


class RandomStructured(_Channels):
    """Prunes channels that are drawn; arguments as :func:`random_structured`."""

    def __init__(self, amount: float, dim: int = -1) -> None:
        super().__init__(amount)
        self.dim = dim

    def scores(self, t: Tensor) -> Tensor:
        """Drawn."""
        return random.rand(t.shape[self.dim], device=t.device)


class LnStructured(_Channels):
    """Prunes channels of the least norm; arguments as :func:`ln_structured`."""

    def __init__(self, amount: float, n: float | str, dim: int = -1) -> None:
        super().__init__(amount)
        self.n = n
        self.dim = dim

    def scores(self, t: Tensor) -> Tensor:
        """Norms of the channels."""
        rows = t.movedim(self.dim, 0).flatten(1) if t.ndim > 1 else t[:, None]
        return ops.norm(rows, self.n, 1)


class CustomFromMask(BasePruningMethod):
    """Prunes what a mask says; arguments as :func:`custom_from_mask`."""

    PRUNING_TYPE = "global"

    def __init__(self, mask: Tensor) -> None:
        self.mask = mask

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Both masks together."""
        del t
        return default_mask * self.mask.to(default_mask.dtype)


def _hook_of(module: Module, name: str) -> tuple[int, BasePruningMethod] | None:
    """The way a parameter is pruned, and its place among the hooks."""
    for key, hook in module._clnet_hooks.before.items():
        if isinstance(hook, BasePruningMethod) and hook.is_of(name):
            return key, hook
    return None


def identity(module: Module, name: str) -> Module:
    """Rename a parameter as pruning does, without pruning it."""
    Identity.apply(module, name)
    return module


def random_unstructured(module: Module, name: str, amount: float) -> Module:
    """Prune elements of a parameter that are drawn.

    Args:
        module: whose parameter it is.
        name: the parameter's.
        amount: a part between 0 and 1, or a number of elements.
    """
    RandomUnstructured.apply(module, name, amount=amount)
    return module


def l1_unstructured(
    module: Module, name: str, amount: float, importance_scores: Tensor | None = None
) -> Module:
    """Prune the elements of a parameter that have the least absolute value.

    The arguments are those of :func:`random_unstructured`; ``importance_scores`` count in the place
    of the elements.
    """
    L1Unstructured.apply(module, name, amount=amount, importance_scores=importance_scores)
    return module


def random_structured(module: Module, name: str, amount: float, dim: int) -> Module:
    """Prune channels of a parameter that are drawn.

    Args:
        module: whose parameter it is.
        name: the parameter's.
        amount: a part between 0 and 1, or a number of channels.
        dim: the axis of the channels.
    """
    RandomStructured.apply(module, name, amount=amount, dim=dim)
    return module


def ln_structured(
    module: Module,
    name: str,
    amount: float,
    n: float | str,
    dim: int,
    importance_scores: Tensor | None = None,
) -> Module:
    """Prune the channels of a parameter that have the least norm of order ``n``.

    The arguments are those of :func:`random_structured`; ``importance_scores`` count in the place
    of the elements.
    """
    settings = {"amount": amount, "n": n, "dim": dim}
    LnStructured.apply(module, name, importance_scores=importance_scores, **settings)
    return module


def custom_from_mask(module: Module, name: str, mask: Tensor) -> Module:
    """Prune a parameter where a mask of its shape is 0."""
    CustomFromMask.apply(module, name, mask)
    return module


def global_unstructured(
    parameters: Iterable[tuple[Module, str]],
    pruning_method: type[BasePruningMethod],
    importance_scores: Mapping[tuple[Module, str], Tensor] | None = None,
    **kwargs: Any,
) -> None:
    """Prune several parameters as if they were one.

    Args:
        parameters: modules, and names of parameters.
        pruning_method: a way to prune elements.
        importance_scores: what counts in the place of the elements, for some of the parameters.
        **kwargs: of the method.

    Raises:
        ArgumentError: if the method prunes channels.
    """
    pairs: Sequence[tuple[Module, str]] = list(parameters)
    if pruning_method.PRUNING_TYPE != "unstructured":
        law = "a method that prunes elements is global"
        raise ArgumentError("global_unstructured", law, pruning_method=pruning_method.__name__)
    weights = [getattr(module, name).detach() for module, name in pairs]
    counted = dict(zip(pairs, weights, strict=True)) | dict(importance_scores or {})
    before: list[Tensor] = [
        getattr(module, f"{name}_mask", ops.ones_like(w))
        for (module, name), w in zip(pairs, weights, strict=True)
    ]
    container = PruningContainer(pruning_method(**kwargs))
    mask = container.compute_mask(
        ops.cat([counted[pair].flatten() for pair in pairs]), ops.cat([x.flatten() for x in before])
    )
    for (module, name), part, w in zip(
        pairs, mask.split([w.numel() for w in weights]), weights, strict=True
    ):
        custom_from_mask(module, name, part.reshape(w.shape))


def remove(module: Module, name: str) -> Module:
    """Make a pruned parameter an ordinary one, with its zeros.

    Raises:
        ArgumentError: if it is not pruned.
    """
    found = _hook_of(module, name)
    if found is None:
        raise ArgumentError("prune.remove", "the parameter is pruned", name=name)
    key, method = found
    method.remove(module)
    del module._clnet_hooks.before[key]
    return module


def is_pruned(module: Module) -> bool:
    """Whether a parameter of a module, or of one in it, is pruned."""
    hooks = (hook for m in module.modules() for hook in m._clnet_hooks.before.values())
    return any(isinstance(hook, BasePruningMethod) for hook in hooks)
