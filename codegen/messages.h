// Messages: what a compilation says to the user, as text.
#pragma once
#include "mlir/IR/Diagnostics.h"
#include <string>

namespace tcc {

/// Collects the diagnostics of a context, one line each, for as long as the object lives.
struct Messages {
  std::string text;
  mlir::ScopedDiagnosticHandler handler;

  explicit Messages(mlir::MLIRContext *context)
      : handler(context, [this](mlir::Diagnostic &diagnostic) {
          text += diagnostic.str() + "\n";
          return mlir::success();
        }) {}
};

} // namespace tcc
