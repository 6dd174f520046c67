"""The contract of a kernel template: a pure function of its arguments, and its header says so.

The header is the block of ``##`` lines at the top; no device is needed to check it::

    ## kernel scale: y[i] = a * x[i]          shared parts in lib/ begin with "## lib scale:"
    ## param  ctype: str                      each argument of a def, in any order
    ## param  inputs: int
    ## def    scale                           opens arguments of these defs' kernels, or of all;
    ## arg    n: int                          needed only when the file holds several kernels
    ## arg    y: out ctype[n]                 the __kernel's parameters in order; a pointer is
    ## arg    x{i}: in ctype[n]               in (const), out or inout; {i} stands for ${...}

After every pointer ``x`` comes ``const long x_offset``, where its elements begin: one argument on
the host, so it has no line of its own. ``__kernel void scale(...)`` has what the header declares
(clnet/kernels/declaration.py); a kernel that lists its arguments itself, or by another def, also of
lib, must list the same.
"""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

import pytest
from mako import parsetree
from mako.lexer import Lexer

from clnet.kernels.declaration import FROM_THE_QUEUE, declarations

KERNELS = Path(__file__).parents[1] / "clnet" / "kernels"
TEMPLATES = sorted(KERNELS.rglob("*.mako"))

MOST_COLUMNS = 100

# Names a def may use beside its arguments: Python's, and Mako's for loops, <%call> and text.
AMBIENT = {*dir(builtins), "loop", "caller", "capture"}


@dataclass
class Definition:
    """A ``<%def>``: its arguments, and what stands in it."""

    arguments: list[str]
    nodes: list[parsetree.Node]

    @property
    def own_text(self) -> str:
        """Its text, with every ``${...}`` written as ``{}``."""
        return literal(self.nodes)


@dataclass
class Template:
    """What Mako's own parser sees in a template."""

    definitions: dict[str, Definition] = field(default_factory=dict)
    free: set[str] = field(default_factory=set)
    outside: str = ""
    spaces: dict[str, str] = field(default_factory=dict)  # the files of other templates' defs
    code: str = ""  # of all `${...}`
    has_module_code: bool = False

    def text(self, name: str) -> str:
        """The text of a def, with that of other defs, of lib's files too, where it calls them."""
        return literal(self.definitions[name].nodes, lambda code: self.written(code, {}))

    def written(self, code: str, values: dict[str, str]) -> str:
        """What ``${code}`` writes, as far as its text tells; ``{}`` stands for the rest."""
        try:
            tree = ast.parse(code.strip(), mode="eval").body
        except SyntaxError:  # with a filter, `${x | n}`
            return "{}"
        match tree:
            case ast.Name(name) if name in values:
                return values[name]
            case ast.Call(ast.Name(name), arguments) if name in self.definitions:
                called = self.definitions[name]
                given = [self.written(ast.unparse(a), values) for a in arguments]
                inside = dict(zip(called.arguments, given, strict=False))
                return literal(called.nodes, lambda code: self.written(code, inside))
            case ast.Call(ast.Attribute(ast.Name(space), name), arguments) if space in self.spaces:
                call = f"{name}({', '.join(ast.unparse(a) for a in arguments)})"
                return shared(Path(self.spaces[space]).name).written(call, values)
            case ast.Constant(str(text)):
                return text
            case ast.BinOp(ast.Constant(str(text)), ast.Mod()):
                return re.sub(r"%[ds]", "{}", text)
            case _:
                return "{}"


def literal(nodes: list[parsetree.Node], written: Callable[[str], str] = lambda code: "{}") -> str:
    """The OpenCL C that nodes hold, all branches of control lines one after the other."""
    parts: list[str] = []
    for node in nodes:
        if isinstance(node, parsetree.Text):
            parts.append(node.content)
        elif isinstance(node, parsetree.Expression):
            parts.append(written(node.text))
        elif isinstance(node, parsetree.Tag) and not isinstance(node, parsetree.DefTag):
            parts.append(literal(node.nodes, written))
    return "".join(parts)


@lru_cache
def shared(name: str) -> Template:
    """A file of lib/; an empty one if there is none."""
    path = KERNELS / "lib" / name
    return parse(path.read_text(encoding="utf-8") if path.exists() else "")


def parse(text: str) -> Template:
    template = Template()

    def walk(node: parsetree.Node, bound: set[str]) -> None:
        if isinstance(node, parsetree.ControlLine):
            bound |= set(node.declared_identifiers())
        undeclared = getattr(node, "undeclared_identifiers", set)
        template.free |= set(undeclared()) - bound
        if isinstance(node, parsetree.DefTag):
            arguments = list(node.function_decl.allargnames)
            template.definitions[node.funcname] = Definition(arguments, node.nodes)
            bound = bound | set(arguments)
        elif isinstance(node, parsetree.Expression):
            template.code += f"{node.text}\n"
        elif isinstance(node, parsetree.Code) and node.ismodule:
            template.has_module_code = True
        elif isinstance(node, parsetree.Code):
            bound |= set(node.declared_identifiers())
        elif isinstance(node, parsetree.NamespaceTag):
            bound.add(node.attributes["name"])
            template.spaces[node.attributes["name"]] = node.attributes["file"]
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


