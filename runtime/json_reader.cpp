#include "runtime/json_reader.h"
#include <algorithm>

namespace tcc::runtime {
namespace {

const Json null;
const Json emptyList = Json::array();

// Deepest nesting of brackets outside strings, so that the parser never sees a tower of them.
int nestingDepth(std::string_view text) {
  int depth = 0, deepest = 0;
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted) {
      if (c == '\\')
        ++i;
      else if (c == '"')
        quoted = false;
    } else if (c == '"') {
      quoted = true;
    } else if (c == '[' || c == '{') {
      deepest = std::max(deepest, ++depth);
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return deepest;
}

} // namespace

Expected<Json> parseJson(std::string_view text, int64_t maxBytes, const std::string &what) {
  if (text.size() > static_cast<size_t>(maxBytes))
    return Error(what + " has " + std::to_string(text.size()) + " bytes of JSON; " + std::to_string(maxBytes) +
                 " at most");
  if (nestingDepth(text) > 32)
    return Error(what + " nests deeper than 32 levels");
  Json json = Json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded())
    return Error(what + " is not valid JSON");
  return json;
}

std::string writeJson(const Json &json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

void JsonReader::fail(const std::string &problem) {
  if (!first)
    first = Error(what + (place.empty() ? "" : " " + place) + ": " + problem);
}

const Json &JsonReader::member(const Json &object, const char *key) {
  if (first)
    return null;
  if (!object.is_object()) {
    fail("an object with `" + std::string(key) + "` was expected");
    return null;
  }
  const auto found = object.find(key);
  if (found == object.end()) {
    fail("`" + std::string(key) + "` is missing");
    return null;
  }
  return *found;
}

int64_t JsonReader::asInteger(const Json &json, int64_t least, int64_t most) {
  if (first)
    return least > 0 ? least : 0;
  const bool fits = json.is_number_integer() && !(json.is_number_unsigned() &&
                                                  json.get<uint64_t>() > uint64_t{std::numeric_limits<int64_t>::max()});
  const int64_t value = fits ? json.get<int64_t>() : 0;
  if (fits && value >= least && value <= most)
    return value;
  fail((fits ? std::to_string(value) : "a non-integer") + " where an integer from " + std::to_string(least) + " to " +
       std::to_string(most) + " was expected");
  return least > 0 ? least : 0;
}

int64_t JsonReader::integer(const Json &object, const char *key, int64_t least, int64_t most) {
  return asInteger(member(object, key), least, most);
}

std::string JsonReader::asString(const Json &json) {
  if (first)
    return {};
  if (json.is_string())
    return json.get<std::string>();
  fail("a text was expected");
  return {};
}

bool JsonReader::boolean(const Json &object, const char *key) {
  const Json &json = member(object, key);
  if (!first && !json.is_boolean())
    fail("`" + std::string(key) + "` is not true or false");
  return !first && json.get<bool>();
}

const Json &JsonReader::list(const Json &object, const char *key, int64_t most) {
  const Json &json = member(object, key);
  if (first)
    return emptyList;
  if (json.is_array() && json.size() <= static_cast<size_t>(most))
    return json;
  fail("`" + std::string(key) + "` is not a list of at most " + std::to_string(most) + " entries");
  return emptyList;
}

} // namespace tcc::runtime
