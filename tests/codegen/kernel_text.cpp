#include "kernel_text.h"
#include <cstdio>

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

std::string withTypes(std::string body, const std::vector<std::pair<std::string, std::string>> &types) {
  for (const auto &[name, type] : types)
    for (size_t at; (at = body.find("!" + name)) != std::string::npos;)
      body.replace(at, name.size() + 1, tensorText(type));
  return body;
}

static std::string inverseOf(int64_t columns) {
  char text[64];
  std::snprintf(text, sizeof text, "%%inverse = tcc.constant dense<%.9g> : !r\n", 1.0 / static_cast<double>(columns));
  return text;
}

KernelText layerNorm(int64_t rows, int64_t columns) {
  const std::string count = std::to_string(rows) + "x", column = std::to_string(columns) + "xf32";
  const std::string full = count + column, row = count + "1xf32";
  return {{{"x", full}, {"w", column}, {"b", column}},
          {{"y", full}, {"mean", row}, {"rstd", row}},
          withTypes(inverseOf(columns) + R"(
    %eps = tcc.constant dense<1.0e-5> : !r
    %sum = tcc.reduce_sum %x axes [1] : !f -> !r
    %mean = tcc.mul %sum, %inverse : !r
    %mb = tcc.broadcast %mean : !r -> !f
    %d = tcc.sub %x, %mb : !f
    %d2 = tcc.mul %d, %d : !f
    %v = tcc.reduce_sum %d2 axes [1] : !f -> !r
    %vm = tcc.mul %v, %inverse : !r
    %ve = tcc.add %vm, %eps : !r
    %rstd = tcc.rsqrt %ve : !r
    %rb = tcc.broadcast %rstd : !r -> !f
    %h = tcc.mul %d, %rb : !f
    %wb = tcc.broadcast %w : !c -> !f
    %bb = tcc.broadcast %b : !c -> !f
    %hw = tcc.mul %h, %wb : !f
    %y = tcc.add %hw, %bb : !f)",
                    {{"f", full}, {"r", row}, {"c", column}})};
}

KernelText layerNormBackward(int64_t blocks, int64_t rows, int64_t columns) {
  const std::string column = std::to_string(columns) + "xf32", block = std::to_string(blocks) + "x";
  const std::string full = block + std::to_string(rows) + "x" + column, row = block + std::to_string(rows) + "x1xf32",
                    sums = block + "1x" + column;
  return {{{"x", full}, {"dy", full}, {"w", column}, {"mean", row}, {"rstd", row}},
          {{"dx", full}, {"dw", sums}, {"db", sums}},
          withTypes(inverseOf(columns) + R"(
    %mb = tcc.broadcast %mean : !r -> !f
    %rb = tcc.broadcast %rstd : !r -> !f
    %d = tcc.sub %x, %mb : !f
    %h = tcc.mul %d, %rb : !f
    %wb = tcc.broadcast %w : !c -> !f
    %g = tcc.mul %dy, %wb : !f
    %gh = tcc.mul %g, %h : !f
    %s0 = tcc.reduce_sum %g axes [2] : !f -> !r
    %s1 = tcc.reduce_sum %gh axes [2] : !f -> !r
    %m0 = tcc.mul %s0, %inverse : !r
    %m1 = tcc.mul %s1, %inverse : !r
    %m0b = tcc.broadcast %m0 : !r -> !f
    %m1b = tcc.broadcast %m1 : !r -> !f
    %t0 = tcc.sub %g, %m0b : !f
    %t1 = tcc.mul %h, %m1b : !f
    %t2 = tcc.sub %t0, %t1 : !f
    %dx = tcc.mul %t2, %rb : !f
    %dyh = tcc.mul %dy, %h : !f
    %dw = tcc.reduce_sum %dyh axes [1] : !f -> !s
    %db = tcc.reduce_sum %dy axes [1] : !f -> !s)",
                    {{"f", full}, {"r", row}, {"s", sums}, {"c", column}})};
}

} // namespace tcc::test
