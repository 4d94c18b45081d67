#include "kernel_text.h"

namespace tcc::test {

static std::string tensorText(const std::string &type) {
  return "tensor<" + type + ">";
}

std::string KernelText::module() const {
  std::string parameters, bindings, types, names;
  auto append = [](std::string &list, const std::string &item) { list += (list.empty() ? "" : ", ") + item; };
  for (const Port &port : inputs) {
    append(parameters, "%arg_" + port.name + ": " + tensorText(port.type));
    append(bindings, "%" + port.name + " = %arg_" + port.name + " : " + tensorText(port.type));
  }
  for (const Port &port : results) {
    append(types, tensorText(port.type));
    append(names, "%" + port.name);
  }
  std::string count = results.size() == 1 ? "" : ":" + std::to_string(results.size()), returned;
  for (size_t i = 0; i < results.size(); ++i)
    append(returned, results.size() == 1 ? "%out" : "%out#" + std::to_string(i));
  return "func.func @main(" + parameters + ") -> (" + types + ") {\n  %out" + count + " = tcc.kernel (" + bindings +
         ") -> (" + types + ") {\n" + body + "\n    tcc.yield " + names + " : " + types + "\n  }\n  return " +
         returned + " : " + types + "\n}\n";
}

} // namespace tcc::test
