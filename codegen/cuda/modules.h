// Gathers kernels in modules, the texts that NVRTC compiles at once, and compiles those.
#pragma once
#include "codegen/cuda/device/device_text.h"
#include "codegen/cuda/target.h"
#include "codegen/file_cache.h"
#include "codegen/kernel_source.h"
#include "runtime/error.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"
#include <string>
#include <vector>

namespace tcc::cuda {

/// One text for NVRTC.
struct ModuleText {
  std::string text; // without the prelude: what -emit=cuda shows
  Prelude prelude = Prelude::Portable;
  std::vector<std::string> options;
};

/// The number of each kernel's module. Kernels of forms share modules, so that NVRTC does not read the prelude for each
/// one; there are several modules, so that two cores have work. A kernel that is text has its own module, since its
/// text defines constants.
llvm::SmallVector<uint32_t> modulesOf(llvm::ArrayRef<KernelSource> kernels);
/// `steady` is kernelText()'s.
std::vector<ModuleText> moduleTexts(llvm::ArrayRef<KernelSource> kernels, bool steady = false);

enum class CodeKind : uint8_t { cubin, ptx };

/// The code of each module, in order; PTX ends with a zero byte. Code that was made before comes from the cache;
/// `notes` says in a few words how much of it did. Errors: a kernel has no text; NVRTC cannot be opened or does not
/// know the architecture; NVRTC refuses a text (the message is its log).
runtime::Expected<std::vector<std::string>> compileModules(llvm::ArrayRef<KernelSource> kernels,
                                                           const EmitOptions &options, CodeKind kind,
                                                           const FileCache &cache, std::string &notes);

} // namespace tcc::cuda
