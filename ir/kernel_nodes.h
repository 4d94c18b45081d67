// KernelNodes: makes the nodes of a kernel's form, by following values from a result towards the arguments.
#pragma once
#include "ir/dialect.h"
#include "ir/kernel.h"
#include "ir/scalar_form.h"

namespace tcc {

/// The element type of a tensor that a kernel reads or writes.
inline ElementType elementOf(mlir::Value tensor) {
  return *elementTypeOf(tensorType(tensor).getElementType());
}

/// Adds to a KernelInfo, whose space is set, the nodes that values at places of that space need. Views become index
/// expressions; a value that is read at two places becomes two nodes; each node gets its stage.
class KernelNodes {
public:
  /// `arguments` maps each of the kernel's arguments to its number. `refusal` gets the reason if no node can express a
  /// value.
  KernelNodes(KernelInfo &info, const llvm::DenseMap<mlir::Value, unsigned> &arguments, std::string &refusal)
      : info(info), arguments(arguments), refusal(refusal) {}

  /// The node of `value` at `coordinates`, which has one expression for each dim. The value is read only where the
  /// derived axes `guards` are in range. Gives nothing where no node can express it.
  std::optional<unsigned> need(mlir::Value value, llvm::ArrayRef<IndexExpr> coordinates,
                               llvm::ArrayRef<unsigned> guards = {});
  /// outer · rows + row.
  IndexExpr row() const;
  IndexExpr column() const;
  /// For each node the op that it stands for, null for the load of an argument.
  const std::vector<mlir::Operation *> &origins() const { return nodeOps; }

private:
  struct Memo {
    llvm::SmallVector<IndexExpr> coordinates;
    llvm::SmallVector<unsigned, 2> guards;
    unsigned node;
  };

  /// Writes `why` to the refusal.
  std::nullopt_t refuse(const llvm::Twine &why);
  /// The expression in which each derived axis that stands without div and mod is replaced by its value.
  IndexExpr resolve(IndexExpr expr) const;
  /// `value` as a coordinate in [0, extent), guarded by a new derived axis where it can leave that range.
  IndexExpr guardedCoordinate(const IndexExpr &value, int64_t extent, llvm::SmallVectorImpl<unsigned> &guards);
  unsigned addNode(KernelNode node, mlir::Operation *op = nullptr);
  unsigned loadAt(mlir::Value argument, const IndexExpr &element, llvm::ArrayRef<unsigned> guards);
  std::optional<unsigned> makeNode(mlir::Value value, llvm::ArrayRef<IndexExpr> coordinates,
                                   llvm::ArrayRef<unsigned> guards);
  /// The i32 number `index` as a node of its own, for `op`.
  unsigned numberNode(const IndexExpr &index, mlir::Operation *op);
  /// number + first · stride, wrapping, for `op`.
  unsigned shiftedNode(unsigned number, unsigned first, int64_t stride, mlir::Operation *op);
  std::optional<unsigned> needRandom(RandomBitsOp random, llvm::ArrayRef<IndexExpr> coordinates);
  std::optional<unsigned> needView(ViewOpInterface op, llvm::ArrayRef<IndexExpr> coordinates,
                                   llvm::ArrayRef<unsigned> guards);
  std::optional<unsigned> needPad(PadOp pad, llvm::ArrayRef<IndexExpr> coordinates, llvm::ArrayRef<unsigned> guards);
  std::optional<unsigned> needConcat(ConcatOp concat, llvm::ArrayRef<IndexExpr> coordinates,
                                     llvm::ArrayRef<unsigned> guards);
  std::optional<unsigned> needReduction(mlir::Operation *op, llvm::ArrayRef<IndexExpr> coordinates,
                                        llvm::ArrayRef<unsigned> guards);
  std::optional<unsigned> needGather(GatherOp gather, llvm::ArrayRef<IndexExpr> coordinates,
                                     llvm::ArrayRef<unsigned> guards);

  KernelInfo &info;
  const llvm::DenseMap<mlir::Value, unsigned> &arguments;
  std::string &refusal;
  std::vector<mlir::Operation *> nodeOps; // one a node
  llvm::DenseMap<mlir::Value, llvm::SmallVector<Memo, 1>> memo;
  llvm::DenseMap<mlir::Operation *, unsigned> reductionNode;
};

} // namespace tcc
