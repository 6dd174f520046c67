"""``clnet.save`` and ``clnet.load``: what comes back, PyTorch's files, and files that mean harm."""

from __future__ import annotations

import argparse
import collections
import functools
import io
import json
import os
import pickle
import struct
import types
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

import clnet
from clnet import nn
from clnet.errors import ArgumentError, CheckpointError, DtypeError
from clnet.io import load_state, save_state, unpickle
from clnet.io.beside import BESIDE, set_state
from clnet.io.unpickle import Global as Known
from clnet.io.unpickle import Machine

pytestmark = pytest.mark.device

MADE = Path(__file__).parent / "made"
"""``zip.pt`` and ``stream.pt``: :func:`value` by PyTorch 2.13, with its zip format and without."""


def value(torch) -> Any:
    """Tensors in containers, of either library."""
    tied = torch.arange(6).reshape(2, 3)
    return {
        "model": collections.OrderedDict(w=torch.ones(3, 2).bfloat16() * 1.5, m=torch.ones(2) > 0),
        "views": [tied, tied.T, tied[1, 1:]],
        "p": torch.nn.Parameter(torch.ones(2)) if hasattr(torch, "nn") else None,
        "lists": (1, 2.5, "é", None, True, -3, 2**70, b"abc", {1, 2}, [float("inf")]),
        7: {(0, "a"): 1 + 2j, None: {}},
        "dtype": torch.float16,
        "$odd": {"$tensor": ["name", 0]},
    }


def told(found) -> Any:
    """A value with arrays in the place of tensors."""
    if hasattr(found, "detach"):
        host = np.asarray(
            found.detach().float() if str(found.dtype).endswith("bfloat16") else found.detach()
        )
        return str(found.dtype).rpartition(".")[2], found.requires_grad, host.tolist()
    if isinstance(found, dict):
        return type(found), [(told(k), told(v)) for k, v in found.items()]
    if isinstance(found, list | tuple):
        return type(found), [told(v) for v in found]
    return str(found).rpartition(".")[2] if "float16" in str(found) else found


def returned(obj, **settings):
    file = io.BytesIO()
    clnet.save(obj, file)
    file.seek(0)
    return clnet.load(file, **settings)


def test_what_is_saved_comes_back():
    obj = value(clnet)
    obj["array"] = np.arange(3, dtype=np.uint8)
    obj["number"] = np.float64(2.5)
    obj["device"] = clnet.device()
    found = returned(obj)
    array = found.pop("array")
    assert isinstance(array, np.ndarray)
    assert array.tolist() == [0, 1, 2]
    assert (found.pop("number"), found.pop("device")) == (2.5, clnet.device().name)
    assert told(found) == told(value(clnet))
    assert isinstance(found["p"], nn.Parameter)


def test_a_tensor_that_comes_twice_is_stored_once(tmp_path):
    layer = nn.Linear(2, 2)
    clnet.save({"a": layer.weight, "b": layer.weight, "c": layer.state_dict()}, tmp_path / "x")
    assert sorted(load_state(tmp_path / "x").arrays) == ["a", "c.bias"]
    found = clnet.load(tmp_path / "x")
    assert found["a"] is found["b"]
    assert found["c"]["weight"].array is found["a"].array
    assert not found["c"]["weight"].requires_grad


def test_views_share_memory_when_they_are_loaded():
    base = clnet.arange(12.0).reshape(3, 4)
    apart = clnet.arange(4.0)
    given = {
        "views": [base[1:], base.T, base[:, 1], base[0].expand(2, 4), base],
        "apart": (apart[:2], apart[2:]),
        "leaf": nn.Parameter(base[2]),
        "empty": base[:0],
    }
    found = returned(given)
    assert told(found) == told(given)
    for values in (given, found):
        with clnet.no_grad():
            values["leaf"].fill_(-1)
            values["views"][-1][0] = 7
    assert told(found) == told(given)
    assert found["apart"][0].array.storage is not found["apart"][1].array.storage


