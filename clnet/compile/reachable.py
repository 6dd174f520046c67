"""What may run when a function is called, and what that may look at: read from code, not run."""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Iterable, Iterator, Set
from contextvars import ContextVar
from dis import Instruction, get_instructions, hasjabs, hasjrel, stack_effect
from functools import partial
from inspect import getattr_static
from operator import attrgetter, methodcaller
from sys import modules
from types import CellType, CodeType, FunctionType, MappingProxyType, MethodType, ModuleType
from typing import Any
from weakref import WeakKeyDictionary, ref

from ..autodiff.tensor_hook import called_by
from ..tensor import Tensor
from ..values.programs import is_librarys, is_programs

__all__ = [
    "MISSING",
    "MOST_OBJECTS",
    "Code",
    "Objects",
    "attribute",
    "content",
    "default_of",
    "global_of",
    "home",
    "is_ours",
    "present",
    "table_of",
    "wrapped_in",
]

MISSING = object()
_CONTAINERS = (list, tuple, dict)
_KEPT = (list, dict, set, deque)
_AS_NEAR = (*_CONTAINERS, MethodType)  # what lies in one is as near as that
_SKIPPED = (ModuleType, FunctionType, MethodType, type)
_MOST_FUNCTIONS = 512
_MOST_DEEP = 2  # calls into libraries
MOST_OBJECTS = 2**17  # each costs some 50 us of a trace, and those whose attributes count of a call
_MOST_DEPTH = 64
_LOADS = ("LOAD_ATTR", "LOAD_GLOBAL", "LOAD_DEREF", "LOAD_CLASSDEREF")
_NEAR = 16  # instructions of a comparison
_CALLS = ("CALL", "PRECALL", "CALL_FUNCTION")
_JUMPS = {*hasjrel, *hasjabs}
_UNCHANGING = (int, bool, float, complex, str, bytes, type(None), type)
_WRITERS = ("append", "extend", "add", "update", "appendleft")
_ASKING = {"getattr", "hasattr"}
_SETTING = {"setattr", "__setattr__"}
# By which an object's attributes are read whose names stand nowhere.
_LOOKING = {
    *("__dict__", "__getattribute__", "__getstate__", "asdict", "astuple", "attrgetter", "copy"),
    *("deepcopy", "dir", "eval", "exec", "fields", "getmembers", "replace", "vars"),
}
_UNASKED = {"__init__", "__new__", "__repr__", "__str__", "__eq__", "__hash__", "__reduce__"}
"""Methods of Python's that a step hardly runs, though their names stand nowhere in its code."""
_SLOTS = WeakKeyDictionary[type, list[str]]()


