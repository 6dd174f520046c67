## lib philox: Philox4x32-10, a counter-based random generator (Salmon et al., SC 2011)
##
## `draw` declares bits_0 to bits_3, the words of this item's counter, from the kernel's seed and
## offset, and `words` those of any counter. Scalars and no loop: PoCL turns neighbouring items into
## vectors only without loops and vector types.
##
## param number: str    C expression, the counter
<%def name="draw()">
    ${words("(ulong)offset + get_global_id(0)")}
</%def>
<%def name="words(number)">
    const ulong counter = ${number};
    uint bits_0 = (uint)counter, bits_1 = (uint)(counter >> 32), bits_2 = 0, bits_3 = 0;
    uint key_0 = (uint)seed, key_1 = (uint)(seed >> 32);
    ulong product_0, product_2;
% for _ in range(10):
    product_0 = 0xD2511F53ul * bits_0;
    product_2 = 0xCD9E8D57ul * bits_2;
    bits_0 = (uint)(product_2 >> 32) ^ bits_1 ^ key_0;
    bits_1 = (uint)product_2;
    bits_2 = (uint)(product_0 >> 32) ^ bits_3 ^ key_1;
    bits_3 = (uint)product_0;
    key_0 += 0x9E3779B9u;
    key_1 += 0xBB67AE85u;
% endfor
</%def>
