## lib plane: how work-items go over the elements of planes
##
## param  by_rows: bool              an item makes a row (CPU) instead of an element (GPU)
## param  width: str                 C expression, elements of a row
##
## `visit` opens a block that runs for each element, with its `row` (all planes together) and
## `column`; the kernel has `rows`.
<%def name="visit(by_rows, width)">
% if by_rows:
    const int row = get_global_id(0);
    for (int column = 0; column < ${width}; ++column) {
% else:
    if (get_global_id(0) < rows * ${width}) {
        const int row = get_global_id(0) / ${width};
        const int column = get_global_id(0) - row * ${width};
% endif
</%def>
