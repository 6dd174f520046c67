"""The protobuf side of a model: tensors, attributes, schemas and functions, read and checked."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import ArgumentError, OnnxError, shortened
from .elements import by_number

__all__ = [
    "OWN",
    "UNBOUND",
    "attribute",
    "check_attribute",
    "constant",
    "graphs",
    "initialisers",
    "is_graph",
    "library",
    "opsets",
    "parsed",
    "resolved",
    "schema_function",
    "tied_types",
    "with_external",
]

OWN = ("", "ai.onnx")
_LARGEST_DENSE = 2**27  # elements that a few numbers in a file may become
UNBOUND = object()  # an attribute of a function that its caller left out

# AttributeProto.AttributeType
_TENSOR, _GRAPH, _FLOATS, _INTS, _STRINGS, _TENSORS, _GRAPHS, _SPARSE = 4, 5, 6, 7, 8, 9, 10, 11
_LAST_VERSION = 2**31 - 1  # onnx asks for schemas by an int
_EXTERNAL = 1  # TensorProto.DataLocation


def library() -> Any:
    """The package ``onnx``.

    Raises:
        ArgumentError: if it is not installed.
    """
    try:
        import onnx  # noqa: PLC0415 - optional
    except ImportError as error:
        raise ArgumentError(
            "onnx",
            "models are read by the package onnx, which is not installed",
            remedy="pip install 'clnet[onnx]'",
        ) from error
    return onnx


def parsed(data: bytes, name: str) -> Any:
    """The model in a file's bytes.

    Raises:
        OnnxError: if they are none.
    """
    onnx = library()
    model = onnx.ModelProto()
    try:
        model.ParseFromString(data)
    except Exception as error:  # protobuf's DecodeError, whose module depends on its backend
        raise OnnxError("onnx.load", "it is an ONNX model", file=name) from error
    if not model.HasField("graph") or not model.opset_import:
        raise OnnxError("onnx.load", "a model has a graph and the opsets of its nodes", file=name)
    if not _all_texts(model):
        raise OnnxError("onnx.load", "names are of UTF-8", file=name)
    return model


def _all_texts(message: Any) -> bool:
    """Whether no text in a message is what protobuf could not decode, and left as bytes."""
    stack = [message]
    while stack:
        for field, value in stack.pop().ListFields():
            if field.type not in {field.TYPE_STRING, field.TYPE_MESSAGE}:
                continue
            parts = [value] if isinstance(value, str | bytes) or _is_one(value) else list(value)
            if field.type == field.TYPE_MESSAGE:
                stack.extend(parts)
            elif not all(isinstance(part, str) for part in parts):
                return False
    return True


def _is_one(value: Any) -> bool:
    """Whether a field's value is a message, and no list of them."""
    return hasattr(value, "ListFields")


def with_external(tensor: Any, folder: Path | None) -> Any:
    """A tensor with the data that its file beside the model holds.

    Raises:
        OnnxError: if the file is absent, too short, or not in the model's folder.
    """
    if tensor.data_location != _EXTERNAL:
        return tensor
    where = {entry.key: entry.value for entry in tensor.external_data}
    location = where.get("location", "")
    if folder is None:
        raise OnnxError("onnx.load", "data lies in a file beside the model", tensor=tensor.name)
    path = _inside(folder, location, tensor.name)
    try:
        offset, size = int(where.get("offset", 0)), path.stat().st_size
        length = int(where.get("length", 0)) or _bytes(tensor)
    except ValueError as error:
        raise OnnxError("onnx.load", "offset and length are numbers", tensor=tensor.name) from error
    if offset < 0 or length < 0 or offset + length > size:
        raise OnnxError(
            "onnx.load",
            "external data lies in its file",
            tensor=tensor.name,
            offset=offset,
            length=length,
            file_size=size,
        )
    with path.open("rb") as file:
        file.seek(offset)
        data = file.read(length)
    full = library().TensorProto()
    full.CopyFrom(tensor)
    full.ClearField("external_data")
    full.data_location = 0
    full.raw_data = data
    return full


