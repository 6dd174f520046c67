## lib total: the sum of a vector's lanes, by halves: a fixed tree
##
## param    ctype: str           OpenCL element type
## param    simd: 2|4|8|16       lanes
## param    name: str            the vector; the sum is declared as `sum`
<%def name="of(ctype, simd, name)">
<% half, previous = simd // 2, name %>
% while half > 1:
const ${ctype}${half} half${half} = ${previous}.lo + ${previous}.hi;
<% previous, half = f"half{half}", half // 2 %>
% endwhile
const ${ctype} sum = ${previous}.lo + ${previous}.hi;
</%def>
