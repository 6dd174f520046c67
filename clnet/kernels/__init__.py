"""Kernel families: each module declares launches of the Mako template beside it."""
