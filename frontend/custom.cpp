// A call of a custom op: (1) its body and its gradient, which say what it means, are recorded for the operands' types;
// that happens at each call, since a replay costs little. (2) The record and the op's code become an instance
// (custom_instance.h). (3) The call is recorded as one op with the instance's number.
#include "frontend/custom.h"
#include "codegen/dtypes.h"
#include "frontend/custom_instance.h"
#include "frontend/trace.h"
#include "ir/reference/bytes.h"
#include "ir/reference/host_reference.h"
#include "ir/scalar_form.h"
#include <bit>
#include <filesystem>
#include <map>
#include <mutex>

namespace tcc {
namespace {

std::string textOf(ValueTypes types) {
  std::string text;
  for (const ValueType &type : types)
    text += (text.empty() ? "" : ", ") + type.text();
  return "(" + text + ")";
}

std::vector<ValueType> floatsOf(ValueTypes types) {
  std::vector<ValueType> floats;
  for (const ValueType &type : types)
    if (runtime::isFloat(type.dtype))
      floats.push_back(type);
  return floats;
}

std::vector<ValueType> outputsOf(const Record &record) {
  std::vector<ValueType> types;
  for (uint32_t output : record.outputs)
    types.push_back(record.values[output]);
  return types;
}

/// Whether a record's literals are these; they are its own from now on.
bool sameLiterals(std::vector<double> &known, const Record &record) {
  std::vector<double> values;
  for (const Literal &literal : record.literals)
    values.push_back(literal.value);
  const bool same = std::equal(values.begin(), values.end(), known.begin(), known.end(), [](double a, double b) {
    return std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b);
  });
  known = std::move(values);
  return same;
}

/// A C++ reference over the interpreter's tensors.
HostReference hostReference(std::function<std::vector<Array>(std::span<const Array>)> reference) {
  return [reference = std::move(reference)](llvm::ArrayRef<const RefTensor *> operands,
                                            std::vector<RefTensor> &results) -> std::string {
    auto emptyLike = [](const RefTensor &tensor) {
      const llvm::ArrayRef<int64_t> sizes = tensor.shape();
      return Array::uninitialized(Shape(std::span<const int64_t>(sizes.data(), sizes.size())),
                                  dtypeOf(*elementTypeOf(tensor.element())));
    };
    std::vector<Array> given;
    for (const RefTensor *operand : operands) {
      given.push_back(emptyLike(*operand));
      writeBytes(*operand, given.back().raw());
    }
    std::vector<Array> made;
    try {
      made = reference(given);
    } catch (const std::exception &problem) {
      return "threw: " + std::string(problem.what());
    }
    if (made.size() != results.size())
      return "gives " + std::to_string(made.size()) + " results; the rule of shapes says " +
             std::to_string(results.size());
    for (size_t i = 0; i < results.size(); ++i) {
      const Array rule = emptyLike(results[i]);
      const ValueType said{rule.dtype(), rule.shape()};
      const ValueType seen = made[i] ? ValueType{made[i].dtype(), made[i].shape()} : ValueType{said.dtype, Shape({-1})};
      if (!(seen == said))
        return "gives " + (made[i] ? seen.text() : std::string("nothing")) + " as result " + std::to_string(i) +
               "; the rule of shapes says " + said.text();
      results[i] = readBytes(results[i].type, made[i].rawForReading());
    }
    return {};
  };
}

} // namespace

/// The op's options, and what was recorded for operands of some types.
struct Custom::Definition {
  CustomOptions options;
  int64_t hostFunction = 0, hostReference = 0;

  struct Recording {
    Tracer body, gradient;
    std::vector<double> bodyLiterals, gradientLiterals;
    uint64_t number = 0;
    bool known = false;
  };
  std::recursive_mutex mutex;
  bool busy = false;
  std::map<std::string, Recording> recordings; // by the operands' types

  std::string title() const { return "custom op `" + options.name + "`"; }
  Recorded record(Tracer &tracer, const TracedFunction &fn, const std::string &what, ValueTypes types, Loc loc) const;
  std::vector<ValueType> resultsOf(ValueTypes operands, const Record *body, Loc loc) const;
  void setCode(CustomInstance &instance) const;
  uint64_t numberFor(ValueTypes operands, Loc loc);
};

Recorded Custom::Definition::record(Tracer &tracer, const TracedFunction &fn, const std::string &what, ValueTypes types,
                                    Loc loc) const {
  try {
    return tracer.recordBody(title(), [&](std::span<const Tensor> arguments) { return fn(arguments); }, types);
  } catch (const Error &error) {
    if (!error.file().empty())
      throw;
    throw Error(what + " of " + title() + ": " + error.message(), loc);
  }
}

std::vector<ValueType> Custom::Definition::resultsOf(ValueTypes operands, const Record *body, Loc loc) const {
  std::vector<ValueType> results;
  if (options.shapes)
    try {
      results = options.shapes(operands);
    } catch (const std::exception &problem) {
      throw Error("the rule of shapes of " + title() + " refuses " + textOf(operands) + ": " + problem.what(), loc);
    }
  const std::vector<ValueType> ofBody = body ? outputsOf(*body) : results;
  if (options.shapes && results != ofBody)
    throw Error("the rule of shapes of " + title() + " gives " + textOf(results) + " and its body " + textOf(ofBody) +
                    "; they are the same",
                loc);
  if (ofBody.empty())
    throw Error(title() + " has no result; it has at least one", loc);
  return ofBody;
}

