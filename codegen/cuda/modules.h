// From kernels to what NVRTC compiles at once, and from there to code.
#pragma once
#include "codegen/cuda/device/device_text.h"
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

/// The number of each kernel's module: kernels of forms in groups, so that two cores have work and the prelude is not
/// read for each; each kernel that is text alone, since its constants are the text's.
llvm::SmallVector<uint32_t> modulesOf(llvm::ArrayRef<KernelSource> kernels);
std::vector<ModuleText> moduleTexts(llvm::ArrayRef<KernelSource> kernels);

enum class CodeKind : uint8_t { cubin, ptx };

/// Code of each module, in order; PTX ends with a zero byte. From the cache where it has been made before; `notes` says
/// how much of it, in a few words. An error is a kernel that has no text, NVRTC that cannot be opened or does not know
/// the architecture, or its log.
runtime::Expected<std::vector<std::string>> compileModules(llvm::ArrayRef<KernelSource> kernels,
                                                           const std::string &architecture, CodeKind kind,
                                                           const FileCache &cache, std::string &notes);

} // namespace tcc::cuda