@pytest.mark.parametrize(
    "group",
    [
        [["a", 0, [1]], ["b", 0, [10**12]]],
        [["a", -1, [1]], ["b", 0, [1]]],
        [["a", 0, [1]], ["b", 3, [-1]]],
        [["a", 0, [1, 1]]],
        [["c", 0, [1]]],
        [["a", 0]],
        3,
    ],
)
def test_places_that_mean_harm_are_refused(group, tmp_path):
    arrays = {"a": np.ones(3, np.float32), "b": np.ones(3, np.float32)}
    tree = {"clnet.saved": "0", "clnet.shared": json.dumps([group])}
    save_state(tmp_path / "file", arrays, metadata=tree)
    with pytest.raises(CheckpointError, match="tree is damaged"):
        clnet.load(tmp_path / "file")


def test_a_file_of_others_gives_tensors(tmp_path):
    save_file({"w": np.eye(2, dtype=np.float32)}, tmp_path / "x")
    found = clnet.load(tmp_path / "x", weights_only=True, mmap=True)
    assert found["w"].tolist() == [[1, 0], [0, 1]]


@pytest.mark.parametrize("place", ["cpu", clnet.device(), lambda s, _: s, {"cuda:0": "cpu"}, None])
def test_tensors_go_where_they_are_mapped(place):
    assert returned(clnet.ones(2), map_location=place).device is clnet.device()


@pytest.mark.multi
def test_tensors_go_to_another_device(part_of_device):
    assert returned(clnet.ones(2), map_location=part_of_device).device is part_of_device


@pytest.mark.parametrize("name", ["zip.pt", "stream.pt"])
def test_what_pytorch_wrote_is_read(name):
    found = clnet.load(MADE / name)
    assert told(found) == told(value(clnet))
    assert isinstance(found["p"], nn.Parameter)
    found["views"][0].add_(10)
    assert found["views"][2].tolist() == [14, 15]  # views share memory as they did


@pytest.mark.parametrize("zipped", [True, False])
def test_what_pytorch_writes_is_read(zipped):
    torch = pytest.importorskip("torch")
    model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3))
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.ones(4, 2)).sum().backward()
    optimizer.step()
    file = io.BytesIO()
    state = {"value": value(torch), "model": model.state_dict(), "opt": optimizer.state_dict()}
    state["wide"] = torch.tensor([1 + 2j, 3j], dtype=torch.complex128)
    torch.save(state, file, _use_new_zipfile_serialization=zipped)
    file.seek(0)
    found = clnet.load(file)
    assert told(found) == told(state)
    assert found["model"]._metadata["1"] == {"version": 2}
    ours = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    assert ours.load_state_dict(found["model"]) == ([], [])
    assert told(ours.state_dict()) == told(model.state_dict())


def test_pytorchs_tensors_are_values():
    torch = pytest.importorskip("torch")
    theirs = torch.nn.Linear(2, 3).bfloat16()
    ours = nn.Linear(2, 3)
    ours.load_state_dict(theirs.state_dict())
    assert told(ours.weight.detach())[2] == told(theirs.weight)[2]
    assert told(returned(theirs.state_dict())) == told(theirs.state_dict())
    assert clnet.tensor(theirs.weight).dtype is clnet.bfloat16
    assert clnet.tensor(torch.ones(1, dtype=torch.float64)).dtype is clnet.float64


def beside() -> dict[str, Any]:
    """What programs keep beside their weights."""
    return {
        "args": argparse.Namespace(lr=0.1, out=Path("runs") / "a", sizes=[1, 2]),
        "best": np.float64(0.25),
        "step": np.int32(7),
        "curve": np.arange(6.0).reshape(2, 3),
        "turned": np.asfortranarray(np.arange(6, dtype=">i2").reshape(2, 3)),
        "names": np.array(["cat", "ship"]),
        "more": types.SimpleNamespace(depth=3),
    }


def are_beside(found: Any) -> bool:
    """Whether it is :func:`beside`."""
    expected = beside()
    arrays = ("curve", "turned", "names")
    for name in arrays:
        np.testing.assert_array_equal(found[name], expected[name])
    return found.keys() == expected.keys() and all(
        found[name] == expected[name] for name in expected if name not in arrays
    )


def test_arguments_and_paths_come_back():
    kept = {k: v for k, v in beside().items() if k != "names"}
    found = returned({**kept, "turned": np.arange(6).reshape(2, 3)})
    assert are_beside({**found, "names": beside()["names"]})


