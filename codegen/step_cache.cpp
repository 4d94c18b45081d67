// The key is text. Places in files are numbers there and in entries, by their first use in the function: those of the
// caller's function take their places when an entry is found.
#include "codegen/step_cache.h"
#include "codegen/build_id.h"
#include "codegen/graph_digest.h"
#include "ir/names.h"
#include "passes/pipeline.h"
#include "runtime/cpu.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"
#include <cmath>

using namespace mlir;

namespace tcc {
namespace {

constexpr double millionths = 1e6; // that a share is kept in
constexpr size_t headerLengthBytes = 8;
constexpr size_t lookedAt = 64, shownBytes = 128 << 10; // of other entries, for the reason of a miss

/// Names and places of a function's ops, as text; a place is the number of its first use.
class PlacesText {
public:
  explicit PlacesText(ModuleOp module) {
    module->walk<WalkOrder::PreOrder>([&](Operation *op) {
      add(op->getLoc());
      for (Region &region : op->getRegions())
        for (Block &block : region)
          for (BlockArgument argument : block.getArguments())
            add(argument.getLoc());
      text += '\n';
    });
  }

  std::string text;
  std::vector<runtime::SourceLocation> places;

private:
  DenseMap<Attribute, size_t> numbers;

  void add(Location loc) {
    if (auto place = dyn_cast<FileLineColLoc>(loc)) {
      const auto [known, isNew] = numbers.try_emplace(place, places.size());
      if (isNew)
        places.push_back({place.getFilename().str(), static_cast<int32_t>(place.getLine()),
                          static_cast<int32_t>(place.getColumn())});
      text += "@" + std::to_string(known->second);
    } else if (auto name = dyn_cast<NameLoc>(loc)) {
      text += "'" + name.getName().str() + "'";
      add(name.getChildLoc());
    } else if (auto call = dyn_cast<CallSiteLoc>(loc)) {
      text += "call";
      add(call.getCallee());
      add(call.getCaller());
    } else if (auto fused = dyn_cast<FusedLoc>(loc)) {
      text += "fused" + std::to_string(fused.getLocations().size());
      for (Location part : fused.getLocations())
        add(part);
    } else {
      text += "?";
    }
  }
};

std::string argumentsText(func::FuncOp function) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  for (BlockArgument argument : function.getArguments()) {
    auto name = function.getArgAttrOfType<StringAttr>(argument.getArgNumber(), nameAttr);
    stream << (argument.getArgNumber() ? " " : "") << (name ? name.getValue() : "-") << ":";
    if (auto type = dyn_cast<RankedTensorType>(argument.getType())) {
      for (int64_t size : type.getShape())
        ShapedType::isDynamic(size) ? stream << "?x" : stream << size << "x";
      stream << type.getElementType();
    } else {
      stream << argument.getType();
    }
  }
  return text;
}

/// The options that change what is made. Each member is named here or does not compile.
std::string flagsText(const CompileOptions &options) {
  const PipelineOptions &pipeline = options.pipeline;
  const auto &[shapes, products, recomputation, firstPass, endPass, stopAfter, verifyEach, checkForms, dump, dumpStream,
               remarks, target, queries] = static_cast<const PipelineRequest &>(pipeline);
  std::string text = pipeline.text();
  text += products == ProductType::bf16 ? " --dtype=bf16" : products == ProductType::f16 ? " --dtype=f16" : "";
  const auto &[cheap, blocks, borders] = recomputation;
  if (!recomputation.isNone())
    text += llvm::formatv(" --remat={0},{1},{2}", cheap, blocks, borders);
  if (options.memoryLimit)
    text += llvm::formatv(" -fmemory-limit={0}{1}", options.memoryLimit, options.recomputesToFit ? "" : ",kept");
  for (const auto &[name, sizes] : shapes) {
    text += " --shape=" + name + ":";
    for (auto [i, size] : llvm::enumerate(sizes))
      text += (i ? "x" : "") + std::to_string(size);
  }
  // The others: nothing is cached with them (refusalOf), the session sets them by the target, or they check alone.
  (void)firstPass, (void)endPass, (void)stopAfter, (void)verifyEach, (void)checkForms, (void)dump, (void)dumpStream,
      (void)remarks, (void)target, (void)queries;
  return text;
}

/// What the runtime multiplies by and how much scratch memory that takes.
std::string machineText() {
  return runtime::cpuFeatures() + (runtime::hasTiles() ? ",tiles" : "") + " " + std::string(runtime::cpuLimit());
}

/// Each member is named here, too, or does not compile. The session makes the target from its name and the options of
/// code, which its key has. Code of custom ops is checked whenever a step is compiled, and may depend on files that
/// nobody names (libraries of a library, what CUDA text includes).
std::string refusalOf(ModuleOp module, const CompileOptions &options) {
  const auto &[pipeline, ownTarget, targetName, code, allowCustomCode, threads, device, remarks, cache, memoryLimit,
               recomputesToFit, costs] = options;
  (void)memoryLimit, (void)recomputesToFit; // of the key's flags
  (void)targetName, (void)code, (void)allowCustomCode, (void)threads, (void)device;
  if (cache.place().empty())
    return "off";
  if (ownTarget)
    return "the target is the caller's own";
  if (pipeline.verifyEach || !pipeline.dump.empty() || remarks || costs)
    return "what was asked for is said while passes run";
  bool isOfProcess = false, hasCode = false;
  module->walk([&](CustomOp op) {
    isOfProcess |= op.getHostFunction() || op.getHostReference();
    hasCode |= !op.namedCode().empty();
  });
  return isOfProcess ? "a custom op is a function of this program" : hasCode ? "a custom op has code of its own" : "";
}

/// What stands in lines or else in words, and in words of lists where these are long.
SmallVector<StringRef> piecesOf(StringRef value) {
  constexpr size_t longest = 80;
  SmallVector<StringRef> pieces, all;
  value.split(pieces, value.contains('\n') ? '\n' : ' ', -1, false);
  for (StringRef piece : pieces)
    if (piece.size() > longest)
      piece.split(all, ',', -1, false);
    else
      all.push_back(piece);
  return all;
}

SmallVector<StringRef> onlyIn(ArrayRef<StringRef> some, ArrayRef<StringRef> others) {
  llvm::StringSet<> known;
  known.insert_range(others);
  SmallVector<StringRef> pieces;
  llvm::copy_if(some, std::back_inserter(pieces), [&](StringRef piece) { return !known.contains(piece); });
  return pieces;
}

/// How two values of a part differ.
struct Difference {
  SmallVector<StringRef> before, now; // the pieces that one has and the other has not

