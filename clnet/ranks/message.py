"""From one rank to another: tensors sent and received, and Python objects exchanged as pickles."""

# ruff: noqa: D417 - what functions share stands once

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..array import Array
from ..errors import ArgumentError, DistributedError
from ..tensor import Tensor
from .elements import Elements, elements_of, until
from .hosted import checked_tensor
from .membership import group_of, mpi_name, root_of
from .post import Asked, Message
from .stream import PLACE, Stream, Transfer
from .traced import Exchange, is_traced, record_steps
from .work import Work
from .world import ANSWER_TAG, NUMBERS, Group

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
# Memory that both share is told of until the receiver has answered whether it sees it.
_LABEL = np.dtype(
    [
        ("dtype", "S12"),
        ("size", "i8"),
        ("nbytes", "i8"),
        ("number", "i8"),
        ("way", "i1"),
        ("memory", PLACE),
    ]
)
_BY_MPI, _BY_MEMORY, _ASKS = 0, 1, 2

_OBJECTS = "objects"


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
    x = checked_tensor("send", tensor, traced=True)
    _check_tag("send", tag)
    if members is None:
        return None
    place = _other("send", members, dst, group_dst)
    if is_traced():
        return _recorded(
            "send",
            members,
            x,
            lambda y: _sending(members, place, tag, _told(x), y),
            receives=False,
        )
    # The way to the host begins here: what is enqueued from now on comes behind it.
    elements = elements_of(x.array, members.streams, members.queues, sends=True)
    message = _ended(_sending(members, place, tag, _told(x), elements), elements, written=False)
    return members.post.begin("send", message)


def _told(x: Tensor) -> tuple[str, int, int]:
    """What a receiver is told of a tensor: its kind, elements, bytes."""
    return x.dtype.name, x.numel(), x.array.nbytes


def _ended(message: Message, elements: Elements, *, written: bool) -> Message:
    """A message that gives its elements back, as soon as nobody who waits for it has their lock."""
    found, wrong, lock = None, None, elements.array.device.lock
    try:
        found = yield from message
    except Exception as error:  # raised when they are given back
        wrong = error
    yield until(lambda: lock.acquire(blocking=False))  # a replay may hold it, and wait for another
    try:
        elements.end(written=written and wrong is None)
    finally:
        lock.release()
    if wrong is not None:
        raise wrong
    return found


def _recorded(
    name: str, members: Group, x: Tensor, message: Callable[[Elements], Message], *, receives: bool
) -> Work:
    """The handle of a message that a plan sends or receives at every replay."""

    def start(arrays: Sequence[Array]) -> tuple[Sequence[Any], Work]:
        given = elements_of(arrays[0], members.streams, members.queues, sends=not receives)
        return [_Ends(given, receives)], members.post.begin(name, message(given))

    return record_steps(name, Exchange(start, None), [x], [receives], alike=False)


class _Ends(NamedTuple):
    """Elements as an exchange of a plan ends them: its replay has the device's lock."""

    elements: Elements
    written: bool

    def end(self) -> None:
        self.elements.end(written=self.written)


def _sending(
    members: Group, place: int, tag: int, told: tuple[str, int, int], given: Elements | np.ndarray
) -> Message:
    """Send elements, or bytes of the host, and before what they are: a kind, elements, bytes."""
    kind, size, nbytes = told
    number, streams = members.numbered(), members.streams
    stream = None
    # MPI's one copy between hosts is faster than two by Python (docs/notes/processes.md).
    if isinstance(given, Elements) and given.by_device and streams.serves(nbytes):
        stream = streams.outgoing(place, given.array.device)

    def message() -> Message:
        way = _BY_MPI if stream is None else _BY_MEMORY if place in streams.seen else _ASKS
        memory = streams.told(place)
        label = np.array([(kind.encode(), size, nbytes, number, way, memory)], _LABEL)
        announced = members.direct.Isend(label.view(np.uint8), place, 2 * tag)
        seen = way == _BY_MEMORY
        if way == _ASKS:
            answer = np.zeros(1, np.uint8)
            coming = members.comm.Irecv(answer, place, ANSWER_TAG + number)
            yield Asked(coming, received=True, peers=(place,))
            seen = bool(answer[0])
            streams.answered(place, seen=seen)
        if seen and isinstance(given, Elements) and stream is not None:
            yield from _through(stream, given, number, place, sends=True)
        elif nbytes:
            if isinstance(given, Elements):
                yield from given.ready()
            raw = given.raw() if isinstance(given, Elements) else given
            sent = members.direct.Isend(raw, place, 2 * number + 1)
            yield Asked(sent, received=False, peers=(place,))
        yield Asked(announced, received=False, peers=(place,))

    return message()


