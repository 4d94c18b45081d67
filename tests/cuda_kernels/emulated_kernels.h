// Kernels of a function in phase fused, as CUDA text, run in the emulator under several schedules and held against the
// interpreter.
#pragma once
#include "codegen/cuda/kernel/text.h"
#include "ir/reference/compare.h"
#include "mlir/IR/OwningOpRef.h"
#include "tests/cuda_emulator/emulator.h"

namespace tcc::test {

/// One kernel alone in a function @main, with its text and inputs.
struct EmulatedKernel {
  std::string name; // for messages
  mlir::OwningOpRef<mlir::ModuleOp> module;
  FormKernel source;
  std::vector<RefTensor> inputs;
};

/// Every kernel of the module's function, each with random inputs of its own; symbols start with `prefix`.
std::vector<EmulatedKernel> kernelsOf(mlir::ModuleOp fused, const std::string &prefix, uint64_t seed);

/// Compiles the kernels' texts together and runs each: no finding, equal bits under every schedule, within the
/// tolerance of the interpreter; the same bits in a joined call, where the kernel has one. What is wrong is added to
/// gtest's failures.
void checkKernels(llvm::ArrayRef<EmulatedKernel> kernels, llvm::ArrayRef<emulator::Schedule> schedules,
                  Tolerance tolerance = {});

/// What a daily run does: forward with every access checked, and reverse with early copies. With TCC_FULL=1 in the
/// environment all of emulator::testSchedules().
std::vector<emulator::Schedule> dailySchedules();
/// Whether TCC_FULL=1 asks for everything.
bool isFullRun();

/// The results of one launch; findings go to `findings`. `over`: the first result lies over that argument.
std::vector<RefTensor> runEmulated(const emulator::Module &module, const EmulatedKernel &kernel,
                                   const emulator::Schedule &schedule, std::string &findings,
                                   std::optional<unsigned> over = {});

/// The results of one launch for `count` sets of tensors, at least two, all with the kernel's inputs.
std::vector<std::vector<RefTensor>> runJoined(const emulator::Module &module, const EmulatedKernel &kernel, int count,
                                              const emulator::Schedule &schedule, std::string &findings);

} // namespace tcc::test
