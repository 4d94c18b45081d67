// Where the processes of one communicator meet: memory that all of them map. It has no name, so nothing of it is left
// when they end, however they end.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace tcc::nccl {

constexpr int mostRanks = 16, mostParts = 256;
constexpr std::size_t mostSent = std::size_t{64} << 20; // by a rank in one operation; pages that are used alone count

enum class Kind : int { allReduce, allGather, broadcast, send, receive };
const char *nameOf(Kind kind);

/// One collective, send or receive of an operation, as other ranks see it.
struct PartFacts {
  Kind kind;
  int type, op, peer;          ///< `peer`: of sends and receives; the root of a broadcast
  std::uint64_t count, offset; ///< `offset`: in what the rank sends
};

/// What one rank tells the others.
struct Slot {
  std::atomic<int> process, device;             ///< 0 until it has come; the device's number
  std::atomic<int> failed;                      ///< it has aborted
  std::atomic<std::uint64_t> posted, collected; ///< operations that its device has begun and ended
  /// What follows describes the operation that is posted.
  std::uint64_t call; ///< how many groups the program had called before, captured ones too
  bool captured;
  int parts;
  PartFacts facts[mostParts];
};

/// The memory of one communicator.
class Meeting {
public:
  /// A new one, and in `id`, of 128 bytes, how other processes find it.
  static std::shared_ptr<Meeting> make(char *id);
  /// The one of an id; null where there is none, or no longer.
  static std::shared_ptr<Meeting> find(const char *id);
  ~Meeting();

  Slot &slot(int rank) const { return static_cast<Slot *>(mapped)[rank]; }
  char *sent(int rank) const;

private:
  Meeting(int file);
  int file;

  void *mapped = nullptr;
};

} // namespace tcc::nccl
