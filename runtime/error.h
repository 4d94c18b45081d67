// The runtime's one error type: a message, never an exception. Nothing in this folder throws across its interface.
#pragma once
#include <cassert>
#include <string>
#include <utility>
#include <variant>

namespace tcc::runtime {

/// Success (default constructed) or a failure with a message for the user: lower case, what was seen, then the rule.
/// Converts to true when something went wrong: `if (Error error = run(...)) return error;`.
class [[nodiscard]] Error {
public:
  Error() = default;
  explicit Error(std::string message) : text(std::move(message)), failed(true) {}

  static Error success() { return {}; }
  explicit operator bool() const { return failed; }
  const std::string &message() const { return text; }

private:
  std::string text;
  bool failed = false;
};

/// A value or an Error. Converts to true when it holds the value.
template <typename T>
class [[nodiscard]] Expected {
public:
  Expected(T value) : content(std::in_place_index<0>, std::move(value)) {}
  Expected(Error error) : content(std::in_place_index<1>, std::move(error)) {
    assert(std::get<1>(content) && "an Expected without a value needs a failure");
  }

  explicit operator bool() const { return content.index() == 0; }
  T &operator*() & { return std::get<0>(content); }
  const T &operator*() const & { return std::get<0>(content); }
  T &&operator*() && { return std::get<0>(std::move(content)); }
  T *operator->() { return &std::get<0>(content); }
  const T *operator->() const { return &std::get<0>(content); }

  /// The failure; success when a value is held.
  Error error() const { return content.index() == 1 ? std::get<1>(content) : Error::success(); }

private:
  std::variant<T, Error> content;
};

} // namespace tcc::runtime
