// Composes a kernel's text: the shared arguments, the constants of the case and its tiles, the shared helpers, the
// skeleton of the pass.
#include "codegen/cuda/attention/attention.h"
#include "codegen/cuda/gpu_model.h"

#include <algorithm>
#include <cstdint>

namespace tcc::cuda {

namespace {

struct PassNames {
  const char *kernel;
  const char *file;
  const char *columnConstant;
};

// By path, then by pass.
constexpr PassNames passNames[2][3] = {{{"attention_forward", "forward_portable.cu", "blockKeys"},
                                        {"attention_backward_query", "backward_query_portable.cu", "blockKeys"},
                                        {"attention_backward_keys", "backward_keys_portable.cu", "blockQueries"}},
                                       {{"attention_forward_hopper", "forward_hopper.cu", "blockKeys"},
                                        {"attention_backward_query_hopper", "backward_query_hopper.cu", "blockKeys"},
                                        {"attention_backward_keys_hopper", "backward_keys_hopper.cu", "blockQueries"}}};
constexpr const char *overlappedForwardFile = "forward_hopper_overlapped.cu";

const char *elementName(AttentionElement element) {
  return element == AttentionElement::Bf16 ? "bf16" : "f16";
}

std::string constant(const char *type, const char *name, int value) {
  bool isBool = std::string_view(type) == "bool";
  std::string text = isBool ? (value ? "true" : "false") : std::to_string(value);
  return std::string("constexpr ") + type + " " + name + " = " + text + ";\n";
}

std::string switchSuffix(const AttentionTiles &tiles) {
  return std::string(tiles.overlap ? "_overlapped" : "") + (tiles.pingPong ? "_pingpong" : "") +
         (tiles.persistent ? "_persistent" : "") + (tiles.shortestFirst ? "_shortest" : "");
}

/// Why no kernel has these switches, or an empty text.
std::string badSwitch(const AttentionCase &of, const AttentionTiles &tiles) {
  bool any = tiles.overlap || tiles.pingPong || tiles.persistent || tiles.shortestFirst;
  if (any && tiles.path != AttentionPath::Hopper)
    return "attention with overlap, turns, persistent blocks or the shortest first: only Hopper's kernels have them";
  if (tiles.pingPong && (of.pass != AttentionPass::Forward || !tiles.overlap || tiles.warps < 8))
    return "attention in turns: only the forward pass with overlap has them, and two or more warpgroups";
  if (tiles.pingPong && tiles.persistent && tiles.warps == 12 && of.dropout && !of.causal)
    return "attention in turns of three warpgroups, in persistent blocks and with dropout: without a mask its 160 "
           "registers a thread do not hold the state of rounds and turns; plain blocks or two warpgroups do";
  if (tiles.shortestFirst && !of.causal)
    return "attention with the shortest tiles first: only causal tiles differ";
  if (of.window && !of.causal)
    return "attention with a window: only a causal one has it";
  if (of.bias && tiles.path == AttentionPath::Hopper)
    return "attention with a bias: only portable kernels have it";
  return "";
}

/// As each skeleton's head comment lists it.
int sharedBytesOf(const AttentionKernel &kernel) {
  int rowBytes = 2 * kernel.of.headDim;
  int own = kernel.rows * rowBytes;
  int walked = 2 * kernel.tiles.stages * kernel.tiles.columns * rowBytes;
  int statistics = 2 * kernel.tiles.stages * kernel.tiles.columns * int(sizeof(float));
  switch (kernel.of.pass) {
  case AttentionPass::Forward:
    return own + walked;
  case AttentionPass::BackwardQuery:
    return 2 * own + walked;
  case AttentionPass::BackwardKeys:
    break;
  }
  return 2 * own + walked + statistics;
}

std::string badView(const char *name, const AttentionView &view, int headDim) {
  auto aligned = [](long long elements) { return elements % 8 == 0; };
  if (!view.data)
    return std::string("attention's ") + name + " has no address";
  if (reinterpret_cast<std::uintptr_t>(view.data) % 16 != 0)
    return std::string("attention's ") + name + " begins at an odd address: a multiple of 16 bytes is needed";
  if (!aligned(view.batchStride) || !aligned(view.headStride) || !aligned(view.rowStride))
    return std::string("attention's ") + name + " has strides " + std::to_string(view.batchStride) + ", " +
           std::to_string(view.headStride) + ", " + std::to_string(view.rowStride) +
           ": multiples of 8 elements are needed";
  if (view.rowStride < headDim)
    return std::string("attention's ") + name + " has the row stride " + std::to_string(view.rowStride) +
           ": at least the head dimension " + std::to_string(headDim) + " is needed";
  return "";
}

} // namespace

runtime::Expected<AttentionKernel> attentionKernel(const AttentionCase &of, const AttentionTiles &tiles) {
  if (std::string text = badSwitch(of, tiles); !text.empty())
    return runtime::Error(text);
  bool hopper = tiles.path == AttentionPath::Hopper;
  bool hopperForward = hopper && of.pass == AttentionPass::Forward;
  const PassNames &names = passNames[int(tiles.path)][int(of.pass)];
  AttentionKernel kernel;
  kernel.of = of;
  kernel.tiles = tiles;
  kernel.rows = 16 * tiles.rowTiles * tiles.warps;
  kernel.name = names.kernel + switchSuffix(tiles) + "_" + elementName(of.element) + "_d" + std::to_string(of.headDim) +
                (of.causal ? "_causal" : "") + (of.window ? "_window" : "") + (of.dropout ? "_dropout" : "") +
                (of.bias ? "_bias" : "") + "_" + std::to_string(kernel.rows) + "x" + std::to_string(tiles.columns);
  kernel.prelude = hopper ? Prelude::Wgmma : Prelude::Portable;
  kernel.threads = warpSize * tiles.warps + (hopper ? warpgroupSize : 0);
  kernel.sharedBytes = sharedBytesOf(kernel);

  std::string &text = kernel.text;
  text += "// " + kernel.name + ": blocks of " + std::to_string(kernel.rows) + " rows x " +
          std::to_string(tiles.columns) + " columns, " + std::to_string(kernel.threads) + " threads, " +
          std::to_string(kernel.sharedBytes) + " bytes of shared memory\n";
  text += attentionFile("arguments.cuh");
  text += std::string("using Element = ") + elementName(of.element) + ";\n";
  text += constant("bool", "causal", of.causal) + constant("bool", "windowed", of.window) +
          constant("bool", "dropout", of.dropout) + constant("bool", "biased", of.bias);
  text += constant("int", "headDim", of.headDim) + constant("int", "threads", kernel.threads);
  text += constant("int", names.columnConstant, tiles.columns);
  if (hopper) {
    // The tile with the most work is a head's last one of queries, its first one of keys.
    bool lastFirst = of.causal && tiles.shortestFirst == (of.pass == AttentionPass::BackwardKeys);
    text += constant("int", "consumers", tiles.warps / 4) + constant("int", "stages", tiles.stages) +
            constant("bool", "overlap", tiles.overlap) + constant("bool", "pingPong", tiles.pingPong) +
            constant("bool", "persistent", tiles.persistent) + constant("bool", "lastTileFirst", lastFirst);
  } else
    text += constant("int", "warps", tiles.warps) + constant("int", "rowTiles", tiles.rowTiles) +
            constant("int", "minBlocks", tiles.minBlocks);
  text += attentionFile("common.cuh");
  text += attentionFile(hopper ? "warpgroup.cuh" : "tiles.cuh");
  if (hopper)
    text += attentionFile("work.cuh");
  if (hopperForward)
    text += attentionFile("softmax.cuh");
  std::string skeleton(attentionFile(hopperForward && tiles.overlap ? overlappedForwardFile : names.file));
  constexpr std::string_view hole = "@name@";
  text += skeleton.replace(skeleton.find(hole), hole.size(), kernel.name);
  return kernel;
}

std::array<unsigned, 3> attentionGrid(const AttentionKernel &kernel, const AttentionArguments &arguments, int batch,
                                      int multiprocessors) {
  auto blocks = [&](int count) { return unsigned((count + kernel.rows - 1) / kernel.rows); };
  int padded = (arguments.queries + 127) / 128 * 128;
  std::array<unsigned, 3> grid = {blocks(arguments.queries), unsigned(arguments.heads), unsigned(batch)};
  if (kernel.of.pass == AttentionPass::BackwardQuery)
    grid[0] = blocks(padded);
  if (kernel.of.pass == AttentionPass::BackwardKeys)
    grid = {blocks(arguments.keys), unsigned(arguments.heads / arguments.group), unsigned(batch)};
  if (kernel.tiles.persistent)
    grid = {unsigned(std::min(1ull * grid[0] * grid[1] * grid[2], 1ull * multiprocessors)), 1, 1};
  return grid;
}

std::vector<AttentionMap> attentionMaps(const AttentionKernel &kernel, const AttentionArguments &arguments, int batch) {
  if (kernel.tiles.path == AttentionPath::Portable)
    return {};
  auto map = [&](const AttentionView &view, int rows, int heads, int boxRows) {
    auto bytes = [](long long elements) { return static_cast<unsigned long long>(2 * elements); };
    return AttentionMap{view.data,
                        {unsigned(kernel.of.headDim), unsigned(rows), unsigned(heads), unsigned(batch)},
                        {bytes(view.rowStride), bytes(view.headStride), bytes(view.batchStride)},
                        {64, unsigned(boxRows), 1, 1}};
  };
  bool forward = kernel.of.pass == AttentionPass::Forward;
  bool ownsKeys = kernel.of.pass == AttentionPass::BackwardKeys;
  int queryBox = ownsKeys ? kernel.tiles.columns : 64;
  int keyBox = ownsKeys ? 64 : kernel.tiles.columns;
  int keyHeads = arguments.heads / arguments.group;
  std::vector<AttentionMap> maps = {map(arguments.query, arguments.queries, arguments.heads, queryBox)};
  if (!forward)
    maps.push_back(map(arguments.outputGradient, arguments.queries, arguments.heads, queryBox));
  maps.push_back(map(arguments.key, arguments.keys, keyHeads, keyBox));
  maps.push_back(map(arguments.value, arguments.keys, keyHeads, keyBox));
  // Nothing of a tensor without rows is loaded, but a map must describe something.
  const AttentionMap &some = arguments.queries > 0 ? maps.front() : maps.back();
  for (AttentionMap &each : maps)
    if (each.sizes[1] == 0)
      each = some;
  return maps;
}

long long attentionWorkspace(const AttentionArguments &arguments, int batch) {
  return static_cast<long long>(batch) * arguments.heads * ((arguments.queries + 127) / 128 * 128);
}

std::string checkAttention(const AttentionCase &of, const AttentionArguments &arguments) {
  if (arguments.queries < 0 || arguments.keys < 0)
    return "attention over " + std::to_string(arguments.queries) + " queries and " + std::to_string(arguments.keys) +
           " keys: neither can be negative";
  if (arguments.heads < 1 || arguments.group < 1 || arguments.heads % arguments.group != 0)
    return "attention with " + std::to_string(arguments.heads) + " heads in groups of " +
           std::to_string(arguments.group) + ": the group must divide the heads";
  if (!(arguments.scale > 0))
    return "attention with the scale " + std::to_string(arguments.scale) + ": a positive one is needed";
  if (of.window && arguments.window < 1)
    return "attention with a window of " + std::to_string(arguments.window) + " keys: at least 1 is needed";
  if (of.dropout && (!arguments.seedLow || !arguments.seedHigh || !arguments.first))
    return "attention with dropout needs both words of a seed and the batch's first row";
  if (!arguments.logSumExp)
    return "attention needs a buffer for the log-sum-exp";
  if (of.bias && !arguments.bias)
    return "attention with a bias needs its address";
  bool backward = of.pass != AttentionPass::Forward;
  if (backward && (!arguments.rowShift || !arguments.rowDelta))
    return "attention's backward needs the workspaces rowShift and rowDelta";
  auto oddAddress = [](const void *pointer) { return reinterpret_cast<std::uintptr_t>(pointer) % 16 != 0; };
  if (backward && (oddAddress(arguments.rowShift) || oddAddress(arguments.rowDelta)))
    return "attention's workspaces rowShift and rowDelta begin at odd addresses: multiples of 16 bytes are needed";
  // Heads are the grid's second axis.
  if (arguments.heads > 65535)
    return "attention with " + std::to_string(arguments.heads) + " heads: at most 65535 in one launch";
  struct Named {
    const char *name;
    const AttentionView &view;
    bool used;
  };
  bool some = arguments.keys > 0;
  const Named views[] = {{"query", arguments.query, true},
                         {"key", arguments.key, some},
                         {"value", arguments.value, some},
                         {"output", arguments.output, true},
                         {"output gradient", arguments.outputGradient, backward},
                         {"query gradient", arguments.queryGradient, backward},
                         {"key gradient", arguments.keyGradient, backward && some},
                         {"value gradient", arguments.valueGradient, backward && some}};
  for (const Named &named : views)
    if (named.used)
      if (std::string text = badView(named.name, named.view, of.headDim); !text.empty())
        return text;
  return "";
}

} // namespace tcc::cuda
