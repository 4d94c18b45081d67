#include "tests/cuda_emulator/traffic.h"

#include <algorithm>
#include <set>

namespace tcc::emulator {

std::size_t TrafficCounter::PlaceHash::operator()(const Place &place) const {
  std::size_t hash = reinterpret_cast<std::size_t>(place.programCounter) * 0x9E3779B97F4A7C15ull;
  return hash ^ (place.warp * 0x85EBCA6Bull + place.occurrence * 0xC2B2AE3D27D4EB4Full + place.shared);
}

void TrafficCounter::startBlock(int threads) {
  open.clear();
  visits.assign(static_cast<std::size_t>(threads), {});
}

void TrafficCounter::add(int thread, bool shared, std::uint64_t address, unsigned bytes, void *place) {
  std::uint32_t occurrence = visits[static_cast<std::size_t>(thread)][place][shared]++;
  Place key{place, static_cast<std::uint32_t>(thread / 32), occurrence, shared};
  Request &request = open[key];
  request.bytes = bytes;
  request.address[static_cast<std::size_t>(thread % 32)] = address;
  request.active |= 1u << (thread % 32);
  if (++request.lanes == 32) {
    count(key, request);
    open.erase(key);
  }
}

void TrafficCounter::finishBlock() {
  for (const auto &[place, request] : open)
    count(place, request);
  open.clear();
}

void TrafficCounter::count(const Place &place, const Request &request) {
  if (!place.shared) {
    std::set<std::uint64_t> addresses, sectors;
    for (std::size_t lane = 0; lane < 32; ++lane)
      if (request.active >> lane & 1u) {
        addresses.insert(request.address[lane]);
        for (std::uint64_t sector = request.address[lane] / 32;
             sector <= (request.address[lane] + request.bytes - 1) / 32; ++sector)
          sectors.insert(sector);
      }
    total.globalBytes += addresses.size() * request.bytes;
    total.globalSectors += sectors.size();
    return;
  }
  // Wide accesses go through in parts of 128 bytes: 16 lanes of 8, 8 lanes of 16.
  std::size_t lanesAtOnce = 128 / std::max(4u, request.bytes);
  for (std::size_t first = 0; first < 32; first += lanesAtOnce) {
    std::array<std::set<std::uint64_t>, 32> banks;
    std::size_t passes = 0;
    for (std::size_t lane = first; lane < first + lanesAtOnce; ++lane)
      if (request.active >> lane & 1u)
        for (std::uint64_t word = request.address[lane] / 4; word <= (request.address[lane] + request.bytes - 1) / 4;
             ++word) {
          banks[word % 32].insert(word);
          passes = std::max(passes, banks[word % 32].size());
        }
    total.sharedPasses += passes;
    total.sharedConflicts += passes ? passes - 1 : 0;
  }
}

} // namespace tcc::emulator
