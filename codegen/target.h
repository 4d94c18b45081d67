// Target: makes code for one kind of machine from a planned function. Each target is a folder (cpu/, cuda/). Passes see
// only its model (TargetModel) and the answers to TargetQueries.
#pragma once
#include "codegen/file_cache.h"
#include "codegen/kernel_table.h"
#include "codegen/tuning.h"
#include "passes/target_model.h"
#include "runtime/error.h"
#include "runtime/machine_limits.h"
#include "runtime/plan.h"
#include "llvm/ADT/ArrayRef.h"
#include <optional>
#include <vector>

namespace tcc {

namespace runtime {
class Ranks;
}

/// A structured op, and the buffers of the plan that hold its operands and results.
struct StructuredCall {
  mlir::Operation *op = nullptr;
  llvm::SmallVector<StridedView, 2> views;          // of the operands, within the model's limits
  llvm::SmallVector<runtime::BufferId, 2> operands; // the bytes that each view spans; they begin at its element 0
  llvm::SmallVector<runtime::BufferId, 2> results;  // dense
  runtime::BufferId scratch = runtime::noBuffer;    // of scratchBytes() bytes; noBuffer if those are 0
};

/// What a kernel's machine code takes of a device.
struct KernelUse {
  std::string symbol;
  int registers = 0;       ///< of a thread
  int64_t stackBytes = 0;  ///< of a thread: what registers had no room for
  int64_t sharedBytes = 0; ///< of a block, without what its launches add
};

/// The limits of a machine that code may be for, as its maker states them.
struct StatedLimits {
  std::string machine; ///< its name; empty: nothing is stated
  runtime::MachineLimits limits = {};
};

/// Each implementation has options of its own (CPU features, threads). Functions that every target must think about are
/// pure virtual, so that a target that forgets one does not compile.
class Target : public TargetQueries {
public:
  /// The data that passes read. Its name is also the target's name.
  virtual const TargetModel &model() const = 0;

  /// Whether lower() takes the op with this full name ("tcc.matmul"). Kernels are not asked about: they are emitted.
  virtual bool supports(llvm::StringRef op) const = 0;

  /// How a kernel of this form is divided among threads. The answer must follow from form and model alone, never from
  /// the device that happens to be there, since two kernels are equal only if their launches are.
  virtual KernelLaunch launch(const KernelInfo &form) const = 0;

  /// Chooses by measuring how kernels are compiled (FormKernel::tuning), among ways that give the same bits, and adapts
  /// the plan's calls. Errors: a kernel that cannot be compiled; the user's tuning file.
  virtual runtime::Expected<TuningReport> tune(std::vector<KernelSource> &kernels, runtime::Plan &plan,
                                               const TuningOptions &options) const {
    (void)kernels, (void)plan, (void)options;
    TuningReport report;
    report.whyNot = "kernels of target '" + model().name + "' are compiled in one way";
    return report;
  }

  /// The code objects of all kernels; an empty list if there are no kernels. An error names the kernel that cannot be
  /// made, and says why.
  virtual runtime::Expected<std::vector<std::string>> emit(llvm::ArrayRef<KernelSource> kernels) const = 0;
  /// As emit(), while other ranks of the run call this too: what several of them lack, one may make for all. A rank
  /// that needs no code gives no kernels.
  virtual runtime::Expected<std::vector<std::string>> emitTogether(llvm::ArrayRef<KernelSource> kernels,
                                                                   runtime::Ranks &ranks) const {
    (void)ranks;
    return emit(kernels);
  }
  /// What the last emit() did, in a few words; empty if there is nothing to say. One target serves one thread.
  virtual std::string emitted() const { return {}; }

  /// Bytes of the packed form of a matmul's B that several equal matmuls may share (MatmulCall::packed), at the thread
  /// count that the target is for; 0 if they pack it themselves.
  virtual int64_t packedBytes(const runtime::MatmulCall &) const { return 0; }

  /// Replaces the plan's kernel calls if the device runs something else instead, such as launches. `kernels` are the
  /// plan's kernels, in order.
  virtual runtime::Error lowerKernels(llvm::ArrayRef<KernelSource> kernels, runtime::Plan &plan) const {
    (void)kernels, (void)plan;
    return {};
  }

  /// Appends to the plan the instructions that run the op and the buffers that they need. Kernels that the target has
  /// written for the op are added by addKernel. The caller then adds the sources, and the op's flops and bytes if no
  /// instruction has any.
  virtual runtime::Error lower(const StructuredCall &call, runtime::Plan &plan, KernelTable &kernels) const = 0;

  /// For a remark: which faster code the target has that the op cannot use, and why; empty where there is none.
  virtual std::string remarkOn(mlir::Operation *) const { return {}; }

  /// The kernels as -emit=`emission` prints them, one text for each module. TargetKind::emissions lists the names.
  virtual runtime::Expected<std::vector<std::string>> emitAs(llvm::StringRef emission,
                                                             llvm::ArrayRef<KernelSource> kernels) const {
    (void)kernels;
    return runtime::Error("target '" + model().name + "' has no -emit=" + emission.str());
  }

  /// What each of the kernels in `code` takes of the device; `code` is what emit() gave. The list is empty for devices
  /// on which that does not decide how many run at once. An error says why nothing is known.
  virtual runtime::Expected<std::vector<KernelUse>> usesOf(llvm::ArrayRef<std::string> code) const {
    (void)code;
    return std::vector<KernelUse>();
  }
  /// For reports about code that has not run, and may be for another machine than this one.
  virtual StatedLimits statedLimits() const { return {}; }

  /// Which types narrower than f32 the machine has instructions to multiply.
  struct FastProducts {
    bool bf16 = false, f16 = false;
    bool tf32 = false; ///< f32 with the exponent of bf16 and ten bits of fraction
  };
  virtual FastProducts fastProducts() const = 0;
  /// Whether matmuls of bf16 are faster than those of f32, as far as that was measured.
  virtual bool gainsFromBf16() const { return fastProducts().bf16; }

  /// What the artefact says about the code (runtime::TargetCode). codeName() is TargetCode::target: the target's name,
  /// followed by a colon and what the code is for if that is not this machine. needs() is TargetCode::needs.
  virtual std::string codeName() const { return model().name; }
  /// codeName() for people, with the name of this machine.
  virtual std::string title() const { return codeName(); }
  virtual runtime::Expected<std::string> needs() const = 0;

  /// All that plans and code of this target depend on, besides the module, the threads at run time and tcc itself. If
  /// two targets give equal texts, what is made for one may be run in place of the other's. Gives an error if the
  /// target cannot say it.
  virtual runtime::Expected<std::string> codeKey() const {
    return runtime::Error("target '" + model().name + "' does not say what its code depends on");
  }
  /// Says where emit() may find and keep code. Before this call it keeps code nowhere.
  void keepCodeIn(FileCache cache) { codeCache = std::move(cache); }

protected:
  FileCache codeCache;
};

} // namespace tcc
