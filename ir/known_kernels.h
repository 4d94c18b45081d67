// KnownKernels: what analyzeKernel says of regions, once for all that look alike. The layers of a model are alike, so
// most regions that the fuser tries, and most kernels, have been seen before.
#pragma once
#include "ir/analyze_kernel.h"
#include "mlir/IR/DialectInterface.h"
#include <memory>
#include <mutex>
#include <unordered_map>
#include <unordered_set>

namespace tcc {

/// A region as a list of numbers: for each op, from the results towards the arguments, its name, its properties, its
/// result's type and the values that it reads; then the types of the arguments. analyzeKernel reads nothing else of a
/// region, so regions of equal words have equal forms or the same refusal. The numbers of types and attributes have a
/// meaning within one MLIR context.
/// One object reads many regions, one after the other: the fuser asks for the words of several ten thousand.
class RegionWords {
public:
  /// Reads another region. Gives false if the analysis would look beyond the arguments: through one that is a view, or
  /// at an op that cannot stand in a kernel.
  bool read(const KernelView &view);

  /// Of the region that was read last.
  llvm::ArrayRef<uint64_t> words() const { return {found.data(), count}; }
  /// In the words' order.
  llvm::ArrayRef<mlir::Operation *> ops() const { return met; }

private:
  /// Numbers of values in the order in which they are met. What is in the table counts for one region.
  struct Slot {
    void *value = nullptr;
    uint32_t region = 0, number = 0;
  };
  std::vector<Slot> slots = std::vector<Slot>(512); // a power of two
  uint32_t region = 0, known = 0;
  std::vector<uint64_t> found; // the first `count` are of the region
  size_t count = 0;
  std::vector<mlir::Operation *> met;

  void clear();
  /// Where the next words go, of which there are at most `words`, with at most `values` new values among them.
  uint64_t *room(size_t words, size_t values) {
    if (found.size() < count + words || slots.size() < 2 * (known + values))
      grow(words, values);
    return found.data() + count;
  }
  void grow(size_t words, size_t values);
  Slot &place(mlir::Value value);
  bool isNew(Slot &slot, mlir::Value value);
  bool addUse(mlir::Value value, uint64_t &word);
  bool addOp(mlir::Operation *op);
};

/// For sets of words, which are looked for where RegionWords has them, without a copy.
struct WordsHash {
  using is_transparent = void;
  size_t operator()(llvm::ArrayRef<uint64_t> words) const;
};
struct WordsEqual {
  using is_transparent = void;
  bool operator()(llvm::ArrayRef<uint64_t> a, llvm::ArrayRef<uint64_t> b) const { return a == b; }
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
  /// `origins` (where given) takes for each node the op that it stands for, null for an argument's load. If `checks` is
  /// set, a known answer is compared with a new analysis, and a difference ends the program.
  std::shared_ptr<const KnownKernel> of(const KernelView &view, std::vector<mlir::Operation *> *origins = nullptr,
                                        bool checks = false);
  /// How many of the regions asked for were known.
  int64_t hits() const { return known; }

private:
  int64_t known = 0;
  RegionWords region; // that was asked for last
  std::unordered_map<std::vector<uint64_t>, std::shared_ptr<const KnownKernel>, WordsHash, WordsEqual> kernels;
};

/// What is known of the tcc.kernel ops of a context, and of what the fuser has tried: a function of other shapes has
/// many of the same regions, such as updates of parameters. The dialect holds it, since words have a meaning within a
/// context.
class KernelForms : public mlir::DialectInterface::Base<KernelForms> {
public:
  explicit KernelForms(mlir::Dialect *dialect) : Base(dialect) {}

  /// As KnownKernels::of.
  static std::shared_ptr<const KnownKernel> of(mlir::MLIRContext *context, const KernelView &view, bool checks);
  static std::shared_ptr<const KnownKernel> of(KernelOp kernel, std::vector<mlir::Operation *> *origins = nullptr);

  /// mlir::verify of a kernel. What the kinds of its ops demand of each is asked once for all kernels of equal words,
  /// which hold all that it depends on; that values are there before they are read, of each kernel.
  static mlir::LogicalResult verify(KernelOp kernel);

private:
  mutable std::mutex mutex;
  mutable KnownKernels kernels;
  mutable RegionWords region; // that was verified last
  mutable std::unordered_set<std::vector<uint64_t>, WordsHash, WordsEqual> valid;
};

} // namespace tcc
