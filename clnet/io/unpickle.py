"""Pickles read as data: a machine of its own that knows containers and what its caller names.

Python's unpickler imports and calls what a file says; of its module come the names of
instructions alone. This one makes plain values; a global is
looked up in a table, and one that is not there is refused by name. What it makes is bounded by
what it reads: every element that an instruction copies is paid for by bytes of the pickle.
"""

from __future__ import annotations

import pickle
import struct
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Mapping
from typing import Any

from ..errors import CheckpointError, ClnetError

_COPIES = 16  # elements that calls may copy for each byte of the pickle
_LONGEST_NUMBER = 64  # bytes of a whole number
_MARK = object()
_KEYS = (str, int, float, bool, bytes, type(None))
_NEWEST = 5  # protocol of Python's that is read
_CONSTANTS: dict[bytes, Any] = {pickle.NONE: None, pickle.NEWTRUE: True, pickle.NEWFALSE: False}
_EMPTY: dict[bytes, Callable[[], Any]] = {
    pickle.EMPTY_LIST: list,
    pickle.EMPTY_DICT: dict,
    pickle.EMPTY_TUPLE: tuple,
    pickle.EMPTY_SET: set,
}
_FIXED = {pickle.BININT: "<i", pickle.BININT1: "<B", pickle.BININT2: "<H", pickle.BINFLOAT: ">d"}
_PUT = {pickle.BINPUT: "<B", pickle.LONG_BINPUT: "<I"}
_GET = {pickle.BINGET: "<B", pickle.LONG_BINGET: "<I"}
_TUPLES = {pickle.TUPLE1: 1, pickle.TUPLE2: 2, pickle.TUPLE3: 3}


class _DamagedError(Exception):
    """Bytes that are no pickle."""


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogatepass")


def _old_text(data: bytes) -> str:
    """A string of Python 2."""
    return data.decode("latin1")


def _whole(data: bytes) -> int:
    if len(data) > _LONGEST_NUMBER:
        raise _DamagedError("a whole number of too many bytes")
    return int.from_bytes(data, "little", signed=True)


# What has no fixed size: how that stands before it, and what the bytes behind it mean.
_SIZED: dict[bytes, tuple[str, Callable[[bytes], Any]]] = {
    pickle.BINUNICODE: ("<I", _text),
    pickle.SHORT_BINUNICODE: ("<B", _text),
    pickle.BINUNICODE8: ("<Q", _text),
    pickle.BINBYTES: ("<I", bytes),
    pickle.SHORT_BINBYTES: ("<B", bytes),
    pickle.BINBYTES8: ("<Q", bytes),
    pickle.BYTEARRAY8: ("<Q", bytes),
    pickle.SHORT_BINSTRING: ("<B", _old_text),
    pickle.BINSTRING: ("<I", _old_text),
    pickle.LONG1: ("<B", _whole),
    pickle.LONG4: ("<i", _whole),
}


class Global:
    """What a pickle may name: a function that is called with the pickle's arguments.

    Args:
        call: called where the pickle calls it; None: a constant, which is never called.
        value: what stands for it among values; None: the function.
    """

    def __init__(self, call: Callable[..., Any] | None = None, value: Any = None) -> None:
        self.call = call
        self.value = call if value is None else value


def _counted(found: Any = ()) -> dict[Any, Any]:
    """What a schedule of milestones keeps, as a plain dict."""
    if not isinstance(found, dict):
        raise _DamagedError("a Counter of something else than a dict")
    return dict(found)


def _ordered(items: Any = ()) -> OrderedDict[Any, Any]:
    made: OrderedDict[Any, Any] = OrderedDict()
    for key, value in items:
        made[_key(key)] = value
    return made


def _defaults(factory: Any = None) -> defaultdict[Any, Any]:
    if factory not in (None, list, dict, int, float, str, set):
        raise _DamagedError("a defaultdict of an unknown kind")
    return defaultdict(factory)


def _encoded(text: str, how: str) -> bytes:
    """Bytes as pickles of protocol 2 have them."""
    if how != "latin1":
        raise _DamagedError("bytes in another encoding than latin1")
    return text.encode("latin1")


