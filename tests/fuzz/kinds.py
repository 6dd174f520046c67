"""The kinds of files that clnet reads: how a valid one is made, how it is read, what must hold."""

from __future__ import annotations

import gzip
import io
import json
import random
import struct
import tarfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save

import clnet
from clnet.bench.contest import Outcome
from clnet.bench.shi2016 import _earlier, _same, report
from clnet.data import CIFAR10, MNIST, ImageFolder, load_text
from clnet.data.idx import read_idx
from clnet.device.traits import DeviceKind, DeviceTraits
from clnet.device.tunings import Database, Entry, Subject, load
from clnet.io import (
    load_caffe,
    load_checkpoint,
    load_gguf,
    load_mxnet,
    load_state,
    save_checkpoint,
    save_state,
)
from clnet.values.cache import Cache, Shelf

from ..io.foreign_files import caffemodel, gguf, mxnet_params
from .models import make_onnx, read_onnx

TRAITS = DeviceTraits(
    kind=DeviceKind.CPU,
    compute_units=4,
    simd_width=8,
    max_group_size=4096,
    local_memory_bytes=2**18,
    dedicated_local_memory=False,
    global_memory_bytes=2**33,
    max_allocation_bytes=2**32,
    base_align_bytes=128,
    unified_memory=True,
    float16=False,
    float64=True,
)
CLASSES = ("cat", "dog", "frog")


class UnsoundError(Exception):
    """What was read is not what such a file can hold."""


@dataclass(frozen=True)
class Kind:
    """A kind of file.

    Attributes:
        name: for reports.
        make: writes valid files into an empty folder.
        read: reads them, and checks that what it gives is of the right form.
        strict: whether other contents than those written are an error: the format has checksums.
        inner: the ending of packed files that are damaged before they are packed, too.
    """

    name: str
    make: Callable[[Path, random.Random], None]
    read: Callable[[Path], Any]
    strict: bool = True
    inner: bool = False


def _sound(what: bool, why: str) -> None:
    if not what:
        raise UnsoundError(why)


def _arrays(rng: random.Random) -> dict[str, Any]:
    draw = np.random.default_rng(rng.randrange(2**32))
    return {
        "layer.0.weight": draw.standard_normal((3, 4)).astype(np.float32),
        "layer.0.bias": draw.standard_normal(4),
        "steps": np.array(rng.randrange(1000)),
        "mask": draw.integers(0, 2, 7).astype(bool),
        "empty": np.zeros((0, 3), np.uint8),
    }


def _make_state(folder: Path, rng: random.Random) -> None:
    save_state(folder / "a", _arrays(rng), metadata={"note": "as it was", "epoch": "3"})


def _make_foreign(folder: Path, rng: random.Random) -> None:
    (folder / "a").write_bytes(save(_arrays(rng), {"format": "pt"}))


def _make_checkpoint(folder: Path, rng: random.Random) -> None:
    arrays = _arrays(rng)
    lr = {"lr": 0.1, "betas": (0.9, 0.99), "best": float("inf"), "none": None, "on": True}
    state = {"model": arrays, "optimizer": {"groups": [lr], "0": {"m": arrays["steps"]}}}
    save_checkpoint(folder / "a", {**state, "$odd": ["é", -1]})


def _make_saved(folder: Path, rng: random.Random) -> None:
    tree = {"model": {k: clnet.tensor(v) for k, v in _arrays(rng).items()}, 3: (None, 1.5)}
    clnet.save([tree, {"$tensor": ["é", 0]}], folder / "a")


def _make_torch(name: str) -> Callable[[Path, random.Random], None]:
    """Writes what PyTorch wrote, as it is."""
    content = (Path(__file__).parents[1] / "io" / "made" / name).read_bytes()

    def make(folder: Path, rng: random.Random) -> None:
        (folder / "a").write_bytes(content)

    return make


def _make_gguf(folder: Path, rng: random.Random) -> None:
    (folder / "a").write_bytes(gguf(np.random.default_rng(rng.randrange(2**32))))


def _make_mxnet(folder: Path, rng: random.Random) -> None:
    (folder / "a").write_bytes(mxnet_params(_arrays(rng)))


def _make_caffe(folder: Path, rng: random.Random) -> None:
    weight = _arrays(rng)["layer.0.weight"]
    (folder / "a").write_bytes(caffemodel({"conv1": ("Convolution", [weight, weight[0]])}))


def _read_saved(folder: Path) -> Any:
    return _on_host(clnet.load(folder / "a"), 0)


