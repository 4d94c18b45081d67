// Tensor maps of the emulated device: what cuTensorMapEncodeTiled accepts, and the bytes that a box covers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace tcc::emulator {

struct DecodedMap {
  char *address = nullptr;
  int rank = 0, elementBytes = 0, swizzle = 0;
  std::uint64_t sizes[5] = {}, strides[5] = {}; // strides in bytes, [0] the element's
  std::uint32_t box[5] = {};
  std::size_t boxBytes() const;
};

/// Empty on success, otherwise why these are not a tensor map's bytes.
std::string decodeTensorMap(const void *map, DecodedMap &decoded);

/// Consecutive bytes of a box, at most 16: one unit of the swizzle.
struct BoxPiece {
  std::size_t sharedOffset;
  std::ptrdiff_t globalOffset;
  int bytes;
  bool inside;
};
/// The box at `coordinates`, laid out from shared offset `start`, swizzled by address bits.
std::vector<BoxPiece> boxPieces(const DecodedMap &map, const int *coordinates, std::size_t start);

} // namespace tcc::emulator
