## lib decay: exp of numbers that are not above 0, as softmax takes it of scores and their largest
##
## Half as many operations as lib/elementary.mako's exp: products and sums contract where the device
## has an instruction for both, and what is below 2^-126 is 0.
##
## param acc: str                    element type; for all but float it is OpenCL's exp
## param ctype: str                  element type in memory, of C or "bfloat16"
## param lanes: int                  lanes of the vector, 2 or more
## numerics at most 2 ulp; arguments as in lib/elementary.mako
<%namespace name="lib" file="fold.mako"/>
<%namespace name="ragged" file="ragged.mako"/>
<%namespace name="elementary" file="elementary.mako"/>
<%namespace name="prelude" file="prelude.mako"/>
<%namespace name="stored" file="stored.mako"/>
<%def name="define(acc, lanes)">
% if acc == "float":
inline float${lanes} decay(float${lanes} x)
{
#pragma OPENCL FP_CONTRACT ON
    x = x < -88.0f ? (float${lanes})(-88.0f) : x;
    const float${lanes} shifted = x * 1.44269504f + 12583039.0f;
        /* 1.5 * 2^23: no fraction is left; and 127 */
    const float${lanes} n = shifted - 12583039.0f;
    float${lanes} r = x - n * 0.693359375f;  /* ln 2 in two parts */
    r = r + n * 2.12194440e-4f;
    float${lanes} p = 1.395171857e-3f * r + 8.369598538e-3f;
    p = p * r + 4.166618735e-2f;
    p = p * r + 1.666651219e-1f;
    p = p * r + 0.5f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    return p * as_float${lanes}(as_int${lanes}(shifted) << 23);
}
% else:
#define decay exp
% endif
</%def>
##
## Rows of scores: a logarithm that is no call, the largest of one, and the sums, lane by lane, of
## the exponentials less a number, while the row behind it is fetched. What is not a number gets
## lost among the largest, and stays in the sums: so comparing takes one operation. Four comparisons
## are under way, since each waits for the one before.
<%def name="rows(ctype, acc, lanes)">
<% vector = f"{acc}{lanes}" %>
${ragged.load(ctype, acc, lanes)}
${ragged.rest(ctype, acc, lanes)}
${define(acc, lanes)}
${lib.fold("top", acc, lanes)}
${prelude.fetch_ahead()}
${elementary.define(("log",), acc, 1)}
#define LOG ${"clnet_log" if acc == "float" else "log"}
inline ${acc} largest(__global const ${stored.memory(ctype)} *from, const int n)
{
    ${vector} a = -INFINITY;
    int i = 0;
    if (n >= ${4 * lanes}) {
        ${vector} b = a, c = a, d = a;
        for (; i + ${4 * lanes} <= n; i += ${4 * lanes}) {
% for k, name in enumerate("abcd"):
            ${name} = top_join${lanes}(${name}, load_ragged(from + i + ${k * lanes}, ${lanes}, 0));
% endfor
        }
        a = top_join${lanes}(top_join${lanes}(a, b), top_join${lanes}(c, d));
    }
    for (; i + ${lanes} <= n; i += ${lanes})
        a = top_join${lanes}(a, load_ragged(from + i, ${lanes}, 0));
    if (i < n)
        a = top_join${lanes}(a, load_rest(from, i, n, -INFINITY));
    return top_fold(a);
}
inline ${vector} decays(__global const ${stored.memory(ctype)} *from, const int n, const ${acc} top)
{
    ${vector} sums = 0;
    int i = 0;
    for (; i + ${lanes} <= n; i += ${lanes}) {
        FETCH_AHEAD(from + n + i);
        sums += decay(load_ragged(from + i, ${lanes}, 0) - top);
    }
    return i < n ? sums + decay(load_rest(from, i, n, -INFINITY) - top) : sums;
}
</%def>
