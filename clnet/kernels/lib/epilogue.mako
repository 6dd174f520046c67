## lib epilogue: what a product goes through before it is stored
##
## param activation: None|'relu'   applied last
## param value: str                a C expression of type `type`
## param type: str                 OpenCL scalar or vector type
<%def name="activate(activation, value, type)">
% if activation == "relu":
((${value}) < 0 ? (${type})(0) : (${value}))
% else:
(${value})
% endif
</%def>
