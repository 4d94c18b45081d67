// Emitted CPU kernels beside a copy of as many bytes, on two threads: GB/s and the fraction of the copy's rate.
//   kernels_bench [filter] [--threads=N] [--llvm | --assembly]
// Buffers rotate through more memory than the last-level cache holds, so that every run is cold.
#include "codegen/cpu/emit_kernels.h"
#include "ir/analyze_kernel.h"
#include "mlir/Parser/Parser.h"
#include "tests/codegen/kernel_text.h"
#include <barrier>
#include <chrono>
#include <cstring>
#include <dlfcn.h>
#include <iostream>
#include <sys/mman.h>
#include <thread>
#include <time.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

using namespace tcc;
using namespace tcc::test;

namespace {

using Entry = void (*)(int64_t, int64_t, void *const *);

struct Case {
  std::string name;
  KernelText text;
  double bytes;                 // read and written by one run
  std::vector<int> shared = {}; // per result: the input whose buffer it takes, or -1
};

double clockSeconds(clockid_t clock) {
  timespec now;
  clock_gettime(clock, &now);
  return now.tv_sec + now.tv_nsec * 1e-9;
}
double seconds() {
  return clockSeconds(CLOCK_MONOTONIC);
}

/// Runs work(thread) on all threads at once and gives the processor time of the slowest, the least of `repeats` rounds:
/// what other programs take from the machine counts little.
double timed(unsigned threads, int repeats, const std::function<void(unsigned)> &work) {
  double best = 1e30;
  std::vector<double> times(threads);
  std::barrier ready(threads);
  std::barrier done(threads, [&]() noexcept { best = std::min(best, *std::max_element(times.begin(), times.end())); });
  std::vector<std::thread> others;
  auto run = [&](unsigned thread) {
    for (int i = 0; i < repeats; ++i) {
      ready.arrive_and_wait();
      double start = clockSeconds(CLOCK_THREAD_CPUTIME_ID);
      work(thread);
      times[thread] = clockSeconds(CLOCK_THREAD_CPUTIME_ID) - start;
      done.arrive_and_wait();
    }
  };
  for (unsigned thread = 1; thread < threads; ++thread)
    others.emplace_back(run, thread);
  run(0);
  for (std::thread &other : others)
    other.join();
  return best;
}

/// Zeroed memory on large pages; each block starts at another offset into its pages, as those of an arena do.
char *allocate(size_t bytes) {
  constexpr size_t page = 2 << 20;
  static size_t blocks = 0;
  size_t offset = blocks++ % 64 * (4096 + 320);
  size_t size = (bytes + offset + page) & ~(page - 1);
  void *memory = mmap(nullptr, size + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED)
    std::abort();
  auto start = (reinterpret_cast<uintptr_t>(memory) + page - 1) & ~(page - 1);
  madvise(reinterpret_cast<void *>(start), size, MADV_HUGEPAGE);
  std::memset(reinterpret_cast<void *>(start), 0, size);
  return reinterpret_cast<char *>(start + offset);
}

void streamCopy(char *to, const char *from, size_t bytes) {
#if defined(__AVX512F__)
  for (size_t i = 0; i < bytes; i += 64)
    _mm512_stream_si512(reinterpret_cast<__m512i *>(to + i), _mm512_load_si512(from + i));
#else
  std::memcpy(to, from, bytes);
#endif
}

/// Best rate of a copy (read + written bytes) over memory beyond the caches.
double copyRate(unsigned threads) {
  constexpr size_t size = 256 << 20;
  static char *from = allocate(size), *to = allocate(size);
  double best = 0;
  for (bool stream : {false, true})
    best = std::max(best, 2.0 * size / timed(threads, 7, [&](unsigned thread) {
                            size_t part = size / threads;
                            (stream ? streamCopy : [](char *t, const char *f, size_t n) { std::memcpy(t, f, n); })(
                                to + thread * part, from + thread * part, part);
                          }));
  return best / 1e9;
}

void fill(char *memory, mlir::RankedTensorType type, unsigned seed) {
  mlir::Type element = type.getElementType();
  uint32_t state = seed * 2654435761u + 12345;
  for (int64_t i = 0; i < type.getNumElements(); ++i) {
    state = state * 1664525u + 1013904223u;
    float value = static_cast<float>(state >> 8) / (1 << 24);
    uint32_t bits;
    std::memcpy(&bits, &value, 4);
    if (element.isF32())
      std::memcpy(memory + 4 * i, &value, 4);
    else if (element.isBF16())
      reinterpret_cast<uint16_t *>(memory)[i] = bits >> 16;
    else if (element.isInteger(32))
      reinterpret_cast<int32_t *>(memory)[i] = (state >> 8) % 50257;
    else
      memory[i] = 1;
  }
}

int run(const Case &test, unsigned threads, cpu::Artefact artefact) {
  mlir::DialectRegistry registry;
  registerDialects(registry);
  mlir::MLIRContext context(registry, mlir::MLIRContext::Threading::DISABLED);
  context.loadAllAvailableDialects();
  auto module = mlir::parseSourceString<mlir::ModuleOp>(test.text.module(), mlir::ParserConfig(&context));
  auto function = *module->getOps<mlir::func::FuncOp>().begin();
  auto kernel = *function.getBody().getOps<KernelOp>().begin();
  std::string error;
  std::optional<KernelInfo> info = analyzeKernel(kernel, error);
  double start = seconds();
  auto bytes = info ? cpu::emitKernels(KernelSource(FormKernel{"kernel", *info}), {}, artefact)
                    : tcc::runtime::Expected<std::string>(tcc::runtime::Error(error));
  double compileSeconds = seconds() - start;
  if (!bytes) {
    std::cerr << test.name << ": " << bytes.error().message() << '\n';
    return 1;
  }
  if (artefact != cpu::Artefact::sharedObject) {
    std::cout << *bytes;
    return 0;
  }
  int file = memfd_create("kernels", MFD_CLOEXEC);
  if (::write(file, bytes->data(), bytes->size()) < 0)
    return 1;
  void *library = dlopen(("/proc/self/fd/" + std::to_string(file)).c_str(), RTLD_NOW);
  auto entry = reinterpret_cast<Entry>(dlsym(library, "kernel"));

  // Sets of buffers, 192 MB in all or one.
  std::vector<mlir::RankedTensorType> types;
  for (mlir::Type type : function.getFunctionType().getInputs())
    types.push_back(mlir::cast<mlir::RankedTensorType>(type));
  size_t inputs = types.size();
  for (mlir::Type type : function.getFunctionType().getResults())
    types.push_back(mlir::cast<mlir::RankedTensorType>(type));
  int sets = std::max(1, static_cast<int>(192e6 / test.bytes));
  std::vector<std::vector<void *>> arguments(sets);
  for (auto &pointers : arguments)
    for (size_t i = 0; i < types.size(); ++i) {
      int shared = i >= inputs && i - inputs < test.shared.size() ? test.shared[i - inputs] : -1;
      if (shared >= 0) {
        pointers.push_back(pointers[shared]);
        continue;
      }
      size_t elementBytes = std::max(1u, types[i].getElementTypeBitWidth() / 8);
      pointers.push_back(allocate(types[i].getNumElements() * elementBytes));
      fill(static_cast<char *>(pointers.back()), types[i], i + 1);
    }
  KernelLaunch launch = cpu::launchOf(*info);
  int64_t grains = (launch.extent + launch.granularity - 1) / launch.granularity;
  auto part = [&](unsigned thread) { return std::min(launch.extent, grains * thread / threads * launch.granularity); };
  double limit = copyRate(threads);
  double time = timed(threads, 7, [&](unsigned thread) {
    for (auto &pointers : arguments)
      entry(part(thread), part(thread + 1), pointers.data());
  });
  double hot = timed(threads, 15, [&](unsigned thread) { entry(part(thread), part(thread + 1), arguments[0].data()); });
  limit = std::max(limit, copyRate(threads));
  double rate = test.bytes * sets / time / 1e9;
  std::printf("%-28s %8.3f ms %7.1f GB/s  copy %6.1f GB/s  %5.2f of it;  hot %7.1f GB/s; compiled in %.0f ms\n",
              test.name.c_str(), time / sets * 1e3, rate, limit, rate / limit, test.bytes / hot / 1e9,
              compileSeconds * 1e3);
  std::fflush(stdout);
  return 0;
}

//===- the kernels ---------------------------------------------------------------------------------------------===//

Case biasGelu(const std::string &element) {
  std::string full = "4096x384x" + element;
  double bytes = 4096.0 * 384 * (element == "f32" ? 8 : 4);
  std::string load = element == "f32" ? "%x = tcc.detach %x0 : !F" : "%x = tcc.cast %x0 : !S -> !F";
  std::string store = element == "f32" ? "%y = tcc.detach %r : !F" : "%y = tcc.cast %r : !F -> !S";
  return {"bias+GELU " + element,
          {{{"x0", full}, {"bias", "384xf32"}},
           {{"y", full}},
           withTypes(load + R"(
    %b = tcc.broadcast %bias : !C -> !F
    %s = tcc.add %x, %b : !F
    %r = tcc.gelu %s : !F
    )" + store,
                     {{"F", "4096x384xf32"}, {"S", full}, {"C", "384xf32"}})},
          bytes};
}

