// From LLVM IR to object code or text of one target.
#pragma once
#include "codegen/cpu/emit_kernels.h"
#include "codegen/cpu/lane_builder.h"
#include "llvm/IR/Module.h"
#include "llvm/Target/TargetMachine.h"

namespace tcc::cpu {

/// LLVM's name of the CPU that "native" is: this machine's, or the level that TCC_CPU (runtime/cpu.h) limits it to.
std::string nativeCpu();

/// A machine for the target. Safe to call from several threads.
runtime::Expected<std::unique_ptr<llvm::TargetMachine>> createMachine(const Target &target);

/// What vector code may use on a machine.
VectorTarget vectorTarget(const llvm::TargetMachine &machine, const Target &target);

/// Gives the module's functions the machine's attributes and optimises them; no library function is assumed.
void optimize(llvm::Module &module, llvm::TargetMachine &machine, unsigned vectorBytes);

/// Object code, or assembly text.
runtime::Expected<std::string> generateCode(llvm::Module &module, llvm::TargetMachine &machine, bool assembly);

/// Links objects with LLD; `scripts` are texts of version scripts.
runtime::Expected<std::string> link(llvm::ArrayRef<std::string> flags, llvm::ArrayRef<std::string> objects,
                                    llvm::ArrayRef<std::string> scripts = {});

/// Links objects into one shared object that needs no other library. `numbers` are symbols and what their addresses
/// are.
runtime::Expected<std::string> linkSharedObject(llvm::ArrayRef<std::string> objects,
                                                llvm::ArrayRef<std::pair<std::string, int64_t>> numbers = {});

/// All that code depends on beside the kernels and tcc itself.
runtime::Expected<std::string> machineKey(const EmitOptions &options);

} // namespace tcc::cpu
