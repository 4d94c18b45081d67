// KnownKernels: what analyzeKernel says of regions, once for all that look alike. The layers of a model are alike, so
// most regions that the fuser tries, and most kernels, have been seen before.
#pragma once
#include "ir/analyze_kernel.h"
#include "mlir/IR/DialectInterface.h"
#include <memory>
#include <mutex>
#include <unordered_map>

namespace tcc {

/// A region as a list of numbers: for each op, from the results towards the arguments, its name, its properties, its
/// result's type and the values that it reads; then the types of the arguments. analyzeKernel reads nothing else of a
/// region, so regions of equal words have equal forms or the same refusal. The numbers of types and attributes have a
/// meaning within one MLIR context.
struct RegionWords {
  std::vector<uint64_t> words;
  llvm::SmallVector<mlir::Operation *> ops; // in the words' order

  /// Gives nothing if the analysis would look beyond the arguments: through one that is a view, or at an op that cannot
  /// stand in a kernel.
  static std::optional<RegionWords> of(const KernelView &view);
};

/// What is known of a region.
struct KnownKernel {
  std::optional<KernelInfo> form;
  std::string refusal;       // if it has no form
  std::vector<int> opOfNode; // for each node the position in RegionWords::ops of the op that it stands for, or -1

  bool operator==(const KnownKernel &) const = default;
};

class KnownKernels {
public:
  /// If `checks` is set, each known answer is compared with a new analysis, and a difference ends the program.
  explicit KnownKernels(bool checks = false) : checks(checks) {}

  std::shared_ptr<const KnownKernel> of(const KernelView &view);
  /// The same, with the region's ops as `words` has them.
  std::shared_ptr<const KnownKernel> of(const KernelView &view, const std::optional<RegionWords> &words);
  /// How many of the regions asked for were known.
  int64_t hits() const { return known; }

private:
  struct Hash {
    size_t operator()(const std::vector<uint64_t> &words) const;
  };
  static constexpr size_t most = 4096; // regions that are kept at once

  bool checks;
  int64_t known = 0;
  std::unordered_map<std::vector<uint64_t>, std::shared_ptr<const KnownKernel>, Hash> kernels;
};

/// What is known of the tcc.kernel ops of a context. The dialect holds it, since words have a meaning within a context.
class KernelForms : public mlir::DialectInterface::Base<KernelForms> {
public:
  explicit KernelForms(mlir::Dialect *dialect) : Base(dialect) {}

  /// `origins` (where given) takes for each node the op that it stands for, null for an argument's load.
  static std::shared_ptr<const KnownKernel> of(KernelOp kernel, std::vector<mlir::Operation *> *origins = nullptr);

private:
  mutable std::mutex mutex;
  mutable KnownKernels kernels;
};

} // namespace tcc
