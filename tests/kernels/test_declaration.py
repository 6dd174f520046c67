"""A kernel's arguments are declared once, in the header of its template, and given by name."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from clnet.errors import TemplateError
from clnet.kernels import kernel, template
from clnet.kernels.declaration import declarations
from clnet.kernels.kernel import Arguments, Kernel, by_name, joined

SUMS = """\
## kernel sums: y[i] = x_0[i] + x_1[i] ...
##
## param  ctype: str
## param  inputs: tuple[str]         types of the arrays
## param  biased: bool
## def    sums
## arg    n, m: int                  elements; a line may declare several
## arg    y: out ctype[n]
## % for j, kind in enumerate(inputs):
## arg    x_{j}: in kind[n], may alias
## arg    step_{j}: long             its step
## % endfor
## % if biased:
## arg    bias: in {ctype}4          four of them
## % else:
## arg    value: ctype
## % endif
## def    zeros
## arg    y: out bfloat16
## arg    fault: inout int           where to report
## arg    site: int
<%def name="sums(ctype, inputs, biased)">
__kernel void sums(...) {}
</%def>
<%def name="zeros()">
__kernel void zeros(...) {}
</%def>
"""
PARAMS = {"ctype": "float", "inputs": ("int", "half"), "biased": True}


def test_a_header_declares_arguments():
    sums = declarations(SUMS)["sums"]
    assert sums.parameters == {"ctype": "str", "inputs": "tuple[str]", "biased": "bool"}
    assert [a.written for a in sums.arguments(PARAMS)] == [
        *("n", "m", "y", "x_0", "step_0", "x_1", "step_1", "bias")
    ]
    assert [a.text for a in sums.arguments(PARAMS | {"inputs": ("int",)})] == [
        "const int n",
        "const int m",
        "__global float *restrict y, const long y_offset",
        "__global const int *x_0, const long x_0_offset",
        "const long step_0",
        "__global const float4 *restrict bias, const long bias_offset",
    ]
    assert sums.arguments(PARAMS | {"biased": False})[-1].text == "const float value"
    (y, *_) = declarations(SUMS)["zeros"].arguments({})
    assert y.text == "__global ushort *restrict y, const long y_offset"


def test_what_several_kernels_have_is_declared_once():
    one, other = declarations("""\
## def    one
## arg    n: int
## def    all
## arg    y: out float
## def    other
## arg    last: int
<%def name="one()">__kernel void one(...) {}</%def>
<%def name="other()">__kernel void other(...) {}</%def>
""").values()
    assert [a.written for a in one.arguments({})] == ["n", "y"]
    assert [a.written for a in other.arguments({})] == ["y", "last"]


def test_the_list_has_a_pages_width():
    text = declarations(SUMS)["sums"].listed(PARAMS | {"inputs": ("int",) * 9})
    assert text.startswith(
        "(\n    const int n, const int m, __global float *restrict y, const long"
    )
    assert text.count("const long step_") == 9
    assert max(map(len, text.splitlines())) <= 100


@pytest.fixture
def sums(tmp_path, monkeypatch) -> Kernel:
    (tmp_path / "sums.mako").write_text(SUMS)
    monkeypatch.setattr(template, "FOLDER", tmp_path)
    return Kernel("sums", "sums.mako", (kernel.Constraint("inputs", "there are some"),))


def array(storage: str, offset: int) -> Any:
    return SimpleNamespace(storage=storage, offset=offset)


FIRST, SECOND = array("first", 10), array("second", 20)


def args(**changed: object) -> dict[str, object]:
    arrays = {"x_{j}": (FIRST, SECOND), "step_{j}": (1, 2), "bias": array("bias", 0)}
    return {"y": array("result", 3), "n": 5, "m": 6, **arrays, **changed}


def launched(kernel: Kernel, args: Arguments, **params: object) -> tuple[object, ...]:
    sizes = {"global_size": (1,), "local_size": (1,), "flops": 0, "bytes": 0}
    return kernel.launch({**PARAMS, **params}, args, **sizes).args


def test_arguments_are_given_by_name(sums):
    wanted = (5, 6, "result", 3, "first", 10, 1, "second", 20, 2, "bias", 0)
    assert launched(sums, args()) == wanted
    assert launched(sums, dict(reversed(args().items()))) == wanted
    several = joined(
        by_name("m n", 6, 5), {"y": array("result", 3)}, by_name("bias", array("bias", 0))
    )
    pairs = by_name("step_{j} x_{j}", (1, 2), (FIRST, SECOND))
    assert launched(sums, joined(several, pairs)) == wanted
    wanted = (5, 6, "result", 3, "first", 10, 1, 7.0)
    one = {"x_{j}": (FIRST,), "step_{j}": (1,), "value": 7.0}
    assert launched(sums, args(**one, bias=None), inputs=("int",), biased=False) == wanted


@pytest.mark.usefixtures("sums")
def test_what_the_queue_gives_is_not_asked_for():
    sizes = {"global_size": (1,), "local_size": (1,), "flops": 0, "bytes": 0}
    launch = Kernel("zeros", "sums.mako").launch({}, {"y": FIRST}, **sizes)
    assert launch.args == ("first", 10)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        pytest.param({"z": 1}, "got unknown=['z']", id="unknown"),
        pytest.param({"x_{j}": (FIRST,)}, "got values=['1 x_{j} for 2']", id="too few"),
        pytest.param({"step_{j}": (1, 2, 3)}, "got values=['3 step_{j} for 2']", id="too many"),
        pytest.param({"value": 1.0}, "got not_with_these_parameters=['value']", id="of others"),
    ],
)
def test_arguments_that_do_not_fit_are_told(sums, changed, message):
    with pytest.raises(TemplateError, match=r"sums\.mako:sums") as caught:
        launched(sums, args(**changed))
    assert message in str(caught.value)


def test_a_missing_argument_is_told(sums):
    given = args()
    del given["m"]
    with pytest.raises(TemplateError, match=r"(?s)sums\.mako:sums.*got missing=\['m'\]$"):
        launched(sums, given)


def test_parameters_are_the_defs(sums):
    bound = sums.bind(PARAMS)
    assert sums.bind(dict(reversed(PARAMS.items()))) is bound
    assert (
        sums.bind(joined(by_name("biased ctype", True, "float"), {"inputs": ("int", "half")}))
        is bound
    )
    assert bound.params == PARAMS
    with pytest.raises(TemplateError, match=r"(?s)parameters are not those.*unknown=\['lanes'\]"):
        sums.bind({**PARAMS, "lanes": 4})
    with pytest.raises(TemplateError, match=r"(?s)missing=\['ctype'\]"):
        sums.bind({name: PARAMS[name] for name in ("inputs", "biased")})
    with pytest.raises(TemplateError, match="there are some"):
        sums.bind({**PARAMS, "inputs": ()})
