## lib classes: scores of classes, and the weight of a row's target
##
## param x_type: str           type of a score in memory, of C or bfloat16
## param acc: str              type it is computed in
## param weighted: bool        classes have weights
<%namespace name="stored" file="stored.mako"/>
<%def name="memory(x_type)" filter="trim">
${"ushort" if x_type == "bfloat16" else x_type}
</%def>
<%def name="scores(x_type, acc)">
inline ${acc} score(__global const ${memory(x_type)} *from, const long at)
{
    ${stored.load(x_type, acc, "value", "from", "at")}
    return value;
}
</%def>
<%def name="own_weight(weighted, acc)">
        const long target = targets[targets_offset + row];
        const int inside = target >= 0 && target < n;
        const ${acc} own = ${"inside ? weight[weight_offset + target] : 1" if weighted else "1"};
</%def>