class Code:
    """The functions that may run, and the names in their code.

    Attributes:
        functions: by their ``id``; of two that were made of one code each has its own variables.
        names: of globals, attributes and methods, whoever's they are.
        reads: those of them that are read not only to be counted up or appended to.
        writes: names and keys of what it assigns, but for variables of its own.
        texts: keys among these, which may be names of attributes (``vars(x)["n"] = 1``).
        types: whether it asks which type a number has.
        looks: whether it may read attributes whose names are not among these.
        places: what gives each global and enclosing variable that they name.
    """

    def __init__(self) -> None:
        self.functions: dict[int, FunctionType] = {}
        self._codes: set[CodeType] = set()
        self.names = {"forward"}  # of modules, which are called
        self.reads: set[str] = set()
        self.writes: set[Any] = set()
        self.texts: set[str] = set()
        self.looks = self.types = False
        self.places: list[partial[Any]] = []

    def follow(self, function: Any, beside: str = "") -> None:
        """Read a function that may be called, and those of the program that it names.

        Of a library's functions that the program calls, and those that they call, names alone
        count: they may read them of the program's objects.

        Args:
            function: the function; anything else is left alone.
            beside: the module of who names it, of which it is read though that is a library.
        """
        pending = [(function, beside, 0)]
        while pending:
            if len(self.functions) >= _MOST_FUNCTIONS:
                self.looks = True  # for all that is known
                return
            each, beside, deep = pending.pop()
            if isinstance(each, attrgetter | methodcaller):
                named = {part for name in _names_of(each) for part in name.split(".")}
                self.names |= named
                self.reads |= named
            inside = wrapped_in(each)
            if inside is not MISSING:  # decorated, or compiled
                pending.append((inside, beside, deep))
            if not isinstance(each, FunctionType) or id(each) in self.functions:
                continue
            pending += [(f, beside, deep) for f in _dispatched(each)]
            if home(each) != beside and not is_programs(each):
                if deep == _MOST_DEEP or not is_librarys(each):
                    continue
                deep += 1
            looks = self.looks
            self.functions[id(each)] = each
            own = _own_places(each) if each.__code__ in self._codes else self._named(each)
            self._codes.add(each.__code__)
            for place in own:
                if not deep:
                    self.places.append(place)
                pending.append((place(), "" if deep else home(each), deep))
            if deep:
                self.looks = looks

    def _named(self, function: FunctionType) -> Iterator[partial[Any]]:
        """What gives each value that a function's code names and does not hold."""
        names, brought, codes = dict[str, None](), list[str](), [function.__code__]
        left: set[str] = set()
        kept = _kept_defaults(function)
        while codes:
            code = codes.pop()
            self.names.update(code.co_names)
            if _ASKING & set(code.co_names):
                texts = (c for c in code.co_consts if isinstance(c, str) and c.isidentifier())
                asked = {*texts}
                self.names |= asked
                self.reads |= asked
            if "globals" in code.co_names:
                names.update((c, None) for c in code.co_consts if isinstance(c, str))
            steps = [*get_instructions(code)]
            self.reads |= _reads(steps, kept.keys() if code is function.__code__ else set())
            self._see_written(code, steps)
            self.types = self.types or _asks_types(steps)
            self.looks = self.looks or bool(_LOOKING & set(code.co_names)) or _asks_at_will(steps)
            loads = (i for i in steps if i.opname == "LOAD_GLOBAL")
            names.update((i.argval, None) for i in loads)  # co_names has attributes', too
            left |= {i.argval for i in steps if i.opname == "STORE_GLOBAL"}
            brought += [i.argval for i in steps if i.opname == "IMPORT_NAME"]
            codes += [c for c in code.co_consts if isinstance(c, CodeType)]
        space = function.__globals__
        yield from (partial(global_of, n, space) for n in names if n in space and n not in left)
        yield from (partial(global_of, name, space) for name in left)
        yield from (partial(global_of, name, modules) for name in brought if name in modules)
        yield from _own_places(function)

    def _see_written(self, code: CodeType, steps: list[Instruction]) -> None:
        written = {*_writes(steps)}
        if _SETTING & set(code.co_names):
            written |= {c for c in code.co_consts if isinstance(c, str) and c.isidentifier()}
        self.texts |= {x for x in written if isinstance(x, str) and x not in code.co_names}
        self.writes |= written


