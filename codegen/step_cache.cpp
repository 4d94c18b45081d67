// The key is text. Names and places in files are numbers there and in entries: those of the caller's function take
// their places when an entry is found.
#include "codegen/step_cache.h"
#include "codegen/build_id.h"
#include "codegen/custom.h"
#include "codegen/graph_digest.h"
#include "ir/names.h"
#include "passes/pipeline.h"
#include "runtime/cpu.h"
#include "runtime/custom_call.h"
#include "runtime/files.h"
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
constexpr char targetPart[] = "target";                 // of a key
constexpr size_t lookedAt = 64, shownBytes = 128 << 10; // of other entries, for the reason of a miss

/// "x:4x?xf32 y:4xf32"; the types alone without names.
std::string argumentsText(func::FuncOp function, bool withNames) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  for (BlockArgument argument : function.getArguments()) {
    auto name = function.getArgAttrOfType<StringAttr>(argument.getArgNumber(), nameAttr);
    stream << (argument.getArgNumber() ? " " : "");
    if (withNames)
      stream << (name ? name.getValue() : "-") << ":";
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

/// --shape=: by names, or by numbers of arguments in their order.
std::string shapesText(func::FuncOp function, const std::map<std::string, std::vector<int64_t>> &shapes,
                       bool withNames) {
  std::map<std::string, std::string> texts;
  for (const auto &[name, sizes] : shapes) {
    std::string of = name;
    for (unsigned i = 0; i < function.getNumArguments() && !withNames; ++i)
      if (function.getArgAttrOfType<StringAttr>(i, nameAttr) == StringRef(name))
        of = "#" + std::to_string(i);
    std::string &text = texts[of];
    for (auto [i, size] : llvm::enumerate(sizes))
      text += (i ? "x" : "") + std::to_string(size);
  }
  std::string text;
  for (const auto &[name, sizes] : texts)
    text += " --shape=" + name + ":" + sizes;
  return text;
}

/// The options that change what is made. Each member is named here or does not compile.
std::string flagsText(func::FuncOp function, const CompileOptions &options, bool withNames) {
  const PipelineOptions &pipeline = options.pipeline;
  const auto &[shapes, products, recomputation, firstPass, endPass, stopAfter, verifyEach, findChanges, checkForms,
               dump, dumpStream, reached, passed, remarks, target, queries] =
      static_cast<const PipelineRequest &>(pipeline);
  std::string text = pipeline.text();
  text += products == ProductType::bf16 ? " --dtype=bf16" : products == ProductType::f16 ? " --dtype=f16" : "";
  const auto &[cheap, blocks, borders] = recomputation;
  if (!recomputation.isNone())
    text += llvm::formatv(" --remat={0},{1},{2}", cheap, blocks, borders);
  text += options.leastMemory ? " -Os" : "";
  if (options.memoryLimit)
    text += llvm::formatv(" -fmemory-limit={0}{1}", options.memoryLimit, options.recomputesToFit ? "" : ",kept");
  text += shapesText(function, shapes, withNames);
  // The others: nothing is cached with them (refusalOf), the session sets them by the target, or they check alone.
  (void)firstPass, (void)endPass, (void)stopAfter, (void)verifyEach, (void)findChanges, (void)checkForms, (void)dump,
      (void)dumpStream, (void)reached, (void)passed, (void)remarks, (void)target, (void)queries;
  return text;
}

/// What the runtime multiplies by and how much scratch memory that takes.
std::string machineText() {
  return runtime::cpuFeatures() + (runtime::hasTiles() ? ",tiles" : "") + " " + std::string(runtime::cpuLimit());
}

/// What custom ops run that is no text of the graph: each library's file and a digest of what is in it now, or
/// each provider's version.
runtime::Expected<std::string> librariesText(ModuleOp module) {
  std::map<std::string, std::string> digests;
  runtime::Error problem;
  module->walk([&](CustomOp op) {
    if (!op.getLibrary())
      return;
    const std::string library = customCall(op).library;
    std::string &digest = digests[library];
    if (!digest.empty())
      return;
    if (runtime::isProvided(library)) {
      const runtime::FunctionProvider *provider = runtime::providerOf(library);
      digest = provider ? provider->version : "?";
      return;
    }
    const runtime::Expected<std::string> bytes = runtime::readFile(library);
    if (bytes)
      digest = hexDigest(*bytes);
    else
      problem = bytes.error();
  });
  if (problem)
    return problem;
  std::string text;
  for (const auto &[file, digest] : digests)
    text += (text.empty() ? "" : "\n") + file + " " + digest;
  return text;
}

/// Why the key does not hold all that the step depends on; empty if it does. Each member is named here, too, or does
/// not compile. The session makes the target from its name and the options of code, which its key has.
std::string unknownOf(ModuleOp module, const CompileOptions &options) {
  const auto &[pipeline, ownTarget, targetName, code, allowCustomCode, threads, device, remarks, cache, memoryLimit,
               recomputesToFit, leastMemory, tuning, tuningSeconds, costs, watched] = options;
  (void)memoryLimit, (void)recomputesToFit, (void)leastMemory; // of the key's flags
  (void)tuning, (void)tuningSeconds;                           // the session compares what an entry chose
  (void)targetName, (void)code, (void)allowCustomCode, (void)threads, (void)device, (void)cache;
  if (ownTarget)
    return "the target is the caller's own";
  const bool isWatched = pipeline.reached || pipeline.passed || remarks || costs;
  if (pipeline.verifyEach || !pipeline.dump.empty() || (isWatched && !watched))
    return "what was asked for is said while passes run";
  bool isOfProcess = false, includes = false;
  module->walk([&](CustomOp op) {
    isOfProcess |= op.getHostFunction() || op.getHostReference();
    includes |= op.getCuda().value_or("").contains("#include");
  });
  return isOfProcess ? "a custom op is a function of this program"
         : includes  ? "a custom op's text includes files, which may change"
                     : "";
}

bool hasCode(ModuleOp module) {
  return module
      ->walk([](CustomOp op) { return op.namedCode().empty() ? WalkResult::advance() : WalkResult::interrupt(); })
      .wasInterrupted();
}

/// The lines of a text of several lines, or else the words of a line. Long ones are cut at their commas.
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

/// How two texts of Target::codeKey differ. Their lines are names and values, the first one the target's: "cpu →
/// cpu:x86-64, cpu znver3 → x86-64, vector bytes 32 → 16". A CPU's features are told only where nothing before them
/// differs, since the name of another CPU says what it has.
std::string targetDifference(StringRef before, StringRef now) {
  SmallVector<StringRef> old, fresh;
  before.split(old, '\n', -1, false);
  now.split(fresh, '\n', -1, false);
  if (old.size() != fresh.size()) // of two kinds
    return Difference(old.front().split(' ').second, fresh.front().split(' ').second).text();
  std::string text;
  for (auto [line, newLine] : llvm::zip_equal(old, fresh)) {
    if (line == newLine || (line.starts_with("features ") && !text.empty()))
      continue;
    StringRef value = line, newValue = newLine;
    while (!value.empty() && value.split(' ').first == newValue.split(' ').first) {
      value = value.split(' ').second;
      newValue = newValue.split(' ').second;
    }
    StringRef name = line.drop_back(value.size());
    name.consume_front("target ");
    text += (text.empty() ? "" : ", ") + name.str() + Difference(value, newValue).text();
  }
  return text;
}

/// An entry is the length of a header, the header, and an artefact.
struct ReadEntry {
  llvm::json::Value header = nullptr;
  StringRef artefact;
};

/// Reads an entry, or at least its header if these are only its first bytes. Nothing if they hold no header.
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
  for (size_t i = 0; list && i + 2 < list->size(); i += 3)
    if (auto name = (*list)[i].getAsString(), value = (*list)[i + 1].getAsString(),
        shown = (*list)[i + 2].getAsString();
        name && value && shown)
      parts.push_back({name->str(), value->str(), shown->str()});
  return parts;
}

} // namespace

