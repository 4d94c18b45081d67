// How a kernel form is divided on a GPU: a pure function of the form, so that equal forms are launched alike.
#pragma once
#include "ir/kernel.h"
#include <array>

namespace tcc::cuda {

/// What a thread, warp or block owns.
enum class KernelShape : uint8_t {
  elements,     // a thread has a group of columns, or a row where every result has one element a row
  segments,     // the same over several tensors, which a table lists
  warpRows,     // a warp has a row
  blockRows,    // a block has a row
  columns,      // a block has some columns of an outer block: its warps share the rows
  warpColumns,  // a block has an outer block, each warp some of its rows; rows are reduced on the way
  blockColumns, // the same where a row is too long for a warp: the block walks down the rows
  scatter,      // a block has some rows and columns of the result: it looks through all rows for those that go there
};

struct KernelDivision {
  KernelShape shape = KernelShape::elements;
  int threads = 256;     // of a block
  int vector = 1;        // columns side by side that a thread takes at once (vectors.h)
  int resident = 1;      // blocks that a multiprocessor must have room for: it bounds the registers of a thread
  int64_t items = 0;     // threads, warps or blocks that own something; of one segment: its elements
  int64_t blocks = 0;    // 0: there is nothing to do
  int64_t perThread = 1; // columns of a row that a thread has, at most; a multiple of `vector`
  int64_t tile = 0;      // columns, warpColumns, scatter: columns of a block
  int64_t tileRows = 0;  // scatter: rows of the result of a block, at most 32
};

KernelDivision divide(const KernelInfo &form);

/// Elements that one block of a segments kernel has.
inline constexpr int64_t segmentBlock = 2048;

/// How a kernel is called: for one set of tensors, whose addresses are parameters (and of a segments kernel, as int,
/// the number of elements); or for many at once, whose addresses are entries of a table in device memory.
enum class KernelCalling : uint8_t { alone, joined };

/// Bytes of a table's entry: the addresses of arguments and results; of a segments kernel then the number of elements
/// and the number of the entry's first block; 8 bytes each. Block (x, y) of a joined launch works for entry y; of a
/// segments kernel block x for the last entry whose first block is not above x.
int64_t tableEntryBytes(const KernelInfo &form);

/// The name of the kernel's function that is called in this way.
std::string functionName(const std::string &symbol, KernelCalling calling);

/// Why no kernel can be made of the form, or empty: it has 8-bit floats, or a size beyond 2^31 along one axis.
std::string refusal(const KernelInfo &form);

} // namespace tcc::cuda
