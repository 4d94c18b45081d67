// breaks_losses FILE: writes a small GPT's first weights to FILE, trains it for 50 steps of plain SGD with a step that
// asks for its loss, prints it, branches on it and loops by it, with a cond in the graph, and prints the report.
// breaks_parity.py does the same in eager PyTorch.
#include "models/checkpoint.h"
#include "models/model.h"

#include <cstdio>

using namespace tcc;
using namespace tcc::models;

namespace {

constexpr Gpt2Config small{.layers = 2, .heads = 2, .width = 32, .sequence = 16, .vocab = 29};
constexpr int64_t batch = 4;

Array tokensOf(int64_t shift) {
  Array tokens({batch, small.sequence}, DType::i32);
  for (int64_t i = 0; i < tokens.shape().elements(); ++i) {
    const int64_t place = (i / small.sequence) * 7 + i % small.sequence + shift;
    tokens.setItem(i, static_cast<double>((place * place + 3 * place) % small.vocab));
  }
  return tokens;
}

/// The step with its breaks. What the loop and the branch decide scales the gradients.
Function trainingStep(const Model &model) {
  const auto step = [&model](Tensor tokens, Tensor targets, Tensor bound, Tensor limit) {
    const Tensor loss = modelLoss(model, tokens, targets);
    const double seen = loss.item();
    print("loss", loss);
    int turns = 0;
    for (Tensor left = loss; left > bound; left = left * 0.5)
      ++turns;
    Tensor trained = loss * (1.0 / (1.0 + seen));
    if (loss > limit)
      trained = trained * 0.5;
    trained = trained * (1.0 + 0.125 * turns);
    const Tensor embedding = model.parameters().front();
    trained = cond(
        loss > 3.0, [&] { return trained * (1.0 - 0.1 * tanh(trained)); },
        [&] { return trained + 0.01 * mean(embedding * embedding); });
    const std::vector<Tensor> gradients = gradient(trained, model.parameters());
    for (size_t i = 0; i < gradients.size(); ++i)
      assign(model.parameters()[i], model.parameters()[i] - 0.1 * gradients[i]);
    return loss;
  };
  FunctionOptions options;
  options.report = [](std::string_view) {};
  return compile("training_step", step, std::move(options));
}

} // namespace

int main(int argc, char **argv) {
  if (argc != 2) {
    std::fprintf(stderr, "breaks_losses FILE.safetensors\n");
    return 2;
  }
  Model model(small);
  model.initialize(5);
  writeTensors(argv[1], model.named());
  Function step = trainingStep(model);
  double last = 3.4; // about ln 29
  for (int number = 0; number < 50; ++number) {
    const int turns = number < 25 ? 3 : 7;
    const Array bound(static_cast<float>(1.4 * last / (1 << turns))), limit(number % 3 ? 100.0f : 0.0f);
    last = step(tokensOf(0), tokensOf(1), bound, limit)[0].item();
  }
  std::printf("%s", step.report().text().c_str());
}
