## lib attend: what attention and its gradients share: rows kept in lanes, others four at a time
##
## param acc: str                    element type in registers
## param causal: bool                a key counts for its own row and later ones only
## param count: str                  C expression, rows kept by all work-items together
## param ctype: str                  element type of target
## param group: int                  work-items of a group
## param head: int                   elements of a row of q and k
## param lanes: int                  rows a work-item keeps
## param left: str                   pointer of the others' rows
## param left_size: int              elements of its rows
## param limit: str                  C expression, number of others
## param mask: None|'add'|'keep'     added to the scores, or tells which count
## param name: str                   of the variable declared
## param own_is_row: bool            rows of q are kept and keys gone through, not the reverse
## param right: str                  the same
## param right_size: int             the same
## param shared: bool                they are copied to local memory first
## param size: int                   elements of a row
## param source: str                 C expression, dense rows
## param sources: tuple of (str, int)   pointers and elements of a row
## param target: str                 C expression, dense rows
## param tile: int                   others gone through at once
## param value: str                  vectors of an element of each kept row
## param weight: str                 of four vectors
##
## Names the kernels and these defs share: own (first kept row), own_last, first and j (of the
## others), s_0 to s_3 (scores of the kept rows with others j to j + 3).
<%def name="vectors(acc, lanes)">
#pragma OPENCL FP_CONTRACT ON
typedef ${acc}${lanes if lanes > 1 else ""} vector;
</%def>
<%def name="begin(lanes, group, count)">
    const int batch = get_global_id(1);
    const int group_first = get_group_id(0) * ${group * lanes};
    const int own = get_global_id(0) * ${lanes};
    const int own_last = ${count} - 1;
</%def>
<%def name="keep(name, source, size, acc, lanes)">
    vector ${name}[${size}];
    for (int lane = 0; lane < ${lanes}; lane++)
        for (int e = 0; e < ${size}; e++)
            ((${acc} *)&${name}[e])[lane] =
                ${source}[(long)min(own + lane, own_last) * ${size} + e];
</%def>
<%def name="release(target, value, size, acc, ctype, lanes)">
    for (int lane = 0; lane < ${lanes} && own + lane <= own_last; lane++)
        for (int e = 0; e < ${size}; e++)
            ${target}[(long)(own + lane) * ${size} + e] = (${ctype})((${acc} *)&${value}[e])[lane];
</%def>
<%def name="tiles(left, left_size, right, right_size, acc, tile, shared)">
% if shared:
    __local ${acc} ${left}_tile[${tile * left_size}], ${right}_tile[${tile * right_size}];
% endif
</%def>
<%def name="fetch(sources, limit, tile, shared, group)">
% if shared:
        barrier(CLK_LOCAL_MEM_FENCE);
% for name, size in sources:
        for (int i = get_local_id(0); i < ${tile * size}; i += ${group})
            ${name}_tile[i] =
                first + i / ${size} < ${limit} ? ${name}[(long)first * ${size} + i] : 0;
% endfor
        barrier(CLK_LOCAL_MEM_FENCE);
% endif
</%def>
<%def name="other(name, size, limit, shared)">
% for u in range(4):
% if shared:
            __local const
% else:
            __global const
% endif
% if shared:
                float_type *${name}_${u} = ${name}_tile + (j - first + ${u}) * ${size};
% else:
                element *${name}_${u} = ${name} + (long)min(j + ${u}, ${limit} - 1) * ${size};
% endif
% endfor
</%def>
<%def name="scores(acc, lanes, head, limit, causal, mask, own_is_row)">
            vector s_0 = 0, s_1 = 0, s_2 = 0, s_3 = 0;
            for (int e = 0; e < ${head}; e++) {
                const vector x = ${"q" if own_is_row else "k"}_own[e];
% for u in range(4):
                s_${u} += x * (${acc})${"k" if own_is_row else "q"}_${u}[e];
% endfor
            }
% for u in range(4):
            s_${u} *= scale;
% endfor
% if not mask:
            if (j + 4 > ${limit}
% if causal:
                || ${f"j + 3 > own" if own_is_row else f"j < own + {lanes - 1}"}
% endif
            )
% endif
            for (int lane = 0; lane < ${lanes}; lane++) {
% for u in range(4):
                {
<% mine, other = "min(own + lane, own_last)", f"min(j + {u}, {limit} - 1)" %>
                    const int row = ${mine if own_is_row else other};
                    const int key = ${other if own_is_row else mine};
                    ${acc} *s = (${acc} *)&s_${u} + lane;
                    if (j + ${u} >= ${limit}
% if causal:
                        || key > row
% endif
% if mask == "keep":
                        || !mask[(long)row * mask_row + (long)key * mask_key]
% endif
                    )
                        *s = -INFINITY;
% if mask == "add":
                    else
                        *s += mask[(long)row * mask_row + (long)key * mask_key];
% endif
                }
% endfor
            }
</%def>
##
## Element e of four others' rows, weighted and summed.
<%def name="of_four(weight, name, acc)">
((${weight}_0 * (${acc})${name}_0[e] + ${weight}_1 * (${acc})${name}_1[e])
                    + (${weight}_2 * (${acc})${name}_2[e] + ${weight}_3 * (${acc})${name}_3[e]))
</%def>
