## lib prelude: what some compilers have and others lack
##
## `stream` declares a store that passes the caches by, where the compiler knows one: a plain store
## first reads the line that it overwrites, so that a kernel bound by memory moves half as many
## bytes again. A whole line at a time, `place` aligned to it, is twice as fast as halves; and only
## as a parameter of a function does PoCL's compiler leave a vector of 64 bytes whole.
##
## param ctype: str           element type
## param width: int           elements of a vector of the processor
## param past: bool           lines go past the caches
<%def name="stream(ctype, width)">
#define STREAM(value, place) (*(place) = (value))
#ifdef __has_builtin
#if __has_builtin(__builtin_nontemporal_store)
#undef STREAM
#define STREAM(value, place) __builtin_nontemporal_store(value, place)
#endif
#endif
inline void stream(const ${ctype}${width} value, __global ${ctype}${width} *place)
{
    STREAM(value, place);
}
</%def>
##
## `spill` moves n elements from local memory to where they lie, `start` elements behind a line, in
## one piece: only what is no whole line at its ends is stored by elements.
<%def name="spill(ctype, width, past)">
% if past:
${stream(ctype, width)}
% endif
inline void spill(__global ${ctype} *base, const long start, __local const ${ctype} *from,
    const int n)
{
    typedef ${ctype}${width} __attribute__((aligned(sizeof(${ctype})))) anywhere;
    __global ${ctype} *const to = base + start;
    int i = 0;
% if past:
    for (; i < n && (start + i) % ${width}; ++i)
        to[i] = from[i];
    for (; i + ${width} <= n; i += ${width})
        stream(*(__local const anywhere *)(from + i), (__global ${ctype}${width} *)(to + i));
% else:
    for (; i + ${width} <= n; i += ${width})
        *(__global anywhere *)(to + i) = *(__local const anywhere *)(from + i);
% endif
    for (; i < n; ++i)
        to[i] = from[i];
}
</%def>
##
## `FETCH_AHEAD(place)` asks for the line at a place in global memory to come into the second-level
## cache. PoCL leaves OpenCL's prefetch() out, but its compiler has an instruction for it. Others'
## take it for host memory alone, and SPIR, the code of an abstract machine, has none. The place
## need not exist; bytes are named, since not every driver knows the function for half.
<%def name="fetch_ahead()">
#define FETCH_AHEAD(place) prefetch((__global const char *)(place), 1)
#if defined(__has_builtin) && defined(POCL_DEVICE_ADDRESS_BITS) && !defined(__SPIR__)
#if __has_builtin(__builtin_prefetch)
#undef FETCH_AHEAD
#define FETCH_AHEAD(place) __builtin_prefetch((__global const void *)(place), 0, 2)
#endif
#endif
</%def>
##
## `ONE_BY_ONE` before a kernel asks that its work-items not be computed side by side, in the lanes
## of vectors. Intel's compiler does so by its own judgement, and a kernel of wide vectors is half
## as fast then.
<%def name="one_by_one()">
#define ONE_BY_ONE
#ifdef __has_attribute
#if __has_attribute(intel_vec_len_hint)
#undef ONE_BY_ONE
#define ONE_BY_ONE __attribute__((intel_vec_len_hint(1)))
#endif
#endif
</%def>
##
## `SIDE_BY_SIDE` before a kernel asks that work-items of a group be computed in lanes of vectors,
## where its body stands in a loop over them (device/apart.py): PoCL's compiler would judge by what
## it knows, and it overrates what lies apart in memory. The kernel takes a third of the time then.
<%def name="side_by_side()">
#define SIDE_BY_SIDE
</%def>
##
## `IN_LANES` before a loop says that its turns are independent, so that the compiler need not ask
## at run time whether arrays overlap.
<%def name="in_lanes()">
#define IN_LANES
#ifdef __clang__
#undef IN_LANES
#define IN_LANES _Pragma("clang loop vectorize(assume_safety)")
#endif
</%def>
##
## `CONVERT(value, type)` converts numbers to `floats`, `ints` or `uchars`, vectors of `width`: by
## the compiler's own conversion of whole vectors where there is one, since PoCL's functions go
## lane by lane. Floats are whole numbers.
<%def name="convert(width)">
% if width == 1:
#define CONVERT(value, type) (type)(value)
% else:
#define convert_ints convert_int${width}
#define convert_floats convert_float${width}
#define convert_uchars convert_uchar${width}
#define CONVERT(value, type) convert_##type(value)
#ifdef __has_builtin
#if __has_builtin(__builtin_convertvector)
#undef CONVERT
#define CONVERT(value, type) __builtin_convertvector(value, type)
#endif
#endif
% endif
</%def>
##
## `roundings` has the compiler's own floor and rint of a scalar taken where the processor has an
## instruction for them: PoCL's functions are calls, and no loop with a call becomes vectors.
<%def name="roundings(ctype)">
#if defined(__SSE4_1__) && defined(__has_builtin)
#if __has_builtin(__builtin_floorf) && __has_builtin(__builtin_rintf)
<% suffix = "f" if ctype == "float" else "" %>
#define floor(x) __builtin_floor${suffix}(x)
#define rint(x) __builtin_rint${suffix}(x)
#endif
#endif
</%def>
##
## `elementwise` has the compiler's own roundings of numbers and vectors taken where the processor
## has instructions for them: PoCL's functions of vectors are calls.
<%def name="elementwise()">
#if (defined(__SSE4_1__) || defined(__ARM_NEON)) && defined(__has_builtin)
#if __has_builtin(__builtin_elementwise_floor) && __has_builtin(__builtin_elementwise_roundeven)
#define floor(x) __builtin_elementwise_floor(x)
#define ceil(x) __builtin_elementwise_ceil(x)
#define trunc(x) __builtin_elementwise_trunc(x)
#define rint(x) __builtin_elementwise_roundeven(x)
#endif
#endif
</%def>
##
## `WIDE_HALVES(bits)` are the floats of half numbers, `NARROW_FLOATS(x, bits)` makes such bits of
## floats: `width` of them, a `ushort` each. Where the compiler knows its processor's instructions
## these are taken, eight at once: PoCL's functions of OpenCL's are calls, and its compiler dies of
## 16 numbers.
<%def name="halves(width)">
#define WIDE_HALVES(bits) vload_half${width}(0, (const half *)&bits)
#define NARROW_FLOATS(x, bits) vstore_half${width}_rte(x, 0, (half *)&bits)
% if width in (8, 16):
#ifdef __F16C__
#if __has_builtin(__builtin_ia32_vcvtph2ps256) && __has_builtin(__builtin_ia32_vcvtps2ph256)
#undef WIDE_HALVES
#undef NARROW_FLOATS
#define WIDE_8(bits) __builtin_ia32_vcvtph2ps256(as_short8(bits))
#define NARROW_8(x) as_ushort8(__builtin_ia32_vcvtps2ph256(x, 0))
% if width == 8:
#define WIDE_HALVES(bits) WIDE_8(bits)
#define NARROW_FLOATS(x, bits) bits = NARROW_8(x)
% else:
#define WIDE_HALVES(bits) (float16)(WIDE_8(bits.lo), WIDE_8(bits.hi))
#define NARROW_FLOATS(x, bits) bits.lo = NARROW_8(x.lo); bits.hi = NARROW_8(x.hi)
% endif
#endif
#endif
% endif
</%def>
##
## `WIDER(bits)` are the numbers of `width` lanes of `ushort` as `uint`, `NARROWER(bits)` the way
## back, as `CONVERT` does it; PoCL's functions give zeros for vectors wider than those of its own.
<%def name="widths(width)">
#define WIDER(bits) convert_uint${width}(bits)
#define NARROWER(bits) convert_ushort${width}(bits)
#ifdef __has_builtin
#if __has_builtin(__builtin_convertvector)
#undef WIDER
#undef NARROWER
#define WIDER(bits) __builtin_convertvector(bits, uint${width})
#define NARROWER(bits) __builtin_convertvector(bits, ushort${width})
#endif
#endif
</%def>
