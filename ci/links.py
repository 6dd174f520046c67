"""Dead links of the built documentation: ``python ci/links.py docs/_build/html`` (``make links``).

A link within the site leads to a file that is there, and its anchor to an element of that file.
Nothing is asked of the network.
"""

from __future__ import annotations

import posixpath
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

_ELSEWHERE = ("http", "https", "mailto", "data", "javascript")


class Page(NamedTuple):
    """What a page leads to, and what can be led to in it."""

    links: list[tuple[int, str]]
    anchors: set[str]


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.page = Page([], set())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = dict(attrs)
        self.page.anchors.update(v for k in ("id", "name") if (v := named.get(k)))
        target = named.get("href") if tag in ("a", "link") else named.get("src")
        if target is not None:
            self.page.links.append((self.getpos()[0], target))


def read(path: Path) -> Page:
    """The links and anchors of a page.

    Args:
        path: of a file of HTML.
    """
    reader = _Reader()
    reader.feed(path.read_text(encoding="utf-8"))
    return reader.page


def dead_links(site: Path) -> tuple[int, int, list[str]]:
    """How many pages and links within a site there are, and the links that lead nowhere.

    Args:
        site: the folder of HTML.
    """
    files = {path.relative_to(site).as_posix() for path in site.rglob("*") if path.is_file()}
    pages = {name: read(site / name) for name in sorted(files) if name.endswith(".html")}
    count, dead = 0, []
    for name, page in pages.items():
        for line, link in page.links:
            parts = urlsplit(link)
            if parts.scheme in _ELSEWHERE or parts.netloc:
                continue
            count += 1
            target = name
            if parts.path:
                target = posixpath.normpath(f"{posixpath.dirname(name)}/{unquote(parts.path)}")
                target = target.lstrip("/")  # of a page at the top, whose folder has no name
            anchor = unquote(parts.fragment)
            if target not in files:
                dead.append(f"{name}:{line}: {link}: no such file")
            elif anchor and target in pages and anchor not in pages[target].anchors:
                dead.append(f"{name}:{line}: {link}: no such anchor")
    return len(pages), count, dead


def main(arguments: list[str]) -> Iterator[str]:
    """Lines to print; the last one counts."""
    (folder,) = arguments
    pages, count, dead = dead_links(Path(folder))
    yield from dead
    yield f"{pages} pages, {count} links within them, {len(dead)} dead"


if __name__ == "__main__":
    lines = list(main(sys.argv[1:]))
    print("\n".join(lines))
    sys.exit(len(lines) > 1)
