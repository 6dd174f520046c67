"""Run the ONNX backend's tests: passed, failed, excluded, and the table of docs/onnx.md.

    python ci/onnx_backend.py node             # a suite: node, simple, pytorch-converted, ...
    python ci/onnx_backend.py node --part 1/2  # every second test, for two processes
    python ci/onnx_backend.py node --only cast --show
    python ci/onnx_backend.py page node1.json node2.json simple.json   # what --json kept

Every test is loaded as any model, run on the current device and compared by the suite's own
tolerances. What fails is printed with its error.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.backend.test.loader import load_model_tests
from onnx.backend.test.runner import Runner

import clnet.onnx
from clnet.errors import ClnetError

# Why tests are left out: a pattern of their whole names, and the reason.
EXCLUDED = {
    r"test_bernoulli(_double|_seed)?(_expanded)?": "NumPy's random draws are the answer",
    r"test_training_dropout(_default)?(_mask)?": "NumPy's random draws are the answer",
    r"test_dft(_inverse|_rfft)?(_opset19)?": "1e-7 asked of float32 sums whose terms are near 100",
    r"test_basic_deform_conv_with_padding": "a sum of 0 is 2e-7, asked: 1e-7",
    r"test_attention_4d_causal_fp16_expanded": "float16 rounded in another order",
    r"test_gradient_of_.*": "Gradient, a node that differentiates others: use backward()",
}


def reason(name: str) -> str | None:
    """Why a test is left out, or None."""
    return next((why for names, why in EXCLUDED.items() if re.fullmatch(names, name)), None)


def value_of(type_proto: Any, data: bytes) -> Any:
    """An input or output that a test keeps in a file."""
    if type_proto.HasField("sequence_type"):
        return numpy_helper.to_list(onnx.SequenceProto.FromString(data))
    if type_proto.HasField("optional_type"):
        return numpy_helper.to_optional(onnx.OptionalProto.FromString(data))
    return numpy_helper.to_array(onnx.TensorProto.FromString(data))


def plain(value: Any) -> Any:
    """A tensor of a test as an array."""
    return numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else value


def data_sets(case: Any, model: Any) -> list[tuple[list[Any], list[Any]]]:
    """A case's inputs and outputs."""
    if case.data_sets is not None:
        return list(case.data_sets)
    found = []
    for folder in sorted(Path(case.model_dir).glob("test_data_set*")):
        pair = []
        for kind, values in (("input", model.graph.input), ("output", model.graph.output)):
            files = [
                folder / f"{kind}_{i}.pb" for i in range(len(list(folder.glob(f"{kind}_*.pb"))))
            ]
            pair.append(
                [value_of(v.type, f.read_bytes()) for v, f in zip(values, files, strict=False)]
            )
        found.append((pair[0], pair[1]))
    return found


def light(case: Any) -> tuple[Path, list[Any], list[Any]]:
    """A network that comes with the suite: weights of one value, and answers beside it."""
    path = Path(onnx.__file__).parent / "backend/test/data/light" / Path(case.url).name
    graph = onnx.load(path).graph
    held = {t.name for t in graph.initializer}
    inputs = [
        Runner.generate_dummy_data(v, seed=0, name=case.model_name, random=False)
        for v in graph.input
        if v.name not in held
    ]
    files = [path.with_name(f"{path.stem}_output_{i}.pb") for i in range(len(graph.output))]
    outputs = [numpy_helper.to_array(onnx.TensorProto.FromString(f.read_bytes())) for f in files]
    return path, inputs, outputs


def compare(wanted: Any, got: Any, case: Any) -> None:
    """Compare by the suite's tolerances; sequences part by part."""
    if isinstance(wanted, list):
        assert len(wanted) == len(got)
        for one, other in zip(wanted, got, strict=True):
            compare(one, other, case)
        return
    Runner.assert_similar_outputs([wanted], [got], rtol=case.rtol, atol=case.atol)


