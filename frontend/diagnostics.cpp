// Prints diagnostics with the source line and a caret below it.
#include "frontend/diagnostics.h"
#include "frontend/capture.h"
#include "frontend/diagnostic_pages.h"
#include "frontend/loc.h"
#include "frontend/sarif.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OperationSupport.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Process.h"
#include <cstdlib>

using namespace mlir;

namespace tcc {
namespace {

constexpr llvm::StringLiteral labels[] = {"error", "warning", "remark", "note"};
constexpr raw_ostream::Colors colors[] = {raw_ostream::RED, raw_ostream::MAGENTA, raw_ostream::BLUE, raw_ostream::CYAN};

/// Columns of a source line that are shown: a window around the caret of a very long one.
constexpr size_t shownBefore = 100, shownAfter = 100;

Severity severityOf(const Diagnostic &diagnostic) {
  switch (diagnostic.getSeverity()) {
  case DiagnosticSeverity::Error:
    return Severity::error;
  case DiagnosticSeverity::Warning:
    return Severity::warning;
  case DiagnosticSeverity::Remark:
    return Severity::remark;
  case DiagnosticSeverity::Note:
    return Severity::note;
  }
  llvm_unreachable("four severities");
}

/// "custom op 'tcc.gelo' is unknown …" gives tcc.gelo.
StringRef unknownOp(StringRef message) {
  if (!message.contains("is unknown") && !message.contains("unregistered operation"))
    return {};
  StringRef rest = message.substr(message.find("'tcc."));
  return rest.empty() ? StringRef() : rest.drop_front().take_until([](char c) { return c == '\''; });
}

/// Without what a terminal takes for a command; bytes that are no text as question marks too.
std::string printable(StringRef text, bool isUtf8) {
  std::string shown;
  for (char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool isShown = c == '\t' || c == '\n' || (byte >= 0x20 && byte != 0x7f && (isUtf8 || byte < 0x80));
    shown += isShown ? c : '?';
  }
  return shown;
}

} // namespace

void DiagnosticPrinter::print(Severity severity, const TextPlace &place, StringRef message) {
  const bool isNumbered = severity == Severity::error || severity == Severity::warning;
  const DiagnosticOrigin origin = place.file.empty() ? DiagnosticOrigin::other : DiagnosticOrigin::graph;
  print(severity, place, message, isNumbered ? diagnosticId({message.data(), message.size()}, origin) : std::string());
}

void DiagnosticPrinter::printUsage(StringRef message) {
  print(Severity::error, TextPlace(), message,
        diagnosticId({message.data(), message.size()}, DiagnosticOrigin::commandLine));
}

void DiagnosticPrinter::print(Severity severity, const TextPlace &place, StringRef message, const std::string &id) {
  const auto index = static_cast<size_t>(severity);
  errorCount += severity == Severity::error;
  if (listener)
    listener(severity, place, (message + (id.empty() ? "" : " [" + id + "]")).str());
  if (log)
    return log->add(severity, place, message, id, place.line ? sourceLine(place) : StringRef());
  auto style = [&](raw_ostream::Colors code, bool bold) {
    if (color)
      os.changeColor(code, bold);
  };
  auto plain = [&] {
    if (color)
      os.resetColor();
  };

  // 1. The head.
  style(raw_ostream::SAVEDCOLOR, true);
  if (place.file.empty()) {
    os << "tcc: ";
  } else {
    os << (place.line ? placeText(place.file, place.line, place.column) : place.file) << ": ";
  }
  plain();
  style(colors[index], true);
  os << labels[index] << ": ";
  plain();
  style(raw_ostream::SAVEDCOLOR, true);
  os << printable(message, llvm::json::isUTF8(message)) << (id.empty() ? "" : " [" + id + "]") << '\n';
  plain();

  // 2. The source line and the caret, tabs kept so that both align.
  if (place.file.empty() || !place.line || !place.column)
    return;
  StringRef line = sourceLine(place);
  if (line.empty() || place.column > line.size() + 1)
    return;
  const size_t caret = place.column - 1;
  const size_t begin = caret > shownBefore ? caret - shownBefore : 0;
  StringRef shown = line.slice(begin, caret + shownAfter);
  os << printable(shown, llvm::json::isUTF8(line)) << '\n';
  for (char c : shown.take_front(caret - begin))
    os << (c == '\t' ? '\t' : ' ');
  style(raw_ostream::GREEN, true);
  const size_t shownEnd = begin + shown.size(), meant = std::min<size_t>(caret + place.length, shownEnd);
  os << '^' << std::string(meant > caret + 1 ? meant - caret - 1 : 0, '~');
  plain();
  os << '\n';
}

StringRef DiagnosticPrinter::sourceLine(const TextPlace &place) {
  auto found = sources.find(place.file);
  if (found == sources.end()) {
    auto buffer = llvm::MemoryBuffer::getFile(place.file, /*IsText=*/true);
    found = sources.try_emplace(place.file, buffer ? (*buffer)->getBuffer().str() : std::string()).first;
  }
  StringRef rest = found->second;
  for (unsigned line = 1; line < place.line && !rest.empty(); ++line)
    rest = rest.split('\n').second;
  return rest.split('\n').first.rtrim('\r');
}

bool useColor(StringRef mode) {
  if (mode == "always")
    return true;
  const char *noColor = std::getenv("NO_COLOR");
  return mode != "never" && !(noColor && *noColor) && llvm::sys::Process::StandardErrHasColors();
}

TextPlace placeOf(Location location) {
  TextPlace place;
  location->walk([&](Location part) {
    auto position = dyn_cast<FileLineColLoc>(part);
    if (!position)
      return WalkResult::advance();
    place = {position.getFilename().str(), position.getLine(), position.getColumn()};
    return WalkResult::interrupt();
  });
  return place;
}

ScopedDiagnostics::ScopedDiagnostics(MLIRContext *context, DiagnosticPrinter &printer)
    : handler(context, [context, &printer](Diagnostic &diagnostic) {
        const TextPlace place = placeOf(diagnostic.getLocation());
        const std::string message = diagnostic.str();
        printer.print(severityOf(diagnostic), place, userMessage(message));
        for (Diagnostic &note : diagnostic.getNotes())
          printer.print(severityOf(note), placeOf(note.getLocation()), note.str());
        if (StringRef name = unknownOp(message); !name.empty()) {
          std::vector<std::string> known;
          for (RegisteredOperationName op : context->getRegisteredOperations())
            if (op.getDialectNamespace() == "tcc")
              known.push_back(op.stripDialect().str());
          if (std::string candidate = nearest(name.split('.').second, known); !candidate.empty())
            printer.print(Severity::note, place, "did you mean 'tcc." + candidate + "'?");
        }
      }) {}

std::string nearest(StringRef name, ArrayRef<std::string> candidates) {
  if (llvm::count_if(name, llvm::isAlnum) < 2) // another letter is another name, no misspelling
    return {};
  const auto bound = static_cast<unsigned>(std::max<size_t>(1, name.size() / 3));
  unsigned best = bound + 1;
  std::string answer;
  for (const std::string &candidate : candidates) {
    const unsigned distance = name.edit_distance(candidate, /*AllowReplacements=*/true, bound);
    if (distance < best) {
      best = distance;
      answer = candidate;
    }
  }
  return answer;
}

} // namespace tcc
