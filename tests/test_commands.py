"""Every command that the README and docs/ show is one that ``clnet`` takes, options included."""

from __future__ import annotations

import argparse
import re
import shlex
from pathlib import Path
from typing import NamedTuple

import pytest

from clnet.cli.bench import BENCHES
from clnet.cli.command import main
from tests.test_documents import without_blocks

CHECKOUT = Path(__file__).parents[1]
PAGES = [CHECKOUT / "README.md", *sorted((CHECKOUT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^ *```sh\n(.*?)^ *```$", re.DOTALL | re.MULTILINE)
CODE = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
# A word that stands for another: `clnet bench NAME`, `--lr ...`, `[DIR]`.
STARTS = re.compile(r" *([A-Z_]+=\S+ )*(mpirun .*?|then )?clnet \w")
UNFINISHED = re.compile("arguments are required|expected one argument")
STANDS_FOR = re.compile(r"\.\.\.|…|^[A-Z_]{2,}$|^[\[<]")


class Parsed(Exception):
    """The arguments were understood."""


class Command(NamedTuple):
    """A command of a page.

    Attributes:
        words: those behind ``clnet``.
        whole: whether it stands in a block, to be copied; in a sentence `clnet plan` is a name.
    """

    words: list[str]
    whole: bool


def commands(text: str) -> list[Command]:
    """The commands of a page, but for those with words that stand for others."""
    lines = [(line, False) for line in CODE.findall(without_blocks(text))]
    for block in BLOCK.findall(text):
        lines += [(line, True) for line in block.replace("\\\n", " ").splitlines()]
    found: list[Command] = []
    for line, whole in lines:
        for part in re.split(r"&&|\|\||;|\|", line.split(" #")[0]):
            words = shlex.split(part) if STARTS.match(part) else []
            if words and not any(STANDS_FOR.search(word) for word in words):
                found.append(Command(words[words.index("clnet") + 1 :], whole))
    return found


def complaint(command: Command, monkeypatch, capsys) -> str:
    """What ``clnet`` says of a command that it does not take; nothing is run."""
    parse = argparse.ArgumentParser.parse_args

    def and_no_more(parser, args=None, namespace=None):
        given = parse(parser, args, namespace)
        if command.words[0] != "bench" or parser.prog != "clnet":
            raise Parsed
        return given

    with monkeypatch.context() as patched:
        patched.setattr(argparse.ArgumentParser, "parse_args", and_no_more)
        try:
            code = main(command.words)
        except Parsed:
            return ""
        except SystemExit as left:
            code = left.code
    said = capsys.readouterr().err.splitlines()[-1:]
    if code == 0 or (not command.whole and said and UNFINISHED.search(said[0])):
        return ""
    return f"clnet {shlex.join(command.words)}: {said}"


@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if commands(page.read_text(encoding="utf-8"))],
    ids=lambda page: page.stem,
)
def test_commands_of_a_page_are_taken(page, monkeypatch, capsys):
    found = commands(page.read_text(encoding="utf-8"))
    bad = [said for each in found if (said := complaint(each, monkeypatch, capsys))]
    assert not bad, "\n".join(bad)


TEXT = """
`clnet devices --names`, `clnet bench NAME`, and a `clnet.tensor`.

```sh
pip install clnet
CLNET_THREADS=1 mpirun -n 2 clnet train digits \\
    --epochs 2    # a remark: clnet here
clnet bench ece408 && clnet train --lr ...
```
"""


def test_commands_are_found():
    assert commands(TEXT) == [
        (["devices", "--names"], False),
        (["train", "digits", "--epochs", "2"], True),
        (["bench", "ece408"], True),
    ]


@pytest.mark.parametrize(
    ("line", "taken"),
    [
        ("train digits --epochs 2", True),
        ("train digits --epoch-count 2", False),
        ("train letters", False),
        ("bench ece408 --download", True),
        ("bench ece408 --upload", False),
        ("bench none", False),
        ("plan", False),
        ("train digits --help", True),
    ],
)
def test_what_the_command_does_not_know_is_seen(line, taken, monkeypatch, capsys):
    assert (not complaint(Command(line.split(), True), monkeypatch, capsys)) == taken


def test_every_benchmark_parses_its_options_first(monkeypatch, capsys):
    """What the checks above stand on: none of them begins before its options are known."""
    for name in BENCHES:
        assert complaint(Command(["bench", name, "--no-such-option"], True), monkeypatch, capsys)
        assert not complaint(Command(["bench", name, "--help"], True), monkeypatch, capsys)
