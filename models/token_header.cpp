#include "models/token_header.h"
#include "models/checksum.h"

#include <algorithm>

namespace tcc::models {
namespace {

constexpr size_t checksumAt = TokenHeader::size - 32;

std::string checksumAround(std::span<const std::byte> header, std::span<const std::span<const std::byte>> parts) {
  Checksum sum;
  sum.add(header.first(checksumAt));
  for (std::span<const std::byte> part : parts)
    sum.add(part);
  return sum.text();
}

} // namespace

void TokenHeader::writeFile(const std::string &path, std::span<const std::span<const std::byte>> parts) {
  const std::string checksum = checksumAround(bytes, parts);
  std::ranges::copy(std::as_bytes(std::span(checksum)), bytes.begin() + checksumAt);
  AtomicFile file(path);
  file.write(std::span<const std::byte>(bytes));
  for (std::span<const std::byte> part : parts)
    file.write(part);
  file.commit();
}

bool hasItsChecksum(const MappedFile &file) {
  if (file.bytes().size() < TokenHeader::size)
    return false;
  const std::span<const std::byte> rest[] = {file.bytes().subspan(TokenHeader::size)};
  return file.text().substr(checksumAt, TokenHeader::size - checksumAt) == checksumAround(file.bytes(), rest);
}

} // namespace tcc::models
