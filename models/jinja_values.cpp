#include "models/jinja_values.h"
#include "frontend/error.h"
#include "frontend/quotes.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace tcc::models::jinja {

namespace {

constexpr std::string_view blanks = " \t\n\r\f\v";
constexpr int64_t longestRange = 100000;

/// "a text", "a list", …: for messages.
std::string_view kindOf(const Value &value) {
  if (value.space)
    return "a namespace";
  if (!value.json)
    return "undefined";
  switch (value.json->type()) {
  case Json::value_t::string:
    return "a text";
  case Json::value_t::array:
    return "a list";
  case Json::value_t::object:
    return "an object";
  case Json::value_t::boolean:
    return "a truth value";
  case Json::value_t::null:
    return "none";
  default:
    return "a number";
  }
}

[[noreturn]] void fail(std::string_view what, const Value &value) {
  throw Error(fmt::format("{} of {}", what, kindOf(value)));
}

const std::string &stringOf(std::string_view what, const Value &value) {
  if (!value.isString())
    fail(what, value);
  return value.json->get_ref<const std::string &>();
}

int64_t integerOf(std::string_view what, const Value &value) {
  if (value.json && value.json->is_boolean())
    return value.json->get<bool>();
  if (!value.json || !value.json->is_number_integer())
    fail(what, value);
  return value.json->get<int64_t>();
}

bool isNumber(const Value &value) {
  return value.json && value.json->is_number();
}

/// Characters of UTF-8: texts are indexed, cut and counted by them.
std::vector<std::string_view> charactersOf(std::string_view text) {
  std::vector<std::string_view> made;
  for (size_t i = 0; i < text.size();) {
    size_t end = i + 1;
    while (end < text.size() && (uint8_t(text[end]) & 0xc0) == 0x80)
      ++end;
    made.push_back(text.substr(i, end - i));
    i = end;
  }
  return made;
}

std::string stripped(std::string_view text, std::string_view characters, bool front, bool back) {
  if (front)
    text.remove_prefix(std::min(text.find_first_not_of(characters), text.size()));
  if (back)
    text = text.substr(0, text.find_last_not_of(characters) + 1);
  return std::string(text);
}

/// ASCII alone, as the words that templates compare are.
std::string withCase(std::string text, bool upper) {
  std::ranges::transform(text, text.begin(), [&](char c) {
    return char(upper && c >= 'a' && c <= 'z' ? c - 32 : !upper && c >= 'A' && c <= 'Z' ? c + 32 : c);
  });
  return text;
}

std::string replaced(std::string_view text, std::string_view from, std::string_view to) {
  if (from.empty())
    throw Error("replace of an empty text");
  std::string made;
  for (size_t at = 0;;) {
    const size_t next = text.find(from, at);
    made += text.substr(at, next == std::string_view::npos ? next : next - at);
    if (next == std::string_view::npos)
      return made;
    made += to;
    at = next + from.size();
  }
}

/// At most `most` cuts are made at a separator; below 0: all.
Json splitted(std::string_view text, const Value &separator, int64_t most) {
  Json made = Json::array();
  if (!separator.isDefined() || (separator.json && separator.json->is_null())) { // at blanks
    for (size_t at = text.find_first_not_of(blanks); at != std::string_view::npos;) {
      const size_t end = std::min(text.find_first_of(blanks, at), text.size());
      made.push_back(text.substr(at, end - at));
      at = text.find_first_not_of(blanks, end);
    }
    return made;
  }
  const std::string &by = stringOf("split at a separator", separator);
  if (by.empty())
    throw Error("split at an empty text");
  for (size_t at = 0;;) {
    const bool cuts = most < 0 || int64_t(made.size()) < most;
    const size_t next = cuts ? text.find(by, at) : std::string_view::npos;
    made.push_back(text.substr(at, next == std::string_view::npos ? next : next - at));
    if (next == std::string_view::npos)
      return made;
    at = next + by.size();
  }
}

/// As Python's json.dumps(ensure_ascii=False) prints.
std::string jsonText(const Json &json, int indent, int depth = 0) {
  const auto newLine = [&](int level) {
    return indent < 0 ? std::string() : "\n" + std::string(size_t(indent) * size_t(level), ' ');
  };
  if (!json.is_structured() || json.empty())
    return json.dump(-1, ' ', false, Json::error_handler_t::replace);
  std::string text = json.is_array() ? "[" : "{";
  bool first = true;
  for (const auto &[key, value] : json.items()) {
    text += (first ? "" : indent < 0 ? ", " : ",") + newLine(depth + 1);
    if (json.is_object())
      text += Json(key).dump(-1, ' ', false, Json::error_handler_t::replace) + ": ";
    text += jsonText(value, indent, depth + 1);
    first = false;
  }
  return text + newLine(depth) + (json.is_array() ? "]" : "}");
}

double numberOf(std::string_view what, const Value &value) {
  if (!isNumber(value))
    fail(what, value);
  return value.json->get<double>();
}

Value arithmetic(std::string_view op, const Value &a, const Value &b) {
  const std::string what = fmt::format("`{}`", op);
  if (op != "/" && a.json && b.json && a.json->is_number_integer() && b.json->is_number_integer()) {
    const int64_t x = a.json->get<int64_t>(), y = b.json->get<int64_t>();
    int64_t result = 0;
    if (op == "//" || op == "%") { // rounded down, as in Python
      if (y == 0 || y == -1)
        throw Error(fmt::format("{} by {}", what, y));
      const int64_t rest = x % y;
      const bool below = rest != 0 && (rest < 0) != (y < 0);
      result = op == "%" ? rest + (below ? y : 0) : x / y - below;
    } else if (op == "+"   ? __builtin_add_overflow(x, y, &result)
               : op == "-" ? __builtin_sub_overflow(x, y, &result)
                           : __builtin_mul_overflow(x, y, &result)) {
      throw Error(what + " of numbers beyond 64 bits");
    }
    return Json(result);
  }
  const double x = numberOf(what, a), y = numberOf(what, b);
  if ((op == "/" || op == "//" || op == "%") && y == 0)
    throw Error(what + " by 0");
  if (op == "+")
    return Json(x + y);
  if (op == "-")
    return Json(x - y);
  if (op == "*")
    return Json(x * y);
  if (op == "/")
    return Json(x / y);
  if (op == "//")
    return Json(std::floor(x / y));
  return Json(x - y * std::floor(x / y));
}

double amountOf(const Value &value) {
  return value.json->is_boolean() ? double(value.json->get<bool>()) : value.json->get<double>();
}

bool isEqual(const Value &a, const Value &b) {
  const auto isTruth = [](const Value &value) { return value.json && value.json->is_boolean(); };
  if (isTruth(a) != isTruth(b) && (isNumber(a) || isNumber(b))) // True is 1, as in Python
    return amountOf(a) == amountOf(b);
  return a.json == b.json && a.space == b.space;
}

bool isIn(const Value &part, const Value &whole) {
  const Json &json = whole.get("`in`");
  if (json.is_string())
    return json.get_ref<const std::string &>().find(stringOf("`in` a text", part)) != std::string::npos;
  if (json.is_object())
    return part.isString() && json.contains(stringOf("`in`", part));
  if (!json.is_array())
    fail("`in`", whole);
  return part.json && std::ranges::find(json, *part.json) != json.end();
}

bool isLess(const Value &a, const Value &b) {
  if (a.isString() && b.isString())
    return stringOf("", a) < stringOf("", b);
  return numberOf("a comparison", a) < numberOf("a comparison", b);
}

int64_t lengthOf(const Value &value) {
  if (value.isString())
    return int64_t(charactersOf(stringOf("", value)).size());
  if (!value.json || !value.json->is_structured())
    fail("length", value);
  return int64_t(value.json->size());
}

std::string joined(const Value &list, const Value &separator) {
  std::string text;
  bool first = true;
  const std::string between = separator.isDefined() ? stringOf("join with a separator", separator) : "";
  for (const Json &each : elementsOf(list)) {
    text += (first ? "" : between) + textOf(each);
    first = false;
  }
  return text;
}

/// selectattr, rejectattr: the elements whose attribute passes a test, or is true.
Json selected(const Value &list, const Arguments &arguments, bool keeps) {
  const std::string &name = stringOf("selection by an attribute", arguments.at(0));
  Json made = Json::array();
  Arguments rest;
  rest.places = {arguments.at(2)};
  for (const Json &each : elementsOf(list)) {
    const Value value = attribute(each, name);
    const Value &by = arguments.at(1);
    const bool passes = by.isDefined() ? test(stringOf("a test's name", by), value, rest) : isTrue(value);
    if (passes == keeps)
      made.push_back(each);
  }
  return made;
}

Json pairsOf(const Value &object, std::string_view what) {
  if (!object.json || !object.json->is_object())
    fail(what, object);
  Json made = Json::array();
  for (const auto &[key, value] : object.json->items())
    made.push_back(what == "keys" ? Json(key) : what == "values" ? value : Json::array({key, value}));
  return made;
}

} // namespace

