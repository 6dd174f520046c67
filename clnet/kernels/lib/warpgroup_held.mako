## lib warpgroup_held: what items read of operands themselves, split in parts, or turned
##
## A product takes its left operand from registers, too, in which an item holds elements of a step
## of k in this order: of rows lane / 4 and 8 more of its warp's 16, steps lane % 4 of both rows,
## then those 4 further on. See lib/warpgroup.mako.
##
## param tile: WarpgroupTile  shapes, see gemm_warpgroup.py
## param emulated: bool       items write them to local memory, where all find them
## param steps: int           products of a stage
## param parts: int           that an element comes in
## param e: int               which of an item's elements
<%namespace name="parts_of" file="tf32_parts.mako"/>
##
## An item's elements of a stage of a: boxes of 32 rows, of which a line is a step of k. Steps are
## exchanged within eight of them, in b alike, so that a warp reads from all banks at once.
<%def name="a_turned(tile, emulated, steps)">
% if not emulated:
        uint a_held[${4 * steps * tile.parts}];
% endif
        {
            __local const uchar *const box = (__local const uchar *)tiles + (to - start)
                + (team * 2 + warp / 2) * 4096 + lane % 4 * 256 + lane / 4 % 4 * 4;
% for e in range(4 * steps):
<% odd = e % 4 // 2 %>
            {
                const float value = *(__local const float *)(box + ${e // 4 * 1024 + odd * 128}
                    + (warp % 2 * 4 + lane / 16 + ${e % 2 * 2} ^ lane % 4 * 2 + ${odd}) * 16);
                ${held_parts(tile.parts, emulated, e)}
            }
% endfor
        }
% if emulated:
        barrier(CLK_LOCAL_MEM_FENCE);
% endif
</%def>
##
## Boxes of b, of 32 columns, of which a line is a step of k, become lines along k, in the buffer
## whose turn it is: an item of a team takes four steps of a column.
<%def name="b_turned(tile)">
        for (int i = 0; i < ${tile.n // 16}; i++) {
            const int e = warp + 4 * i, step = e % 8 / 2 * 8 + e % 2;
            __local const uchar *const box = (__local const uchar *)tiles
                + (to - start + ${tile.m * 128}) + e / 8 * 4096 + lane % 4 * 4;
            __local uchar *const line = (__local uchar *)tiles
                + (${tile.stages * tile.stage_bytes} + count % 2 * ${tile.turned_bytes})
                + (e / 8 * 32 + lane) * 128 + (e % 8 ^ lane % 8) * 16;
% for part in range(tile.parts):
            float4 run_${part};
% endfor
% for j in range(4):
            {
                const float value = *(__local const float *)(
                    box + (step + ${2 * j}) * 128 + (lane / 4 ^ e % 2 + ${2 * j}) * 16);
% if tile.parts == 2:
                float halves[2];
                ${parts_of.stored("halves", "1", "value")}
                run_0.s${j} = halves[0];
                run_1.s${j} = halves[1];
% else:
                run_0.s${j} = value;
% endif
            }
% endfor
% for part in range(tile.parts):
            *(__local float4 *)(line + ${tile.b_base(part)}) = run_${part};
% endfor
        }
</%def>
##
## The same with steps in their own order, as boxes of b have them that nobody turned.
<%def name="a_beside(emulated, steps)">
% if not emulated:
        uint a_held[${4 * steps}];
% endif
        {
            __local const uchar *const box = (__local const uchar *)tiles + (to - start)
                + (team * 2 + warp / 2) * 4096 + lane % 4 * 128 + lane / 4 % 4 * 4;
% for e in range(4 * steps):
<% odd = e % 4 // 2 * 4 %>
            {
                const float value = *(__local const float *)(box + ${e // 4 * 1024 + odd * 128}
                    + (warp % 2 * 4 + lane / 16 + ${e % 2 * 2} ^ lane % 4 + ${odd}) * 16);
                ${held_parts(1, emulated, e)}
            }
% endfor
        }
% if emulated:
        barrier(CLK_LOCAL_MEM_FENCE);
% endif
</%def>
##
## An item's elements of a stage of a, split: a row is a line.
<%def name="items_split(emulated, steps)">
% if not emulated:
        uint a_held[${8 * steps}];
% endif
        {
            __local const uchar *const line = (__local const uchar *)tiles + (a_start - start)
                + (warp * 16 + lane / 4) * 128 + lane % 4 * 4;
% for e in range(4 * steps):
            {
                const float value = *(__local const float *)(
                    line + ${e % 2 * 1024} + (${e // 4 * 2 + e % 4 // 2} ^ lane / 4) * 16);
                ${held_parts(2, emulated, e)}
            }
% endfor
        }
% if emulated:
        barrier(CLK_LOCAL_MEM_FENCE);
% endif
</%def>
##
## An item holds the e-th of its elements, in parts.
<%def name="held_parts(parts, emulated, e)">
                float halves[2] = {value, 0};
% if parts == 2:
                ${parts_of.stored("halves", "1", "value")}
% endif
% for part in range(parts):
% if emulated:
                a_held[self][${part * 16 + e}] = halves[${part}];
% else:
                a_held[${part * 16 + e}] = as_uint(halves[${part}]);
                asm volatile("" : "+r"(a_held[${part * 16 + e}]) :: "memory");
% endif
% endfor
</%def>