@dataclass
class Settings:
    """A program's."""

    depth: int
    scale: Any = None


class Ends:
    """An object that does something when it goes."""

    def __del__(self) -> None:
        pass


def test_objects_that_are_their_attributes_come_back():
    value = Settings(3, {"w": clnet.ones(2)})
    file = io.BytesIO()
    clnet.save({"a": value, "b": [value]}, file)
    file.seek(0)
    with pytest.raises(CheckpointError, match="holds an object, and weights_only is not False"):
        clnet.load(file)
    file.seek(0)
    found = clnet.load(file, weights_only=False)
    assert type(found["a"]) is Settings
    assert found["b"][0] is found["a"]
    assert found["a"].scale["w"].tolist() == [1.0, 1.0]


@pytest.mark.parametrize("obj", [Ends(), pickle.Pickler, object(), struct.Struct("i"), iter("ab")])
def test_objects_that_are_more_are_refused(obj):
    with pytest.raises(CheckpointError, match="cannot be stored"):
        clnet.save({"a": obj}, io.BytesIO())


def test_a_file_makes_no_object_that_does_something(monkeypatch):
    """A class may have become one since: what it does when it goes is not for a file to say."""
    file = io.BytesIO()
    clnet.save({"a": Settings(3)}, file)
    monkeypatch.setattr(Settings, "__del__", lambda self: None, raising=False)
    file.seek(0)
    with pytest.raises(CheckpointError, match="keeps attributes alone"):
        clnet.load(file, weights_only=False)


@pytest.mark.parametrize("protocol", [2, 4])
def test_what_pytorch_keeps_beside_tensors_is_read(protocol):
    torch = pytest.importorskip("torch", reason="the oracle is PyTorch, of the torch extra")
    file = io.BytesIO()
    torch.save({**beside(), "w": torch.ones(2)}, file, pickle_protocol=protocol)
    file.seek(0)
    found = clnet.load(file, weights_only=False)
    assert found.pop("w").tolist() == [1.0, 1.0]
    assert are_beside(found)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (np.array([{}, 1], dtype=object), "dtype is one of numbers"),
        (np.zeros(2, dtype=[("a", "i4")]), "how its bytes lie"),
        (np.zeros(2, "M8[s]"), "dtype is one of numbers"),
    ],
    ids=["objects", "fields", "times"],
)
def test_arrays_of_other_elements_are_refused(data, text):
    with pytest.raises(CheckpointError, match=text):
        Machine(pickle.dumps(data, 4), BESIDE, persistent=str, built=set_state).run("f")


def test_arrays_are_checked_against_their_bytes():
    array = np.arange(3, dtype="i4")
    whole = pickle.dumps(array, 4)
    shape = whole.replace(b"K\x03\x85", b"K\x04\x85")
    assert shape != whole
    for damaged in (shape, whole.replace(b"C\x0c", b"C\x08").replace(b"\x02\0\0\0\x94", b"\x94")):
        with pytest.raises(CheckpointError, match="the bytes of its shape and dtype"):
            Machine(damaged, BESIDE, persistent=str, built=set_state).run("f")
    flags = whole.replace(b"J\xff\xff\xff\xffK\x00t", b"J\xff\xff\xff\xffK\x3ft")
    assert flags != whole  # which say that the elements are objects
    with pytest.raises(CheckpointError, match="how its bytes lie, and no more"):
        Machine(flags, BESIDE, persistent=str, built=set_state).run("f")
    found = Machine(whole, BESIDE, persistent=str, built=set_state).run("f")
    np.testing.assert_array_equal(found, array)


def test_a_state_can_be_assigned():
    layer = nn.Linear(2, 2)
    weight = layer.weight
    state = {"weight": clnet.ones(2, 2, dtype=clnet.float16), "bias": np.zeros(2, np.float32)}
    version = layer._clnet_version
    layer.load_state_dict(state, assign=True)
    assert layer.weight is weight
    assert layer.weight.array is state["weight"].array
    assert layer.weight.requires_grad
    assert layer._clnet_version != version
    layer.load_state_dict({"weight": clnet.zeros(2, 2)}, False)
    assert layer.weight.tolist() == [[0, 0], [0, 0]]
    assert layer.weight.dtype is clnet.float16