def _on_host(value: Any, depth: int) -> Any:
    """A value whose tensors are arrays, and whose keys are texts."""
    if isinstance(value, clnet.Tensor):
        _sound(value.numel() * value.dtype.itemsize < 2**16, "tensors are no larger than the file")
        return value.detach().numpy()
    if depth > 50:
        return "deep"
    if isinstance(value, dict):
        return {repr(k): _on_host(v, depth + 1) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_on_host(v, depth + 1) for v in value]
    return value


def _make_kept(folder: Path, rng: random.Random) -> None:
    Shelf(Cache(folder), (), "").write("key", rng.randbytes(rng.choice((0, 50, 5000))))


def _read_kept(folder: Path) -> Any:
    return Shelf(Cache(folder), (), "").read("key")


def _make_tunings(folder: Path, rng: random.Random) -> None:
    problem = {"dtype": "float32", "m": rng.randrange(99), "layout": "NN"}
    entries = [
        Entry("gemm_packed", 3, problem | {"n": n}, {"rows": 6, "columns": 2}, 1.5 * n + 1, 9.25)
        for n in range(3)
    ]
    subject = Subject("PoCL", "a CPU", _subject_traits())
    (folder / "a.jsonl").write_text(Database(subject).updated(entries).text())


def _subject_traits() -> dict[str, Any]:
    names = ("dedicated_local_memory", "asynchronous_copies", "simd_width", "compute_units")
    more = ("local_memory_bytes", "large_local_memory_bytes", "max_group_size")
    return {name: getattr(TRAITS, name) for name in (*names, *more)}


def _read_tunings(folder: Path) -> Any:
    me = Subject("PoCL", "a CPU", _subject_traits())
    found: list[str] = []
    for database in load([folder / "a.jsonl"]):
        me.distance(database.subject)
        database.subject.distance(me)
        again = Database.parse(database.text())
        _sound(again.text() == database.text(), "it is written as another")
        for entry in database.entries.values():
            _sound(entry.us >= 0 and entry.default_us >= 0, "times are positive")
        found.append(database.text())
    return found


def idx(values: np.ndarray, code: int = 8) -> bytes:
    """An IDX file."""
    return (
        struct.pack(f">HBB{values.ndim}I", 0, code, values.ndim, *values.shape) + values.tobytes()
    )


def _make_idx(folder: Path, rng: random.Random) -> None:
    draw = np.random.default_rng(rng.randrange(2**32))
    (folder / "a").write_bytes(idx(draw.integers(0, 256, (3, 5, 4)).astype(np.uint8)))


def _read_idx(folder: Path) -> Any:
    array = read_idx(folder / "a", ndim=3)
    _sound(array.ndim == 3 and array.dtype.isnative, "three dimensions")
    return array


def _make_mnist(folder: Path, rng: random.Random) -> None:
    draw = np.random.default_rng(rng.randrange(2**32))
    images = draw.integers(0, 256, (6, 7, 5)).astype(np.uint8)
    for stem, values in (("images-idx3", images), ("labels-idx1", images[:, 0, 0] % 10)):
        (folder / f"train-{stem}-ubyte.gz").write_bytes(gzip.compress(idx(values)))


def _pictures(data: Any) -> Any:
    images, labels = data.arrays
    _sound(images.dtype == np.uint8 and images.ndim == 4, "images are bytes")
    _sound(len(images) == len(labels) and labels.dtype == np.int64, "a label an image")
    _sound(not labels.size or 0 <= labels.min() <= labels.max() < len(data.classes), "classes")
    return images, labels


def _records(rng: random.Random, count: int) -> bytes:
    return b"".join(bytes([rng.randrange(10)]) + rng.randbytes(3072) for _ in range(count))


def _make_batches(folder: Path, rng: random.Random) -> None:
    (folder / "test_batch.bin").write_bytes(_records(rng, 2))


def _make_tar(folder: Path, rng: random.Random) -> None:
    with tarfile.open(folder / "cifar-10-binary.tar.gz", "w:gz") as archive:
        for name in ("readme.html", "test_batch.bin"):
            content = _records(rng, 1)
            member = tarfile.TarInfo(f"cifar-10-batches-bin/{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))


def _picture(rng: random.Random, form: str, size: tuple[int, int] = (32, 32)) -> bytes:
    from PIL import Image  # noqa: PLC0415 - optional

    out = io.BytesIO()
    Image.frombytes("RGB", size, rng.randbytes(3 * size[0] * size[1])).save(out, form)
    return out.getvalue()


def _make_zip(folder: Path, rng: random.Random) -> None:
    method = rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))
    with zipfile.ZipFile(folder / "test.zip", "w", method) as archive:
        for i, name in enumerate(CLASSES):
            archive.writestr(f"{name}/{i}.png", _picture(rng, "PNG"))
        archive.writestr("README.txt", "images")


