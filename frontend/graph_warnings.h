// Warnings about a graph that compiles, such as what it computes for nothing and what it forgets.
#pragma once
#include "frontend/diagnostics.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/StringMap.h"
#include <string>
#include <vector>

namespace tcc {

struct WarningInfo {
  const char *name;
  const char *what; ///< for --help
};

/// The warning about a --dtype= that gains no speed (product_choice.h).
inline constexpr const char *slowDtype = "slow-dtype";
/// The warning about a given index that makes NaN (graph_values.h).
inline constexpr const char *invalidIndexWarning = "invalid-index";

/// Every warning; all are on unless -Wno-<name> says otherwise.
llvm::ArrayRef<WarningInfo> warningTable();

/// Which warnings are printed, and which are errors: -W<name>, -Wno-<name>, -Werror, -Werror=<name>,
/// -Wno-error[=<name>], -Wall. A later flag overrules an earlier one.
class Warnings {
public:
  /// Takes what follows -W. Gives false for an unknown name; `suggestion` then gets a similar one, or stays empty.
  bool set(llvm::StringRef text, std::string &suggestion);

  /// -w: no warning is printed, and none is an error, whatever else is set.
  void silence() { isSilent = true; }

  bool isOn(llvm::StringRef name) const { return !isSilent && !off.lookup(name); }
  Severity severity(llvm::StringRef name) const;
  /// " [-Wslow-dtype]", which a warning ends with.
  std::string flagOf(llvm::StringRef name) const;

private:
  llvm::StringMap<bool> off, error; ///< by name; absent: as `allErrors` says
  bool allErrors = false, isSilent = false;
};

/// Prints the warnings about `function`, whose text is `text`, in the order of their places.
void warnAboutGraph(mlir::func::FuncOp function, llvm::StringRef text, llvm::StringRef file, const Warnings &warnings,
                    DiagnosticPrinter &printer);

} // namespace tcc
