// Ops of one's own in four forms (docs/CUSTOM.md): a graph, a function of this program, a function of a shared object,
// CUDA text. custom_ops LIBRARY: where models/custom_square.c was built. Prints what each of them computes.
#include "models/custom_cuda.h"
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <tcc/tcc.h>

using namespace tcc;

namespace {

// A graph: it fuses with what stands around it, here with the loss. The gradient is the user's, in terms of the result.
const Custom softcap = customOp({.name = "softcap",
                                 .body = [](const Tensor &x) { return 30.0 * tanh(x / 30.0); },
                                 .gradient =
                                     [](const Tensor &, const Tensor &y, const Tensor &dy) {
                                       const Tensor share = y / 30.0;
                                       return dy * (1.0 - share * share);
                                     }});

// A function: a running maximum, which no op of the dialect is. Its reference says the same more plainly.
void runningMaximum(const runtime::CustomArguments &call) {
  const std::span<const float> in = call.input<float>(0);
  const std::span<float> out = call.output<float>(0);
  float most = -INFINITY;
  for (size_t i = 0; i < in.size(); ++i)
    out[i] = most = in[i] > most ? in[i] : most;
}
std::vector<Array> runningMaximumPlainly(std::span<const Array> in) {
  Array out(in[0].shape());
  for (size_t i = 0; i < out.data<float>().size(); ++i) {
    out.data<float>()[i] = -INFINITY;
    for (size_t j = 0; j <= i; ++j)
      out.data<float>()[i] = std::max(out.data<float>()[i], in[0].read<float>()[j]);
  }
  return {out};
}
const Custom maximumSoFar = customOp({.name = "maximum_so_far",
                                      .shapes = [](ValueTypes in) { return std::vector<ValueType>{in[0]}; },
                                      .reference = runningMaximumPlainly,
                                      .function = runningMaximum});

void show(const char *name, const Array &values) {
  std::printf("%s:", name);
  for (float value : values.read<float>())
    std::printf(" %g", value);
  std::printf("\n");
}

} // namespace

int main(int argc, char **argv) {
  if (argc != 2) {
    std::fprintf(stderr, "custom_ops LIBRARY\n");
    return 2;
  }
  try {
    const std::vector<float> numbers = {10, -20, 40, 5, 60, -7};
    const Array x = Array::of(numbers, {2, 3});
    const std::vector<int32_t> wanted = {2, 1};

    Function loss = compile("loss", [](Tensor logits, Tensor targets) {
      const Tensor value = crossEntropy(softcap(logits), targets);
      return std::pair(value, gradient(value, logits));
    });
    const std::vector<Array> results = loss(x, Array::of(wanted, {2}));
    std::printf("softcap and loss in %lld kernels: %g\n", static_cast<long long>(loss.lastCompile().kernels),
                results[0].item());
    show("its gradient", results[1]);

    Function largest = compile("largest", [](Tensor values) { return maximumSoFar(reshape(values, {6})) + 0.5; });
    show("maximum so far, and a half", largest(x)[0]);

    // A shared object: it can be saved with a step, which then names it by path and symbol.
    const Custom square =
        customOp({.name = "square",
                  .body = [](const Tensor &t) { return t * t; },
                  .gradient = [](const Tensor &t, const Tensor &, const Tensor &dy) { return 2.0 * t * dy; },
                  .sharedObject = {argv[1], "custom_square"}});
    Function slope = compile("slope", [&](Tensor values) { return gradient(sum(square(values)), values); });
    show("slope of the squares", slope(x)[0]);

    // CUDA text: on a CPU the op is its body.
    const Custom scaled = models::scaleRows();
    Function rows = compile("rows", [&](Tensor values) { return scaled(values, sum(values, 1)); });
    show("rows times their sums", rows(x)[0]);
  } catch (const Error &error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
}