const Json &Value::get(std::string_view what) const {
  if (!json)
    fail(what, *this);
  return *json;
}

const Value &Arguments::at(size_t place, std::string_view name) const {
  static const Value undefined;
  for (const auto &[given, value] : names)
    if (given == name)
      return value;
  return place < places.size() ? places[place] : undefined;
}

bool isTrue(const Value &value) {
  if (value.space || !value.json)
    return value.space != nullptr;
  const Json &json = *value.json;
  if (json.is_boolean())
    return json.get<bool>();
  if (json.is_number())
    return json.get<double>() != 0;
  if (json.is_string())
    return !json.get_ref<const std::string &>().empty();
  return !json.empty(); // none is empty too
}

std::string textOf(const Value &value) {
  if (!value.isDefined())
    return "";
  const Json &json = value.get("printing");
  if (json.is_string())
    return json;
  if (json.is_boolean())
    return json.get<bool>() ? "True" : "False";
  if (json.is_null())
    return "None";
  if (json.is_number_integer())
    return json.dump();
  fail("printing", value); // Python's forms of fractions and lists are no text for models
}

Value operate(std::string_view op, const Value &a, const Value &b) {
  if (op == "~")
    return Json(textOf(a) + textOf(b));
  if (op == "==" || op == "!=")
    return Json(isEqual(a, b) == (op == "=="));
  if (op == "in")
    return Json(isIn(a, b));
  if (op == "<" || op == ">=")
    return Json(isLess(a, b) == (op == "<"));
  if (op == ">" || op == "<=")
    return Json(isLess(b, a) == (op == ">"));
  if (op == "+" && a.isString())
    return Json(stringOf("", a) + stringOf("`+` of a text and a value that is", b));
  if (op == "+" && a.json && a.json->is_array()) {
    Json made = *a.json;
    for (const Json &each : elementsOf(b))
      made.push_back(each);
    return made;
  }
  return arithmetic(op, a, b);
}

