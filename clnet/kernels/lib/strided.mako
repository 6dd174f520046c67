## lib strided: where the elements of strided arrays lie
##
## param  ndim: int                  axes of the common shape, 1 or more
## param  index: str                 C expression, an element's number in row-major order
## param  arrays: tuple of str       for each array x the kernel has x_stride_0 ..., and size_0 ...
##
## param  flat: str                  the type of their places, long beyond 2^31 elements
##
## `locate` declares `int at_x` for each array.
<%def name="locate(ndim, index, arrays, flat='int')">
    int rest = ${index};
% for array in arrays:
    ${flat} at_${array} = 0;
% endfor
% for d in range(ndim - 1, 0, -1):
    {
        const int outer = rest / size_${d};
        const int here = rest - outer * size_${d};
% for array in arrays:
        at_${array} += (${flat})here * ${array}_stride_${d};
% endfor
        rest = outer;
    }
% endfor
% for array in arrays:
    at_${array} += (${flat})rest * ${array}_stride_0;
% endfor
</%def>