Case crossEntropy(const std::string &element) {
  std::string full = "1024x50257x" + element;
  std::string load = element == "f32" ? "%x = tcc.detach %x0 : !F" : "%x = tcc.cast %x0 : !S -> !F";
  std::string store = element == "f32" ? "%dx = tcc.detach %r : !F" : "%dx = tcc.cast %r : !F -> !S";
  return {"cross-entropy fwd+bwd " + element,
          {{{"x0", full}, {"target", "1024xi32"}, {"scale", "f32"}},
           {{"loss", "1024x1xf32"}, {"dx", full}},
           withTypes(load + R"(
    %m = tcc.reduce_max %x axes [1] : !F -> !R
    %mb = tcc.broadcast %m : !R -> !F
    %d = tcc.sub %x, %mb : !F
    %e = tcc.exp %d : !F
    %s = tcc.reduce_sum %e axes [1] : !F -> !R
    %i = tcc.iota dim 1 -> !I
    %t1 = tcc.reshape %target : tensor<1024xi32> -> tensor<1024x1xi32>
    %tb = tcc.broadcast %t1 : tensor<1024x1xi32> -> !I
    %is = tcc.compare eq %i, %tb : !I -> !B
    %zero = tcc.constant dense<0.0> : !F
    %p = tcc.select %is, %d, %zero : !B, !F
    %picked = tcc.reduce_sum %p axes [1] : !F -> !R
    %log = tcc.log %s : !R
    %loss = tcc.sub %log, %picked : !R
    %share = tcc.broadcast %scale : tensor<f32> -> !R
    %ds = tcc.div %share, %s : !R
    %dsb = tcc.broadcast %ds : !R -> !F
    %q = tcc.mul %e, %dsb : !F
    %shareb = tcc.broadcast %scale : tensor<f32> -> !F
    %hot = tcc.select %is, %shareb, %zero : !B, !F
    %r = tcc.sub %q, %hot : !F
    )" + store,
                     {{"F", "1024x50257xf32"},
                      {"S", full},
                      {"R", "1024x1xf32"},
                      {"I", "1024x50257xi32"},
                      {"B", "1024x50257xi1"}})},
          1024.0 * 50257 * (element == "f32" ? 8 : 4),
          {-1, 0}};
}

