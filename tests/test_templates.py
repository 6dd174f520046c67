"""The contract of a kernel template: a pure function of its arguments, and its header says so.

The header is the block of ``##`` lines at the top; no device is needed to check it::

    ## kernel scale: y[i] = a * x[i]          shared parts in lib/ begin with "## lib scale:"
    ## param  ctype: str                      each argument of a def, in any order
    ## param  inputs: int
    ## def    scale                           opens the arguments of these defs' kernels; needed
    ## arg    n: int                          only when the file holds several kernels
    ## arg    y: out ctype[n]                 the __kernel's parameters in order; a pointer is
    ## arg    x{i}: in ctype[n]               in (const), out or inout; {i} stands for ${...}
"""

from __future__ import annotations

import builtins
import re
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from mako import parsetree
from mako.lexer import Lexer

KERNELS = Path(__file__).parents[1] / "clnet" / "kernels"
TEMPLATES = sorted(KERNELS.rglob("*.mako"))

# Names a def may use beside its arguments: Python's, and Mako's for a loop and for <%call>.
AMBIENT = {*dir(builtins), "loop", "caller"}


@dataclass
class Definition:
    """A ``<%def>``: its arguments, and its text with every ``${...}`` written as ``{}``."""

    name: str
    arguments: set[str]
    text: str


@dataclass
class Template:
    """What Mako's own parser sees in a template."""

    definitions: dict[str, Definition] = field(default_factory=dict)
    free: set[str] = field(default_factory=set)
    outside: str = ""
    has_module_code: bool = False


def literal(nodes: list[parsetree.Node]) -> str:
    """The OpenCL C that nodes hold, all branches of control lines one after the other."""
    parts: list[str] = []
    for node in nodes:
        if isinstance(node, parsetree.Text):
            parts.append(node.content)
        elif isinstance(node, parsetree.Expression):
            parts.append("{}")
        elif isinstance(node, parsetree.Tag) and not isinstance(node, parsetree.DefTag):
            parts.append(literal(node.nodes))
    return "".join(parts)


def parse(text: str) -> Template:
    template = Template()

    def walk(node: parsetree.Node, bound: set[str]) -> None:
        undeclared = getattr(node, "undeclared_identifiers", set)
        template.free |= set(undeclared()) - bound
        if isinstance(node, parsetree.DefTag):
            arguments = set(node.declared_identifiers())
            name = node.funcname
            template.definitions[name] = Definition(name, arguments, literal(node.nodes))
            bound = bound | arguments
        elif isinstance(node, parsetree.Code) and node.ismodule:
            template.has_module_code = True
        elif isinstance(node, parsetree.ControlLine | parsetree.Code):
            bound |= set(node.declared_identifiers())
        elif isinstance(node, parsetree.NamespaceTag):
            bound.add(node.attributes["name"])
        for child in getattr(node, "nodes", ()):
            walk(child, bound)

    root = Lexer(text).parse()
    walk(root, set(AMBIENT))
    template.free -= set(template.definitions)
    template.outside = literal(root.nodes).strip()
    return template


def without_comments(code: str) -> str:
    return re.sub(r"/\*.*?\*/|//[^\n]*", " ", code, flags=re.DOTALL)


def closing(code: str, start: int) -> int:
    """Where the parenthesis opened at ``start`` is closed."""
    depth = 0
    for position in range(start, len(code)):
        depth += {"(": 1, ")": -1}.get(code[position], 0)
        if depth == 0:
            return position
    raise ValueError("unbalanced parentheses after __kernel")


def kernel_parameters(code: str) -> list[list[tuple[str, str]]]:
    """For each ``__kernel`` in the text: its parameters in order, as (name, declaration)."""
    code, found = without_comments(code), []
    for match in re.finditer(r"\b__kernel\b", code):
        start = match.end()
        while attribute := re.compile(r"\s*__attribute__\s*(?=\()").match(code, start):
            start = closing(code, attribute.end()) + 1
        opened = code.index("(", start)
        parameters: dict[str, str] = {}
        for declaration in code[opened + 1 : closing(code, opened)].split(","):
            name = re.search(r"([\w{}]+)\s*(\[[^\]]*\]\s*)*$", declaration.strip())
            if name:  # branches of an `% if` may declare the same parameter twice
                parameters.setdefault(name[1], declaration)
        found.append(list(parameters.items()))
    return found


