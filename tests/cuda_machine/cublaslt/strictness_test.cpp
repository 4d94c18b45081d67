// What the stand-in refuses, how it lies on a stream, and what of its memory it spoils.
#include "tests/cuda_machine/cublaslt/stand_in.h"
#include "tests/cuda_machine/stream_hook.h"

#include <array>
#include <cmath>
#include <cstring>
#include <functional>
#include <memory>
#include <vector>

using namespace tcc::lt;

namespace {

/// f32 matrices with room: A 8×16, B 16×4, C and D 8×4, all in one block of memory so aligned as a device's.
struct Product : Call {
  struct Memory {
    alignas(256) float a[8 * 16], b[16 * 4];
    alignas(256) float c[8 * 4];
    alignas(256) float d[8 * 4 + 64];
    alignas(256) float bias[64], aux[64 * 4];
    alignas(256) unsigned char workspace[1024];
  };
  std::unique_ptr<Memory> memory = std::make_unique<Memory>();
  float alpha = 1, beta = 0;
  Algo algo = {};
  void *dPointer = memory->d;
  void *cPointer = memory->c;
  std::size_t workspaceBytes = sizeof memory->workspace;

  explicit Product(int computeType = compute32) : Call(computeType) {
    for (int i = 0; i < 8 * 16; ++i)
      memory->a[i] = static_cast<float>(i % 7);
    for (int i = 0; i < 16 * 4; ++i)
      memory->b[i] = static_cast<float>(i % 5);
    std::fill(std::begin(memory->c), std::end(memory->c), NAN);
    struct {
      Layout *layout;
      int rows, cols;
    } shapes[] = {{&a, 8, 16}, {&b, 16, 4}, {&c, 8, 4}, {&d, 8, 4}};
    for (auto &shape : shapes)
      EXPECT_EQ(LT(cublasLtMatrixLayoutCreate)(shape.layout, float32, shape.rows, shape.cols, shape.rows), success);
  }
  int choose() {
    HeuristicResult result;
    int count = 0;
    int status = heuristic(&result, 1, &count);
    algo = result.algo;
    return status;
  }
  int run(const Algo *chosen = nullptr, void *stream = nullptr) {
    return LT(cublasLtMatmul)(handle, desc, &alpha, memory->a, a, memory->b, b, &beta, cPointer, c, dPointer, d, chosen,
                              memory->workspace, workspaceBytes, stream);
  }
  float wanted(int row, int col) const {
    float sum = 0;
    for (int k = 0; k < 16; ++k)
      sum += memory->a[k * 8 + row] * memory->b[col * 16 + k];
    return sum;
  }
};

TEST(CublasLtStandIn, RefusesWhatTheDocumentationRefuses) {
  struct Case {
    const char *what;
    int status;
    std::function<void(Product &)> spoil;
  };
  const Case cases[] = {
      {"nothing spoiled", success, [](Product &) {}},
      {"ld below the rows", invalidValue, [](Product &p) { p.setLayout(p.a, layoutLd, std::int64_t(7)); }},
      {"ld of C below the rows", invalidValue, [](Product &p) { p.setLayout(p.c, layoutLd, std::int64_t(7)); }},
      {"rows of op(A)", invalidValue, [](Product &p) { p.set(descTransA, 1); }},
      {"columns of op(B)", invalidValue, [](Product &p) { p.setLayout(p.b, layoutCols, std::int64_t(3)); }},
      {"depth", invalidValue, [](Product &p) { p.setLayout(p.a, layoutCols, std::int64_t(15)); }},
      {"C of other columns", invalidValue, [](Product &p) { p.setLayout(p.c, layoutCols, std::int64_t(3)); }},
      {"no elements", invalidValue, [](Product &p) { p.setLayout(p.d, layoutCols, std::int64_t(0)); }},
      {"batch counts", invalidValue, [](Product &p) { p.setLayout(p.a, layoutBatchCount, 2); }},
      {"batch count 0", invalidValue, [](Product &p) { p.setLayout(p.a, layoutBatchCount, 0); }},
      {"a transform", invalidValue, [](Product &p) { p.set(descTransA, 9); }},
      {"C transposed", notSupported, [](Product &p) { p.set(descTransC, 1); }},
      {"half a matrix", notSupported, [](Product &p) { p.set(descFillMode, 0); }},
      {"vectors of scalars", notSupported, [](Product &p) { p.set(descPointerMode, 2); }},
      {"an order of tiles", notSupported, [](Product &p) { p.setLayout(p.b, layoutOrder, 2); }},
      {"an integer type", notSupported, [](Product &p) { p.setLayout(p.a, layoutType, 3); }},
      {"two types of operands", notSupported, [](Product &p) { p.setLayout(p.a, layoutType, int(bfloat16)); }},
      {"f32 into bf16", notSupported,
       [](Product &p) {
         p.setLayout(p.c, layoutType, int(bfloat16));
         p.setLayout(p.d, layoutType, int(bfloat16));
       }},
      {"scale bf16", notSupported, [](Product &p) { p.set(descScaleType, int(bfloat16)); }},
      {"an unknown compute type", notSupported, [](Product &p) { p.set(descComputeType, 67); }},
      {"a scale of A", notSupported, [](Product &p) { p.set(descFirstScale, std::int64_t(64)); }},
      {"an unknown epilogue", invalidValue, [](Product &p) { p.set(descEpilogue, 5u); }},
      {"an epilogue on rows", notSupported,
       [](Product &p) {
         p.set(descEpilogue, unsigned(epilogueBias));
         p.setLayout(p.c, layoutOrder, int(rowMajor));
         p.setLayout(p.d, layoutOrder, int(rowMajor));
       }},
      {"a bias of another type", notSupported,
       [](Product &p) {
         p.set(descEpilogue, unsigned(epilogueBias));
         p.set(descBiasDataType, int(bfloat16));
       }},
      {"no auxiliary ld", invalidValue, [](Product &p) { p.set(descEpilogue, unsigned(epilogueGeluAux)); }},
      {"auxiliary ld 12", invalidValue,
       [](Product &p) {
         p.set(descEpilogue, unsigned(epilogueDgelu));
         p.set(descAuxLd, std::int64_t(12));
       }},
      {"mask ld 64", invalidValue,
       [](Product &p) {
         p.set(descEpilogue, unsigned(epilogueReluAux));
         p.set(descAuxLd, std::int64_t(64));
       }},
      {"auxiliary type", invalidValue,
       [](Product &p) {
         p.set(descEpilogue, unsigned(epilogueGeluAux));
         p.set(descAuxLd, std::int64_t(8));
         p.set(descAuxDataType, int(float16));
       }},
      {"alignments of 2 bytes", notSupported, [](Product &p) { p.prefer(preferenceAlignA, 2u); }},
      {"alignment 24", invalidValue, [](Product &p) { p.prefer(preferenceAlignB, 24u); }},
      {"an alignment of 0", notSupported, [](Product &p) { p.prefer(preferenceAlignD, 0u); }},
  };
  for (const Case &each : cases) {
    Product product;
    each.spoil(product);
    EXPECT_EQ(product.choose(), each.status) << each.what << ": " << product.reason();
    EXPECT_EQ(product.reason().empty(), each.status == success) << each.what;
  }
}

TEST(CublasLtStandIn, RefusesPointersThatTheCallMustNotHave) {
  Product product;
  ASSERT_EQ(product.choose(), success);
  EXPECT_EQ(product.run(&product.algo), success) << product.reason();
  product.dPointer = product.memory->d + 1;
  EXPECT_EQ(product.run(&product.algo), notSupported); // chosen for 256 bytes, the default
  EXPECT_EQ(product.run(), success);                   // chosen for this pointer
  product.dPointer = nullptr;
  EXPECT_EQ(product.run(), invalidValue);
  product.dPointer = product.memory->d;
  product.cPointer = nullptr;
  EXPECT_EQ(product.run(), invalidValue);
  product.cPointer = product.dPointer;
  EXPECT_EQ(product.run(), success);
  product.setLayout(product.c, layoutLd, std::int64_t(9));
  EXPECT_EQ(product.run(), invalidValue); // in place with another layout
  product.setLayout(product.c, layoutLd, std::int64_t(8));
  product.set(descEpilogue, unsigned(epilogueBias));
  EXPECT_EQ(product.run(), invalidValue);
  product.set(descBiasPointer, product.memory->bias + 1);
  EXPECT_EQ(product.run(), success);
  EXPECT_EQ(product.run(&product.algo), notSupported); // moves 16 bytes at once
  Product wide;
  EXPECT_EQ(LT(cublasLtMatmul)(nullptr, wide.desc, &wide.alpha, wide.memory->a, wide.a, wide.memory->b, wide.b,
                               &wide.beta, wide.memory->d, wide.d, wide.memory->d, wide.d, nullptr, nullptr, 0,
                               nullptr),
            notInitialized);
  EXPECT_EQ(LT(cublasLtMatmul)(wide.handle, wide.desc, nullptr, wide.memory->a, wide.a, wide.memory->b, wide.b,
                               &wide.beta, wide.memory->d, wide.d, wide.memory->d, wide.d, nullptr, nullptr, 0,
                               nullptr),
            invalidValue);
  EXPECT_EQ(LT(cublasLtMatmul)(wide.handle, wide.desc, &wide.alpha, wide.memory->a, wide.a, wide.memory->b, wide.b,
                               &wide.beta, wide.memory->d, wide.d, wide.memory->d, wide.d, nullptr,
                               wide.memory->workspace + 128, 64, nullptr),
            invalidValue);
}

TEST(CublasLtStandIn, AlgorithmsBelongToTypesReleaseAndWorkspace) {
  Product product;
  HeuristicResult results[8];
  int count = 0;
  product.prefer(preferenceWorkspace, std::uint64_t(8 << 20));
  ASSERT_EQ(product.heuristic(results, 8, &count), success);
  ASSERT_EQ(count, 5);
  std::uint64_t largest = 0;
  for (int i = 0; i < count; ++i) {
    EXPECT_EQ(results[i].state, success);
    HeuristicResult checked;
    EXPECT_EQ(LT(cublasLtMatmulAlgoCheck)(product.handle, product.desc, product.a, product.b, product.c, product.d,
                                          &results[i].algo, &checked),
              success);
    EXPECT_EQ(checked.workspaceSize, results[i].workspaceSize);
    int expected = results[i].workspaceSize > product.workspaceBytes ? invalidValue : success;
    EXPECT_EQ(product.run(&results[i].algo), expected);
    largest = std::max<std::uint64_t>(largest, results[i].workspaceSize);
  }
  EXPECT_GT(largest, product.workspaceBytes);
  EXPECT_EQ(product.heuristic(results, 0, &count), invalidValue);
  product.prefer(preferenceWorkspace, std::uint64_t(0));
  EXPECT_EQ(product.heuristic(results, 8, &count), success);
  EXPECT_EQ(count, 2);
  product.prefer(preferenceAlignD, 4u);
  EXPECT_EQ(product.heuristic(results, 8, &count), success);
  EXPECT_EQ(count, 1);

  ASSERT_EQ(product.choose(), success);
  std::uint32_t split = 0;
  EXPECT_EQ(LT(cublasLtMatmulAlgoConfigGetAttribute)(&product.algo, configSplitK, &split, 4, nullptr), success);
  EXPECT_EQ(split, 1u);
  product.set(descComputeType, int(compute32FastTf32));
  EXPECT_EQ(product.run(&product.algo), invalidValue);
  product.set(descComputeType, int(compute32));
  setenv("TCC_CUBLASLT_VERSION", "120805", 1);
  EXPECT_EQ(LT(cublasLtGetVersion)(), 120805u);
  EXPECT_EQ(product.run(&product.algo), invalidValue);
  unsetenv("TCC_CUBLASLT_VERSION");
  EXPECT_EQ(product.run(&product.algo), success);
  product.algo.data[2] ^= 1;
  EXPECT_EQ(product.run(&product.algo), invalidValue);
}

TEST(CublasLtStandIn, RunsAgreeBitForBitUnlessAskedOtherwise) {
  for (bool unstable : {false, true}) {
    if (unstable)
      setenv("TCC_CUBLASLT_UNSTABLE", "1", 1);
    Product product;
    HeuristicResult results[8];
    int count = 0, differing = 0;
    product.prefer(preferenceWorkspace, std::uint64_t(64 << 10));
    ASSERT_EQ(product.heuristic(results, 8, &count), success);
    ASSERT_EQ(count, 4);
    unsetenv("TCC_CUBLASLT_UNSTABLE");
    std::vector<unsigned char> space((64 << 10) + 256);
    void *workspace = space.data() + 256 - reinterpret_cast<std::uintptr_t>(space.data()) % 256;
    std::array<float, 32> first = {};
    for (int i = 0; i < count; ++i)
      for (int run = 0; run < 2; ++run) {
        ASSERT_EQ(LT(cublasLtMatmul)(product.handle, product.desc, &product.alpha, product.memory->a, product.a,
                                     product.memory->b, product.b, &product.beta, product.cPointer, product.c,
                                     product.dPointer, product.d, &results[i].algo, workspace, 64 << 10, nullptr),
                  success);
        if (i == 0 && run == 0)
          std::memcpy(first.data(), product.memory->d, sizeof first);
        if (std::memcmp(first.data(), product.memory->d, sizeof first) != 0) {
          ++differing;
          EXPECT_EQ(i, 1);
        }
      }
    EXPECT_EQ(differing, unstable ? 2 : 0);
  }
}

TEST(CublasLtStandIn, SpoilsWhatMustNotBeRead) {
  Product product;
  std::fill(std::begin(product.memory->workspace), std::end(product.memory->workspace), 1);
  product.memory->workspace[1023] = 7;
  product.workspaceBytes = 1023;
  EXPECT_EQ(product.run(), success); // beta is 0: C's NaN are not read
  EXPECT_EQ(product.memory->workspace[0], 0xff);
  EXPECT_EQ(product.memory->workspace[1022], 0xff);
  EXPECT_EQ(product.memory->workspace[1023], 7);
  for (int i = 0; i < 32; ++i)
    EXPECT_EQ(product.memory->d[i], product.wanted(i % 8, i / 8));
  product.beta = 1;
  EXPECT_EQ(product.run(), success);
  EXPECT_TRUE(std::isnan(product.memory->d[0]));
}

/// A driver of one stream that runs nothing until it is told to.
struct LateStream {
  struct Entry {
    void (*run)(void *);
    void *argument;
    void (*destroy)(void *);
  };
  static inline std::vector<Entry> queue;
  static inline int refusal = 0;
  static inline std::vector<std::string> faults;
  static inline const char *low = nullptr, *high = nullptr;

