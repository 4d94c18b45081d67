// Flash attention for CUDA: chooses the kernel for a case, and gives its text and how to launch it. In: element type,
// head dimension, causal, window, dropout, bias, architecture; out: kernel text over the device primitives, with its
// tiles and launch. Everything else (lengths, strides, groups, dropout's p, scale) is a run-time argument.
#pragma once

#include "codegen/cuda/device/device_text.h"
#include "runtime/error.h"

#include <array>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace tcc::cuda {

#include "codegen/cuda/attention/arguments.cuh"

enum class AttentionElement { Bf16, F16 };

/// BackwardQuery must run before BackwardKeys, since it computes rowShift and rowDelta.
enum class AttentionPass { Forward, BackwardQuery, BackwardKeys };

enum class AttentionPath { Portable, Hopper };

/// What is compiled in; equal cases share one kernel.
struct AttentionCase {
  AttentionPass pass = AttentionPass::Forward;
  AttentionElement element = AttentionElement::Bf16;
  int headDim = 64;
  bool causal = false;
  bool dropout = false;
  /// Whether a query sees only the last arguments.window of the keys up to its diagonal. Needs `causal`.
  bool window = false;
  /// Whether arguments.bias is added to the scores. Portable alone.
  bool bias = false;

  bool operator==(const AttentionCase &) const = default;
};

/// The shape of a block. A block owns rows (queries, or keys for BackwardKeys) and loops over columns.
struct AttentionTiles {
  AttentionPath path = AttentionPath::Portable;
  /// Warps that own rows. On Hopper they form warpgroups of four, and four more warps are the producer.
  int warps = 4;
  /// 16-row tiles of each warp; 1 for Hopper.
  int rowTiles = 1;
  int columns = 64;
  /// Portable: the blocks for which one multiprocessor must have enough registers. Hopper: 1.
  int minBlocks = 1;
  /// Hopper: pairs of tiles in flight. Portable: 2.
  int stages = 2;
  /// Hopper: whether a warpgroup's exponentials run while its own matmuls do.
  bool overlap = false;
  /// Hopper's forward with overlap: whether the warpgroups take turns at the tensor cores.
  bool pingPong = false;
  /// Hopper: whether only as many blocks are launched as fit on the device at once, each of which loops over items.
  bool persistent = false;
  /// Hopper, causal: whether tiles with the least work come first; if not, those with the most work do.
  bool shortestFirst = false;

  bool operator==(const AttentionTiles &) const = default;
};

struct AttentionKernel {
  AttentionCase of;
  AttentionTiles tiles;
  /// The kernel's name, such as attention_forward_bf16_d64_causal_128x64. Within the table of an architecture no other
  /// tiles have the same name.
  std::string name;
  /// The kernel text. It must stand after deviceText(prelude).
  std::string text;
  Prelude prelude = Prelude::Portable;
  int threads = 0;
  int sharedBytes = 0;
  /// Rows of one block.
  int rows = 0;
};

/// A tensor map, which Hopper kernels take after their arguments. It describes a tensor (headDim, rows, heads, batch)
/// of 16-bit elements with 128-byte swizzle, outside of which zeros are read. Sizes and box are in elements, strides in
/// bytes.
struct AttentionMap {
  void *address;
  std::array<unsigned long long, 4> sizes;
  std::array<unsigned long long, 3> strides;
  std::array<unsigned, 4> box;
};

/// The tiles for a case on an architecture ("sm_80", "sm_90a", "sm_100a"), from the table in choices.cpp. `length` is
/// the number of keys. Errors: headDim is none of 32, 64, 96 and 128.
runtime::Expected<AttentionTiles> chooseAttention(const AttentionCase &of, std::string_view architecture, int length);

/// The kernel of a case with the given tiles. Errors: a switch that this kernel does not have; a window without causal;
/// a bias on Hopper's path.
runtime::Expected<AttentionKernel> attentionKernel(const AttentionCase &of, const AttentionTiles &tiles);

/// The number of blocks in x, y and z; if one of them is 0, there is nothing to launch. A persistent kernel has its
/// blocks along x, `multiprocessors` at most: one for each of the device's (an H200 has 132), or without a limit one
/// for each item.
std::array<unsigned, 3> attentionGrid(const AttentionKernel &kernel, const AttentionArguments &arguments, int batch,
                                      int multiprocessors = std::numeric_limits<int>::max());

/// The maps of a Hopper kernel (query, backward's output gradient, key, value); empty for a portable one.
std::vector<AttentionMap> attentionMaps(const AttentionKernel &kernel, const AttentionArguments &arguments, int batch);

/// How many elements rowShift has, and rowDelta as well: batch · heads · (queries rounded up to a multiple of 128).
long long attentionWorkspace(const AttentionArguments &arguments, int batch);

/// What is wrong with the arguments of a kernel for `of`, or an empty text: lengths, groups, alignment, missing
/// buffers.
std::string checkAttention(const AttentionCase &of, const AttentionArguments &arguments);

/// One embedded file's text, for example "tiles.cuh". Throws std::invalid_argument for an unknown name.
std::string_view attentionFile(std::string_view name);

} // namespace tcc::cuda