Case adamw() {
  return {"AdamW 124M",
          {{{"p", "124439808xf32"},
            {"g", "124439808xf32"},
            {"m", "124439808xf32"},
            {"v", "124439808xf32"},
            {"lr", "f32"},
            {"c1", "f32"},
            {"c2", "f32"},
            {"scale", "f32"},
            {"apply", "i1"}},
           {{"np", "124439808xf32"}, {"nm", "124439808xf32"}, {"nv", "124439808xf32"}},
           withTypes(R"(
    %sb = tcc.broadcast %scale : !0 -> !F
    %gs = tcc.mul %g, %sb : !F
    %b1 = tcc.constant dense<0.9> : !F
    %b1c = tcc.constant dense<0.1> : !F
    %b2 = tcc.constant dense<0.95> : !F
    %b2c = tcc.constant dense<0.05> : !F
    %m0 = tcc.mul %m, %b1 : !F
    %m1 = tcc.mul %gs, %b1c : !F
    %m2 = tcc.add %m0, %m1 : !F
    %v0 = tcc.mul %v, %b2 : !F
    %g2 = tcc.mul %gs, %gs : !F
    %v1 = tcc.mul %g2, %b2c : !F
    %v2 = tcc.add %v0, %v1 : !F
    %c1b = tcc.broadcast %c1 : !0 -> !F
    %c2b = tcc.broadcast %c2 : !0 -> !F
    %mh = tcc.mul %m2, %c1b : !F
    %vh = tcc.mul %v2, %c2b : !F
    %root = tcc.sqrt %vh : !F
    %eps = tcc.constant dense<1.0e-8> : !F
    %den = tcc.add %root, %eps : !F
    %u = tcc.div %mh, %den : !F
    %decay = tcc.constant dense<0.1> : !F
    %w = tcc.mul %p, %decay : !F
    %uw = tcc.add %u, %w : !F
    %lrb = tcc.broadcast %lr : !0 -> !F
    %step = tcc.mul %uw, %lrb : !F
    %p1 = tcc.sub %p, %step : !F
    %ab = tcc.broadcast %apply : tensor<i1> -> !B
    %np = tcc.select %ab, %p1, %p : !B, !F
    %nm = tcc.select %ab, %m2, %m : !B, !F
    %nv = tcc.select %ab, %v2, %v : !B, !F)",
                     {{"F", "124439808xf32"}, {"B", "124439808xi1"}, {"0", "f32"}})},
          124439808.0 * 28,
          {0, 2, 3}};
}

} // namespace

int main(int argc, char **argv) {
  std::string filter;
  unsigned threads = 2;
  cpu::Artefact artefact = cpu::Artefact::sharedObject;
  for (int i = 1; i < argc; ++i) {
    std::string argument = argv[i];
    if (argument.rfind("--threads=", 0) == 0)
      threads = std::stoi(argument.substr(10));
    else if (argument == "--llvm")
      artefact = cpu::Artefact::llvm;
    else if (argument == "--assembly")
      artefact = cpu::Artefact::assembly;
    else
      filter = argument;
  }
  int status = 0;
  for (const Case &test :
       {biasGelu("f32"), biasGelu("bf16"), Case{"LayerNorm forward", layerNorm(4096, 384), 4096.0 * 384 * 8},
        Case{"LayerNorm backward", layerNormBackward(32, 128, 384), 4096.0 * 384 * 12}, crossEntropy("f32"),
        crossEntropy("bf16"), adamw()})
    if (test.name.find(filter) != std::string::npos)
      status |= run(test, threads, artefact);
  return status;
}
