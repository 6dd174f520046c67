"""``torch.distributed.checkpoint``: states that ranks write together, and any number of them read.

Each rank writes a file of what it has, rank 0 the plain values and, last, what lies where
(``.metadata``). The files are clnet's own: :func:`clnet.load` reads them.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol, runtime_checkable

import numpy as np

from ..errors import CheckpointError
from ..io import load_state, save_state
from ..io.saved import load as load_file
from ..io.saved import save as save_file
from ..ranks.membership import get_rank, group_of, is_initialized
from ..ranks.message import gathered_objects
from ..ranks.placement import DTensor, Shard
from ..ranks.world import Group
from ..tensor import Tensor, tensor
from ..values.dtypes import from_name
from ..values.futures import Future
from ..values.record import NamedTuple
from . import distributed_state as state_dict

__all__ = [
    "CheckpointException",
    "DefaultLoadPlanner",
    "DefaultSavePlanner",
    "FileSystemReader",
    "FileSystemWriter",
    "Stateful",
    "async_save",
    "dcp_to_torch_save",
    "load",
    "load_state_dict",
    "save",
    "save_state_dict",
    "state_dict",
    "torch_save_to_dcp",
]

CheckpointException = CheckpointError
_METADATA = ".metadata"
Place = tuple[int, ...]
"""Where a part begins in the whole."""


@runtime_checkable
class Stateful(Protocol):
    """What has a state of its own, which is written and read in its place."""

    def state_dict(self) -> dict[str, Any]:
        """The state."""
        ...

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue from it."""
        ...


class _Folder:
    """A folder.

    Args:
        path: where.
        *args: taken.
        **kwargs: taken.
    """

    def __init__(self, path: str | os.PathLike[str], *args: Any, **kwargs: Any) -> None:
        del args, kwargs
        self.path = Path(path)


class FileSystemWriter(_Folder):
    """A folder that a checkpoint is written to."""


class FileSystemReader(_Folder):
    """A folder that one is read from."""


