## lib epilogue: what a product goes through before it is stored
##
## param activation: None|'relu'|Printed  applied last; C text, which blocked convolutions alone
##                                 have, is that of a vector `result`, and `define`d before
## param value: str                a C expression of type `type`
## param type: str                 OpenCL scalar or vector type
## param width: int                lanes of that vector of floats
## numerics C text: contraction off, the bits of pointwise.mako
<%namespace name="elementary" file="elementary.mako"/>
<%def name="define(activation, width)">
% if activation and activation != "relu":
#pragma OPENCL FP_CONTRACT OFF
${elementary.define(activation.functions, "float", width)}
inline float${width} activated(const float${width} result)
{
% for statement in activation.statements:
    ${statement}
% endfor
    return ${activation.results[0]};
}
#pragma OPENCL FP_CONTRACT ON
% endif
</%def>
<%def name="activate(activation, value, type)">
% if activation == "relu":
((${value}) < 0 ? (${type})(0) : (${value}))
% elif activation:
activated(${value})
% else:
(${value})
% endif
</%def>