Value attribute(const Value &of, const std::string &name) {
  if (of.space) {
    const auto found = of.space->find(name);
    return found == of.space->end() ? Value() : Value(found->second);
  }
  if (!of.json)
    throw Error(fmt::format("{} of a value that is undefined", inQuotes(name)));
  if (!of.json->is_object())
    return {};
  const auto found = of.json->find(name);
  return found == of.json->end() ? Value() : Value(*found);
}

Value element(const Value &of, const Value &index) {
  if (index.isString())
    return attribute(of, stringOf("", index));
  int64_t place = integerOf("an index", index);
  if (of.isString()) {
    const std::vector<std::string_view> characters = charactersOf(stringOf("", of));
    place += place < 0 ? int64_t(characters.size()) : 0;
    return place >= 0 && place < int64_t(characters.size()) ? Value(Json(characters[size_t(place)])) : Value();
  }
  const Json &list = of.get("an element");
  if (!list.is_array())
    fail("an element", of);
  place += place < 0 ? int64_t(list.size()) : 0;
  return place >= 0 && place < int64_t(list.size()) ? Value(list[size_t(place)]) : Value();
}

Value slice(const Value &of, const Value &first, const Value &last, const Value &step) {
  const bool isText = of.isString();
  std::vector<Json> elements;
  if (isText)
    for (const std::string_view character : charactersOf(stringOf("", of)))
      elements.emplace_back(character);
  else
    elements = elementsOf(of);
  const auto count = int64_t(elements.size());
  const int64_t by = step.isDefined() ? integerOf("a slice's step", step) : 1;
  if (by == 0)
    throw Error("a slice's step is 0");
  const auto bound = [&](const Value &given, int64_t otherwise) {
    if (!given.isDefined())
      return otherwise;
    int64_t place = integerOf("a slice's end", given);
    if (place < 0)
      place += count;
    return by > 0 ? std::clamp<int64_t>(place, 0, count) : std::clamp<int64_t>(place, -1, count - 1);
  };
  const int64_t begin = bound(first, by > 0 ? 0 : count - 1), end = bound(last, by > 0 ? count : -1);
  Json made = Json::array();
  for (int64_t i = begin; by > 0 ? i < end : i > end; i += by)
    made.push_back(elements[size_t(i)]);
  return isText ? Value(Json(joined(made, {}))) : Value(made);
}

