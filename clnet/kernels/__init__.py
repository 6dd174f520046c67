"""Families of kernels: each module declares launches of the Mako template beside it.

A function of a target and arrays gives its launches, in order, and none where there are no elements
to write. What its arrays must be stands in its docstring or, for a family, in the module's.
"""
