// Numbered diagnostics. docs/DIAGNOSTICS.md, which is built into the program, has the number and the page of a message.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tcc {

struct DiagnosticPage {
  std::string id;                 ///< "TCC0201"
  std::string title;              ///< "a value that is not defined", "-Wnarrowing"
  std::vector<std::string> forms; ///< the forms of its messages, with "…" for what differs; none: it is a fallback
  std::string text;               ///< explanation and example, as Markdown
};

/// All pages, in the order of their numbers.
std::span<const DiagnosticPage> diagnosticPages();

/// The origin of a message whose form no page has.
enum class DiagnosticOrigin : uint8_t { commandLine, graph, other };

/// The number of a message: that of the first page that has its form, else the fallback of its origin.
const std::string &diagnosticId(std::string_view message, DiagnosticOrigin origin);

/// Whether a message has a form.
bool hasForm(std::string_view message, std::string_view form);

/// The page of an id ("TCC0201", "tcc201") or a warning ("-Wnarrowing", "narrowing"); null where there is none.
const DiagnosticPage *diagnosticPage(std::string_view name);

/// A page as a terminal shows it.
std::string pageText(const DiagnosticPage &page);

} // namespace tcc