std::vector<Json> elementsOf(const Value &value) {
  const Json &json = value.get("the elements");
  if (json.is_array())
    return {json.begin(), json.end()};
  std::vector<Json> made;
  if (json.is_object())
    for (const auto &[key, ignored] : json.items())
      made.emplace_back(key);
  else if (json.is_string())
    for (const std::string_view character : charactersOf(json.get_ref<const std::string &>()))
      made.emplace_back(character);
  else
    fail("the elements", value);
  return made;
}

Value filter(const std::string &name, const Value &value, const Arguments &arguments) {
  if (name == "default" || name == "d") {
    const bool replacesFalse = isTrue(arguments.at(1, "boolean"));
    return value.isDefined() && (!replacesFalse || isTrue(value)) ? value : arguments.at(0, "default_value");
  }
  if (name == "trim")
    return Json(stripped(textOf(value), blanks, true, true));
  if (name == "length" || name == "count")
    return Json(lengthOf(value));
  if (name == "upper" || name == "lower")
    return Json(withCase(textOf(value), name == "upper"));
  if (name == "capitalize") {
    const std::string text = withCase(textOf(value), false);
    return Json(withCase(text.substr(0, 1), true) + (text.empty() ? "" : text.substr(1)));
  }
  if (name == "string")
    return Json(textOf(value));
  if (name == "safe")
    return value;
  if (name == "int") {
    if (value.json && value.json->is_boolean())
      return Json(int64_t(value.json->get<bool>()));
    const std::string text = textOf(value);
    const bool isWhole = !text.empty() && text.find_first_not_of("0123456789", text[0] == '-') == std::string::npos;
    return isWhole && text.size() < 18 ? Value(Json(std::stoll(text))) : Value(Json(0));
  }
  if (name == "tojson") {
    const Value indent = arguments.at(0, "indent");
    return Json(jsonText(value.get("tojson"), indent.isDefined() ? int(integerOf("an indent", indent)) : -1));
  }
  if (name == "join")
    return Json(joined(value, arguments.at(0, "d")));
  if (name == "list")
    return Json(elementsOf(value));
  if (name == "first" || name == "last")
    return element(value.isString() ? value : Value(Json(elementsOf(value))), Json(name == "first" ? 0 : -1));
  if (name == "reverse")
    return slice(value, {}, {}, Json(-1));
  if (name == "replace")
    return Json(replaced(textOf(value), stringOf("replace", arguments.at(0)), stringOf("replace by", arguments.at(1))));
  if (name == "items")
    return pairsOf(value, "items");
  if (name == "selectattr" || name == "rejectattr")
    return selected(value, arguments, name == "selectattr");
  if (name == "map" && arguments.at(1, "attribute").isString()) {
    Json made = Json::array();
    for (const Json &each : elementsOf(value))
      if (const Value part = attribute(each, stringOf("", arguments.at(1, "attribute"))); part.isDefined())
        made.push_back(part.get("map"));
    return made;
  }
  throw Error(fmt::format("the filter {} is not known here", inQuotes(name)));
}

bool test(const std::string &name, const Value &value, const Arguments &arguments) {
  const Json *json = value.json ? &*value.json : nullptr;
  if (name == "defined")
    return value.isDefined();
  if (name == "undefined")
    return !value.isDefined();
  if (name == "none")
    return json && json->is_null();
  if (name == "string")
    return json && json->is_string();
  if (name == "mapping")
    return json && json->is_object();
  if (name == "iterable" || name == "sequence") // what is undefined is an empty list
    return !value.isDefined() || (json && (json->is_structured() || json->is_string()));
  if (name == "number") // a truth value is one in Python
    return json && (json->is_number() || json->is_boolean());
  if (name == "integer")
    return json && json->is_number_integer();
  if (name == "float")
    return json && json->is_number_float();
  if (name == "boolean")
    return json && json->is_boolean();
  if (name == "true" || name == "false")
    return json && json->is_boolean() && json->get<bool>() == (name == "true");
  if (name == "odd" || name == "even")
    return (integerOf(name, value) % 2 != 0) == (name == "odd");
  if (name == "divisibleby")
    return isEqual(arithmetic("%", value, arguments.at(0)), Json(0));
  if (name == "equalto" || name == "eq" || name == "==" || name == "sameas")
    return isEqual(value, arguments.at(0));
  if (name == "ne" || name == "!=")
    return !isEqual(value, arguments.at(0));
  if (name == "in")
    return isIn(value, arguments.at(0));
  throw Error(fmt::format("the test {} is not known here", inQuotes(name)));
}

