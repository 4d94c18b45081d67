// The step of an optimizer over some equal matrices as .graph text, for optimizer_sweep.py: gradients, learning rate
// and number come in, parameters and moments are states, the gradients' norm comes out.
//   optimizer_graph NAME COUNT SIDE > step.graph     COUNT matrices of SIDE x SIDE
#include "frontend/compile.h"
#include "frontend/error.h"
#include "frontend/optim.h"

#include <cstdio>
#include <cstdlib>
#include <memory>

namespace {

using namespace tcc;

std::unique_ptr<optim::Optimizer> optimizerOf(const std::string &name, std::vector<Parameter> parameters) {
  if (name == "adamw")
    return std::make_unique<optim::Adamw>(std::move(parameters));
  if (name == "sgd")
    return std::make_unique<optim::Sgd>(std::move(parameters));
  if (name == "lion")
    return std::make_unique<optim::Lion>(std::move(parameters));
  if (name == "adafactor")
    return std::make_unique<optim::Adafactor>(std::move(parameters));
  if (name == "muon")
    return std::make_unique<optim::Muon>(std::move(parameters));
  throw Error("unknown optimizer '" + name + "' (one of adamw sgd lion adafactor muon)");
}

void print(const std::string &name, int64_t count, int64_t side) {
  std::vector<Parameter> parameters;
  std::vector<Array> inputs = {Array(1.0f), Array(1e-3f), Array(1.0f)};
  FunctionOptions options;
  options.inputs = {"loss", "lr", "step"};
  options.outputs = {"norm"};
  for (int64_t i = 0; i < count; ++i) {
    parameters.emplace_back("p" + std::to_string(i), Shape{side, side});
    options.inputs.push_back("g" + std::to_string(i));
    inputs.emplace_back(Shape{side, side});
  }
  const std::unique_ptr<optim::Optimizer> optimizer = optimizerOf(name, std::move(parameters));
  Function step(
      "optimizer_step",
      [&](std::span<const Tensor> in) {
        return std::vector<Tensor>{optimizer->step(in[0], in.subspan(3), in[1], in[2]).norm};
      },
      std::move(options));
  std::fputs(step.graph(inputs).c_str(), stdout);
}

} // namespace

int main(int count, char **arguments) {
  if (count != 4 || std::atoll(arguments[2]) < 1 || std::atoll(arguments[3]) < 1) {
    std::fputs("optimizer_graph NAME COUNT SIDE > step.graph\n", stderr);
    return 2;
  }
  try {
    print(arguments[1], std::atoll(arguments[2]), std::atoll(arguments[3]));
  } catch (const Error &error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
  return 0;
}
