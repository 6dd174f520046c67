## lib matrix_emulated: lib/matrix.mako's products by 32 items, by plain C
##
## Registers lie in local memory: in `a_held` as items hold them, in `b_held` by their word of
## steps, then the items that sum their columns. An item's sums of a row are vectors across its
## columns, since a simulator takes as long for a vector's instruction as for a number's; products
## are added one after another along k. Rows of zeros are passed over: small problems have many.
##
## param ctype: 'half'|'bfloat16'|'float'  element type; float may be rounded to TF32
## param patches: int         of 32 items, in a group
## param rows: int            blocks of 16 rows that they multiply
## param columns: int         blocks of 8 columns
## param j, r: int            block of columns, and number of its register
## param sums: str            name of the sums, of row block {i} and columns {j}
##
## Outside of kernels: words as numbers; those of 16 bits have two steps.
<%def name="functions(ctype)">
% for lanes in (2, 4, 8):
inline float${lanes} wide_${lanes}(const uint${lanes} words, const int upper)
{
% if ctype == "half":
    const ushort${lanes} bits = convert_ushort${lanes}(upper ? words >> 16 : words & 0xffff);
    return vload_half${lanes}(0, (const half *)&bits);
% elif ctype == "bfloat16":
    return as_float${lanes}(upper ? words & 0xffff0000 : words << 16);
% else:
    return as_float${lanes}(words);
% endif
}
% endfor
</%def>
##
## Where registers lie.
<%def name="held(patches, rows, columns)">
    __local uint a_held[${patches}][${4 * rows}][32];
    __local uint b_held[${patches}][8][4][${2 * columns}];
</%def>
##
## Where an item's register of b lies.
<%def name="b_place(j, r)" filter="trim">
b_held[patch][${4 * r} + lane % 4][lane / 8][${2 * j} + lane / 4 % 2]
</%def>
##
## sums += rows times columns, all that is held.
<%def name="products(ctype, sums, rows, columns)">
<%
    parts = 1 if ctype == "float" else 2
    runs, first = [], 0
    for count in (4, 2, 1):
        while columns - first >= count:
            runs.append((range(first, first + count), 2 * count))
            first += count
%>
% for i in range(rows):
    {
        float own[2][${parts}][8];
        int some = 0;
        ## Not as one vector of eight words: Oclgrind 21.10 ends where a vector is made of two.
        for (int e = 0; e < 4; e++) {
            const uint4 words = vload4(lane / 4, a_held[patch][${4 * i} + e]);
            some |= any(words != (uint4)0);
% for part in range(parts):
            vstore4(wide_4(words, ${part}), e / 2, own[e % 2][${part}]);
% endfor
        }
        if (some) {
% for run, lanes in runs:
<%
    listed = lambda row: ", ".join(
        f"{sums.format(i=i, j=j)}[{2 * row + c}]" for j in run for c in range(2))
%>
        {
            float${lanes} above = (float${lanes})(${listed(0)}),
                below = (float${lanes})(${listed(1)});
            for (int word = 0; word < 8; word++) {
                const uint${lanes} words
                    = vload${lanes}(0, b_held[patch][word][lane % 4] + ${2 * run[0]});
% for part in range(parts):
                {
                    const float${lanes} values = wide_${lanes}(words, ${part});
                    above += own[0][${part}][word] * values;
                    below += own[1][${part}][word] * values;
                }
% endfor
            }
% for e, j in enumerate(run):
% for c in range(2):
            ${sums.format(i=i, j=j)}[${c}] = above.s${"%x" % (2 * e + c)};
            ${sums.format(i=i, j=j)}[${2 + c}] = below.s${"%x" % (2 * e + c)};
% endfor
% endfor
        }
% endfor
        }
    }
% endfor
</%def>