def without_offsets(parameters: list[tuple[str, str]]) -> tuple[list[tuple[str, str]], list[str]]:
    """The parameters less the offset after each pointer, and the pointers that have none."""
    kept: list[tuple[str, str]] = []
    bare: list[str] = []
    rest = iter([*parameters, ("", "")])
    name, declaration = next(rest)
    while name:
        kept.append((name, declaration))
        following = next(rest)
        if "*" in declaration:
            if following[1].split() == ["const", "long", f"{name}_offset"]:
                following = next(rest)
            else:
                bare.append(name)
        name, declaration = following
    return kept, bare


def header_of(text: str) -> list[str]:
    lines: list[str] = []
    for line in text.splitlines():
        if not line.startswith("##"):
            break
        lines.append(line[2:].strip())
    return lines


def documented_parameters(header: list[str]) -> set[str]:
    found = (re.match(r"param\s+(\w+(?:, \w+)*):\s*\S", line) for line in header)
    return {name for m in found if m for name in m[1].split(", ")}


def documented_arguments(header: list[str], kernels: list[str]) -> dict[str, dict[str, str]]:
    """For each kernel's def, the names of its ``arg`` lines and what they say."""
    arguments: dict[str, dict[str, str]] = {name: {} for name in kernels}
    section = kernels if len(kernels) == 1 else []
    for line in header:
        if m := re.match(r"def\s+(.+)", line):
            section = [name.strip() for name in m[1].split(",")]
            section = kernels if section == ["all"] else section
        elif m := re.match(r"arg\s+([\w{}]+):\s*(\S.*)", line):
            for name in section:
                arguments.setdefault(name, {})[re.sub(r"\{\w*\}", "{}", m[1])] = m[2]
    return arguments


def check_declared(template: Template, text: str, header: list[str]) -> list[str]:
    """What is wrong with kernels whose arguments are those that the header declares."""
    bad: list[str] = []
    found = declarations(text)
    documented = documented_arguments(header, list(found))
    bad += [
        f"{name}: documented, but there is no such kernel" for name in set(documented) - set(found)
    ]
    # What a kernel captures and hands to a library's def is none of its own text.
    parts = [d.own_text for d in template.definitions.values() if "__kernel" not in d.own_text]
    for name, declaration in found.items():
        own = template.definitions[name].own_text
        if own.count("__kernel") > 1:
            bad.append(f"{name}: holds {own.count('__kernel')} kernels, one def is one kernel")
        body = "".join((template.text(name), template.code, *parts))
        bad += [
            f"{name}: {argument}_offset is never read"
            for argument, pointer in declaration.names.items()
            if pointer
            and argument not in FROM_THE_QUEUE
            and re.sub(r"\{\w+\}", "{}", f"{argument}_offset") not in body
        ]
    return bad


def check_arguments(template: Template, header: list[str]) -> list[str]:
    bad: list[str] = []
    kernels: dict[str, list[tuple[str, str]]] = {}
    for name, definition in template.definitions.items():
        if "__kernel" not in definition.own_text:
            continue
        text = template.text(name)
        found = kernel_parameters(text)
        if len(found) > 1:
            bad.append(f"{name}: holds {len(found)} kernels, one def is one kernel")
        kernels[name], bare = without_offsets(found[0])
        bad += [f"{name}: no `const long {x}_offset` follows the pointer {x}" for x in bare]
        bad += [
            f"{name}: {x}_offset is never read"
            for x, declaration in kernels[name]
            if "*" in declaration and (text + template.code).count(f"{x}_offset") == 1
        ]
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
    true = {name for d in template.definitions.values() for name in d.arguments}
    if said != true:
        bad.append(f"the `## param` lines say {sorted(said)}, the defs take {sorted(true)}")
    if "(...)" in text:
        bad += check_declared(template, text, header)
    else:
        bad += check_arguments(template, header)
    compiled = "".join(definition.own_text for definition in template.definitions.values())
    if path.stem != "prelude" and re.search(
        r"^\s*#\s*(if|ifdef|ifndef|elif|else)\b", compiled, re.MULTILINE
    ):
        bad.append("branches with the preprocessor, use `% if`")
    if re.search(r"\\\n", text):
        bad.append("a line ends with a backslash, which Mako swallows")
    bad += [
        f"line {number} has {len(line)} columns"
        for number, line in enumerate(text.splitlines(), 1)
        if len(line) > MOST_COLUMNS
    ]
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
## param  name: str                 of a pointer
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
                    const long y_offset, ${source("x", ctype)}, const ${ctype} a)
{
    y += y_offset;
    x += x_offset;
    ${guard.index('n / %d' % unroll)}
% for u in range(unroll):
    y[i * ${unroll} + ${u}] = a * x[i * ${unroll} + ${u}];
% endfor
}
</%def>
<%def name="total(ctype, inputs)">
__kernel void total(
    __global ${ctype} *y, const long y_offset
% for i in range(inputs):
    , ${source("x%d" % i, ctype)}
% endfor
) {
% for i in range(inputs):
    y[y_offset + get_global_id(0)] += x${i}[x${i}_offset];
% endfor
}
</%def>
<%def name="source(name, ctype)">
    __global const ${ctype} *restrict ${name}, const long ${name}_offset
