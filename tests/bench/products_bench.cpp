// Products of the steps of char (B16 T256) and gpt2 (1024 tokens), and odd ones: runtime/gemm.h beside oneDNN, where it
// was there when this was built, in one process, by turns with a bare loop of multiply-adds in registers, as medians
// and as shares of that loop.
//   products_bench [threads] [seconds a shape] [cold|warm] [words of shapes' names...]
// Cold operands are those of a long step: each run takes others than the one before. With one thread the clock is the
// processor time, so that other programs disturb less.
#include "runtime/cpu.h"
#include "runtime/gemm.h"
#include "runtime/machine_limits.h"
#include "runtime/memory.h"
#include "runtime/threads.h"
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <string>
#include <unordered_map>
#include <vector>
#ifdef HAS_ONEDNN
#include <dnnl.hpp>
#endif

namespace {

using namespace tcc::runtime;

struct Shape {
  const char *group;
  int64_t m, n, k;
  bool transposeA = false, transposeB = false;
  int count = 0; // in a step
  int64_t batch = 1;
};

/// Forward, gradient of the input, gradient of the weight of a layer with `in` and `out` features.
void addLayer(std::vector<Shape> &shapes, const char *group, int64_t tokens, int64_t in, int64_t out, int count) {
  shapes.push_back({group, tokens, out, in, false, false, count});
  shapes.push_back({group, tokens, in, out, false, true, count});
  shapes.push_back({group, in, out, tokens, true, false, count});
}

/// The same with the weight of an embedding, [out, in].
void addHead(std::vector<Shape> &shapes, const char *group, int64_t tokens, int64_t in, int64_t out) {
  shapes.push_back({group, tokens, out, in, false, true, 1});
  shapes.push_back({group, tokens, in, out, false, false, 1});
  shapes.push_back({group, out, in, tokens, true, false, 1});
}

std::vector<Shape> allShapes() {
  std::vector<Shape> shapes;
  for (auto [group, tokens, width, layers, vocabulary] :
       {std::tuple{"char", 4096, 384, 6, 65}, {"gpt2", 1024, 768, 12, 50304}}) {
    addLayer(shapes, group, tokens, width, 3 * width, layers);
    addLayer(shapes, group, tokens, width, width, layers);
    addLayer(shapes, group, tokens, width, 4 * width, layers);
    addLayer(shapes, group, tokens, 4 * width, width, layers);
    addHead(shapes, group, tokens, width, vocabulary);
  }
  const Shape odd[] = {{"odd", 31, 65, 2},
                       {"odd", 64, 64, 64},
                       {"odd", 100, 100, 100},
                       {"odd", 257, 255, 129},
                       {"odd", 1, 768, 768},
                       {"odd", 1, 3072, 768},
                       {"odd", 1, 768, 3072, false, true},
                       {"odd", 768, 1, 768},
                       {"odd", 4096, 1, 384},
                       {"odd", 1, 50257, 768, false, true},
                       {"odd", 8, 3072, 768},
                       {"odd", 16, 768, 768, false, true},
                       {"odd", 384, 65, 4096, true, false},
                       {"odd", 256, 1000, 384},
                       {"odd", 256, 1000, 384, false, true},
                       {"odd", 128, 50257, 64, false, true},
                       {"odd", 100000, 16, 16},
                       {"odd", 16, 16, 100000, true, false},
                       {"batched", 256, 256, 64, false, true, 0, 96},
                       {"batched", 256, 64, 256, false, false, 0, 96},
                       {"batched", 256, 64, 256, true, false, 0, 96},
                       {"batched", 32, 32, 16, false, true, 0, 512},
                       {"batched", 1024, 1024, 64, false, true, 0, 12}};
  shapes.insert(shapes.end(), std::begin(odd), std::end(odd));
  return shapes;
}

GemmDesc descOf(const Shape &shape, DType dtype) {
  auto layout = [dtype, &shape](int64_t rows, int64_t columns, bool transposed) {
    MatrixLayout made{dtype, transposed ? 1 : columns, transposed ? rows : 1, {}};
    made.batchStrides[1] = shape.batch > 1 ? rows * columns : 0;
    return made;
  };
  GemmDesc desc;
  desc.batch = {1, shape.batch};
  desc.m = shape.m, desc.n = shape.n, desc.k = shape.k;
  desc.a = layout(shape.m, shape.k, shape.transposeA);
  desc.b = layout(shape.k, shape.n, shape.transposeB);
  desc.c = layout(shape.m, shape.n, false);
  return desc;
}

using Run = std::function<void(const void *a, const void *b, void *c)>;

Run byOurs(const GemmDesc &desc, int threads, std::string &name) {
  auto gemm = Gemm::create(desc, threads);
  if (!gemm) {
    std::fprintf(stderr, "%s\n", gemm.error().message().c_str());
    std::exit(1);
  }
  name = gemm->implementation();
  auto scratch = TensorStorage::allocate(gemm->scratchpadBytes());
  auto product = std::make_shared<std::pair<Gemm, TensorStorage>>(std::move(*gemm), std::move(*scratch));
  return [product](const void *a, const void *b, void *c) {
    product->first.run(a, b, c, nullptr, product->second.data());
  };
}

#ifdef HAS_ONEDNN
/// Nothing where oneDNN has no such product.
Run byOneDnn(const GemmDesc &desc, std::string &name) {
  using dnnl::memory;
  static dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  static dnnl::stream stream(engine);
  auto describe = [&](const MatrixLayout &layout, int64_t rows, int64_t columns) {
    const auto type = layout.dtype == DType::f32 ? memory::data_type::f32 : memory::data_type::bf16;
    const MatrixLayout l = normalized(layout, rows, columns);
    return desc.batchCount() == 1 ? memory::desc({rows, columns}, type, {l.rowStride, l.columnStride})
                                  : memory::desc({desc.batchCount(), rows, columns}, type,
                                                 {l.batchStrides[1], l.rowStride, l.columnStride});
  };
  try {
    dnnl::primitive_attr attributes;
    const dnnl::matmul::primitive_desc primitive(dnnl::matmul::desc(describe(desc.a, desc.m, desc.k),
                                                                    describe(desc.b, desc.k, desc.n),
                                                                    describe(desc.c, desc.m, desc.n)),
                                                 attributes, engine);
    name = primitive.impl_info_str();
    return [matmul = dnnl::matmul(primitive), a = memory(primitive.src_desc(), engine, nullptr),
            b = memory(primitive.weights_desc(), engine, nullptr),
            c = memory(primitive.dst_desc(), engine, nullptr)](const void *x, const void *y, void *z) mutable {
      a.set_data_handle(const_cast<void *>(x));
      b.set_data_handle(const_cast<void *>(y));
      c.set_data_handle(z);
      matmul.execute(stream, {{DNNL_ARG_SRC, a}, {DNNL_ARG_WEIGHTS, b}, {DNNL_ARG_DST, c}});
    };
  } catch (const dnnl::error &) {
    return nullptr;
  }
}
#else
Run byOneDnn(const GemmDesc &, std::string &name) {
  name = "no oneDNN";
  return nullptr;
}
#endif

double seconds(int threads) {
  timespec now;
  clock_gettime(threads == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

double median(std::vector<double> times) {
  std::ranges::nth_element(times, times.begin() + static_cast<int64_t>(times.size()) / 2);
  return times[times.size() / 2];
}

/// Buffers that runs take in turn.
struct Operands {
  std::vector<TensorStorage> a, b, c;
  Operands(const GemmExtents &extents, DType dtype, bool cold) {
    constexpr int64_t beyondCaches = int64_t{96} << 20;
    const int64_t bytes = extents.a + extents.b + extents.c;
    const int64_t sets = cold ? std::clamp<int64_t>(beyondCaches / bytes + 1, 2, 64) : 1;
    uint32_t state = 1;
    for (int64_t i = 0; i < sets; ++i)
      for (auto [list, size] : {std::pair{&a, extents.a}, {&b, extents.b}, {&c, extents.c}}) {
        list->push_back(std::move(*TensorStorage::allocate(size)));
        for (int64_t j = 0; j < size / byteSize(dtype); ++j) {
          state = state * 1664525u + 1013904223u;
          const float value = static_cast<float>(static_cast<int32_t>(state)) * 0x1p-31f;
          if (dtype == DType::f32)
            static_cast<float *>(list->back().data())[j] = value;
          else
            static_cast<uint16_t *>(list->back().data())[j] = floatToBf16(value);
        }
      }
  }
};

struct Contestant {
  Run run;
  std::string name;
  DType dtype;
  std::vector<double> times;
};

/// Seconds of ours and of oneDNN's, each in f32 and bf16, 0 where oneDNN has none; and what a bare loop would take.
struct Seconds {
  double ours = 0, oursBf16 = 0, library = 0, libraryBf16 = 0, bare = 0;
};

Seconds measure(const Shape &shape, int threads, double budget, bool cold) {
  std::vector<Contestant> contestants(4);
  for (size_t i = 0; i < 4; ++i)
    contestants[i].dtype = i % 2 ? DType::bf16 : DType::f32;
  const GemmDesc wide = descOf(shape, DType::f32), narrow = descOf(shape, DType::bf16);
  contestants[0].run = byOurs(wide, threads, contestants[0].name);
  contestants[1].run = byOurs(narrow, threads, contestants[1].name);
  contestants[2].run = byOneDnn(wide, contestants[2].name);
  contestants[3].run = byOneDnn(narrow, contestants[3].name);
  Operands ofWide(*gemmExtents(wide), DType::f32, cold), ofNarrow(*gemmExtents(narrow), DType::bf16, cold);
  // Short products are timed several at a time.
  const double guess = static_cast<double>(wide.flops()) / (30e9 * threads) + 1e-6;
  const int repeats = std::max(1, static_cast<int>(30e-6 / guess));
  const double begin = seconds(2);
  size_t turn = 0;
  std::vector<double> bareRates;
  for (int round = 0; round < 5 || seconds(2) - begin < budget; ++round) {
    constexpr double moment = 1e-3;
    bareRates.push_back(measureBareLoop(DType::f32, threads, moment));
    for (Contestant &contestant : contestants) {
      if (!contestant.run)
        continue;
      const Operands &operands = contestant.dtype == DType::f32 ? ofWide : ofNarrow;
      const double start = seconds(threads);
      for (int i = 0; i < repeats; ++i, ++turn) {
        const size_t at = turn % operands.a.size();
        contestant.run(operands.a[at].data(), operands.b[at].data(), operands.c[at].data());
      }
      if (round > 0)
        contestant.times.push_back((seconds(threads) - start) / repeats);
    }
  }
  std::array<double, 4> medians{}, least{};
  for (size_t i = 0; i < 4; ++i)
    if (contestants[i].run) {
      medians[i] = median(contestants[i].times);
      least[i] = *std::ranges::min_element(contestants[i].times);
    }
  const auto flops = static_cast<double>(wide.flops());
  const Seconds result{medians[0], medians[1], medians[2], medians[3], flops / median(bareRates)};
  std::printf("%-8s %4ld x %6ld x %6ld x %6ld %c%c  %-9s %7.1f GFLOP/s %5.2f of bare | %-14s ours %5.2f times (best of "
              "each %5.2f) | bf16 by %s %5.2f of f32, %s ours %5.2f times (%5.2f)\n",
              shape.group, shape.batch, shape.m, shape.n, shape.k, shape.transposeA ? 't' : 'n',
              shape.transposeB ? 't' : 'n', contestants[0].name.c_str(), flops / result.ours / 1e9,
              result.bare / result.ours, contestants[2].name.c_str(), result.library / result.ours, least[2] / least[0],
              contestants[1].name.c_str(), result.ours / result.oursBf16, contestants[3].name.c_str(),
              result.libraryBf16 / result.oursBf16, least[3] / least[1]);
  std::fflush(stdout);
  return result;
}

} // namespace

int main(int argc, char **argv) {
  const int threads = argc > 1 ? std::atoi(argv[1]) : availableThreads();
  const double budget = argc > 2 ? std::atof(argv[2]) : 1;
  const bool cold = argc <= 3 || std::string(argv[3]) != "warm";
  setThreadCount(threads);
  std::printf("%d threads, %s operands, %s\n", threads, cold ? "cold" : "warm", productInstructions().c_str());
  std::unordered_map<std::string, Seconds> totals;
  for (const Shape &shape : allShapes()) {
    bool wanted = argc <= 4;
    for (int i = 4; i < argc; ++i)
      wanted = wanted || std::string(shape.group) == argv[i];
    if (!wanted)
      continue;
    const Seconds result = measure(shape, threads, budget, cold);
    for (auto part : {&Seconds::ours, &Seconds::oursBf16, &Seconds::library, &Seconds::libraryBf16, &Seconds::bare})
      totals[shape.group].*part += shape.count * (result.*part);
  }
  for (auto &[group, total] : totals)
    if (total.bare > 0)
      std::printf(
          "%s's step: products %.1f ms, %.2f of bare; by oneDNN %.1f ms, ours %.2f times; bf16 %.1f ms, by oneDNN "
          "%.1f ms, ours %.2f times\n",
          group.c_str(), total.ours * 1e3, total.bare / total.ours, total.library * 1e3, total.library / total.ours,
          total.oursBf16 * 1e3, total.libraryBf16 * 1e3, total.libraryBf16 / total.oursBf16);
}
