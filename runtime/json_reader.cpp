// Parses JSON that may be damaged, and reads members with the checks that callers ask for.
#include "runtime/json_reader.h"
#include <algorithm>

namespace tcc::runtime {
namespace {

const Json null;
const Json emptyList = Json::array();

/// Builds values from a parser's events. An object keeps both members of one name; readers find the first.
class Builder {
public:
  Json root;
  bool isTooDeep = false;

  bool null() { return add(nullptr); }
  bool boolean(bool value) { return add(value); }
  bool number_integer(Json::number_integer_t value) { return add(value); }
  bool number_unsigned(Json::number_unsigned_t value) { return add(value); }
  bool number_float(Json::number_float_t value, const std::string &) { return add(value); }
  bool string(std::string &value) { return add(std::move(value)); }
  bool binary(Json::binary_t &) { return false; }
  bool key(std::string &name) {
    nextKey = std::move(name);
    return true;
  }
  bool start_object(size_t) { return open(Json::object()); }
  bool start_array(size_t) { return open(Json::array()); }
  bool end_object() { return close(); }
  bool end_array() { return close(); }
  bool parse_error(size_t, const std::string &, const nlohmann::detail::exception &) { return false; }

private:
  static constexpr size_t mostNesting = 32;

  Json &place(Json value) {
    if (parents.empty())
      return root = std::move(value);
    Json &parent = *parents.back();
    if (parent.is_array())
      return parent.get_ref<Json::array_t &>().emplace_back(std::move(value));
    return parent.get_ref<Json::object_t &>().emplace_back(std::move(nextKey), std::move(value)).second;
  }
  bool add(Json value) {
    place(std::move(value));
    return true;
  }
  bool open(Json value) {
    isTooDeep = parents.size() == mostNesting;
    if (isTooDeep)
      return false;
    Json *parent = parents.empty() ? nullptr : parents.back();
    Json &opened = place(std::move(value));
    if (parent && parent->is_array() && parent->size() > 1 && opened.is_object()) // entries of a list are alike
      if (const Json &sibling = (*parent)[parent->size() - 2]; sibling.is_object())
        opened.get_ref<Json::object_t &>().reserve(sibling.size());
    parents.push_back(&opened);
    return true;
  }
  bool close() {
    parents.pop_back();
    return true;
  }

  std::vector<Json *> parents; // the lists and objects around the next value, outermost first
  std::string nextKey;
};

} // namespace

Expected<Json> parseJson(std::string_view text, int64_t maxBytes, const std::string &what) {
  if (text.size() > static_cast<size_t>(maxBytes))
    return Error(what + " has " + std::to_string(text.size()) + " bytes of JSON; " + std::to_string(maxBytes) +
                 " at most");
  Builder builder;
  if (!Json::sax_parse(text.begin(), text.end(), &builder))
    return Error(what + (builder.isTooDeep ? " nests deeper than 32 levels" : " is not valid JSON"));
  return std::move(builder.root);
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

bool JsonReader::asBoolean(const Json &json, const char *key) {
  if (!first && !json.is_boolean())
    fail("`" + std::string(key) + "` is not true or false");
  return !first && json.get<bool>();
}

const Json &JsonReader::asList(const Json &json, const char *key, int64_t most) {
  if (first)
    return emptyList;
  if (json.is_array() && json.size() <= static_cast<size_t>(most))
    return json;
  fail("`" + std::string(key) + "` is not a list of at most " + std::to_string(most) + " entries");
  return emptyList;
}

} // namespace tcc::runtime
