"""How PyTorch spells a call that clnet spells otherwise: names, order, and what changes nothing.

A door (:mod:`.arguments`) comes here when a call has an argument that its function does not take.
The signature that PyTorch's users know is then bound instead: by a rule (the first operand is
``input``, a result can be written to ``out``), or as a line of ``signatures.txt`` says.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Collection
from functools import cache
from pathlib import Path
from typing import Any

from ..errors import ArgumentError
from .dtypes import DType
from .plain import shown
from .words import Layout, MemoryFormat

__all__ = ["ALSO", "FIRST", "INERT", "Spelling", "drop", "legacy_reduction"]

_Parameter = inspect.Parameter
_POSITIONAL = (_Parameter.POSITIONAL_ONLY, _Parameter.POSITIONAL_OR_KEYWORD)

INERT: dict[str, str] = {
    **dict.fromkeys(("non_blocking", "memory_format", "pin_memory", "names", "async_"), "any"),
    **dict.fromkeys(("foreach", "fused", "capturable", "decoupled_weight_decay_"), "any"),
    **dict.fromkeys(("_stacklevel", "sparse_grad", "compute_mode", "assume_unique"), "any"),
    **dict.fromkeys(("layout", "only_inputs", "verbose", "driver", "is_coalesced"), "any"),
    "differentiable": "False",
}
"""Parameters of PyTorch's that change no result here, and what values that holds for."""
_LEGACY = ("size_average", "reduce")
_ONCE_FIRST: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("add", "sub"), ("alpha",)),
    **dict.fromkeys(("addcmul", "addcdiv"), ("value",)),
    **dict.fromkeys(("addmm", "addmv", "addr", "baddbmm", "addbmm"), ("beta", "alpha")),
}
"""Numbers that PyTorch once took before the operands, as old programs give them."""
ALSO = {"axis": "dim", "keepdims": "keepdim", "axis0": "dim0", "axis1": "dim1"}
"""NumPy's names of parameters, which PyTorch takes, too."""
_OVERLOADS: dict[str, str] = {
    **dict.fromkeys(("indices", "sections"), "indices_or_sections"),
    "axes": "dims",
}
"""Names of one parameter in PyTorch's overloads; and NumPy's of ``tensordot``'s, by which
opt_einsum calls what is of a package that it does not know."""
FIRST = ("input", "self", "A", "x", "tensor")
"""What a first operand is called: any of them is meant by any other."""


def legacy_reduction(size_average: Any, reduce: Any, reduction: Any) -> Any:
    """What losses' ``size_average`` and ``reduce`` say, else ``reduction``."""
    if size_average is None and reduce is None:
        return reduction
    if reduce is not None and not reduce:
        return "none"
    return "mean" if size_average is None or size_average else "sum"


def drop(op: str, name: str, value: Any) -> None:
    """Take a setting that changes nothing.

    Raises:
        ArgumentError: if its value would, or is of another kind.
    """
    kind = {"memory_format": MemoryFormat, "layout": Layout, "_stacklevel": int}.get(name)
    if kind is not None and not (value is None or isinstance(value, kind)):
        raise ArgumentError(op, f"{name} is a {kind.__name__}", **{name: shown(value)})
    refused = value is True if INERT[name] == "False" else False
    if name == "layout":
        refused = "sparse" in str(value)
    if refused:
        raise ArgumentError(op, f"{name}={value} is not supported", remedy="Leave it out")


@cache
def _signatures() -> dict[str, str]:
    text = (Path(__file__).parent / "signatures.txt").read_text(encoding="utf-8")
    lines = (line for line in text.splitlines() if line and not line.startswith("#"))
    return {line.partition("(")[0]: line for line in lines}


def _parsed(line: str) -> inspect.Signature:
    """The signature of a line ``name(a, b=1, *, c=None)``, whose defaults are literals."""
    (node,) = ast.parse(f"def made({line.strip().partition('(')[2]}: ...").body
    given = node.args  # pyrefly: ignore[missing-attribute] - a function's
    listed: list[inspect.Parameter] = []
    bare = len(given.args) - len(given.defaults)
    for k, arg in enumerate(given.args):
        default = _value(given.defaults[k - bare]) if k >= bare else _Parameter.empty
        listed.append(_Parameter(arg.arg, _Parameter.POSITIONAL_OR_KEYWORD, default=default))
    if given.vararg is not None:
        listed.append(_Parameter(given.vararg.arg, _Parameter.VAR_POSITIONAL))
    for arg, default in zip(given.kwonlyargs, given.kw_defaults, strict=True):
        value = _Parameter.empty if default is None else _value(default)
        listed.append(_Parameter(arg.arg, _Parameter.KEYWORD_ONLY, default=value))
    return inspect.Signature(listed)


def _value(node: ast.expr) -> Any:
    return ast.literal_eval(node)


