"""From one rank to another: tensors sent and received, and Python objects exchanged as pickles."""

# ruff: noqa: D417 - what functions share stands once

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..array import Visit
from ..errors import ArgumentError, DistributedError
from ..tensor import Tensor
from .hosted import checked_tensor
from .membership import group_of, mpi_name, root_of
from .post import Asked, Message
from .work import Work
from .world import NUMBERS, Group

__all__ = [
    "P2POp",
    "all_gather_object",
    "batch_isend_irecv",
    "broadcast_object_list",
    "gather_object",
    "irecv",
    "isend",
    "recv",
    "recv_object_list",
    "scatter_object_list",
    "send",
    "send_object_list",
]

# What comes has a number, by which the receiver asks for it: so it needs to know no order.
_LABEL = np.dtype([("dtype", "S12"), ("size", "i8"), ("nbytes", "i8"), ("number", "i8")])

_OBJECTS = "objects"


class _Looked(NamedTuple):
    """As a request of MPI's: whether the elements of a tensor are there."""

    visit: Visit

    def Test(self, status: Any = None) -> bool:  # noqa: N802 - MPI's
        """Whether they are."""
        del status
        return self.visit.there()


def _raw(elements: Visit | np.ndarray) -> Message:
    """The bytes of elements on the host, once no command needs them."""
    if isinstance(elements, Visit):
        yield Asked(_Looked(elements), received=False)
        return elements.wait().view(np.uint8)
    return elements


def isend(
    tensor: Tensor,
    dst: int | None = None,
    group: Group | None = None,
    tag: int = 0,
    group_dst: int | None = None,
) -> Work | None:
    """Begin to send a tensor to a rank, which calls :func:`recv`; it is not changed until then.

    Args:
        tensor: dense.
        dst: the rank in the world; ``group_dst`` is the rank in the group.
        group: None: all.
        tag: a number that the receiver asks for, below 16,384.

    Returns:
        A handle; None outside the group.

    Raises:
        ArgumentError: if the tag is another.
    """
    members = group_of("send", group)
    x = checked_tensor("send", tensor)
    _check_tag("send", tag)
    if members is None:
        return None
    place = _other("send", members, dst, group_dst)
    told = x.dtype.name, x.numel(), x.array.nbytes
    # The way to the host begins here: what is enqueued from now on comes behind it.
    elements = x.array.visit(read=True, write=False)
    return members.post.begin("send", _sending(members, place, tag, told, elements))


def _sending(
    members: Group, place: int, tag: int, told: tuple[str, int, int], elements: Visit | np.ndarray
) -> Message:
    """Send what lies in memory, and before what it is: a kind, elements, bytes."""
    kind, size, nbytes = told
    number = members.numbered()

    def message() -> Message:
        label = np.array([(kind.encode(), size, nbytes, number)], _LABEL).view(np.uint8)
        announced = members.direct.Isend(label, place, 2 * tag)
        if nbytes:
            raw = yield from _raw(elements)
            sent = members.direct.Isend(raw, place, 2 * number + 1)
            yield Asked(sent, received=False, peers=(place,))
        if isinstance(elements, Visit):
            elements.end()
        yield Asked(announced, received=False, peers=(place,))

    return message()


def irecv(
    tensor: Tensor,
    src: int | None = None,
    group: Group | None = None,
    tag: int = 0,
    group_src: int | None = None,
) -> Work | None:
    """Begin to receive a tensor from a rank, which calls :func:`send`.

    Args:
        tensor: overwritten; of the size and dtype of what is sent.
        src: the rank in the world, ``group_src`` that in the group; None: whoever sends first.
        group, tag: as for :func:`isend`.

    Returns:
        A handle, whose ``result()`` is the sender's rank; None outside the group.
    """
    members = group_of("recv", group)
    x = checked_tensor("recv", tensor)
    _check_tag("recv", tag)
    if members is None:
        return None
    place = _sender("recv", members, src, group_src)
    told = x.dtype.name, x.numel()
    visit = x.array.visit(read=False, write=True)

    def message() -> Message:
        came = False
        try:
            sender = yield from _receiving("recv", members, place, tag, told, lambda _: visit)
            came = True
        finally:
            visit.end(written=came)
        return sender

    return members.post.begin("recv", message())


def _sender(name: str, members: Group, rank: int | None, place: int | None) -> int | None:
    """Whose message is awaited, by its place in the group; None: anybody's."""
    anyone = rank is None and place is None
    return None if anyone else _other(name, members, rank, place)


