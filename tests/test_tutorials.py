"""Tutorials run as scripts, with few steps, and their notebooks are of their present text."""

from __future__ import annotations

import ast
import base64
import gzip
import json
import re
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clnet.data import source
from tests.pictures import write_cifar10

FOLDER = Path(__file__).parents[1] / "docs" / "tutorials"
TUTORIALS = sorted(FOLDER.glob("*.py"))
MAX_PICTURE = 100_000  # bytes

# What a tutorial's constants are here instead: so little that it runs in seconds.
QUICK: dict[str, dict[str, Any]] = {
    "actor_critic": {"ROUNDS": 1, "LENGTH": 8, "EPOCHS": 1, "EPISODES": 1},
    "cifar10": {"IMAGES": 16, "TEST_IMAGES": 8, "EPOCHS": 1, "BATCH": 8},
    "dcgan": {"EPOCHS": 1},
    "diffusion": {"STEPS": 2, "TIMES": 10, "DRAWN": 2, "BATCH": 4},
    "digits": {"EPOCHS": 1},
    "finetune": {"EPOCHS": 1},
    "gpt": {"STEPS": 2, "WRITTEN": 3},
    "own_kernel": {"REPEATS": 2},
    "regression": {"STEPS": 8},
    "search": {"TRIALS": 2, "EPOCHS": 1},
    "segmentation": {"STEPS": 2},
    "sentiment": {"STEPS": 2},
    "translation": {"STEPS": 2},
    "vae": {"EPOCHS": 1},
}
NEEDS = {"actor_critic": "gymnasium", "search": "optuna"}  # beside what all tests have


def shortened(source: str, constants: dict[str, Any]) -> ast.Module:
    """A script in which constants have other values.

    Raises:
        KeyError: if the script assigns one of them nowhere.
    """
    tree, left = ast.parse(source), dict(constants)
    for node in tree.body:
        if not isinstance(node, ast.Assign):
            continue
        (target,) = node.targets
        names = target.elts if isinstance(target, ast.Tuple) else [target]
        values = node.value.elts if isinstance(node.value, ast.Tuple) else [node.value]
        for i, name in enumerate(names):
            if isinstance(name, ast.Name) and name.id in left:
                values[i] = ast.Constant(left.pop(name.id))
        if isinstance(node.value, ast.Tuple):
            node.value.elts = values
        else:
            (node.value,) = values
    if left:
        raise KeyError(f"nothing assigns {sorted(left)}")
    return ast.fix_missing_locations(tree)


def write_idx(path: Path, array: np.ndarray) -> None:
    """A file of MNIST's format."""
    header = struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape)
    path.write_bytes(gzip.compress(header + array.astype(np.uint8).tobytes()))


@pytest.fixture
def data(tmp_path, monkeypatch):
    """A few random images instead of CIFAR-10 and Fashion-MNIST."""
    rng = np.random.default_rng(0)
    fashion = tmp_path / "fashion-mnist"
    fashion.mkdir()
    write_cifar10(tmp_path / "cifar10", each=10)
    for half in ("train", "t10k"):
        images = rng.integers(0, 256, (40, 28, 28), dtype=np.uint8)
        write_idx(fashion / f"{half}-images-idx3-ubyte.gz", images)
        write_idx(fashion / f"{half}-labels-idx1-ubyte.gz", np.arange(40) % 10)
    monkeypatch.setattr(source, "SETTINGS", replace(source.SETTINGS, data_dir=tmp_path))


@pytest.mark.device
@pytest.mark.slow
@pytest.mark.parametrize("path", TUTORIALS, ids=lambda path: path.stem)
def test_tutorial_runs(path, data, tmp_path, monkeypatch):
    if package := NEEDS.get(path.stem):
        pytest.importorskip(package)
    pyplot = pytest.importorskip("matplotlib.pyplot")
    monkeypatch.chdir(tmp_path)
    pyplot.switch_backend("template")  # draws nothing, and waits for nobody
    tree = shortened(path.read_text(encoding="utf-8"), QUICK[path.stem])
    exec(compile(tree, str(path), "exec"), {"__name__": "__main__"})
    pyplot.close("all")