class Objects:
    """Objects that are found by name, and what they hold, nearest first.

    Attributes:
        owners: plain objects, their attributes as they were, and how deep they lie.
        layers: modules, of which Python's containers do not tell when they change.
        ours: modules of the library's classes, by ``id``.
        spaces: classes and Python modules.
        callables: functions that lie in objects and containers.
        partials: what :func:`functools.partial` made.
        contexts: variables of contexts.
        hooked: whether hooks hang in modules.
        optimizers: those that keep numbers in dicts.
        schedulers: those that set numbers of optimisers, by ``id``.
    """

    def __init__(self) -> None:
        self.owners: list[tuple[Any, dict[str, Any], int]] = []
        self.layers: list[Any] = []
        self.ours: dict[int, Any] = {}
        self.spaces: list[Any] = []
        self.callables: list[Any] = []
        self.partials: list[functools.partial[Any]] = []
        self.contexts: list[ContextVar[Any]] = []
        self.kept: list[tuple[Any, str]] = []
        self.hooked = False
        self.optimizers: list[Any] = []
        self.schedulers: dict[int, Any] = {}
        self.looked = 0
        self._known: dict[int, Any] = {}

    def add(self, value: Any) -> None:
        """Know an object, and those that it holds."""
        pending = deque([(value, 0)])
        while pending:
            each, depth = pending.popleft()
            if id(each) in self._known:
                continue
            if self.looked >= MOST_OBJECTS:
                return
            held = self._held_by(each, depth)
            if held is None:
                continue
            self._known[id(each)] = each
            self.looked += 1
            below = depth if type(each) in _AS_NEAR else depth + 1
            if below <= _MOST_DEPTH:
                pending += [(part, below) for part in held]

    def _held_by(self, each: Any, depth: int) -> Iterable[Any] | None:
        """What an object holds, which is noted by what it is; None of one that holds nothing."""
        if isinstance(each, Tensor):
            return _with_owners(called_by(each)) or None
        if isinstance(each, functools.partial):
            self.callables.append(each.func)
            self.partials.append(each)
            return (each.func, *each.args, *each.keywords.values())
        if isinstance(each, attrgetter | methodcaller):
            self.callables.append(each)
            return ()
        if isinstance(each, ContextVar):
            self.contexts.append(each)
            return (each.get(None),)
        if isinstance(each, ref):
            return (each(),)
        if hasattr(type(each), "_clnet_tables"):
            self.optimizers.append(each)
            return vars(each).values() if each.written else None
        if hasattr(type(each), "_clnet_numbers"):
            self.schedulers[id(each)] = each
        table = table_of(each)
        if table is not None and (depth == 0 or not is_ours(type(each).__module__)):
            self.owners.append((each, table, depth))
            return table.values()
        if getattr(type(each), "_clnet_tells_changes", False):
            self.looked -= 1  # a network has hundreds
            return self._add_layers(each)
        if type(each) in _CONTAINERS:
            return each.values() if type(each) is dict else each
        if isinstance(each, ModuleType | type) and is_programs(each):
            self.spaces.append(each)
            return ()
        if isinstance(each, FunctionType | MethodType):
            self.callables.append(each)
            return (each.__self__,) if isinstance(each, MethodType) else ()
        return None

    def _add_layers(self, network: Any) -> list[Any]:
        """Know a module and those in it, of the program's classes; gives what they hold."""
        held: list[Any] = []
        for layer in network.modules():
            for p in layer._parameters.values():
                held += () if p is None or p.hooks is None else _with_owners(p.hooks.called)
            if layer._clnet_hooks:
                held += _with_owners(layer._clnet_hooks.called)
            self.hooked = self.hooked or layer._clnet_is_hooked
            if is_ours(type(layer).__module__):
                self.ours[id(layer)] = layer
                table = vars(layer).items()
                self.kept += [(layer, n) for n, v in table if type(v) in _KEPT and n[0] != "_"]
            if not is_ours(type(layer).__module__) and id(layer) not in self._known:
                self.layers.append(layer)
                self._known[id(layer)] = layer
                held += [v for k, v in vars(layer).items() if not k.startswith("_")]
        return held

    def methods(self, names: set[str]) -> Iterator[Any]:
        """The functions of classes and modules that go by one of these names, or by Python's."""
        for kind in self._classes():
            for name, value in vars(kind).items():
                if name in names or (name[:2] == "__" and name not in _UNASKED):
                    yield from _functions_of(value)
        for space in self.spaces:
            yield from (vars(space)[name] for name in names if name in vars(space))
        for each in self.callables:
            yield from _functions_of(each)
        for owner in (*(o for o, _, _ in self.owners), *self.layers):
            held = getattr(owner, "__dict__", {})
            yield from (held[name] for name in names if type(held.get(name)) is FunctionType)

    def settings(self, names: set[str]) -> Iterator[tuple[Any, str, Any]]:
        """Classes and modules with each of these names that they have or inherit, and its value."""
        for space in dict.fromkeys((*self.spaces, *self._classes())):
            bases = space.__mro__ if isinstance(space, type) else (space,)
            held = [vars(base) for base in bases if is_programs(base)]
            for name in names & {name for each in held for name in each}:
                yield space, name, next(each[name] for each in held if name in each)

    def _classes(self) -> list[type]:
        """The program's classes of all objects, and those of classes."""
        kinds = dict.fromkeys(type(x) for x in (*(o for o, _, _ in self.owners), *self.layers))
        found = dict.fromkeys(base for kind in kinds for base in kind.__mro__)
        found.update(dict.fromkeys(s for s in self.spaces if isinstance(s, type)))
        found.update(dict.fromkeys(type(kind) for kind in [*found]))
        return [kind for kind in found if is_programs(kind)]


def home(function: FunctionType) -> str:
    """The name of the module that a function's code is of; decorators copy ``__module__``."""
    return function.__globals__.get("__name__", "")


