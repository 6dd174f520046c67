## lib attend_queries: the queries' gradient of attention, added up in memory key after key
##
## Names are those of attend.mako; kept keys add to rows j, j + 1 ... by the slopes d_0, d_1 ...
##
## param acc: str        element type
## param lanes: int      keys a work-item keeps
## param head: int       elements of a row of q and k
## param at_once: int    rows whose scores are computed together
## param across: int     vectors of a row of gq whose sums are added at once
## In vectors of a row.
<%def name="add_to_queries(acc, lanes, head, at_once, across)">
            const vector slopes[${at_once}] = {${", ".join(f"d_{u}" for u in range(at_once))}};
            const int kept_keys = least(${lanes}, keys - own);
<% vectors = head // lanes %>
% if vectors >= across:
            for (int e = 0; e < ${vectors // across * across * lanes}; e += ${across * lanes}) {
                ${_add_piece(acc, lanes, head, at_once, across)}
            }
% endif
% for e in range(vectors // across * across * lanes, vectors * lanes, lanes):
            {
                const int e = ${e};
                ${_add_piece(acc, lanes, head, at_once, 1)}
            }
% endfor
% if head % lanes:
            for (int e = ${vectors * lanes}; e < ${head}; e++)
                for (int u = 0; u < least(${at_once}, rows - j); u++) {
                    __global ${acc} *to = gq + (long)(j + u) * ${head} + e;
                    ${acc} sum = own ? *to : 0;
                    for (int n = 0; n < kept_keys; n++)
                        sum += ((${acc} *)&slopes[u])[n] * k[(long)(own + n) * ${head} + e];
                    *to = sum;
                }
% endif
</%def>
<%def name="_add_piece(acc, lanes, head, at_once, across)">
% for u in range(at_once):
                __global ${acc} *to_${u} = gq + (long)least(j + ${u}, rows - 1) * ${head} + e;
% for c in range(across):
                vector t_${u}_${c} = own ? ((__global loose_vector *)to_${u})[${c}] : (vector)0;
% endfor
% endfor
                for (int n = 0; n < kept_keys; n++) {
% for c in range(across):
                    const vector x_${c} =
                        ((__global const loose_vector *)(k + (long)(own + n) * ${head} + e))[${c}];
% endfor
% for u in range(at_once):
                    const ${acc} slope_${u} = ((${acc} *)&slopes[${u}])[n];
% for c in range(across):
                    t_${u}_${c} += slope_${u} * x_${c};
% endfor
% endfor
                }
% for u in range(at_once):
                if (j + ${u} < rows) {
% for c in range(across):
                    ((__global loose_vector *)to_${u})[${c}] = t_${u}_${c};
% endfor
                }
% endfor
</%def>
