"""Train and run neural networks on any OpenCL device."""
