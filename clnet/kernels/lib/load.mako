## lib load: functions that load an element, or a vector of them, as what is reduced of it
##
## param load: plain|square|nonzero  what is reduced: x, x * x, or x != 0
## param ctype: str                  element type of x, of C or "bfloat16"
## param acc: str                    type of what is loaded
## param lanes: int                  lanes of the widest vector, a power of two
<%namespace name="narrow" file="/lib/stored.mako"/>
<%def name="loads(load, ctype, acc, lanes)">
% if lanes > 1:
${narrow.vectors([ctype], lanes)}
% endif
% for width in ((1, lanes) if lanes > 1 else (1,)):
<%
    n = str(width) if width > 1 else ""
    value = "*(__global const unaligned *)p"
    whole = acc == "int" and ctype in ("float", "int", "uint")  # what comparing gives
    convert = (lambda mask: f"({mask})") if whole or not n else f"convert_{acc}{n}({{}})".format
%>
inline ${acc}${n} load${width}(__global const ${"ushort" if ctype == "bfloat16" else ctype} *p)
{
% if ctype in ("half", "bfloat16"):
% if width > 1:
    const float${n} v = widened_${ctype}(*(__global const sixteens *)p);
% else:
    const float v = ${narrow.element(ctype, "p", 0)};
% endif
% if load == "nonzero":
    return ${convert(f"v != (float{n})0")} & 1;
% else:
<% value = "v * v" if load == "square" else "v" %>
    return ${value if acc == "float" or not n else convert(value)};
% endif
% else:
    typedef ${ctype}${n} __attribute__((aligned(sizeof(${ctype})))) unaligned;
% if load == "nonzero":
    return ${convert(f"{value} != ({ctype}{n})0")} & 1;
% else:
    const ${acc}${n} v = ${value if ctype == acc else f"convert_{acc}{n}({value})"};
    return ${"v * v" if load == "square" else "v"};
% endif
% endif
}
% endfor
</%def>