def zipped(entries, **settings) -> io.BytesIO:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", **settings) as archive:
        for name, content in entries.items():
            archive.writestr(name, content)
    file.seek(0)
    return file


def test_big_endian_files_are_read():
    with zipfile.ZipFile(MADE / "zip.pt") as archive:
        entries = {n: archive.read(n) for n in archive.namelist()}
    for name, content in entries.items():
        if name.endswith("data/2"):  # the integers
            entries[name] = np.frombuffer(content, np.int64).astype(">i8").tobytes()
        if name.endswith("byteorder"):
            entries[name] = b"big"
    assert clnet.load(zipped(entries))["views"][0].tolist() == [[0, 1, 2], [3, 4, 5]]


class Harm:
    """Runs what it likes when an unpickler that does so reads it."""

    def __reduce__(self):
        return os.mkdir, ("harmed",)


class Attribute:
    def __reduce__(self):
        return getattr, (dict, "clear")


@pytest.mark.parametrize(
    ("harm", "name"),
    [
        (Harm(), "posix.mkdir"),
        (Attribute(), "(__builtin__|builtins).getattr"),
        (np.random.default_rng(0), "numpy.random"),
        (functools.partial(print), "functools.partial"),
    ],
)
def test_what_a_file_names_is_never_run(harm, name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for protocol in (2, 3, 4, 5):
        content = pickle.dumps({"a": harm}, protocol)
        with pytest.raises(
            CheckpointError, match=f"no tensor and no plain container; got name='{name}"
        ):
            clnet.load(zipped({"x/data.pkl": content}))
    assert not (tmp_path / "harmed").exists()


def read(data: bytes, names=None):
    def refused(given):
        raise CheckpointError("x", "no storage")

    return Machine(data, names or {}, persistent=refused, built=lambda a, b: None).run("x")


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_plain_values_are_read_from_every_protocol(protocol):
    obj = [
        1,
        -1,
        300,
        70000,
        2**40,
        -(2**300),
        1.5,
        "é" * 300,
        b"abc" * 100,
        (),
        (1,),
        (1, 2, 3, 4),
        {},
    ]
    obj += [
        {"a": [1], 2: None},
        {1, 2},
        frozenset({3}),
        bytearray(b"x"),
        1j,
        collections.OrderedDict(a=1),
    ]
    obj += [collections.defaultdict(list), True, False, obj[0]]
    shared = [1]
    found = read(pickle.dumps([obj, shared, shared], protocol))
    assert found[0] == obj
    assert found[1] is found[2]


def mark(*parts: bytes) -> bytes:
    return b"\x80\x02" + b"".join(parts) + b"."


LONG = b"(" + b"K\x01" * 5000 + b"l" + b"q\x00"  # a list of 5000 in the memo
LISTED = b"0" + b"(" + b"cbuiltins\nlist\nh\x00\x85R0" * 400 + b"l"  # copied again and again
NESTED = b")" + b"\x85" * 100_000


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", "it ends too early"),
        (mark(b"X\xff\xff\xff\x7fab"), "it ends too early"),
        (mark(b"]", b"r\xff\xff\xff\xff", b"j\xfe\xff\xff\xff"), "KeyError"),
        (mark(LONG, LISTED), "copies more than such a file can mean"),
        (mark(b"}", NESTED, b"K\x01s"), "a key is no plain value"),
        (mark(b"(", NESTED, b"\x91"), "a key is no plain value"),
        (mark(b"}]K\x01s"), "a key is no plain value"),
        (mark(b"\x8b\x41\0\0\0" + b"\1" * 65), "too many bytes"),
        (mark(b"\x8b\xff\xff\xff\x7f"), "ends too early"),
        (mark(b"\x8b\xff\xff\xff\xff"), "ends too early"),
        (mark(b"K\x01K\x02a"), "int in the place of a container"),
        (mark(b"(K\x01d"), "a key without a value"),
        (mark(b"a"), "IndexError"),
        (mark(b"e"), "IndexError"),
        (mark(b"(q\x00"), "a mark where a value is due"),
        (mark(b"("), "a mark where a value is due"),
        (mark(b"K\x01K\x02l"), "a mark is missing"),
        (mark(b"K\x01)R"), "what is called is no function"),
        (mark(b"cbuiltins\nlist\nK\x01R"), "arguments are no tuple"),
        (mark(b"cbuiltins\nlist\nK\x01\x85R"), "TypeError"),
        (mark(b"ccollections\ndefaultdict\nK\x01\x85R"), "an unknown kind"),
        (
            mark(b"c_codecs\nencode\nX\x01\x00\x00\x00aX\x03\x00\x00\x00hex\x86R"),
            "another encoding",
        ),
        (mark(b"c" + b"a" * 5000), "a line does not end"),
        (mark(b"K\x01K\x02\x93"), "a global's name is no text"),
        (mark(b"\xff"), "instruction 0xff is not known"),
        (mark(b"I1\n"), "instruction 0x49 is not known"),
        (b"\x80\x07N.", "an unknown protocol"),
    ],
)
def test_pickles_that_mean_harm_are_refused(data, text):
    with pytest.raises(CheckpointError, match=text):
        read(data)


