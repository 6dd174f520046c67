## lib attend: what attention and its gradients share: rows kept in lanes, others some at a time
##
## param acc: str                    element type in registers
## param at_once: int                others whose scores are computed together
## param causal: bool                a key counts for its own row and later ones only
## param count: str                  C expression, rows kept by all work-items together
## param ctype: str                  element type of target
## param dropped: bool               weights have factors kept_0, kept_1 ... (attend_dropped.mako)
## param group: int                  work-items of a group
## param head: int                   elements of a row of q and k
## param kept: str                   C expression, a factor of the sums so far, or ''
## param lanes: int                  rows a work-item keeps
## param left: str                   pointer of the others' rows
## param left_size: int              elements of its rows
## param limit: str                  C expression, number of others
## param mask: None|'add'|'keep'     added to the scores, or tells which count
## param mask_ctype: str             its element type
## param name: str                   of the variable declared
## param own_is_row: bool            rows of q are kept and keys gone through, not the reverse
## param right: str                  the same
## param right_size: int             the same
## param shared: bool                they are copied to local memory first
## param size: int                   elements of a row
## param source: str                 C expression, dense rows
## param sources: tuple of (str, int)   pointers and elements of a row
## param sums: str                   vectors, of the kept rows
## param target: str                 C expression, dense rows
## param tile: int                   others gone through at once
## param value: str                  vectors of an element of each kept row
## param value_head: int             elements of a row of v
## param weight: str                 of at_once vectors
##
## Names the kernels and these defs share: own (first kept row), own_last, first and j (of the
## others), s_0, s_1 ... (scores of the kept rows with others j, j + 1 ...).
<%namespace name="decay" file="decay.mako"/>
<%namespace name="vectors_of" file="vector.mako"/>
<%namespace name="drops" file="attend_dropped.mako"/>
<%def name="vectors(acc, lanes, mask, mask_ctype, dropped)">
#pragma OPENCL FP_CONTRACT ON
typedef ${acc}${lanes if lanes > 1 else ""} vector;
typedef vector __attribute__((aligned(sizeof(${acc})))) loose_vector;
inline int least(const int x, const int y) { return x < y ? x : y; }
% if lanes > 1:
${vectors_of.zip(acc, lanes)}
${decay.define(acc, lanes)}
% else:
#define decay exp
% endif
% if mask:
typedef ${mask_ctype} mask_element;
/* Scores of the kept rows with another, by what the mask says of each: step elements from row to
   row, of which the last is the last; fill, where it says that they do not count. */
inline vector masked(const vector scores, const __global mask_element *mask, const int step,
    const int last, const ${acc} fill)
{
    vector line = mask[0];
    if (step != 0)
        for (int lane = 0; lane < ${lanes}; lane++)
            ((${acc} *)&line)[lane] = mask[(long)least(lane, last) * step];
    return ${"line != 0 ? scores : (vector)fill" if mask == "keep" else "scores + line"};
}
% endif
% if dropped:
${drops.define(acc, lanes)}
% endif
</%def>
<%def name="begin(lanes, group, count)">
    const int batch = get_global_id(1);
    const int group_first = get_group_id(0) * ${group * lanes};
    const int own = get_global_id(0) * ${lanes};
    const int own_last = ${count} - 1;
</%def>
##
## In squares of as many elements as lanes, which are turned over; what is left one by one.
<%def name="keep(name, source, size, acc, lanes)">
    vector ${name}[${size}];
<%
    whole = size // lanes * lanes if lanes > 1 else 0
    turns = lanes.bit_length() - 1
%>
% if whole:
    for (int e = 0; e < ${whole}; e += ${lanes}) {
% for i in range(lanes):
        const vector s0_${i} = *(__global const loose_vector *)
            (${source} + (long)least(own + ${i}, own_last) * ${size} + e);
% endfor
${vectors_of.turn_lines(acc, lanes)}
% for i in range(lanes):
        ${name}[e + ${i}] = s${turns}_${i};
% endfor
    }
% endif
% if whole < size:
    for (int lane = 0; lane < ${lanes}; lane++)
        for (int e = ${whole}; e < ${size}; e++)
            ((${acc} *)&${name}[e])[lane] =
                ${source}[(long)least(own + lane, own_last) * ${size} + e];
% endif
</%def>
<%def name="release(target, value, size, acc, ctype, lanes)">
<%
    whole = size // lanes * lanes if lanes > 1 else 0
    turns = lanes.bit_length() - 1
%>
% if whole:
    for (int e = 0; e < ${whole}; e += ${lanes}) {
% for i in range(lanes):
        const vector s0_${i} = ${value}[e + ${i}];
% endfor
${vectors_of.turn_lines(acc, lanes)}
% for i in range(lanes):
        if (own + ${i} <= own_last)
            *(__global loose_vector *)(${target} + (long)(own + ${i}) * ${size} + e) =
                s${turns}_${i};
% endfor
    }
