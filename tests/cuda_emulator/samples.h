// The sample kernels of kernels/*.cu with inputs, references and launches, for the tests of the emulator itself.
#pragma once

#include "tests/cuda_emulator/emulator.h"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <functional>
#include <random>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace tcc::emulator {

inline std::string kernelText(const std::string &file) {
  std::ifstream in(std::string(TCC_EMULATOR_KERNELS) + "/" + file);
  if (!in)
    throw std::runtime_error("no file " + file);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

inline std::uint16_t bf16Bits(float x) {
  std::uint32_t word;
  std::memcpy(&word, &x, 4);
  return static_cast<std::uint16_t>((word + 0x7fff + ((word >> 16) & 1)) >> 16);
}
inline float bf16Value(std::uint16_t bits) {
  std::uint32_t word = static_cast<std::uint32_t>(bits) << 16;
  float value;
  std::memcpy(&value, &word, 4);
  return value;
}

/// A buffer of normally distributed bf16.
struct RandomBf16 : DeviceBuffer {
  RandomBf16(std::size_t count, std::string name, unsigned seed) : DeviceBuffer(2 * count, std::move(name)) {
    std::mt19937 generator(seed);
    std::normal_distribution<float> normal;
    for (std::size_t i = 0; i < count; ++i)
      as<std::uint16_t>()[i] = bf16Bits(normal(generator));
  }
  float operator[](std::size_t i) const { return bf16Value(as<std::uint16_t>()[i]); }
};

/// What a sample's run gave: findings, the output's bytes and its greatest error.
struct SampleRun {
  LaunchResult result;
  std::vector<char> bytes;
  double error = 0;
};

inline std::vector<char> bytesOf(const DeviceBuffer &buffer) {
  const char *data = static_cast<const char *>(buffer.data());
  return {data, data + buffer.bytes()};
}
inline double worse(double error, double wanted, double got) {
  double difference = std::fabs(wanted - got);
  return difference <= 1e30 ? std::max(error, difference) : INFINITY; // NaN too
}

struct Sample {
  std::string name;
  double tolerance;
  std::function<SampleRun(const Module &, const Schedule &)> run;
};

inline SampleRun runLayerNorm(const Module &module, const Schedule &schedule) {
  constexpr int rows = 5, columns = 200;
  DeviceBuffer in(rows * columns * 4, "in"), out(rows * columns * 2, "out");
  out.writeOnce(2);
  std::mt19937 generator(3);
  std::normal_distribution<float> normal(1.0f, 2.0f);
  for (int i = 0; i < rows * columns; ++i)
    in.as<float>()[i] = normal(generator);
  SampleRun run{launch(module, "layer_norm", {rows}, {128}, 0, schedule, in.as<float>(), out.as<void>(), columns),
                bytesOf(out)};
  for (int row = 0; row < rows; ++row) {
    const float *x = in.as<float>() + row * columns;
    double mean = 0, variance = 0;
    for (int i = 0; i < columns; ++i)
      mean += x[i] / double(columns);
    for (int i = 0; i < columns; ++i)
      variance += (x[i] - mean) * (x[i] - mean) / columns;
    for (int i = 0; i < columns; ++i)
      run.error = worse(run.error, (x[i] - mean) / std::sqrt(variance + 1e-5),
                        bf16Value(out.as<std::uint16_t>()[row * columns + i]));
  }
  return run;
}

inline SampleRun runProduct(const Module &module, const Schedule &schedule) {
  constexpr int m = 100, n = 72, k = 96;
  RandomBf16 a(m * k, "a", 1), b(n * k, "b", 2);
  DeviceBuffer out(m * n * 4, "out");
  out.writeOnce(4);
  SampleRun run{launch(module, "product", {(n + 63) / 64, (m + 63) / 64}, {128}, 16384, schedule, a.as<void>(),
                       b.as<void>(), out.as<float>(), m, n, k),
                bytesOf(out)};
  for (int i = 0; i < m; ++i)
    for (int j = 0; j < n; ++j) {
      double sum = 0;
      for (int c = 0; c < k; ++c)
        sum += double(a[i * k + c]) * b[j * k + c];
      run.error = worse(run.error, sum, out.as<float>()[i * n + j]);
    }
  return run;
}

/// Flash attention for any number of rows; `heads` is batch · heads.
inline SampleRun runFlash(const Module &module, const Schedule &schedule, int rows, int heads) {
  std::size_t elements = static_cast<std::size_t>(rows) * static_cast<std::size_t>(heads) * 64;
  RandomBf16 q(elements, "q", 1), k(elements, "k", 2), v(elements, "v", 3);
  DeviceBuffer out(2 * elements, "out"), logSumExp(elements / 16, "logSumExp");
  out.writeOnce(2);
  logSumExp.writeOnce(4);
  SampleRun run{launch(module, "flash", {static_cast<unsigned>((rows + 63) / 64), static_cast<unsigned>(heads)}, {128},
                       5 * 8192, schedule, q.as<void>(), k.as<void>(), v.as<void>(), out.as<void>(),
                       logSumExp.as<float>(), rows, 0.125f),
                bytesOf(out)};
  for (int head = 0; head < heads; ++head)
    for (int i = 0; i < rows; ++i) {
      auto at = [&](int row, int c) { return static_cast<std::size_t>((head * rows + row) * 64 + c); };
      std::vector<double> p(static_cast<std::size_t>(i) + 1);
      double sum = 0;
      for (int j = 0; j <= i; ++j) {
        double score = 0;
        for (int c = 0; c < 64; ++c)
          score += double(q[at(i, c)]) * k[at(j, c)];
        sum += p[static_cast<std::size_t>(j)] = std::exp(score * 0.125);
      }
      run.error = worse(run.error, std::log2(sum), logSumExp.as<float>()[head * rows + i]);
      for (int c = 0; c < 64; ++c) {
        double value = 0;
        for (int j = 0; j <= i; ++j)
          value += p[static_cast<std::size_t>(j)] / sum * v[at(j, c)];
        run.error = worse(run.error, value, bf16Value(out.as<std::uint16_t>()[at(i, c)]));
      }
    }
  return run;
}

inline SampleRun runRing(const Module &module, const Schedule &schedule) {
  constexpr int tiles = 5;
  DeviceBuffer in(tiles * 256, "in"), out(tiles * 256, "out");
  out.writeOnce(4);
  for (int i = 0; i < tiles * 64; ++i)
    in.as<float>()[i] = static_cast<float>(i);
  SampleRun run{launch(module, "ring", {1}, {128}, 0, schedule, in.as<float>(), out.as<float>(), tiles), bytesOf(out)};
  for (int i = 0; i < tiles * 64; ++i)
    run.error = worse(run.error, 2.0 * (i / 64 * 64 + 63 - i % 64) + 1.0, out.as<float>()[i]);
  return run;
}

inline SampleRun runPipeline(const Module &module, const Schedule &schedule) {
  constexpr int m = 130, n = 72, k = 320; // n, k: rows of maps are multiples of 16 bytes
  RandomBf16 a(m * k, "a", 1), b(n * k, "b", 2);
  DeviceBuffer out(m * n * 4, "out");
  out.writeOnce(4);
  EncodedMap mapA = makeTensorMap({MapElement::Bf16, a.data(), {k, m}, {k * 2}, {64, 128}, 128});
  EncodedMap mapB = makeTensorMap({MapElement::Bf16, b.data(), {n, k}, {n * 2}, {64, 64}, 128});
  EncodedMap mapOut = makeTensorMap({MapElement::F32, out.data(), {n, m}, {n * 4}, {32, 64}, 0});
  int depth = k;
  void *args[] = {&mapA, &mapB, &mapOut, &depth};
  SampleRun run{module.launch("pipeline", {(n + 127) / 128, (m + 127) / 128}, {384}, 65536, args, schedule),
                bytesOf(out)};
  for (int i = 0; i < m; ++i)
    for (int j = 0; j < n; ++j) {
      double sum = 0;
      for (int c = 0; c < k; ++c)
        sum += double(a[i * k + c]) * b[c * n + j];
      run.error = worse(run.error, sum, out.as<float>()[i * n + j]);
    }
  return run;
}

inline SampleRun runOverlap(const Module &module, const Schedule &schedule) {
  constexpr int tiles = 3;
  RandomBf16 a(4096, "a", 1), b(4096 * tiles, "b", 2);
  DeviceBuffer out(4096 * 4, "out");
  out.writeOnce(4);
  SampleRun run{launch(module, "overlap", {1}, {128}, 8192 * (1 + tiles), schedule, a.as<void>(), b.as<void>(),
                       out.as<float>(), tiles),
                bytesOf(out)};
  std::vector<double> expected(4096);
  for (int i = 0; i < 64; ++i)
    for (int j = 0; j < 64 * tiles; ++j) {
      double score = 0;
      for (int c = 0; c < 64; ++c)
        score += double(a[i * 64 + c]) * b[j * 64 + c];
      for (int c = 0; c < 64; ++c)
        expected[i * 64 + c] += bf16Value(bf16Bits(static_cast<float>(score))) * b[j * 64 + c];
    }
  for (int i = 0; i < 4096; ++i)
    run.error = worse(run.error, expected[i], out.as<float>()[i]);
  return run;
}

inline SampleRun runStores(const Module &module, const Schedule &schedule) {
  constexpr int count = 3;
  DeviceBuffer tiles(count * 1024, "tiles"), sums(128, "sums");
  tiles.writeOnce(4);
  sums.writeOnce(4);
  EncodedMap map = makeTensorMap({MapElement::F32, tiles.data(), {32, 8 * count}, {128}, {32, 8}, 0});
  int tileCount = count;
  void *inputs = tiles.data(), *outputs = sums.data();
  void *args[] = {&map, &inputs, &outputs, &tileCount};
  SampleRun run{module.launch("stores", {1}, {64}, 1024, args, schedule), bytesOf(sums)};
  for (int column = 0; column < 32; ++column) {
    double sum = 0;
    for (int row = 0; row < 8 * count; ++row) {
      sum += 32 * row + column;
      run.error = worse(run.error, 32 * row + column, tiles.as<float>()[32 * row + column]);
    }
    run.error = worse(run.error, sum, sums.as<float>()[column]);
  }
  return run;
}

inline const std::vector<Sample> &samples() {
  static const std::vector<Sample> all = {
      {"layer_norm", 2e-2, runLayerNorm},
      {"product", 1e-4, runProduct},
      {"flash", 2e-2, [](const Module &m, const Schedule &s) { return runFlash(m, s, 150, 1); }},
      {"ring", 0, runRing},
      {"pipeline", 2e-4, runPipeline},
      {"stores", 0, runStores},
      {"overlap", 0.5, runOverlap}, // a score at a rounding boundary may go either way
  };
  return all;
}

inline const Sample &sampleCalled(const std::string &name) {
  for (const Sample &sample : samples())
    if (sample.name == name)
      return sample;
  throw std::invalid_argument("no sample is called " + name);
}

} // namespace tcc::emulator
