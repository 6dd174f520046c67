"""Run programs written for PyTorch from beginning to end, with clnet in its place, and compare.

Those of ``ci/torch_scripts`` are in the style of PyTorch's own examples: loaders, schedules,
checkpoints, evaluation. Each runs twice, unchanged: with PyTorch, which writes the weights it
begins with, and by ``python -m clnet.torch_compat``, which reads them. All losses that they print
are compared::

    python ci/scripts.py             # all
    python ci/scripts.py mnist gcn   # some
    python ci/scripts.py --page      # all, and write docs/programs.md
"""

from __future__ import annotations

import argparse
import ast
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SCRIPTS = ROOT / "ci/torch_scripts"
PAGE = ROOT / "docs/programs.md"
TOLERANCE = 2e-3
SECONDS = 600
INTRODUCTION = f"""# Programs written for PyTorch

Written by `python ci/scripts.py --page`. Each program of `ci/torch_scripts` is plain `import torch`
code in the style of PyTorch's examples. It is run unchanged, once with PyTorch and once by
`python -m clnet.torch_compat SCRIPT` on PoCL, from the weights that PyTorch's run wrote; data and
noise are NumPy's. All losses that are printed are compared: they agree to {TOLERANCE:g} of their
value.

Models, losses, metrics and optimisers of pip packages are compared by `python ci/programs.py`.

| program | what it does | losses | largest difference | |
| --- | --- | ---: | ---: | --- |
"""


def losses(text: str) -> list[float]:
    """The numbers behind the word "loss"."""
    return [float(found) for found in re.findall(r"loss (-?[\d.]+(?:e-?\d+)?|nan)", text)]


def run(command: list[str]) -> tuple[int, str, str]:
    """Exit status, output and errors of a program."""
    done = subprocess.run(
        [sys.executable, *command], capture_output=True, text=True, cwd=ROOT, timeout=SECONDS
    )
    return done.returncode, done.stdout, done.stderr


def compare(script: Path) -> tuple[str, int, float, str]:
    """``right``, ``wrong`` or ``fails``; losses compared, their largest difference, and why."""
    with tempfile.TemporaryDirectory() as folder:
        start = ["--start", str(Path(folder) / "start.pt")]
        status, theirs, errors = run([str(script), *start])
        if status:
            return "fails", 0, 0.0, f"with PyTorch: {errors.strip().splitlines()[-1]}"
        status, ours, errors = run(["-m", "clnet.torch_compat", str(script), *start])
    if status:
        return "fails", 0, 0.0, errors.strip().splitlines()[-1]
    got, expected = losses(ours), losses(theirs)
    if len(got) != len(expected) or not expected:
        return "wrong", len(got), 0.0, f"{len(got)} losses, not {len(expected)}"
    most = max(abs(a - b) / max(abs(b), 1e-3) for a, b in zip(got, expected, strict=True))
    return ("right" if most <= TOLERANCE else "wrong"), len(got), most, ""


def title(script: Path) -> str:
    """What a script's docstring says."""
    return ast.get_docstring(ast.parse(script.read_text())) or ""


def main() -> int:
    """Run them and say what came of it; 1 if one is not right."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("only", nargs="*", help="names of scripts")
    parser.add_argument("--page", action="store_true", help="write docs/programs.md")
    options = parser.parse_args()
    rows, bad = "", 0
    for script in sorted(SCRIPTS.glob("*.py")):
        if options.only and script.stem not in options.only:
            continue
        began = time.perf_counter()
        verdict, count, most, why = compare(script)
        bad += verdict != "right"
        rows += f"| {script.stem} | {title(script)} | {count} | {most:.0e} | {verdict} |\n"
        seconds = time.perf_counter() - began
        print(
            f"{verdict:6} {script.stem:20} {count:3} {most:.1e} {seconds:4.0f} s {why}", flush=True
        )
    if options.page and not options.only:
        PAGE.write_text(INTRODUCTION + rows)
    return min(bad, 1)


if __name__ == "__main__":
    sys.exit(main())