def run_case(case: Any) -> None:
    """Run a test; it raises what it fails by."""
    if case.model is None and case.model_dir is None:
        path, inputs, outputs = light(case)
        made = clnet.onnx.load(path).numpy(*inputs)
        Runner.assert_similar_outputs(outputs, made, rtol=case.rtol, atol=case.atol)
        return
    path = case.model if case.model is not None else Path(case.model_dir) / "model.onnx"
    if case.model_dir is not None and not Path(path).exists():
        path = onnx.load(path)
    module = clnet.onnx.load(path)
    model = case.model if case.model is not None else onnx.load(path, load_external_data=False)
    for inputs, outputs in data_sets(case, model):
        made = module.numpy(*map(plain, inputs))
        for wanted, got in zip(map(plain, outputs), made, strict=True):
            if isinstance(wanted, np.ndarray) and wanted.dtype.kind == "U":
                wanted = wanted.astype(object)
            compare(wanted, got, case)


PAGE = Path(__file__).parents[1] / "docs" / "onnx.md"
BEGIN, END = "<!-- suites: written by ci/onnx_backend.py -->", "<!-- end of suites -->"


def write_page(files: list[str]) -> None:
    """Put results that were kept into the page's table."""
    suites: dict[str, dict[str, str]] = {}
    for name in files:
        for suite, results in json.loads(Path(name).read_text()).items():
            suites.setdefault(suite, {}).update(results)
    lines = ["| suite | tests | passed | failed | excluded |", "| --- | --- | --- | --- | --- |"]
    for suite, results in suites.items():
        n = Counter(r.split(":")[0] for r in results.values())
        counts = f"{n['passed']} | {n['failed']} | {n['excluded']}"
        title = "light models" if suite == "real" else suite
        lines.append(f"| {title} | {len(results)} | {counts} |")
    lines += ["", "Not passed:", ""]
    reasons: dict[str, list[str]] = {}
    for results in suites.values():
        for test, result in results.items():
            if result != "passed":
                reasons.setdefault(result.partition(": ")[2], []).append(test)
    for why, tests in reasons.items():
        more = f" and {len(tests) - 1} more" if len(tests) > 1 else ""
        name = tests[0].removeprefix("test_").replace("_", " ")
        lines.append(f"- {name}{more}: {why}"[:118])
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    after = rest.partition(END)[2]
    PAGE.write_text(
        f"{before}{BEGIN}\n\n" + "\n".join(lines) + f"\n\n{END}{after}", encoding="utf-8"
    )


def main() -> int:
    """Run a suite."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("suite")
    parser.add_argument("files", nargs="*")
    parser.add_argument("--part", default="1/1")
    parser.add_argument("--only", default="")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--show", action="store_true")
    options = parser.parse_args()
    if options.suite == "page":
        write_page(options.files)
        return 0
    warnings.simplefilter("ignore")
    part, parts = map(int, options.part.split("/"))
    cases = [c for c in load_model_tests(kind=options.suite) if options.only in c.name]
    results: dict[str, str] = {}
    for case in cases[part - 1 :: parts]:
        if why := reason(case.name):
            results[case.name] = f"excluded: {why}"
            continue
        begun = time.monotonic()
        try:
            run_case(case)
            results[case.name] = "passed"
        except (ClnetError, AssertionError, Exception) as error:
            if options.show:
                raise
            text = " ".join(f"{type(error).__name__}: {error}".split())
            results[case.name] = f"failed: {text[:230]}"
            print(f"{case.name}  {results[case.name]}", flush=True)
        if time.monotonic() - begun > 20:
            print(f"{case.name} took {time.monotonic() - begun:.0f} s", flush=True)
    counts = Counter(r.split(":")[0] for r in results.values())
    print(options.suite, dict(counts), "of", len(results))
    if options.json:
        options.json.write_text(json.dumps({options.suite: results}, indent=0))
    return 1 if counts["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
