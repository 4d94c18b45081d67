// Tensor maps of the emulated device. A tensor map describes a tensor in global memory and the box of it that one TMA
// copy moves to shared memory; here are the reading of a map's bytes, and the bytes that a box covers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace tcc::emulator {

/// What a map says. Dimension 0 is the innermost.
struct DecodedMap {
  char *address = nullptr;
  int rank = 0, elementBytes = 0, swizzle = 0;  // swizzle: the bytes within which 16-byte units are exchanged; 0: none
  std::uint64_t sizes[5] = {}, strides[5] = {}; // strides in bytes; strides[0] is the size of an element
  std::uint32_t box[5] = {};
  std::size_t boxBytes() const;
};

/// Reads a map's bytes. Gives an empty string, or why these are not a tensor map's bytes.
std::string decodeTensorMap(const void *map, DecodedMap &decoded);

/// Bytes of a box that are consecutive in both memories: at most 16, the unit of the swizzle.
struct BoxPiece {
  std::size_t sharedOffset;
  std::ptrdiff_t globalOffset;
  int bytes;
  bool inside; // whether they belong to the tensor; what lies outside is read as zeros and not written
};
/// The pieces of the box whose first element is at `coordinates`, which may lie outside of the tensor. In shared memory
/// the box begins at `start`.
std::vector<BoxPiece> boxPieces(const DecodedMap &map, const int *coordinates, std::size_t start);

} // namespace tcc::emulator
