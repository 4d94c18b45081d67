#include "models/parameter_spec.h"
#include "models/counter_random.h"

#include <algorithm>
#include <thread>

namespace tcc::models {

namespace {

void fillNormal(uint64_t seed, uint64_t stream, double deviation, std::span<float> out, size_t begin, size_t end) {
  for (size_t i = begin; i < end; ++i)
    out[i] = float(deviation * normalBits(randomBits(seed, stream, i)));
}

} // namespace

int64_t ParameterSpec::elements() const {
  int64_t count = 1;
  for (int64_t dim : shape)
    count *= dim;
  return count;
}

ParameterSpec vectorSpec(std::string name, int64_t size, InitialValue initial) {
  return {std::move(name), {size}, false, initial, 0};
}

ParameterSpec matrixSpec(std::string name, int64_t rows, int64_t columns, double deviation) {
  return {
      std::move(name), {rows, columns}, true, deviation > 0 ? InitialValue::Normal : InitialValue::Zeros, deviation};
}

void fillInitial(const ParameterSpec &parameter, uint64_t seed, std::span<float> out) {
  if (parameter.initial != InitialValue::Normal) {
    std::fill(out.begin(), out.end(), parameter.initial == InitialValue::Ones ? 1.f : 0.f);
    return;
  }
  // Each value depends on its index alone, so the number of threads never shows.
  const uint64_t stream = streamOf(parameter.name);
  constexpr size_t share = size_t(1) << 18;
  size_t threads = std::clamp<size_t>(out.size() / share, 1, std::max(1u, std::thread::hardware_concurrency()));
  auto part = [&](size_t index) {
    fillNormal(seed, stream, parameter.deviation, out, out.size() * index / threads,
               out.size() * (index + 1) / threads);
  };
  std::vector<std::jthread> workers;
  for (size_t i = 1; i < threads; ++i)
    workers.emplace_back(part, i);
  part(0);
}

} // namespace tcc::models
