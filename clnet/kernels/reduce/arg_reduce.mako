## kernel arg_reduce: the largest or smallest element along an axis, and where it is
##
## layout   x is any strided array; out and where are dense over the kept axes. The axis is cut into
##          parts; each gives a partial result, the last def picks among them. Places are counted
##          from the part's first element, so that an int holds them.
## param    kind: max|min
## param    ctype: str                   element type of x and out
## param    acc: str                     type values have in registers
## param    place: int|long              integer type as wide as acc
## param    flat: int|long               type of sizes and flat indices: long where need be
## param    lanes: int                   lanes of a vector of acc
## param    group: int                   work-items of a group, a power of two
## param    reduce_items: int            of these, how many share one output, a power of two
## param    kept_fast: bool              neighbouring work-items take neighbouring outputs
## param    kept_rank: int               number of kept axes
## param    width: int                   columns that one vector holds
## param    index: str                   an expression: the output's flat index
## def      arg_reduce_rows
## arg      jobs: flat       outputs times parts
## arg      jobs_per_item: flat
## def      arg_reduce_columns
## arg      blocks: flat     blocks of columns: the last kept axis, of stride 1
## def      arg_reduce_group, arg_reduce_pick
## arg      outs: flat       number of outputs
## def      arg_reduce_rows, arg_reduce_columns, arg_reduce_group
## arg      n: flat          size of the axis
## arg      part_size: flat  elements of a part
## def      all
## arg      parts: int
## def      arg_reduce_rows, arg_reduce_columns, arg_reduce_group
## arg      step: long      stride of the axis
## % for i in range(kept_rank):
## arg      kept_size{i}: flat  for each kept axis its size
## arg      kept_x{i}: long    and its stride in x
## % endfor
## arg      out: out ctype[outs, parts]
## arg      where: out long[outs, parts]
## arg      x: in ctype
## def      arg_reduce_pick
## arg      out: out ctype[outs]
## arg      where: out long[outs]
## arg      values: in ctype[outs, parts]
## arg      places: in long[outs, parts]
## launch   rows: local 1, jobs_per_item jobs an item. columns: local 1, a vector of columns of one
##          part an item. group: (group / reduce_items) outputs of one part a group. pick: one item
##          an output.
## numerics exact; the first of equal elements wins, and the first NaN wins over all
<%namespace name="lib" file="/lib/fold.mako"/>
<%namespace name="vectors" file="/lib/vector.mako"/>
<%def name="better(kind)">
<% sign = ">" if kind == "max" else "<" %>
#define FIRST(b, a) (((b) ${sign} (a)) | (((b) != (b)) & ((a) == (a))))
#define BEFORE(b, at_b, a, at_a) (FIRST(b, a) || (!FIRST(a, b) && (at_b) < (at_a)))
</%def>
<%def name="loads(ctype, acc, lanes)">
% if ctype == acc:
${vectors.types(acc, lanes)}
#define LOAD(p) (*(__global const vector *)(p))
% else:
typedef ${ctype}${lanes} __attribute__((aligned(sizeof(${ctype})))) vector;
#define LOAD(p) convert_${acc}${lanes}(*(__global const vector *)(p))
% endif
</%def>
<%def name="kept_start(index, flat, kept_rank)">
    long start = 0;
    {
        ${flat} rest = ${index};
% for i in reversed(range(kept_rank)):
        start += ${f"(rest % kept_size{i})" if i else "rest"} * kept_x${i};
% if i:
        rest /= kept_size${i};
% endif
% endfor
    }
</%def>
<%def name="arg_reduce_rows(kind, ctype, acc, place, flat, lanes, kept_rank)">
${better(kind)}
${loads(ctype, acc, lanes)}
__kernel void arg_reduce_rows(...) {
    out += out_offset;
    where += where_offset;
    x += x_offset;
    const ${flat} first = get_global_id(0) * jobs_per_item;
    const ${flat} last = min(first + jobs_per_item, jobs);
    for (${flat} job = first; job < last; job++) {
        const ${flat} kept = job / parts, from = (job - kept * parts) * part_size;
        const int end = min(part_size, n - from);
        ${kept_start("kept", flat, kept_rank)}
        __global const ${ctype} *p = x + start + from * step;
        ${acc} best = p[0];
        ${place} at = 0;
        int i = 1;
        if (step == 1 && end >= ${2 * lanes}) {
            ${acc}${lanes} tops = LOAD(p);
            ${place}${lanes} places = 0, here = 0;
            for (i = ${lanes}; i <= end - ${lanes}; i += ${lanes}) {
                const ${acc}${lanes} v = LOAD(p + i);
                const ${place}${lanes} wins = FIRST(v, tops);
                here = i;
                tops = wins ? v : tops;
                places = wins ? here : places;
            }
            const ${acc} *top = (const ${acc} *)&tops; /* no vstore: see lib/vector.mako */
            const ${place} *base = (const ${place} *)&places;
            best = top[0];
            at = base[0];
            for (int k = 1; k < ${lanes}; k++)
                if (BEFORE(top[k], base[k] + k, best, at)) {
                    best = top[k];
                    at = base[k] + k;
                }
        }
        for (; i < end; i++) {
            const ${acc} v = p[i * step];
            if (FIRST(v, best)) {
                best = v;
                at = i;
            }
        }
        out[job] = best;
        where[job] = from + at;
    }
}
</%def>
<%def name="column_search(ctype, acc, place, width)">
<% ways = 4 %>
<% v, load = (str(width), "LOAD({})") if width > 1 else ("", "*({})") %>
            /* Quarters side by side: no comparison waits for the one before. A later quarter's
               element counts only if it comes before those of all earlier ones. */
            const int quarter = end / ${ways};
            ${acc}${v} best = ${load.format("p")};
            ${place}${v} at = 0;
            if (quarter > 1) {
% for w in range(ways):
                __global const ${ctype} *p_${w} = p + (long)${w} * quarter * step;
                ${acc}${v} best_${w} = ${load.format(f"p_{w}")};
                ${place}${v} at_${w} = 0;
% endfor
                for (int i = 1; i < quarter; i++) {
                    const ${place}${v} here = i;
% for w in range(ways):
                    p_${w} += step;
                    const ${acc}${v} value_${w} = ${load.format(f"p_{w}")};
                    const ${place}${v} wins_${w} = FIRST(value_${w}, best_${w});
                    best_${w} = wins_${w} ? value_${w} : best_${w};
                    at_${w} = wins_${w} ? here : at_${w};
% endfor
                }
                best = best_0;
                at = at_0;
% for w in range(1, ways):
                const ${place}${v} joins_${w} = FIRST(best_${w}, best);
                best = joins_${w} ? best_${w} : best;
                at = joins_${w} ? at_${w} + ${w} * quarter : at;
% endfor
            }
            const int done = quarter > 1 ? ${ways} * quarter : 1;
            p += (long)(done - 1) * step;
            for (int i = done; i < end; i++) {
                p += step;
                const ${acc}${v} value = ${load.format("p")};
                const ${place}${v} wins = FIRST(value, best), here = i;
                best = wins ? value : best;
                at = wins ? here : at;
            }