def _receiving(
    name: str,
    members: Group,
    place: int | None,
    tag: int,
    expected: tuple[str, int],
    memory: Callable[[int], Visit | np.ndarray],
) -> Message:
    """Receive so many elements of a kind into memory of so many bytes; gives the sender's rank."""
    others = tuple(i for i in range(members.size()) if i != members.rank())
    peers = others if place is None else (place,)
    label, status = np.empty(1, _LABEL), mpi_name("Status")()
    source = mpi_name("ANY_SOURCE") if place is None else place
    request = members.direct.Irecv(label.view(np.uint8), source, 2 * tag)
    yield Asked(request, received=True, peers=peers, status=status)
    sender, number = status.source, int(label["number"][0])
    sent = (label["dtype"][0].decode(), int(label["size"][0]))
    nbytes = int(label["nbytes"][0])
    fits = sent == expected
    # What does not fit is taken all the same: the sender waits, and its number comes again one day.
    if nbytes:
        raw = yield from _raw(memory(nbytes) if fits else np.empty(nbytes, np.uint8))
        coming = members.direct.Irecv(raw, sender, 2 * number + 1)
        yield Asked(coming, received=True, peers=(sender,))
    if not fits:
        raise DistributedError(
            name,
            f"the {'list' if _OBJECTS in (sent[0], expected[0]) else 'tensor'} has the dtype and "
            "size of what is sent",
            sent=sent,
            tensor=expected,
            sender=members.ranks[sender],
        )
    return members.ranks[sender]


def _check_tag(name: str, tag: object) -> None:
    if not isinstance(tag, int) or not 0 <= tag < NUMBERS:
        raise ArgumentError(name, f"tag is a whole number from 0 to {NUMBERS - 1:,}", tag=tag)


def _other(name: str, members: Group, rank: int | None, place: int | None) -> int:
    found = root_of(name, members, rank, place)
    if found == members.rank():
        raise DistributedError(name, "a rank sends to another, not to itself", rank=rank)
    return found


def send(
    tensor: Tensor,
    dst: int | None = None,
    group: Group | None = None,
    tag: int = 0,
    group_dst: int | None = None,
) -> None:
    """Send a tensor to a rank; arguments as :func:`isend`'s."""
    work = isend(tensor, dst, group, tag, group_dst)
    if work is not None:
        work.wait()


def recv(
    tensor: Tensor,
    src: int | None = None,
    group: Group | None = None,
    tag: int = 0,
    group_src: int | None = None,
) -> int:
    """Receive a tensor from a rank; arguments as :func:`irecv`'s.

    Returns:
        The sender's rank in the world; -1 outside the group.

    Raises:
        DistributedError: if what is sent does not fit.
    """
    work = irecv(tensor, src, group, tag, group_src)
    return -1 if work is None else work.result()


class P2POp:
    """A call of :func:`isend` or :func:`irecv`, for :func:`batch_isend_irecv`.

    Args:
        op: one of the two.
        tensor, peer, group, tag: its arguments.
        group_peer: the rank in the group, instead of ``peer``.
    """

    def __init__(
        self,
        op: Callable[..., Any],
        tensor: Tensor,
        peer: int | None = None,
        group: Group | None = None,
        tag: int = 0,
        group_peer: int | None = None,
    ) -> None:
        if op not in (isend, irecv):
            raise ArgumentError("P2POp", "op is isend or irecv", given=op)
        self.op, self.tensor, self.peer, self.group = op, tensor, peer, group
        self.tag, self.group_peer = tag, group_peer


def batch_isend_irecv(p2p_op_list: list[P2POp]) -> list[Work]:
    """Begin them all.

    Raises:
        ArgumentError: if there is none, or one is something else.
        DistributedError: as for :func:`isend` and :func:`irecv`.
    """
    if not p2p_op_list or any(not isinstance(p, P2POp) for p in p2p_op_list):
        raise ArgumentError("batch_isend_irecv", "it takes a list of P2POp")
    begun = [p.op(p.tensor, p.peer, p.group, p.tag, p.group_peer) for p in p2p_op_list]
    return [work for work in begun if work is not None]


def send_object_list(
    object_list: list[Any],
    dst: int | None = None,
    group: Group | None = None,
    device: Any = None,
    group_dst: int | None = None,
    use_batch: bool = False,  # noqa: FBT001, FBT002 - PyTorch's
) -> None:
    """Send a list of objects to a rank, which calls :func:`recv_object_list`, by a pickle.

    Args:
        object_list: what is sent.
        dst: the rank in the world; ``group_dst`` is the rank in the group.
        group: None: all.
        device, use_batch: taken.
    """
    del device, use_batch
    name = "send_object_list"
    members = group_of(name, group)
    if members is None:
        return
    place = _other(name, members, dst, group_dst)
    raw = np.frombuffer(pickle.dumps(object_list), np.uint8)
    told = _OBJECTS, len(object_list), raw.size
    message = _sending(members, place, 0, told, raw)
    members.post.begin(name, message).wait()


