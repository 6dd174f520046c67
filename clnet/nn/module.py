"""The base of layers and models: parameters, buffers, sub-modules, state. It computes nothing."""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from types import FunctionType
from typing import Any

from ..autodiff.gradient import forget_gradients
from ..errors import (
    ClnetError,
    DtypeError,
    EarlyMemberError,
    MemberNameError,
)
from ..face.attribute import destination
from ..tensor import Tensor
from ..values import mode
from ..values.arguments import checked_class, shown
from ..values.changes import MODULES
from .module_hook import EVERYWHERE, NAMED, Hooks, named
from .module_hook import register_module_backward_hook as register_module_backward_hook
from .module_hook import (
    register_module_buffer_registration_hook as register_module_buffer_registration_hook,
)
from .module_hook import register_module_forward_hook as register_module_forward_hook
from .module_hook import register_module_forward_pre_hook as register_module_forward_pre_hook
from .module_hook import register_module_full_backward_hook as register_module_full_backward_hook
from .module_hook import (
    register_module_full_backward_pre_hook as register_module_full_backward_pre_hook,
)
from .module_hook import (
    register_module_module_registration_hook as register_module_module_registration_hook,
)
from .module_hook import (
    register_module_parameter_registration_hook as register_module_parameter_registration_hook,
)
from .module_state import EXTRA as _EXTRA_STATE_KEY_SUFFIX  # noqa: F401 - PyTorch's
from .module_state import IncompatibleKeys as IncompatibleKeys
from .module_state import ModuleState
from .parameter import Buffer as Buffer
from .parameter import Parameter as Parameter

_OWN = f"{__name__.partition('.')[0]}."


def _is_of_clnet(value: FunctionType) -> bool:
    """Whether it is a function of a module here, such as an op."""
    place = value.__module__ or ""
    if not place.startswith(_OWN):
        return False
    return getattr(sys.modules.get(place), value.__name__, None) is value


