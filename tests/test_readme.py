"""Every Python block of the README and of docs/ runs."""

from __future__ import annotations

import traceback
from pathlib import Path

import pytest

from tests.documents import python_blocks, run_page

CHECKOUT = Path(__file__).parents[1]
PAGES = [CHECKOUT / "README.md", *sorted((CHECKOUT / "docs").rglob("*.md"))]


@pytest.mark.device
@pytest.mark.parametrize(
    "page", [page for page in PAGES if python_blocks(page)], ids=lambda page: page.stem
)
def test_page_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run_page(page)


PAGE = """\
# A page

```python
x = 20
```

```sh
exit 1
```

```python
y = x + 1
z = 1 / (y - 21)
```
"""


def test_failing_block_is_reported_with_its_line(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(PAGE, encoding="utf-8")
    with pytest.raises(ZeroDivisionError) as info:
        run_page(page)
    last = traceback.extract_tb(info.tb)[-1]
    assert (last.filename, last.lineno) == (str(page), 13)


def test_blocks_of_a_page_share_their_names(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(PAGE.replace("21", "20"), encoding="utf-8")
    assert run_page(page)["z"] == 1