  Difference(StringRef one, StringRef other)
      : before(onlyIn(piecesOf(one), piecesOf(other))), now(onlyIn(piecesOf(other), piecesOf(one))) {}

  /// "-O2 → -O3"
  std::string text() const {
    constexpr size_t most = 80;
    auto listed = [](ArrayRef<StringRef> pieces) {
      std::string list = pieces.empty() ? "nothing" : "";
      for (StringRef piece : pieces)
        if (list.size() < most)
          list += (list.empty() ? "" : ", ") + piece.str();
      return list;
    };
    return listed(before) + " → " + listed(now);
  }
};

/// An entry is the length of a header, the header, and an artefact.
struct ReadEntry {
  llvm::json::Value header = nullptr;
  StringRef artefact;
};

/// Of the first bytes of one at least; nothing where they do not hold a header.
std::optional<ReadEntry> readEntry(StringRef entry) {
  uint64_t length = 0;
  if (entry.size() < headerLengthBytes)
    return std::nullopt;
  std::memcpy(&length, entry.data(), headerLengthBytes);
  const StringRef rest = entry.drop_front(headerLengthBytes);
  if (length > rest.size())
    return std::nullopt;
  llvm::Expected<llvm::json::Value> header = llvm::json::parse(rest.take_front(length));
  if (header && header->getAsObject())
    return ReadEntry{std::move(*header), rest.drop_front(length)};
  llvm::consumeError(header.takeError());
  return std::nullopt;
}

/// The parts of an entry's key, from its first bytes; none where they are not whole.
std::vector<StepCache::Part> partsOf(StringRef entry) {
  const std::optional<ReadEntry> read = readEntry(entry);
  const llvm::json::Array *list = read ? read->header.getAsObject()->getArray("key") : nullptr;
  std::vector<StepCache::Part> parts;
  for (size_t i = 0; list && i + 1 < list->size(); i += 2)
    if (auto name = (*list)[i].getAsString(), value = (*list)[i + 1].getAsString(); name && value)
      parts.push_back({name->str(), value->str()});
  return parts;
}

/// Calls replace(source) for each place in the artefact; false where one cannot be replaced.
bool replacePlaces(runtime::Artefact &artefact, llvm::function_ref<bool(runtime::SourceLocation &)> replace) {
  for (runtime::TargetCode &code : artefact.targets)
    for (runtime::Instruction &instruction : code.plan.instructions)
      if (!llvm::all_of(instruction.sources, replace))
        return false;
  return true;
}

} // namespace

StepCache::StepCache(ModuleOp captured, const CompileOptions &options, const Target &target) : cache(options.cache) {
  refused = refusalOf(captured, options);
  if (!refused.empty())
    return;
  const runtime::Expected<std::string> codeKey = target.codeKey();
  if (!codeKey) {
    refused = codeKey.error().message();
    return;
  }
  PlacesText named(captured);
  places = std::move(named.places);
  const std::string graph = placelessText(captured);
  keyParts = {{"build", buildText()},
              {"target", *codeKey},
              {"threads", std::to_string(options.threads)},
              {"CPU", machineText()},
              {"flags", flagsText(options)},
              {"arguments", argumentsText(functionOf(captured))},
              {"names", hexDigest(named.text)},
              {"graph", hexDigest(graph)}};
  for (const Part &part : keyParts)
    key += part.name + '\0' + part.value + '\0';
  key += named.text + '\0' + graph;
}

