## lib tile_copies: how the operands of a product of tiles come into local memory
##
## A kernel says where its operands lie by two variables each, set before every `copies`:
##
##     <name>_from   pointer to the first element that the item reads
##     <name>_room   its i-th read is inside the operand where i * jump < <name>_room, else zero
##
## The rest is lib/tile.mako's: <name>_to, where the item writes, and `slot`, into which stage.
##
## param tile: Tile           shapes, see tile.py
## param ctype: str           element type
## param loads: Loads         how an operand comes in, see tile.py
## param name: 'a'|'b'        the operand
## param stride: str          elements between neighbours along the axis that items jump along, in C
## param run: str             variable that points to a read
## param i: int               number of a read
## param source: str          where it reads, in C
## param valid: str           whether it may, in C
##
## Start bringing one operand's next tile in; many small copies gain from asking once for all of
## them whether they are inside, but not where an item's products leave room for them.
<%def name="copies(tile, ctype, loads, name, stride)">
<%
    single = tile.copy == "async" and loads.width == 1 and tile.item_m * tile.item_n <= 64
    walks = tile.copy == "async" and loads.count > 1
    run = name + ("_run" if walks else "_from")

    def source(i):
        return run if walks else f"{run} + {i * loads.jump} * {stride}"
%>
% if walks:
    __global const ${ctype} *${run} = ${name}_from;
% endif
% if single:
    if (${name}_room > ${(loads.count - 1) * loads.jump}) {
% for i in range(loads.count):
        copy_inside(${name}_to + slot * ${loads.pitch * loads.tile_k}
            + ${i * loads.jump * (loads.pitch if loads.along == "tile" else 1)},
            ${source(i)});
        ${onward(run, loads, stride) if walks and i < loads.count - 1 else ""}
% endfor
    } else {
% endif
% for i in range(loads.count):
    ${copy_one(tile, ctype, loads, name, i, source(i), "%d < %s_room" % (i * loads.jump, name))}
    ${onward(run, loads, stride) if walks and i < loads.count - 1 else ""}
% endfor
% if single:
    }
% endif
</%def>
##
## One read of it.
<%def name="copy_one(tile, ctype, loads, name, i, source, valid)">
% if tile.ring:
    copy_${loads.width}(${name}_to + slot * ${loads.pitch * loads.tile_k}
        + ${i * loads.jump * (loads.pitch if loads.along == "tile" else 1)}, ${source}, ${valid});
% else:
    ${name}_run_${i} = 0;
    if (${valid})
        ${name}_run_${i} = *(__global const ${ctype}${"" if loads.width == 1 else 4} *)(${source});
% endif
</%def>
##
## To the next read. The compiler must not know that it is so many elements on: it would keep the
## places of all reads in registers, 129 in all where 128 let a unit work on four groups, not three.
<%def name="onward(run, loads, stride)">
${run} += ${loads.jump} * ${stride};
asm volatile("" : "+l"(${run}));
</%def>
