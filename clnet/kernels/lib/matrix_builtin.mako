## lib matrix_builtin: products of small matrices by functions of the compiler, or emulated
##
## An item holds a<p>_<i> and b<p>_<j>, vectors of elements, and acc_<i>_<j>, a vector of floats, as
## the unit's fragments say. Elements that follow each other come from local memory as one vector.
## Emulated, the same vectors go through local memory, `a_held` and `b_held`, and are read from
## there by the inverse layout.
##
## param ctype: 'half'|'bfloat16'|'float'  element type; float may be rounded to TF32
## param unit: MatrixUnit     see device/matrix_units.py
## param tile: MatrixTile     shapes, see gemm_matrix.py
## param element: str         type of elements in local memory: ushort or float
## param step: int            of the unit's products of a tile
## param a_loads: MatrixLoads how a comes in
## param b_loads: MatrixLoads how b comes in
## param a_along: 'tile'|'k'  axis of a that is dense
## param b_along: 'tile'|'k'  the same of b
## param name: 'a'|'b'        the operand
## param held: Fragment       what an item holds of it
## param across: int          products along its axis
## param lines: int           of the unit along it
## param loads: MatrixLoads   how it comes in
## param along: 'tile'|'k'    its dense axis
<%def name="declared(unit, tile, element)">
% for name, held, across in (("a", unit.a, tile.rows(unit)), ("b", unit.b, tile.columns(unit))):
<% vector = f"{element}{held.count if held.count > 1 else ''}" %>
    ${vector} ${", ".join(f"{name}_{i}" for i in range(across))};
% endfor
% for i in range(tile.rows(unit)):
% for j in range(tile.columns(unit)):
    float${unit.sums.count} acc_${i}_${j} = 0;
% endfor
% endfor
</%def>
##
## Bring in the operands of one of the unit's steps.
<%def name="operands_of(ctype, unit, tile, step, a_loads, b_loads, a_along, b_along)">
${operand(ctype, unit, "a", unit.a, tile.rows(unit), unit.rows, step, a_loads, a_along)}
${operand(ctype, unit, "b", unit.b, tile.columns(unit), unit.columns, step, b_loads, b_along)}
</%def>
##
## Those of one operand.
<%def name="operand(ctype, unit, name, held, across, lines, step, loads, along)">
<%
    element = "float" if ctype == "float" else "ushort"
    run = held.run(along, unit.lanes, 4 if ctype == "float" else 8)
    vector = f"{element}{held.count if held.count > 1 else ''}"
    piece = f"{element}{run if run > 1 else ''}"
%>
% for i in range(across):
<%
    pieces = []
    for e in range(0, held.count, run):
        line = f"self_{'m' if name == 'a' else 'n'} + {i * lines} + {held.line.format(e=e)}"
        at = loads.place(along, line, f"{step * unit.steps} + {held.step.format(e=e)}")
        pieces.append(f"*(__local const {piece} *)&{name}_tile[{name}_base + {at}]")
%>
    ${name}_${i} = (${vector})(${", ".join(pieces)});
% if unit.rounds:
% for e in range(held.count):
    ${name}_${i}.s${"%x" % e} = as_float(rounded(${name}_${i}.s${"%x" % e}));
% endfor
% endif
% endfor
</%def>
##
## acc_<i>_<j> += a_<i> * b_<j>, all of them.
<%def name="products(unit, tile)">
% if unit.emulated:
% for name, held, across in (("a", unit.a, tile.rows(unit)), ("b", unit.b, tile.columns(unit))):
% for i in range(across):
% for e in range(held.count):
    ${name}_held[patch][${i}][lane][${e}] = ${name}_${i}${".s%x" % e if held.count > 1 else ""};
% endfor
% endfor
% endfor
    barrier(CLK_LOCAL_MEM_FENCE);
% for i in range(tile.rows(unit)):
% for j in range(tile.columns(unit)):
% for e in range(unit.sums.count):
    {
        const int row = ${unit.sums.line.format(e=e)}, column = ${unit.sums.step.format(e=e)};
        float sum = acc_${i}_${j}.s${"%x" % e};
        for (int s = 0; s < ${unit.steps}; s++)
            sum += wide(a_held[patch][${i}][${unit.a.lane.format(line="row", step="s")}]
                    [${unit.a.element.format(line="row", step="s")}])
                * wide(b_held[patch][${j}][${unit.b.lane.format(line="column", step="s")}]
                    [${unit.b.element.format(line="column", step="s")}]);
        acc_${i}_${j}.s${"%x" % e} = sum;
    }
% endfor
% endfor
% endfor
    barrier(CLK_LOCAL_MEM_FENCE);
% else:
% for i in range(tile.rows(unit)):
% for j in range(tile.columns(unit)):
    acc_${i}_${j} = ${unit.call.format(a=f"a_{i}", b=f"b_{j}", sums=f"acc_{i}_{j}")};
% endfor
% endfor
% endif
</%def>
##
## What the emulation reads of an element.
<%def name="wide(ctype, element)">
inline float wide(const ${element} bits)
{
% if ctype == "half":
    return vload_half(0, (const half *)&bits);
% elif ctype == "bfloat16":
    return as_float((uint)bits << 16);
% else:
    return bits;
% endif
}
</%def>