StepCache::StepCache(ModuleOp captured, const CompileOptions &options, const Target &target, bool sends)
    : cache(options.cache) {
  if (cache.place().empty())
    refused = cache.whyOff().empty() ? "off" : "off, " + cache.whyOff();
  if (!refused.empty() && !sends)
    return;
  std::string unknown = unknownOf(captured, options);
  const runtime::Expected<std::string> codeKey = target.codeKey();
  if (unknown.empty() && !codeKey)
    unknown = codeKey.error().message();
  const runtime::Expected<std::string> libraries = unknown.empty() ? librariesText(captured) : std::string();
  if (!libraries)
    unknown = libraries.error().message();
  if (!unknown.empty()) {
    refused = refused.empty() ? unknown : refused;
    return;
  }
  mustCheck = hasCode(captured);
  names.emplace(captured);
  func::FuncOp function = functionOf(captured);
  const std::string graph = namelessText(captured);
  auto same = [](std::string name, std::string value) { return Part{std::move(name), value, value}; };
  keyParts = {same("build", buildText()),
              same(targetPart, *codeKey),
              same("threads", std::to_string(options.threads)),
              same("CPU", machineText()),
              {"flags", flagsText(function, options, false), flagsText(function, options, true)},
              {"arguments", argumentsText(function, false), argumentsText(function, true)},
              same("libraries", *libraries),
              same("names", hexDigest(names->pattern())),
              same("graph", hexDigest(graph))};
  for (const Part &part : keyParts)
    key += part.name + '\0' + part.value + '\0';
  key += names->pattern() + '\0' + graph;
}

