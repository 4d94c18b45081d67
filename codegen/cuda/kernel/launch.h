// How a kernel form is divided on a GPU: a pure function of the form, so that equal forms are launched alike.
#pragma once
#include "ir/kernel.h"
#include <array>

namespace tcc::cuda {

/// What a thread, warp or block owns.
enum class KernelShape : uint8_t {
  elements,     // a thread an element of the space, or a row where every result has one element a row
  segments,     // the same over several tensors, found in a table (SegmentEntry)
  warpRows,     // a warp a row
  blockRows,    // a block a row
  columns,      // a thread a column of an outer block: it walks down the rows
  blockColumns, // a block an outer block: it walks down the rows, each thread with columns of its own
};

struct KernelDivision {
  KernelShape shape = KernelShape::elements;
  int threads = 256;     // of a block
  int64_t items = 0;     // threads, warps or blocks that own something; of one segment: its elements
  int64_t blocks = 0;    // 0: there is nothing to do
  int64_t perThread = 1; // columns of a row that a thread of warpRows, blockRows or blockColumns has, at most
};

KernelDivision divide(const KernelInfo &form);

/// Elements that one block of a segments kernel has.
inline constexpr int64_t segmentBlock = 1024;

/// How a kernel is called: for one set of tensors, whose addresses are parameters (and of a segments kernel, as int,
/// the number of elements); or for many at once, whose addresses are entries of a table in device memory.
enum class KernelCalling : uint8_t { alone, joined };

/// Bytes of a table's entry: the addresses of arguments and results; of a segments kernel then the number of elements
/// and the number of the entry's first block; 8 bytes each. Block (x, y) of a joined launch works for entry y; of a
/// segments kernel block x for the last entry whose first block is not above x.
int64_t tableEntryBytes(const KernelInfo &form);

/// The function's name, for one calling, of a kernel `symbol`.
std::string functionName(const std::string &symbol, KernelCalling calling);

/// What no kernel can be made for, or empty: 8-bit floats, sizes beyond 2^31 along one axis.
std::string refusal(const KernelInfo &form);

} // namespace tcc::cuda
