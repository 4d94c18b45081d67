// The page: its HTML, style and scripts are built in (page/), the reports stand in it as base64 of zlib's bytes, which
// browsers unpack. So a page is one file that needs no network.
#include "frontend/markup.h"
#include "frontend/report/report.h"
#include "runtime/files.h"
#include "llvm/Support/Base64.h"
#include "llvm/Support/Compression.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"

namespace tcc {
namespace {

using llvm::StringRef;

constexpr StringRef pageText =
#include "page.html.inc"
    ;
constexpr StringRef styleText =
#include "page.css.inc"
    ;
constexpr StringRef scriptTexts[] = {
#include "scripts.inc"
};

constexpr StringRef dataBegin = "<script id=\"data\" type=\"text/plain\" data-bytes=\"", dataEnd = "</script>";
constexpr size_t mostBytes = size_t{1} << 30; // of a page's data, unpacked
constexpr int version = 1;
constexpr int packing = 4; // of zlib's 1 to 9; at 6 the page is a sixth smaller and takes twice as long to pack

std::string titleOf(StringRef report) {
  constexpr StringRef key = "\"title\":";
  const size_t begin = report.find(key);
  if (begin == StringRef::npos)
    return "tcc";
  size_t end = begin + key.size() + 1;
  while (end < report.size() && (report[end] != '"' || report[end - 1] == '\\'))
    ++end;
  llvm::Expected<llvm::json::Value> parsed = llvm::json::parse(report.slice(begin + key.size(), end + 1));
  if (!parsed)
    llvm::consumeError(parsed.takeError());
  return parsed && parsed->getAsString() ? parsed->getAsString()->str() : "tcc";
}

std::string replaced(StringRef text, StringRef what, StringRef by) {
  const auto [before, after] = text.split(what);
  return before.str() + by.str() + after.str();
}

runtime::Error noReport(const std::string &path, const std::string &why) {
  return runtime::Error("'" + path + "' is no page of tcc --report: " + why);
}

} // namespace

std::string reportPage(llvm::ArrayRef<std::string> reports) {
  std::string data = "[";
  for (const std::string &report : reports)
    data += (data.size() > 1 ? "," : "") + report;
  data += "]";
  llvm::SmallVector<uint8_t, 0> packed;
  llvm::compression::zlib::compress({reinterpret_cast<const uint8_t *>(data.data()), data.size()}, packed, packing);
  std::string title;
  for (const std::string &report : reports)
    title += (title.empty() ? "" : " beside ") + titleOf(report);
  std::string scripts;
  for (StringRef script : scriptTexts)
    scripts += script;
  const std::string block =
      dataBegin.str() + std::to_string(data.size()) + "\">" + llvm::encodeBase64(packed) + dataEnd.str();
  std::string page = replaced(pageText, "@TITLE@", markupText(title));
  page = replaced(page, "@STYLE@", styleText);
  page = replaced(page, "@SCRIPT@", scripts);
  return replaced(page, "@DATA@", block);
}

std::string comparisonText(llvm::ArrayRef<std::string> reports) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  std::vector<llvm::json::Value> parsed;
  for (const std::string &report : reports)
    parsed.push_back(llvm::cantFail(llvm::json::parse(report)));
  constexpr size_t column = 15;
  stream << llvm::format("%-18s", "");
  for (const llvm::json::Value &report : parsed)
    stream << ' '
           << llvm::format("%15s",
                           report.getAsObject()->getString("from").value_or("").take_back(column).str().c_str());
  stream << '\n';
  const auto row = [&](StringRef name, StringRef section, StringRef member) {
    stream << llvm::format("%-18s", name.str().c_str());
    for (const llvm::json::Value &report : parsed) {
      const llvm::json::Object *values = report.getAsObject()->getObject(section);
      const llvm::json::Value *value = values ? values->get(member) : nullptr;
      const std::optional<double> number = value ? value->getAsNumber() : std::nullopt;
      number ? stream << llvm::format("%16.10g", *number) : stream << llvm::format("%16s", "-");
    }
    stream << '\n';
  };
  for (const auto &[name, member] : {std::pair{"captured ops", "captured_ops"},
                                     {"kernels", "kernels"},
                                     {"compiled kernels", "compiled_kernels"},
                                     {"matrix products", "matmuls"},
                                     {"planned bytes", "planned_bytes"},
                                     {"arena bytes", "arena_bytes"},
                                     {"passes ms", "passes_ms"},
                                     {"code ms", "code_ms"}})
    row(name, "compile", member);
  row("step ms", "profile", "step_ms");
  return text;
}

runtime::Error writeReportPage(const std::string &folder, llvm::ArrayRef<std::string> reports) {
  if (std::error_code error = llvm::sys::fs::create_directories(folder, true, llvm::sys::fs::all_all))
    return runtime::Error("cannot make folder '" + folder + "': " + error.message());
  llvm::SmallString<256> path(folder);
  llvm::sys::path::append(path, "index.html");
  return runtime::writeFileAtomically(path.str().str(), reportPage(reports));
}

runtime::Expected<std::vector<std::string>> readReports(const std::string &given) {
  llvm::SmallString<256> path(given);
  if (llvm::sys::fs::is_directory(path))
    llvm::sys::path::append(path, "index.html");
  const std::string file = path.str().str();
  const runtime::Expected<std::string> page = runtime::readFile(file);
  if (!page)
    return page.error();
  const StringRef text = *page;
  const size_t begin = text.find(dataBegin);
  if (begin == StringRef::npos)
    return noReport(file, "it has no data");
  StringRef rest = text.substr(begin + dataBegin.size());
  size_t bytes = 0;
  if (rest.consumeInteger(10, bytes) || !rest.consume_front("\">") || bytes > mostBytes)
    return noReport(file, "its data does not say how long it is");
  std::vector<char> packed;
  if (llvm::Error problem = llvm::decodeBase64(rest.substr(0, rest.find('<')), packed))
    return noReport(file, llvm::toString(std::move(problem)));
  llvm::SmallVector<uint8_t, 0> data;
  if (llvm::Error problem = llvm::compression::zlib::decompress(
          {reinterpret_cast<const uint8_t *>(packed.data()), packed.size()}, data, bytes))
    return noReport(file, llvm::toString(std::move(problem)));
  llvm::Expected<llvm::json::Value> parsed =
      llvm::json::parse(StringRef(reinterpret_cast<const char *>(data.data()), data.size()));
  if (!parsed)
    return noReport(file, llvm::toString(parsed.takeError()));
  std::vector<std::string> reports;
  llvm::json::Array none, *list = parsed->getAsArray();
  for (llvm::json::Value &each : list ? *list : none) {
    llvm::json::Object *report = each.getAsObject();
    if (!report || report->getString("format") != "tcc report")
      return noReport(file, "its data is something else");
    const std::optional<int64_t> its = report->getInteger("version");
    if (its != version)
      return runtime::Error("'" + file + "' has a report of version " + (its ? std::to_string(*its) : "?") +
                            "; this tcc reads version " + std::to_string(version));
    report->try_emplace("from", llvm::json::fixUTF8(given)); // one of a comparison keeps its own
    std::string one;
    llvm::raw_string_ostream(one) << each;
    reports.push_back(std::move(one));
  }
  if (reports.empty())
    return noReport(file, "it has no report");
  return reports;
}

} // namespace tcc