% endif
% if whole < size:
    for (int lane = 0; lane < ${lanes} && own + lane <= own_last; lane++)
        for (int e = ${whole}; e < ${size}; e++)
            ${target}[(long)(own + lane) * ${size} + e] = (${ctype})((${acc} *)&${value}[e])[lane];
% endif
</%def>
## Where others behind the last are read: what stands for them is weighted by 0, which times an
## infinite number is not one. An item's first row of its result is free until the end.
<%def name="nothing(target, size, limit, at_once)">
    __global element *zeros = ${target} + (long)least(own, own_last) * ${size};
    if (${limit} % ${at_once} && own <= own_last)
        for (int e = 0; e < ${size}; e++)
            zeros[e] = 0;
</%def>
<%def name="none_behind(name, limit, at_once)">
            if (j + ${at_once} > ${limit} && own <= own_last) {
% for u in range(1, at_once):
                ${name}_${u} = j + ${u} < ${limit} ? ${name}_${u} : zeros;
% endfor
            }
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
<%def name="other(name, size, limit, shared, at_once)">
% for u in range(at_once):
% if shared:
            __local const
% else:
            __global const
% endif
% if shared:
                float_type *${name}_${u} = ${name}_tile + (j - first + ${u}) * ${size};
% else:
                element *${name}_${u} = ${name} + (long)least(j + ${u}, ${limit} - 1) * ${size};
% endif
% endfor
</%def>
<%def name="scores(acc, lanes, head, at_once, limit, causal, mask, own_is_row)">
            vector ${", ".join(f"s_{u} = 0" for u in range(at_once))};
            for (int e = 0; e < ${head}; e++) {
                const vector x = ${"q" if own_is_row else "k"}_own[e];
% for u in range(at_once):
                s_${u} += x * (${acc})${"k" if own_is_row else "q"}_${u}[e];
% endfor
            }
% for u in range(at_once):
            s_${u} *= scale;
% endfor
<% mine, other = ("row", "key") if own_is_row else ("key", "row") %>
% if mask:
            {
                const int first_kept = least(own, own_last);  /* items of a group may have none */
                const __global mask_element *at = mask + (long)first_kept * mask_${mine};
% for u in range(at_once):
                s_${u} = masked(s_${u}, at + (long)least(j + ${u}, ${limit} - 1) * mask_${other},
                    mask_${mine}, own_last - first_kept, ${"fill" if mask == "keep" else 0});
% endfor
            }
% endif
            if (j + ${at_once} > ${limit}
% if causal:
                || ${f"j + {at_once - 1} > own" if own_is_row else f"j < own + {lanes - 1}"}
% endif
            )
            for (int lane = 0; lane < ${lanes}; lane++) {
% for u in range(at_once):
                if (j + ${u} >= ${limit}
% if causal:
                    || ${f"j + {u} > own + lane" if own_is_row else f"own + lane > j + {u}"}
% endif
                )
                    ((${acc} *)&s_${u})[lane] = -INFINITY;
% endfor
            }
</%def>
##
## The others' rows, weighted, are added to the sums of each kept row, of which kept of what was
## there remains.
<%def name="add_weighted(sums, size, weight, name, acc, at_once, kept='')">
            for (int e = 0; e < ${size}; e++) {
                vector sum = ${sums}[e]${f" * {kept}" if kept else ""};
% for u in range(at_once):
                sum += ${weight}_${u} * (${acc})${name}_${u}[e];
% endfor
                ${sums}[e] = sum;
            }
</%def>
##
## The slopes of the scores of one block, which are left in d_0, d_1 ..., and the values' sums.
<%def name="slopes_of_keys(acc, lanes, value_head, at_once, mask, dropped)">
% if dropped:
            ${drops.draw_of_keys(acc, lanes)}
% endif
% for u in range(at_once):
            vector p_${u} = decay(s_${u} - lse[least(j + ${u}, rows - 1)]);
% if mask == "keep":
            p_${u} *= s_${u} == fill ? (vector)(1 / (${acc})keys) : (vector)1;
% endif
            vector d_${u} = ${"0" if dropped else f"-(j + {u} < rows ? delta[j + {u}] : 0)"};
% endfor
            for (int e = 0; e < ${value_head}; e++) {
                const vector x = v_own[e];
% for u in range(at_once):
                d_${u} += x * (${acc})gy_${u}[e];
% endfor
            }
% if dropped:
            ${drops.of_keys(at_once)}
% for u in range(at_once):
            const vector w_${u} = p_${u} * kept_${u};
            d_${u} = d_${u} * kept_${u} - (j + ${u} < rows ? delta[j + ${u}] : 0);
% endfor
% endif
            ${add_weighted("v_sums", value_head, "w" if dropped else "p", "gy", acc, at_once)}
% for u in range(at_once):
            d_${u} *= scale * p_${u};
% endfor
            ${still(at_once, mask)}
</%def>
##
## What a mask of booleans puts in a score's place has no slope.
<%def name="still(at_once, mask)">
% if mask == "keep":
% for u in range(at_once):
            d_${u} = s_${u} == fill ? (vector)0 : d_${u};
% endfor
% endif
</%def>
