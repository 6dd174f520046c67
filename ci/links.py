"""Dead links of the built documentation: ``python ci/links.py docs/_build/html`` (``make links``).

A link within the site leads to a file that is there, and its anchor to an element of that file.
Nothing is asked of the network.
"""

from __future__ import annotations

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


def dead_links(site: Path) -> tuple[int, list[str]]:
    """How many links within a site there are, and those that lead nowhere.

    Args:
        site: the folder of HTML.
    """
    pages = {path.resolve(): read(path) for path in sorted(site.rglob("*.html"))}
    count, dead = 0, []
    for path, page in pages.items():
        for line, link in page.links:
            parts = urlsplit(link)
            if parts.scheme in _ELSEWHERE or parts.netloc:
                continue
            count += 1
            problem = _problem(path, parts.path, unquote(parts.fragment), pages)
            if problem:
                dead.append(f"{path.relative_to(site.resolve())}:{line}: {link}: {problem}")
    return count, dead


def _problem(page: Path, link: str, anchor: str, pages: dict[Path, Page]) -> str:
    target = (page.parent / unquote(link)).resolve() if link else page
    if not target.is_file():
        return "no such file"
    if anchor and target in pages and anchor not in pages[target].anchors:
        return "no such anchor"
    return ""


def main(arguments: list[str]) -> Iterator[str]:
    """Lines to print; the last one counts."""
    (folder,) = arguments
    site = Path(folder)
    count, dead = dead_links(site)
    yield from dead
    yield f"{len(list(site.rglob('*.html')))} pages, {count} links within them, {len(dead)} dead"


if __name__ == "__main__":
    lines = list(main(sys.argv[1:]))
    print("\n".join(lines))
    sys.exit(len(lines) > 1)
