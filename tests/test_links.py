"""The check of the documentation's links finds files and anchors that are not there."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

CHECKER = Path(__file__).parents[1] / "ci" / "links.py"


@pytest.fixture
def site(tmp_path):
    (tmp_path / "guide").mkdir()
    (tmp_path / "guide" / "tour.html").write_text('<h1 id="begin">Tour</h1><a href="#begin">x</a>')
    return tmp_path


def checked(site, page):
    (site / "index.html").write_text(page)
    run = subprocess.run(
        [sys.executable, str(CHECKER), str(site)], capture_output=True, text=True, check=False
    )
    return run.returncode, run.stdout.splitlines()


def test_whole_links_are_counted(site):
    page = '<a href="guide/tour.html#begin">a</a><a href="https://example.org/none">b</a>'
    assert checked(site, page) == (0, ["2 pages, 2 links within them, 0 dead"])


@pytest.mark.parametrize(
    ("link", "problem"),
    [
        ('<a href="guide/none.html">', "guide/none.html: no such file"),
        ('<a href="guide/tour.html#end">', "guide/tour.html#end: no such anchor"),
        ('<a href="#nowhere">', "#nowhere: no such anchor"),
        ('<img src="none.png">', "none.png: no such file"),
        ('<a href="../CONTRIBUTING.md">', "../CONTRIBUTING.md: no such file"),
    ],
)
def test_dead_links_are_named_with_page_and_line(site, link, problem):
    code, (dead, count) = checked(site, f"<p>\n{link}")
    assert code == 1
    assert dead == f"index.html:2: {problem}"
    assert count.endswith("1 dead")


def test_what_leads_out_of_the_site_is_dead_from_every_depth(site):
    (site / "guide" / "deep.html").write_text('<a href="../../index.html">')
    code, (dead, _) = checked(site, "")
    assert code == 1
    assert dead == "guide/deep.html:1: ../../index.html: no such file"
