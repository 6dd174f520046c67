"""Draws calls: Python text that means the same in clnet and in PyTorch, valid or hostile.

A call comes from a valid one of ``ci/torch_cases.py``, whose tensors are laid out, converted and
cut otherwise and one or two of whose arguments are replaced, or is made from a name's signature.
The same seed draws the same text.
"""

from __future__ import annotations

import ast
import inspect
import random
import re
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

from ci import torch_cases as cases
from ci import torch_further as further

from .surface import parameters, surface

NUMBERS = (
    *("0", "1", "2", "3", "-1", "-2", "7", "0.5", "-0.5", "1.5", "True", "False"),
    *("np.int64(2)", "np.int32(1)", "np.uint8(1)", "np.float32(0.5)", "np.float64(1.5)"),
    *("np.bool_(True)", "np.float16(0.5)", "np.array(2)", "np.array(0.5)", "m.tensor(1)"),
    "m.tensor(0.5)",
)
FAR = (
    *("2**70", "-2**70", "2**63", "-2**63 - 1", "2**31", "300", "-129", "10**9", "1e300", "-1e39"),
    *("float('nan')", "float('inf')", "-float('inf')", "1e-320", "10**400"),
)
OTHERS = (
    *("None", "'abc'", "''", "b'x'", "[]", "()", "{}", "{1}", "object()", "int", "float", "1j"),
    *("[1, 'a']", "[1, 2]", "(1, 2, 3)", "(0, 1)", "[None]", "lambda *a: 0", "slice(1)", "..."),
    *("range(3)", "m.float32", "m.int64", "m.bool", "np.float32", "'float32'", "'cpu'", "[[1]]"),
    *("np.array([1, 2])", "np.array(['a'])", "np.array([1j])", "np.ones((2, 2))", "(0,)", "(-1,)"),
    *("(1,) * 70", "(2**40,)", "(10**5, 10**5)", "[2**62]", "[0.5]", "[float('nan')]", "(2, -1)"),
    *("'mean'", "'sum'", "'none'", "(x, y)", "[x, None]", "m", "'same'", "[True]", "(2**70,)"),
)
TENSORS = ("x", "y", "p", "u", "v", "w3", "w4", "square", "t", "image", "i", "j", "c", "index")
LAYOUTS = ("transposed", "strided", "expanded", "offset")
DTYPES = ("float64", "float16", "bfloat16", "int64", "int32", "int16", "uint8", "bool")
CUTS = ("[:0]", "[:1]", "[0]", "[..., :1]", "[None]", "[..., 0]", ".flatten()", "[..., :0]")
KEYWORDS = ("dim", "keepdim", "dtype", "out", "device", "requires_grad", "inplace", "no_such_name")
_FLOATS = frozenset("x y p u u2 v w3 w4 square t image blocks volume kernel columns".split())
_INPUTS = frozenset(cases.inputs())


@cache
def recipes() -> tuple[tuple[str, str], ...]:
    """Valid calls, and the name each is a call of."""
    plain = [*cases.CALLS.split("\n"), *further.CALLS.split("\n"), *cases.DRAWN.split("\n")]
    plain += [*cases.IN_PLACE.split("\n"), *further.IN_PLACE.split("\n")]
    texts = [line for line in plain if line]
    for line in list(texts):
        method = re.match(r"m\.(\w+)\((\w+)(?:, (?=.)|(?=\)))(.*)$", line)
        if method and f"x.{method[1]}" in surface() and method[1] != "where":
            texts.append(f"{method[2]}.{method[1]}({method[3]}")
    for line in filter(None, cases.LAYERS.split("\n")):
        making, given = line.split(" | ")
        texts.append(f"run({making}, {given})")
    texts += [f"steps({line})" for line in cases.OPTIMISER_CALLS.split("\n") if line]
    texts += [f"rates({line})" for line in cases.SCHEDULER_CALLS.split("\n") if line]
    texts += MORE.strip().split("\n")
    return tuple((name_of(text), text) for text in texts)


