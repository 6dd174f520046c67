"""Writes files of GGUF, MXNet and Caffe by the letter of their formats, for tests."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np


def _text(text: str) -> bytes:
    content = text.encode()
    return struct.pack("<Q", len(content)) + content


GGUF_METADATA = {
    "general.architecture": (8, "llama"),
    "general.alignment": (4, 64),
    "llama.block_count": (4, 2),
    "llama.eps": (6, 0.5),
    "flag": (7, True),
    "tokens": (9, (8, ["a", "é", ""])),
    "scores": (9, (5, [-1, 2, 3])),
    "nested": (9, (9, [(4, [1, 2]), (4, [])])),
}


def _gguf_value(kind: int, value: Any) -> bytes:
    if kind == 8:
        return _text(value)
    if kind == 9:
        inner, values = value
        parts = b"".join(_gguf_value(inner, v) for v in values)
        return struct.pack("<IQ", inner, len(values)) + parts
    return struct.pack("<" + {4: "I", 5: "i", 6: "f", 7: "?", 10: "Q"}[kind], value)


def q8_0(values: np.ndarray) -> tuple[bytes, np.ndarray]:
    """Blocks of 32 numbers of 8 bits and a scale; and what they stand for."""
    rows = values.reshape(-1, 32).astype(np.float32)
    scale = (np.abs(rows).max(1, keepdims=True) / 127).astype(np.float16)
    whole = np.rint(rows / scale.astype(np.float32)).astype(np.int8)
    content = b"".join(s.tobytes() + w.tobytes() for s, w in zip(scale, whole, strict=True))
    return content, (whole * scale.astype(np.float32)).reshape(values.shape)


def q4_0(values: np.ndarray) -> tuple[bytes, np.ndarray]:
    """The same of 4 bits: number j in the low half of byte j, number j + 16 in the high half."""
    content, meant = b"", []
    for row in values.reshape(-1, 32).astype(np.float32):
        scale = np.float16(np.abs(row).max() / 7)
        whole = np.clip(np.rint(row / np.float32(scale)) + 8, 0, 15).astype(int)
        pairs = bytes(whole[j] | whole[j + 16] << 4 for j in range(16))
        content += scale.tobytes() + pairs
        meant.append([(n - 8) * np.float32(scale) for n in whole])
    return content, np.array(meant, np.float32).reshape(values.shape)


def gguf(
    rng: np.random.Generator, meant: dict[str, np.ndarray] | None = None, version: int = 3
) -> bytes:
    """A file with a tensor of each type; ``meant`` gets what they stand for."""
    draw = rng.standard_normal((2, 64)).astype(np.float32)
    cut = (draw.view(np.uint32) >> 16).astype(np.uint16)  # the upper halves are bfloat16
    eight, meant8 = q8_0(draw)
    four, meant4 = q4_0(draw)
    tensors: dict[str, tuple[int, bytes, np.ndarray]] = {
        "f32": (0, draw.tobytes(), draw),
        "f16": (1, draw.astype(np.float16).tobytes(), draw.astype(np.float16)),
        "bf16": (30, cut.tobytes(), (cut.astype(np.uint32) << 16).view(np.float32)),
        "blk.0.q8": (8, eight, meant8),
        "blk.0.q4": (2, four, meant4),
        "i32": (26, np.arange(3, dtype=np.int32).tobytes(), np.arange(3, dtype=np.int32)),
    }
    out = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(GGUF_METADATA))
    for key, (kind, value) in GGUF_METADATA.items():
        out += _text(key) + struct.pack("<I", kind) + _gguf_value(kind, value)
    data = b""
    for name, (kind, content, array) in tensors.items():
        sizes = array.shape[::-1]
        out += _text(name) + struct.pack(f"<I{len(sizes)}Q", len(sizes), *sizes)
        out += struct.pack("<IQ", kind, len(data))
        data += content + bytes(-len(content) % 64)
        if meant is not None:
            meant[name] = array
    return out + bytes(-len(out) % 64) + data


_MXNET_TYPES = {"float32": 0, "float64": 1, "float16": 2, "uint8": 3, "int32": 4, "int64": 6}


def mxnet_params(
    arrays: Mapping[str, np.ndarray], magic: int = 0xF993FAC9, *, named: bool = True
) -> bytes:
    """A list of arrays; ``magic``: of the version, 0 for what was before them all."""
    out = struct.pack("<QQQ", 0x112, 0, len(arrays))
    for array in arrays.values():
        if magic:
            out += struct.pack("<I", magic)
        if magic > 0xF993FAC8:
            out += struct.pack("<i", 0)  # dense
        out += struct.pack("<I", array.ndim)
        out += struct.pack(f"<{array.ndim}{'q' if magic else 'I'}", *array.shape)
        if array.ndim or magic == 0xF993FACA:
            kind = 7 if array.dtype == bool else _MXNET_TYPES[array.dtype.name]
            out += struct.pack("<iii", 1, 0, kind) + array.tobytes()
    names = [*arrays] if named else []
    return out + struct.pack("<Q", len(names)) + b"".join(map(_text, names))


def _varint(number: int) -> bytes:
    out = b""
    while number > 127:
        out += bytes([number & 127 | 128])
        number >>= 7
    return out + bytes([number])


def field(number: int, value: int | bytes) -> bytes:
    """A field of protobuf: a varint, or bytes with their length."""
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value)
    return _varint(number << 3 | 2) + _varint(len(value)) + value


def caffemodel(
    layers: Mapping[str, tuple[str, Sequence[np.ndarray]]], *, old: bool = False
) -> bytes:
    """A network; ``old``: of V1 layers, whose types are numbers, with blobs of four sizes."""
    out = field(1, b"net")
    for name, (kind, arrays) in layers.items():
        layer = field(4, name.encode()) + field(5, 4) if old else field(1, name.encode())
        layer += b"" if old else field(2, kind.encode()) + field(10, 0)
        for array in arrays:
            if old:
                sizes = (1,) * (4 - array.ndim) + array.shape
                blob = b"".join(field(1 + i, n) for i, n in enumerate(sizes))
            else:
                blob = field(7, field(1, b"".join(map(_varint, array.shape))))
            blob += field(8 if array.dtype == np.float64 else 5, array.tobytes())
            layer += field(6 if old else 7, blob)
        out += field(2 if old else 100, layer)
    return out
