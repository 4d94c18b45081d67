#include "tests/cuda_emulator/tensor_map.h"

#include "tests/cuda_emulator/emulator.h"

#include <cstring>
#include <stdexcept>

namespace tcc::emulator {
namespace {

constexpr std::uint64_t magic = 0x7cc7e4503a900001ull;

void require(bool condition, const std::string &text) {
  if (!condition)
    throw std::invalid_argument("tensor map: " + text);
}

} // namespace

EncodedMap makeTensorMap(const TensorMapRequest &request) {
  std::size_t rank = request.sizes.size();
  std::uint64_t elementBytes = request.element == MapElement::F32 ? 4 : 2;
  require(rank >= 1 && rank <= 5, "rank " + std::to_string(rank) + "; it is 1 to 5");
  require(request.strides.size() == rank - 1 && request.box.size() == rank,
          "a stride for every dimension but the innermost and a box size for every dimension");
  std::uint64_t address = reinterpret_cast<std::uint64_t>(request.address);
  require(address && address % 16 == 0, "the address must be a multiple of 16");
  for (std::uint64_t size : request.sizes)
    require(size >= 1 && size <= 1ull << 32, "size " + std::to_string(size) + "; it is 1 to 2^32");
  for (std::uint64_t stride : request.strides)
    require(stride % 16 == 0 && stride < 1ull << 40,
            "stride " + std::to_string(stride) + "; strides are multiples of 16 below 2^40");
  for (std::uint32_t box : request.box)
    require(box >= 1 && box <= 256, "box size " + std::to_string(box) + "; it is 1 to 256");
  std::uint64_t inner = request.box[0] * elementBytes;
  require(inner % 16 == 0, "an inner box of " + std::to_string(inner) + " bytes; it is a multiple of 16");
  require(request.swizzle == 0 || request.swizzle == 32 || request.swizzle == 64 || request.swizzle == 128,
          "a swizzle of " + std::to_string(request.swizzle) + " bytes; it is 0, 32, 64 or 128");
  require(!request.swizzle || inner == static_cast<std::uint64_t>(request.swizzle),
          "an inner box of " + std::to_string(inner) + " bytes; it fills the swizzle's " +
              std::to_string(request.swizzle));

  EncodedMap map{};
  map.word[0] = magic;
  map.word[1] = address;
  map.word[2] = rank | elementBytes << 8 | static_cast<std::uint64_t>(request.swizzle) << 16;
  for (std::size_t i = 0; i < rank; ++i) {
    map.word[3 + i] = request.sizes[i];
    if (i)
      map.word[7 + i] = request.strides[i - 1];
    map.word[12 + i / 2] |= static_cast<std::uint64_t>(request.box[i]) << 32 * (i % 2);
  }
  return map;
}

std::size_t DecodedMap::boxBytes() const {
  std::size_t bytes = static_cast<std::size_t>(elementBytes);
  for (int i = 0; i < rank; ++i)
    bytes *= box[i];
  return bytes;
}

std::string decodeTensorMap(const void *map, DecodedMap &decoded) {
  EncodedMap encoded;
  std::memcpy(&encoded, map, sizeof encoded);
  if (encoded.word[0] != magic)
    return "the pointer is not to a tensor map";
  decoded.address = reinterpret_cast<char *>(encoded.word[1]);
  decoded.rank = static_cast<int>(encoded.word[2] & 0xff);
  decoded.elementBytes = static_cast<int>(encoded.word[2] >> 8 & 0xff);
  decoded.swizzle = static_cast<int>(encoded.word[2] >> 16 & 0xff);
  for (int i = 0; i < decoded.rank; ++i) {
    decoded.sizes[i] = encoded.word[3 + i];
    decoded.strides[i] = i ? encoded.word[7 + i] : static_cast<std::uint64_t>(decoded.elementBytes);
    decoded.box[i] = static_cast<std::uint32_t>(encoded.word[12 + i / 2] >> 32 * (i % 2));
  }
  return "";
}

std::vector<BoxPiece> boxPieces(const DecodedMap &map, const int *coordinates, std::size_t start) {
  std::vector<BoxPiece> pieces;
  std::size_t inner = map.box[0] * static_cast<std::size_t>(map.elementBytes);
  std::size_t rows = map.boxBytes() / inner;
  std::size_t mask = map.swizzle ? static_cast<std::size_t>(map.swizzle) / 16 - 1 : 0;
  for (std::size_t row = 0; row < rows; ++row) {
    bool inside = true;
    std::ptrdiff_t rowOffset = 0;
    std::size_t rest = row;
    for (int i = 1; i < map.rank; ++i) {
      std::int64_t coordinate = coordinates[i] + static_cast<std::int64_t>(rest % map.box[i]);
      rest /= map.box[i];
      inside &= coordinate >= 0 && coordinate < static_cast<std::int64_t>(map.sizes[i]);
      rowOffset += coordinate * static_cast<std::int64_t>(map.strides[i]);
    }
    for (std::size_t at = 0; at < inner; at += static_cast<std::size_t>(map.elementBytes)) {
      std::int64_t column = coordinates[0] + static_cast<std::int64_t>(at) / map.elementBytes;
      bool elementInside = inside && column >= 0 && column < static_cast<std::int64_t>(map.sizes[0]);
      std::size_t linear = start + row * inner + at;
      std::size_t shared = linear ^ ((linear >> 7 & mask) << 4);
      std::ptrdiff_t global = rowOffset + column * map.elementBytes;
      if (!pieces.empty() && at % 16 && pieces.back().inside == elementInside)
        pieces.back().bytes += map.elementBytes;
      else
        pieces.push_back({shared, global, map.elementBytes, elementInside});
    }
  }
  return pieces;
}

} // namespace tcc::emulator
