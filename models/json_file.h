// Reads JSON from files that are not trusted. Size and nesting are bounded before a value is made.
#pragma once
#include "frontend/files.h"
#include "frontend/quotes.h"
#include "runtime/json_reader.h"

#include <fmt/format.h>
#include <string>

namespace tcc::models {

struct JsonLimits {
  int64_t bytes;
  int nesting = 16; ///< of objects and lists
  const char *kind = "such a file";
};

/// The value in `file`. Throws Error naming the file for more bytes or nesting than `limits`, for bytes that are
/// not JSON, and for numbers that a double does not hold.
template <typename Json>
Json parseJsonFile(const MappedFile &file, const JsonLimits &limits) {
  if (file.size() > limits.bytes)
    throw Error(fmt::format("{}: {} bytes, {} has at most {}", file.path(), file.size(), limits.kind, limits.bytes));
  const auto refuseNesting = [&](int depth, typename Json::parse_event_t, Json &) {
    if (depth > limits.nesting)
      throw Error(fmt::format("{}: objects nested deeper than {}", file.path(), limits.nesting));
    return true;
  };
  try {
    return Json::parse(file.text(), refuseNesting);
  } catch (const typename Json::parse_error &error) {
    throw Error(fmt::format("{}: byte {}: not valid JSON here", file.path(), error.byte));
  } catch (const typename Json::out_of_range &) {
    throw Error(fmt::format("{}: holds a number that is beyond double precision", file.path()));
  }
}

/// One line of a log, or null where that is no JSON of usual nesting.
inline runtime::Json parseLogLine(const std::string &line) {
  auto json = runtime::parseJson(line, int64_t(line.size()), "a line");
  return json ? std::move(*json) : runtime::Json();
}

} // namespace tcc::models
