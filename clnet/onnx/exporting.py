"""From a module or a function to a model of ONNX: traced, written op by op, checked."""

from __future__ import annotations

import inspect
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from ..array import Array
from ..autograd import no_grad
from ..compile.as_values import as_values
from ..compile.compiled import Compiled
from ..compile.record import Recorded, record
from ..creation import as_tensor
from ..device import Device, current_device
from ..errors import ArgumentError, OnnxError, TraceError, refusal, shortened
from ..nn.module import Module
from ..tensor import Tensor
from ..values.arguments import shown
from ..values.atomic import replacing
from ..values.containers import again
from . import protos
from .dynamic_axes import DynamicInputs, dynamic_sizes
from .sizes import Dynamic, Size
from .step_writer import StepWriter, place
from .writing import Graph, number

__all__ = ["export"]

_OPSETS = (13, 26)  # below, softmax and ``Squeeze`` are others
_USUAL = 20  # the first with GELU
_LARGEST = 1 << 31  # bytes of a protobuf message


def export(
    model: Any,
    args: Any = (),
    f: Any = None,
    *,
    kwargs: Mapping[str, Any] | None = None,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    opset_version: int | None = None,
    dynamic_axes: Mapping[str, Any] | None = None,
    dynamic_shapes: Any = None,
    external_data: bool | None = None,
    export_params: bool = True,
    keep_initializers_as_inputs: bool = False,
    training: Any = None,
    operator_export_type: Any = None,
    custom_translation_table: Mapping[Any, Any] | None = None,
    custom_opsets: Mapping[str, int] | None = None,
    export_modules_as_functions: Any = False,
    do_constant_folding: bool = True,
    dynamo: bool = True,
    optimize: bool = True,
    autograd_inlining: bool = True,
    verbose: bool | None = None,
    verify: bool = False,
    report: bool = False,
    profile: bool = False,
    dump_exported_program: bool = False,
    artifacts_dir: Any = ".",
) -> Any:
    """Write a module or a function as a model of ONNX, in evaluation.

    It is called once with abstract tensors, and what it computes is written op by op and checked
    by ``onnx.checker``. Nothing runs. Parameters and buffers are initialisers under the names of
    ``state_dict``; plain arguments are part of the model. Where axes are dynamic it is called at
    two and three times their sizes and at odd ones, too, to see which sizes follow from them.

    Args:
        model: a module, a function of tensors, or either compiled.
        args: its arguments, a tuple or one tensor: shapes and dtypes of the inputs. Tensors in
            lists, tuples and dicts are inputs, too, ``hx_0`` and ``hx_1`` of an argument ``hx``.
        f: a file to write (a path, or an object with ``write``); None: none.
        kwargs: further arguments by name.
        input_names: of tensors among the arguments, in order; None: those of the parameters.
        output_names: of the results, in order.
        opset_version: 13 to 26; None: 20. An older one has no node for some ops, and several nodes
            for others.
        dynamic_axes: for an input's name its dynamic axes: their names by axis, or a list of axes.
            Axes of one name have one size. Outputs may be named, too; their axes follow.
        dynamic_shapes: the same as PyTorch's exporter has it: for each argument None or names by
            axis, in order or by name.
        external_data: whether tensors lie in a file of their own beside the model; None: if they
            would not fit into 2 GiB.
        export_params: True; this and the next six are taken as PyTorch has them at first.
        keep_initializers_as_inputs: False.
        training: that of evaluation.
        operator_export_type: that of ONNX's ops.
        custom_translation_table: None.
        custom_opsets: None.
        export_modules_as_functions: False.
        do_constant_folding: taken, as all that follow: there is one exporter, and it is silent.
        dynamo: taken.
        optimize: taken.
        autograd_inlining: taken.
        verbose: taken.
        verify: taken.
        report: taken.
        profile: taken.
        dump_exported_program: taken.
        artifacts_dir: taken.

    Returns:
        The ``onnx.ModelProto``.

    Raises:
        OnnxError: if ops cannot be exported (all are named, with counts), or the function does
            something else at other sizes.
        ArgumentError: if names, axes or settings do not fit, or the package ``onnx`` is missing.

    Example:
        >>> import clnet
        >>> model = clnet.nn.Sequential(clnet.nn.Linear(4, 8), clnet.nn.ReLU())
        >>> made = clnet.onnx.export(model, clnet.zeros(2, 4), input_names=["x"])
        >>> [node.op_type for node in made.graph.node]
        ['Gemm', 'Relu']
    """
    _as_ever(
        export_params=not export_params,
        keep_initializers_as_inputs=keep_initializers_as_inputs,
        training=training,
        operator_export_type=operator_export_type,
        custom_translation_table=custom_translation_table,
        custom_opsets=custom_opsets,
        export_modules_as_functions=export_modules_as_functions,
    )
    opset = _opset(_USUAL if opset_version is None else opset_version)
    function = model.__wrapped__ if type(model) is Compiled else model
    if not callable(function):
        raise ArgumentError("onnx.export", "model is a module or a function", model=shown(model))
    _of_kinds(dynamic_axes, input_names=input_names, output_names=output_names)
    call = _Call(function, args, kwargs, input_names)
    names = (*call.names, *(output_names or ()))
    _known(dynamic_axes or {}, names)
    dynamic = dynamic_sizes(call.names, call.shapes, call.owners, dynamic_axes, dynamic_shapes)
    graph = Graph(opset, dynamic.sources)
    for name in names:
        graph.name(name)
    with _evaluating(function):
        recorded = _traced(call, dynamic)
    writer = StepWriter(graph, dynamic.dynamic, _states(function, recorded[0]))
    proto = _written(writer, recorded, call.names, output_names, dynamic.dynamic)
    save(proto, f, external=external_data)
    return proto