MORE = """
nn.init.uniform_(m.empty(3, 4))
nn.init.constant_(m.empty(3, 4), 2.0)
nn.init.calculate_gain("relu")
nn.init.eye_(m.empty(3, 4))
nn.init.orthogonal_(m.empty(3, 4))
nn.init.kaiming_uniform_(m.empty(3, 4))
nn.init.xavier_normal_(m.empty(3, 4))
nn.init.dirac_(m.empty(3, 4, 2))
nn.utils.clip_grad_norm_(weights, 1.0)
nn.utils.clip_grad_value_(weights, 1.0)
nn.utils.parameters_to_vector(weights)
nn.utils.rnn.pad_sequence([x, y], True)
nn.utils.rnn.pack_sequence([x, y])
m.autograd.grad(m.square(x).sum(), x)
m.normal(x, p)
m.tensor([[1, 2], [3, 4]], dtype=m.float32)
m.as_tensor([1.5, 2.0], dtype=m.float64)
m.from_numpy(np.ones((2, 3), np.float32))
m.empty(2, 3).uniform_(0, 1)
m.empty(2, 3).normal_(0, 1)
m.empty(2, 3).random_(0, 5)
m.empty(2, 3).bernoulli_(0.5)
m.logspace(0, 2, 3)
m.sum(x, 1, dtype=m.float64)
m.zeros((2, 3), dtype=m.int64)
m.arange(5, dtype=m.float32)
m.nn.Parameter(x.detach())
x[1]
x[i.abs() % 3, 0]
x[..., 1:3]
x + 1
x - 2.5
1 / p
x ** 2
m.fft.fft(x)
m.fft.ifft(x, 6, 0, "ortho")
m.fft.rfft(x, 5)
m.fft.irfft(m.fft.rfft(x), 4)
m.fft.hfft(x + 1j, 6)
m.fft.ihfft(x, norm="forward")
m.fft.fftn(t, (2, 4), (0, 2))
m.fft.ifft2(square, norm="ortho")
m.fft.rfftn(t)
m.fft.irfft2(t + 1j)
m.fft.hfftn(t + 0j, (3, 4))
m.fft.ihfft2(square)
m.fft.fftshift(m.fft.fftfreq(5, 0.5))
m.fft.ifftshift(x, 1)
m.fft.rfftfreq(6, d=2.0)
m.special.entr(u)
m.special.ndtri(u)
m.special.log_ndtr(x)
m.special.erfcx(x)
m.special.i1e(x)
m.special.bessel_y1(p)
m.special.zeta(p, u)
m.special.xlog1py(x, p)
m.special.gammaincc(p, u)
m.special.polygamma(2, p)
m.special.multigammaln(p, 2)
m.special.hermite_polynomial_h(x, j)
m.special.chebyshev_polynomial_t(x, 3)
m.special.softmax(x, 1)
m.special.scaled_modified_bessel_k1(p)
m.func.grad(lambda a: (a ** 3).sum())(x)
m.func.grad_and_value(lambda a, b: (a * b).sum(), argnums=(0, 1))(x, y)
m.func.jacrev(lambda a: a.cumsum(0))(v)
m.func.jacfwd(lambda a, b: a * b, argnums=1)(v, v)
m.func.hessian(lambda a: (a ** 3).sum())(v)
m.func.jvp(lambda a: a.sin(), (x,), (y,))
m.func.vjp(lambda a: a.exp(), x)[1](y)
m.func.vmap(lambda a, b: a * b, in_dims=(1, None), out_dims=1)(x, w3)
m.distributions.Normal(x, p).log_prob(y)
m.distributions.Normal(0.0, w4).cdf(x)
m.distributions.LogNormal(x, p).entropy()
m.distributions.Uniform(0.0, p).log_prob(u)
m.distributions.Gamma(p, w4).log_prob(u)
m.distributions.Beta(p, u).log_prob(u2)
m.distributions.Dirichlet(p).entropy()
m.distributions.Poisson(p).log_prob(j)
m.distributions.Exponential(p).icdf(u)
m.distributions.Laplace(x, 1.5).icdf(u)
m.distributions.Gumbel(x, p).cdf(y)
m.distributions.Cauchy(x, p).log_prob(y)
m.distributions.HalfNormal(p).log_prob(u)
m.distributions.StudentT(p, x).log_prob(y)
m.distributions.Bernoulli(logits=x).log_prob(c.float())
m.distributions.Binomial(9, u).log_prob(j)
m.distributions.Categorical(u).log_prob(index)
m.distributions.OneHotCategorical(logits=x).entropy()
m.distributions.Multinomial(10, u).log_prob(j)
m.distributions.Geometric(u).log_prob(j)
m.distributions.Pareto(u, p).log_prob(p + 1)
m.distributions.Weibull(p, u).log_prob(u2)
m.distributions.Kumaraswamy(p, u).log_prob(u2)
m.distributions.MultivariateNormal(v, square @ square.T + m.eye(4)).log_prob(x)
m.distributions.Independent(m.distributions.Normal(x, p), 1).log_prob(y)
m.distributions.MixtureSameFamily(m.distributions.Categorical(w4), m.distributions.Chi2(w4)).mean
m.distributions.kl_divergence(m.distributions.Normal(x, p), m.distributions.Normal(y, u))
m.distributions.kl_divergence(m.distributions.Gamma(p, u), m.distributions.Gamma(u, u2))
m.distributions.Chi2(p).log_prob(u)
m.distributions.FisherSnedecor(p, u).log_prob(u2)
m.distributions.InverseGamma(p, u).log_prob(u2)
m.distributions.HalfCauchy(p).cdf(u)
i // 2
i % 3
x < 0.5
x == y
x @ square
"""