class _Planner:
    """How entries are laid out: there is one way.

    Args:
        *args: taken.
        **kwargs: taken; ``allow_partial_load`` lets entries be missing.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        del args
        self.allow_partial_load = bool(kwargs.get("allow_partial_load"))


class DefaultSavePlanner(_Planner):
    """Of writing."""


class DefaultLoadPlanner(_Planner):
    """Of reading."""


@dataclass
class _Leaf:
    """A value in a tree of containers.

    Attributes:
        name: the way to it, with dots.
        value: it.
        holder: what holds it, and under which key.
        alike: whether all ranks have the same: of an optimiser's own state.
    """

    name: str
    value: Any
    holder: tuple[Any, Any] | None = None
    alike: bool = False

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the whole."""
        return tuple(self.value.shape)

    def part(self) -> tuple[Place, Tensor]:
        """What this rank has of a tensor, and where it begins."""
        x = self.value
        if not isinstance(x, DTensor):
            return (0,) * x.ndim, x
        begin, (placement,) = [0] * len(x.shape), x.placements
        if isinstance(placement, Shard):
            group, dim = x.device_mesh.get_group(), placement.dim % len(x.shape)
            rows = -(-x.shape[dim] // group.size())
            begin[dim] = min(group.rank() * rows, x.shape[dim])
        return tuple(begin), x.to_local().detach()


@dataclass
class _Entry:
    """A tensor in a checkpoint.

    Attributes:
        shape, dtype: of the whole.
        parts: where each begins, how large it is, and the file and name that it has there.
    """

    shape: tuple[int, ...]
    dtype: str
    parts: list[tuple[Place, tuple[int, ...], str, str]] = field(default_factory=list)


def save(
    state_dict: dict[str, Any],
    *,
    checkpoint_id: str | os.PathLike[str] | None = None,
    storage_writer: FileSystemWriter | None = None,
    planner: Any = None,
    process_group: Group | None = None,
    no_dist: bool = False,
    use_collectives: bool = True,
) -> None:
    """Write a state, of which each rank has parts; all ranks call it.

    Of tensors that are no :class:`.DTensor`, and of plain values, rank 0's are written.

    Args:
        state_dict: tensors, parts and plain values in dicts and lists, or what is
            :class:`Stateful`; of the same names on all ranks.
        checkpoint_id: the folder.
        storage_writer: the folder, in its place.
        planner: taken.
        process_group: who takes part; None: all.
        no_dist: whether this process is alone.
        use_collectives: taken.

    Raises:
        CheckpointError: on all ranks, if one cannot write, or their states differ in names, shapes
            or dtypes; then the folder has no ``.metadata``.
    """
    del planner, use_collectives
    folder = _folder("save", checkpoint_id, storage_writer)
    group = _group("save", process_group, alone=no_dist)
    rank = 0 if group is None else group.rank()
    leaves = list(_leaves(_asked(state_dict)))
    tensors = [leaf for leaf in leaves if isinstance(leaf.value, DTensor | Tensor)]
    problem, entries = _joined(_told("save", group, [_plan(leaf) for leaf in tensors]))

    def begin() -> None:
        if problem is not None:
            raise problem
        folder.mkdir(parents=True, exist_ok=True)
        if rank == 0:
            (folder / _METADATA).unlink(missing_ok=True)

    # Before anybody overwrites a part: else what is killed now would leave old parts beside new.
    _together("save", group, begin)

    def write() -> None:
        own = f"__{rank}_0.distcp"
        arrays = {
            name: leaf.part()[1].detach().array.numpy()
            for leaf in tensors
            for _, _, file, name in entries[leaf.name].parts
            if file == own and name == _part_name(leaf.name, leaf.part()[0])
        }
        save_state(folder / own, arrays)

    _together("save", group, write)

    def tell() -> None:
        if rank == 0:
            known = {name: (e.shape, e.dtype, e.parts) for name, e in entries.items()}
            every = (leaf for leaf in leaves if not isinstance(leaf.value, DTensor | Tensor))
            values = {leaf.name: leaf.value for leaf in every}
            save_file({"tensors": known, "values": values}, folder / _METADATA)

    _together("save", group, tell)


def async_save(state_dict: dict[str, Any], **given: Any) -> Future:
    """As :func:`save`, which it does at once; a future that is there.

    Args:
        state_dict: as there.
        **given: as there; ``async_checkpointer_type`` is taken.
    """
    known = "checkpoint_id storage_writer planner process_group no_dist".split()
    save(state_dict, **{k: v for k, v in given.items() if k in known})
    done = Future()
    done.set_result(None)
    return done


def load(
    state_dict: dict[str, Any],
    *,
    checkpoint_id: str | os.PathLike[str] | None = None,
    storage_reader: FileSystemReader | None = None,
    planner: Any = None,
    process_group: Group | None = None,
    no_dist: bool = False,
) -> None:
    """Read a checkpoint into a state: each rank reads what it has of each tensor.

    Any number of ranks reads what any other number wrote.

    Args:
        state_dict: tensors are overwritten, plain values replaced; what is :class:`Stateful`
            continues from what is read.
        checkpoint_id: the folder.
        storage_reader: the folder, in its place.
        planner: one with ``allow_partial_load`` leaves what the checkpoint has not.
        process_group: who takes part; None: all.
        no_dist: whether this process is alone.

    Raises:
        CheckpointError: on all ranks, if there is no whole checkpoint in the folder, it has not
            what the state has, or a shape is another.
    """
    folder = _folder("load", checkpoint_id, storage_reader)
    group = _group("load", process_group, alone=no_dist)
    asked = _asked(state_dict)
    partly = bool(getattr(planner, "allow_partial_load", False))
    _together("load", group, lambda: _read(folder, asked, partly=partly))
    for name, value in state_dict.items():
        if _is_stateful(value):
            value.load_state_dict(asked[name])
        else:
            state_dict[name] = asked[name]


def save_state_dict(
    state_dict: dict[str, Any], storage_writer: FileSystemWriter, **given: Any
) -> None:
    """As :func:`save`, by its older name."""
    given.pop("coordinator_rank", None)
    save(state_dict, storage_writer=storage_writer, **given)


def load_state_dict(
    state_dict: dict[str, Any], storage_reader: FileSystemReader, **given: Any
) -> None:
    """As :func:`load`, by its older name."""
    given.pop("coordinator_rank", None)
    load(state_dict, storage_reader=storage_reader, **given)


def dcp_to_torch_save(
    dcp_checkpoint_dir: str | os.PathLike[str], torch_save_path: str | os.PathLike[str]
) -> None:
    """A checkpoint as one file of :func:`clnet.save`, of whole tensors by names with dots.

    Args:
        dcp_checkpoint_dir: the folder.
        torch_save_path: the file.
    """
    known, values = _metadata(Path(dcp_checkpoint_dir))
    whole = {
        name: tensor(_region(Path(dcp_checkpoint_dir), e, (0,) * len(e.shape), e.shape, {}))
        for name, e in known.items()
    }
    save_file(whole | values, torch_save_path)


def torch_save_to_dcp(
    torch_save_path: str | os.PathLike[str], dcp_checkpoint_dir: str | os.PathLike[str]
) -> None:
    """A file of :func:`clnet.save` or PyTorch's as a checkpoint.

    Args:
        torch_save_path: the file.
        dcp_checkpoint_dir: the folder.
    """
    save(load_file(torch_save_path), checkpoint_id=dcp_checkpoint_dir, no_dist=True)


# Trees.


def _is_stateful(value: Any) -> bool:
    return isinstance(value, Stateful) and not isinstance(value, Mapping)


def _asked(state: dict[str, Any]) -> dict[str, Any]:
    """The state, with those of what has its own."""
    return {k: v.state_dict() if _is_stateful(v) else v for k, v in state.items()}


def _leaves(
    value: Any, name: str = "", holder: Any = None, *, alike: bool = False
) -> Iterator[_Leaf]:
    if isinstance(value, Mapping) and value:
        of_optimizer = {"state", "param_groups"} <= set(value)
        for key, inner in value.items():
            below = f"{name}.{key}" if name else str(key)
            own = alike or (of_optimizer and key == "state")
            yield from _leaves(inner, below, (value, key), alike=own)
    elif isinstance(value, list) and any(_has_tensors(x) for x in value):
        for key, inner in enumerate(value):
            yield from _leaves(inner, f"{name}.{key}", (value, key), alike=alike)
    else:
        yield _Leaf(name, value, holder, alike)


def _has_tensors(value: Any) -> bool:
    if isinstance(value, Mapping):
        return any(_has_tensors(v) for v in value.values())
    if isinstance(value, list):
        return any(_has_tensors(v) for v in value)
    return isinstance(value, DTensor | Tensor)


# Writing.


def _part_name(name: str, begin: Place) -> str:
    return f"{name}@{','.join(map(str, begin))}"


class _Plan(NamedTuple):
    """What a rank tells of a tensor.

    Attributes:
        name: the way to it.
        shape, dtype: of the whole.
        begin, size: of the rank's part.
        shared: whether that is all of it, on every rank.
        digest: a hash of an optimiser's own state, of which rank 0's is written for all; else "".
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    begin: Place
    size: tuple[int, ...]
    shared: bool
    digest: str


def _plan(leaf: _Leaf) -> _Plan:
    begin, own = leaf.part()
    shared = not isinstance(leaf.value, DTensor)
    digest = ""
    if shared and leaf.alike and own.ndim:
        digest = hashlib.sha256(own.detach().contiguous().array.numpy().tobytes()).hexdigest()
    size = tuple(own.shape)
    return _Plan(leaf.name, leaf.shape, own.dtype.name, begin, size, shared, digest)


def _misfit(rank: int, plan: list[_Plan], first: Mapping[str, _Plan]) -> CheckpointError | None:
    """Why what a rank tells does not go with what rank 0 does, by names; None: it does."""
    names = [told.name for told in plan]
    if sorted(names) != sorted(first) or len(set(names)) < len(names):
        law = "all ranks have tensors of the same names, each once"
        differing = sorted({*names} ^ {*first})[:5]
        return CheckpointError("save", law, rank=rank, differing=differing)
    for told in plan:
        its = first[told.name]
        if told.digest != its.digest:
            law = "an optimiser's own state is the same on all ranks"
            remedy = "Its parameters lie in parts: write get_optimizer_state_dict(model, o)"
            return CheckpointError("save", law, name=told.name, rank=rank, remedy=remedy)
        here, there = (told.shape, told.dtype), (its.shape, its.dtype)
        if here != there:
            law = "a tensor has one shape and dtype on all ranks"
            return CheckpointError("save", law, name=told.name, rank=rank, has=here, first=there)
    return None


def _joined(plans: list[list[_Plan]]) -> tuple[CheckpointError | None, dict[str, _Entry]]:
    """What all ranks have; each part is the first's that has it."""
    first = {told.name: told for told in plans[0]}
    entries: dict[str, _Entry] = {}
    for rank, plan in enumerate(plans):
        problem = _misfit(rank, plan, first)
        if problem is not None:
            return problem, {}
        for name, shape, dtype, begin, size, shared, _ in plan:
            entry = entries.setdefault(name, _Entry(shape, dtype))
            if shared and rank:
                continue
            is_new = all(begin != known[0] for known in entry.parts)
            if is_new and (0 not in size or not entry.parts):
                entry.parts.append((begin, size, f"__{rank}_0.distcp", _part_name(name, begin)))
    return None, entries


# Reading.


def _read(folder: Path, asked: dict[str, Any], *, partly: bool) -> None:
    known, values = _metadata(folder)
    opened: dict[str, Any] = {}
    wrong: list[tuple[str, Any, Any]] = []
    missing: list[str] = []
    leaves = list(_leaves(asked))
    for leaf in leaves:
        of_tensor = isinstance(leaf.value, DTensor | Tensor)
        if leaf.name not in (known if of_tensor else values):
            missing.append(leaf.name)
        elif of_tensor and known[leaf.name].shape != leaf.shape:
            wrong.append((leaf.name, leaf.shape, known[leaf.name].shape))
    if wrong:
        law = "tensors have the checkpoint's shapes"
        raise CheckpointError(str(folder), law, name_state_checkpoint=wrong[:3])
    if missing and not partly:
        law = "the checkpoint has what the state has"
        told = {"missing": missing[:5], "number": len(missing)}
        hint = "A DefaultLoadPlanner(allow_partial_load=True) leaves what is missing as it is"
        raise CheckpointError(str(folder), law, **told, remedy=hint)
    for leaf in leaves:
        if leaf.name in missing:
            continue
        if isinstance(leaf.value, DTensor | Tensor):
            begin, own = leaf.part()
            host = _region(folder, known[leaf.name], begin, tuple(own.shape), opened)
            own.detach().copy_(tensor(host, device=own.device))
        elif leaf.holder is not None:
            holder, key = leaf.holder
            holder[key] = values[leaf.name]


def _metadata(folder: Path) -> tuple[dict[str, _Entry], dict[str, Any]]:
    path = folder / _METADATA
    if not path.exists():
        law, remedy = "there is a whole checkpoint in the folder", f"{path} is written last"
        raise CheckpointError(str(folder), law, remedy=remedy)
    found = load_file(path)
    if not (isinstance(found, Mapping) and {"tensors", "values"} <= set(found)):
        raise CheckpointError(str(path), "it tells what lies where", type=type(found).__name__)
    known = {name: _Entry(tuple(s), d, p) for name, (s, d, p) in found["tensors"].items()}
    return known, dict(found["values"])


def _region(
    folder: Path, entry: _Entry, begin: Place, size: tuple[int, ...], opened: dict[str, Any]
) -> np.ndarray:
    """A part of a tensor, of the parts that were written."""
    made = np.empty(size, from_name(entry.dtype).numpy)
    left = made.size
    for place, extent, file, name in entry.parts:
        low = [max(a, b) for a, b in zip(begin, place, strict=True)]
        high = [min(a + n, b + m) for a, n, b, m in zip(begin, size, place, extent, strict=True)]
        if any(a >= b for a, b in zip(low, high, strict=True)):
            continue
        if file not in opened:
            opened[file] = load_state(folder / file).arrays
        if name not in opened[file]:
            raise CheckpointError(
                str(folder / file), "it has the parts that are told of", part=name
            )
        source = tuple(slice(a - p, b - p) for a, b, p in zip(low, high, place, strict=True))
        target = tuple(slice(a - p, b - p) for a, b, p in zip(low, high, begin, strict=True))
        made[target] = opened[file][name][source]
        left -= int(np.prod([b - a for a, b in zip(low, high, strict=True)]))
    if left:
        raise CheckpointError(str(folder), "a tensor's parts make the whole", missing=left)
    return made


# Ranks.


def _folder(name: str, path: Any, given: _Folder | None) -> Path:
    if path is None and given is None:
        raise CheckpointError(name, "there is a folder", remedy="Pass checkpoint_id")
    return Path(path) if given is None else given.path


def _group(name: str, given: Group | None, *, alone: bool) -> Group | None:
    return None if alone or not is_initialized() else group_of(name, given)


def _told(name: str, group: Group | None, own: Any) -> list[Any]:
    return [own] if group is None else gathered_objects(name, group, own)


def _together(name: str, group: Group | None, job: Any) -> None:
    """Do it on all ranks; if one cannot, all are told."""
    problem: Exception | None = None
    try:
        job()
    except Exception as error:  # whatever it is: the others wait for this rank's word
        problem = error
    told = _told(
        name, group, None if problem is None else f"rank {get_rank() if group else 0}: {problem}"
    )
    if problem is not None:
        if isinstance(problem, OSError) and not isinstance(problem, CheckpointError):
            law = "the folder can be read" if name == "load" else "the folder can be written"
            raise CheckpointError(name, law, error=problem) from problem
        raise problem
    others = [text for text in told if text is not None]
    if others:
        raise CheckpointError(name, "all ranks can do it", told=others[0])


def _submodule(name: str, **members: Any) -> ModuleType:
    made = ModuleType(f"clnet.distributed.checkpoint.{name}", "Of checkpoints.")
    made.__dict__.update(members)
    return made


filesystem = _submodule(
    "filesystem", FileSystemReader=FileSystemReader, FileSystemWriter=FileSystemWriter
)
stateful = _submodule("stateful", Stateful=Stateful)
default_planner = _submodule(
    "default_planner", DefaultLoadPlanner=DefaultLoadPlanner, DefaultSavePlanner=DefaultSavePlanner
)
format_utils = _submodule(
    "format_utils", dcp_to_torch_save=dcp_to_torch_save, torch_save_to_dcp=torch_save_to_dcp
)
state_dict_saver = state_dict_loader = sys.modules[__name__]