def _make_images(folder: Path, rng: random.Random) -> None:
    form = rng.choice(("PNG", "JPEG", "BMP", "PPM", "WEBP"))
    (folder / "cat").mkdir()
    suffix = {"JPEG": "jpg"}.get(form, form.lower())
    (folder / "cat" / f"0.{suffix}").write_bytes(_picture(rng, form, (9, 6)))


def _read_images(folder: Path) -> Any:
    images, labels = ImageFolder(folder).fetch(np.array([0]))
    _sound(images.dtype == np.uint8 and images.shape[:2] == (1, 3), "an RGB image")
    return images, labels


def _make_text(folder: Path, rng: random.Random) -> None:
    words = ["the", "größe", "of", "words", "\n", "日本", "don't", "."]
    (folder / "a").write_text(" ".join(rng.choice(words) for _ in range(200)), encoding="utf-8")


def _read_text(folder: Path) -> Any:
    texts = load_text(folder / "a")
    _sound(all(isinstance(text, str) for text in texts) and len(texts) == 3, "three texts")
    return list(texts)


def _make_traits(folder: Path, rng: random.Random) -> None:
    listed = [{"selector": "pocl:0", "identity": {}, "traits": TRAITS.to_dict()}]
    one = rng.choice((listed, listed[0], TRAITS.to_dict()))
    (folder / "a").write_text(json.dumps(one, indent=1))


def _read_traits(folder: Path) -> Any:
    traits = DeviceTraits.from_file(folder / "a")
    _sound(isinstance(traits, DeviceTraits), "traits")
    _sound(traits.simd_width >= 1 and traits.compute_units >= 1, "counts of one at least")
    _sound(traits.max_allocation_bytes >= 1 and traits.global_memory_bytes >= 1, "some memory")
    return repr(traits)


def _make_results(folder: Path, rng: random.Random) -> None:
    row = Outcome("lstm", "LSTM", "pocl:0", 2, rng.random(), [0.5], *(1,) * 11)
    row.peers, row.ratios = {"default": 2.5, "compile": "failed"}, {"default": 2.0}
    (folder / "a").write_text(f"{json.dumps(row.fields())}\n" * 2)


def _read_results(folder: Path) -> Any:
    rows = _earlier(folder / "a")
    report(rows)
    for row in rows:
        _same(row, "lstm", 2, ["default"])
    return rows


KINDS = (
    Kind("state", _make_state, lambda f: load_state(f / "a")),
    Kind("foreign state", _make_foreign, lambda f: load_state(f / "a"), strict=False),
    Kind("checkpoint", _make_checkpoint, lambda f: load_checkpoint(f / "a")),
    Kind("saved", _make_saved, _read_saved),
    Kind("torch zip", _make_torch("zip.pt"), _read_saved),
    Kind("torch stream", _make_torch("stream.pt"), _read_saved, strict=False),
    Kind("gguf", _make_gguf, lambda f: tuple(load_gguf(f / "a")), strict=False),
    Kind("mxnet", _make_mxnet, lambda f: load_mxnet(f / "a"), strict=False),
    Kind("caffe", _make_caffe, lambda f: load_caffe(f / "a"), strict=False),
    Kind("kept", _make_kept, _read_kept),
    Kind("tunings", _make_tunings, _read_tunings, strict=False),
    Kind("idx", _make_idx, _read_idx, strict=False),
    Kind("mnist", _make_mnist, lambda f: _pictures(MNIST(f)), inner=True),
    Kind("cifar batch", _make_batches, lambda f: _pictures(CIFAR10(f, train=False)), strict=False),
    Kind("cifar tar", _make_tar, lambda f: _pictures(CIFAR10(f, train=False)), inner=True),
    Kind("cifar zip", _make_zip, lambda f: _pictures(CIFAR10(f, train=False))),
    Kind("images", _make_images, _read_images, strict=False),
    Kind("text", _make_text, _read_text, strict=False),
    Kind("traits", _make_traits, _read_traits, strict=False),
    Kind("results", _make_results, _read_results, strict=False),
    *((Kind("onnx", make_onnx, read_onnx, strict=False),) if find_spec("onnx") else ()),
)