def _bytes(tensor: Any) -> int:
    """How many bytes a tensor's data has."""
    name = by_number(tensor.data_type).name
    width = by_number(tensor.data_type).numpy.itemsize * 8
    small = {"int4": 4, "uint4": 4, "float4e2m1": 4, "int2": 2, "uint2": 2}
    return -(-math.prod(tensor.dims) * small.get(name, width) // 8)


def _inside(folder: Path, location: str, name: str) -> Path:
    root = folder.resolve()
    path = (root / location).resolve() if location and "\0" not in location else root
    if not location or Path(location).is_absolute() or root not in path.parents:
        raise OnnxError(
            "onnx.load",
            "external data lies in the model's folder",
            tensor=name,
            location=repr(location[:100]),
        )
    if not path.is_file():
        raise OnnxError("onnx.load", "external data is a file", tensor=name, path=path)
    return path


def to_array(tensor: Any) -> np.ndarray:
    """A tensor's data.

    Raises:
        OnnxError: if its shape and its data do not fit each other.
    """
    element = by_number(tensor.data_type)
    dims = tuple(tensor.dims)
    if any(n < 0 for n in dims):
        raise OnnxError("onnx.load", "sizes are 0 or more", tensor=tensor.name, shape=dims)
    count = math.prod(dims)
    held = len(tensor.raw_data) * 4 if tensor.HasField("raw_data") else _numbers(tensor) * 8
    if count > held:
        raise OnnxError(
            "onnx.load", "a tensor's data fills its shape", tensor=tensor.name, shape=dims
        )
    try:
        array = library().numpy_helper.to_array(tensor)
    except (ValueError, TypeError) as error:
        raise OnnxError(
            "onnx.load", f"tensor {tensor.name!r} cannot be read: {shortened(error)}"
        ) from error
    return np.asarray(array, dtype=element.numpy)


def _numbers(tensor: Any) -> int:
    fields = "float_data int32_data string_data int64_data double_data uint64_data".split()
    return sum(len(getattr(tensor, name)) for name in fields)


def initialisers(graph: Any, folder: Path | None = None) -> dict[str, np.ndarray]:
    """A graph's constants by name, sparse ones made dense."""
    found = {t.name: to_array(with_external(t, folder)) for t in graph.initializer}
    found.update({t.values.name: dense(t) for t in graph.sparse_initializer})
    return found


def dense(sparse: Any) -> np.ndarray:
    """A sparse tensor with its zeros.

    Raises:
        OnnxError: if an index lies outside its shape.
    """
    values, indices = to_array(sparse.values), to_array(sparse.indices)
    dims = tuple(sparse.dims)
    count = math.prod(dims)
    if any(n < 0 for n in dims) or count > _LARGEST_DENSE:
        raise OnnxError("onnx.load", "a sparse tensor has at most 2^27 elements", shape=dims)
    flat = indices.ndim == 1
    rows = indices.reshape(-1, 1) if flat else indices
    limits = np.array([count] if flat else dims)
    fits = rows.ndim == 2 and rows.shape == (values.size, len(limits))
    if not fits or (rows < 0).any() or (rows >= limits).any():
        raise OnnxError("onnx.load", "indices of a sparse tensor lie in its shape", shape=dims)
    places = indices if flat else np.ravel_multi_index(tuple(rows.T), dims)
    full = np.zeros(count, dtype=values.dtype)
    full[places] = values.reshape(-1)
    return full.reshape(dims)


def attribute(given: Any, bound: dict[str, Any]) -> Any:
    """An attribute's value: numbers, texts, lists, arrays; graphs stay protobuf.

    Args:
        given: the attribute.
        bound: attributes of the function around, by name.
    """
    given = resolved(given, bound)
    if given is UNBOUND:
        return UNBOUND
    try:
        value = library().helper.get_attribute_value(given)
    except (ValueError, TypeError) as error:
        raise OnnxError("onnx", f"attribute {given.name!r}: {shortened(error)}") from error
    if given.type in {_TENSOR, _SPARSE}:
        return to_array(value) if given.type == _TENSOR else dense(value)
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if given.type == _TENSORS:
        return [to_array(t) for t in value]
    if given.type in {_FLOATS, _INTS, _STRINGS}:
        return [v.decode("utf-8", "replace") if isinstance(v, bytes) else v for v in value]
    return value


def resolved(given: Any, bound: dict[str, Any]) -> Any:
    """An attribute, or that of the function's caller which it refers to."""
    if not given.ref_attr_name:
        return given
    found = bound.get(given.ref_attr_name, UNBOUND)
    if found is UNBOUND:
        return UNBOUND
    renamed = library().AttributeProto()
    renamed.CopyFrom(found)
    renamed.name = given.name
    return renamed


def is_graph(value: Any) -> bool:
    """Whether an attribute's value is a graph."""
    return isinstance(value, library().GraphProto)


def graphs(given: Any) -> list[Any]:
    """The graphs in an attribute."""
    if given.type == _GRAPH:
        return [given.g]
    return list(given.graphs) if given.type == _GRAPHS else []


def constant(node: Any, bound: dict[str, Any]) -> np.ndarray:
    """The value of a node ``Constant``.

    Raises:
        OnnxError: if it has none.
    """
    for given in node.attribute:
        value = attribute(given, bound)
        if value is UNBOUND:
            continue
        if given.name in {"value", "sparse_value"}:
            return value
        kind = {"i": np.int64, "f": np.float32, "s": object}.get(given.name[6:7])
        if given.name.startswith("value_") and kind is not None:
            return np.array(value, dtype=kind)
    raise OnnxError("onnx", "a Constant has a value", node=node.name)


def check_attribute(node: Any, given: Any, version: int, domain: str) -> None:
    """An attribute is of the type that ONNX declares; a whole number may stand for another.

    Raises:
        OnnxError: if it is not.
    """
    if given is UNBOUND:
        return
    schema = schema_of(node.op_type, version, domain)
    declared = None if schema is None else schema.attributes.get(given.name)
    if declared is None:
        return
    wanted, kind = declared.type.value, library().AttributeProto.AttributeType
    if given.type != wanted and (given.type, wanted) != (kind.INT, kind.FLOAT):
        law = f"the attribute {given.name} of {node.op_type} is {kind.Name(wanted).lower()}"
        raise OnnxError("onnx", law, node=node.name, type=kind.Name(given.type).lower())


def opsets(holder: Any) -> dict[str, int]:
    """The version of each domain; ONNX's own is the empty one.

    Raises:
        OnnxError: if one has more than 31 bits.
    """
    found = {("" if o.domain in OWN else o.domain): o.version for o in holder.opset_import}
    for domain, version in found.items():
        if abs(version) > _LAST_VERSION:
            law = "versions of opsets have 31 bits"
            raise OnnxError("onnx", law, domain=domain, version=version)
    return found


def schema_of(name: str, version: int, domain: str) -> Any:
    """ONNX's declaration of an op, or None."""
    defs = library().defs
    if not defs.has(name, domain):
        return None
    try:
        return defs.get_schema(name, version, domain)
    except defs.SchemaError:
        return None


def tied_types(node: Any, version: int, domain: str) -> tuple[int | None, ...]:
    """For each output of a node the first input of the same type variable, or None."""
    schema = schema_of(node.op_type, version, domain)
    if schema is None:
        return ()
    variables = [parameter.type_str for parameter in schema.inputs]
    if variables and len(node.input) > len(variables):
        variables += [variables[-1]] * (len(node.input) - len(variables))
    place = {name: i for i, name in reversed(list(enumerate(variables)))}
    made = [parameter.type_str for parameter in schema.outputs]
    if made and len(node.output) > len(made):
        made += [made[-1]] * (len(node.output) - len(made))
    return tuple(place.get(name) for name in made)


def schema_function(node: Any, version: int, domain: str) -> Any:
    """The body that ONNX gives an op which does not depend on the types of its inputs, or None."""
    schema = schema_of(node.op_type, version, domain)
    if schema is None or not schema.has_function:
        return None
    return schema.function_body