def table_of(value: Any) -> dict[str, Any] | None:
    """An object's attributes; None of one whose changes count otherwise."""
    kind: Any = type(value)
    counts = hasattr(kind, "_clnet_version") or wrapped_in(value) is not MISSING
    if counts or isinstance(value, (Tensor, *_SKIPPED)):
        return None
    held: Any = getattr(value, "__dict__", None)
    names = _slots(kind)
    if type(held) is not dict:
        held = {} if names else None
    elif not names:
        return dict(held)
    if held is None:
        return None
    found = {name: attribute(value, name) for name in names}
    return held | {name: v for name, v in found.items() if v is not MISSING}


def present(value: Any, names: set[str]) -> str:
    """Which of some names an object has itself, whatever its class has."""
    return ",".join(sorted(names & value.__dict__.keys()))


def attribute(value: Any, name: str) -> Any:
    """An attribute, if it is there; a program's ``__getattr__`` may fail in its own way."""
    try:
        return getattr(value, name, MISSING)
    except Exception:
        return MISSING


def wrapped_in(value: Any) -> Any:
    """What a decorated function or a compiled one holds; no ``__getattr__`` is asked."""
    found = getattr_static(value, "__wrapped__", MISSING)
    return MISSING if found is MISSING else attribute(value, "__wrapped__")


def content(cell: CellType, name: str) -> Any:
    """What an enclosing function's variable of that name is, if it was assigned."""
    del name
    try:
        return cell.cell_contents
    except ValueError:
        return MISSING


def default_of(name: str, function: FunctionType) -> Any:
    """What a parameter is that a call leaves out."""
    return _kept_defaults(function).get(name, MISSING)


def _own_places(function: FunctionType) -> Iterator[partial[Any]]:
    """Enclosing variables, kept defaults and attributes: a function's own, not its code's."""
    cells = zip(function.__closure__ or (), function.__code__.co_freevars, strict=True)
    yield from (partial(content, cell, name) for cell, name in cells)
    yield from (partial(default_of, name, function) for name in _kept_defaults(function))
    taken = {"__wrapped__"} | getattr(vars(function).get("__wrapped__"), "__dict__", {}).keys()
    own = (name for name in vars(function) if name not in taken)
    yield from (partial(attribute, function, name) for name in own)


def _names_of(getter: Any) -> Iterable[str]:
    """The names by which one of Python's ``operator`` reads or calls."""
    made_by, held = getter.__reduce__()[:2]
    if isinstance(getter, attrgetter):
        return held
    return made_by.args if isinstance(made_by, functools.partial) else held[:1]


def _dispatched(function: FunctionType) -> Iterable[Any]:
    """The functions among which one of ``functools.singledispatch`` chooses."""
    chosen = vars(function).get("registry")
    return chosen.values() if isinstance(chosen, MappingProxyType) else ()


def _kept_defaults(function: FunctionType) -> dict[str, Any]:
    """Parameters whose default is an object that may change from call to call: a list, a dict."""
    code, given = function.__code__, function.__defaults__ or ()
    names = code.co_varnames[code.co_argcount - len(given) : code.co_argcount]
    found = dict(zip(names, given, strict=True)) | (function.__kwdefaults__ or {})
    return {name: v for name, v in found.items() if type(v) not in _UNCHANGING}


def global_of(name: str, space: dict[str, Any]) -> Any:
    """What a global variable of that name is, if there is one."""
    return space.get(name, MISSING)


def _reads(steps: list[Instruction], own: Set[str] = frozenset()) -> set[str]:
    """The names that code reads, but to count up, to set or to append.

    Those are ``x += 1``, ``x[k] += 1``, ``x[k] = y``, ``x.append(y)`` and ``x[k].append(y)``. Who
    changes a counter and never asks for it computes the same at every call.

    Args:
        steps: the code.
        own: parameters that count as well, since their defaults are kept from call to call.
    """
    found: set[str] = set()
    for i, step in enumerate(steps):
        if step.opname.startswith("LOAD_FAST"):
            if isinstance(step.argval, tuple):  # two at once
                found.update(own & {*step.argval})
                continue
            if step.argval not in own:
                continue
        elif step.opname not in _LOADS or "NULL|self" in step.argrepr:  # called: no counter
            continue
        before = steps[i - 1].opname if i else ""
        behind = steps[i + 1 : i + 4]
        ops = [s.opname for s in behind]
        if step.opname == "LOAD_ATTR" and before in ("COPY", "DUP_TOP"):
            continue  # self.x += y
        if ops[1:2] in (["COPY"], ["DUP_TOP_TWO"], ["STORE_SUBSCR"]):
            continue
        if ops[2:] and ops[2].startswith("STORE_") and behind[2].argval == step.argval:
            continue
        if _appends(behind) or (_picks(behind[1:2]) and _appends(behind[2:])):
            continue
        found.add(step.argval)
    return found


