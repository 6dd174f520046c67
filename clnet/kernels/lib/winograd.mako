## lib winograd: products of Winograd's constant matrices with vectors
##
## param row: tuple           of a matrix
## param given: str           the vectors are given0, given1, ...
<%def name="combine(row, given)">
(${" + ".join(f"{factor}f * {given}{k}" for k, factor in enumerate(row) if factor)})
</%def>
