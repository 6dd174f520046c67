## lib plane: how work-items go over the elements of planes
##
## param  by_rows: bool              an item makes a row (CPU) instead of an element (GPU)
## param  width: str                 C expression, elements of a row
## param  unchecked: all|some|none   which windows are taken to lie inside their plane
## param  inside: str                C that makes the element at `column` of a window inside the
##                                   plane
## param  checked: str               C that makes it of any window
## param  kh, kw, sh, sw, ph, pw, dh, dw: int  height and width of the window, steps from window to
##                                  window, padding above and before, steps within a window
## param  include_pad: bool          padding counts in a mean
## param  divisor: int               what to divide by instead, or 0
##
## `windows` makes a row of results, or one; where a row's windows lie inside, its loop has no
## branches and becomes vectors. It needs out_h, out_w, height, width. `level` says which of the
## windows that begin in row `y_first` do: [first, last). `visit` opens a block that runs for each
## element, with its `row` (all planes together) and `column`; the kernel has `rows`. `share` says
## where the window of a mean at `oy`, `ox` lies.
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
<%def name="level(kh, kw, sw, pw, dh=1, dw=1)">
    const int level = y_first >= 0 && y_first + ${(kh - 1) * dh} < height &&
        width > ${(kw - 1) * dw};
    const int first = level ? min(${-(-pw // sw)}, out_w) : out_w;
    const int last = level ? max(first, min((width - ${(kw - 1) * dw + 1} + ${pw}) / ${sw} + 1,
        out_w)) : out_w;
</%def>
<%def name="windows(by_rows, unchecked, inside, checked, kh, kw, sh, sw, ph, pw, dh=1, dw=1)">
% if by_rows and unchecked == "some":
    const int row = get_global_id(0);
    const int y_first = row % out_h * ${sh} - ${ph};
    ${level(kh, kw, sw, pw, dh, dw)}
    for (int column = first; column < last; ++column) {
        ${inside}
    }
    for (int i = 0; i < out_w - last + first; ++i) {
        const int column = i < first ? i : i - first + last;
        ${checked}
    }
% else:
    ${visit(by_rows, "out_w")}
        ${inside if unchecked == "all" else checked}
    }
% endif
</%def>
<%def name="share(include_pad, divisor, kh, kw, sh, sw, ph, pw)">
            /* The window's part inside the plane, and what its sum is divided by. */
            const int y_first = oy * ${sh} - ${ph};
            const int x_first = ox * ${sw} - ${pw};
            const int top = max(y_first, 0), bottom = min(y_first + ${kh}, height);
            const int left = max(x_first, 0), right = min(x_first + ${kw}, width);
% if divisor:
            const int count = ${divisor};
% elif include_pad:
            const int count = (min(y_first + ${kh}, height + ${ph}) - y_first)
                * (min(x_first + ${kw}, width + ${pw}) - x_first);
% else:
            const int count = (bottom - top) * (right - left);
% endif
</%def>