def _writes(steps: list[Instruction]) -> Iterator[Any]:
    """Names of attributes and of variables outside that code assigns, and constant keys."""
    for i, step in enumerate(steps):
        if step.opname in ("STORE_ATTR", "STORE_GLOBAL", "STORE_DEREF"):
            yield step.argval
        elif step.opname.startswith("LOAD_CONST") or step.opname == "LOAD_SMALL_INT":
            behind = steps[i + 1].opname if i + 1 < len(steps) else ""
            key = type(step.argval) in (str, int)
            if key and behind in ("STORE_SUBSCR", "COPY", "DUP_TOP_TWO"):
                yield step.argval


def _picks(steps: list[Instruction]) -> bool:
    """Whether the next step is ``x[k]``, which is an operator from Python 3.14 on."""
    return any(s.opname == "BINARY_SUBSCR" or s.argrepr == "[]" for s in steps)


def _appends(steps: list[Instruction]) -> bool:
    """Whether the next step asks for a method that adds to a container."""
    return bool(
        steps and steps[0].opname in ("LOAD_METHOD", "LOAD_ATTR") and steps[0].argval in _WRITERS
    )


def _asks_types(steps: list[Instruction]) -> bool:
    """Whether code compares a type with Python's of numbers: ``type(x) is int``, ``in (...)``."""
    for i, step in enumerate(steps):
        if step.argval == "type" and step.opname == "LOAD_GLOBAL":
            near = steps[i + 1 : i + _NEAR]
            compared = any(s.opname in ("IS_OP", "COMPARE_OP", "CONTAINS_OP") for s in near)
            numbers = any(s.argval in ("int", "float", "complex", "bool") for s in near)
            if compared and (numbers or any(s.opname == "CONTAINS_OP" for s in near)):
                return True
    return False


def _asks_at_will(steps: list[Instruction]) -> bool:
    """Whether code asks for an attribute whose name it does not hold: ``getattr(x, name)``."""
    return any(
        step.argval in _ASKING and step.opname.startswith("LOAD_") and not _asks(steps[i + 1 :])
        for i, step in enumerate(steps)
    )


def _asks(steps: list[Instruction]) -> bool:
    """Whether what is called for an attribute gets a constant alone as the name.

    Python's stack is followed: of ``getattr(x, "y" + name)`` the second argument is computed.

    Args:
        steps: what follows when ``getattr`` or ``hasattr`` was loaded.
    """
    depth, constant = 0, False  # arguments on the stack; whether the second is a constant
    for i, step in enumerate(steps):
        if step.opname == "PUSH_NULL" and i == 0:  # a part of the call
            continue
        if step.opname in _CALLS and depth == step.arg:
            return constant
        if step.opcode in _JUMPS or depth < 0:
            return False
        before, depth = depth, depth + stack_effect(step.opcode, step.arg)
        if depth <= 2:
            constant = before == 1 and step.opname == "LOAD_CONST"
    return False


def _slots(kind: type) -> list[str]:
    """The names of slots of a class of the program's, of which there may be many objects."""
    known = _SLOTS.get(kind)
    if known is not None:
        return known
    found: list[str] = []
    for base in kind.__mro__:
        named: Any = vars(base).get("__slots__", ())
        if not is_programs(base):
            continue
        for name in (named,) if isinstance(named, str) else named:
            hidden = name.startswith("__") and not name.endswith("__")
            found.append(f"_{base.__name__.lstrip('_')}{name}" if hidden else name)
    _SLOTS[kind] = found = [name for name in found if name not in ("__dict__", "__weakref__")]
    return found


def _functions_of(value: Any) -> Iterable[Any]:
    """The functions that an entry of a class may run."""
    if isinstance(value, property):
        return (value.fget,)
    if isinstance(value, functools.cached_property):
        return (value.func,)
    return (getattr(value, "__func__", value),)  # of a static method, or a class's


def _with_owners(hooks: Iterable[Any]) -> list[Any]:
    """Hooks, and the objects whose methods some are."""
    owners = (hook.__self__ for hook in hooks if isinstance(hook, MethodType))
    return [*hooks, *owners]


def is_ours(module: str) -> bool:
    """Whether a module of that name is clnet's."""
    return module.partition(".")[0] == "clnet"
