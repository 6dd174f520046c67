"""The report with charts: what it holds, and that a real browser draws it."""

from __future__ import annotations

import re
import shutil
import subprocess

import numpy as np
import pytest

import clnet

pytestmark = pytest.mark.device
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """A report of a small convolution, forward and backward."""
    conv = clnet.nn.Conv2d(3, 4, 3)
    x = clnet.tensor(np.ones((2, 3, 8, 8), np.float32))
    conv(x).sum().backward()
    with clnet.profile() as p:
        conv(x).sum().backward()
    path = tmp_path_factory.mktemp("report") / "report.html"
    p.save_html(path, title="a </script> <!-- <script> in the title")
    return path


def test_report_needs_no_network(page):
    text = page.read_text()
    addresses = set(re.findall(r"https?://[^\s\"'<>]+", text))
    assert addresses == {"http://www.w3.org/2000/svg"}  # the name of a namespace; nothing is loaded
    assert not re.search(r"<(link|img|iframe)|\bsrc=|@import|fetch\(|XMLHttp", text)
    assert text.count("</script>") == text.count("<script") == 1
    assert "<!--" not in text


def drawn_by_a_browser(page, profile, *options):
    """The page's elements after its script ran, and what the browser said."""
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        pytest.skip("no Chromium here (apt-get install chromium)")
    given = ["--headless=new", "--no-sandbox", "--disable-gpu", f"--user-data-dir={profile}"]
    run = subprocess.run(
        [browser, *given, *options, "--virtual-time-budget=2000", "--dump-dom", page.as_uri()],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return run.stdout, run.stderr


def test_charts_are_as_wide_as_a_narrow_window(page, tmp_path):
    """A pixel is a pixel there, too: letters do not shrink with the window."""
    drawn, said = drawn_by_a_browser(page, tmp_path, "--window-size=600,900")
    assert 'data-drawn="yes"' in drawn, said
    widths = re.findall(r'<svg id="\w+" viewBox="0 0 (\d+) ', drawn)
    assert len(widths) == 4
    assert all(320 <= int(width) <= 600 for width in widths)


def test_browser_draws_the_charts(page, tmp_path):
    drawn, said = drawn_by_a_browser(page, tmp_path)
    assert 'data-drawn="yes"' in drawn, said  # the script ran to its end
    assert "a &lt;/script&gt; &lt;!-- &lt;script&gt; in the title" in drawn
    charts = dict(re.findall(r'<svg id="(\w+)"[^>]*>(.*?)</svg>', drawn, re.DOTALL))
    assert charts["modules"].count("<rect") >= 2
    assert "Conv2d" in charts["modules"]
    assert charts["kernels"].count("<rect") >= 2
    assert charts["roof"].count("<circle") >= 1
    assert "<path" in charts["memory"]
    assert drawn.count("<tr>") >= 8
