#include "codegen/cuda/kernel/launch.h"
#include "codegen/cuda/gpu_model.h"
#include "codegen/cuda/kernel/staging.h"
#include "codegen/cuda/kernel/vectors.h"
#include "llvm/ADT/STLExtras.h"
#include <algorithm>

namespace tcc::cuda {
namespace {

constexpr int64_t longestWarpRow = 512;        // columns; longer rows take a block,
constexpr int64_t longestWarpVectorRow = 1024; // … where columns are taken in groups
constexpr int64_t mostTotals = 96;             // registers of a thread for column results
constexpr int64_t manyTotals = 56;             // of them leave no room for 8 columns at once of several tensors
constexpr int64_t mostShared = 32 << 10;       // bytes of a block for column results of its warps
constexpr int64_t fewestTiles = 64;            // blocks of a column sum that takes columns in groups
constexpr int64_t scatterColumns = 256;        // of one block of a scatter kernel: a thread each
constexpr int64_t scatterRows = 32;            // … and its rows: a bit of a word each
constexpr int64_t manyLoadedBytes = 4; // of a segment's column: a thread that loads less takes two groups at once

int64_t partsOf(int64_t whole, int64_t part) {
  return (whole + part - 1) / part;
}

bool hasRowStores(const KernelInfo &form) {
  return llvm::any_of(form.stores, [](const KernelStore &store) { return !store.perColumn; });
}

bool hasColumnStores(const KernelInfo &form) {
  return llvm::any_of(form.stores, [](const KernelStore &store) { return store.perColumn; });
}

bool scatters(const KernelInfo &form) {
  return llvm::any_of(form.stores,
                      [](const KernelStore &store) { return store.kind == KernelStore::Kind::scatterAdd; });
}

/// The bytes that a column loads, values that all columns share aside.
int64_t loadedBytes(const KernelInfo &form) {
  int64_t bytes = 0;
  for (const KernelNode &node : form.nodes)
    if (node.kind == KernelNode::Kind::load && node.perColumn)
      bytes += facts(node.type).bytes;
  return bytes;
}

bool isWarpRow(const KernelInfo &form) {
  return form.space.columns <= (vectorWidth(form) > 1 ? longestWarpVectorRow : longestWarpRow);
}

/// Columns of a row that each of `threads` threads has, in whole groups.
int64_t columnsOfThread(const KernelInfo &form, int64_t threads) {
  int64_t width = vectorWidth(form);
  return partsOf(partsOf(form.space.columns, width), threads) * width;
}

/// Registers of a thread for column results, where a warp has a row.
int64_t totalsOfThread(const KernelInfo &form) {
  auto results =
      llvm::count_if(form.stores, [](const KernelStore &store) { return store.kind != KernelStore::Kind::element; });
  return results * columnsOfThread(form, warpSize);
}

/// Whether 128 registers are enough for the totals and for what a pass has of each tensor: its address, some columns.
bool isSmallBesideTotals(const KernelInfo &form) {
  constexpr int64_t ofTensor = 4, most = 112;
  return totalsOfThread(form) + ofTensor * static_cast<int64_t>(form.arguments.size() + form.results.size()) <= most;
}

bool warpsHoldTotals(const KernelInfo &form) {
  return !scatters(form) && isWarpRow(form) && totalsOfThread(form) <= mostTotals;
}

// A value of one element a row that is written over an operand of the same kind must be written when nobody of the row
// reads that any more, so rows with both kinds of results are kept together.
KernelShape shapeOf(const KernelInfo &form) {
  bool mixed = hasRowStores(form) && hasColumnStores(form);
  if (scatters(form) && form.stores.size() == 1 && form.stages == 1 && !form.nodes[form.stores[0].scatterRow].perColumn)
    return KernelShape::scatter;
  if (form.hasColumnResult() && (form.hasRowReduction() || mixed))
    return warpsHoldTotals(form) ? KernelShape::warpColumns : KernelShape::blockColumns;
  if (form.hasColumnResult())
    return KernelShape::columns;
  if (form.hasRowReduction() || mixed)
    return isWarpRow(form) ? KernelShape::warpRows : KernelShape::blockRows;
  return form.isSegment() ? KernelShape::segments : KernelShape::elements;
}

/// The threads of a block that has a whole row.
int threadsOfRow(const KernelInfo &form) {
  int64_t columns = form.space.columns, groups = partsOf(columns, vectorWidth(form));
  int64_t most = columns <= 4096 ? 256 : 512; // two blocks and more on a multiprocessor: one works while others wait
  return static_cast<int>(std::clamp<int64_t>(partsOf(groups, warpSize) * warpSize, warpSize, most));
}

/// The warps of a block that share the rows and leave their totals of a tile of columns in shared memory.
int sharingWarps(const KernelInfo &form, int64_t tile) {
  if (scatters(form)) // the rows of a result are added to in ascending order
    return 1;
  int64_t bytes = 4;
  for (const KernelTensor &result : form.results)
    bytes = std::max<int64_t>(bytes, facts(result.type).bytes);
  int warps = 8;
  while (warps > 1 && (warps > form.space.rows || warps * tile * bytes > mostShared))
    warps /= 2;
  return warps;
}

} // namespace

KernelDivision divide(const KernelInfo &form) {
  const KernelSpace &space = form.space;
  KernelDivision made;
  made.shape = shapeOf(form);
  made.vector = vectorWidth(form);
  switch (made.shape) {
  case KernelShape::elements:
    if (!hasColumnStores(form))
      made.vector = 1;
    made.items = space.outer * space.rows * (hasColumnStores(form) ? space.columns / made.vector : 1);
    made.blocks = partsOf(made.items, made.threads);
    made.perThread = made.vector;
    break;
  case KernelShape::segments:
    made.items = space.columns;
    made.blocks = partsOf(made.items, segmentBlock);
    if (made.vector == 8 && loadedBytes(form) < manyLoadedBytes)
      made.threads = 128;
    made.perThread = segmentBlock / made.threads;
    break;
  case KernelShape::warpRows:
    made.threads = 128;
    made.items = space.outer * space.rows;
    made.blocks = partsOf(made.items, made.threads / warpSize);
    made.perThread = columnsOfThread(form, warpSize);
    break;
  case KernelShape::blockRows:
    made.threads = threadsOfRow(form);
    made.items = made.blocks = space.outer * space.rows;
    made.perThread = columnsOfThread(form, made.threads);
    break;
  case KernelShape::columns:
    if (space.outer * partsOf(space.columns, warpSize * made.vector) < fewestTiles)
      made.vector = 1; // narrower tiles, more blocks
    made.tile = warpSize * made.vector;
    made.threads = warpSize * sharingWarps(form, made.tile);
    made.items = made.blocks = space.outer * partsOf(space.columns, made.tile);
    made.perThread = made.vector;
    break;
  case KernelShape::warpColumns:
    made.tile = space.columns;
    made.threads = warpSize * sharingWarps(form, made.tile);
    made.items = made.blocks = space.columns == 0 ? 0 : space.outer;
    made.perThread = columnsOfThread(form, warpSize);
    if (made.threads == 256 && isSmallBesideTotals(form)) {
      made.resident = 2;
      if (made.vector == 8 && totalsOfThread(form) > manyTotals && stagedLoads(form, made).loads.empty())
        made.vector = 4;
    }
    break;
  case KernelShape::blockColumns:
    made.threads = threadsOfRow(form);
    made.items = made.blocks = space.columns == 0 ? 0 : space.outer;
    made.perThread = columnsOfThread(form, made.threads);
    break;
  case KernelShape::scatter:
    made.vector = 1;
    made.tile = scatterColumns;
    made.threads = scatterColumns;
    made.tileRows = scatterRows;
    made.items = partsOf(form.stores[0].scatterRows, made.tileRows) * partsOf(space.columns, made.tile);
    made.blocks = made.items;
    break;
  }
  made.sharedBytes = stagedLoads(form, made).bytes();
  return made;
}

bool loadsSeveralGroups(const KernelDivision &division) {
  return division.shape == KernelShape::segments && division.vector == 8 && division.perThread > division.vector;
}

int64_t tableEntryBytes(const KernelInfo &form) {
  size_t more = shapeOf(form) == KernelShape::segments ? 2 : 0;
  return 8 * static_cast<int64_t>(form.arguments.size() + form.results.size() + more);
}

std::string functionName(const std::string &symbol, KernelCalling calling) {
  return calling == KernelCalling::joined ? symbol + "_joined" : symbol;
}

std::string refusal(const KernelInfo &form) {
  constexpr int64_t most = int64_t(1) << 31;
  const KernelSpace &space = form.space;
  if (space.outer >= most || space.rows >= most || space.columns >= most)
    return "expected each size of the iteration space to be below 2^31";
  auto isEightBit = [](ElementType type) { return type == ElementType::f8E4M3FN || type == ElementType::f8E5M2; };
  bool narrow = llvm::any_of(form.nodes, [&](const KernelNode &node) { return isEightBit(node.type); });
  for (const std::vector<KernelTensor> *list : {&form.arguments, &form.results})
    narrow |= llvm::any_of(*list, [&](const KernelTensor &tensor) { return isEightBit(tensor.type); });
  if (narrow)
    return "expected no 8-bit floats";
  for (const KernelStore &store : form.stores)
    if (store.kind == KernelStore::Kind::scatterAdd && space.outer != 1)
      return "expected a scatter-add to have one outer block";
  return {};
}

} // namespace tcc::cuda
