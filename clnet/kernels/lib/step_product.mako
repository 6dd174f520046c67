## lib step_product: the product of a recurrent layer's step, by weights that stay with a group
##
## What is multiplied lies in local memory: h forward, the gates' slopes on the walk back; so do the
## parts of the sums, parts[slice][row][2 * pair] of two neighbouring columns each. The kernel has
## item, layer, and the weights' argument.
##
## param size, gates: int         of a state, and of a cell
## param rows, slices: int        examples of a group, and parts of a sum
## param group: int               work-items of it
## param near: bool               the weights lie in local memory, but for those held
## param held: int                terms of an item's sum whose weights are in its registers
## param name: str                of the weights' argument
## param forward: bool            which way the product goes
## param pitch: int               elements from one row of what is multiplied to the next
## param weights: list[str]       of four neighbouring terms
##
## By gates' columns of h forward, by each gate's rows of its slopes on the walk back.
<%def name="product(size, gates, rows, slices, group, near, held, forward)">
<%
    width = gates * size if forward else size
    pairs, terms, pitch = gates * size // 2, size // slices, size if forward else gates * size
    space, stored, first = ("__local", terms - held, 0) if near else ("__global", terms, held)
%>
        for (int part = item; part < ${slices * pairs}; part += ${group}) {
            ${place(size, gates, slices, forward)}
% if forward:
            __local const float *a = h + block * ${terms};
% else:
            __local const float *a = slopes + block * ${terms};
% endif
            float2 ${", ".join(f"sum_{r} = 0" for r in range(rows))};
% for k in range(0, held, 4):
            ${four_terms(rows, pitch, [f"w_{k + t}" for t in range(4)])}
            a += 4;
% endfor
% if terms > held:
            ${space} const float *b = weights + (block * ${stored} + ${first}) * ${width} + column;
            for (int k = ${held}; k < ${terms}; k += 4, a += 4, b += ${4 * width}) {
% for t in range(4):
                const float2 b_${t} = *(${space} const float2 *)(b + ${t * width});
% endfor
                ${four_terms(rows, pitch, [f"b_{t}" for t in range(4)])}
            }
% endif
% for r in range(rows):
            *(__local float2 *)(parts + part / ${pairs} * ${rows * gates * size}
                + ${r * gates * size} + 2 * (part % ${pairs})) = sum_${r};
% endfor
        }
</%def>
<%def name="four_terms(rows, pitch, weights)">
% for r in range(rows):
                {
                    const float4 four = *(__local const float4 *)(a + ${r * pitch});
% for lane, weight in zip("xyzw", weights):
                    sum_${r} = fma((float2)(four.${lane}), ${weight}, sum_${r});
% endfor
                }
% endfor
</%def>
##
## Where a part's weights begin: a block of as many rows of the matrix as a sum has terms.
<%def name="place(size, gates, slices, forward)">
<% pairs = gates * size // 2 %>
% if forward:
            const int block = part / ${pairs}, column = 2 * (part % ${pairs});
% else:
            const int gate = part % ${pairs} / ${size // 2};
            const int block = gate * ${slices} + part / ${pairs};
            const int column = 2 * (part % ${pairs} % ${size // 2});
% endif
</%def>
##
## The weights of a layer, brought near and into registers if they are to be.
<%def name="staged(size, gates, slices, group, near, held, name, forward)">
<%
    width, terms = gates * size if forward else size, size // slices
    far = terms - held
%>
    ${name} += ${name}_offset + (long)layer * ${gates * size * size};
% if held:
    float2 ${", ".join(f"w_{k} = 0" for k in range(held))};
    if (item < ${slices * gates * size // 2}) {
        const int part = item;
        ${place(size, gates, slices, forward)}
        __global const float *b = ${name} + block * ${terms * width} + column;
% for k in range(held):
        w_${k} = vload2(0, b + ${k * width});
% endfor
    }
% endif
% if near and far:
    __local float weights[${gates * size * size // terms * far}] __attribute__((aligned(16)));
    for (int at = item; at < ${gates * size * size // terms * far}; at += ${group})
% if held:
        weights[at] = ${name}[at / ${far * width} * ${terms * width} + ${held * width}
            + at % ${far * width}];
% else:
        weights[at] = ${name}[at];
% endif
% elif far:
    __global const float *const weights = ${name};
% endif
</%def>
