## kernel pointwise_many: the same expressions over many small arrays, in one launch
##
## math     in each segment k: y_k_j[i] = expression_j(y_k_0[i], ..., x_k_0[i], ..., u_0, ..., s_0,
##          ...)
## layout   dense arrays, of one size within a segment; a group works on one block of one segment
## param    statements: tuple[str]    C declarations of temporaries
## param    results: tuple[str]       C text of each changed array's value
## param    functions: tuple[str]     elementary functions of float that they call
## param    compute: str              C type the expressions are computed in
## param    changed: tuple[(str, bool)]  type in memory (of C, or bfloat16) of each array that is
##                                    overwritten, and whether it holds booleans
## param    inputs: tuple[(str, bool)]   the same of each array that is only read
## param    shared: tuple[(str, bool)]   the same of each array of one element, for all segments
## param    scalars: int              number of run-time scalars
## param    segments: int             number of segments
## param    name: str                 of a variable
## param    pointer: str              C expression
## param    at: str                   C expression, the element's number
## param    kind: (str, bool)         type in memory, and whether it holds booleans
## % for k in range(segments):
## % for j, (kind, boolean) in enumerate(changed):
## arg      y_{k}_{j}: inout kind, may alias
## % endfor
## % for j, (kind, boolean) in enumerate(inputs):
## arg      x_{k}_{j}: in kind, may alias
## % endfor
## arg      n_{k}: int      elements of segment k
## arg      first_{k}: int  its first group; beyond all groups for a segment that is none
## % endfor
## % for j, (kind, boolean) in enumerate(shared):
## arg      u_{j}: in kind, may alias  one element
## % endfor
## % for j in range(scalars):
## arg      s_{j}: compute  scalar j
## % endfor
## arg      block: int      elements of a group
## launch   groups of all segments; any local size; no local memory
## numerics as pointwise: the same bits as one launch for each segment
<%namespace name="elementary" file="/lib/elementary.mako"/>
<%namespace name="stored" file="/lib/stored.mako"/>
<%def name="memory(kind)">${"ushort" if kind[0] == "bfloat16" else kind[0]}</%def>
<%def name="value(kind, compute, name, pointer, at)">
% if kind[1]:
    const int ${name} = ${pointer}[${at}] != 0;
% else:
    ${stored.load(kind[0], compute, name, pointer, at)}
% endif
</%def>
<%def name="pointwise_many(
    statements, results, functions, compute, changed, inputs, shared, scalars, segments)">
#pragma OPENCL FP_CONTRACT OFF
${elementary.define(functions, compute, 1)}
__kernel void pointwise_many(...)
{
    const int group = (int)get_group_id(0);
    int n = n_0;
    int first = first_0;
% for j, kind in enumerate(changed):
    __global ${memory(kind)} *y_${j} = y_0_${j} + y_0_${j}_offset;
% endfor
% for j, kind in enumerate(inputs):
    __global const ${memory(kind)} *x_${j} = x_0_${j} + x_0_${j}_offset;
% endfor
% for k in range(1, segments):
    if (group >= first_${k}) {
        n = n_${k};
        first = first_${k};
    % for j in range(len(changed)):
        y_${j} = y_${k}_${j} + y_${k}_${j}_offset;
    % endfor
    % for j in range(len(inputs)):
        x_${j} = x_${k}_${j} + x_${k}_${j}_offset;
    % endfor
    }
% endfor
% for j, kind in enumerate(shared):
    ${value(kind, compute, "v_%d" % (len(changed) + len(inputs) + j), "u_%d" % j,
        "u_%d_offset" % j)}
% endfor
    const int begin = (group - first) * block;
    const int end = begin + block < n ? begin + block : n;
    for (int i = begin + (int)get_local_id(0); i < end; i += (int)get_local_size(0)) {
% for j, kind in enumerate(changed):
    ${value(kind, compute, "v_%d" % j, "y_%d" % j, "i")}
% endfor
% for j, kind in enumerate(inputs):
    ${value(kind, compute, "v_%d" % (len(changed) + j), "x_%d" % j, "i")}
% endfor
% for statement in statements:
        ${statement}
% endfor
% for j, kind in enumerate(changed):
    ${stored.store(kind[0], "y_%d" % j, "i", results[j])}
% endfor
    }
}
</%def>