def test_constants_are_replaced():
    tree = shortened("A, B = 1, 2\nC = 3\nD = A + B + C", {"B": 20, "C": 30})
    namespace: dict[str, Any] = {}
    exec(compile(tree, "script", "exec"), namespace)
    assert namespace["D"] == 51
    with pytest.raises(KeyError, match="E"):
        shortened("A = 1", {"E": 2})


def lines_of(notebook: dict[str, Any]) -> list[str]:
    """A notebook's text as the lines of the script that it is of, without empty ones."""
    found: list[str] = []
    for cell in notebook["cells"]:
        lines = "".join(cell["source"]).splitlines()
        if cell["cell_type"] == "markdown":
            lines = [f"# {line}".rstrip() for line in lines]
        found += [line for line in lines if line]
    return found


def check_notebook(script: str, notebook: dict[str, Any]) -> list[str]:
    """What is wrong with the notebook of a script."""
    lines = [line for line in script.splitlines() if line and not line.startswith("# %%")]
    bad = [] if lines_of(notebook) == lines else ["its text is not the script's: `make notebooks`"]
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code" and cell["execution_count"] is None:
            bad.append("a cell was not run")
        for output in cell.get("outputs", ()):
            if output["output_type"] == "error" or output.get("name") == "stderr":
                bad.append("a cell failed, or complained")
            picture = output.get("data", {}).get("image/png", "")
            if len(base64.b64decode(picture)) > MAX_PICTURE:
                bad.append(f"a picture is larger than {MAX_PICTURE} bytes")
    return bad


@pytest.mark.parametrize("path", TUTORIALS, ids=lambda path: path.stem)
def test_notebook_is_of_the_script(path):
    notebook = json.loads(path.with_suffix(".ipynb").read_text(encoding="utf-8"))
    assert check_notebook(path.read_text(encoding="utf-8"), notebook) == []


SCRIPT = "# %% [markdown]\n# # Title\n#\n# Text.\n\n# %%\nx = 1\n\nprint(x)\n"


def cells(code: str = "x = 1\n\nprint(x)", **changed: Any) -> dict[str, Any]:
    cell = {"cell_type": "code", "execution_count": 1, "outputs": [], "source": [code]}
    text = {"cell_type": "markdown", "source": ["# Title\n", "\n", "Text."]}
    return {"cells": [text, {**cell, **changed}]}


@pytest.mark.parametrize(
    ("notebook", "complaint"),
    [
        (cells("x = 2"), "its text is not"),
        (cells(execution_count=None), "was not run"),
        (cells(outputs=[{"output_type": "error"}]), "failed"),
        (cells(outputs=[{"output_type": "stream", "name": "stderr"}]), "complained"),
        (
            cells(outputs=[{"output_type": "x", "data": {"image/png": "A" * 200_000}}]),
            "larger than",
        ),
    ],
)
def test_bad_notebook_is_reported(notebook, complaint):
    (bad,) = check_notebook(SCRIPT, notebook)
    assert complaint in bad


def test_good_notebook_passes():
    assert check_notebook(SCRIPT, cells()) == []


@pytest.mark.parametrize("path", TUTORIALS, ids=lambda path: path.stem)
def test_tutorial_says_what_it_needs(path):
    """Its first line of text names the packages; then it says its data, and how it went."""
    text = path.read_text(encoding="utf-8").split("# %%")[1]
    assert re.match(r' \[markdown\]\n# # .+\n#\n# `pip install "clnet\[[\w,]+\]"`\. ', text)
    assert "\n# - **Data**: " in text
    assert "\n# - **Result**: " in text


def test_all_are_in_the_list():
    page = (FOLDER / "index.md").read_text(encoding="utf-8")
    assert re.findall(r"^(\w+)$", page.split("```{toctree}")[1], re.MULTILINE) == re.findall(
        r"\]\((\w+)\.ipynb\)", page
    )
    assert sorted(re.findall(r"\]\((\w+)\.ipynb\)", page)) == [path.stem for path in TUTORIALS]
