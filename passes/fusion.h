// What the parts of fuse-kernels share: the groups that become kernels (fuse_kernels.cpp decides them), the paths
// between them (fusion_paths.cpp), and writing them out (fusion_outline.cpp).
#pragma once
#include "ir/dialect.h"
#include "ir/kernel_space.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "passes/remarks.h"
#include "llvm/ADT/SetVector.h"
#include <map>
#include <vector>

namespace tcc {
struct PipelineOptions;

/// Ops that become one kernel.
struct FusionGroup {
  unsigned first = 0, last = 0;          // program order of its ops
  llvm::SmallVector<mlir::Value> values; // the ops' results, in the order in which they came
  llvm::SmallSetVector<mlir::Value, 8> arguments;
  llvm::SmallVector<mlir::Value> results; // those of `values` that others needed when the group was made
  int64_t ops = 0;     // how many a kernel of the group computes; a recomputed value counts once for each of its users
  DemandedSpace space; // what the group's reductions and scatters demand
  bool alive = true;
  KernelOp kernel; // once it has been written out
};

/// Why two groups were not merged.
struct FusionRefusal {
  std::string reason; // what was expected
  int64_t bytes = 0;  // the memory traffic in a step that a merged kernel would have saved
};

/// A function on its way from ops to kernels. A value that belongs to no group is recomputed by each kernel that needs
/// it.
struct Fusion {
  Fusion(mlir::func::FuncOp function, const ViewLimits &views)
      : function(function), block(function.getBody().front()), views(views) {}

  mlir::func::FuncOp function;
  mlir::Block &block;
  ViewLimits views;                                  // how structured ops read their operands
  llvm::DenseMap<mlir::Operation *, unsigned> order; // position in the block
  llvm::SetVector<mlir::Value> inMemory;             // what structured ops and the caller read
  llvm::DenseMap<mlir::Value, llvm::SmallVector<mlir::Operation *, 2>> structuredUsers;
  llvm::DenseMap<mlir::Operation *, llvm::SmallVector<mlir::Value, 2>> structuredOperands;
  std::vector<FusionGroup> groups;
  llvm::DenseMap<mlir::Value, unsigned> groupOf;                       // of grouped values
  llvm::DenseMap<mlir::Value, llvm::SmallDenseSet<unsigned, 4>> users; // groups that take the value as argument
  std::map<std::pair<unsigned, unsigned>, FusionRefusal> refusals;     // by group, the smaller first

  /// True if a kernel of the groups `self` and `other` must store the value.
  bool isResult(mlir::Value value, unsigned self, unsigned other) const;
  /// The values that a kernel of `group` stores, where the group is number `self`.
  llvm::SmallVector<mlir::Value> resultsOf(const FusionGroup &group, unsigned self) const;
  /// The values that a kernel of the groups `a` and `b` together would store.
  llvm::SmallVector<mlir::Value> resultsOf(unsigned a, unsigned b) const;
};

/// Answers whether two groups can be merged without a cycle, that is, whether a path between them leaves both. Most
/// paths of a training step go through its long chain of structured ops, which are never merged. So each group knows
/// the first link of this chain that it reaches and the last link that reaches it: a path along the chain is found at
/// once, and a search stays between two links. Exchanges between ranks are on a path in the order of all ranks.
class FusionPaths {
public:
  /// `fusion` must still have one group for each op, as before any merging.
  explicit FusionPaths(const Fusion &fusion);

  /// True if a path from group `a` to group `b` passes through something that is in neither.
  bool hasOuterPath(unsigned a, unsigned b);
  /// To be called when two groups have been merged to group `id`, which is the last one.
  void merged(unsigned a, unsigned b, unsigned id);

private:
  /// A structured op, or a group. They are known by number: structured ops come first, in program order.
  struct Node {
    int up = 0;                                   // the first link that this is or reaches, or the number of links
    int down = -1;                                // the last link that this is or that reaches it, or -1
    unsigned first = 0, last = 0;                 // program order of its ops
    unsigned seenFromA = 0, seenFromB = 0;        // the last search whose one end or other end has come here
    unsigned now = 0;                             // the group that this is or has been merged into
    bool isLink = false;                          // one of the chain
    bool leads = true;                            // whether anything is computed from it
    llvm::SmallVector<unsigned, 4> after, before; // what reads from it, what it reads from; see renew
  };
  /// Nodes that one end of a search has reached; all that is next to those before `next` has been seen.
  struct Frontier;

  const Fusion &fusion;
  unsigned ops = 0; // structured ones
  unsigned searches = 0;
  std::vector<Node> nodes;
  // Two trees over positions: where the groups that start at a position end, for maxima over a prefix of positions; and
  // where the groups that end at a position start, for minima over a suffix.
  std::vector<unsigned> endFrom, startTo;

  std::vector<unsigned> makeNodes();
  void findEdges(llvm::ArrayRef<unsigned> inOrder);
  int findChain();
  unsigned now(unsigned node);
  void renew(llvm::SmallVectorImpl<unsigned> &edges);
  void spread(unsigned from);
  void setSpan(unsigned first, unsigned last);
  unsigned latestOnPathTo(unsigned b) const;
  unsigned earliestOnPathFrom(unsigned a) const;
};

/// How many bytes the value takes in memory.
int64_t bytesOf(mlir::Value value);

/// Adds a remark for each kernel (what it fuses) and for each pair of groups that stayed apart (why).
void addFusionRemarks(const Fusion &fusion, Remarks &remarks);
/// The values that the kernels of `function` would store at -O2, in program order, if those of `narrow` had 16 bits.
/// The function itself is not changed.
mlir::FailureOr<llvm::SmallVector<mlir::Value>>
storedByKernels(mlir::func::FuncOp function, const PipelineOptions &options, const llvm::DenseSet<mlir::Value> &narrow);

/// Writes the groups as tcc.kernel regions, in an order that keeps producers before consumers.
mlir::LogicalResult outlineGroups(Fusion &fusion);

} // namespace tcc