def name_of(text: str) -> str:
    """The name that a call is a call of, as :func:`surface` has it; empty for operators."""
    found = re.search(r"\b(m|F|nn|optim|schedule)((?:\.(?:\w+))+)\(", text)
    if found and text.startswith((found[0], f"run({found[0]}", "steps(", "rates(")):
        return found[1] + found[2]
    method = re.search(r"\.(\w+)\([^.]*$", text) or re.search(r"\.(\w+)\(", text)
    return f"x.{method[1]}" if method else ""


def calls(seed: int, count: int, first: int = 0) -> Iterator[str]:
    """``count`` calls, from a position of the endless row that the seed begins."""
    for position in range(first, first + count):
        yield call(seed, position)


def call(seed: int, position: int) -> str:
    """The call at a position of a seed's row."""
    rng = random.Random(f"{seed} {position}")
    if rng.random() < 0.2:
        return ast.unparse(ast.parse(_from_signature(rng), mode="eval"))
    _, text = rng.choice(recipes())
    tree = ast.parse(text, mode="eval")
    for change in rng.choices((_vary, _replace, _extend), (45, 45, 10), k=rng.choice((1, 1, 2))):
        tree = change(rng, tree)
    return ast.unparse(ast.fix_missing_locations(tree))


def _vary(rng: random.Random, tree: ast.Expression) -> ast.Expression:
    """Tensors in other layouts, dtypes and shapes."""
    kind = rng.random()
    if kind < 0.4:
        layout = rng.choice(LAYOUTS)
        return _rename(rng, tree, _INPUTS, f"lay({{}}, {layout!r})", least=0.5)
    if kind < 0.7:
        return _rename(rng, tree, _FLOATS, f"{{}}.to(m.{rng.choice(DTYPES)})", least=1.0)
    return _rename(rng, tree, _INPUTS, f"{{}}{rng.choice(CUTS)}", least=rng.choice((1.0, 0.5)))


def _rename(
    rng: random.Random, tree: ast.Expression, names: Any, pattern: str, *, least: float
) -> ast.Expression:
    """Each input of ``names`` wrapped by a pattern, with a probability."""
    chosen = {name for name in sorted(names) if rng.random() < least}

    class Wrap(ast.NodeTransformer):
        def visit_Name(self, node: ast.Name) -> ast.AST:
            if node.id not in chosen:
                return node
            return ast.parse(pattern.format(node.id), mode="eval").body

    return Wrap().visit(tree)


def _replace(rng: random.Random, tree: ast.Expression) -> ast.Expression:
    """One argument of a call, or one element of a sequence, replaced, dropped or doubled."""
    slots = list(_slots(tree))
    if not slots:
        return tree
    holder, key = rng.choice(slots)
    if isinstance(holder, list) and rng.random() < 0.1:
        if rng.random() < 0.5:
            del holder[key]
        else:
            holder.insert(key, holder[key])
        return tree
    value = ast.parse(_hostile(rng), mode="eval").body
    if isinstance(holder, list):
        holder[key] = value
    else:
        setattr(holder, key, value)
    return tree


def _slots(tree: ast.AST) -> Iterator[tuple[Any, Any]]:
    inside = {  # what a drawn function does wrong is its own
        id(part) for node in ast.walk(tree) if isinstance(node, ast.Lambda)
        for part in ast.walk(node)
    }  # fmt: skip
    for node in (n for n in ast.walk(tree) if id(n) not in inside):
        if isinstance(node, ast.Call):
            yield from ((node.args, k) for k in range(len(node.args)))
            yield from ((keyword, "value") for keyword in node.keywords)
        elif isinstance(node, ast.Tuple | ast.List):
            yield from ((node.elts, k) for k in range(len(node.elts)))
        elif isinstance(node, ast.Subscript):
            yield node, "slice"
        elif isinstance(node, ast.BinOp):
            if not isinstance(node.op, ast.Pow) or not isinstance(node.left, ast.Constant):
                yield node, "right"  # a power of two numbers is Python's, and may take it years
        elif isinstance(node, ast.Compare):
            yield from ((node.comparators, k) for k in range(len(node.comparators)))