Value method(const std::string &name, const Value &of, const Arguments &arguments) {
  if (of.isString()) {
    const std::string &text = stringOf("", of);
    if (name == "strip" || name == "lstrip" || name == "rstrip") {
      const Value given = arguments.at(0);
      const std::string characters = given.isDefined() ? stringOf(name, given) : std::string(blanks);
      return Json(stripped(text, characters, name != "rstrip", name != "lstrip"));
    }
    if (name == "startswith" || name == "endswith") {
      const std::string &part = stringOf(name, arguments.at(0));
      return Json(name == "startswith" ? text.starts_with(part) : text.ends_with(part));
    }
    if (name == "upper" || name == "lower")
      return Json(withCase(text, name == "upper"));
    if (name == "split" && arguments.names.empty()) {
      const Value &most = arguments.at(1);
      if (most.isDefined() && !arguments.at(0).isString())
        throw Error("split at blanks a number of times is not known here");
      return splitted(text, arguments.at(0), most.isDefined() ? integerOf("split a number of times", most) : -1);
    }
    if (name == "replace" && arguments.places.size() == 2)
      return Json(replaced(text, stringOf(name, arguments.at(0)), stringOf(name, arguments.at(1))));
    if (name == "find")
      if (const std::string &part = stringOf(name, arguments.at(0)); arguments.places.size() == 1) {
        const size_t found = text.find(part);
        return Json(found == std::string::npos ? int64_t(-1)
                                               : int64_t(charactersOf(std::string_view(text).substr(0, found)).size()));
      }
  }
  if (of.json && of.json->is_object()) {
    if (name == "items" || name == "keys" || name == "values")
      return pairsOf(of, name);
    if (name == "get") {
      const Value found = attribute(of, stringOf(name, arguments.at(0)));
      const Value otherwise = arguments.at(1);
      return found.isDefined() ? found : otherwise.isDefined() ? otherwise : Value(Json());
    }
  }
  throw Error(fmt::format("the method {} of {} is not known here", inQuotes(name), kindOf(of)));
}

bool isFunction(std::string_view name) {
  return name == "range" || name == "namespace" || name == "dict" || name == "raise_exception";
}

std::optional<Value> function(const std::string &name, const Arguments &arguments) {
  if (name == "raise_exception")
    throw Error(textOf(arguments.at(0, "message")));
  if (name == "namespace") {
    Value made;
    made.space = std::make_shared<std::map<std::string, Json>>();
    for (const auto &[key, value] : arguments.names)
      (*made.space)[key] = value.get("a namespace's attribute");
    return made;
  }
  if (name == "dict") {
    Json made = Json::object();
    for (const auto &[key, value] : arguments.names)
      made[key] = value.get("an object's member");
    return Value(made);
  }
  if (name == "range") {
    const size_t count = arguments.places.size();
    const int64_t first = count > 1 ? integerOf(name, arguments.at(0)) : 0;
    const int64_t last = integerOf(name, arguments.at(count > 1 ? 1 : 0));
    const int64_t step = count > 2 ? integerOf(name, arguments.at(2)) : 1;
    if (step == 0)
      throw Error("a range's step is 0");
    Json made = Json::array();
    for (int64_t i = first; step > 0 ? i < last : i > last;) {
      if (made.size() == size_t(longestRange))
        throw Error(fmt::format("a range of more than {} numbers", longestRange));
      made.push_back(i);
      if (__builtin_add_overflow(i, step, &i))
        break;
    }
    return Value(made);
  }
  return std::nullopt;
}

} // namespace tcc::models::jinja
