#include "models/checksum.h"

#include <fmt/format.h>
#include <new>
#define XXH_INLINE_ALL
#include <xxhash.h>

namespace tcc::models {

struct Checksum::State {
  XXH3_state_t value;
};

Checksum::Checksum() : state(new State) {
  XXH3_INITSTATE(&state->value);
  XXH3_128bits_reset(&state->value);
}

Checksum::~Checksum() = default;

void Checksum::add(std::span<const std::byte> bytes) {
  XXH3_128bits_update(&state->value, bytes.data(), bytes.size());
}

std::string Checksum::text() const {
  const XXH128_hash_t hash = XXH3_128bits_digest(&state->value);
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

std::string checksumOf(std::span<const std::byte> bytes) {
  Checksum checksum;
  checksum.add(bytes);
  return checksum.text();
}

} // namespace tcc::models
