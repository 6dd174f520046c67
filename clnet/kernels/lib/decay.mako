## lib decay: exp of numbers that are not above 0, as softmax takes it of scores and their largest
##
## Half as many operations as lib/elementary.mako's exp: products and sums contract where the device
## has an instruction for both, and what is below 2^-126 is 0.
##
## param acc: str                    element type; for all but float it is OpenCL's exp
## param lanes: int                  lanes of the vector, 2 or more
## numerics at most 2 ulp; arguments as in lib/elementary.mako
<%def name="define(acc, lanes)">
% if acc == "float":
inline float${lanes} decay(float${lanes} x)
{
#pragma OPENCL FP_CONTRACT ON
    x = x < -88.0f ? (float${lanes})(-88.0f) : x;
    const float${lanes} shifted = x * 1.44269504f + 12583039.0f;  /* 1.5 * 2^23: no fraction is left; and 127 */
    const float${lanes} n = shifted - 12583039.0f;
    float${lanes} r = x - n * 0.693359375f;  /* ln 2 in two parts */
    r = r + n * 2.12194440e-4f;
    float${lanes} p = 1.395171857e-3f * r + 8.369598538e-3f;
    p = p * r + 4.166618735e-2f;
    p = p * r + 1.666651219e-1f;
    p = p * r + 0.5f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    return p * as_float${lanes}(as_int${lanes}(shifted) << 23);
}
% else:
#define decay exp
% endif
</%def>