</%def>
<%def name="arg_reduce_columns(kind, ctype, acc, place, flat, lanes, kept_rank)">
${better(kind)}
${loads(ctype, acc, lanes)}
__kernel void arg_reduce_columns(...) {
    out += out_offset;
    where += where_offset;
    x += x_offset;
    const ${flat} item = get_global_id(0);
    const ${flat} part = item % parts, block = item / parts % blocks, outer = item / parts / blocks;
    const ${flat} width = kept_size${kept_rank - 1}, from = part * part_size;
    const int end = min(part_size, n - from);
    const ${flat} first = block * ${lanes};
    const int count = min(width - first, (${flat})${lanes});
    ${kept_start("outer * width + first", flat, kept_rank)}
    const long to = ((long)outer * width + first) * parts + part;
    if (count == ${lanes}) {
        __global const ${ctype} *p = x + start + from * step;
        ${column_search(ctype, acc, place, lanes)}
        const ${acc} *values = (const ${acc} *)&best;
        const ${place} *places = (const ${place} *)&at;
        for (int k = 0; k < ${lanes}; k++) {
            out[to + k * parts] = values[k];
            where[to + k * parts] = from + places[k];
        }
    } else {
        for (int k = 0; k < count; k++) {
            __global const ${ctype} *p = x + start + from * step + k;
            ${column_search(ctype, acc, place, 1)}
            out[to + k * parts] = best;
            where[to + k * parts] = from + at;
        }
    }
}
</%def>
<%def name="arg_reduce_group(kind, ctype, acc, flat, group, reduce_items, kept_fast, kept_rank)">
<% kept_items = group // reduce_items %>
${better(kind)}
__kernel void arg_reduce_group(...) {
    __local ${acc} best[${group}];
    __local int at[${group}];
    out += out_offset;
    where += where_offset;
    x += x_offset;
    ${lib.places(reduce_items, kept_items, kept_fast)}
    const int slot = lane * ${kept_items} + kept;
    const int part = get_group_id(0) % parts;
    const ${flat} output = get_group_id(0) / parts * ${kept_items} + kept;
    ${kept_start("output", flat, kept_rank)}
    const ${flat} from = part * part_size;
    const int end = min(part_size, n - from);
    start += from * step;
    /* Work-items without an element of their own repeat the part's first. */
    int place = lane < end ? lane : 0;
    ${acc} top = 0;
    if (output < outs) {
        top = x[start + place * step];
        for (int i = lane + ${reduce_items}; i < end; i += ${reduce_items}) {
            const ${acc} v = x[start + i * step];
            if (FIRST(v, top)) {
                top = v;
                place = i;
            }
        }
    }
    best[slot] = top;
    at[slot] = place;
    for (int half_of = ${reduce_items // 2}; half_of > 0; half_of /= 2) {
        barrier(CLK_LOCAL_MEM_FENCE);
        const int other = (lane + half_of) * ${kept_items} + kept;
        if (lane < half_of && BEFORE(best[other], at[other], best[slot], at[slot])) {
            best[slot] = best[other];
            at[slot] = at[other];
        }
    }
    if (lane == 0 && output < outs) {
        out[(long)output * parts + part] = best[slot];
        where[(long)output * parts + part] = from + at[slot];
    }
}
</%def>
<%def name="arg_reduce_pick(kind, ctype, acc, flat)">
${better(kind)}
__kernel void arg_reduce_pick(...) {
    out += out_offset;
    where += where_offset;
    values += values_offset;
    places += places_offset;
    const ${flat} i = get_global_id(0);
    if (i >= outs)
        return;
    const long first = (long)i * parts;
    ${acc} best = values[first];
    long at = places[first];
    for (int k = 1; k < parts; k++) {
        const ${acc} v = values[first + k];
        if (FIRST(v, best)) {
            best = v;
            at = places[first + k];
        }
    }
    out[i] = best;
    where[i] = at;
}
</%def>
