## lib finish: what pointwise expressions make of a product's result, where it is stored
##
## Beside the product's out there are arrays `y_{j}` that are written, `x_{j}` that are read, all of
## them as dense as out, and scalars `s_{j}`.
##
## numerics contraction off, no relaxed mathematics: the bits of pointwise.mako
##
## param finish: FinishParams|None  the expressions, see epilogue.py
## param ctype: str           element type
## param width: int           lanes of the vectors in which results are stored
## param stored: str          type of such a vector in memory
## param printed: Printed     C text of the expressions, of one type
## param lanes: int           of their type
## param at: str              C expression: where the result lies, in elements from out's begin
## param type: str            ctype or a vector of it
## param given: str           C expression of an operand's value
<%namespace name="elementary" file="elementary.mako"/>
##
## Pointers moved on by their offsets, and by `at`.
<%def name="begin(finish, at)">
% if finish:
% for j in range(1, len(finish.wide.results)):
    y_${j} += y_${j}_offset + ${at};
% endfor
% for j in range(finish.reads):
    x_${j} += x_${j}_offset + ${at};
% endfor
% endif
</%def>
##
## Where other arrays are written and the scalars, as parameters of a function, and as its arguments
## for the result `at`.
<%def name="places(finish, ctype)">${"".join(
    [f", __global {ctype} *y_{j}" for j in range(1, len(finish.wide.results))]
    + [f", const {ctype} s_{j}" for j in range(finish.scalars)]) if finish else ""}</%def>
<%def name="passed(finish, at)">${"".join(
    [f", y_{j} + ({at})" for j in range(1, len(finish.wide.results))]
    + [f", s_{j}" for j in range(finish.scalars)]) if finish else ""}</%def>
##
## What is read beside the result, as parameters of a function of some type, and as its arguments:
## `given` is a format with a {} for the operand's number.
<%def name="values(finish, type)">${"".join(
    f", const {type} v_{j}" for j in range(finish.reads)) if finish else ""}</%def>
<%def name="of(finish, given)">${"".join(
    f", {given.format(j)}" for j in range(finish.reads)) if finish else ""}</%def>
##
## Functions finish_<lanes>(result, place in out, values, places ...): they write every array.
<%def name="functions(finish, ctype, width, stored)">
% if finish:
#pragma OPENCL FP_CONTRACT OFF
% if width > 1:
${elementary.define(finish.wide.functions, ctype, width)}
${function(finish, finish.wide, ctype, width, stored)}
% endif
${elementary.define(finish.single.functions, ctype, 1)}
${function(finish, finish.single, ctype, 1, ctype)}
#pragma OPENCL FP_CONTRACT ON
% endif
</%def>
<%def name="function(finish, printed, ctype, lanes, stored)">
<% type = ctype if lanes == 1 else f"{ctype}{lanes}" %>
inline void finish_${lanes}(
    const ${type} result, __global ${ctype} *y_0${values(finish, type)}${places(finish, ctype)})
{
% for statement in printed.statements:
    ${statement}
% endfor
% for j, value in enumerate(printed.results):
    const ${type} z_${j} = ${value};
% endfor
% for j in range(len(printed.results)):
    *(__global ${stored} *)y_${j} = z_${j};
% endfor
}
</%def>