PLAIN: dict[str, Global] = {
    "collections.OrderedDict": Global(_ordered),
    "collections.Counter": Global(_counted),
    "collections.defaultdict": Global(_defaults),
    "_codecs.encode": Global(_encoded),
    **{
        f"{module}.{kind.__name__}": Global(call, kind)
        for module in ("builtins", "__builtin__")
        for kind, call in (
            (set, lambda items=(): {_key(x) for x in items}),
            (frozenset, lambda items=(): frozenset(_key(x) for x in items)),
            (list, lambda items=(): list(items)),
            (dict, lambda items=(): dict(_ordered(items))),
            (tuple, lambda items=(): tuple(items)),
            (complex, lambda real, imag: complex(float(real), float(imag))),
            (bytearray, lambda data=b"": bytearray(bytes(data))),
            (int, None),
            (float, None),
            (str, None),
        )
    },
}
"""Containers and bytes, by the names that pickles give them."""


def _key(value: Any) -> Any:
    """A value that is hashed: a plain one, or a tuple of these.

    Python walks nested tuples with its own stack, which a file could exhaust.
    """
    if type(value) is tuple:
        if not all(isinstance(x, _KEYS) for x in value):
            raise _DamagedError("a key is no plain value")
    elif not isinstance(value, _KEYS):
        raise _DamagedError("a key is no plain value")
    return value


