## lib ragged: vectors of which only the first elements lie in memory
##
## param ctype: str                  element type in memory
## param acc: str                    element type in registers
## param lanes: int                  lanes of a vector of acc, 2 or more
<%def name="load(ctype, acc, lanes)">
${acc}${lanes} load_ragged(__global const ${ctype} *p, const int count, const ${acc} fill)
{
    if (count >= ${lanes})
        return convert_${acc}${lanes}(vload${lanes}(0, p));
    ${acc} each[${lanes}];
    for (int k = 0; k < ${lanes}; k++)
        each[k] = k < count ? p[k] : fill;
    return vload${lanes}(0, each);
}
</%def>
<%def name="store(ctype, acc, lanes)">
void store_ragged(__global ${ctype} *p, const int count, const ${acc}${lanes} v)
{
    if (count >= ${lanes}) {
        vstore${lanes}(convert_${ctype}${lanes}(v), 0, p);
        return;
    }
    ${acc} each[${lanes}];
    vstore${lanes}(v, 0, each);
    for (int k = 0; k < count; k++)
        p[k] = each[k];
}
</%def>
