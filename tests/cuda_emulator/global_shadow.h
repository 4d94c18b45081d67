// Who may have touched a buffer of global memory before whom within a launch: for each two bytes the last write and two
// reads. Blocks have no order; within a block the clocks of race.h decide. Entries carry epochs, which only grow, so a
// launch begins by moving a bound and costs nothing for what it does not touch.
#pragma once

#include "tests/cuda_emulator/race.h"

#include <cstddef>
#include <cstdint>

namespace tcc::emulator {

class GlobalShadow {
public:
  explicit GlobalShadow(std::size_t bytes);
  ~GlobalShadow();
  GlobalShadow(const GlobalShadow &) = delete;
  GlobalShadow &operator=(const GlobalShadow &) = delete;

  enum class Use {
    Read,
    Write,
    /// By a copy of the thread, whose order within its block is looked at elsewhere.
    CopyFrom,
    CopyTo,
    /// Through the path that does not see the launch's own writes; noted beside an ordinary read.
    ReadOnly
  };
  struct Access {
    std::size_t offset = 0, bytes = 0;
    Use use = Use::Read;
    bool writes() const { return use == Use::Write || use == Use::CopyTo; }
    bool copies() const { return use == Use::CopyFrom || use == Use::CopyTo; }
    /// No byte may be written twice in the launch.
    bool once = false;
    int thread = 0;
    std::uint32_t epoch = 0;
    const Clock *clock = nullptr;
    void *place = nullptr;
    /// Epochs up to these are of earlier launches, of earlier blocks.
    std::uint32_t launch = 0, block = 0;
  };
  enum class Kind {
    None,
    WrittenTwice,
    OtherBlockWrote,
    OtherBlockRead,
    WriteWrite,
    WriteRead,
    ReadWrite,
    ReadOnlyWritten
  };
  struct Conflict {
    Kind kind = Kind::None;
    std::size_t byte = 0;
    /// The epoch, thread and place of the earlier access; the place is known only if it was a write.
    std::uint32_t epoch = 0;
    int thread = -1;
    void *place = nullptr;
  };
  /// Notes the access, up to the first conflict.
  Conflict record(const Access &access);
  /// Whether the two bytes have been written since `launch`.
  bool written(std::size_t cell, std::uint32_t launch) const { return cells[cell].writeEpoch > launch; }
  /// Epochs start anew.
  void forget();

  static constexpr std::size_t cellBytes = 2;

private:
  static constexpr std::uint16_t nobody = 0xffff; // a copy
  static constexpr int writeMask = 0, readMask = 1, readOnlyMask = 3;
  struct Cell {
    std::uint32_t writeEpoch, writePlace; // the place's lower half: modules lie close together
    std::uint32_t readEpoch[2];           // a read of an earlier block stays, so that a write meets it
    std::uint16_t writer, reader[2];
    std::uint8_t masks; // which of the bytes: writes, either read, reads of ReadOnly; two bits each
    std::uint8_t mask(int which) const { return masks >> 2 * which & 3; }
    void setMask(int which, std::uint8_t mask) {
      masks = static_cast<std::uint8_t>((masks & ~(3 << 2 * which)) | mask << 2 * which);
    }
  };
  Conflict conflictOf(const Cell &cell, const Access &access, std::uint8_t mask) const;
  void noteRead(Cell &cell, const Access &access, std::uint8_t mask);
  void noteWrite(Cell &cell, const Access &access, std::uint8_t mask);

  Cell *cells = nullptr; // zero pages until touched
  std::size_t mappedBytes = 0;
};

} // namespace tcc::emulator
