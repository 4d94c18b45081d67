// A guarded call: (1) inputs are copied, outputs poisoned, each with guards before and after; (2) the function runs;
// (3) guards and inputs are compared with what they were; (4) an element that still has the poison's bits is looked at
// once more, over another poison: where it changes with it, nobody wrote it.
#include "runtime/custom_call.h"
#include <algorithm>
#include <cstring>
#include <deque>
#include <dlfcn.h>
#include <map>
#include <mutex>
#include <unistd.h>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace tcc::runtime {
namespace {

std::mutex mutex;

std::deque<HostFunction> &hostFunctions() {
  static std::deque<HostFunction> list; // whose elements stay in place
  return list;
}

std::map<std::string, FunctionProvider> &providers() {
  static std::map<std::string, FunctionProvider> list; // by library
  return list;
}

Error failed(const CustomCall &call, const std::string &problem) {
  return Error("custom op `" + call.name + "` " + problem);
}

/// The float unit's settings as they were, whatever a user's function does to them.
class FloatEnvironment {
public:
#if defined(__x86_64__)
  FloatEnvironment() : before(_mm_getcsr()) {}
  ~FloatEnvironment() { _mm_setcsr(before); }

private:
  unsigned before;
#endif
};

std::vector<tcc_tensor> tensorsOf(const std::vector<CustomTensor> &tensors, std::span<char *const> data) {
  std::vector<tcc_tensor> list;
  for (size_t i = 0; i < tensors.size(); ++i)
    list.push_back({data[i], tensors[i].shape.data(), static_cast<int32_t>(tensors[i].shape.size()),
                    static_cast<int32_t>(tensors[i].dtype)});
  return list;
}

/// A tensor's bytes between two guards.
class Guarded {
public:
  static constexpr int64_t guardBytes = 64 << 10; // on either side: what a loop that goes too far writes first
  static constexpr unsigned char guard = 0xA5;

  explicit Guarded(int64_t bytes) : bytes(bytes), memory(static_cast<size_t>(bytes + 2 * guardBytes + 64), guard) {
    const auto address = reinterpret_cast<uintptr_t>(memory.data());
    begin = memory.data() + (64 - address % 64) % 64 + guardBytes;
  }
  char *data() { return reinterpret_cast<char *>(begin); }
  void fill(unsigned char value) { std::fill_n(begin, bytes, value); }

  /// Where a guard was first changed: "12 bytes before its beginning", "0 bytes after its end". Empty if none was.
  std::string damage() const {
    for (int64_t i = 0; i < guardBytes; ++i)
      if (begin[bytes + i] != guard)
        return std::to_string(i) + " bytes after its end";
    for (int64_t i = 1; i <= guardBytes; ++i)
      if (begin[-i] != guard)
        return std::to_string(i) + " bytes before its beginning";
    return {};
  }

private:
  int64_t bytes;
  std::vector<unsigned char> memory;
  unsigned char *begin;
};

int64_t bytesOf(const CustomTensor &tensor) {
  return TensorSpec{"", tensor.dtype, tensor.shape}.bytes();
}

std::string indexText(const CustomTensor &tensor, int64_t element) {
  std::string text;
  for (size_t dim = tensor.shape.size(); dim-- > 0; element /= tensor.shape[dim])
    text = std::to_string(element % tensor.shape[dim]) + (text.empty() ? "" : ", ") + text;
  return "[" + text + "]";
}

std::string shapeText(const CustomTensor &tensor) {
  std::string text;
  for (int64_t size : tensor.shape)
    text += (text.empty() ? "" : ", ") + std::to_string(size);
  return std::string(name(tensor.dtype)) + " [" + text + "]";
}

/// The first element of which all bytes are `poison`, from `first` on; -1 where there is none.
int64_t poisoned(const char *data, const CustomTensor &tensor, unsigned char poison, int64_t first = 0) {
  const int64_t width = byteSize(tensor.dtype), count = bytesOf(tensor) / width;
  for (int64_t i = first; i < count; ++i)
    if (std::all_of(data + i * width, data + (i + 1) * width,
                    [&](char byte) { return static_cast<unsigned char>(byte) == poison; }))
      return i;
  return -1;
}

/// One guarded call's memory.
class GuardedTensors {
public:
  GuardedTensors(const CustomCall &call, std::span<char *const> given) : call(call), given(given) {
    for (const CustomTensor &tensor : call.inputs)
      inputs.emplace_back(bytesOf(tensor));
    for (const CustomTensor &tensor : call.outputs)
      outputs.emplace_back(bytesOf(tensor));
    for (size_t i = 0; i < inputs.size(); ++i) {
      copyTo(inputs[i].data(), given[i], bytesOf(call.inputs[i]));
      inputData.push_back(inputs[i].data());
    }
    for (Guarded &output : outputs)
      outputData.push_back(output.data());
  }

  void poison(unsigned char value) {
    for (Guarded &output : outputs)
      output.fill(value);
  }

  Error check() const {
    for (size_t i = 0; i < inputs.size() + outputs.size(); ++i) {
      const bool isInput = i < inputs.size();
      const size_t number = isInput ? i : i - inputs.size();
      const CustomTensor &tensor = isInput ? call.inputs[number] : call.outputs[number];
      const std::string what =
          (isInput ? "operand " : "result ") + std::to_string(number) + " (" + shapeText(tensor) + ")";
      if (std::string where = (isInput ? inputs : outputs)[number].damage(); !where.empty())
        return failed(call, "writes out of bounds: " + where + " of " + what);
      if (isInput && bytesOf(tensor) > 0 &&
          std::memcmp(inputData[number], given[number], static_cast<size_t>(bytesOf(tensor))) != 0)
        return failed(call, "writes into " + what + "; it may only read it");
    }
    return Error::success();
  }

