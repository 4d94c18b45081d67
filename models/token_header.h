// The first 1024 bytes of a file of tokens, with a checksum of the whole file where tcc wrote it.
#pragma once
#include "frontend/files.h"

#include <array>
#include <span>
#include <string>

namespace tcc::models {

struct TokenHeader {
  /// llm.c's size, 256 int32 values, of which it uses the first three. The last 32 bytes are for the checksum.
  static constexpr size_t size = 1024;
  std::array<std::byte, size> bytes{};

  /// Writes the checksum of all that comes before and after it into the header, then the file: the header and `parts`.
  /// Throws Error for a failed write.
  void writeFile(const std::string &path, std::span<const std::span<const std::byte>> parts);
};

/// Whether the file has a header with the checksum of the whole file.
bool hasItsChecksum(const MappedFile &file);

} // namespace tcc::models
