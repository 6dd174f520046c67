"""Two hosts on one machine: network namespaces that a virtual cable joins. Linux, as root.

``python -m tests.ranks.hosts [-n RANKS] PROGRAM [ARGS]`` runs a Python program by ``mpirun`` with
a hostfile, so many ranks on each host (1), and says how many bytes went through the cable. Ranks of
one host share memory; UCX is kept from finding out that the hosts do, too.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.ranks.launch import CHECKOUT, SECONDS, mpirun

_CABLE_SECONDS = 10
_LAUNCHER = """#!/usr/bin/env bash
while [[ $1 == -* ]]; do shift; done
host=$1; shift
case $host in {cases} esac
exec ip netns exec $name unshare --uts bash -c "hostname $name; $*"
"""


def missing() -> str:
    """Why no hosts can be made here; empty: they can, and one hears the other by the cable."""
    if sys.platform != "linux" or os.geteuid() != 0:
        return "network namespaces are made by root, on Linux"
    for program in ("ip", "unshare", "hostname", "bash"):
        if not shutil.which(program):
            return f"there is no {program}"
    mpirun()
    try:
        with joined() as hosts:
            for end, name in enumerate(hosts):
                said = _on(name, f"{sys.executable} -c {shlex.quote(_HELLO)} {end}")
                if said != name:
                    return f"a host is called {said}, not {name}"
    except TimeoutError as error:
        return f"the cable stays down: {error}"
    except subprocess.CalledProcessError as error:
        return f"{shlex.join(error.cmd)}: {error.stderr.strip()}"
    return ""


# The first listens in the background, the second tells it something.
_HELLO = """
import os, socket, sys
print(socket.gethostname(), flush=True)
if sys.argv[1] == "1":
    socket.create_connection(("10.77.0.1", 7777), 10).sendall(b"hello")
else:
    door = socket.create_server(("10.77.0.1", 7777))
    if os.fork():
        os._exit(0)
    os.close(1)
    os.close(2)
    door.settimeout(30)
    door.accept()[0].recv(5)
"""


def _on(name: str, command: str) -> str:
    """What a command prints on a host."""
    inside = f"hostname {name} && {command}"
    return _ip("netns", "exec", name, "unshare", "--uts", "bash", "-c", inside).strip()


@contextmanager
def joined() -> Iterator[dict[str, str]]:
    """Two hosts: addresses by name."""
    number = os.getpid()
    hosts = {f"clnet-{number}-{end}": f"10.77.0.{i}" for i, end in enumerate("ab", 1)}
    first, second = hosts
    made: list[str] = []
    try:
        for name in hosts:
            _ip("netns", "add", name)
            made.append(name)
        _ip("link", "add", "eth0", "netns", first, "type", "veth",
            "peer", "name", "eth0", "netns", second)  # fmt: skip
        for name, address in hosts.items():
            _ip("-n", name, "addr", "add", f"{address}/24", "dev", "eth0")
            for device in ("lo", "eth0"):
                _ip("-n", name, "link", "set", device, "up")
        for name in hosts:
            _await_cable(name)
        yield hosts
    finally:
        for name in made:
            _ip("netns", "del", name)


def _await_cable(name: str) -> None:
    """Wait until a host's end is up: what begins before takes the host for one without a network.

    Raises:
        TimeoutError: if it is not within some seconds.
    """
    end = time.monotonic() + _CABLE_SECONDS
    while " state UP " not in (told := _ip("-n", name, "link", "show", "dev", "eth0")):
        if time.monotonic() > end:
            raise TimeoutError(told)
        time.sleep(0.01)


def run(ranks: int, command: Sequence[str]) -> tuple[subprocess.CompletedProcess[str], int]:
    """Run a program of Python on two hosts.

    Args:
        ranks: on each host.
        command: the program and its arguments.

    Returns:
        What it did, and the bytes that the first host sent.
    """
    with tempfile.TemporaryDirectory() as folder, joined() as hosts:
        hostfile, launcher = Path(folder, "hosts"), Path(folder, "launcher")
        hostfile.write_text("".join(f"{address}:{ranks}\n" for address in hosts.values()))
        cases = " ".join(f"{address}) name={name};;" for name, address in hosts.items())
        launcher.write_text(_LAUNCHER.format(cases=cases))
        launcher.chmod(0o700)
        first = next(iter(hosts))
        words = [mpirun(), "-launcher", "ssh", "-launcher-exec", str(launcher)]
        words += ["-f", str(hostfile), "-n", str(2 * ranks), sys.executable, *command]
        here = {
            **os.environ,
            "PYTHONPATH": str(CHECKOUT),
            "UCX_TLS": "tcp,self",
            "UCX_NET_DEVICES": "eth0",
        }
        here |= {"CLNET_THREADS": "1", "CLNET_BUILD_PROCESSES": "0"}
        inside = f"hostname {first}; exec {shlex.join(words)}"
        done = subprocess.run(
            ["ip", "netns", "exec", first, "unshare", "--uts", "bash", "-c", inside],
            capture_output=True,
            text=True,
            timeout=SECONDS,
            env=here,
            check=False,
        )
        counter = "/sys/class/net/eth0/statistics/tx_bytes"
        sent = _ip("netns", "exec", first, "cat", counter)
        return done, int(sent)


def _ip(*words: str) -> str:
    return subprocess.run(["ip", *words], capture_output=True, text=True, check=True).stdout


def main() -> int:
    """Run what the command line names."""
    words = sys.argv[1:]
    ranks = 1
    if words[:1] == ["-n"]:
        ranks, words = int(words[1]), words[2:]
    done, sent = run(ranks, words)
    print(done.stdout, end="")
    print(done.stderr, end="", file=sys.stderr)
    print(f"the first host sent {sent:,} bytes")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
