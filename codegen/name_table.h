// NameTable: replaces the names of a captured function's parts, and their places in files, by numbers. So a compiled
// step can be kept without names, and get those of another function that computes the same.
#pragma once
#include "ir/dialect.h"
#include "mlir/IR/BuiltinOps.h"
#include "runtime/plan.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

namespace tcc {

/// A name is a path of words (names.h). Places and words have the number of their first use in the function. The words
/// that the compiler itself puts into labels (of ops, `grad`, `bias`, numbers of layers) stay words.
class NameTable {
public:
  explicit NameTable(mlir::ModuleOp captured);

  /// A text that is equal for two functions if the names and places of one follow from those of the other by replacing
  /// words and places. Their labels then follow from one another in the same way.
  const std::string &pattern() const { return text; }

  /// Replaces the function's names and places in the plan by numbers. Gives false if the plan has a place that is not
  /// one of the function's.
  bool toNumbers(runtime::Plan &plan) const;
  /// Replaces numbers by names and places. Gives false if a number stands for nothing.
  bool toNames(runtime::Plan &plan) const;

private:
  void add(mlir::Location loc);
  void addName(llvm::StringRef name);
  bool isOwnWord(llvm::StringRef word) const;

  std::string text;
  llvm::StringSet<> ownWords; // of the compiler
  llvm::StringMap<size_t> wordNumbers, kindNumbers;
  std::vector<std::string> words;
  llvm::DenseMap<mlir::Attribute, size_t> placeNumbers;
  std::vector<runtime::SourceLocation> places;
  std::string functionName;
  std::vector<std::string> inputs, outputs, states;
};

/// The module as text without places, and without the names of its function, arguments and results.
std::string namelessText(mlir::ModuleOp captured);

} // namespace tcc
