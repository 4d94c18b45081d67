// What kernels take of a GPU, read from their machine code. The assembler writes it there for the driver, so it is
// known of code that came from a cache as well.
#pragma once
#include "codegen/target.h"

namespace tcc::cuda {

/// The kernels of a cubin, in no certain order; each byte is checked before it is believed. Errors: the bytes are no
/// ELF file, or say nothing of registers.
runtime::Expected<std::vector<KernelUse>> usesInCubin(llvm::StringRef cubin);

} // namespace tcc::cuda