def recv_object_list(
    object_list: list[Any],
    src: int | None = None,
    group: Group | None = None,
    device: Any = None,
    group_src: int | None = None,
    use_batch: bool = False,  # noqa: FBT001, FBT002 - PyTorch's
) -> int:
    """Overwrite a list with one of as many objects that a rank sends; only trusted ranks do.

    Args:
        object_list: overwritten.
        src: the rank in the world, ``group_src`` that in the group; None: whoever sends first.
        group: None: all.
        device, use_batch: taken.

    Returns:
        The sender's rank in the world; -1 outside the group.

    Raises:
        DistributedError: if what is sent is no list of that length.
    """
    del device, use_batch
    name = "recv_object_list"
    members = group_of(name, group)
    if members is None:
        return -1
    place = _sender(name, members, src, group_src)
    raw: list[np.ndarray] = []

    def memory(nbytes: int) -> np.ndarray:
        raw.append(np.empty(nbytes, np.uint8))
        return raw[0]

    expected = _OBJECTS, len(object_list)
    coming = _receiving(name, members, place, 0, expected, memory)
    sender = members.post.begin(name, coming).result()
    object_list[:] = pickle.loads(raw[0].tobytes())
    return sender


def all_gather_object(object_list: list[Any], obj: Any, group: Group | None = None) -> None:
    """Collect an object of each rank, on every rank, by pickles.

    Args:
        object_list: a place for each rank, overwritten.
        obj: what this rank gives; only trusted ranks send pickles.
        group: None: all.
    """
    members = group_of("all_gather_object", group)
    if members is None:
        return
    _checked_places("all_gather_object", members, object_list)
    object_list[:] = gathered_objects("all_gather_object", members, obj)


def gathered_objects(name: str, members: Group, obj: Any) -> list[Any]:
    """An object of each rank, on every rank, by pickles.

    Args:
        name: of who asks, which is the same on all ranks.
        members: who takes part.
        obj: what this rank gives.
    """
    mine = pickle.dumps(obj)
    found = members.meet(lambda: _after(name, members, lambda: members.comm.allgather(mine)))
    return [*map(pickle.loads, found)]


# Objects become bytes before ranks agree: of what has no pickle no other rank waits for.


def _after(name: str, members: Group, job: Callable[[], Any], root: int = -1) -> Any:
    members.agree(name, root=root)
    return job()


def _checked_places(name: str, members: Group, places: Any) -> list[Any]:
    """A list with a place for each rank.

    Raises:
        DistributedError: if it is none.
    """
    if not isinstance(places, list) or len(places) != members.size():
        given = len(places) if isinstance(places, list) else type(places).__name__
        raise DistributedError(
            name, "the list has a place for each rank", ranks=members.size(), given=given
        )
    return places


def gather_object(
    obj: Any,
    object_gather_list: list[Any] | None = None,
    dst: int | None = None,
    group: Group | None = None,
    group_dst: int | None = None,
) -> None:
    """As :func:`all_gather_object`, on the rank ``dst`` alone, which alone gives a list."""
    name = "gather_object"
    members = group_of(name, group)
    if members is None:
        return
    root = root_of(name, members, dst, group_dst, first=True)
    if members.rank() == root:
        _checked_places(name, members, object_gather_list)
    mine = pickle.dumps(obj)
    found = members.meet(
        lambda: _after(name, members, lambda: members.comm.gather(mine, root), root)
    )
    if object_gather_list is not None and found is not None:
        object_gather_list[:] = map(pickle.loads, found)


def broadcast_object_list(
    object_list: list[Any],
    src: int | None = None,
    group: Group | None = None,
    device: Any = None,
    group_src: int | None = None,
) -> None:
    """Overwrite every rank's list with that of rank ``src``, of the same length, by pickles."""
    del device
    name = "broadcast_object_list"
    members = group_of(name, group)
    if members is None:
        return
    root = root_of(name, members, src, group_src, first=True)
    given = pickle.dumps(object_list) if members.rank() == root else None

    def job() -> Any:
        members.agree(name, root=root, size=len(object_list))
        return members.comm.bcast(given, root)

    object_list[:] = pickle.loads(members.meet(job))


def scatter_object_list(
    scatter_object_output_list: list[Any],
    scatter_object_input_list: list[Any] | None = None,
    src: int | None = None,
    group: Group | None = None,
    group_src: int | None = None,
) -> None:
    """The first place of each rank's list becomes its place of a list that rank ``src`` has.

    Args:
        scatter_object_output_list: of one place or more; its first is overwritten.
        scatter_object_input_list: an object for each rank, on the rank ``src`` alone.
        src: the rank in the world; None: 0. ``group_src`` is the rank in the group.
        group: who takes part; None: all.

    Raises:
        ArgumentError: if the output list has no place.
        DistributedError: if the other has not one for each rank.
    """
    name = "scatter_object_list"
    members = group_of(name, group)
    if members is None:
        return
    root = root_of(name, members, src, group_src, first=True)
    rows = None
    if members.rank() == root:
        given = _checked_places(name, members, scatter_object_input_list)
        rows = [*map(pickle.dumps, given)]
    if not scatter_object_output_list:
        raise ArgumentError(name, "the output list has a place")
    found = members.meet(
        lambda: _after(name, members, lambda: members.comm.scatter(rows, root), root)
    )
    scatter_object_output_list[0] = pickle.loads(found)
