## lib philox: Philox4x32-10, a counter-based random generator (Salmon et al., SC 2011)
##
## `philox` declares the function; `draw` declares `bits`, the four words of this item's counter.
<%def name="philox()">
uint4 philox(uint4 counter, uint2 key)
{
    for (int round = 0; round < 10; ++round) {
        const uint high_0 = mul_hi(0xD2511F53u, counter.s0);
        const uint high_2 = mul_hi(0xCD9E8D57u, counter.s2);
        counter = (uint4)(high_2 ^ counter.s1 ^ key.s0, 0xCD9E8D57u * counter.s2,
                          high_0 ^ counter.s3 ^ key.s1, 0xD2511F53u * counter.s0);
        key += (uint2)(0x9E3779B9u, 0xBB67AE85u);
    }
    return counter;
}
</%def>
<%def name="draw()">
    const ulong counter = (ulong)offset + get_global_id(0);
    const uint4 bits = philox((uint4)((uint)counter, (uint)(counter >> 32), 0u, 0u),
                              (uint2)((uint)seed, (uint)(seed >> 32)));
</%def>
