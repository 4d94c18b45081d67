// (1) Kernels become texts, a few in each module; (2) code that was made before is taken from the cache; (3) the other
// modules are compiled side by side, and their code is kept.
#include "codegen/cuda/modules.h"
#include "codegen/cuda/kernel/text.h"
#include "runtime/device/cuda/nvrtc.h"
#include "llvm/ADT/STLExtras.h"

namespace tcc::cuda {
namespace {

constexpr size_t kernelsInModule = 8;

using runtime::cuda::CompileRequest;
using runtime::cuda::CompileResult;
using runtime::cuda::Nvrtc;

CompileRequest requestFor(const ModuleText &module, size_t number, const std::string &architecture) {
  return {.name = "module" + std::to_string(number) + ".cu",
          .text = deviceText(module.prelude) + module.text,
          .architecture = architecture,
          .options = module.options,
          .refuseFindings = false}; // a spill is slow, no error
}

/// All that the code of a module depends on.
std::string keyOf(const CompileRequest &request, CodeKind kind, const Nvrtc &nvrtc) {
  std::string key = nvrtc.identity() + '\n' + (kind == CodeKind::ptx ? "ptx" : "cubin") + '\n' + request.name + '\n' +
                    request.architecture + '\n';
  for (const std::string &option : request.options)
    key += option + '\n';
  return key + '\n' + request.text;
}

std::string codeOf(const CompileResult &result, CodeKind kind) {
  return kind == CodeKind::ptx ? result.ptx : std::string(result.cubin.begin(), result.cubin.end());
}

/// The modules of one call of compileModules, while they are compiled.
class Compilation {
public:
  Compilation(const Nvrtc &nvrtc, CodeKind kind, const FileCache &cache) : nvrtc(nvrtc), kind(kind), cache(cache) {}

  /// What a text includes is not in its key, so such code is not kept.
  void add(CompileRequest request) {
    const bool isWhole = request.text.find("#include") == std::string::npos;
    keys.push_back(isWhole ? keyOf(request, kind, nvrtc) : "");
    std::optional<std::string> known = isWhole ? cache.find(FileCache::kernels, keys.back()) : std::nullopt;
    if (isWhole)
      cache.count(FileCache::kernels, known ? FileCache::Event::hit : FileCache::Event::miss);
    if (!known) {
      requests.push_back(std::move(request));
      missing.push_back(codes.size());
    }
    codes.push_back(known.value_or(""));
  }

  /// The first module's error, or an empty text.
  std::string run() {
    std::vector<CompileResult> results = nvrtc.compileAll(requests);
    for (auto [module, result] : llvm::zip_equal(missing, results)) {
      if (!result.error.empty())
        return result.error;
      codes[module] = codeOf(result, kind);
      if (keys[module].empty())
        continue;
      if (runtime::Error error = cache.store(FileCache::kernels, keys[module], codes[module]))
        problem = error.message();
    }
    return "";
  }

  std::string notes() const {
    std::string text = std::to_string(codes.size() - missing.size()) + " of " + std::to_string(codes.size()) +
                       " modules were compiled before";
    if (cache.place().empty())
      return std::to_string(codes.size()) + " modules, no cache";
    return text + " (" + cache.place() + (problem.empty() ? ")" : ", which takes no more: " + problem + ")");
  }

  std::vector<std::string> codes;

private:
  const Nvrtc &nvrtc;
  CodeKind kind;
  const FileCache &cache;
  std::vector<std::string> keys;
  std::vector<CompileRequest> requests;
  std::vector<size_t> missing; // the module of each request
  std::string problem;
};

} // namespace

llvm::SmallVector<uint32_t> modulesOf(llvm::ArrayRef<KernelSource> kernels) {
  llvm::SmallVector<uint32_t> modules;
  uint32_t made = 0, open = 0; // `open`: the module that takes the next kernel of a form, while it has room
  size_t room = 0;
  for (const KernelSource &source : kernels) {
    if (std::holds_alternative<TextKernel>(source)) {
      modules.push_back(made++);
      continue;
    }
    if (room == 0) {
      open = made++;
      room = kernelsInModule;
    }
    modules.push_back(open);
    --room;
  }
  return modules;
}

std::vector<ModuleText> moduleTexts(llvm::ArrayRef<KernelSource> kernels, bool steady) {
  std::vector<ModuleText> modules;
  for (auto [source, number] : llvm::zip_equal(kernels, modulesOf(kernels))) {
    if (number == modules.size())
      modules.emplace_back();
    ModuleText &module = modules[number];
    if (const auto *written = std::get_if<TextKernel>(&source)) {
      module.text = written->text;
      module.prelude = preludeOf(written->text);
      continue;
    }
    // Recomputed and stored values are equal only if nothing but the text says where there is one rounding.
    module.options = {"--fmad=false"};
    module.text += (module.text.empty() ? "" : "\n") + kernelText(std::get<FormKernel>(source), steady);
  }
  return modules;
}

runtime::Expected<std::vector<std::string>> compileModules(llvm::ArrayRef<KernelSource> kernels,
                                                           const EmitOptions &options, CodeKind kind,
                                                           const FileCache &cache, std::string &notes) {
  for (const KernelSource &source : kernels)
    if (const auto *kernel = std::get_if<FormKernel>(&source))
      if (std::string why = refusal(kernel->form); !why.empty())
        return runtime::Error("kernel '" + kernel->symbol + "': " + why);
  if (kernels.empty())
    return std::vector<std::string>();
  try {
    Nvrtc nvrtc = Nvrtc::open();
    if (!nvrtc.supports(options.architecture))
      return runtime::Error(nvrtc.unknown(options.architecture));
    Compilation compilation(nvrtc, kind, cache);
    for (auto [number, module] : llvm::enumerate(moduleTexts(kernels, options.steady)))
      compilation.add(requestFor(module, number, options.architecture));
    if (std::string log = compilation.run(); !log.empty())
      return runtime::Error(std::move(log));
    notes = compilation.notes();
    return std::move(compilation.codes);
  } catch (const runtime::CudaError &failure) {
    return runtime::Error(failure.what());
  }
}

} // namespace tcc::cuda
