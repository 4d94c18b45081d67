// Flash attention for CUDA: which kernel serves a case, its text, and how to launch it. In: element type, head
// dimension, causal, dropout, architecture; out: kernel text over the device primitives, with its tiles and launch.
// Everything else (lengths, strides, groups, dropout's p, scale) is a run-time argument.
#pragma once

#include "codegen/cuda/device/device_text.h"
#include "runtime/error.h"

#include <array>
#include <string>
#include <string_view>
#include <vector>

namespace tcc::cuda {

#include "codegen/cuda/attention/arguments.cuh"

enum class AttentionElement { Bf16, F16 };

/// BackwardQuery must run before BackwardKeys: it makes rowShift and rowDelta.
enum class AttentionPass { Forward, BackwardQuery, BackwardKeys };

enum class AttentionPath { Portable, Hopper };

/// What is compiled in; equal cases share one kernel.
struct AttentionCase {
  AttentionPass pass = AttentionPass::Forward;
  AttentionElement element = AttentionElement::Bf16;
  int headDim = 64;
  bool causal = false;
  bool dropout = false;
  /// A query sees the last arguments.window of the keys up to its diagonal; causal alone.
  bool window = false;

  bool operator==(const AttentionCase &) const = default;
};

/// A block's shape. Rows are what a block owns (queries, or keys for BackwardKeys), columns what it walks over.
struct AttentionTiles {
  AttentionPath path = AttentionPath::Portable;
  /// Warps that own rows; Hopper adds a producer's four, and its own come in warpgroups of four.
  int warps = 4;
  /// 16-row tiles of each warp; 1 for Hopper.
  int rowTiles = 1;
  int columns = 64;
  /// Portable: blocks that the register budget leaves room for on one multiprocessor. Hopper: 1.
  int minBlocks = 1;
  /// Hopper: pairs of tiles in flight. Portable: 2.
  int stages = 2;
  /// Hopper: a warpgroup's exponentials run beside its own products.
  bool overlap = false;
  /// Hopper's forward with overlap: the warpgroups take turns at the tensor cores.
  bool pingPong = false;
  /// Hopper: as many blocks as fit on the device at once, each with a loop over items of work.
  bool persistent = false;
  /// Hopper, causal: tiles with the least work first; otherwise those with the most.
  bool shortestFirst = false;

  bool operator==(const AttentionTiles &) const = default;
};

struct AttentionKernel {
  AttentionCase of;
  AttentionTiles tiles;
  /// The entry's name: attention_forward_bf16_d64_causal_128x64, which no other tiles of an
  /// architecture's table share.
  std::string name;
  /// Kernel text, to follow deviceText(prelude).
  std::string text;
  Prelude prelude = Prelude::Portable;
  int threads = 0;
  int sharedBytes = 0;
  /// Rows of one block.
  int rows = 0;
};

/// A tensor map that a Hopper kernel takes after its arguments, in order: a tensor (headDim, rows, heads, batch) of
/// 16-bit elements, 128-byte swizzle, zeros outside. Sizes and box in elements, strides in bytes.
struct AttentionMap {
  void *address;
  std::array<unsigned long long, 4> sizes;
  std::array<unsigned long long, 3> strides;
  std::array<unsigned, 4> box;
};

/// The tiles for a case on an architecture ("sm_80", "sm_90a", "sm_100a"); `length` is the number of keys. The table is
/// in choices.cpp. An error unless headDim is 32, 64, 96 or 128.
runtime::Expected<AttentionTiles> chooseAttention(const AttentionCase &of, std::string_view architecture, int length);

/// The kernel of a case with the given tiles. An error for a switch that no such kernel has, and for a window without
/// causal.
runtime::Expected<AttentionKernel> attentionKernel(const AttentionCase &of, const AttentionTiles &tiles);

/// Blocks in x, y, z; an axis of 0 means that there is nothing to launch. `multiprocessors` are the device's: how many
/// blocks a persistent kernel has at most (an H200 has 132).
std::array<unsigned, 3> attentionGrid(const AttentionKernel &kernel, const AttentionArguments &arguments, int batch,
                                      int multiprocessors = 132);

/// The maps of a Hopper kernel (query, backward's output gradient, key, value); empty for a portable one.
std::vector<AttentionMap> attentionMaps(const AttentionKernel &kernel, const AttentionArguments &arguments, int batch);

/// Elements of each of rowShift and rowDelta: batch · heads · queries rounded up to 128.
long long attentionWorkspace(const AttentionArguments &arguments, int batch);

/// What is wrong with the arguments of a kernel for `of`, or an empty text: lengths, groups, alignment, missing
/// buffers.
std::string checkAttention(const AttentionCase &of, const AttentionArguments &arguments);

/// One embedded file's text, for example "tiles.cuh". Throws std::invalid_argument for an unknown name.
std::string_view attentionFile(std::string_view name);

} // namespace tcc::cuda
