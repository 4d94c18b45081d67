// Jinja templates, as chat models have them: the part of the language that such templates use. Everything else is an
// error that names it, with its line; nothing is passed over.
#pragma once
#include "runtime/json_reader.h"

#include <memory>
#include <string>
#include <string_view>

namespace tcc::models {

/// A parsed template. Blocks are trimmed as transformers trims them (jinja2's trim_blocks and lstrip_blocks).
///
/// Statements: if, for (with `if`, `else`, break, continue), set (names, attributes of a namespace, blocks), macro;
/// `generation` marks nothing. Expressions: literals, attributes, indices, slices, arithmetic, comparisons, `in`,
/// `~`, and/or/not, inline `if`, and the filters, tests, methods and functions in jinja_values.cpp. A template may take
/// a million steps and write 64 MiB; nesting is limited too.
class JinjaTemplate {
public:
  /// Throws Error: "line N: why".
  explicit JinjaTemplate(std::string_view text);
  JinjaTemplate(JinjaTemplate &&) noexcept;
  JinjaTemplate &operator=(JinjaTemplate &&) noexcept;
  ~JinjaTemplate();

  /// The text for the variables that `variables`, an object, has. Throws Error: with the message of raise_exception, or
  /// "line N: why" for what cannot be computed.
  std::string render(const runtime::Json &variables) const;

private:
  struct Body;
  std::unique_ptr<Body> body;
};

} // namespace tcc::models
