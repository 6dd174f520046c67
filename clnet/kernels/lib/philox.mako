## lib philox: Philox4x32-10, a counter-based random generator (Salmon et al., SC 2011)
##
## `draw` declares bits_0 to bits_3, the words of this item's counter, from the kernel's seed and
## offset, `words` those of any counter, `words_of_lanes` those of a vector of counters (it needs
## prelude's `convert`). Scalars and no loop: PoCL turns neighbouring items into vectors only
## without loops and vector types.
##
## `box_muller` defines what makes normals of words; `wide` is a number in (0, 1) of two of them.
##
## param number: str    C expression, the counter
## param low: str       C expression, a word
## param high: str      C expression, a word
## param lanes: int     counters of a vector
<%namespace name="elementary" file="/lib/elementary.mako"/>
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
##
## The same of a vector of counters. The words stay in halves of 64 bits, whose upper ones mean
## nothing: a processor multiplies those, and to convert them each time takes twice as long.
<%def name="words_of_lanes(number, lanes)">
    const ulong${lanes} counter = ${number};
    ulong${lanes} half_0 = counter, half_1 = counter >> 32, half_2 = 0, half_3 = 0;
    uint key_0 = (uint)seed, key_1 = (uint)(seed >> 32);
    ulong${lanes} product_0, product_2;
% for _ in range(10):
    product_0 = 0xD2511F53ul * (half_0 & 0xfffffffful);
    product_2 = 0xCD9E8D57ul * (half_2 & 0xfffffffful);
    half_0 = (product_2 >> 32) ^ half_1 ^ (ulong)key_0;
    half_1 = product_2;
    half_2 = (product_0 >> 32) ^ half_3 ^ (ulong)key_1;
    half_3 = product_0;
    key_0 += 0x9E3779B9u;
    key_1 += 0xBB67AE85u;
% endfor
% for w in range(4):
    const uint${lanes} bits_${w} = CONVERT(half_${w}, uint${lanes});
% endfor
</%def>
<%def name="box_muller()">
/* sqrt(-2 log(x)) for x from 2^-33 to 1. */
inline float radius_of(const float x)
{
    /* x = (1 + f) 2^n with 1 + f from sqrt(1/2) to sqrt(2). */
    const int power = (as_int(x) - 0x3f3504f3) >> 23;
    const float f = as_float(as_int(x) - (power << 23)) - 1.0f, n = (float)power;
    ${elementary.log_polynomial("float")}
    const float square = -2.0f * ((f + (f * z * p - n * 2.12194440e-4f - 0.5f * z))
        + n * 0.693359375f);
    /* Newton's steps to 1 / sqrt, and one to sqrt. */
    float inverse = as_float(0x5f375a86 - (as_int(square) >> 1));
% for _ in range(3):
    inverse = inverse * (1.5f - 0.5f * square * inverse * inverse);
% endfor
    const float root = square * inverse;
    return root + 0.5f * inverse * (square - root * root);
}
/* Cosine and sine of a turn in 2^24 parts: by minimax polynomials (Remez) from the nearest quarter
   on. */
inline float2 on_circle(const uint turn)
{
    const int quarter = (int)(turn + (1u << 21)) >> 22;
    const float r = (float)((int)turn - (quarter << 22)) * 0x1p-23f, z = r * r;
    const float c = (((0.231260926f * z - 1.33503592f) * z + 4.05870676f) * z - 4.93480206f) * z
        + 1.0f;
    const float s = r * (((-0.589012206f * z + 2.54976106f) * z - 5.16770792f) * z + 3.14159274f);
    const float x = quarter & 1 ? s : c, y = quarter & 1 ? c : s;
    return (float2)((quarter + 1) & 2 ? -x : x, quarter & 2 ? -y : y);
}
</%def>
<%def name="wide(low, high)">(((((ulong)${high} << 32) | ${low}) >> 11) * 0x1p-53 + 0x1p-54)</%def>
