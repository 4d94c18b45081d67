// Holds the precompiled header (mlir_pch.h) that the other MLIR targets reuse.
