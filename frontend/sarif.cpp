// Results as they come; rules from the pages of those numbers that occur.
#include "frontend/sarif.h"
#include "frontend/diagnostic_pages.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/JSON.h"
#include <nlohmann/json.hpp>
#include <set>

using llvm::StringRef;
using nlohmann::json;

namespace tcc {
namespace {

constexpr const char *levels[] = {"error", "warning", "note", "note"}; // by Severity; SARIF has no remarks

/// How many code points the first `bytes` bytes of the line are.
size_t codePoints(StringRef line, size_t bytes) {
  return static_cast<size_t>(
      llvm::count_if(line.take_front(bytes), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

/// A file's name as a URI: relative ones stay so.
std::string uriOf(StringRef file) {
  std::string uri = file.starts_with("/") ? "file://" : "";
  constexpr char digits[] = "0123456789ABCDEF";
  for (const char c : file) {
    const auto byte = static_cast<unsigned char>(c);
    if (llvm::isAlnum(c) || StringRef("-._~/").contains(c))
      uri += c;
    else
      uri += {'%', digits[byte >> 4], digits[byte & 15]};
  }
  return uri;
}

json locationOf(const TextPlace &place, StringRef line) {
  json physical = {{"artifactLocation", {{"uri", uriOf(place.file)}}}};
  if (place.line) {
    json region = {{"startLine", place.line}};
    if (place.column && !line.empty()) {
      const size_t before = place.column - 1;
      region["startColumn"] = codePoints(line, before) + 1;
      region["endColumn"] = codePoints(line, std::min<size_t>(before + place.length, line.size())) + 1;
      region["snippet"] = {{"text", llvm::json::fixUTF8(line)}};
    }
    physical["region"] = std::move(region);
  }
  return {{"physicalLocation", std::move(physical)}};
}

} // namespace

SarifLog::SarifLog() : results(std::make_unique<json>(json::array())) {}
SarifLog::~SarifLog() = default;

void SarifLog::add(Severity severity, const TextPlace &place, StringRef message, StringRef id, StringRef line) {
  json location = place.file.empty() ? json::object() : locationOf(place, line);
  const json text = {{"text", llvm::json::fixUTF8(message)}};
  if (severity == Severity::note && !results->empty()) {
    location["message"] = text;
    results->back()["relatedLocations"].push_back(std::move(location));
    return;
  }
  json result = {{"level", levels[static_cast<size_t>(severity)]}, {"message", text}};
  if (!id.empty())
    result["ruleId"] = id.str();
  if (!location.empty())
    result["locations"] = json::array({std::move(location)});
  results->push_back(std::move(result));
}

std::string SarifLog::text(StringRef version) const {
  std::set<std::string> used;
  for (const json &result : *results)
    if (result.contains("ruleId"))
      used.insert(result["ruleId"].get<std::string>());
  json rules = json::array();
  for (const std::string &id : used) {
    const DiagnosticPage &page = *diagnosticPage(id);
    rules.push_back({{"id", id},
                     {"shortDescription", {{"text", page.title}}},
                     {"help", {{"text", pageText(page)}, {"markdown", page.text}}}});
  }
  const json run = {{"tool", {{"driver", {{"name", "tcc"}, {"version", version.str()}, {"rules", std::move(rules)}}}}},
                    {"columnKind", "unicodeCodePoints"},
                    {"results", *results}};
  const json log = {
      {"$schema", "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"},
      {"version", "2.1.0"},
      {"runs", json::array({run})}};
  return log.dump(2) + "\n";
}

} // namespace tcc
