"""The documentation as a site: ``make docs`` builds it offline, with no warning let through."""

from __future__ import annotations

import importlib
import inspect
import json
import re
from pathlib import Path
from typing import Any

import clnet

project = "clnet"
author = "the authors of clnet"
release = version = str(clnet.__version__)

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",  # each name of the reference links to its source
]
root_doc = "index"
exclude_patterns = ["_build"]
nb_execution_mode = "off"  # a notebook shows what its last run gave: `make notebooks`
nb_merge_streams = True  # what a cell printed is one block
html_theme = "furo"
html_title = "clnet"
html_static_path = ["static"]
html_css_files = ["site.css"]

myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 4
suppress_warnings = ["myst.xref_missing"]  # links from a page to sources of the checkout

autodoc_typehints = "signature"
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True, "show-inheritance": True}
autodoc_inherit_docstrings = False
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True

# Pages of the reference: a module, and what it is for.
MODULES = {
    "clnet": "Tensors, and all that is computed with them",
    "clnet.nn": "Layers, losses, containers",
    "clnet.nn.functional": "The same as functions",
    "clnet.nn.init": "First weights",
    "clnet.nn.utils": "Norms of gradients, weight and spectral norm, sequences",
    "clnet.optim": "Optimisers",
    "clnet.optim.lr_scheduler": "Learning rates over time",
    "clnet.autograd": "The tape, gradients of one's own, checks of gradients",
    "clnet.func": "Functions of functions: grad, vmap, jacobians",
    "clnet.data": "Data sets and loaders of NumPy arrays",
    "clnet.utils.data": "PyTorch's data sets and loaders",
    "clnet.train": "The training loop, metrics, checkpoints",
    "clnet.models": "Networks",
    "clnet.distributions": "Random values and their densities",
    "clnet.linalg": "Linear algebra",
    "clnet.fft": "Fourier transforms",
    "clnet.special": "Special functions",
    "clnet.sparse": "Matrices that are mostly 0",
    "clnet.amp": "Mixed precision",
    "clnet.profiling": "Where time and memory go",
    "clnet.errors": "What is raised",
}

_BACK = re.compile(r'<a class="viewcode-back"[^>]*>.*?</a>')
_NAMES = re.compile(r"^ +\*{0,2}\w+(?:, \*{0,2}\w+)+(?=: )")


def write_reference(_: Any) -> None:
    """A page for each module, with every public name that has a docstring of its own."""
    folder = Path(__file__).parent / "api"
    folder.mkdir(exist_ok=True)
    home: dict[int, str] = {}
    shown = {place: _shown(place) for place in MODULES}
    public = {id(thing) for things in shown.values() for thing in things.values()}
    for place, what in MODULES.items():
        rows, parts = [], []
        for name, thing in shown[place].items():
            first = home.setdefault(id(thing), place)
            if first != place:
                rows.append(f"   * - `{name}`\n     - as :py:obj:`{first}.{name}`")
                continue
            said = (inspect.getdoc(thing) or "").split("\n\n")[0].replace("\n", " ")
            rows.append(f"   * - :py:obj:`~{place}.{name}`\n     - {said}")
            parts.append(_directive(f"{place}.{name}", thing, public))
        listed = ".. list-table::\n   :widths: 25 75\n\n" + "\n".join(rows)
        title = f"{place}\n{'=' * len(place)}\n\n{what}.\n\n.. py:module:: {place}\n"
        text = f"{title}\n{listed}\n\n" + "\n".join(parts)
        page = folder / f"{place}.rst"
        if not page.exists() or page.read_text(encoding="utf-8") != text:
            page.write_text(text, encoding="utf-8")


def _shown(place: str) -> dict[str, Any]:
    """Classes and functions of a module's page, by name."""
    module = importlib.import_module(place)
    names = sorted(getattr(module, "__all__", None) or dir(module))
    things = {n: getattr(module, n, None) for n in names if not n.startswith("_")}
    return {n: x for n, x in things.items() if not inspect.ismodule(x) and _is_ours(x)}


def _directive(path: str, thing: Any, public: set[int]) -> str:
    """What Sphinx is asked for: of a class also what ancestors have that stand on no page."""
    if not inspect.isclass(thing):
        return f".. autofunction:: {path}\n"
    known = (b.__name__ for b in thing.__mro__[1:] if id(b) in public or not _is_ours(b))
    return f".. autoclass:: {path}\n   :inherited-members: {next(known, 'object')}\n"


def _is_ours(thing: Any) -> bool:
    known = inspect.isclass(thing) or inspect.isroutine(thing)
    return known and str(getattr(thing, "__module__", "")).startswith("clnet")


def offer_notebook(_: Any, place: str, source: list[str]) -> None:
    """Each tutorial's page says where its notebook and its script are."""
    if not place.startswith("tutorials/") or place.endswith("index"):
        return
    name = place.removeprefix("tutorials/")
    notebook = json.loads(source[0])
    begin = notebook["cells"][0]["source"]
    links = f"{{download}}`The notebook <{name}.ipynb>`, {{download}}`the script <{name}.py>`."
    notebook["cells"][0]["source"] = [*begin, "\n\n", links]
    source[0] = json.dumps(notebook)


def join_names(*event: Any) -> None:
    """``mean, std: of all`` in a docstring: Sphinx would take the first name for a type."""
    lines: list[str] = event[-1]
    lines[:] = [_NAMES.sub(lambda names: names[0].replace(", ", ","), line) for line in lines]


def without_ways_back(
    _: Any, page: str, template: str, context: dict[str, Any], *more: Any
) -> None:
    """Sources do not link back: not every name of the reference is where viewcode looks for it."""
    if page.startswith("_modules/") and "body" in context:
        context["body"] = _BACK.sub("", context["body"])


def setup(app: Any) -> None:
    """Sphinx asks for what else there is to do."""
    app.connect("builder-inited", write_reference)
    app.connect("source-read", offer_notebook)
    app.connect("html-page-context", without_ways_back)
    app.connect("autodoc-process-docstring", join_names, priority=1)  # before napoleon
