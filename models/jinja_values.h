// Values of Jinja templates, and what templates can do with them: operators, filters, tests, methods, functions.
#pragma once
#include "runtime/json_reader.h"

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tcc::models::jinja {

using runtime::Json;

/// Undefined (no variable of that name), JSON, or a namespace, whose attributes a template can set from within a loop.
struct Value {
  std::optional<Json> json;
  std::shared_ptr<std::map<std::string, Json>> space;

  Value() = default;
  Value(Json json) : json(std::move(json)) {}

  bool isDefined() const { return json || space; }
  bool isString() const { return json && json->is_string(); }
  /// The JSON value. Throws Error where there is none; `what` says who needs it.
  const Json &get(std::string_view what) const;
};

/// Arguments of a call: by place, then by name.
struct Arguments {
  std::vector<Value> places;
  std::vector<std::pair<std::string, Value>> names;

  /// Argument `place`, or the one of that name; undefined where neither is given.
  const Value &at(size_t place, std::string_view name = {}) const;
};

// All of these throw tcc::Error where a value is of another kind, or a name is unknown.

/// As Python's truth.
bool isTrue(const Value &value);
/// As Python's str(): of texts, numbers, True, False, None; undefined is empty.
std::string textOf(const Value &value);
/// `a op b` for + - * / // % ~ == != < <= > >= in.
Value operate(std::string_view op, const Value &a, const Value &b);
Value attribute(const Value &of, const std::string &name);
Value element(const Value &of, const Value &index);
/// of[first:last:step]; undefined bounds are the ends.
Value slice(const Value &of, const Value &first, const Value &last, const Value &step);
/// What a `for` loop walks over: a list's elements, an object's keys.
std::vector<Json> elementsOf(const Value &value);

Value filter(const std::string &name, const Value &value, const Arguments &arguments);
bool test(const std::string &name, const Value &value, const Arguments &arguments);
Value method(const std::string &name, const Value &of, const Arguments &arguments);
/// range, namespace, dict, raise_exception; nothing for another name.
std::optional<Value> function(const std::string &name, const Arguments &arguments);
/// Whether there is such a function.
bool isFunction(std::string_view name);

} // namespace tcc::models::jinja