</%def>
"""

VIOLATIONS = {
    "first line": ("## kernel scale:", "## kernel scala:", "first line is not `## kernel scale:"),
    "no purpose": (" y[i] = a * x[i], and the sum of several", "", "first line is not"),
    "free name": ("= a * x[i * ", "= ${alpha} * x[i * ", "not arguments of the def: ['alpha']"),
    "other def's argument": ("(const int n", "(const int n${inputs}", "['inputs']"),
    "module code": ("<%namespace", "<%! import os %><%namespace", "has module code"),
    "text outside": ("<%namespace", "typedef int x;<%namespace", "text outside a def: 'typedef"),
    "offset missing": ("*y, const long y_offset", "*y", "total: no `const long y_offset` follows"),
    "offset not next": (
        'const long y_offset, ${source("x", ctype)}',
        '${source("x", ctype)}, const long y_offset',
        "scale: no `const long y_offset` follows the pointer y",
    ),
    "offset of another type": (
        "const long y_offset",
        "const int y_offset",
        "follows the pointer y",
    ),
    "offset of a helper": ("const long ${name}_offset", "const long ${name}", "the pointer x{}"),
    "offset documented": (
        "## arg    x: in",
        "## arg    y_offset: long\n## arg    x: in",
        "say ['n', 'y', 'y_offset', 'x', 'a']",
    ),
    "offset not read": ("    x += x_offset;\n", "", "scale: x_offset is never read"),
    "param missing": ("## param  unroll", "## about  unroll", "`## param` lines say ['ctype', 'in"),
    "param too many": ("## param  ctype", "## param  size: int\n## param  ctype", "'size'"),
    "param without type": ("## param  inputs: int ", "## param  inputs ", "`## param` lines say"),
    "arg missing": ("## arg    a: ctype\n", "", "scale: the `## arg` lines say ['n', 'y', 'x'],"),
    "arg order": (
        "## arg    y: out ctype[n]\n## arg    x: in ctype[n]",
        "## arg    x: in ctype[n]\n## arg    y: out ctype[n]",
        "say ['n', 'x', 'y', 'a'], __kernel has ['n', 'y', 'x', 'a']",
    ),
    "helper unknown": ('${source("x", ctype)}', '${sink("x")}', "__kernel has ['n', 'y', '{}'"),
    "arg of a loop": (
        "## arg    x{i}:",
        "## arg    x:",
        "say ['y', 'x'], __kernel has ['y', 'x{}']",
    ),
    "unknown def": ("## def    total", "## def    sum", "sum: documented, but there is no such"),
    "direction missing": ("x: in ctype[n]", "x: ctype[n]", "x is a pointer, but not in, out"),
    "input not const": (
        "__global const ${ctype} *restrict ${name},",
        "__global ${ctype} *${name},",
        "x is in,",
    ),
    "output const": ("__global ${ctype} *y,", "__global const ${ctype} *y,", "y is inout, which"),
    "two kernels": (
        "{\n    y += y_offset",
        "{}\n__kernel void b() {\n    y += y_offset",
        "holds 2 kernels",
    ),
    "preprocessor": ("    ${guard", "#if A\n    ${guard", "branches with the preprocessor"),
    "width": ("    x += x_offset;", f"    x += x_offset; {'/' * 82}", "has 101 columns"),
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
    start, end = SCALE.index('<%def name="total'), SCALE.index('<%def name="source')
    text = re.sub(r"## (def  |param  inputs).*\n", "", SCALE[:start] + SCALE[end:])
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


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.name)
def test_a_kernel_asks_about_its_work_item_by_numbers_of_axes(path):
    asked = re.findall(r"\bget_(?:global|local|group|num)_\w+\(([^)]*)\)", path.read_text())
    assert {a.strip() for a in asked} <= {"0", "1", "2"}, (
        "clnet/device/apart.py gives a body what it asks for, and cannot know which axis that is"
    )


@pytest.mark.parametrize(
    "path",
    [
        path
        for path in TEMPLATES
        if "CLK_GLOBAL_MEM_FENCE" in path.read_text() and "\n## arg" in path.read_text()
    ],
    ids=lambda path: path.stem,
)
def test_work_items_tell_each_other_through_arrays_that_may_alias(path):
    text = path.read_text()
    kernels = re.findall(r'<%def name="(\w+)\(.*?\n</%def>', text, re.DOTALL)
    telling = {k for k in kernels if "CLK_GLOBAL_MEM_FENCE" in body_of(text, k)}
    section, written = kernels, []
    for line in text.split("\n"):
        if found := re.match(r"## def\s+(.*)", line):
            section = re.split(r",\s*", found[1])
        elif re.match(r"## arg\s+[\w{}, ]+: (out|inout) ", line) and telling & set(section):
            written.append(line)
    assert written
    assert not [line for line in written if ", may alias" not in line]


def body_of(text, kernel):
    return text.split(f'<%def name="{kernel}(')[1].split("</%def>")[0]
