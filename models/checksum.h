// A checksum for files and data: it finds damage and tells contents apart; it is no defence against forgery.
#pragma once
#include <cstddef>
#include <memory>
#include <span>
#include <string>

namespace tcc::models {

/// XXH3 of 128 bits over everything that was added.
class Checksum {
public:
  Checksum();
  ~Checksum();
  Checksum(const Checksum &) = delete;
  Checksum &operator=(const Checksum &) = delete;

  void add(std::span<const std::byte> bytes);
  /// 32 hexadecimal digits.
  std::string text() const;

private:
  struct State;
  std::unique_ptr<State> state;
};

/// The checksum of some bytes.
std::string checksumOf(std::span<const std::byte> bytes);

} // namespace tcc::models
