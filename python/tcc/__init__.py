"""tcc, a graph compiler for training. `tcc.torch` is its back end for PyTorch."""


def __getattr__(name: str):
    if name == "__version__":
        from tcc import _native

        return _native.version
    raise AttributeError(f"module 'tcc' has no attribute {name!r}")