void Custom::Definition::setCode(CustomInstance &instance) const {
  if (!options.sharedObject.path.empty()) {
    instance.library = std::filesystem::absolute(options.sharedObject.path).lexically_normal().string();
    instance.symbol = options.sharedObject.symbol;
  }
  instance.hostFunction = hostFunction;
  instance.hostReference = hostReference;
  instance.tolerance = options.tolerance;
  if (options.cost) {
    const CustomCost cost = options.cost(instance.operands, instance.results);
    instance.flops = cost.flops;
    instance.bytes = cost.bytes;
  }
  if (options.cuda.text.empty())
    return;
  CudaLaunch launch;
  if (options.cuda.launch)
    launch = options.cuda.launch(instance.operands, instance.results);
  else
    launch.grid[0] =
        std::max<int64_t>(1, (instance.results[0].shape.elements() + launch.block[0] - 1) / launch.block[0]);
  instance.kernelText = options.cuda.text;
  instance.kernelName = options.cuda.kernel;
  instance.grid = launch.grid;
  instance.block = launch.block;
  instance.sharedBytes = launch.sharedBytes;
  instance.kernelArguments = launch.arguments;
}

uint64_t Custom::Definition::numberFor(ValueTypes operands, Loc loc) {
  const std::lock_guard lock(mutex);
  if (busy)
    throw Error(title() + " calls itself in its own body; a body ends", loc);
  struct Busy {
    bool &flag;
    explicit Busy(bool &flag) : flag(flag) { flag = true; }
    ~Busy() { flag = false; }
  } scope(busy);
  Recording &recording = recordings[textOf(operands)];
  const Record *body = nullptr, *gradient = nullptr;
  bool same = recording.known;
  if (options.body) {
    const Recorded made = record(recording.body, options.body, "the body", operands, loc);
    same = sameLiterals(recording.bodyLiterals, *made.record) && same && made.replayed;
    body = made.record;
  }
  CustomInstance instance;
  instance.name = options.name;
  instance.operands.assign(operands.begin(), operands.end());
  instance.results = resultsOf(operands, body, loc);
  if (options.gradient) {
    std::vector<ValueType> types = instance.operands;
    types.insert(types.end(), instance.results.begin(), instance.results.end());
    const std::vector<ValueType> floats = floatsOf(instance.results), wanted = floatsOf(operands);
    types.insert(types.end(), floats.begin(), floats.end());
    const Recorded made = record(recording.gradient, options.gradient, "the gradient", types, loc);
    same = sameLiterals(recording.gradientLiterals, *made.record) && same && made.replayed;
    if (outputsOf(*made.record) != wanted)
      throw Error("the gradient of " + title() + " gives " + textOf(outputsOf(*made.record)) +
                      "; those of its float operands, " + textOf(wanted) + ", are expected (custom_c3)",
                  loc);
    gradient = made.record;
  }
  if (same)
    return recording.number;
  setCode(instance);
  if (body)
    instance.body = *body;
  if (gradient)
    instance.gradient = *gradient;
  recording.number = internCustom(std::move(instance));
  recording.known = true;
  return recording.number;
}

Custom::Custom(CustomOptions options) : definition(std::make_shared<Definition>()) {
  const std::string &name = options.name;
  auto isLetter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  auto isNamePart = [&](char c) { return isLetter(c) || (c >= '0' && c <= '9') || c == '_' || c == '.'; };
  if (name.empty() || !isLetter(name[0]) || !std::all_of(name.begin(), name.end(), isNamePart))
    throw Error("a custom op is called '" + name +
                "'; a name has letters, digits, '_' and '.', and begins with a letter (custom_c6)");
  const std::string title = "custom op `" + name + "`";
  if (!options.body && !(options.reference && options.shapes))
    throw Error(title + " has no body; without one it needs a reference and a rule of shapes (custom_c4)");
  if (options.function && !options.sharedObject.path.empty())
    throw Error(title + " has a function and a shared object for the CPU; one of them is enough");
  if (options.sharedObject.path.empty() != options.sharedObject.symbol.empty() ||
      options.cuda.text.empty() != options.cuda.kernel.empty())
    throw Error(title +
                " has half of its code: a shared object needs path and symbol, CUDA text and kernel (custom_c5)");
  if (options.function)
    definition->hostFunction = runtime::addHostFunction(options.function);
  if (options.reference && !options.body)
    definition->hostReference = addHostReference(hostReference(options.reference));
  definition->options = std::move(options);
}

std::vector<Tensor> Custom::call(std::span<const Tensor> operands, Loc loc) const {
  Tracer &tracer = Tracer::current(loc);
  std::vector<ValueType> types;
  for (const Tensor &operand : operands)
    types.push_back(tracer.typeOf(operand, loc));
  const uint64_t number = definition->numberFor(types, loc);
  return tracer.ops(OpKind::custom, operands, std::span(&number, 1), loc);
}

Tensor Custom::only(std::vector<Tensor> results, Loc loc) const {
  if (results.size() != 1)
    throw Error(definition->title() + " has " + std::to_string(results.size()) + " results; call() gives them all",
                loc);
  return results[0];
}

} // namespace tcc
