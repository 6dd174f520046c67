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
## param i: int               number of a read
## param source: str          where it reads, in C
## param valid: str           whether it may, in C
## param running: bool        places of reads are made one of another
## param further: bool        ... and there is another
##
## Start bringing one operand's next tile in; many small copies gain from asking once for all of
## them whether they are inside, but not where an item's products leave room for them. Each place is
## made of the one before it: a compiler that had all of them at hand would need some twenty
## registers more, and leave a unit fewer groups.
<%def name="copies(tile, ctype, loads, name, stride)">
<%
    single = tile.copy == "async" and loads.width == 1 and tile.item_m * tile.item_n <= 64
    running = tile.ring and loads.count > 2
    place = lambda i: i * loads.jump * (loads.pitch if loads.along == "tile" else 1)
    source = lambda i: (f"(__global const {ctype} *)run" if running
        else f"{name}_from + {i * loads.jump} * {stride}")
%>
% if single:
    if (${name}_room > ${(loads.count - 1) * loads.jump}) {
        ${run(name, running)}
% for i in range(loads.count):
        copy_inside(${name}_to + slot * ${loads.pitch * loads.tile_k} + ${place(i)}, ${source(i)});
        ${next_run(tile, ctype, loads, stride, running and i + 1 < loads.count)}
% endfor
    } else {
% else:
    {
% endif
        ${run(name, running)}
% for i in range(loads.count):
        ${copy_one(tile, ctype, loads, name, i, source(i), "%d < %s_room" % (i * loads.jump, name))}
        ${next_run(tile, ctype, loads, stride, running and i + 1 < loads.count)}
% endfor
    }
</%def>
<%def name="run(name, running)">
% if running:
        ulong run = (ulong)${name}_from;
% endif
</%def>
<%def name="next_run(tile, ctype, loads, stride, further)">
% if further:
        run += ${loads.jump} * sizeof(${ctype}) * (long)${stride};
% if tile.copy == "async":
        asm volatile("" : "+l"(run));
% endif
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
