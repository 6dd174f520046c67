## lib ragged: vectors of which only the first elements lie in memory
##
## param ctype: str                  element type in memory, of C or "bfloat16"
## param acc: str                    element type in registers
## param lanes: int                  lanes of a vector of acc, 2 or more
## param stream: bool                vectors go past the caches; all are whole, and a line each
## param name: str                   of the function
<%namespace name="prelude" file="prelude.mako"/>
<%namespace name="stored" file="stored.mako"/>
##
## Vectors go through a cast, not vload and vstore: see lib/vector.mako.
<%def name="load(ctype, acc, lanes, name='load_ragged')">
<% narrow = ctype in ("half", "bfloat16") %>
${stored.vectors([ctype], lanes)}
inline ${acc}${lanes} ${name}(
    __global const ${stored.memory(ctype)} *p, const int count, const ${acc} fill)
{
    typedef ${acc}${lanes} __attribute__((aligned(sizeof(${acc})))) unaligned;
% if narrow:
    typedef ushort${lanes} __attribute__((aligned(2))) bits;
% elif ctype != acc:
    typedef ${ctype}${lanes} __attribute__((aligned(sizeof(${ctype})))) stored;
% endif
    if (count >= ${lanes})
% if narrow:
        return widened_${ctype}(*(__global const bits *)p);
% elif ctype == acc:
        return *(__global const unaligned *)p;
% else:
        return convert_${acc}${lanes}(*(__global const stored *)p);
% endif
    ${acc} each[${lanes}];
    for (int k = 0; k < ${lanes}; k++)
        each[k] = k < count ? ${stored.element(ctype, "p", "k")} : fill;
    return *(const unaligned *)each;
}
</%def>
##
## What is left of a row from i on, among `fill`, in any lanes: of a row of a vector or more it is
## the row's last vector. A row's end one by one takes as long as ten vectors: what is stored one by
## one and loaded as a vector has to come from the cache.
<%def name="rest(ctype, acc, lanes)">
inline ${acc}${lanes} load_rest(
    __global const ${stored.memory(ctype)} *row, const int i, const int n, const ${acc} fill)
{
    if (n < ${lanes})
        return load_ragged(row + i, n - i, fill);
    const ${acc}${lanes} v = load_ragged(row + n - ${lanes}, ${lanes}, 0);
    const ${"int" if acc == "float" else "long"}${lanes} lane =
        (${"int" if acc == "float" else "long"}${lanes})(${", ".join(map(str, range(lanes)))});
    return lane >= i - (n - ${lanes}) ? v : (${acc}${lanes})fill;
}
</%def>
##
## Of 16 bits behind `load`, whose conversions it takes.
<%def name="store(ctype, acc, lanes, stream=False)">
<% narrow = ctype in ("half", "bfloat16") %>
% if stream:
${prelude.stream(ctype, lanes)}
% endif
inline void store_ragged(
    __global ${stored.memory(ctype)} *p, const int count, const ${acc}${lanes} v)
{
% if stream:
    stream(v, (__global ${acc}${lanes} *)p);
% elif narrow:
    typedef ushort${lanes} __attribute__((aligned(2))) bits;
    const bits narrow = narrowed_${ctype}(v);
    if (count >= ${lanes}) {
        *(__global bits *)p = narrow;
        return;
    }
    const ushort *each = (const ushort *)&narrow;
    for (int k = 0; k < count; k++)
        ((__global ushort *)p)[k] = each[k];
% else:
    typedef ${acc}${lanes} __attribute__((aligned(sizeof(${acc})))) unaligned;
    if (count >= ${lanes}) {
% if ctype == acc:
        *(__global unaligned *)p = v;
% else:
        typedef ${ctype}${lanes} __attribute__((aligned(sizeof(${ctype})))) stored;
        *(__global stored *)p = convert_${ctype}${lanes}(v);
% endif
        return;
    }
    ${acc} each[${lanes}];
    *(unaligned *)each = v;
    for (int k = 0; k < count; k++)
        p[k] = each[k];
% endif
}
</%def>
