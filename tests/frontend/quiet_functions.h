// Functions that tell a test what they say, and arrays for them.
#pragma once
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

} // namespace tcc
