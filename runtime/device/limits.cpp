#include "runtime/device/limits.h"
#include "runtime/executable.h"
#include "runtime/profiler.h"

#include <algorithm>
#include <cstring>
#include <optional>

namespace tcc::runtime {
namespace {

constexpr double enoughSeconds = 2e-3;

/// A step of one instruction over states.
Plan planOf(std::vector<TensorSpec> states, int64_t workspace) {
  Plan plan;
  plan.name = "limit";
  plan.alignment = 256;
  plan.states = std::move(states);
  for (uint32_t i = 0; i < plan.states.size(); ++i)
    plan.buffers.push_back({Space::state, i, 0, plan.states[i].bytes()});
  plan.arenaBytes = workspace;
  if (workspace > 0)
    plan.buffers.push_back({Space::arena, 0, 0, workspace});
  plan.instructions.resize(1);
  return plan;
}

Plan copyPlan(int64_t bytes) {
  Plan plan = planOf({{"from", DType::i1, {bytes}}, {"to", DType::i1, {bytes}}}, 0);
  plan.instructions[0].call = CopyCall{0, 1};
  return plan;
}

Plan productPlan(int64_t size, DType dtype, bool tf32) {
  constexpr int64_t workspace = int64_t(32) << 20;
  Plan plan = planOf({{"a", dtype, {size, size}}, {"b", dtype, {size, size}}, {"c", dtype, {size, size}}}, workspace);
  GemmDesc desc;
  desc.m = desc.n = desc.k = size;
  desc.a = desc.b = desc.c = {.dtype = dtype, .rowStride = size};
  desc.tf32 = tf32 && dtype == DType::f32;
  plan.instructions[0].call = MatmulCall{desc, 0, 1, 2, noBuffer, 3};
  return plan;
}

/// Bytes of values between -1 and 1 without pattern: products of zeros run faster, and bytes alone may be NaN.
std::string values(int64_t bytes, DType dtype) {
  std::string text(static_cast<size_t>(bytes), '\0');
  uint32_t state = 1;
  for (int64_t at = 0; at < bytes; at += byteSize(dtype)) {
    state = state * 1664525 + 1013904223;
    const float value = float(int32_t(state)) * 0x1p-31f;
    const uint16_t narrow = dtype == DType::f16 ? floatToF16(value) : floatToBf16(value);
    if (dtype == DType::f32)
      std::memcpy(&text[static_cast<size_t>(at)], &value, 4);
    else if (byteSize(dtype) == 2)
      std::memcpy(&text[static_cast<size_t>(at)], &narrow, 2);
  }
  return text;
}

/// Seconds of the step's fastest run by the device's clock; nothing where it fails.
std::optional<double> secondsOf(const std::shared_ptr<Device> &device, Plan plan) {
  constexpr int runs = 5;
  std::vector<DeviceMemory> memory;
  std::vector<TensorRef> states;
  for (const TensorSpec &spec : plan.states) {
    auto made = device->allocate(spec.bytes());
    const std::string bytes = values(spec.bytes(), spec.dtype);
    if (!made || device->copyIn(made->address, bytes.data(), made->bytes))
      return {};
    states.push_back({made->address, made->bytes});
    memory.push_back(std::move(*made));
  }
  auto executable =
      Executable::load(Artefact{{{device->codeTarget(), {}, std::move(plan), {}}}, {}}, {.device = device});
  if (!executable)
    return {};
  double best = 0;
  for (int i = 0; i < runs; ++i) {
    Profiler profiler;
    if (!(*executable)->start({}, states, &profiler))
      return {};
    const double seconds = 1e-9 * double(profiler.all().front().durationNs);
    if (i == 1 || (i > 1 && seconds < best)) // the first warms up
      best = seconds;
  }
  return best;
}

/// The best rate of work(size) a second, sizes doubling.
template <typename MakePlan, typename Work>
double bestRate(const std::shared_ptr<Device> &device, int64_t smallest, int64_t largest, MakePlan &&makePlan,
                Work &&work) {
  double best = 0;
  for (int64_t size = smallest; size <= largest; size *= 2) {
    const std::optional<double> seconds = secondsOf(device, makePlan(size));
    if (!seconds)
      break;
    if (*seconds > 0)
      best = std::max(best, work(double(size)) / *seconds);
    if (*seconds > enoughSeconds)
      break;
  }
  return best;
}

} // namespace

double measureCopyRate(const std::shared_ptr<Device> &device) {
  return bestRate(device, int64_t{1} << 16, int64_t{1} << 28, copyPlan, [](double bytes) { return 2 * bytes; });
}

double measureProductRate(const std::shared_ptr<Device> &device, DType dtype, bool tf32) {
  return bestRate(
      device, 64, 4096, [&](int64_t size) { return productPlan(size, dtype, tf32); },
      [](double size) { return 2 * size * size * size; });
}

} // namespace tcc::runtime
