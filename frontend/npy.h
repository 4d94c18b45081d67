// .npy files (NumPy format 1.0 and 2.0): reading a given input.
#pragma once
#include "frontend/array.h"

namespace tcc {

/// The array in `path`, converted to `dtype` (integers must fit; floats are rounded). Little-endian f4, f8, f2, i4, i8
/// and b1 in C order are read. Throws Error naming the file and what was expected; the header's claims are checked
/// against the file's size before memory is taken.
Array readNpy(const std::string &path, DType dtype);

} // namespace tcc