class Module(ModuleState):
    """A layer or model: a callable with parameters.

    Subclasses define ``forward`` and assign parameters, buffers and modules as attributes, after
    calling ``super().__init__()``.

    Threads may call one module at once; each op of theirs is a whole. What changes the module
    (``train()``, ``to()``, attributes, an optimiser's eager step) is for one thread at a time, as
    in PyTorch. A training step that is compiled is a whole, so threads may share it.

    Attributes:
        training: whether dropout, batch norm and the like behave as in training.
        computes_a_tensor: whether it stands for a tensor of the module above (a parametrization).
        call_super_init: whether the constructor goes on to that of the class behind it.
    """

    training: bool
    call_super_init = False
    computes_a_tensor = False
    _clnet_tells_changes = True

    def __init_subclass__(cls, **given: Any) -> None:
        super().__init_subclass__(**given)
        if cls.__module__.startswith(f"{__package__}."):
            checked_class(cls)
        if not cls.__module__.startswith(_OWN):
            for name, value in [*vars(cls).items()]:
                if type(value) is FunctionType and _is_of_clnet(value):
                    setattr(cls, name, staticmethod(value))  # as PyTorch's, which are no methods

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if (args or kwargs) and not self.call_super_init:
            given = [f"{len(args)} positional"] * bool(args) + [*kwargs]
            raise TypeError(f"{type(self).__name__}: Module takes no arguments; got {given}")
        fields: dict[str, Any] = {
            "training": True,
            "_clnet_num_changes": 0,
            "_parameters": OrderedDict(),
            "_buffers": OrderedDict(),
            "_clnet_transient": set(),
            "_modules": OrderedDict(),
            "_clnet_path": "",
            "_clnet_hooks": Hooks(),
        }
        self.__dict__.update(fields)
        if self.call_super_init:
            super().__init__(*args, **kwargs)

    def __setstate__(self, state: dict[str, Any]) -> None:
        """A copied or unpickled module's attributes; subclasses that have their own call it."""
        self.__dict__.update(state)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the module computes; subclasses define it."""
        raise NotImplementedError(f"{type(self).__name__}.forward")

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        """Run ``forward``, with the module's name in the path that profiles and errors show."""
        now = mode.current()
        if now.tracer is not None:
            now.tracer.watch(self)
        name = type(self).__name__
        path = f"{now.module_path}." if now.module_path else ""
        path = (path + self._clnet_path) or name
        try:
            mode.change(module_path=path)
            if EVERYWHERE:
                return self._clnet_hooks.behind(EVERYWHERE).run(self, args, kwargs)
            if self._clnet_hooks:
                return self._clnet_hooks.run(self, args, kwargs)
            return self.forward(*args, **kwargs)
        except ClnetError as error:
            if error.module is None:  # the innermost module is the one that helps
                error.module = path if path == name else f"{path}, {name}"
            raise
        finally:
            mode.restore(now)

    def _clnet_changed(self) -> None:
        self.__dict__["_clnet_num_changes"] += 1
        MODULES.tell()

    @property
    def _clnet_version(self) -> tuple[int, int, bool]:
        """Changes with the mode and when attributes, dtype or device change, but not with elements.

        Compiled functions trace again when it is another than it was.
        """
        return (self._clnet_num_changes, EVERYWHERE.num_changes, self.training)

    def _clnet_version_but(self, names: frozenset[tuple[int, Any]]) -> tuple[int, int, bool]:
        """The version, but for attributes of these names, pairs of a table's ``id`` and a key."""
        told, own = self.__dict__.get("_clnet_told", {}), id(self.__dict__)
        left = self._clnet_num_changes - sum(n for k, n in told.items() if (own, k) in names)
        return (left, EVERYWHERE.num_changes, self.training)

    # Attributes.

    def __setattr__(self, name: str, value: Any) -> None:
        if "_modules" not in self.__dict__:
            self._clnet_assign_early(name, value)
        elif (computed := self._clnet_computed(name)) is not None:
            computed.assign(value)
        elif isinstance(value, Module | Parameter | Buffer):
            self._clnet_assign_member(name, value)
        elif self._clnet_is_traced_state(name, value):
            table = self._buffers if name in self._buffers else vars(self)
            mode.current().tracer.rebind(self, table, name, value)
        elif name in self._buffers or (
            name in self._parameters and (value is None or isinstance(value, Tensor))
        ):
            self._clnet_replace(name, value)
        elif value is None and name in self._modules:  # whose place it keeps
            self._clnet_register(self._modules, name, None)
        elif not self._clnet_resets(name, value):
            self._clnet_forget(name)
            object.__setattr__(self, name, value)
            self._clnet_tell_of(name)

    def _clnet_assign_early(self, name: str, value: Any) -> None:
        """Assign an attribute before ``Module.__init__`` has made the tables of members."""
        if isinstance(value, Module | Parameter):
            raise EarlyMemberError(
                type(self).__name__,
                "parameters and modules are assigned after super().__init__()",
                attribute=name,
            )
        object.__setattr__(self, name, value)  # a property of the class has its way

    def _clnet_assign_member(self, name: str, value: Any) -> None:
        """Enter a module, parameter or buffer, in the place of whatever had the name."""
        if isinstance(value, Module):
            self._clnet_forget(name, but=self._modules)
            self._clnet_register(self._modules, name, value, assigned=True)
        elif isinstance(value, Parameter):
            self._clnet_forget(name, but=self._parameters)
            self.register_parameter(name, value)
        else:
            self._clnet_forget(name, but=self._buffers)
            kept = vars(value)["persistent"]  # True is not said: a program's own may not take it
            self.register_buffer(name, value, *(() if kept else (False,)))

    def _clnet_replace(self, name: str, value: Any) -> None:
        """Put a tensor or None in a buffer's place, None in a parameter's.

        Raises:
            DtypeError: for anything else.
        """
        if name in self._buffers:
            table, kind, takes, called = self._buffers, "buffer", Tensor, "tensor"
        else:
            table, kind, takes, called = self._parameters, "parameter", Parameter, "Parameter"
        if not (value is None or isinstance(value, takes)):
            raise DtypeError(
                type(self).__name__,
                f"a {kind} is replaced by a {called} or None",
                attribute=name,
                type=type(value).__name__,
                remedy=f"Make it a {called} first, or del the attribute",
            )
        self._clnet_register(table, name, value)

    def __getattr__(self, name: str) -> Any:
        for table in ("_parameters", "_buffers", "_modules"):
            found = self.__dict__.get(table, {})
            if name in found:
                return found[name]
        computed = self._clnet_computed(name)
        if computed is not None:
            return computed.value()
        # In Python's own words, which programs look for.
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __dir__(self) -> list[str]:
        held = (vars(self).get(table, ()) for table in ("_parameters", "_buffers", "_modules"))
        names = {*super().__dir__(), *(name for table in held for name in table)}
        return sorted(name for name in names if name.isidentifier())

    def _clnet_is_traced_state(self, name: str, value: Any) -> bool:
        """Whether a traced function assigns a tensor: it is there when a replay has made it."""
        if mode.current().tracer is None or type(value) is not Tensor:
            return False
        of_class = getattr(type(self), name, None)  # a property has its way
        return not (
            name in self._parameters or name in self._modules or hasattr(of_class, "__set__")
        )

    def _clnet_computed(self, name: str) -> Any:
        """What computes the tensor of this name (``nn.utils.parametrize``), or None."""
        lists = self.__dict__.get("_modules", {}).get("parametrizations")
        found = None if lists is None else lists._modules.get(name)
        return found if found is not None and found.computes_a_tensor else None

    def __delattr__(self, name: str) -> None:
        for table in (self._parameters, self._buffers, self._modules):
            if name in table:
                del table[name]
                self._clnet_transient.discard(name)
                self._clnet_changed()
                return
        object.__delattr__(self, name)
        self._clnet_changed()

    def register_parameter(self, name: str, parameter: Parameter | None) -> None:
        """A parameter under a name, or None to say that there is none.

        Raises:
            DtypeError: if it is no parameter.
            MemberNameError: if something else has the name, or it is empty or has a dot.
        """
        if parameter is not None and not isinstance(parameter, Parameter):
            law, kind = "it is a Parameter", type(parameter).__name__
            raise DtypeError(type(self).__name__, law, name=name, type=kind)
        self._clnet_register(self._parameters, name, parameter)

    def register_buffer(
        self,
        name: str,
        tensor: Tensor | None,
        persistent: bool = True,  # noqa: FBT001, FBT002 - PyTorch's
    ) -> None:
        """A tensor that moves with the module but is not trained (running statistics).

        Args:
            name: what it is called.
            tensor: the tensor, or None to say that there is none.
            persistent: whether it belongs to :meth:`state_dict`.

        Raises:
            DtypeError: if it is no tensor.
            MemberNameError: if something else has the name, or it is empty or has a dot.
        """
        if tensor is not None and not isinstance(tensor, Tensor):
            law, kind = "a buffer is a tensor", type(tensor).__name__
            raise DtypeError(type(self).__name__, law, name=name, type=kind)
        traced = tensor is not None and self._clnet_is_traced_state(name, tensor)
        self._clnet_register(self._buffers, name, None if traced else tensor)
        if traced:  # it is there when a replay has made it
            mode.current().tracer.rebind_new(self, self._buffers, name, tensor)
        (self._clnet_transient.discard if persistent else self._clnet_transient.add)(name)

    def add_module(self, name: str, module: Module | None) -> None:
        """A sub-module under a name, or None to say that there is none.

        Raises:
            DtypeError: if it is no module.
            MemberNameError: if something else has the name, or it is empty or has a dot.
        """
        if module is not None and not isinstance(module, Module):
            law, kind = "a sub-module is a Module", type(module).__name__
            raise DtypeError(type(self).__name__, law, name=name, type=kind)
        self._clnet_register(self._modules, name, module)

    def register_module(self, name: str, module: Module | None) -> None:
        """As :meth:`add_module`."""
        self.add_module(name, module)

    def _clnet_register(self, table: Any, name: str, value: Any, *, assigned: bool = False) -> None:
        """Enter a value in a table, at its old place if the name is there."""
        if not isinstance(name, str):
            raise DtypeError(type(self).__name__, "a name is a string", name=repr(name))
        if not name or "." in name:
            law = "a name is not empty and has no dot"
            raise MemberNameError(type(self).__name__, law, name=repr(name))
        if name not in table and not assigned and self._clnet_has(name):
            law = "something else has the name"
            hint = f"Take another, or del the attribute {name!r} first"
            raise MemberNameError(type(self).__name__, law, name=repr(name), remedy=hint)
        for kind, hooks in NAMED.items():
            if hooks and table is vars(self)[kind]:
                value = named(self, kind, name, value)
        table[name] = value
        if isinstance(value, Module):
            value.__dict__["_clnet_path"] = name
        self._clnet_changed()

    def _clnet_has(self, name: str) -> bool:
        tables = (self.__dict__, self._parameters, self._buffers, self._modules)
        if any(name in table for table in tables):
            return True
        of_class = next((vars(c)[name] for c in type(self).__mro__ if name in vars(c)), None)
        if of_class is None or getattr(of_class, "gives_way", False):
            return False
        return hasattr(self, name)  # a property may have nothing to give yet

    def _clnet_forget(self, name: str, *, but: OrderedDict[str, Any] | None = None) -> None:
        tables = (self.__dict__, self._parameters, self._buffers, self._modules)
        for table in tables:  # programs that copy modules assign the tables themselves
            if table is not but:
                table.pop(name, None)
        if but is not tables[2]:
            self._clnet_transient.discard(name)

    # Walks.

    def named_modules(
        self,
        memo: set[Module] | None = None,
        prefix: str = "",
        remove_duplicate: bool = True,  # noqa: FBT001, FBT002 - PyTorch's
    ) -> Iterator[tuple[str, Module]]:
        """The module and all below it, with dotted names.

        Args:
            memo: modules that are left out; those that are given are added.
            prefix: what the names begin with.
            remove_duplicate: each once, though it is at several places.
        """
        seen = set[Any]() if memo is None else memo
        stack: list[tuple[str, Module]] = [(prefix, self)]
        while stack:
            name, module = stack.pop()
            if remove_duplicate and module in seen:
                continue
            seen.add(module)
            yield name, module
            below = [(f"{name}.{n}" if name else n, m) for n, m in module._clnet_below()]
            stack.extend(reversed(below))

    def modules(self) -> Iterator[Module]:
        """The module and all below it, each once."""
        return (module for _, module in self.named_modules())

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """The direct sub-modules, each once, by its first name."""
        known: set[int] = set()
        for name, module in self._clnet_below():
            if id(module) not in known:
                known.add(id(module))
                yield name, module

    def _clnet_below(self) -> Iterator[tuple[str, Module]]:
        """All names of direct sub-modules, as states have them."""
        yield from ((name, m) for name, m in self._modules.items() if m is not None)

    def children(self) -> Iterator[Module]:
        """The direct sub-modules, each once."""
        yield from (m for _, m in self.named_children())

    def named_parameters(
        self,
        prefix: str = "",
        recurse: bool = True,  # noqa: FBT001, FBT002 - PyTorch's
        remove_duplicate: bool = True,  # noqa: FBT001, FBT002
    ) -> Iterator[tuple[str, Parameter]]:
        """All parameters, each once, with dotted names behind ``prefix``.

        Args:
            prefix: what the names begin with.
            recurse: those of sub-modules, too.
            remove_duplicate: False: under each of their names.
        """
        return self._clnet_named("_parameters", prefix, recurse, remove_duplicate)

    def _named_members(  # for programs
        self,
        get_members_fn: Callable[[Module], Iterable[tuple[str, Any]]],
        prefix: str = "",
        recurse: bool = True,  # noqa: FBT001, FBT002 - PyTorch's
        remove_duplicate: bool = True,  # noqa: FBT001, FBT002
    ) -> Iterator[tuple[str, Any]]:
        """What a function gives of each module, each value once, with dotted names."""
        seen: dict[int, Any] = {}  # which lets no later value have the id of a former one
        below = self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate)
        for path, module in below if recurse else [(prefix, self)]:
            for name, value in get_members_fn(module):
                if value is not None and id(value) not in seen:
                    seen.update({id(value): value} if remove_duplicate else {})
                    yield f"{path}.{name}" if path else name, value

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:  # noqa: FBT001, FBT002
        """All parameters, each once; without ``recurse`` the module's own."""
        return (p for _, p in self.named_parameters(recurse=recurse))

    def named_buffers(
        self,
        prefix: str = "",
        recurse: bool = True,  # noqa: FBT001, FBT002
        remove_duplicate: bool = True,  # noqa: FBT001, FBT002
    ) -> Iterator[tuple[str, Tensor]]:
        """All buffers, each once, with dotted names; arguments as :meth:`named_parameters`'."""
        return self._clnet_named("_buffers", prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:  # noqa: FBT001, FBT002
        """All buffers, each once; without ``recurse`` the module's own."""
        return (b for _, b in self.named_buffers(recurse=recurse))

    def get_submodule(self, target: str) -> Module:
        """The module of a dotted name; the module itself for an empty one.

        Raises:
            AttributeError: if there is none.
        """
        module = self
        for name in target.split(".") if target else ():
            if module._modules.get(name) is None:
                raise AttributeError(f"{type(module).__name__} has no sub-module {name!r}")
            module = module._modules[name]
        return module

    def get_parameter(self, target: str) -> Parameter:
        """The parameter of a dotted name.

        Raises:
            AttributeError: if there is none.
        """
        return self._clnet_get("_parameters", "parameter", target)

    def get_buffer(self, target: str) -> Tensor:
        """The buffer of a dotted name.

        Raises:
            AttributeError: if there is none.
        """
        return self._clnet_get("_buffers", "buffer", target)

    def apply(self, function: Callable[[Module], Any]) -> Module:
        """Call ``function`` on every module, the lower ones first; returns the module."""
        for module in self.children():
            module.apply(function)
        function(self)
        return self

    # Mode, dtype, device.

    def train(self, mode: bool = True) -> Module:  # noqa: FBT001, FBT002 - PyTorch's
        """Behave as in training (or not), here and below; returns the module.

        The sub-modules' own ``train`` is called: one that keeps a norm frozen overrides it.

        Raises:
            DtypeError: if ``mode`` is no boolean.
        """
        if not isinstance(mode, bool):
            raise DtypeError(type(self).__name__, "a mode is True or False", mode=shown(mode))
        if self.training != mode:
            self.training = mode
        for module in self.children():
            module.train(mode)
        return self

    def eval(self) -> Module:
        """Behave as in evaluation; returns the module."""
        return self.train(False)  # by place: who overrides it may call it otherwise

    def requires_grad_(self, requires_grad: bool = True) -> Module:  # noqa: FBT001, FBT002 - PyTorch's
        """Train the parameters (or not); returns the module."""
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:  # noqa: FBT001, FBT002 - PyTorch's
        """Forget the parameters' gradients, or overwrite them with 0."""
        forget_gradients(self.parameters(), set_to_none=set_to_none)

    def to(self, *args: Any, **kwargs: Any) -> Module:
        """Move or convert the parameters and buffers in place; returns the module.

        Args:
            *args: a device (or its name), a dtype, or a tensor to be like.
            **kwargs: ``device=`` and ``dtype=``; the dtype is for the floating and complex ones.
                PyTorch's ``non_blocking`` and ``memory_format`` are taken.

        Raises:
            DtypeError: if the dtype is one of whole numbers, or bool.
        """
        device, dtype = destination("to", args, kwargs)
        if dtype is not None and not (dtype.is_floating_point or dtype.is_complex):
            raise DtypeError("to", "a module's dtype is floating or complex", dtype=dtype)

        def moved(x: Tensor) -> Tensor:
            converts = x.dtype.is_floating_point or x.dtype.is_complex
            return x.to(device=device, dtype=dtype if converts else None)

        return self._apply(moved)

    def _apply(self, function: Callable[[Tensor], Tensor], recurse: bool = True) -> Module:  # noqa: FBT001, FBT002
        """Change parameters, their gradients and buffers in place; PyTorch's name.

        Programs override it to take along what they hold beside.
        """
        for module in self.children() if recurse else ():
            module._apply(function)
        for value in (*self._parameters.values(), *self._buffers.values()):
            if value is not None:
                gradient = value.grad
                value.array = function(value.detach()).array
                value.grad = None if gradient is None else function(gradient.detach())
        self._clnet_changed()
        return self

    # Text.

    def extra_repr(self) -> str:
        """The settings shown in the module's text."""
        return ""

    def __repr__(self) -> str:
        settings, name = self.extra_repr(), self._get_name()
        if not self._modules:
            return f"{name}({settings})"
        lines = [f"({n}): {m!r}" for n, m in self._modules.items()]
        return indented(name, [settings, *lines] if settings else lines)

    def _get_name(self) -> str:
        """What it is called in texts; PyTorch gives parametrized modules a class of their own."""
        return f"{'Parametrized' * ('parametrizations' in self._modules)}{type(self).__name__}"

    def _clnet_named(
        self,
        table: str,
        prefix: str,
        recurse: bool,  # noqa: FBT001
        once: bool = True,  # noqa: FBT001, FBT002
    ) -> Iterator[tuple[str, Any]]:
        seen: set[int] = set()
        below = self.named_modules(prefix=prefix, remove_duplicate=once)
        for path, module in below if recurse else [(prefix, self)]:
            for name, value in getattr(module, table).items():
                if value is not None and not (once and id(value) in seen):
                    seen.add(id(value))
                    yield (f"{path}.{name}" if path else name), value

    def _clnet_get(self, table: str, kind: str, target: str) -> Any:
        path, _, name = target.rpartition(".")
        module = self.get_submodule(path)
        found = module.__dict__[table].get(name)
        if found is None:
            raise AttributeError(f"{type(module).__name__} has no {kind} {name!r}")
        return found


_IncompatibleKeys = IncompatibleKeys  # PyTorch's name, which packages import


def indented(name: str, lines: list[str]) -> str:
    """A module's text: its class, and a line or block for each thing in it."""
    inner = "\n".join(lines).replace("\n", "\n  ")
    return f"{name}(\n  {inner}\n)"
