// Target: makes code of a planned function for one kind of machine. Each target is a folder (cpu/, cuda/); passes see
// nothing of it but its model.
#pragma once
#include "codegen/file_cache.h"
#include "codegen/kernel_table.h"
#include "passes/target_model.h"
#include "runtime/error.h"
#include "runtime/plan.h"
#include "llvm/ADT/ArrayRef.h"
#include <optional>
#include <vector>

namespace tcc {

/// A structured op, and the buffers of the plan that hold its operands and results.
struct StructuredCall {
  mlir::Operation *op = nullptr;
  llvm::SmallVector<StridedView, 2> views;          // of the operands, within the model's limits
  llvm::SmallVector<runtime::BufferId, 2> operands; // what each view spans: its element 0 is the buffer's first
  llvm::SmallVector<runtime::BufferId, 2> results;  // dense
  runtime::BufferId scratch = runtime::noBuffer;    // of scratchBytes, where those are not 0
};

/// Implementations carry options of their own (CPU features, threads); a function that one of them forgets is an error
/// of the build.
class Target : public TargetQueries {
public:
  /// The data that passes read; its name is the target's.
  virtual const TargetModel &model() const = 0;

  /// Whether the op, by its full name ("tcc.matmul"), can be lowered; kernels aside, which are emitted.
  virtual bool supports(llvm::StringRef op) const = 0;

  /// A pure function of form and model, never of the device that happens to be there: it is part of what makes two
  /// kernels equal.
  virtual KernelLaunch launch(const KernelInfo &form) const = 0;

  /// The code objects of all kernels, none where there are none. An error names the kernel that cannot be made, and
  /// says why.
  virtual runtime::Expected<std::vector<std::string>> emit(llvm::ArrayRef<KernelSource> kernels) const = 0;
  /// What emit() did last, in a few words, where there is something to say. One target serves one thread.
  virtual std::string emitted() const { return {}; }

  /// Replaces the plan's kernel calls where the device runs something else, such as launches. `kernels` are the plan's,
  /// in order.
  virtual runtime::Error lowerKernels(llvm::ArrayRef<KernelSource> kernels, runtime::Plan &plan) const {
    (void)kernels, (void)plan;
    return {};
  }

  /// Appends the instructions that the op runs as, and what they need of buffers, to the plan, and kernels of its own
  /// by addKernel. Sources, and the op's flops and bytes where no instruction has any, are added by the caller.
  virtual runtime::Error lower(const StructuredCall &call, runtime::Plan &plan, KernelTable &kernels) const = 0;

  /// The kernels in a form that -emit= has (TargetKind::emissions), by module.
  virtual runtime::Expected<std::vector<std::string>> emitAs(llvm::StringRef emission,
                                                             llvm::ArrayRef<KernelSource> kernels) const {
    (void)kernels;
    return runtime::Error("target '" + model().name + "' has no -emit=" + emission.str());
  }

  /// Which 16-bit types the machine has instructions to multiply.
  struct FastProducts {
    bool bf16 = false, f16 = false;
  };
  virtual FastProducts fastProducts() const = 0;
  /// Whether products of bf16 are faster than f32's, as far as that was measured.
  virtual bool gainsFromBf16() const { return fastProducts().bf16; }

  /// What the artefact says of the code (runtime::TargetCode): the target's name, and after a colon
  /// what the code is for where that is not this machine; and features that it needs.
  virtual std::string codeName() const { return model().name; }
  /// The same for people, who also want to know which machine this one is.
  virtual std::string title() const { return codeName(); }
  virtual runtime::Expected<std::string> needs() const = 0;

  /// All that plans and code of this target depend on besides the module, the threads at run time and tcc itself: where
  /// two targets give equal texts, what is made for one may be run in the other's place. An error where that cannot be
  /// said.
  virtual runtime::Expected<std::string> codeKey() const {
    return runtime::Error("target '" + model().name + "' does not say what its code depends on");
  }
  /// Where emit() may find and keep code; nowhere before.
  void keepCodeIn(FileCache cache) { codeCache = std::move(cache); }

protected:
  FileCache codeCache;
};

} // namespace tcc
