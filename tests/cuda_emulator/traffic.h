// Accesses of single threads put together as a warp's: the n-th time that lanes come to a place is one request.
#pragma once

#include "tests/cuda_emulator/emulator.h"

#include <array>
#include <unordered_map>
#include <vector>

namespace tcc::emulator {

class TrafficCounter {
public:
  void startBlock(int threads);
  /// `place` identifies the instruction. `address` is an offset in shared memory or a global address.
  void add(int thread, bool shared, std::uint64_t address, unsigned bytes, void *place);
  /// Counts what not all lanes of a warp have come to.
  void finishBlock();
  Traffic total;

private:
  struct Place {
    void *programCounter;
    std::uint32_t warp, occurrence;
    bool shared;
    bool operator==(const Place &) const = default;
  };
  struct PlaceHash {
    std::size_t operator()(const Place &place) const;
  };
  struct Request {
    unsigned bytes = 0;
    int lanes = 0;
    std::array<std::uint64_t, 32> address;
    std::uint32_t active = 0;
  };
  void count(const Place &place, const Request &request);

  std::unordered_map<Place, Request, PlaceHash> open;
  std::vector<std::unordered_map<void *, std::array<std::uint32_t, 2>>> visits; // by thread, then place: global, shared
};

} // namespace tcc::emulator
