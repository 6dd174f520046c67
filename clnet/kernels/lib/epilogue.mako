## lib epilogue: what a product goes through before it is stored
##
## param activation: None|'relu'|'least'|VectorActivation  applied last; 'least': 0 for less than a
##                                 variable `least`; C text, which blocked convolutions alone
##                                 have, is that of a vector `result`, and `define`d before
## param value: str                a C expression of type `type`
## param names: list[str]          variables of type `type`
## param name: str                 of a function
## param printed: Printed          its value
## param type: str                 OpenCL scalar or vector type
## param width: int                lanes of that vector of floats
## numerics C text: contraction off, the bits of pointwise.mako
<%namespace name="elementary" file="elementary.mako"/>
<%def name="define(activation, width)">
% if activation not in (None, "relu", "least"):
#pragma OPENCL FP_CONTRACT OFF
${function("activated", activation.one, width)}
% if activation.two:
${function("activated_two", activation.two, 2 * width)}
% endif
#pragma OPENCL FP_CONTRACT ON
% endif
</%def>
<%def name="function(name, printed, width)">
${elementary.define(printed.functions, "float", width)}
inline float${width} ${name}(const float${width} result)
{
% for statement in printed.statements:
    ${statement}
% endfor
    return ${printed.results[0]};
}
</%def>
<%def name="activate(activation, value, type)">
% if activation in ("relu", "least"):
((${value}) < ${"least" if activation == "least" else 0} ? (${type})(0) : (${value}))
% elif activation:
activated(${value})
% else:
(${value})
% endif
</%def>
##
## Applied to variables in place, two in one vector where there is one: an exponential's chain of
## instructions is long, and a processor does not look far enough ahead to begin the next.
<%def name="activate_each(activation, names, type, width)">
<% two = activation not in (None, "relu", "least") and activation.two %>
% if activation:
% for i in range(0, len(names), 2 if two else 1):
% if two and i + 1 < len(names):
                        {
                            const float${2 * width} both = activated_two(
                                (float${2 * width})(${names[i]}, ${names[i + 1]}));
                            ${names[i]} = both.lo;
                            ${names[i + 1]} = both.hi;
                        }
% else:
                        ${names[i]} = ${activate(activation, names[i], type)};
% endif
% endfor
% endif
</%def>
