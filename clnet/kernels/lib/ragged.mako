## lib ragged: vectors of which only the first elements lie in memory
##
## param ctype: str                  element type in memory
## param acc: str                    element type in registers
## param lanes: int                  lanes of a vector of acc, 2 or more
## param stream: bool                vectors go past the caches; all are whole, and a line each
<%namespace name="prelude" file="prelude.mako"/>
##
## Vectors go through a cast, not vload and vstore: see lib/vector.mako.
<%def name="load(ctype, acc, lanes)">
inline ${acc}${lanes} load_ragged(__global const ${ctype} *p, const int count, const ${acc} fill)
{
    typedef ${acc}${lanes} __attribute__((aligned(sizeof(${acc})))) unaligned;
    if (count >= ${lanes})
% if ctype == acc:
        return *(__global const unaligned *)p;
% else:
    {
        typedef ${ctype}${lanes} __attribute__((aligned(sizeof(${ctype})))) stored;
        return convert_${acc}${lanes}(*(__global const stored *)p);
    }
% endif
    ${acc} each[${lanes}];
    for (int k = 0; k < ${lanes}; k++)
        each[k] = k < count ? p[k] : fill;
    return *(const unaligned *)each;
}
</%def>
<%def name="store(ctype, acc, lanes, stream=False)">
% if stream:
${prelude.stream(ctype, lanes)}
% endif
inline void store_ragged(__global ${ctype} *p, const int count, const ${acc}${lanes} v)
{
% if stream:
    stream(v, (__global ${acc}${lanes} *)p);
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
