"""Parts of PyTorch that programs mention and OpenCL has no use for: accepted, or named a remedy.

Imported when one of them is asked for. Nothing here computes; what would change results if it were
left out raises an error that says what to do.
"""