def _through(
    stream: Stream, elements: Elements | None, number: int, place: int, *, sends: bool
) -> Message:
    """Send or receive elements through memory, one message after another.

    Args:
        stream: the memory.
        elements: None: what is sent is not wanted.
        number: the sender's, of the message.
        place: of the other rank.
        sends: whether they are sent.
    """
    if sends:
        yield until(lambda: stream.wants(number) is not None, (place,))
    else:
        stream.waiting.append(number)
        yield until(lambda: stream.waiting[0] == number)
        stream.tell(number, wanted=elements is not None)
    if elements is not None and (not sends or stream.wants(number)):
        yield from elements.ready()
        if elements.by_device:
            stream.pin(elements.array.device)
        transfer = Transfer(stream, elements, sends=sends)
        while not transfer.done:
            yield Asked(transfer, received=False, peers=(place,))
    if sends:
        stream.end()
    else:
        yield until(stream.ended, (place,))
        stream.waiting.popleft()


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
    x = checked_tensor("recv", tensor, traced=True)
    _check_tag("recv", tag)
    if members is None:
        return None
    place = _sender("recv", members, src, group_src)
    told = x.dtype.name, x.numel()
    if is_traced():
        return _recorded(
            "recv",
            members,
            x,
            lambda y: _receiving("recv", members, place, tag, told, y),
            receives=True,
        )
    elements = elements_of(x.array, members.streams, members.queues, sends=False)
    coming = _receiving("recv", members, place, tag, told, elements)
    return members.post.begin("recv", _ended(coming, elements, written=True))


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
    into: Elements | Callable[[int], np.ndarray],
) -> Message:
    """Receive so many elements of a kind, or so many bytes; gives the sender's rank."""
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
    stream, way = None, int(label["way"][0])
    if way != _BY_MPI:
        stream = members.streams.incoming(sender, label["memory"][0])
    if way == _ASKS:
        answer = np.full(1, stream is not None, np.uint8)
        told = members.comm.Isend(answer, sender, ANSWER_TAG + number)
        yield Asked(told, received=False, peers=(sender,))
    elements = into if isinstance(into, Elements) and fits else None
    if stream is not None:
        yield from _through(stream, elements, number, sender, sends=False)
    elif nbytes:
        if elements is not None:
            yield from elements.ready()
            raw = elements.raw()
        else:
            raw = into(nbytes) if fits and callable(into) else np.empty(nbytes, np.uint8)
        coming = members.direct.Irecv(raw, sender, 2 * number + 1)
        yield Asked(coming, received=True, peers=(sender,))
        if elements is not None:
            yield from elements.came()
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
        The sender's rank in the world; -1 outside the group, and of anybody in a function that is
        compiled.

    Raises:
        DistributedError: if what is sent does not fit.
    """
    work = irecv(tensor, src, group, tag, group_src)
    if work is None:
        return -1
    if not is_traced():
        return work.result()
    work.wait()
    members = group_of("recv", group)
    place = None if members is None else _sender("recv", members, src, group_src)
    return -1 if members is None or place is None else members.ranks[place]


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
