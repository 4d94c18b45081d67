// applyFlags() has a line for each flag.
#include "frontend/compile_options.h"
#include "frontend/shape.h"

namespace tcc {

std::optional<std::string> unknownPass(const CompilerFlags &flags) {
  for (const auto &[name, on] : flags.passes) {
    if (llvm::any_of(pipelineTable(), [&name = name](const PassInfo &pass) { return name == pass.name; }))
      continue;
    const std::string option = on ? "-f" : "-fno-", candidate = nearestPass(name);
    return "unknown option '" + option + name + "'" +
           (candidate.empty() ? "" : "; did you mean '" + option + candidate + "'?") +
           " (tcc --print-pipeline lists the passes)";
  }
  return std::nullopt;
}

static std::optional<ProductType> productType(runtime::DType dtype) {
  switch (dtype) {
  case runtime::DType::f32:
    return ProductType::asWritten;
  case runtime::DType::bf16:
    return ProductType::bf16;
  case runtime::DType::f16:
    return ProductType::f16;
  default:
    return std::nullopt;
  }
}

static Recomputation recomputationOf(Remat remat) {
  switch (remat) {
  case Remat::none:
    return {};
  case Remat::automatic:
    return cheapRecomputation;
  case Remat::block:
    return blockRecomputation;
  case Remat::full:
    return fullRecomputation;
  }
  llvm_unreachable("every choice is known");
}

FileCache fileCache(const CompilerFlags &flags) {
  if (!flags.diskCache)
    return FileCache::off("by --no-cache");
  const int64_t mostBytes = flags.diskCacheBytes ? flags.diskCacheBytes : FileCache::usualBytes;
  return flags.diskCacheFolder.empty() ? FileCache::ofUser(mostBytes) : FileCache(flags.diskCacheFolder, mostBytes);
}

void checkFlags(const CompilerFlags &flags) {
  if (!productType(flags.products))
    throw usageError("products of " + std::string(runtime::name(flags.products)) + "; f32, bf16 and f16 are possible");
  if (const std::optional<std::string> unknown = unknownPass(flags))
    throw usageError(*unknown);
}

void applyFlags(const CompilerFlags &flags, CompileOptions &options) {
  checkFlags(flags);
  static_cast<PassFlags &>(options.pipeline) = flags;
  options.pipeline.products = *productType(flags.products);
  // Under a limit, auto is as little as fits.
  const bool isLeast = flags.memoryLimit && flags.remat == Remat::automatic;
  options.pipeline.recomputation = isLeast ? Recomputation() : recomputationOf(flags.remat.value_or(Remat::none));
  options.memoryLimit = flags.memoryLimit;
  options.recomputesToFit = flags.remat != Remat::none;
  options.leastMemory = flags.leastMemory && !flags.remat;
  if (flags.leastMemory || flags.memoryLimit) // memory is not spent on time
    options.pipeline.passes.try_emplace("keep-packed", false);
  options.threads = flags.threads;
  options.cache = fileCache(flags);
  options.tuning = flags.tuning;
  options.tuningSeconds = flags.tuningSeconds.value_or(usualTuningSeconds);
  options.allowCustomCode = flags.allowCustomCode;
  options.code.fastMath = flags.fastMath;
  options.code.tf32 = flags.tf32;
}

} // namespace tcc
