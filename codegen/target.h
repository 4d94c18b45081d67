// What a target does with a planned function: a table of functions, one folder a target (cpu/). Passes see its model
// alone.
#pragma once
#include "codegen/kernel_table.h"
#include "passes/target_model.h"
#include "runtime/plan.h"
#include "llvm/ADT/ArrayRef.h"
#include <optional>
#include <vector>

namespace tcc {

/// A structured op whose memory is known: buffers of the plan.
struct StructuredCall {
  mlir::Operation *op = nullptr;
  llvm::SmallVector<StridedView, 2> views;          // of the operands, within the model's limits
  llvm::SmallVector<runtime::BufferId, 2> operands; // what each view spans: its element 0 is the buffer's first
  llvm::SmallVector<runtime::BufferId, 2> results;  // dense
  runtime::BufferId scratch = runtime::noBuffer;    // of scratchBytes, where those are not 0
};

/// An abstract class, not a table of pointers: implementations carry options of their own (CPU features, threads), and
/// a forgotten function is an error of the build.
class Target : public TargetQueries {
public:
  /// The data that passes read; its name is the target's.
  virtual const TargetModel &model() const = 0;

  /// Whether the op, by its full name ("tcc.matmul"), can be lowered; kernels aside, which are emitted.
  virtual bool supports(llvm::StringRef op) const = 0;

  /// A pure function of form and model, never of the device that happens to be there: it is part of what makes two
  /// kernels equal.
  virtual KernelLaunch launch(const KernelInfo &form) const = 0;

  /// The code objects of all kernels, none where there are none; nothing and in `error` which kernel cannot be made,
  /// and why.
  virtual std::optional<std::vector<std::string>> emit(llvm::ArrayRef<KernelSource> kernels,
                                                       std::string &error) const = 0;
  /// What emit() did last, in a few words, where there is something to say. One target serves one thread.
  virtual std::string emitted() const { return {}; }

  /// Turns the plan's kernel calls into what the device runs, where those are no kernel calls; `kernels` are the
  /// plan's, in order. False and in `error` why not.
  virtual bool lowerKernels(llvm::ArrayRef<KernelSource> kernels, runtime::Plan &plan, std::string &error) const {
    (void)kernels, (void)plan, (void)error;
    return true;
  }

  /// Appends the instructions that the op runs as, and what they need of buffers, to the plan, and kernels of its own
  /// by addKernel. Sources, and the op's flops and bytes where no instruction has any, are added by the caller. False
  /// and in `error` why not.
  virtual bool lower(const StructuredCall &call, runtime::Plan &plan, KernelTable &kernels,
                     std::string &error) const = 0;

  /// Which 16-bit types the machine has instructions to multiply.
  struct FastProducts {
    bool bf16 = false, f16 = false;
  };
  virtual FastProducts fastProducts() const = 0;

  /// What the artefact says of the code (runtime::TargetCode): the target's name, with what the code is for behind a
  /// colon where that is not this machine; and features that it needs, or nothing and in `error` why there are none.
  virtual std::string codeName() const { return model().name; }
  virtual std::optional<std::string> needs(std::string &error) const = 0;
};

} // namespace tcc
