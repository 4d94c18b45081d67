// Reading JSON without exceptions and without trust: bounded parsing, and member access that keeps the first problem.
#pragma once
#include "runtime/error.h"
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace tcc::runtime {

using Json = nlohmann::ordered_json;

/// Parses text of at most `maxBytes` bytes that nests at most 32 deep. If a member is given twice, readers find the
/// first one. Errors begin with `what`, the name of the text.
Expected<Json> parseJson(std::string_view text, int64_t maxBytes, const std::string &what);

/// Compact text; bytes that are not UTF-8 become replacement characters.
std::string writeJson(const Json &json);

/// Typed access to members. The first problem is kept with its place; from then on every call gives a default.
class JsonReader {
public:
  explicit JsonReader(std::string what) : what(std::move(what)) {}

  /// Names the place of later problems: "plan buffers[3]: ...".
  void enter(const char *list, size_t index) { place = std::string(list) + "[" + std::to_string(index) + "]"; }
  void leave() { place.clear(); }
  void fail(const std::string &problem);
  const Error &error() const { return first; }

  const Json &member(const Json &object, const char *key);
  int64_t asInteger(const Json &json, int64_t least = std::numeric_limits<int64_t>::min(),
                    int64_t most = std::numeric_limits<int64_t>::max());
  int64_t integer(const Json &object, const char *key, int64_t least = std::numeric_limits<int64_t>::min(),
                  int64_t most = std::numeric_limits<int64_t>::max());
  std::string asString(const Json &json);
  std::string string(const Json &object, const char *key) { return asString(member(object, key)); }
  bool asBoolean(const Json &json, const char *key);
  bool boolean(const Json &object, const char *key) { return asBoolean(member(object, key), key); }
  /// An array of at most `most` entries; an empty one after a problem.
  const Json &asList(const Json &json, const char *key, int64_t most);
  const Json &list(const Json &object, const char *key, int64_t most) { return asList(member(object, key), key, most); }

private:
  std::string what, place;
  Error first;
};

} // namespace tcc::runtime