def _as_ever(**others: Any) -> None:
    """Refuse settings of PyTorch's exporter that ask for another kind of model."""
    if asked := sorted(name for name, is_other in others.items() if is_other):
        law = "a model holds its parameters, is one of evaluation, and has ONNX's own ops alone"
        raise ArgumentError("onnx.export", law, asked=asked, remedy="Leave those settings out")


def _opset(version: Any) -> int:
    """A version that there is, of ONNX and of its package."""
    newest = min(_OPSETS[1], protos.library().defs.onnx_opset_version())
    if not isinstance(version, int) or not _OPSETS[0] <= version <= newest:
        raise ArgumentError("onnx.export", "opset_version is 13 to 26", opset_version=version)
    return version


def _of_kinds(dynamic_axes: Any, **named: Any) -> None:
    """Refuse names that are no lists of texts, and axes that go by no names."""
    for label, names in named.items():
        if isinstance(names, str) or not all(isinstance(name, str) for name in names or ()):
            raise ArgumentError("onnx.export", "names are a list of texts", **{label: shown(names)})
    if not isinstance(dynamic_axes or {}, Mapping):
        law = "dynamic_axes are axes by the names of inputs"
        raise ArgumentError("onnx.export", law, dynamic_axes=shown(dynamic_axes))


def _known(axes: Mapping[str, Any], names: Sequence[str]) -> None:
    """Dynamic axes are of inputs; those of outputs follow from them, and may be named, too."""
    unknown = sorted(map(str, {*axes} - {*names}))
    if unknown:
        law = "dynamic_axes names inputs, or outputs of output_names"
        raise ArgumentError("onnx.export", law, unknown=unknown, names=list(names))


