#include "models/jinja_tree.h"
#include "frontend/quotes.h"

#include <fmt/format.h>

namespace tcc::models::jinja {

Leaves Set::run(Scope &scope, Rendering &rendering) const {
  Value made;
  if (value) {
    made = value->value(scope, rendering);
  } else { // the text that the block writes
    std::string before = std::exchange(rendering.text, "");
    runAll(body, scope, rendering);
    made = Json(std::exchange(rendering.text, std::move(before)));
  }
  if (attribute.empty()) {
    scope.values[name] = made;
    return Leaves::no;
  }
  const Value space = Name(line, name).value(scope, rendering);
  if (!space.space)
    failAt(line, fmt::format("{} is no namespace, its attributes cannot be set", inQuotes(name)));
  (*space.space)[attribute] = onLine(line, [&] { return made.get("a namespace's attribute"); });
  return Leaves::no;
}

Value Macro::call(Scope &scope, Rendering &rendering, const Arguments &arguments) const {
  if (arguments.places.size() > parameters.size())
    throw Error(fmt::format("the macro {} has {} parameters", inQuotes(name), parameters.size()));
  if (rendering.depth >= deepest)
    throw Error("macros call each other too deep");
  Scope *global = &scope;
  while (global->outer)
    global = global->outer;
  Scope own(global);
  for (size_t i = 0; i < parameters.size(); ++i) {
    const Value &given = arguments.at(i, parameters[i].first);
    const ExpressionPtr &otherwise = parameters[i].second;
    own.values[parameters[i].first] = !given.isDefined() && otherwise ? otherwise->value(own, rendering) : given;
  }
  std::string before = std::exchange(rendering.text, "");
  ++rendering.depth;
  runAll(body, own, rendering);
  --rendering.depth;
  return Json(std::exchange(rendering.text, std::move(before)));
}

Value Call::value(Scope &scope, Rendering &rendering) const {
  const Arguments given = arguments.values(scope, rendering);
  if (of) {
    const Value whole = of->value(scope, rendering);
    return onLine(line, [&] { return jinja::method(name, whole, given); });
  }
  for (Scope *each = &scope; each; each = each->outer)
    if (const auto found = each->macros.find(name); found != each->macros.end())
      return found->second->call(scope, rendering, given);
  if (name == "raise_exception")
    return *jinja::function(name, given); // its message is for the user as it is
  const std::optional<Value> made = onLine(line, [&] { return jinja::function(name, given); });
  if (!made)
    failAt(line, fmt::format("the function {} is not known here", inQuotes(name)));
  return *made;
}

void For::bind(Scope &turn, const Json &element) const {
  if (names.size() == 1) {
    turn.values[names[0]] = element;
    return;
  }
  if (!element.is_array() || element.size() != names.size())
    failAt(line, fmt::format("the loop has {} variables, an element has not as many parts", names.size()));
  for (size_t i = 0; i < names.size(); ++i)
    turn.values[names[i]] = element[i];
}

Leaves For::run(Scope &scope, Rendering &rendering) const {
  const Value whole = over->value(scope, rendering);
  std::vector<Json> elements;
  if (whole.isDefined()) // an undefined list is empty, as in jinja2
    elements = onLine(line, [&] { return jinja::elementsOf(whole); });
  if (condition)
    std::erase_if(elements, [&](const Json &element) {
      rendering.step(line);
      Scope turn(&scope);
      bind(turn, element);
      return !jinja::isTrue(condition->value(turn, rendering));
    });
  bool hasWholeTurn = false; // `else` is for loops without one, as in jinja2
  const size_t count = elements.size();
  for (size_t i = 0; i < count; ++i) {
    rendering.step(line);
    Scope turn(&scope);
    Json loop = {{"index", i + 1},         {"index0", i},           {"first", i == 0},
                 {"last", i + 1 == count}, {"revindex", count - i}, {"revindex0", count - i - 1},
                 {"length", count}};
    if (i > 0)
      loop["previtem"] = elements[i - 1];
    if (i + 1 < count)
      loop["nextitem"] = elements[i + 1];
    turn.values["loop"] = std::move(loop);
    bind(turn, elements[i]);
    const Leaves leaves = runAll(body, turn, rendering);
    if (leaves == Leaves::loop)
      break;
    hasWholeTurn |= leaves == Leaves::no;
  }
  return hasWholeTurn ? Leaves::no : runAll(otherwise, scope, rendering);
}

} // namespace tcc::models::jinja
