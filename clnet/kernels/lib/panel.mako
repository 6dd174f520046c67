## lib panel: a function that copies a strip of a strided matrix into a panel `panel[step][lane]`
##
## A panel holds `lanes` rows (or columns) of an operand side by side, so that the inner loop of a
## register-blocked product reads it front to back. It needs lib/vector.mako's type and zip. Lanes
## from `valid` on hold some other lane's or no meaningful value (the product's rows they feed are
## never stored); steps from `steps` to `padded` hold zeros.
##
## param name: str            of the function
## param ctype: str           element type
## param width: int           lanes of the vectors it works with, a power of two
## param lanes: int           lanes of a panel, a multiple of width
## param space: str           address space of the panel
## param store: str           function of a value and a place that writes a vector; '': a plain
##                            store
<%def name="pack(name, ctype, width, lanes, space, store='')">
inline void ${name}(
    ${space} ${ctype} *restrict panel, __global const ${ctype} *restrict source,
    const int valid, const int steps, const int padded, const long lane_step, const long k_step)
{
    int k = 0;
    if (lane_step == 1 && (valid == ${lanes} || k_step >= ${lanes} - valid)) {
        /* A short strip reads on into its neighbour;
            on the last step that could leave the array. */
        for (const int whole = steps - (valid < ${lanes}); k < whole; k++) {
% for v in range(lanes // width):
% if store:
            ${store}(((__global const vector *)(source + k * k_step))[${v}],
                (${space} ${ctype}${width} *)(panel + k * ${lanes}) + ${v});
% else:
            ((${space} vector *)(panel + k * ${lanes}))[${v}] =
                ((__global const vector *)(source + k * k_step))[${v}];
% endif
% endfor
        }
    } else if (k_step == 1) {
        for (; k + ${width} <= steps; k += ${width}) {
            /* Written out for each vector of a panel, this would take compilers longer than the
               product does. */
#pragma unroll 1
            for (int first = 0; first < ${lanes}; first += ${width}) {
                ${transpose(ctype, width, lanes, space, store)}
            }
        }
    }
    for (; k < steps; k++)
        for (int lane = 0; lane < ${lanes}; lane++)
            panel[k * ${lanes} + lane] =
                source[(lane < valid ? lane : valid - 1) * lane_step + k * k_step];
    for (int at = k * ${lanes}; at < padded * ${lanes}; at++)
        panel[at] = 0;
}
</%def>
##
## Interleaving the first half of the vectors with the second, log2(width) times, transposes them.
<%def name="transpose(ctype, width, lanes, space, store)">
% for i in range(width):
                const ${ctype}${width} s0_${i} =
                    *(__global const vector *)(source
                    + (first + ${i} < valid ? first + ${i} : valid - 1) * lane_step + k);
% endfor
% for stage in range(1, width.bit_length()):
% for i in range(width // 2):
                const ${ctype}${width} s${stage}_${2 * i} =
                    zip_lo(s${stage - 1}_${i}, s${stage - 1}_${i + width // 2});
                const ${ctype}${width} s${stage}_${2 * i + 1} =
                    zip_hi(s${stage - 1}_${i}, s${stage - 1}_${i + width // 2});
% endfor
% endfor
% for i in range(width):
% if store:
                ${store}(s${width.bit_length() - 1}_${i},
                    (${space} ${ctype}${width} *)(panel + (k + ${i}) * ${lanes} + first));
% else:
                *(${space} vector *)(panel + (k + ${i}) * ${lanes} + first) =
                    s${width.bit_length() - 1}_${i};
% endif
% endfor
</%def>
