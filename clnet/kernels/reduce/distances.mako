## kernel distances: how far rows of two matrices lie apart, and sums of their differences
##
## math     distances: y[i][j] = sqrt(sum_k (a[i][k] - b[k][j])^2)
##          absolute: y[i][j] = sum_k |a[i][k] - b[k][j]|
##          differences: s[k][i] = sum_j w[j][i] (a[k][i] - b[j][k]); absolute: by the sign of each
## layout   dense matrices, a batch of each; neighbours lie along y's and s's last axis
## param    ctype: str                element type
## param    lanes: int                lanes of a vector, of neighbours; 1: an item has one of them
## param    tile: int                 rows of the result that an item computes
## param    absolute: bool            absolute values are added, not squares
## param    at: str                   C text: where a vector begins
## param    count: int|str            of its elements, those in memory: lanes, or C text
## param    end: str                  C text: where a loop ends
## param    value: str                C text: a vector
## arg      jobs: int                 items that have something to do
## arg      strips: int               of rows of the result
## arg      blocks: int               of neighbours
## def      distances
## arg      m, n, d: int
## arg      y: out ctype[batch, m, n]
## arg      a: in ctype[batch, m, d]
## arg      b: in ctype[batch, d, n]
## def      differences
## arg      m, n, d: int
## arg      s: out ctype[batch, d, m]
## arg      a: in ctype[batch, d, m]
## arg      b: in ctype[batch, n, d]
## arg      w: in ctype[batch, n, m]
## launch   an item for each strip of tile rows and block of lanes neighbours
## numerics differences are taken first, so that near rows keep theirs; sums in order
<%namespace name="ragged" file="/lib/ragged.mako"/>
<%def name="load(lanes, at, count)" filter="trim">
${f"load_ragged({at}, {count}, 0)" if lanes > 1 else f"*({at})"}
</%def>
## Where the loop with whole vectors starts, or that with short ones: at its end, if it has none.
<%def name="start(lanes, count, end)" filter="trim">
${"0" if lanes == 1 else f"count {'<' if count == 'count' else '>='} {lanes} ? 0 : {end}"}
</%def>
<%def name="store(lanes, at, value)">
${f"store_ragged({at}, count, {value});" if lanes > 1 else f"*({at}) = {value};"}
</%def>
<%def name="place(lanes, tile)">
    const int item = get_global_id(0);
    if (item >= jobs)
        return;
    const int column = item % blocks * ${lanes}, row = item / blocks % strips * ${tile};
    const long batch = item / blocks / strips;
</%def>
<%def name="distances(ctype, lanes, tile, absolute)">
<% vector = f"{ctype}{lanes}" if lanes > 1 else ctype %>
% if lanes > 1:
${ragged.load(ctype, ctype, lanes)}
${ragged.store(ctype, ctype, lanes)}
% endif
__kernel void distances(...) {
    ${place(lanes, tile)}
    const int count = n - column, rows = m - row;
    a += a_offset + (batch * m + row) * d;
    b += b_offset + batch * d * n + column;
    y += y_offset + (batch * m + row) * n + column;
% for r in range(tile):
    ${vector} sum_${r} = 0;
    __global const ${ctype} *a_${r} = a + (long)min(${r}, rows - 1) * d;
% endfor
% for each in (lanes, "count")[:lanes]:
    for (int k = ${start(lanes, each, "d")}; k < d; k++) {
        const ${vector} other = ${load(lanes, "b + (long)k * n", each)};
% for r in range(tile):
        const ${vector} apart_${r} = a_${r}[k] - other;
        sum_${r} += ${f"fabs(apart_{r})" if absolute else f"apart_{r} * apart_{r}"};
% endfor
    }
% endfor
% for r in range(tile):
    if (${r} < rows)
        ${store(lanes, f"y + {r}l * n", f"sum_{r}" if absolute else f"sqrt(sum_{r})")}
% endfor
}
</%def>
<%def name="differences(ctype, lanes, tile, absolute)">
<% vector = f"{ctype}{lanes}" if lanes > 1 else ctype %>
% if lanes > 1:
${ragged.load(ctype, ctype, lanes)}
${ragged.store(ctype, ctype, lanes)}
% endif
__kernel void differences(...) {
    ${place(lanes, tile)}
    const int count = m - column, rows = d - row;
    a += a_offset + (batch * d + row) * m + column;
    b += b_offset + batch * n * d + row;
    w += w_offset + batch * n * m + column;
    s += s_offset + (batch * d + row) * m + column;
% for r in range(tile):
    ${vector} sum_${r} = 0;
    const ${vector} a_${r} = ${load(lanes, f"a + (long)min({r}, rows - 1) * m", "count")};
% endfor
% for each in (lanes, "count")[:lanes]:
    for (int j = ${start(lanes, each, "n")}; j < n; j++) {
        const ${vector} weight = ${load(lanes, "w + (long)j * m", each)};
        __global const ${ctype} *other = b + (long)j * d;
% for r in range(tile):
        const ${vector} apart_${r} = a_${r} - other[min(${r}, rows - 1)];
% if absolute:
        sum_${r} += apart_${r} > 0 ? weight : apart_${r} < 0 ? -weight : 0;
% else:
        sum_${r} += weight * apart_${r};
% endif
% endfor
    }
% endfor
% for r in range(tile):
    if (${r} < rows)
        ${store(lanes, f"s + {r}l * m", f"sum_{r}")}
% endfor
}
</%def>
