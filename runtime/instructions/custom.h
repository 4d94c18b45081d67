// The call of a user's function.
#pragma once
#include "runtime/instructions/kind.h"

namespace tcc::runtime {

/// A dense tensor that a custom op reads or writes. It fills the whole buffer.
struct CustomTensor {
  BufferId buffer = noBuffer;
  DType dtype = DType::f32;
  std::vector<int64_t> shape;
  bool operator==(const CustomTensor &) const = default;

  static void visitFields(auto &tensor, auto &fields) {
    fields.buffer("buffer", tensor.buffer);
    fields.dtype("dtype", tensor.dtype);
    fields.integers("shape", tensor.shape, maxRank, 0, maxPlanBytes);
  }
};

/// Whether a library is no file but a provider of functions that the process must have (custom_call.h): `<name>`.
inline bool isProvided(std::string_view library) {
  return library.starts_with('<') && library.ends_with('>');
}

/// Calls a user's function (custom_call.h), which may fail, on a CPU and on one thread. The function is a symbol of a
/// shared object or of a provider, or a function of this process, given by its number; a plan with a call of the last
/// kind cannot be saved.
struct CustomCall {
  static constexpr KindWords words{"custom", "custom"};

  std::string name; ///< the op's, for messages
  std::string library, symbol;
  int64_t host = 0; ///< the number of the process's function; 0: `symbol` of `library`, whose path is absolute
  std::vector<CustomTensor> inputs, outputs;
  bool operator==(const CustomCall &) const = default;

  static void visitFields(auto &call, auto &fields) {
    fields.text("name", call.name);
    fields.text("library", call.library);
    fields.text("symbol", call.symbol);
    fields.list("in", call.inputs, maxPlanItems);
    fields.list("out", call.outputs, maxPlanItems);
  }
  static void visitBuffers(auto &call, const PlanLists &, auto &&visit) {
    for (auto &tensor : call.inputs)
      visit(tensor.buffer, BufferUse{.read = true});
    for (auto &tensor : call.outputs)
      visit(tensor.buffer, BufferUse{.written = true});
  }
  static void visitParts(auto &, auto &&) {}
  std::string validate(const PlanLists &plan) const;
};

} // namespace tcc::runtime