def test_only_what_is_known_is_called():
    called = []
    known = {"a.b": Known(lambda *x: called.append(x))}
    read(mark(b"ca\nb\nK\x05\x85R"), known)
    assert called == [(5,)]
    assert unpickle.PLAIN.keys().isdisjoint({"builtins.eval", "builtins.getattr", "os.system"})


def tensor_pickle(storage=b"FloatStorage", count=4, offset=0, size=(4,), stride=(1,)) -> bytes:
    """A pickle of a tensor on a storage of its own."""

    def text(t):
        return b"X" + struct.pack("<I", len(t)) + t

    def numbers(values):
        return (
            b"("
            + b"".join(b"\x8a\x09" + v.to_bytes(9, "little", signed=True) for v in values)
            + b"t"
        )

    identity = b"(" + text(b"storage") + b"ctorch\n" + storage + b"\n" + text(b"0") + text(b"cpu")
    identity += (
        numbers((count,)) + b"0" + b"\x8a\x09" + count.to_bytes(9, "little", signed=True) + b"tQ"
    )
    offset_ = b"\x8a\x09" + offset.to_bytes(9, "little", signed=True)
    arguments = b"(" + identity + offset_ + numbers(size) + numbers(stride) + b"\x89NtR"
    return mark(b"ctorch._utils\n_rebuild_tensor_v2\n", arguments)


@pytest.mark.parametrize(
    ("settings", "error", "text"),
    [
        ({}, None, ""),
        ({"size": (2, 2), "stride": (0, 1)}, None, ""),
        ({"count": 5}, CheckpointError, "a storage is not of the size"),
        ({"count": -1}, CheckpointError, "in a way that is not known"),
        ({"size": (5,)}, CheckpointError, "larger than what the file holds"),
        ({"offset": 1}, CheckpointError, "larger than what the file holds"),
        ({"offset": -1}, CheckpointError, "0 or more"),
        ({"stride": (2,)}, CheckpointError, "larger than what the file holds"),
        ({"stride": (-1,)}, CheckpointError, "0 or more"),
        ({"size": (10**12,), "stride": (0,)}, CheckpointError, "larger than what the file holds"),
        ({"size": (2, 2)}, CheckpointError, "a stride for each axis"),
        ({"size": (1,) * 70, "stride": (1,) * 70}, CheckpointError, "whole numbers, 0 or more"),
        ({"storage": b"complex32"}, DtypeError, "complex32"),
        ({"storage": b"QUInt8Storage"}, CheckpointError, "torch.QUInt8Storage"),
    ],
)
def test_sizes_are_checked_against_the_file(settings, error, text):
    content = np.arange(4, dtype=np.float32).tobytes()
    file = zipped({"x/data.pkl": tensor_pickle(**settings), "x/data/0": content})
    if error is None:
        shape = settings.get("size", (4,))
        expected = np.arange(4.0) if shape == (4,) else np.array([[0.0, 1], [0, 1]])
        np.testing.assert_array_equal(clnet.load(file).numpy(), expected)
        return
    with pytest.raises(error, match=text):
        clnet.load(file)


