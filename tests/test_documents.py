"""What pages say is so: paths, names and links exist, no line is too long, nothing goes stale."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path

import pytest

from clnet.compile.passes import PASSES

CHECKOUT = Path(__file__).parents[1]
PAGES = [*sorted(CHECKOUT.glob("*.md")), *sorted((CHECKOUT / "docs").rglob("*.md"))]
MAX_WIDTH = 120
# Where a page's paths begin, beside its own folder.
FOLDERS = ("", "clnet", "clnet/ops", "clnet/kernels", "examples")
SOURCES = {".py", ".mako", ".toml", ".sh", ".yml", ".jsonl", ""}
CODE = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
PATH = re.compile(r"(?:[\w.-]+/)+(?:[\w-]+\.\w+)?|[\w-]+\.(?:py|mako|md|sh)")
PICTURE = re.compile(r"^ *```text\n(.*?)^ *```$", re.DOTALL | re.MULTILINE)
NAME = re.compile(r"(?!cl_)_?[a-z][a-z0-9]*(_[a-z0-9]+)+|(CLNET|_?POCL)_\w+")
LINK = re.compile(r"\]\(([^)\s]+)\)")
HASH = re.compile(r"\b(?=[0-9a-f]*[a-f])(?=[0-9a-f]*\d)[0-9a-f]{7,40}\b")


def without_blocks(text: str) -> str:
    """A page's text with its fenced blocks emptied: line numbers stay."""
    return re.sub(
        r"^ *```.*?^ *```$", lambda m: "\n" * m[0].count("\n"), text, flags=re.DOTALL | re.MULTILINE
    )


@lru_cache(maxsize=1)
def known_names() -> frozenset[str]:
    """All words of the sources."""
    found: set[str] = set()
    for folder in ("clnet", "tests", "ci", "examples"):
        for path in (CHECKOUT / folder).rglob("*"):
            if path.suffix in SOURCES and path.is_file() and path.name != Path(__file__).name:
                found |= set(re.findall(r"\w+", path.read_text(encoding="utf-8", errors="ignore")))
    return frozenset(found)


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    titles = re.findall(
        r"^#+ (.+)$", without_blocks(page.read_text(encoding="utf-8")), re.MULTILINE
    )
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def check_width(page: Path) -> list[str]:
    lines = page.read_text(encoding="utf-8").splitlines()
    return [
        f"{page.parent.name}/{page.name}:{number}: {len(line)} columns, at most {MAX_WIDTH}"
        for number, line in enumerate(lines, 1)
        if len(line) > MAX_WIDTH
    ]


# What `make` leaves in a checkout.
MADE = {".clnet/", ".venv", ".venv/"}


def check_paths(page: Path) -> list[str]:
    """Every path in code or in a picture, ``device/queue.py`` or ``kernels/``, is there."""
    places = [page.parent, *(CHECKOUT / folder for folder in FOLDERS)]
    text = page.read_text(encoding="utf-8")
    drawn = [word.strip(",:") for picture in PICTURE.findall(text) for word in picture.split()]
    return [
        f"{page.name}: there is no {code}"
        for code in (*CODE.findall(without_blocks(text)), *drawn)
        if PATH.fullmatch(code)
        and code not in MADE
        and not any((place / code).exists() for place in places)
    ]


def check_names(page: Path) -> list[str]:
    """Every name in code, such as ``gemm_packed``, is one of the sources."""
    if page.name == "differences.md":
        return []  # it names what is not there
    text = without_blocks(page.read_text(encoding="utf-8"))
    return [
        f"{page.name}: nothing is called {code}"
        for code in CODE.findall(text)
        if NAME.fullmatch(code) and code not in known_names()
    ]


def check_links(page: Path) -> list[str]:
    """Every link within the checkout leads somewhere, to a heading where it names one."""
    bad: list[str] = []
    for link in LINK.findall(without_blocks(page.read_text(encoding="utf-8"))):
        if "://" in link:
            continue
        name, _, anchor = link.partition("#")
        target = page.parent / name if name else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            bad.append(f"{page.name}: the link {link} leads nowhere")
    return bad


def check_hashes(page: Path) -> list[str]:
    """No page names a commit, which says nothing to a reader and is of yesterday."""
    found = HASH.findall(page.read_text(encoding="utf-8"))
    return [f"{page.name}: {code} looks like a commit" for code in found]


CHECKS = [check_width, check_paths, check_names, check_links, check_hashes]


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__.removeprefix("check_"))
def test_pages(check):
    assert not (bad := [text for page in PAGES for text in check(page)]), "\n".join(bad)


def test_the_table_of_passes_is_theirs():
    page = (CHECKOUT / "docs" / "architecture.md").read_text(encoding="utf-8")
    table = page.split("| pass |")[1].split("\n\n")[0]
    assert re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE) == [p.__name__ for p in PASSES]


@pytest.mark.parametrize(
    ("check", "text", "complaint"),
    [
        (check_width, "short\n" + "x" * 121, ":2: 121 columns"),
        (check_paths, "see `device/lost.py`", "there is no device/lost.py"),
        (check_paths, "in `attic/`", "there is no attic/"),
        (check_paths, "```text\ncli/ -> cellar/\n```", "there is no cellar/"),
        (check_names, "by `gemm_of_yesterday`", "nothing is called gemm_of_yesterday"),
        (check_links, "[a](lost.md)", "the link lost.md"),
        (check_links, "# One thing\n[a](#another)", "the link #another"),
        (check_hashes, "all tests of 5c4feee pass", "5c4feee"),
    ],
)
def test_planted_mistake_is_reported(check, text, complaint, tmp_path):
    page = tmp_path / "page.md"
    page.write_text(text, encoding="utf-8")
    (bad,) = check(page)
    assert complaint in bad


@pytest.mark.parametrize(
    ("check", "text"),
    [
        (check_width, "x" * 120),
        (check_paths, "`device/queue.py`, `kernels/gemm/`, `a / b`\n```sh\nlost/a.py\n```"),
        (check_names, "`gemm_packed`, `CLNET_TUNE`, `relu_` and `cl_khr_fp16`"),
        (check_links, "# A `b` c\n[a](#a-b-c) [b](https://example.org/x.md)"),
        (check_hashes, "in 1024x10x1024 of 20261122"),
    ],
)
def test_what_is_true_passes(check, text, tmp_path):
    page = tmp_path / "page.md"
    page.write_text(text, encoding="utf-8")
    assert check(page) == []