std::string StepCache::digest() const {
  return key.empty() ? "" : hexDigest(key);
}

std::string StepCache::header(const CompileReport &report) const {
  llvm::json::Array parts;
  for (const Part &part : keyParts)
    for (const std::string &text : {part.name, part.value, part.shown})
      parts.push_back(llvm::json::fixUTF8(text));
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
  const runtime::Expected<std::string> bytes = entry(artefact, report);
  return bytes ? storeBytes(*bytes) : bytes.error();
}

runtime::Expected<std::string> StepCache::entry(const runtime::Artefact &artefact, const CompileReport &report) const {
  runtime::Artefact nameless = artefact;
  for (runtime::TargetCode &code : nameless.targets)
    if (!names->toNumbers(code.plan))
      return runtime::Error("a place that no op of the function has");
  const runtime::Expected<std::string> bytes = runtime::serializeArtefact(nameless);
  if (!bytes)
    return bytes.error();
  const std::string head = header(report);
  const uint64_t length = head.size();
  return std::string(reinterpret_cast<const char *>(&length), headerLengthBytes) + head + *bytes;
}

std::optional<runtime::Artefact> StepCache::find(CompileReport &report) {
  const std::optional<std::string> entry = cache.find(FileCache::steps, key, &damage);
  return entry ? read(*entry, report) : std::nullopt;
}

std::optional<runtime::Artefact> StepCache::read(std::string_view entry, CompileReport &report) const {
  const std::optional<ReadEntry> parts = readEntry(entry);
  if (!parts)
    return std::nullopt;
  const llvm::json::Array *numbers = parts->header.getAsObject()->getArray("report");
  runtime::Expected<runtime::Artefact> artefact = runtime::parseArtefact(parts->artefact);
  PipelineReport &passes = report.pipeline;
  int64_t share = 0;
  int64_t *const members[] = {&passes.capturedOps,     &passes.kernels,      &passes.matmuls,        &passes.arenaBytes,
                              &report.compiledKernels, &report.plannedBytes, &passes.recomputed.ops, &share};
  if (!artefact || !numbers || numbers->size() != std::size(members))
    return std::nullopt;
  for (auto [member, number] : llvm::zip_equal(members, *numbers))
    *member = number.getAsInteger().value_or(0);
  passes.recomputed.share = static_cast<double>(share) / millionths;
  for (runtime::TargetCode &code : artefact->targets)
    if (!names->toNames(code.plan))
      return std::nullopt;
  return std::move(*artefact);
}

std::string StepCache::missReason() const {
  if (!damage.empty())
    return damage;
  std::optional<std::vector<Part>> nearest;
  size_t fewest = 0;
  for (const std::string &entry : cache.newest(FileCache::steps, lookedAt, shownBytes)) {
    std::vector<Part> other = partsOf(entry);
    if (other.size() != keyParts.size())
      continue;
    size_t differing = 0;
    for (auto [a, b] : llvm::zip_equal(other, keyParts))
      if (a.value != b.value) {
        const Difference pieces(a.shown, b.shown);
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
    text += (text.empty() ? "" : "; ") + now.name + (StringRef(now.name).ends_with("s") ? " differ" : " differs");
    if (!isDigest)
      text += ": " + (now.name == targetPart ? targetDifference(before.shown, now.shown)
                                             : Difference(before.shown, now.shown).text());
  }
  return text.empty() ? "the entry was not whole" : text;
}

} // namespace tcc
