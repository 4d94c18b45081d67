// CustomFunction: calls the users' functions that implement custom ops. Such a function may fail, and is not trusted:
// what it throws becomes an Error, and in checked mode it sees copies of its tensors with guards around them.
#pragma once
#include "runtime/dtype.h"
#include "runtime/error.h"
#include "runtime/plan.h"
#include "runtime/tcc_custom.h"
#include <functional>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace tcc::runtime {

/// What a C++ function of this process is given; tcc_custom.h has the same for C. The function throws if it fails.
class CustomArguments {
public:
  explicit CustomArguments(const tcc_custom_call &call) : call(call) {}

  size_t inputs() const { return static_cast<size_t>(call.input_count); }
  size_t outputs() const { return static_cast<size_t>(call.output_count); }
  std::span<const int64_t> inputShape(size_t i) const { return shapeOf(at(call.inputs, inputs(), i)); }
  std::span<const int64_t> outputShape(size_t i) const { return shapeOf(at(call.outputs, outputs(), i)); }
  DType inputType(size_t i) const { return static_cast<DType>(at(call.inputs, inputs(), i).dtype); }
  DType outputType(size_t i) const { return static_cast<DType>(at(call.outputs, outputs(), i).dtype); }
  /// The address of the elements, of whatever type they are.
  const void *inputData(size_t i) const { return at(call.inputs, inputs(), i).data; }
  void *outputData(size_t i) const { return at(call.outputs, outputs(), i).data; }
  /// Elements. T is float for f32, uint16_t for bf16 and f16, uint8_t for i1 and the 8-bit floats, int32_t, int64_t.
  /// Throws std::invalid_argument for another T, and for a tensor that there is not.
  template <typename T>
  std::span<const T> input(size_t i) const {
    return elements<const T>(at(call.inputs, inputs(), i));
  }
  template <typename T>
  std::span<T> output(size_t i) const {
    return elements<T>(at(call.outputs, outputs(), i));
  }

private:
  static const tcc_tensor &at(const tcc_tensor *list, size_t count, size_t i) {
    if (i >= count)
      throw std::invalid_argument("it asks for tensor " + std::to_string(i) + " of " + std::to_string(count));
    return list[i];
  }
  static std::span<const int64_t> shapeOf(const tcc_tensor &tensor) {
    return {tensor.sizes, static_cast<size_t>(tensor.rank)};
  }
  template <typename T>
  static std::span<T> elements(const tcc_tensor &tensor) {
    const auto dtype = static_cast<DType>(tensor.dtype);
    if (byteSize(dtype) != sizeof(T) || (dtype == DType::f32) != std::is_floating_point_v<T>)
      throw std::invalid_argument("it reads or writes elements of " + std::string(name(dtype)) +
                                  " as a C++ type of another size or kind");
    size_t count = 1;
    for (int64_t size : shapeOf(tensor))
      count *= static_cast<size_t>(size);
    return {static_cast<T *>(tensor.data), count};
  }

  const tcc_custom_call &call;
};

using HostFunction = std::function<void(const CustomArguments &)>;

/// Keeps a function as long as the process runs and gives its number, from 1 on. Any thread may call this.
int64_t addHostFunction(HostFunction function);

/// Functions of this process by name: a custom op whose library is `<name>` is the function that find() gives for the
/// op's symbol. Unlike a number, name and symbol mean the same in another process that has the provider, so that
/// artefacts can hold them.
struct FunctionProvider {
  std::string version; ///< of what the functions are; code that was compiled with another version is not used
  std::function<Expected<HostFunction>(const std::string &symbol)> find;
};

/// Keeps the provider for libraries called `<name>` as long as the process runs. Any thread may call this.
void addFunctionProvider(const std::string &name, FunctionProvider provider);

/// The provider of a library for which isProvided() holds; null if this process has none.
const FunctionProvider *providerOf(const std::string &library);

/// A function that was found, and the library that holds it.
class CustomFunction {
public:
  /// Errors: a library that cannot be loaded or has no such symbol, a number of another process, a provider that this
  /// process does not have, or that does not know the symbol.
  static Expected<CustomFunction> find(const CustomCall &call);

  /// Calls the function. `inputs` and `outputs` are data pointers in the call's order. Errors name the op and say what
  /// the function threw or returned.
  Error run(const CustomCall &call, std::span<char *const> inputs, std::span<char *const> outputs) const;

  /// The same over guarded copies of the tensors; the outputs are written only if no error is found. Further errors:
  /// bytes written outside the outputs, an input that was written to, an output element that was not written.
  Error runGuarded(const CustomCall &call, std::span<char *const> inputs, std::span<char *const> outputs) const;

private:
  std::shared_ptr<void> library;
  tcc_custom_function symbol = nullptr;
  std::shared_ptr<const HostFunction> host;
};

} // namespace tcc::runtime
