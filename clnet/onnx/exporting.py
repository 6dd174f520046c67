"""From a module or a function to a model of ONNX: traced, written op by op, checked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import Any

import numpy as np

from ..array import Array
from ..compile.as_values import as_values
from ..compile.compiled import Compiled
from ..compile.record import Recorded
from ..errors import ArgumentError
from ..nn.module import Module
from ..values.arguments import shown
from . import protos
from .dynamic_axes import dynamic_sizes
from .example_call import ExampleCall
from .saving import save
from .sizes import Dynamic, Size
from .step_writer import StepWriter, place
from .writing import Graph, number

__all__ = ["export"]

_OPSETS = (13, 26)  # below, softmax and ``Squeeze`` are others
_USUAL = 20  # the first with GELU


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
    _refuse_other_kinds(
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
    _check_names(input_names=input_names, output_names=output_names)
    call = ExampleCall(function, args, kwargs, input_names)
    names = (*call.names, *(output_names or ()))
    _check_dynamic_axes(dynamic_axes or {}, names)
    dynamic = dynamic_sizes(call.names, call.shapes, call.owners, dynamic_axes, dynamic_shapes)
    graph = Graph(opset, dynamic.sources)
    for name in names:
        graph.name(name)
    with _evaluating(function):
        recorded = call.traced(dynamic)
    writer = StepWriter(graph, dynamic.dynamic, _states(function, recorded[0]))
    proto = _written(writer, recorded, call.names, output_names, dynamic.dynamic)
    save(proto, f, external=external_data)
    return proto


def _refuse_other_kinds(**others: Any) -> None:
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


def _check_names(**named: Any) -> None:
    """Refuse names that are no lists of texts."""
    for label, names in named.items():
        if isinstance(names, str) or not all(isinstance(name, str) for name in names or ()):
            raise ArgumentError("onnx.export", "names are a list of texts", **{label: shown(names)})


def _check_dynamic_axes(axes: Any, names: Sequence[str]) -> None:
    """Dynamic axes are of inputs; those of outputs follow from them, and may be named, too."""
    if not isinstance(axes, Mapping):
        law = "dynamic_axes are axes by the names of inputs"
        raise ArgumentError("onnx.export", law, dynamic_axes=shown(axes))
    unknown = sorted(map(str, {*axes} - {*names}))
    if unknown:
        law = "dynamic_axes names inputs, or outputs of output_names"
        raise ArgumentError("onnx.export", law, unknown=unknown, names=list(names))


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
    """Parameters and buffers by the memory they lie in; of a function those of modules it calls."""
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
    """The model of a function that was traced at several sizes.

    Args:
        writer: writes the steps.
        recorded: what the function does at each size; the first is of the example's.
        names: of the inputs.
        output_names: of the first results; others are ``output``, ``output_1`` ...
        dynamic: the sizes that vary.

    Raises:
        ArgumentError: if results have not a name each.
        OnnxError: if an op cannot be exported.
    """
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
    inputs = _infos(names, [trace.arguments for trace in traces], dynamic)
    outputs = _infos(results, [trace.results for trace in traces], dynamic)
    _rename(graph, dict(zip(results, made, strict=True)))
    return _proto(graph, inputs, outputs, results)


def _infos(
    names: Sequence[str], at_sizes: Sequence[Sequence[Array]], dynamic: Dynamic
) -> list[Any]:
    """What a model says of its inputs or results: names, dtypes and sizes.

    Args:
        names: theirs.
        at_sizes: what they are at each size.
        dynamic: the sizes that vary.
    """
    columns = zip(*at_sizes, strict=True)
    return [_info(n, column, dynamic) for n, column in zip(names, columns, strict=True)]


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
    """The protobuf of a graph, without nodes and initialisers that no result reads."""
    onnx = protos.library()
    needed, nodes = {*results}, []
    for node in reversed(graph.nodes):
        if needed.intersection(node.output):
            nodes.append(node)
            needed.update(node.input)
    tensors = [
        onnx.numpy_helper.from_array(np.ascontiguousarray(array).reshape(array.shape), name)
        for name, array in graph.initialisers.items()
        if name in needed
    ]
    made = onnx.helper.make_graph(nodes[::-1], "clnet", inputs, outputs, tensors)
    opsets = [onnx.helper.make_opsetid("", graph.opset)]
    version = onnx.helper.find_min_ir_version_for(opsets)
    return onnx.helper.make_model(
        made, opset_imports=opsets, ir_version=version, producer_name="clnet"
    )