  LateStream() {
    *tccStreamHook() = {[](void *, void (*run)(void *), void *argument, void (*destroy)(void *)) {
                          if (refusal)
                            destroy(argument);
                          else
                            queue.push_back({run, argument, destroy});
                          return refusal;
                        },
                        [](const void *address, std::size_t bytes) {
                          auto *from = static_cast<const char *>(address);
                          return int(from >= low && from + bytes <= high);
                        },
                        [](const char *text) { faults.push_back(text); }};
  }
  ~LateStream() {
    for (Entry &entry : queue)
      entry.destroy(entry.argument);
    queue.clear();
    faults.clear();
    refusal = 0;
    *tccStreamHook() = {};
  }
  void launch() {
    for (Entry &entry : queue)
      entry.run(entry.argument);
  }
};

TEST(CublasLtStandIn, RunsAsAnOperationOfTheStream) {
  LateStream stream;
  std::unique_ptr<Product::Memory> memory;
  {
    Product product;
    stream.low = reinterpret_cast<const char *>(product.memory.get());
    stream.high = stream.low + sizeof *product.memory;
    long before = LT(tccCublasLtProducts)();
    ASSERT_EQ(product.run(), success);
    EXPECT_EQ(LT(tccCublasLtProducts)(), before);
    product.alpha = 5; // Host scalars are taken at the call.
    memory = std::move(product.memory);
  }
  stream.launch(); // The descriptors are gone.
  float first = memory->d[3];
  EXPECT_GT(first, 0);
  for (float &value : memory->a)
    value *= 2;
  stream.launch();
  EXPECT_EQ(memory->d[3], 2 * first);
  EXPECT_TRUE(stream.faults.empty());
}

TEST(CublasLtStandIn, ScalarsOfTheDeviceAreReadWhenItRuns) {
  LateStream stream;
  Product product;
  stream.low = reinterpret_cast<const char *>(product.memory.get());
  stream.high = stream.low + sizeof *product.memory;
  product.set(descPointerMode, int(pointerDevice));
  float *scalars = product.memory->bias;
  ASSERT_EQ(LT(cublasLtMatmul)(product.handle, product.desc, scalars, product.memory->a, product.a, product.memory->b,
                               product.b, scalars + 1, product.cPointer, product.c, product.dPointer, product.d,
                               nullptr, nullptr, 0, nullptr),
            success);
  scalars[0] = 3;
  scalars[1] = 0;
  stream.launch();
  EXPECT_EQ(product.memory->d[3], 3 * product.wanted(3, 0));
}

TEST(CublasLtStandIn, FindsWrongMemory) {
  LateStream stream;
  Product product;
  stream.low = reinterpret_cast<const char *>(product.memory->b);
  stream.high = reinterpret_cast<const char *>(product.memory.get() + 1);
  ASSERT_EQ(product.run(), success);
  product.memory->d[0] = 42;
  stream.launch();
  ASSERT_EQ(stream.faults.size(), 1u);
  EXPECT_NE(stream.faults[0].find("A does not lie"), std::string::npos) << stream.faults[0];
  EXPECT_EQ(product.memory->d[0], 42) << "nothing is touched";

  stream.low = reinterpret_cast<const char *>(product.memory.get());
  product.dPointer = product.memory->b;
  ASSERT_EQ(product.run(), success);
  stream.queue.back().run(stream.queue.back().argument);
  ASSERT_EQ(stream.faults.size(), 2u);
  EXPECT_NE(stream.faults[1].find("D overlaps B"), std::string::npos) << stream.faults[1];

  // Slices of one buffer, side by side: D's lines lie between B's.
  product.setLayout(product.b, layoutLd, std::int64_t(24));
  product.setLayout(product.c, layoutLd, std::int64_t(24));
  product.setLayout(product.d, layoutLd, std::int64_t(24));
  product.dPointer = product.memory->b + 16;
  product.cPointer = product.dPointer;
  ASSERT_EQ(product.run(), success);
  stream.queue.back().run(stream.queue.back().argument);
  EXPECT_EQ(stream.faults.size(), 2u);
  stream.refusal = 900;
  EXPECT_EQ(product.run(), executionFailed);
}

TEST(CublasLtStandIn, FailsOnRequestAndCountsWhatLives) {
  int live = LT(tccCublasLtLive)();
  {
    Product product;
    EXPECT_EQ(LT(tccCublasLtLive)(), live + 7);
    LT(tccCublasLtFail)("cublasLtMatmul", executionFailed, 2);
    EXPECT_EQ(product.run(), success);
    EXPECT_EQ(product.run(), executionFailed);
    EXPECT_EQ(product.run(), success);
    LT(tccCublasLtFail)("cublasLtMatrixLayoutCreate", allocFailed, 1);
    Layout layout = nullptr;
    EXPECT_EQ(LT(cublasLtMatrixLayoutCreate)(&layout, float32, 1, 1, 1), allocFailed);
    EXPECT_EQ(layout, nullptr);
    EXPECT_STREQ(LT(cublasLtGetStatusName)(allocFailed), "CUBLAS_STATUS_ALLOC_FAILED");
  }
  EXPECT_EQ(LT(tccCublasLtLive)(), live);
}

// Run by the next test as a process of its own.
TEST(CublasLtStandIn, DISABLED_SecondCreationFails) {
  Handle handle = nullptr;
  ASSERT_EQ(LT(cublasLtCreate)(&handle), success);
  ASSERT_EQ(LT(cublasLtCreate)(&handle), notInitialized);
  ASSERT_EQ(LT(cublasLtCreate)(&handle), success);
}

TEST(CublasLtStandIn, FailsOnRequestOfTheEnvironment) {
  setenv("TCC_CUBLASLT_FAIL", "cublasLtCreate=1@2", 1);
  int status = std::system("/proc/$PPID/exe --gtest_filter='*SecondCreationFails' --gtest_also_run_disabled_tests"
                           " > /dev/null");
  unsetenv("TCC_CUBLASLT_FAIL");
  EXPECT_EQ(status, 0);
}

/// The same questions about attributes, put to one library; the answers as text.
std::string attributeAnswers(void *library) {
  std::string answers;
  auto add = [&](int value) { answers += std::to_string(value) + " "; };
  auto ask = [&](auto *object, auto *get, auto *set, std::initializer_list<int> attributes) {
    for (int attribute : attributes) {
      std::size_t size = 0, written = 0;
      add(get(object, attribute, nullptr, 0, &size));
      add(static_cast<int>(size));
      unsigned char value[16] = {};
      add(get(object, attribute, value, size + 1, &written));
      add(get(object, attribute, value, size, &written));
      for (std::size_t i = 0; i < size; ++i)
        add(value[i]);
      add(set(object, attribute, value, size + 4));
      add(set(object, attribute, nullptr, size));
      add(get(object, attribute, nullptr, 0, nullptr));
      value[0] = 99; // What a value means is not asked before a matmul is.
      add(set(object, attribute, value, size));
    }
    answers += "\n";
  };
  Desc desc = nullptr;
  Layout layout = nullptr;
  Preference preference = nullptr;
  add(symbol<decltype(cublasLtMatmulDescCreate)>(library, "cublasLtMatmulDescCreate")(&desc, compute32, float32));
  add(symbol<decltype(cublasLtMatrixLayoutCreate)>(library, "cublasLtMatrixLayoutCreate")(&layout, bfloat16, 5, 7, -8));
  add(symbol<decltype(cublasLtMatmulPreferenceCreate)>(library, "cublasLtMatmulPreferenceCreate")(&preference));
  ask(desc, symbol<decltype(cublasLtMatmulDescGetAttribute)>(library, "cublasLtMatmulDescGetAttribute"),
      symbol<decltype(cublasLtMatmulDescSetAttribute)>(library, "cublasLtMatmulDescSetAttribute"),
      {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 99});
  ask(layout, symbol<decltype(cublasLtMatrixLayoutGetAttribute)>(library, "cublasLtMatrixLayoutGetAttribute"),
      symbol<decltype(cublasLtMatrixLayoutSetAttribute)>(library, "cublasLtMatrixLayoutSetAttribute"),
      {0, 1, 2, 3, 4, 5, 6, 7, 77});
  ask(preference,
      symbol<decltype(cublasLtMatmulPreferenceGetAttribute)>(library, "cublasLtMatmulPreferenceGetAttribute"),
      symbol<decltype(cublasLtMatmulPreferenceSetAttribute)>(library, "cublasLtMatmulPreferenceSetAttribute"),
      {0, 1, 2, 3, 5, 6, 7, 8, 9, 12, 66});
  add(symbol<decltype(cublasLtMatmulDescDestroy)>(library, "cublasLtMatmulDescDestroy")(desc));
  add(symbol<decltype(cublasLtMatrixLayoutDestroy)>(library, "cublasLtMatrixLayoutDestroy")(layout));
  add(symbol<decltype(cublasLtMatmulPreferenceDestroy)>(library, "cublasLtMatmulPreferenceDestroy")(preference));
  add(symbol<decltype(cublasLtMatmulDescDestroy)>(library, "cublasLtMatmulDescDestroy")(nullptr));
  add(symbol<decltype(cublasLtDestroy)>(library, "cublasLtDestroy")(nullptr));
  for (int status : {0, 1, 3, 7, 8, 11, 13, 14, 15, 16, 99}) {
    answers += symbol<decltype(cublasLtGetStatusName)>(library, "cublasLtGetStatusName")(status);
    answers += symbol<decltype(cublasLtGetStatusString)>(library, "cublasLtGetStatusString")(status);
  }
  return answers;
}

TEST(CublasLtStandIn, AnswersAsTheRealLibrary) {
  void *real = nullptr;
  for (const char *name : {"libcublasLt.so.13", "libcublasLt.so.12", "/usr/local/cuda/lib64/libcublasLt.so",
                           "/usr/local/cuda/lib/libcublasLt.so"})
    if (!real)
      real = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (!real)
    GTEST_SKIP() << "libcublasLt is not installed";
  EXPECT_EQ(attributeAnswers(openStandIn()), attributeAnswers(real));
}

} // namespace
