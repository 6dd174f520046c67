## kernel softmax_columns: y = exp(x) / sum(exp(x)) along an axis that is not the last, on CPUs
##
## math     softmax: gx = y (gy - sum(gy y)); log softmax: gx = gy - exp(y) sum(gy)
## layout   all arrays dense (outer, n, inner), the sums run over n
## param    log: bool                    the logarithm of it
## param    ctype: str                   element type, of C or "bfloat16"
## param    acc: str                     element type in registers
## param    lanes: int                   lanes of a vector of acc
## param    vectors: int                 vectors of a row that an item takes
## param    room: int                    elements of its rows that an item keeps; 0: it reads again
## param    k: int                       number of a vector
## param    name: str                    C name of a pointer to an item's first row
## param    first: str                   C name of what keeps rows
## def      all
## arg      blocks: int  items that cover inner
## arg      n, inner: int
## def      softmax_columns
## arg      y: out ctype[outer, n, inner]
## arg      x: in ctype[outer, n, inner]
## def      softmax_grad_columns
## arg      gx: out ctype[outer, n, inner]
## arg      gy: in ctype[outer, n, inner]
## arg      y: in ctype[outer, n, inner]
## launch   local 1, some vectors of columns an item
## numerics as softmax.mako's
<%namespace name="lib" file="/lib/fold.mako"/>
<%namespace name="ragged" file="/lib/ragged.mako"/>
<%namespace name="decay" file="/lib/decay.mako"/>
<%namespace name="elementary" file="/lib/elementary.mako"/>
<%namespace name="stored" file="/lib/stored.mako"/>
<%def name="softmax_columns(log, ctype, acc, lanes, vectors, room)">
<% vector, every = f"{acc}{lanes}", range(vectors) %>
typedef ${vector} __attribute__((aligned(${lanes * (4 if acc == "float" else 8)}))) whole;
${lib.join("max", acc, lanes)}
${ragged.load(ctype, acc, lanes)}
${decay.define(acc, lanes)}
${ragged.store(ctype, acc, lanes)}
% if log:
${elementary.define(("log",), acc, lanes)}
#define LOG ${f"clnet_log{lanes}" if acc == "float" else "log"}
% endif
__kernel void softmax_columns(...) {
% if room:
    /* Lines that lie a power of two apart leave the caches before they are read again. */
    __local ${acc} kept[${room}] __attribute__((aligned(128)));
% endif
    const int item = get_global_id(0);
    const int column = item % blocks * ${lanes * vectors}, count = inner - column;
    const long start = (long)(item / blocks) * n * inner + column;
    __global const ${stored.memory(ctype)} *from = x + x_offset + start;
    __global ${stored.memory(ctype)} *to = y + y_offset + start;
    ${vector} ${", ".join(f"top_{k} = -INFINITY, sum_{k} = 0" for k in every)};
    for (int row = 0; row < n; ++row) {
% for k in every:
        const ${vector} v_${k} = ${again(k, lanes)};
        top_${k} = max_join${lanes}(top_${k}, v_${k});
% if room:
        ${held(k, lanes, vectors)} = v_${k};
% endif
% endfor
    }
    for (int row = 0; row < n; ++row) {
% for k in every:
        const ${vector} e_${k} =
            decay(${held(k, lanes, vectors) if room else again(k, lanes)} - top_${k});
        sum_${k} += e_${k};
% if room and not log:
        ${held(k, lanes, vectors)} = e_${k};
% endif
% endfor
    }
% for k in every:
    const ${vector} ${f"log_sum_{k} = LOG(sum_{k})" if log else f"scale_{k} = 1 / sum_{k}"};
% endfor
    for (int row = 0; row < n; ++row) {
% for k in every:
<% value = capture(held, k, lanes, vectors) if room else capture(again, k, lanes) %>
% if log:
        store_ragged(to + (long)row * inner + ${k * lanes}, count - ${k * lanes},
            (${value} - top_${k}) - log_sum_${k});
% else:
        store_ragged(to + (long)row * inner + ${k * lanes}, count - ${k * lanes},
            ${value if room else f"decay({value} - top_{k})"} * scale_${k});
% endif
% endfor
    }
}
</%def>
##
## A vector of the item's row, from memory; and its place in local memory.
<%def name="again(k, lanes, name='from')" filter="trim">
load_ragged(${name} + (long)row * inner + ${k * lanes}, count - ${k * lanes}, 0)
</%def>
<%def name="held(k, lanes, vectors, first='kept')" filter="trim">
*(__local whole *)(${first} + row * ${lanes * vectors} + ${k * lanes})
</%def>
<%def name="softmax_grad_columns(log, ctype, acc, lanes, vectors, room)">
<% vector, every = f"{acc}{lanes}", range(vectors) %>
typedef ${vector} __attribute__((aligned(${lanes * (4 if acc == "float" else 8)}))) whole;
${ragged.load(ctype, acc, lanes)}
${decay.define(acc, lanes)}
${ragged.store(ctype, acc, lanes)}
__kernel void softmax_grad_columns(...) {
% if room:
    __local ${acc} kept[${room}] __attribute__((aligned(128)));
    __local ${acc} kept_g[${room}] __attribute__((aligned(128)));
% endif
    const int item = get_global_id(0);
    const int column = item % blocks * ${lanes * vectors}, count = inner - column;
    const long start = (long)(item / blocks) * n * inner + column;
    __global const ${stored.memory(ctype)} *g = gy + gy_offset + start;
    __global const ${stored.memory(ctype)} *from = y + y_offset + start;
    __global ${stored.memory(ctype)} *to = gx + gx_offset + start;
    ${vector} ${", ".join(f"sum_{k} = 0" for k in every)};
    for (int row = 0; row < n; ++row) {
% for k in every:
        const ${vector} g_${k} = ${again(k, lanes, "g")};
% if room or not log:
        const ${vector} v_${k} = ${again(k, lanes)};
% endif
        sum_${k} += g_${k}${"" if log else f" * v_{k}"};
% if room:
        ${held(k, lanes, vectors)} = v_${k};
        ${held(k, lanes, vectors, "kept_g")} = g_${k};
% endif
% endfor
    }
    for (int row = 0; row < n; ++row) {
% for k in every:
        const ${vector} v_${k} = ${held(k, lanes, vectors) if room else again(k, lanes)};
        const ${vector} g_${k} =
            ${held(k, lanes, vectors, "kept_g") if room else again(k, lanes, "g")};
        store_ragged(to + (long)row * inner + ${k * lanes}, count - ${k * lanes},
            ${f"g_{k} - decay(v_{k}) * sum_{k}" if log else f"v_{k} * (g_{k} - sum_{k})"});
% endfor
    }
}
</%def>
