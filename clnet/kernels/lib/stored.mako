## lib stored: elements of 16 bits, which are kept in memory as they are and computed on in float
##
## Kernels need no 16-bit arithmetic for it. A `bfloat16` is the upper half of a float; OpenCL C has
## no such type, memory holds a ushort.
##
## param ctype: str           element type in memory, of C or "bfloat16"
## param compute: str         type it is computed in
## param name: str            of the variable declared
## param pointer: str         C expression
## param at: str              C expression, the element's number
## param value: str           C expression of an arithmetic type
<%def name="load(ctype, compute, name, pointer, at)">
% if ctype == "half":
    const ${compute} ${name} = (${compute})vload_half(${at}, ${pointer});
% elif ctype == "bfloat16":
    const ${compute} ${name} = (${compute})as_float((uint)${pointer}[${at}] << 16);
% else:
    const ${compute} ${name} = (${compute})${pointer}[${at}];
% endif
</%def>
<%def name="store(ctype, pointer, at, value)">
% if ctype == "half":
    vstore_half_rte((float)(${value}), ${at}, ${pointer});
% elif ctype == "bfloat16":
    {
        const float value = (float)(${value});
        const uint bits = as_uint(value);
        const uint rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;  /* to nearest,
            halves to even */
        ${pointer}[${at}] = isnan(value) ? (ushort)0x7fc0 : (ushort)rounded;
    }
% else:
    ${pointer}[${at}] = (${ctype})(${value});
% endif
</%def>
