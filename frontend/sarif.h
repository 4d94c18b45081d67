// -fdiagnostics-format=sarif: diagnostics as a log of SARIF 2.1.0, which editors and code hosts show.
#pragma once
#include "frontend/diagnostics.h"
#include <memory>
#include <nlohmann/json_fwd.hpp>

namespace tcc {

class SarifLog {
public:
  SarifLog();
  SarifLog(const SarifLog &) = delete;
  SarifLog &operator=(const SarifLog &) = delete;
  ~SarifLog();

  /// One diagnostic; a note belongs to the one before it. `line`: the text that `place` points into, for its columns.
  void add(Severity severity, const TextPlace &place, llvm::StringRef message, llvm::StringRef id,
           llvm::StringRef line);
  /// The whole log, made by tcc of `version`.
  std::string text(llvm::StringRef version) const;

private:
  std::unique_ptr<nlohmann::json> results;
};

} // namespace tcc