std::string StepCache::header(const CompileReport &report) const {
  llvm::json::Array parts;
  for (const auto &[name, value] : keyParts) {
    parts.push_back(name);
    parts.push_back(llvm::json::fixUTF8(value));
  }
  const PipelineReport &passes = report.pipeline;
  std::string text;
  llvm::raw_string_ostream(text) << llvm::json::Value(llvm::json::Object{
      {"key", std::move(parts)},
      {"report", llvm::json::Array{passes.capturedOps, passes.kernels, passes.matmuls, passes.arenaBytes,
                                   report.compiledKernels, report.plannedBytes, passes.recomputed.ops,
                                   std::llround(passes.recomputed.share * millionths)}}});
  return text;
}

runtime::Error StepCache::store(const runtime::Artefact &artefact, const CompileReport &report) const {
  runtime::Artefact placeless = artefact;
  std::map<std::tuple<std::string, int32_t, int32_t>, int32_t> numbers;
  for (auto [i, place] : llvm::enumerate(places))
    numbers.try_emplace({place.file, place.line, place.column}, static_cast<int32_t>(i));
  const bool known = replacePlaces(placeless, [&](runtime::SourceLocation &source) {
    const auto number = numbers.find({source.file, source.line, source.column});
    if (number != numbers.end())
      source = {"", number->second, 0};
    return number != numbers.end();
  });
  if (!known)
    return runtime::Error("a place that no op of the function has");
  const runtime::Expected<std::string> bytes = runtime::serializeArtefact(placeless);
  if (!bytes)
    return bytes.error();
  const std::string head = header(report);
  const uint64_t length = head.size();
  std::string entry(reinterpret_cast<const char *>(&length), headerLengthBytes);
  return storeBytes(entry + head + *bytes);
}

std::optional<runtime::Artefact> StepCache::find(CompileReport &report) const {
  const std::optional<std::string> entry = cache.find(FileCache::steps, key);
  const std::optional<ReadEntry> read = entry ? readEntry(*entry) : std::nullopt;
  if (!read)
    return std::nullopt;
  const llvm::json::Array *numbers = read->header.getAsObject()->getArray("report");
  runtime::Expected<runtime::Artefact> artefact = runtime::parseArtefact(read->artefact);
  PipelineReport &passes = report.pipeline;
  int64_t share = 0;
  int64_t *const members[] = {&passes.capturedOps,     &passes.kernels,      &passes.matmuls,        &passes.arenaBytes,
                              &report.compiledKernels, &report.plannedBytes, &passes.recomputed.ops, &share};
  if (!artefact || !numbers || numbers->size() != std::size(members))
    return std::nullopt;
  for (auto [member, number] : llvm::zip_equal(members, *numbers))
    *member = number.getAsInteger().value_or(0);
  passes.recomputed.share = static_cast<double>(share) / millionths;
  const bool known = replacePlaces(*artefact, [&](runtime::SourceLocation &source) {
    const bool has = source.line >= 0 && static_cast<size_t>(source.line) < places.size();
    if (has)
      source = places[static_cast<size_t>(source.line)];
    return has;
  });
  return known ? std::optional(std::move(*artefact)) : std::nullopt;
}

std::string StepCache::missReason() const {
  std::optional<std::vector<Part>> nearest;
  size_t fewest = 0;
  for (const std::string &entry : cache.newest(FileCache::steps, lookedAt, shownBytes)) {
    std::vector<Part> other = partsOf(entry);
    if (other.size() != keyParts.size())
      continue;
    size_t differing = 0;
    for (auto [a, b] : llvm::zip_equal(other, keyParts))
      if (a.value != b.value) {
        const Difference pieces(a.value, b.value);
        differing += 1 + pieces.before.size() + pieces.now.size();
      }
    if (differing < fewest || !nearest) {
      fewest = differing;
      nearest = std::move(other);
    }
  }
  if (!nearest)
    return "no step was kept before";
  std::string text;
  bool argumentsDiffer = false;
  for (auto [before, now] : llvm::zip_equal(*nearest, keyParts)) {
    if (before.value == now.value || (now.name == "graph" && argumentsDiffer))
      continue;
    argumentsDiffer |= now.name == "arguments";
    const bool isDigest = now.name == "graph" || now.name == "names" || now.name == "build";
    text += (text.empty() ? "" : "; ") + now.name + (StringRef(now.name).ends_with("s") ? " differ" : " differs") +
            (isDigest ? "" : ": " + Difference(before.value, now.value).text());
  }
  return text.empty() ? "the entry was not whole" : text;
}

} // namespace tcc