  static void copyTo(char *to, const char *from, int64_t bytes) {
    if (bytes > 0)
      std::memcpy(to, from, static_cast<size_t>(bytes));
  }

  std::vector<char *> inputData, outputData;

private:
  const CustomCall &call;
  std::span<char *const> given;
  std::deque<Guarded> inputs, outputs;
};

} // namespace

int64_t addHostFunction(HostFunction function) {
  const std::lock_guard lock(mutex);
  hostFunctions().push_back(std::move(function));
  return static_cast<int64_t>(hostFunctions().size());
}

void addFunctionProvider(const std::string &name, FunctionProvider provider) {
  const std::lock_guard lock(mutex);
  providers().insert_or_assign("<" + name + ">", std::move(provider));
}

const FunctionProvider *providerOf(const std::string &library) {
  const std::lock_guard lock(mutex);
  const auto found = providers().find(library);
  return found == providers().end() ? nullptr : &found->second;
}

Expected<CustomFunction> CustomFunction::find(const CustomCall &call) {
  CustomFunction found;
  if (call.host) {
    const std::lock_guard lock(mutex);
    if (call.host < 1 || call.host > static_cast<int64_t>(hostFunctions().size()))
      return failed(call, "is a function of another process");
    found.host = {std::shared_ptr<void>(), &hostFunctions()[static_cast<size_t>(call.host - 1)]};
    return found;
  }
  if (isProvided(call.library)) {
    const FunctionProvider *provider = providerOf(call.library);
    if (!provider)
      return failed(call, "is computed by " + call.library + ", which this process does not have");
    auto function = provider->find(call.symbol);
    if (!function)
      return failed(call, "is not known to " + call.library + ": " + function.error().message());
    found.host = std::make_shared<const HostFunction>(std::move(*function));
    return found;
  }
  if (::access(call.library.c_str(), F_OK) != 0)
    return failed(call, "has its code in '" + call.library + "', which is not there");
  void *handle = ::dlopen(call.library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    const char *reason = ::dlerror();
    return failed(call, "cannot load its code: " + std::string(reason ? reason : "unknown reason"));
  }
  found.library = std::shared_ptr<void>(handle, [](void *library) { ::dlclose(library); });
  found.symbol = reinterpret_cast<tcc_custom_function>(::dlsym(handle, call.symbol.c_str()));
  if (!found.symbol)
    return failed(call, "has its code in '" + call.library + "', which has no symbol '" + call.symbol + "'");
  return found;
}

Error CustomFunction::run(const CustomCall &call, std::span<char *const> inputs, std::span<char *const> outputs) const {
  const std::vector<tcc_tensor> in = tensorsOf(call.inputs, inputs), out = tensorsOf(call.outputs, outputs);
  char message[512] = {};
  const tcc_custom_call arguments{static_cast<int32_t>(in.size()),
                                  static_cast<int32_t>(out.size()),
                                  in.data(),
                                  out.data(),
                                  message,
                                  sizeof message};
  const FloatEnvironment environment;
  try {
    if (host) {
      (*host)(CustomArguments(arguments));
      return Error::success();
    }
    const int status = symbol(&arguments);
    message[sizeof message - 1] = '\0';
    if (status != 0)
      return failed(call, "failed: " + (*message ? std::string(message) : "status " + std::to_string(status)));
  } catch (const std::exception &problem) {
    return failed(call, "threw: " + std::string(problem.what()));
  } catch (...) {
    return failed(call, "threw something that is no std::exception");
  }
  return Error::success();
}

Error CustomFunction::runGuarded(const CustomCall &call, std::span<char *const> inputs,
                                 std::span<char *const> outputs) const {
  constexpr unsigned char first = 0xFF, second = 0x5A;
  GuardedTensors tensors(call, inputs);
  auto attempt = [&](unsigned char poison) {
    tensors.poison(poison);
    if (Error error = run(call, tensors.inputData, tensors.outputData))
      return error;
    return tensors.check();
  };
  if (Error error = attempt(first))
    return error;
  std::vector<std::string> results;
  bool again = false;
  for (size_t i = 0; i < outputs.size(); ++i) {
    results.emplace_back(tensors.outputData[i], static_cast<size_t>(bytesOf(call.outputs[i])));
    again |= poisoned(results[i].data(), call.outputs[i], first) >= 0;
  }
  if (again)
    if (Error error = attempt(second))
      return error;
  for (size_t i = 0; again && i < outputs.size(); ++i) {
    const int64_t width = byteSize(call.outputs[i].dtype);
    for (int64_t at = poisoned(results[i].data(), call.outputs[i], first); at >= 0;
         at = poisoned(results[i].data(), call.outputs[i], first, at + 1))
      if (std::memcmp(&results[i][static_cast<size_t>(at * width)], tensors.outputData[i] + at * width,
                      static_cast<size_t>(width)) != 0)
        return failed(call, "leaves result " + std::to_string(i) + " (" + shapeText(call.outputs[i]) +
                                ") unwritten at index " + indexText(call.outputs[i], at) +
                                "; it writes every element of the shape that its rule gives");
  }
  for (size_t i = 0; i < outputs.size(); ++i)
    GuardedTensors::copyTo(outputs[i], results[i].data(), bytesOf(call.outputs[i]));
  return Error::success();
}

} // namespace tcc::runtime