def test_other_files_are_told(tmp_path):
    packed = zipped({"x/data.pkl": b"N."}, compression=zipfile.ZIP_DEFLATED)
    with pytest.raises(CheckpointError, match="stores entries as they are"):
        clnet.load(packed)
    with pytest.raises(CheckpointError, match="a zip, but none of"):
        clnet.load(zipped({"a.npy": b""}))
    with pytest.raises(CheckpointError, match="Scripted modules"):
        clnet.load(zipped({"x/data.pkl": b"N.", "x/code/a.py": b""}))
    with pytest.raises(CheckpointError, match="not of the size"):
        clnet.load(zipped({"x/data.pkl": tensor_pickle()}))
    with pytest.raises(CheckpointError, match="a pickle, but none of"):
        clnet.load(io.BytesIO(pickle.dumps(1, 2) * 3))
    with pytest.raises(CheckpointError, match="there is no such file"):
        clnet.load(tmp_path / "none")
    with pytest.raises(CheckpointError, match="not a whole safetensors file"):
        clnet.load(io.BytesIO(b"nothing of the kind"))
    with pytest.raises(CheckpointError, match=r"before 0\.2"):
        clnet.load(io.BytesIO(bytes(257) + b"ustar" + bytes(300)))
    whole = (MADE / "zip.pt").read_bytes()
    with pytest.raises(CheckpointError, match="not a whole zip file"):
        clnet.load(io.BytesIO(whole[:-30]))
    with pytest.raises(CheckpointError, match=r"not a whole zip file.*UnicodeDecodeError"):
        clnet.load(io.BytesIO(whole.replace(b"zip/data.pkl", b"zip/data.pk\xff")))
    at = whole.rindex(b"zip/data/0") - 46  # its entry of the directory: nothing is stored
    empty = bytearray(whole)
    empty[at + 16 : at + 24] = bytes(8)
    with pytest.raises(CheckpointError, match="stores entries as they are"):
        clnet.load(io.BytesIO(empty))
    stream = (MADE / "stream.pt").read_bytes()
    with pytest.raises(CheckpointError, match="not of the size"):
        clnet.load(io.BytesIO(stream[:-1]))


@pytest.mark.parametrize(
    ("obj", "text"),
    [
        ({"a": [1, object()]}, r"a\.1 is a builtins\.object"),
        (range(3), r"it is a builtins\.range.*state_dict"),
        ({"a": lambda: 0}, "a is a builtins.function"),
        ({object(): 1}, "builtins.object"),
    ],
)
def test_what_cannot_be_saved_is_told(obj, text):
    with pytest.raises(CheckpointError, match=text):
        clnet.save(obj, io.BytesIO())


def test_arguments_are_checked(tmp_path):
    with pytest.raises(CheckpointError, match="folder that exists"):
        clnet.save(1, tmp_path / "none" / "x")
    with pytest.raises(ArgumentError, match="f is a path or a binary file"):
        clnet.save(1, 3)  # pyrefly: ignore[bad-argument-type] - refused, as tested
    with pytest.raises(ArgumentError, match="nothing in a file is run"):
        clnet.load(tmp_path / "x", pickle_module=pickle)
    with pytest.raises(ArgumentError, match="names=\\['where'\\]"):
        clnet.save(1, tmp_path / "x", where=2)
    clnet.save(3, tmp_path / "x", pickle_protocol=4)
    assert clnet.load(str(tmp_path / "x")) == 3
    deep: list = []
    for _ in range(300):
        deep = [deep]
    with pytest.raises(CheckpointError, match="containers deep"):
        clnet.save(deep, tmp_path / "x")
    save_state(tmp_path / "y", {}, metadata={"clnet.saved": '{"$tensor": ["none", 0]}'})
    with pytest.raises(CheckpointError, match="tree is damaged"):
        clnet.load(tmp_path / "y")


def test_a_file_that_is_not_there_is_pythons_error_too(tmp_path):
    with pytest.raises(FileNotFoundError, match="there is no such file") as found:
        clnet.load(tmp_path / "nothing.pt")
    assert isinstance(found.value, CheckpointError)
