// Diagnostics as clang prints them: file:line:column, message, the source line, a caret. They are used for .graph text
// and for C++ lines alike.
#pragma once
#include "mlir/IR/Diagnostics.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/raw_ostream.h"
#include <functional>
#include <string>

namespace tcc {

enum class Severity : uint8_t { error, warning, remark, note };

/// A place in a text: `length` bytes of a line. Line and column count from 1; 0 is unknown.
struct TextPlace {
  std::string file;
  unsigned line = 0, column = 0, length = 1;
};

class SarifLog;

class DiagnosticPrinter {
public:
  /// If `log` is given, diagnostics go there and nowhere else.
  explicit DiagnosticPrinter(llvm::raw_ostream &os, bool color = false, SarifLog *log = nullptr)
      : os(os), color(color), log(log) {}

  /// A function that is also told of each diagnostic.
  using Listener = std::function<void(Severity severity, const TextPlace &place, llvm::StringRef message)>;
  void tellToo(Listener other) { listener = std::move(other); }
  /// The text of a file that diagnostics may point into; others are read from disk when a caret needs them.
  void addSource(llvm::StringRef file, llvm::StringRef text) { sources[file] = text.str(); }
  /// Errors and warnings end with their number (diagnostic_pages.h).
  void print(Severity severity, const TextPlace &place, llvm::StringRef message);
  /// Prints a diagnostic without a place: "tcc: error: message".
  void print(Severity severity, llvm::StringRef message) { print(severity, TextPlace(), message); }
  /// An error of the command line.
  void printUsage(llvm::StringRef message);

  int errors() const { return errorCount; }

private:
  void print(Severity severity, const TextPlace &place, llvm::StringRef message, const std::string &id);
  llvm::StringRef sourceLine(const TextPlace &place);

  llvm::raw_ostream &os;
  bool color;
  SarifLog *log;
  Listener listener;
  int errorCount = 0;
  llvm::StringMap<std::string> sources;
};

/// Whether to colour: -fdiagnostics-color=always|never|auto; `auto` asks NO_COLOR and whether stderr is a terminal.
bool useColor(llvm::StringRef mode);

/// The first file position within a location; no file where there is none.
TextPlace placeOf(mlir::Location location);

/// As long as it lives, prints every diagnostic of the context, with a suggestion for an unknown op.
class ScopedDiagnostics {
public:
  ScopedDiagnostics(mlir::MLIRContext *context, DiagnosticPrinter &printer);

private:
  mlir::ScopedDiagnosticHandler handler;
};

/// The candidate that is nearest to a misspelt name; empty if none is near.
std::string nearest(llvm::StringRef name, llvm::ArrayRef<std::string> candidates);

} // namespace tcc