def _hostile(rng: random.Random) -> str:
    return rng.choice(rng.choices((NUMBERS, FAR, OTHERS, TENSORS), (35, 20, 30, 15))[0])


def _extend(rng: random.Random, tree: ast.Expression) -> ast.Expression:
    """One more keyword: one of the function's own, or one that it does not have."""
    made = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    if not made:
        return tree
    node = rng.choice(made)
    function = surface().get(ast.unparse(node.func), surface().get(f"x.{_last(node.func)}"))
    names = [p.name for p in parameters(function)[1:]] if function else []
    name = rng.choice((*names, rng.choice(KEYWORDS)))
    if name not in {k.arg for k in node.keywords}:
        value = ast.parse(_suited(rng, name, "") if rng.random() < 0.5 else _hostile(rng))
        node.keywords.append(ast.keyword(name, value.body[0].value))  # pyrefly: ignore[missing-attribute]
    return tree


def _last(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else ""


def _from_signature(rng: random.Random) -> str:
    """A call of any name with arguments that its signature asks for, one of them hostile."""
    name = rng.choice(tuple(surface()))
    function = surface()[name]
    first = rng.choice(TENSORS)
    text = f"{first}.{name[2:]}" if name.startswith("x.") else name
    given: list[str] = []
    spoilt = rng.random() < 0.4
    for p in parameters(function)[1 if name.startswith("x.") else 0 :]:
        if p.default is not p.empty and rng.random() < 0.6:
            continue
        if p.kind is p.VAR_KEYWORD:
            continue
        hostile = spoilt and rng.random() < 0.4
        value = _hostile(rng) if hostile else _suited(rng, p.name, str(p.annotation), p.default)
        named = p.kind is p.KEYWORD_ONLY or (given and "=" in given[-1].split("(")[0])
        skipped = p.kind is p.POSITIONAL_OR_KEYWORD and p.default is not p.empty
        given.append(f"{p.name}={value}" if named or skipped else value)
    return _wrapped(rng, f"{text}({', '.join(given)})", name, function)


def _wrapped(rng: random.Random, text: str, name: str, function: Callable[..., Any]) -> str:
    if name.startswith("optim."):
        return f"steps({text})"
    if name.startswith("schedule."):
        return f"rates({text})"
    if name.startswith("m.distributions.") and inspect.isclass(function):
        return f"{text}.log_prob({rng.choice(TENSORS)})"
    if name.startswith("nn.") and inspect.isclass(function) and hasattr(function, "forward"):
        return f"run({text}, {rng.choice(TENSORS)})"
    return text


_BY_NAME = {
    "dtype": ("m.float32", "m.float64", "m.int64", "m.float16", "m.bool"),
    "device": ("None", "'cpu'"),
    "out": ("x.detach()", "None", "i"),
    "dim": ("0", "1", "-1", "(0, 1)", "None"),
    "size": ("(2, 3)", "3", "()", "(0, 2)"),
    "shape": ("(2, 6)", "(-1,)", "(12,)", "()"),
    "index": ("index", "places", "0", "1"),
    "target": ("y", "index", "u2", "signs"),
    "params": ("weights",),
    "optimizer": ("o",),
    "generator": ("None", "m.Generator()"),
    "reduction": ("'mean'", "'sum'", "'none'"),
    "mode": ("'nearest'", "'bilinear'", "'mean'", "'constant'", "'max'"),
    "tensors": ("(x, y)", "[v, v]", "(x,)"),
    "mask": ("c",),
    "condition": ("c",),
    "closure": ("None",),
}
_BY_TYPE = {
    "Tensor": TENSORS,
    "bool": ("True", "False"),
    "int": ("0", "1", "2", "3", "-1"),
    "float": ("0.5", "1.0", "2", "0.1", "0.0"),
    "Sequence": ("(1, 2)", "(2,)", "[0, 1]", "(2, 2)"),
    "Sizes": ("1", "2", "(1, 2)", "3"),
    "Callable": ("lambda a=1, *b: a * 2",),
    "Operand": (*TENSORS, "0.5", "2"),
    "Module": ("nn.Linear(4, 4)",),
}


def _suited(rng: random.Random, name: str, kind: str, default: Any = None) -> str:
    """A value as a parameter's name, annotation or default asks for."""
    if name in _BY_NAME:
        return rng.choice(_BY_NAME[name])
    if not kind and isinstance(default, bool | int | float | str):
        return repr(default)
    for word, values in _BY_TYPE.items():
        if re.search(rf"\b{word}", kind):
            return rng.choice(values)
    return rng.choice((*TENSORS, "1", "2", "0.5", "(1, 2)"))
