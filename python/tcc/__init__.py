"""tcc, a graph compiler for training. `tcc.torch` is its back end for PyTorch."""
