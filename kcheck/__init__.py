"""kcheck: find the silent bugs of GPU kernels, with or without a GPU."""

__version__ = "0.1.0.dev0"
