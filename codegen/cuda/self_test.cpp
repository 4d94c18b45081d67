// The step that is tested has the input x [8, 24] and the state w [24, 40]. It computes p = x w and y = 2 p + 1, and
// sets w to w + 1.
#include "codegen/cuda/self_test.h"
#include "codegen/cuda/device/device_text.h"
#include "runtime/device/cuda/nvrtc.h"
#include "runtime/executable.h"

#include <cstring>

namespace tcc::cuda {
namespace {

using namespace runtime;

constexpr int64_t rows = 8, inner = 24, columns = 40, productBytes = rows * columns * 4,
                  weightBytes = inner * columns * 4;
constexpr int64_t workspace = int64_t(1) << 20;
constexpr int steps = 4; // call by call, captured, and the graph again

constexpr const char *kernels = R"(
KERNEL(tcc_self_test_affine, 128, 1)(const float *p, float *y, int n) {
  int i = block_x() * 128 + thread_x();
  if (i < n)
    y[i] = 2.0f * p[i] + 1.0f;
}
KERNEL(tcc_self_test_next, 128, 1)(float *w, int n) {
  int i = block_x() * 128 + thread_x();
  if (i < n)
    w[i] = w[i] + 1.0f;
}
)";

float inputAt(int64_t i, int step) {
  return static_cast<float>((i * 7 + step) % 5 - 2);
}
float weightAt(int64_t i) {
  return static_cast<float>(i * 3 % 7 - 3);
}

struct PointerUse {
  BufferId buffer;
  bool written, read;
};

Instruction launch(uint32_t kernel, const char *label, std::initializer_list<PointerUse> pointers, int64_t elements) {
  LaunchCall call;
  call.kernel = kernel;
  call.grid = {(elements + 127) / 128, 1, 1};
  call.block = {128, 1, 1};
  for (const PointerUse &pointer : pointers) {
    const auto offset = static_cast<int64_t>(call.parameters.size());
    call.parameterOffsets.push_back(offset);
    call.pointerSlots.push_back({offset, pointer.buffer, pointer.written, pointer.read});
    call.parameters.append(8, '\0');
  }
  call.parameterOffsets.push_back(static_cast<int64_t>(call.parameters.size()));
  const auto count = static_cast<int32_t>(elements);
  call.parameters.append(reinterpret_cast<const char *>(&count), sizeof count);
  Instruction made;
  made.call = std::move(call);
  made.label = label;
  return made;
}

Plan testPlan() {
  Plan plan;
  plan.name = "self-test";
  plan.alignment = 256;
  plan.inputs = {{"x", DType::f32, {rows, inner}}};
  plan.outputs = {{"y", DType::f32, {rows, columns}}};
  plan.states = {{"w", DType::f32, {inner, columns}}};
  plan.arenaBytes = 2048 + workspace;
  plan.buffers = {{Space::input, 0, 0, rows * inner * 4},
                  {Space::state, 0, 0, weightBytes},
                  {Space::arena, 0, 0, productBytes},
                  {Space::arena, 0, 2048, workspace},
                  {Space::output, 0, 0, productBytes}};
  plan.kernels = {{"tcc_self_test_affine", 3, 0, "", 0}, {"tcc_self_test_next", 2, 0, "", 0}};
  GemmDesc desc;
  desc.m = rows, desc.n = columns, desc.k = inner;
  desc.a = {DType::f32, inner, 1, {}};
  desc.b = desc.c = {DType::f32, columns, 1, {}};
  Instruction product;
  product.call = MatmulCall{desc, 0, 1, 2, noBuffer, 3};
  product.label = "the product x w";
  plan.instructions = {product, launch(0, "the kernel 2 p + 1", {{2, false, true}, {4, true, false}}, rows * columns),
                       launch(1, "the kernel w + 1", {{1, true, true}}, inner * columns)};
  return plan;
}

Expected<Artefact> compileTest(const Device &device) {
  const std::string target = device.codeTarget();
  try {
    runtime::cuda::CompileRequest request{
        "self_test.cu", deviceText(Prelude::Portable) + kernels, target.substr(target.find(':') + 1), {"--fmad=false"}};
    request.refuseFindings = false; // of a build without optimisation
    const runtime::cuda::Nvrtc nvrtc = runtime::cuda::Nvrtc::open();
    if (!nvrtc.supports(request.architecture))
      return Error(nvrtc.unknown(request.architecture) + "; a newer one may know the device's");
    const std::vector<char> cubin = nvrtc.compile(request).cubin;
    return Artefact{{{target, {}, testPlan(), {std::string(cubin.begin(), cubin.end())}}}, {}};
  } catch (const CudaError &error) {
    return Error(error.what());
  }
}

/// What y must be in `step`.
float expectedAt(int64_t row, int64_t column, int step) {
  float sum = 0;
  for (int64_t k = 0; k < inner; ++k)
    sum += inputAt(row * inner + k, step) * (weightAt(k * columns + column) + static_cast<float>(step));
  return 2 * sum + 1;
}

Error wrong(const std::string &what, int64_t index, int step, float seen, float expected) {
  return Error("the GPU computes wrongly: step " + std::to_string(step + 1) +
               (step == 0 ? " (kernel by kernel)" : " (a captured graph)") + ", value " + std::to_string(index) +
               " of " + what + " is " + std::to_string(seen) + ", " + std::to_string(expected) + " is right");
}

} // namespace

Error selfTest(const std::shared_ptr<Device> &device) {
  Expected<Artefact> artefact = compileTest(*device);
  if (!artefact)
    return artefact.error();
  auto executable = Executable::load(std::move(*artefact), {.device = device});
  if (!executable)
    return executable.error();
  Expected<TensorStorage> x = TensorStorage::allocate(rows * inner * 4), w = TensorStorage::allocate(weightBytes);
  auto state = device->allocate(weightBytes);
  for (const Error &error :
       {x ? Error::success() : x.error(), w ? Error::success() : w.error(), state ? Error::success() : state.error()})
    if (error)
      return error;
  for (int64_t i = 0; i < inner * columns; ++i)
    w->as<float>()[i] = weightAt(i);
  if (Error error = device->copyIn(state->address, w->data(), weightBytes))
    return error;
  for (int step = 0; step < steps; ++step) {
    for (int64_t i = 0; i < rows * inner; ++i)
      x->as<float>()[i] = inputAt(i, step);
    const ConstTensorRef inputs[] = {x->ref()};
    const TensorRef states[] = {{state->address, weightBytes}};
    auto outputs = (*executable)->start(inputs, states);
    if (!outputs)
      return outputs.error();
    std::vector<float> y(rows * columns);
    if (Error error = (*outputs)->read(0, y.data(), productBytes))
      return error;
    for (int64_t i = 0; i < rows * columns; ++i)
      if (const float right = expectedAt(i / columns, i % columns, step); y[i] != right)
        return wrong("y = 2 x w + 1", i, step, y[i], right);
  }
  if (Error error = device->copyOut(w->data(), state->address, weightBytes))
    return error;
  for (int64_t i = 0; i < inner * columns; ++i)
    if (const float right = weightAt(i) + steps; w->as<float>()[i] != right)
      return wrong("the weights", i, steps - 1, w->as<float>()[i], right);
  return Error::success();
}

} // namespace tcc::cuda