class _Call:
    """A function with its arguments; the tensors among these are the model's inputs.

    Attributes:
        names: of the inputs.
        owners: for each the position or name of its argument.
        shapes: of the inputs.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        args: Any,
        kwargs: Mapping[str, Any] | None,
        input_names: Sequence[str] | None,
    ) -> None:
        self._function = function
        self._args = args if isinstance(args, tuple | list) else (args,)
        self._kwargs = dict(kwargs or {})
        self._every = {**dict(enumerate(self._args)), **self._kwargs}
        if inside := [k for k, v in self._every.items() if _hidden(v)]:
            law = "tensors lie in lists, tuples and dicts: in others they would be constants"
            hint = "Export a function that takes each tensor and makes the container"
            raise ArgumentError("onnx.export", law, arguments=inside, remedy=hint)
        found = [(k, x) for k, v in self._every.items() for x in _tensors(v)]
        self.owners, self._given = [k for k, _ in found], [x for _, x in found]
        self.shapes = [x.shape for x in self._given]
        usual = _parameters(function)
        names = [usual.get(k, f"input_{k}") if isinstance(k, int) else k for k in self.owners]
        inside = [not isinstance(self._every[k], Tensor | np.ndarray) for k in self.owners]
        names = [
            f"{name}_{self.owners[:i].count(k)}" if inner else name
            for i, (k, name, inner) in enumerate(zip(self.owners, names, inside, strict=True))
        ]
        names[: len(input_names or ())] = list(input_names or ())
        if len(names) != len(self.owners) or len({*names}) < len(names) or not all(names):
            raise ArgumentError(
                "onnx.export",
                "each tensor among the arguments has a name of its own",
                input_names=input_names,
                tensors=len(self.owners),
            )
        self.names = names

    def traced(self, shapes: Sequence[tuple[int, ...]]) -> Recorded:
        """What the function does with inputs of these shapes."""
        device = self._device()
        inputs = iter(
            Tensor(Array.abstract(shape, x.dtype, device))
            for x, shape in zip(self._given, shapes, strict=True)
        )
        given = {k: _filled(v, inputs) for k, v in self._every.items()}
        args = [given[i] for i in range(len(self._args))]
        named = {k: given[k] for k in self._kwargs}
        try:
            with no_grad():
                return record(
                    self._function, args, named, device, keeps_state=False, as_called=False
                )
        except TraceError:
            raise
        except Exception as error:
            if list(shapes) == self.shapes:
                raise
            raise OnnxError(
                "onnx.export",
                f"at other sizes of its dynamic axes the function fails: {shortened(error)}",
                shapes=list(shapes),
                remedy="Give smaller examples, or fewer dynamic axes",
            ) from error

    def _device(self) -> Device:
        held = [*getattr(self._function, "parameters", list)()]
        tensors = [*self._given, *held]
        return tensors[0].device if tensors else current_device()


def _traced(call: _Call, dynamic: DynamicInputs) -> list[Recorded]:
    """What the function does at all sizes; at odd ones only if it takes them."""
    found = [call.traced(dynamic.shapes(p)) for p in dynamic.dynamic.points]
    if dynamic.dynamic.first:
        try:
            found.append(call.traced(dynamic.shapes(dynamic.dynamic.odd)))
        except OnnxError:  # nor does the function itself: it wants multiples
            return found
    return found


def _tensors(value: Any) -> list[Tensor]:
    """The tensors of an argument, in order; arrays are tensors, too."""
    if isinstance(value, Tensor | np.ndarray):
        return [as_tensor(value)]
    if isinstance(value, Mapping):
        return [x for part in value.values() for x in _tensors(part)]
    return [x for part in value for x in _tensors(part)] if isinstance(value, list | tuple) else []


def _filled(value: Any, tensors: Iterator[Tensor]) -> Any:
    """An argument with other tensors in the places of its own."""
    if isinstance(value, Tensor | np.ndarray):
        return next(tensors)
    if isinstance(value, dict):
        return type(value)((k, _filled(part, tensors)) for k, part in value.items())
    if isinstance(value, list | tuple):
        return again(value, [_filled(part, tensors) for part in value])
    return value


def _hidden(value: Any) -> bool:
    """Whether a tensor lies in a container that is not made anew."""
    if isinstance(value, dict):
        return any(map(_hidden, value.values()))
    if isinstance(value, list | tuple):
        return any(map(_hidden, value))
    parts = value.values() if isinstance(value, Mapping) else value
    return isinstance(value, Mapping | set) and any(
        isinstance(x, Tensor | np.ndarray) for x in parts
    )


def _parameters(function: Callable[..., Any]) -> dict[int, str]:
    """The names of a function's positional parameters."""
    called = function.forward if isinstance(function, Module) else function
    try:
        found = inspect.signature(called).parameters.values()
    except (TypeError, ValueError):
        return {}
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return dict(enumerate(p.name for p in found if p.kind in kinds))


@contextmanager
def _evaluating(function: Any) -> Iterator[None]:
    """The modules of a module in evaluation, and afterwards as they were."""
    modules = list(function.modules()) if isinstance(function, Module) else []
    before = [module.training for module in modules]
    for module in modules:
        if module.training:
            module.training = False
    try:
        yield
    finally:
        for module, training in zip(modules, before, strict=True):
            if module.training != training:
                module.training = training


def _states(function: Any, recorded: Recorded) -> dict[Any, tuple[str, Array]]:
    """Parameters and buffers by what they look at; of a function those of modules it called."""
    called = [m for m, _ in recorded.tracer.watched.values() if isinstance(m, Module)]
    found: dict[Any, tuple[str, Array]] = {}
    for module in [function] if isinstance(function, Module) else called:
        for name, tensor in chain(module.named_parameters(), module.named_buffers()):
            found.setdefault(place(tensor.array), (name, tensor.array))
    return found


def _written(
    writer: StepWriter,
    recorded: Sequence[Recorded],
    names: Sequence[str],
    output_names: Sequence[str] | None,
    dynamic: Dynamic,
) -> Any:
    traces = [as_values(r.trace) for r in recorded]
    graph, first = writer.graph, traces[0]
    for i, name in enumerate(names):
        for trace in traces:
            writer.know(trace.arguments[i], name)
    writer.write([trace.steps for trace in traces], first.results)
    results = list(output_names or ())
    results += [graph.name("output") for _ in range(len(first.results) - len(results))]
    if len(results) != len(first.results) or len({*results, *names}) < len(results) + len(names):
        raise ArgumentError(
            "onnx.export",
            "each result has a name of its own",
            output_names=output_names,
            results=len(first.results),
        )
    made = [writer.named(array) for array in first.results]
    writer.refuse()
    inputs = [
        _info(n, a, dynamic) for n, a in zip(names, _columns(traces, "arguments"), strict=True)
    ]
    outputs = [
        _info(n, a, dynamic) for n, a in zip(results, _columns(traces, "results"), strict=True)
    ]
    _rename(graph, dict(zip(results, made, strict=True)))
    return _proto(graph, inputs, outputs, results)


