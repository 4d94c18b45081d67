// Reads the built-in docs/DIAGNOSTICS.md once, when a first message asks.
#include "frontend/diagnostic_pages.h"
#include <algorithm>
#include <cctype>

namespace tcc {
namespace {

constexpr std::string_view document =
#include "frontend/diagnostic_pages.inc"
    ;
constexpr std::string_view gap = "…", head = "\n## ";
constexpr const char *fallbacks[] = {"TCC0001", "TCC0006", "TCC0005"}; // by origin

/// "TCC0201: title", forms as a quotation, the rest.
DiagnosticPage readPage(std::string_view section) {
  DiagnosticPage page;
  const size_t line = section.find('\n'), colon = section.find(": ");
  page.id = section.substr(0, colon);
  page.title = section.substr(colon + 2, line - colon - 2);
  std::string_view rest = section.substr(line + 1);
  rest.remove_prefix(std::min(rest.find_first_not_of('\n'), rest.size()));
  while (rest.starts_with("> ")) {
    std::string_view form = rest.substr(2, rest.find('\n') - 2);
    if (form.ends_with('\\'))
      form.remove_suffix(1);
    page.forms.emplace_back(form);
    rest.remove_prefix(rest.find('\n') + 1);
  }
  rest.remove_prefix(std::min(rest.find_first_not_of('\n'), rest.size()));
  page.text = rest;
  page.text.erase(page.text.find_last_not_of('\n') + 1);
  return page;
}

std::vector<DiagnosticPage> readPages() {
  std::vector<DiagnosticPage> pages;
  for (size_t at = document.find(head); at != document.npos;) {
    const size_t next = document.find(head, at + 1);
    pages.push_back(readPage(document.substr(at + head.size(), next - at - head.size())));
    at = next;
  }
  return pages;
}

/// A text without what stands in quotes: '' for 'name', and `` for `name`. Names are the user's, and may hold any
/// words.
std::string withoutNames(std::string_view text) {
  std::string kept;
  for (size_t at = 0; at < text.size();) {
    const char c = text[at];
    kept += text[at++];
    const bool mayOpen = at < 2 || !std::isalnum(static_cast<unsigned char>(text[at - 2])); // no apostrophe
    if ((c != '\'' && c != '`') || !mayOpen)
      continue;
    if (const size_t end = text.find(c, at); end != text.npos) {
      kept += c;
      at = end + 1;
    }
  }
  return kept;
}

/// The page of "… [-Wnarrowing]" and "… [-Werror=narrowing]".
const DiagnosticPage *warningOf(std::string_view message) {
  const size_t flag = message.rfind(" [-W");
  if (flag == message.npos || !message.ends_with(']'))
    return nullptr;
  std::string_view name = message.substr(flag + 4);
  name.remove_suffix(1);
  if (name.starts_with("error="))
    name.remove_prefix(6);
  return diagnosticPage("-W" + std::string(name));
}

} // namespace

std::span<const DiagnosticPage> diagnosticPages() {
  static const std::vector<DiagnosticPage> pages = readPages();
  return pages;
}

bool hasForm(std::string_view given, std::string_view givenForm) {
  const std::string messageText = withoutNames(given), formText = withoutNames(givenForm);
  std::string_view message = messageText, form = formText;
  for (bool isFirst = true;; isFirst = false) {
    const size_t end = form.find(gap);
    const std::string_view part = form.substr(0, end);
    const bool isLast = end == form.npos;
    if (isLast && !isFirst)
      return message.ends_with(part);
    const size_t found = message.find(part);
    if (found == message.npos || (isFirst && found != 0) || (isLast && message != part))
      return false;
    if (isLast)
      return true;
    message.remove_prefix(found + part.size());
    form.remove_prefix(end + gap.size());
  }
}

const std::string &diagnosticId(std::string_view message, DiagnosticOrigin origin) {
  if (const DiagnosticPage *page = warningOf(message))
    return page->id;
  for (const DiagnosticPage &page : diagnosticPages())
    for (const std::string &form : page.forms)
      if (hasForm(message, form))
        return page.id;
  return diagnosticPage(fallbacks[static_cast<size_t>(origin)])->id;
}

const DiagnosticPage *diagnosticPage(std::string_view name) {
  std::string digits(name);
  for (const std::string_view prefix : {"TCC", "tcc"})
    if (digits.starts_with(prefix))
      digits.erase(0, prefix.size());
  const bool isNumber = !digits.empty() && digits.size() <= 4 &&
                        std::ranges::all_of(digits, [](unsigned char c) { return std::isdigit(c); });
  if (isNumber)
    digits.insert(0, 4 - digits.size(), '0');
  if (name.starts_with("-W"))
    name.remove_prefix(2);
  for (const DiagnosticPage &page : diagnosticPages())
    if ((isNumber && page.id == "TCC" + digits) || page.title == "-W" + std::string(name))
      return &page;
  return nullptr;
}

std::string pageText(const DiagnosticPage &page) {
  std::string out = page.id + ": " + page.title + "\n\n";
  for (const std::string &form : page.forms)
    out += "  " + form + "\n";
  if (!page.forms.empty())
    out += "\n";
  bool isExample = false;
  for (std::string_view rest = page.text; !rest.empty();) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    if (line.starts_with("```"))
      isExample = !isExample;
    else
      out += (isExample ? "    " : "") + std::string(line) + "\n";
  }
  return out;
}

} // namespace tcc