class Machine:
    """Reads one pickle.

    Args:
        data: bytes that hold it.
        globals_: what it may name, ``module.name``; :data:`PLAIN` is known anyway.
        persistent: gives the value of a persistent id.
        built: told of a value and the state that the pickle sets on it; it may set some.

    Attributes:
        position: where the machine stands in the data; behind the pickle, once it has been read.
    """

    def __init__(
        self,
        data: bytes,
        globals_: Mapping[str, Global],
        *,
        persistent: Callable[[Any], Any],
        built: Callable[[Any, Any], None],
        position: int = 0,
    ) -> None:
        self.position = position
        self._data = data
        self._globals = {**PLAIN, **globals_}
        self._persistent = persistent
        self._built = built
        self._stack: list[Any] = []
        self._memo: dict[int, Any] = {}
        self._left = _COPIES * len(data) + 1000

    def run(self, name: str) -> Any:
        """The pickle's value.

        Args:
            name: of the file, for errors.

        Raises:
            CheckpointError: if it is damaged, or names what is not known.
        """
        try:
            while True:
                code = self._take(1)
                if code == pickle.STOP:
                    return self._pop()
                self._do(code)
        except ClnetError:
            raise
        except _DamagedError as error:
            raise CheckpointError(
                name, f"the pickle is damaged: {error}", byte=self.position
            ) from None
        except (
            *(IndexError, KeyError, TypeError, ValueError, OverflowError, AttributeError),
            *(struct.error, RecursionError, MemoryError),
        ) as error:
            kind = type(error).__name__
            raise CheckpointError(
                name, "the pickle is damaged", byte=self.position, error=kind
            ) from error

    # Reading.

    def _take(self, count: int) -> bytes:
        end = self.position + count
        if not self.position <= end <= len(self._data):
            raise _DamagedError("it ends too early")
        found, self.position = self._data[self.position : end], end
        return found

    def _line(self) -> str:
        end = self._data.find(b"\n", self.position, self.position + 4096)
        if end < 0:
            raise _DamagedError("a line does not end")
        found = self._data[self.position : end].decode()
        self.position = end + 1
        return found

    def _number(self, form: str) -> Any:
        return struct.unpack(form, self._take(struct.calcsize(form)))[0]

    # The stack.

    def _pop(self) -> Any:
        value = self._stack.pop()
        if value is _MARK:
            raise _DamagedError("a mark where a value is due")
        return value

    def _since_mark(self) -> list[Any]:
        at = len(self._stack) - 1
        while self._stack[at] is not _MARK:  # an IndexError ends it
            at -= 1
            if at < 0:
                raise _DamagedError("a mark is missing")
        found = self._stack[at + 1 :]
        del self._stack[at:]
        return found

    def _top(self, *kinds: type) -> Any:
        value = self._stack[-1]
        if not isinstance(value, kinds):
            raise _DamagedError(f"{type(value).__name__} in the place of a container")
        return value

    def _do(self, code: bytes) -> None:
        """One instruction; those of each kind have a method."""
        if not (self._read(code) or self._gather(code) or self._fill(code) or self._remember(code)):
            self._other(code)

    def _read(self, code: bytes) -> bool:
        """What puts a value on the stack that stands in the instruction."""
        if code in _CONSTANTS:
            self._stack.append(_CONSTANTS[code])
        elif code in _EMPTY:
            self._stack.append(_EMPTY[code]())
        elif code in _FIXED:
            self._stack.append(self._number(_FIXED[code]))
        elif code in _SIZED:
            form, meaning = _SIZED[code]
            self._stack.append(meaning(self._take(self._number(form))))
        else:
            return False
        return True

    def _gather(self, code: bytes) -> bool:
        """What puts a container of values on the stack that lie there."""
        match code:
            case pickle.TUPLE:
                value: Any = tuple(self._since_mark())
            case pickle.TUPLE1 | pickle.TUPLE2 | pickle.TUPLE3:
                value = tuple([self._pop() for _ in range(_TUPLES[code])][::-1])
            case pickle.LIST:
                value = self._since_mark()
            case pickle.DICT:
                value = self._pairs(self._since_mark())
            case pickle.FROZENSET:
                value = frozenset(map(_key, self._since_mark()))
            case _:
                return False
        self._stack.append(value)
        return True

    def _fill(self, code: bytes) -> bool:
        """What adds to the container on top of the stack."""
        match code:
            case pickle.APPEND:
                value = self._pop()
                self._top(list).append(value)
            case pickle.APPENDS:
                values = self._since_mark()
                self._top(list).extend(values)
            case pickle.SETITEM:
                value, key = self._pop(), self._pop()
                self._top(dict)[_key(key)] = value
            case pickle.SETITEMS:
                pairs = self._pairs(self._since_mark())
                self._top(dict).update(pairs)
            case pickle.ADDITEMS:
                values = [_key(x) for x in self._since_mark()]
                self._top(set).update(values)
            case _:
                return False
        return True

    def _pairs(self, flat: list[Any]) -> dict[Any, Any]:
        if len(flat) % 2:
            raise _DamagedError("a key without a value")
        return {_key(flat[k]): flat[k + 1] for k in range(0, len(flat), 2)}

    def _remember(self, code: bytes) -> bool:
        """The memo."""
        if code in _PUT:
            self._memo[self._number(_PUT[code])] = self._peek()
        elif code == pickle.MEMOIZE:
            self._memo[len(self._memo)] = self._peek()
        elif code in _GET:
            self._stack.append(self._memo[self._number(_GET[code])])
        else:
            return False
        return True

    def _peek(self) -> Any:
        value = self._stack[-1]
        if value is _MARK:
            raise _DamagedError("a mark where a value is due")
        return value

    def _other(self, code: bytes) -> None:
        """Marks, calls and what a pickle says of itself."""
        match code:
            case pickle.PROTO:
                if self._number("<B") > _NEWEST:
                    raise _DamagedError("an unknown protocol")
            case pickle.FRAME:  # its length says nothing that is needed
                self._number("<Q")
            case pickle.MARK:
                self._stack.append(_MARK)
            case pickle.POP:
                self._pop()
            case pickle.POP_MARK:
                self._since_mark()
            case pickle.DUP:
                self._stack.append(self._peek())
            case pickle.GLOBAL:
                self._stack.append(self._named(self._line(), self._line()))
            case pickle.STACK_GLOBAL:
                name, module = self._pop(), self._pop()
                self._stack.append(self._named(module, name))
            case pickle.REDUCE | pickle.NEWOBJ:  # a call, or an object made anew
                arguments, function = self._pop(), self._pop()
                self._stack.append(self._called(function, arguments))
            case pickle.BUILD:
                state = self._pop()
                self._built(self._peek(), state)
            case pickle.BINPERSID:
                self._stack.append(self._persistent(self._pop()))
            case _:
                raise _DamagedError(f"instruction {code[0]:#04x} is not known")

    def _named(self, module: Any, name: Any) -> Any:
        if not (isinstance(module, str) and isinstance(name, str)):
            raise _DamagedError("a global's name is no text")
        found = self._globals.get(f"{module}.{name}")
        if found is None:
            text = f"{module}.{name}"
            raise CheckpointError(
                "load",
                "the file names what is no tensor and no plain container",
                name=repr(text if len(text) < 200 else f"{text[:200]} ..."),
                remedy="Save the state_dict() alone: nothing that a file names is run",
            )
        return found if found.call is not None else found.value

    def _called(self, function: Any, arguments: Any) -> Any:
        if not isinstance(function, Global) or function.call is None:
            raise _DamagedError("what is called is no function")
        if type(arguments) is not tuple:
            raise _DamagedError("arguments are no tuple")
        for x in arguments:
            if isinstance(x, list | tuple | dict | set | frozenset | str | bytes | bytearray):
                self._left -= len(x)
        if self._left < 0:
            raise _DamagedError("it copies more than such a file can mean")
        return function.call(*[x.value if isinstance(x, Global) else x for x in arguments])