def _columns(traces: Sequence[Any], which: str) -> list[list[Array]]:
    """Of each argument or result what it is at all sizes."""
    return [list(column) for column in zip(*(getattr(t, which) for t in traces), strict=True)]


def _info(name: str, arrays: Sequence[Array], dynamic: Dynamic) -> Any:
    sizes = [dynamic.size(column) for column in zip(*(a.shape for a in arrays), strict=True)]
    make = protos.library().helper.make_tensor_value_info
    return make(name, number(arrays[0].dtype), [_dim(size) for size in sizes])


def _dim(size: Size) -> int | str | None:
    """A size as a model tells it: a number, a name, or nothing of one that is computed."""
    return size.symbol if size.number is None else size.number


def _rename(graph: Graph, outputs: dict[str, str]) -> None:
    """Let the values that are results have the results' names."""
    made = {name for node in graph.nodes for name in node.output}
    renamed: dict[str, str] = {}
    for wanted, name in outputs.items():
        if name in made and name not in renamed:
            renamed[name] = wanted
    for node in graph.nodes:
        for field in (node.input, node.output):
            for i, name in enumerate(field):
                field[i] = renamed.get(name, name)
    helper = protos.library().helper
    for wanted, name in outputs.items():
        if renamed.get(name) != wanted:
            source = renamed.get(name, name)
            graph.nodes.append(helper.make_node("Identity", [source], [wanted], name=wanted))


def _proto(graph: Graph, inputs: list[Any], outputs: list[Any], results: Sequence[str]) -> Any:
    onnx = protos.library()
    needed, nodes = {*results}, []
    for node in reversed(graph.nodes):
        if needed.intersection(node.output):
            nodes.insert(0, node)
            needed.update(node.input)
    tensors = [
        onnx.numpy_helper.from_array(np.ascontiguousarray(array).reshape(array.shape), name)
        for name, array in graph.initialisers.items()
        if name in needed
    ]
    made = onnx.helper.make_graph(nodes, "clnet", inputs, outputs, tensors)
    opsets = [onnx.helper.make_opsetid("", graph.opset)]
    version = onnx.helper.find_min_ir_version_for(opsets)
    return onnx.helper.make_model(
        made, opset_imports=opsets, ir_version=version, producer_name="clnet"
    )


def _save_apart(proto: Any, path: Path) -> None:
    """Write a model whose tensors lie in a file beside it.

    Whoever is killed here leaves no model, and never one beside another's tensors.
    """
    onnx, data = protos.library(), f"{path.name}.data"
    with tempfile.TemporaryDirectory(prefix=".clnet-", dir=path.parent) as folder:
        new = Path(folder, path.name)
        onnx.save_model(proto, str(new), save_as_external_data=True, location=data)
        onnx.checker.check_model(str(new))
        path.unlink(missing_ok=True)
        if new.with_name(data).exists():
            new.with_name(data).replace(path.with_name(data))
        else:  # onnx leaves tensors of less than a KiB in the model; others' may lie there
            path.with_name(data).unlink(missing_ok=True)
        new.replace(path)


def save(proto: Any, f: Any, *, external: bool | None) -> None:
    """Check a model and write it.

    Raises:
        OnnxError: if the checker refuses it, which is an error of clnet's.
        ArgumentError: if it cannot be written.
    """
    onnx = protos.library()
    nbytes = sum(len(t.raw_data) for t in proto.graph.initializer)
    apart = nbytes > _LARGEST - (1 << 24) if external is None else external
    path = None if f is None or hasattr(f, "write") else Path(f)
    if apart and path is None and external is not None:
        raise ArgumentError("onnx.export", "external_data lies beside a file", f=shown(f))
    try:
        if not apart:
            onnx.checker.check_model(proto, full_check=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
        raise OnnxError("onnx.export", f"the checker refuses it: {shortened(error)}") from error
    try:
        if path is None:
            if f is not None:
                f.write(proto.SerializeToString())
        elif apart:
            whole = type(proto)()
            whole.CopyFrom(proto)  # what is written loses its tensors
            _save_apart(whole, path)
        else:
            with replacing(path) as file:
                file.write(proto.SerializeToString())
    except OSError as error:
        law = "the file can be written"
        raise ArgumentError("onnx.export", law, f=path, error=refusal(error)) from error