def header_of(text: str) -> list[str]:
    lines: list[str] = []
    for line in text.splitlines():
        if not line.startswith("##"):
            break
        lines.append(line[2:].strip())
    return lines


def documented_parameters(header: list[str]) -> set[str]:
    return {m[1] for line in header if (m := re.match(r"param\s+(\w+):\s*\S", line))}


def documented_arguments(header: list[str], kernels: list[str]) -> dict[str, dict[str, str]]:
    """For each kernel's def, the names of its ``arg`` lines and what they say."""
    arguments: dict[str, dict[str, str]] = {name: {} for name in kernels}
    section = kernels if len(kernels) == 1 else []
    for line in header:
        if m := re.match(r"def\s+(.+)", line):
            section = [name.strip() for name in m[1].split(",")]
        elif m := re.match(r"arg\s+([\w{}]+):\s*(\S.*)", line):
            for name in section:
                arguments.setdefault(name, {})[re.sub(r"\{\w*\}", "{}", m[1])] = m[2]
    return arguments


def check_arguments(template: Template, header: list[str]) -> list[str]:
    bad: list[str] = []
    kernels: dict[str, list[tuple[str, str]]] = {}
    for name, definition in template.definitions.items():
        found = kernel_parameters(definition.text)
        if len(found) > 1:
            bad.append(f"{name}: holds {len(found)} kernels, one def is one kernel")
        if found:
            kernels[name] = found[0]
    documented = documented_arguments(header, list(kernels))
    bad += [
        f"{name}: documented, but there is no such kernel"
        for name in set(documented) - set(kernels)
    ]
    for name, parameters in kernels.items():
        said, true = list(documented[name]), [parameter for parameter, _ in parameters]
        if said != true:
            bad.append(f"{name}: the `## arg` lines say {said}, __kernel has {true}")
            continue
        for parameter, declaration in parameters:
            direction = documented[name][parameter].split()[0]
            if "*" in declaration and direction not in {"in", "out", "inout"}:
                bad.append(f"{name}: {parameter} is a pointer, but not in, out or inout")
            elif "*" in declaration and ("const" in declaration) != (direction == "in"):
                bad.append(f"{name}: {parameter} is {direction}, which const contradicts")
    return bad


def check_template(path: Path) -> list[str]:
    """What is wrong with a template, in words."""
    text = path.read_text(encoding="utf-8")
    template, header, bad = parse(text), header_of(text), []
    kind = "lib" if path.parent.name == "lib" else "kernel"
    if not re.match(rf"## {kind} {path.stem}: \S", text):
        bad.append(f"the first line is not `## {kind} {path.stem}: <what it computes>`")
    if template.free:
        bad.append(f"reads names that are not arguments of the def: {sorted(template.free)}")
    if template.has_module_code:
        bad.append("has module code, `<%! %>`")
    if template.outside:
        bad.append(f"has text outside a def: {template.outside[:40]!r}")
    said = documented_parameters(header)
    true: set[str] = set().union(*(d.arguments for d in template.definitions.values()))
    if said != true:
        bad.append(f"the `## param` lines say {sorted(said)}, the defs take {sorted(true)}")
    bad += check_arguments(template, header)
    compiled = "".join(definition.text for definition in template.definitions.values())
    if path.stem != "prelude" and re.search(
        r"^\s*#\s*(if|ifdef|ifndef|elif|else)\b", compiled, re.MULTILINE
    ):
        bad.append("branches with the preprocessor, use `% if`")
    if re.search(r"\\\n", text):
        bad.append("a line ends with a backslash, which Mako swallows")
    return bad


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.stem)
def test_template_keeps_the_contract(path):
    assert not (bad := check_template(path)), "\n".join(bad)


# --- The check itself --------------------------------------------------------------------------

SCALE = """\
## kernel scale: y[i] = a * x[i], and the sum of several
##
## param  ctype: str                OpenCL element type
## param  unroll: 1|2|4             elements per work-item
## param  inputs: int               how many are summed
## def    scale
## arg    n: int                    elements
## arg    y: out ctype[n]
## arg    x: in ctype[n]
## arg    a: ctype
## def    total
## arg    y: inout ctype[n]
## arg    x{i}: in ctype[n]         one for each input
<%namespace name="guard" file="lib/guard.mako"/>
<%def name="scale(ctype, unroll)">
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void scale_${ctype}(const int n, __global ${ctype} *restrict y,  /* (the result) */
                    __global const ${ctype} *restrict x, const ${ctype} a)
{
    ${guard.index('n / %d' % unroll)}
% for u in range(unroll):
    y[i * ${unroll} + ${u}] = a * x[i * ${unroll} + ${u}];
% endfor
}
</%def>
<%def name="total(ctype, inputs)">
__kernel void total(
    __global ${ctype} *y
% for i in range(inputs):
    , __global const ${ctype} *restrict x${i}
% endfor
) {
    y[get_global_id(0)] = ${" + ".join(f"x{i}[0]" for i in range(inputs))};
}
</%def>
"""

