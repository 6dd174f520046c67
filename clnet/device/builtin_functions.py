"""Declarations of OpenCL C's built-in functions: only of those that a text names.

PoCL reads clang's header of all built-ins again for each program, 18,552 lines, which takes 0.13 of
the 0.15 seconds in which an empty kernel is parsed. A text names some ten of them. Here are all
overloads of each (OpenCL 1.2, sections 6.12.1 to 6.12.11), with the header's attributes: so a call
resolves to the same function as with the header, and the binary is the same.
``tests/device/test_builtin_functions.py`` compares them with a header where one is installed.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from ..values.pattern import pattern

POCL = "Portable Computing Language"  # the platform whose compiler reads a header
# What keeps clang's header, and PoCL's that reads it, from being read.
WITHOUT_HEADER = "-D_OPENCL_H_"

_WIDTHS = ("", "2", "3", "4", "8", "16")
_SIGNED = ("char", "short", "int", "long")
_INTEGERS = tuple(name for signed in _SIGNED for name in (signed, f"u{signed}"))
_REALS = ("float", "double", "half")
# Types that a device may lack; their overloads stand in an #ifdef of the extension.
_EXTENSION = {"double": "cl_khr_fp64", "half": "cl_khr_fp16"}
# A comparison of these gives integers of their size.
_MASK = {"float": "int", "double": "long", "half": "short"}
_SPACES = ("__global", "__local", "__private")

# By kind: the types that overloads are for, and one line an overload. T is the type, E its
# element, I an int and M a mask of T's width, U the unsigned T. A line that begins with "vector" is
# for widths from 2 on.
_KINDS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "unary": (_REALS, ("{T} {name}({T})",)),
    "binary": (_REALS, ("{T} {name}({T}, {T})",)),
    "ternary": (_REALS, ("{T} {name}({T}, {T}, {T})",)),
    "extremum": (_REALS, ("{T} {name}({T}, {T})", "vector {T} {name}({T}, {E})")),
    "exponent": (_REALS, ("{T} {name}({T}, {I})", "vector {T} {name}({T}, int)")),
    "power": (_REALS, ("{T} {name}({T}, {I})",)),
    "two results": (_REALS, tuple(f"{{T}} {{name}}({{T}}, {space} {{I}} *)" for space in _SPACES)),
    "test": (_REALS, ("{M} {name}({T})",)),
    "comparison": (_REALS, ("{M} {name}({T}, {T})",)),
    "magnitude": (_INTEGERS, ("{U} {name}({T})",)),
    "difference": (_INTEGERS, ("{U} {name}({T}, {T})",)),
    "integer": (_INTEGERS, ("{T} {name}({T})",)),
    "integers": (_INTEGERS, ("{T} {name}({T}, {T})",)),
    "three integers": (_INTEGERS, ("{T} {name}({T}, {T}, {T})",)),
    "short product": (("int", "uint"), ("{T} {name}({T}, {T})",)),
    "short product and sum": (("int", "uint"), ("{T} {name}({T}, {T}, {T})",)),
    "bound": (_INTEGERS + _REALS, ("{T} {name}({T}, {T})", "vector {T} {name}({T}, {E})")),
    "bounds": (
        _INTEGERS + _REALS,
        ("{T} {name}({T}, {T}, {T})", "vector {T} {name}({T}, {E}, {E})"),
    ),
    "truth": (_SIGNED, ("int {name}({T})",)),
    "hint": (_INTEGERS + _REALS, ("void {name}(const __global {T} *, size_t)",)),
}
_NAMES = {
    "unary": "acos acosh acospi asin asinh asinpi atan atanh atanpi cbrt ceil cos cosh cospi"
    " degrees erf erfc exp exp10 exp2 expm1 fabs floor lgamma log log10 log1p log2 logb radians"
    " rint round rsqrt sign sin sinh sinpi sqrt tan tanh tanpi tgamma trunc",
    "binary": "atan2 atan2pi copysign fdim fmod hypot maxmag minmag nextafter pow powr remainder",
    "ternary": "fma mad",
    "extremum": "fmax fmin",
    "exponent": "ldexp",
    "power": "pown rootn",
    "two results": "frexp lgamma_r",
    "test": "isfinite isinf isnan isnormal signbit",
    "comparison": "isequal isnotequal isgreater isgreaterequal isless islessequal islessgreater"
    " isordered isunordered",
    "magnitude": "abs",
    "difference": "abs_diff",
    "integer": "clz popcount",
    "integers": "add_sat hadd mul_hi rhadd rotate sub_sat",
    "three integers": "mad_hi mad_sat",
    "short product": "mul24",
    "short product and sum": "mad24",
    "bound": "max min",
    "bounds": "clamp",
    "truth": "all any",
    "hint": "prefetch",
}
_KIND_OF = {name: kind for kind, names in _NAMES.items() for name in names.split()}
_CONST = "__attribute__((overloadable, const))"
_PURE = "__attribute__((overloadable, pure))"
_PLAIN = "__attribute__((overloadable))"
_WORK_ITEM = {
    "get_work_dim": "uint {}(void)",
    **dict.fromkeys(
        ("get_global_size", "get_global_id", "get_local_size", "get_local_id", "get_num_groups"),
        "size_t {}(uint)",
    ),
    **dict.fromkeys(("get_group_id", "get_global_offset"), "size_t {}(uint)"),
}
_FENCES = {
    "barrier": "__attribute__((overloadable, convergent)) void {}(cl_mem_fence_flags)",
    **dict.fromkeys(
        ("mem_fence", "read_mem_fence", "write_mem_fence"), _PLAIN + " void {}(cl_mem_fence_flags)"
    ),
}
_ATOMICS = {
    **dict.fromkeys(
        ("add", "sub", "and", "or", "xor", "min", "max"), "{type} {name}(volatile {at} *, {type})"
    ),
    **dict.fromkeys(("inc", "dec"), "{type} {name}(volatile {at} *)"),
    "cmpxchg": "{type} {name}(volatile {at} *, {type}, {type})",
    "xchg": "{type} {name}(volatile {at} *, {type})",
}
_CONVERSION = pattern(
    r"convert_(u?char|u?short|u?int|u?long|float|double|half)(2|3|4|8|16|)(_sat)?(?:_rt[ezpn])?"
)
_VECTOR_ACCESS = pattern(r"(vload|vstore)(2|3|4|8|16)")
_HALF_ACCESS = pattern(r"(vload|vstore)a?_half(2|3|4|8|16|)(?:_rt[ezpn])?")
_WORD = pattern(r"[A-Za-z_]\w*")


def declarations(text: str) -> str:
    """What OpenCL C of version 1.2 needs in place of the header of built-in functions.

    A function that is not known here is not declared: the compiler then refuses the text, where
    with the header it may take it.

    Args:
        text: OpenCL C.

    Returns:
        Declarations of all overloads of each built-in function that is named in it.
    """
    words = sorted(set(_WORD.findall(text)))
    return "".join(f"{line}\n" for word in words for line in _overloads(word))


@cache
def _overloads(name: str) -> tuple[str, ...]:
    """The declarations of a function; none where it is not known."""
    if name in _KIND_OF:
        return tuple(_of_kind(name, *_KINDS[_KIND_OF[name]]))
    if name in _WORK_ITEM:
        return (f"{_CONST} {_WORK_ITEM[name].format(name)};",)
    if name in _FENCES:
        return (f"{_FENCES[name].format(name)};",)
    if name == "select":
        return tuple(_selections())
    if name.startswith("atomic_") and name[7:] in _ATOMICS:
        return tuple(_atomics(name, _ATOMICS[name[7:]]))
    if found := _CONVERSION.fullmatch(name):
        return tuple(_conversions(name, found[1], found[2]))
    if found := _VECTOR_ACCESS.fullmatch(name):
        return tuple(_accesses(name, found[1], found[2], _INTEGERS + _REALS, stored=None))
    if found := _HALF_ACCESS.fullmatch(name):
        values = ("float",) if found[1] == "vload" else ("float", "double")
        return tuple(_accesses(name, found[1], found[2], values, stored="half"))
    return ()


def _where(declared: str, *types: str) -> str:
    """A declaration, for devices that have its types."""
    for type_ in types:
        if type_ in _EXTENSION:
            declared = f"#ifdef {_EXTENSION[type_]}\n{declared}\n#endif"
    return declared


def _of_kind(name: str, types: tuple[str, ...], lines: tuple[str, ...]) -> Iterator[str]:
    for type_ in types:
        for width in _WIDTHS:
            meaning = {
                "T": type_ + width,
                "E": type_,
                "I": f"int{width}",
                "M": _MASK.get(type_, type_) + width if width else "int",
                "U": (type_ if type_[0] == "u" else f"u{type_}") + width,
            }
            for line in lines:
                if width or not line.startswith("vector "):
                    declared = line.removeprefix("vector ").format(name=name, **meaning)
                    attributes = _PLAIN if "*" in declared else _CONST
                    yield _where(f"{attributes} {declared};", type_)


def _selections() -> Iterator[str]:
    """``select(a, b, c)``: c is an integer of the size of a, signed or not."""
    for type_ in _INTEGERS + _REALS:
        signed = _MASK.get(type_, type_.removeprefix("u"))
        for width in _WIDTHS:
            t = type_ + width
            for mask in (signed, f"u{signed}"):
                yield _where(f"{_CONST} {t} select({t}, {t}, {mask}{width});", type_)


def _atomics(name: str, line: str) -> Iterator[str]:
    types = ("int", "uint", "float") if name == "atomic_xchg" else ("int", "uint")
    for type_ in types:
        for space in ("__global", "__local"):
            spelled = line.format(type=type_, name=name, at=f"{space} {type_}")
            yield f"{_PLAIN} {spelled};"


def _conversions(name: str, type_: str, width: str) -> Iterator[str]:
    for source in _INTEGERS + _REALS:
        yield _where(f"{_CONST} {type_}{width} {name}({source}{width});", type_, source)


def _accesses(
    name: str, what: str, width: str, values: tuple[str, ...], *, stored: str | None
) -> Iterator[str]:
    """``vload`` and ``vstore``; ``stored``: the type in memory, where it is not that of values."""
    for value in values:
        at = stored or value
        needed = (value,) if stored else (value, at)  # a pointer to half needs no extension
        if what == "vload":
            for space in ("__constant", *_SPACES):
                yield _where(
                    f"{_PURE} {value}{width} {name}(size_t, const {space} {at} *);", *needed
                )
        else:
            for space in _SPACES:
                yield _where(
                    f"{_PLAIN} void {name}({value}{width}, size_t, {space} {at} *);", *needed
                )
