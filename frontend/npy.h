// Reads and writes .npy files (NumPy format 1.0 and 2.0), for the inputs and results of a graph.
#pragma once
#include "frontend/array.h"

namespace tcc {

/// The array in `path`, converted to `dtype` (integers must fit; floats are rounded). Little-endian f4, f8, f2, i4, i8
/// and b1 in C order are read. Throws Error naming the file and what was expected; the header's claims are checked
/// against the file's size before memory is taken.
/// A finite float that its dtype can only hold as an infinity is refused.
Array readNpy(const std::string &path, DType dtype);

/// Replaces `path` atomically by `array` in C order, little endian: f32 as f4, f16 as f2, i32 as i4, i64 as i8, i1 as
/// b1; bf16, which NumPy lacks, as f4, exactly. Throws Error for an 8-bit float and where the system cannot write.
void writeNpy(const std::string &path, const Array &array);

} // namespace tcc
