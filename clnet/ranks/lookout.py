"""A process beside the ranks that says which of them has died: MPI's words name none.

Each rank keeps a connection to it, which the system closes when the rank ends, however it ends; one
that leaves says so before. The process runs this file alone, in a session of its own, since
``mpirun`` kills what is left of a job within milliseconds, and writes to rank 0's standard error.

``mpirun`` leaves children of a rank that has died, and waits for them, since they hold its output.
So they are killed, and a moment later what is left of the ranks: those of rank 0's host.
"""

from __future__ import annotations

import os
import platform
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

if __package__:  # the process beside the ranks needs nothing of clnet
    from ..values.process import in_child

__all__ = ["Lookout"]

LEFT, OVER = "left", "over"
_RANKS = "ranks "
_SECRET_BYTES = 16
_CONNECT_SECONDS = 1.0
# So long mpirun has to end the job: it takes milliseconds, or does not hear.
_END_SECONDS = 2.0
_INTERFACE_ADDRESS = 0x8915  # Linux's SIOCGIFADDR


class Lookout:
    """A rank's connection to the process that looks on.

    A rank that cannot reach it, behind a firewall between hosts, is not watched: MPI still ends the
    job when it dies, in its own words.
    """

    def __init__(self) -> None:
        self._line: socket.socket | None = None
        in_child(self._forget)

    def begin(self, comm: Any, node: str) -> None:
        """Have the ranks watched; all of them call it.

        Args:
            comm: MPI's, of all ranks.
            node: what this host is called.
        """
        if comm.size == 1 or not hasattr(os, "fork") or not sys.executable:
            return
        group = os.getpid() if os.getpgid(0) == os.getpid() else 0  # mpirun's ranks lead one each
        told = f"{comm.rank} {comm.size} {os.getpid()} {group} {node}"
        alone = len(set(comm.allgather(node))) == 1
        if comm.rank > 0:
            places, secret = comm.bcast(None)
            self._connect(places, secret, told)
            comm.allreduce(self._line is not None)
            return
        secret = os.urandom(_SECRET_BYTES).hex()
        with socket.create_server(("127.0.0.1" if alone else "", 0), backlog=comm.size) as door:
            port = door.getsockname()[1]
            self._connect([("127.0.0.1", port)], secret, told)
            # It forks, so that what is waited for here is its beginning.
            subprocess.run(
                [sys.executable, "-I", "-S", str(Path(__file__)), str(door.fileno())],
                input=secret.encode(),
                stdout=subprocess.DEVNULL,
                pass_fds=[door.fileno()],
                start_new_session=True,
                check=False,
            )
        hosts = ["127.0.0.1"] if alone else _addresses(node)
        comm.bcast(([(host, port) for host in hosts], secret))
        self._say(f"{_RANKS}{comm.allreduce(True)}")

    def leave(self, how: str) -> None:
        """Say that this rank ends as it should (:data:`LEFT`), or has told why (:data:`OVER`)."""
        self._say(how)
        self._forget()

    def _say(self, word: str) -> None:
        if self._line is not None:
            with suppress(OSError):
                self._line.sendall(f"{word}\n".encode())

    def _connect(self, places: list[tuple[str, int]], secret: str, told: str) -> None:
        for place in places:
            with suppress(OSError):
                self._line = socket.create_connection(place, _CONNECT_SECONDS)
                self._line.sendall(f"{secret} {told}\n".encode())
                return

    def _forget(self) -> None:
        line, self._line = self._line, None
        if line is not None:
            line.close()


def _addresses(node: str) -> list[str]:
    """Where other hosts may reach this one: its interfaces', where Linux tells them."""
    found = []
    if sys.platform == "linux":
        import fcntl  # noqa: PLC0415 - not on Windows

        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
            for _, name in socket.if_nameindex():
                with suppress(OSError):
                    request = name.encode().ljust(40, b"\0")
                    answer = fcntl.ioctl(asked, _INTERFACE_ADDRESS, request)
                    found.append(socket.inet_ntoa(answer[20:24]))
    with suppress(OSError):
        found += socket.gethostbyname_ex(node)[2]
    return [host for host in dict.fromkeys(found) if not host.startswith("127.")]


