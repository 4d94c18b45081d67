// Makes object code or assembly text from LLVM IR, for one target.
#pragma once
#include "codegen/cpu/emit_kernels.h"
#include "codegen/cpu/lane_builder.h"
#include "llvm/IR/Module.h"
#include "llvm/Target/TargetMachine.h"

namespace tcc::cpu {

/// LLVM's name for the CPU that "native" means: this machine's CPU, or the level to which TCC_CPU (runtime/cpu.h)
/// limits it.
std::string nativeCpu();

/// Whether LLVM has a CPU of this name. "native" is none.
bool knowsCpu(llvm::StringRef name);

/// A machine for the target. Safe to call from several threads.
runtime::Expected<std::unique_ptr<llvm::TargetMachine>> createMachine(const Target &target);

/// What vector code may use on a machine.
VectorTarget vectorTarget(const llvm::TargetMachine &machine, const Target &target);

/// Gives the module's functions the machine's attributes and optimises them, without assuming any library function.
void optimize(llvm::Module &module, llvm::TargetMachine &machine, unsigned vectorBytes);

/// Object code, or assembly text.
runtime::Expected<std::string> generateCode(llvm::Module &module, llvm::TargetMachine &machine, bool assembly);

/// Links objects with LLD; `scripts` are texts of version scripts.
runtime::Expected<std::string> link(llvm::ArrayRef<std::string> flags, llvm::ArrayRef<std::string> objects,
                                    llvm::ArrayRef<std::string> scripts = {});

/// Links objects into one shared object that needs no other library. `numbers` gives symbols their addresses.
runtime::Expected<std::string> linkSharedObject(llvm::ArrayRef<std::string> objects,
                                                llvm::ArrayRef<std::pair<std::string, int64_t>> numbers = {});

/// All that code depends on beside the kernels and tcc itself.
runtime::Expected<std::string> machineKey(const EmitOptions &options);

} // namespace tcc::cpu
