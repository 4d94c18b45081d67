// divide: how a kernel form is divided on a GPU. It depends on the form alone, so that equal forms have equal launches.
#pragma once
#include "ir/kernel.h"
#include <array>

namespace tcc::cuda {

/// What a thread, warp or block owns.
enum class KernelShape : uint8_t {
  elements,     // a thread has a group of columns; or a row, if every result has one element for each row
  segments,     // the same over several tensors, which a table lists
  warpRows,     // a warp has a row
  blockRows,    // a block has a row
  columns,      // a block has some columns of an outer block: its warps share the rows
  warpColumns,  // a block has an outer block, and each warp some of its rows; row reductions are computed too
  blockColumns, // the same if a row is too long for a warp: the block takes one row after another
  scatter,      // a block has some rows and columns of the result, and looks through all rows for those to add there
};

struct KernelDivision {
  KernelShape shape = KernelShape::elements;
  int threads = 256;       // of a block
  int vector = 1;          // how many neighbouring columns a thread takes at once (vectors.h)
  int resident = 1;        // blocks that a multiprocessor must have room for, which bounds the registers of a thread
  int64_t items = 0;       // how many threads, warps or blocks own something; for segments: the elements of one
  int64_t blocks = 0;      // 0: there is nothing to do
  int64_t perThread = 1;   // the most columns of a row that a thread has; a multiple of `vector`
  int64_t tile = 0;        // columns, warpColumns, scatter: the columns that a block has
  int64_t tileRows = 0;    // scatter: the rows of the result that a block has, at most 32
  int64_t sharedBytes = 0; // dynamic shared memory of a block (staging.h)
};

KernelDivision divide(const KernelInfo &form);

/// How many elements one block of a segments kernel has.
inline constexpr int64_t segmentBlock = 2048;

/// Whether a thread of a segments kernel first loads several groups, and then works on them: where one group is too few
/// bytes in flight.
bool loadsSeveralGroups(const KernelDivision &division);

/// How a kernel is called. alone: for one set of tensors, whose addresses are parameters; a segments kernel also takes
/// the number of elements, as int. joined: for many sets at once, whose addresses are in a table in device memory.
enum class KernelCalling : uint8_t { alone, joined };

/// The bytes of an entry of the table. It has the addresses of arguments and results. For a segments kernel the number
/// of elements and the number of the entry's first block follow. Each takes 8 bytes. Block (x, y) of a joined launch
/// works for entry y; in a segments kernel block x works for the last entry whose first block is not above x.
int64_t tableEntryBytes(const KernelInfo &form);

/// The name of the kernel's function that is called in this way.
std::string functionName(const std::string &symbol, KernelCalling calling);

/// Why no kernel can be made of the form (it has 8-bit floats, or a size beyond 2^31 along one axis); empty if one can.
std::string refusal(const KernelInfo &form);

} // namespace tcc::cuda
