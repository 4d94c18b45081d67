// Functions that tell a test what they say, arrays for them, and the Errors that they throw.
#pragma once
#include <cstring>
#include <gtest/gtest.h>
#include <string>
#include <string_view>
#include <tcc/tcc.h>
#include <vector>

namespace tcc {

/// One thread, since steps are tiny: barriers would cost more than the work, above all on a busy machine. Reports go to
/// `said`, or nowhere.
inline FunctionOptions quiet(std::vector<std::string> *said = nullptr) {
  FunctionOptions options;
  options.threads = 1;
  options.report = [said](std::string_view text) {
    if (said)
      said->emplace_back(text);
  };
  return options;
}

/// first, first + step, …
inline Array sequence(Shape shape, float first, float step) {
  Array array(shape);
  float value = first;
  for (float &element : array.data<float>()) {
    element = value;
    value += step;
  }
  return array;
}

inline bool sameBits(const Array &a, const Array &b) {
  return a.bytes() == b.bytes() &&
         std::memcmp(a.rawForReading(), b.rawForReading(), static_cast<size_t>(a.bytes())) == 0;
}

/// Expects arrays of one shape whose elements differ by at most `tolerance`.
inline void expectNear(const Array &a, const Array &b, float tolerance) {
  ASSERT_EQ(a.shape(), b.shape());
  for (int64_t i = 0; i < a.shape().elements(); ++i)
    EXPECT_NEAR(a.item(i), b.item(i), tolerance) << i;
}

/// The Error that `action` throws; one that says "no error" where it throws none.
template <typename Action>
Error thrownBy(Action action) {
  try {
    action();
  } catch (const Error &error) {
    return error;
  }
  return Error("no error");
}

/// Its message, without the place; `line` takes the line that it names.
template <typename Action>
std::string errorOf(Action action, uint32_t *line = nullptr) {
  const Error error = thrownBy(action);
  if (line)
    *line = error.line();
  return error.message();
}

} // namespace tcc