class _Rank:
    """Who is at the other end of a connection, and its group of processes (0: not its own)."""

    def __init__(self, rank: int, ranks: int, process: int, group: int, node: str) -> None:
        self.rank, self.ranks, self.process = rank, ranks, process
        self.group, self.node = group, node

    @property
    def here(self) -> bool:
        """Whether it is a process of this host."""
        return self.node == platform.node()

    def __str__(self) -> str:
        return f"rank {self.rank} of {self.ranks} on {self.node}, process {self.process}"


class _Line:
    """A connection: what has come from it, and who is at its other end; None: nobody has said."""

    def __init__(self, line: socket.socket) -> None:
        self.line, self.text = line, b""
        self.told: _Rank | None = None

    def words(self, secret: str) -> list[str]:
        """What the rank says, an empty word where its connection ends."""
        try:
            told = self.line.recv(4096)
        except OSError:
            told = b""
        *words, self.text = (self.text + told).split(b"\n")
        found = [word.decode(errors="replace") for word in words]
        if self.told is None and found and found[0].startswith(f"{secret} "):
            told_of = found.pop(0).removeprefix(f"{secret} ").split(" ", 4)
            rank, ranks, process, group = (int(number) for number in told_of[:4])
            self.told = _Rank(rank, ranks, process, group, told_of[4])
        return found if told else [*found, ""]


def watch(door: socket.socket, secret: str, say: Callable[[str], object]) -> list[int]:
    """Wait until all ranks have left, or one has died.

    Of several that have died by the time that it looks the first is named: the system keeps the
    order of what happens on one host, and from another ``mpirun`` takes a longer way.

    Args:
        door: where ranks connect; the first has already.
        secret: what they begin with.
        say: is given the line that names a rank which has died.

    Returns:
        What is to be killed on this host: the group of the one that has died, as a number below 0,
        and processes that are there a moment later.
    """
    left, expected = 0, -1
    with selectors.DefaultSelector() as events, ExitStack() as lines:
        events.register(door, selectors.EVENT_READ)
        while left != expected:
            for key, _ in events.select():
                if key.data is None:
                    line = lines.enter_context(door.accept()[0])
                    events.register(line, selectors.EVENT_READ, _Line(line))
                    continue
                end: _Line = key.data
                for word in end.words(secret):
                    if end.told is not None and word.startswith(_RANKS):
                        expected = int(word.removeprefix(_RANKS))
                        continue
                    if end.told is not None and word == OVER:
                        return []
                    if end.told is not None and word != LEFT:
                        say(f"clnet: {end.told}, has died without a word; the job ends\n")
                        events.unregister(end.line)
                        events.unregister(door)
                        children = [-end.told.group] if end.told.here and end.told.group else []
                        return children + _left(events, secret)
                    left += end.told is not None
                    events.unregister(end.line)
                    end.line.close()
                    break
    return []


def _left(events: selectors.BaseSelector, secret: str) -> list[int]:
    """Processes of this host whose connections do not end within a moment."""
    until = time.monotonic() + _END_SECONDS
    while events.get_map() and (rest := until - time.monotonic()) > 0:
        for key, _ in events.select(rest):
            if key.data.words(secret)[-1:] == [""]:
                events.unregister(key.fileobj)
    ends = [key.data.told for key in events.get_map().values()]
    return [rank.process for rank in ends if rank is not None and rank.here]


def _main() -> None:
    secret = sys.stdin.read()
    if os.fork():
        os._exit(0)
    door = socket.socket(fileno=int(sys.argv[1]))

    def say(line: str) -> None:
        with suppress(OSError):  # mpirun may have gone
            sys.stderr.write(line)
            sys.stderr.flush()

    for process in watch(door, secret, say):
        with suppress(OSError):
            os.kill(process, signal.SIGKILL)


if __name__ == "__main__":
    _main()