def _in_todays_order(
    op: str, args: tuple[Any, ...], given: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """A call whose numbers stand before operands (:data:`_ONCE_FIRST`), with them by name."""
    names, count = _ONCE_FIRST.get(op, ()), 2 if op in ("add", "sub") else 3
    places = [k for k, x in enumerate(args) if type(x) in (int, float, complex)]
    if not count < len(args) <= count + len(names) or len(places) != len(args) - count:
        return args, given
    rest = tuple(x for k, x in enumerate(args) if k not in places)
    return rest, {**given, **dict(zip(names, (args[k] for k in places), strict=False))}


class Spelling:
    """PyTorch's signature of a function, and how its arguments become ours.

    Args:
        key: the function's name in ``signatures.txt``.
        own: clnet's signature.
        skip: how many parameters come before the user's.
        later: parameters of PyTorch's whose values the caller sees to.
    """

    def __init__(
        self, key: str, own: inspect.Signature, skip: int, later: Collection[str] = ()
    ) -> None:
        line = _signatures().get(key)
        before = list(own.parameters.values())[:skip]
        if line is None:
            self.public = _by_rule(own)
        else:
            found = _parsed(line)
            self.public = found.replace(parameters=[*before, *found.parameters.values()])
        self.own = own
        self.later = later
        self.first = next((n for n in list(self.public.parameters)[skip : skip + 1]), "")
        self.renamed = self._renamed()

    def _renamed(self) -> dict[str, str]:
        """Our name of each parameter that PyTorch calls otherwise: the one at the same place."""
        own = [p.name for p in self.own.parameters.values() if p.kind in _POSITIONAL]
        named = [p.name for p in self.public.parameters.values() if p.kind in _POSITIONAL]
        pairs = zip(named, own, strict=False)
        found = {t: o for t, o in pairs if t not in self.own.parameters and t not in INERT}
        return {t: o for t, o in found.items() if o not in named and t not in _LEGACY}

    def only_by_default(self) -> list[str]:
        """PyTorch's parameters that are taken at their defaults alone."""
        own = self.own.parameters
        known = {*own, *self.renamed, *self.later, *INERT, "out"}
        known |= {*_LEGACY} if "reduction" in own else set()
        listed = self.public.parameters.values()
        rest = (_Parameter.VAR_POSITIONAL, _Parameter.VAR_KEYWORD)
        return [p.name for p in listed if p.name not in known and p.kind not in rest]

    def misplaced(self) -> list[str]:
        """Our parameters that have another place than PyTorch's of the same name."""
        own = [p.name for p in self.own.parameters.values() if p.kind in _POSITIONAL]
        named = [p.name for p in self.public.parameters.values() if p.kind in _POSITIONAL]
        theirs = [self.renamed.get(name, name) for name in named]
        return [o for o, t in zip(own, theirs, strict=False) if o != t and o in theirs]

    def ours(
        self, op: str, args: tuple[Any, ...], given: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any], dict[str, Any]]:
        """The same call with our names, and what the caller sees to: ``out``, and ``later``.

        Raises:
            TypeError: if PyTorch's signature does not allow the call.
            ArgumentError: if it asks for what clnet does not do.
        """
        args, given = _in_todays_order(op, args, given)
        public, own = self.public.parameters, self.own.parameters
        theirs = {ours: name for name, ours in self.renamed.items()}
        rewritten: dict[str, Any] = {}
        extra: dict[str, Any] = {}
        for name, value in given.items():
            plain = self._public_name(theirs.get(name, name))
            if plain in public:
                rewritten[plain] = value
            elif plain in own:
                extra[plain] = value
            elif plain in INERT:
                drop(op, plain, value)
            else:
                rewritten[plain] = value
        bound = self.public.bind(*args, **rewritten).arguments
        if isinstance(bound.get("_stacklevel"), DType):  # a method has it there, not a function
            bound["dtype"] = bound.pop("_stacklevel")
        beside = {n: bound.pop(n) for n in ("out", *self.later) if n in bound and n not in own}
        if "reduction" in own:
            mean, reduce = (bound.pop(n, None) if n not in own else None for n in _LEGACY)
            if mean is not None or reduce is not None:
                bound["reduction"] = legacy_reduction(mean, reduce, bound.get("reduction", "mean"))
        return (*self._call(op, {**bound, **extra}), beside)

    def _public_name(self, name: str) -> str:
        """The name of PyTorch's signature that a caller means by another of its names."""
        public = self.public.parameters
        if name in public:
            return name
        name = ALSO.get(name, name)
        other = _OVERLOADS.get(name, name)
        name = other if other in public else name
        return self.first if name in FIRST and self.first in FIRST else name

    def _call(self, op: str, bound: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Bound arguments by our names: those of the first places by position."""
        named: dict[str, Any] = {}
        rest: tuple[Any, ...] = ()
        public, own = self.public.parameters, self.own.parameters
        for name, value in bound.items():
            ours = self.renamed.get(name, name)
            kind = (public if name in public else own)[name].kind
            if kind is _Parameter.VAR_POSITIONAL:
                rest = value
            elif kind is _Parameter.VAR_KEYWORD:
                named.update(value)
            elif ours in own:
                named[ours] = value
            elif name in INERT:
                drop(op, name, value)
            elif value != public[name].default:
                raise ArgumentError(op, f"{name}={value!r} is not supported", remedy="Leave it out")
        first: list[Any] = []
        for name, p in own.items():
            if name not in named or p.kind not in _POSITIONAL:
                break
            first.append(named.pop(name))
        return (*first, *rest), named


def _by_rule(own: inspect.Signature) -> inspect.Signature:
    """Ours, but for the first operand's name, and with a place for the result."""
    listed = list(own.parameters.values())
    if listed and listed[0].name == "x" and listed[0].kind in _POSITIONAL:
        listed[0] = listed[0].replace(name="input")
    result = str(own.return_annotation)
    if ("Tensor" in result or result == "Any") and "out" not in own.parameters:
        place = _Parameter("out", _Parameter.KEYWORD_ONLY, default=None)
        ends = bool(listed) and listed[-1].kind is _Parameter.VAR_KEYWORD
        listed.insert(len(listed) - ends, place)
    return own.replace(parameters=listed)