VIOLATIONS = {
    "first line": ("## kernel scale:", "## kernel scala:", "first line is not `## kernel scale:"),
    "no purpose": (" y[i] = a * x[i], and the sum of several", "", "first line is not"),
    "free name": ("= a * x[i * ", "= ${alpha} * x[i * ", "not arguments of the def: ['alpha']"),
    "other def's argument": ("(const int n", "(const int n${inputs}", "['inputs']"),
    "module code": ("<%namespace", "<%! import os %><%namespace", "has module code"),
    "text outside": ("<%namespace", "typedef int x;<%namespace", "text outside a def: 'typedef"),
    "param missing": ("## param  unroll", "## about  unroll", "`## param` lines say ['ctype', 'in"),
    "param too many": ("## param  ctype", "## param  size: int\n## param  ctype", "'size'"),
    "param without type": ("## param  inputs: int ", "## param  inputs ", "`## param` lines say"),
    "arg missing": ("## arg    a: ctype\n", "", "scale: the `## arg` lines say ['n', 'y', 'x'],"),
    "arg order": (
        "## arg    y: out ctype[n]\n## arg    x: in ctype[n]",
        "## arg    x: in ctype[n]\n## arg    y: out ctype[n]",
        "say ['n', 'x', 'y', 'a'], __kernel has ['n', 'y', 'x', 'a']",
    ),
    "arg of a loop": (
        "## arg    x{i}:",
        "## arg    x:",
        "say ['y', 'x'], __kernel has ['y', 'x{}']",
    ),
    "unknown def": ("## def    total", "## def    sum", "sum: documented, but there is no such"),
    "direction missing": ("x: in ctype[n]", "x: ctype[n]", "x is a pointer, but not in, out"),
    "input not const": (
        "__global const ${ctype} *restrict x,",
        "__global ${ctype} *x,",
        "x is in,",
    ),
    "output const": ("__global ${ctype} *y", "__global const ${ctype} *y", "y is inout, which"),
    "two kernels": ("{\n    ${guard", "{}\n__kernel void b() {\n    ${guard", "holds 2 kernels"),
    "preprocessor": ("    ${guard", "#if A\n    ${guard", "branches with the preprocessor"),
    "backslash": ("= a * x[i * ", "= a * \\\n x[i * ", "ends with a backslash"),
}


def planted(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def test_a_good_template_passes(tmp_path):
    assert check_template(planted(tmp_path, "scale.mako", SCALE)) == []


def test_a_single_kernel_needs_no_def_line(tmp_path):
    start = SCALE.index('<%def name="total')
    text = re.sub(r"## (def  |param  inputs).*\n", "", SCALE[:start])
    text = re.sub(r"(## arg    a: ctype\n)(## arg.*\n)+", r"\1", text)
    assert check_template(planted(tmp_path, "scale.mako", text)) == []


def test_shared_parts_have_their_own_first_line(tmp_path):
    text = '## lib guard: the index\n## param n: str\n<%def name="index(n)">int i = ${n};</%def>'
    assert check_template(planted(tmp_path / "lib", "guard.mako", text)) == []
    assert len(check_template(planted(tmp_path, "guard.mako", text))) == 1


def test_only_the_prelude_uses_the_preprocessor(tmp_path):
    text = (
        '## lib prelude: what is missing\n<%def name="all()">\n#ifdef cl_khr_fp16\n#endif\n</%def>'
    )
    assert check_template(planted(tmp_path / "lib", "prelude.mako", text)) == []


@pytest.mark.parametrize("case", VIOLATIONS)
def test_planted_violation_is_reported(case, tmp_path):
    good, wrong, complaint = VIOLATIONS[case]
    assert SCALE.count(good) >= 1
    bad = check_template(planted(tmp_path, "scale.mako", SCALE.replace(good, wrong, 1)))
    assert complaint in "\n".join(bad)
