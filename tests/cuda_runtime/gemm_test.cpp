// Matmuls by the stand-in for cuBLASLt, whose author knows no caller, against plain loops in double: types, strides,
// transposes, accumulation, bias, batches, operands that start anywhere; the choice of algorithms and the tuning file.
#include "runtime/device/cuda/gemm.h"
#include "runtime/files.h"

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <gtest/gtest.h>
#include <unistd.h>

using namespace tcc::runtime;
using namespace tcc::runtime::cuda;

namespace {

struct Types {
  DType operands, result;
};

class CudaGemm : public ::testing::Test {
protected:
  void SetUp() override {
    setenv("TCC_CUDA_DRIVER", FAKE_DRIVER, 1);
    setenv("TCC_CUBLASLT", CUBLASLT_STAND_IN, 1);
    device = Device::open();
    stream = device->makeStream();
    tuning = testing::TempDir() + "tcc_tuning_test." + std::to_string(getpid()) + ".json";
    std::filesystem::remove(tuning);
  }
  void TearDown() override {
    for (const char *variable : {"TCC_CUDA_DRIVER", "TCC_CUBLASLT", "TCC_CUBLASLT_UNSTABLE", "TCC_CUBLASLT_FAIL",
                                 "TCC_CUBLASLT_VERSION", "TCC_CUBLASLT_HEURISTICS"})
      unsetenv(variable);
    std::filesystem::remove(tuning);
  }
  std::string errorOf(const std::function<void()> &action) {
    try {
      action();
    } catch (const CudaError &error) {
      return error.what();
    }
    return "no error";
  }

  std::unique_ptr<Device> device;
  Stream stream;
  std::string tuning;
};

/// An operand in the stand-in's memory, which is the host's, `shift` elements after an aligned place.
struct Operand {
  Operand(const Device &device, const MatrixLayout &layout, std::int64_t bytes, std::int64_t shift, std::uint32_t seed)
      : dtype(layout.dtype), memory(device.allocate(static_cast<std::size_t>(bytes + shift * byteSize(dtype)) + 1)),
        address(memory.address() + static_cast<DevicePointer>(shift * byteSize(dtype))) {
    for (std::int64_t i = 0; i < bytes / byteSize(dtype); ++i) {
      seed = seed * 1664525u + 1013904223u;
      set(i, static_cast<float>(seed >> 8) * 0x1p-23f - 1.0f);
    }
  }
  double get(std::int64_t i) const {
    if (dtype == DType::f32)
      return reinterpret_cast<const float *>(address)[i];
    const std::uint16_t bits = reinterpret_cast<const std::uint16_t *>(address)[i];
    return dtype == DType::bf16 ? bf16ToFloat(bits) : f16ToFloat(bits);
  }
  void set(std::int64_t i, float value) {
    if (dtype == DType::f32)
      reinterpret_cast<float *>(address)[i] = value;
    else
      reinterpret_cast<std::uint16_t *>(address)[i] = dtype == DType::bf16 ? floatToBf16(value) : floatToF16(value);
  }

  DType dtype;
  cuda::Buffer memory;
  DevicePointer address;
};

std::int64_t at(const MatrixLayout &layout, std::int64_t outer, std::int64_t inner, std::int64_t row,
                std::int64_t column) {
  return outer * layout.batchStrides[0] + inner * layout.batchStrides[1] + row * layout.rowStride +
         column * layout.columnStride;
}

std::uint32_t alignmentOf(DevicePointer address) {
  return static_cast<std::uint32_t>(std::min<DevicePointer>(256, address & (~address + 1)));
}

/// Runs the matmul and compares every element with plain loops; what lies between C's rows must stay. `elsewhere`: it
/// adds to another tensor than C.
void checkOnce(Products &products, const Device &device, const Stream &stream, const GemmDesc &desc, std::int64_t shift,
               bool elsewhere, std::int64_t biasShift = 0) {
  SCOPED_TRACE(describe(desc) + " shifted by " + std::to_string(shift) + (elsewhere ? ", addend elsewhere" : ""));
  const GemmExtents extents = *gemmExtents(desc);
  Operand a(device, desc.a, extents.a, shift, 1), b(device, desc.b, extents.b, shift, 2),
      c(device, desc.c, extents.c, shift, 3), addend(device, desc.c, extents.c, shift, 5);
  MatrixLayout row;
  row.dtype = desc.bias.value_or(DType::f32);
  Operand bias(device, row, extents.bias, biasShift, 4),
      aux(device, desc.c, desc.geluGradient ? extents.c : 0, shift, 5);
  for (std::int64_t i = 0; desc.geluGradient && i < extents.c / byteSize(desc.c.dtype); ++i)
    aux.set(i, static_cast<float>(4 * aux.get(i))); // from slopes of 0 to slopes of 1
  const std::size_t workspaceBytes = 1 << 16;
  const cuda::Buffer workspace = device.allocate(workspaceBytes);
  std::vector<double> before;
  for (std::int64_t i = 0; i < extents.c / byteSize(desc.c.dtype); ++i)
    before.push_back(c.get(i));

  Product product = products.make(desc, {alignmentOf(a.address), alignmentOf(b.address), alignmentOf(c.address),
                                         workspaceBytes, alignmentOf(bias.address)});
  product.place({a.address, b.address, c.address, desc.bias ? bias.address : 0, workspace.address(),
                 elsewhere ? addend.address : 0, aux.address});
  product.run(stream);
  stream.synchronize();

  std::vector<bool> written(before.size());
  const double operandError = desc.tf32 ? 0x1p-10 : 0x1p-22;
  const double resultError = desc.c.dtype == DType::f32 ? 0x1p-22 : desc.c.dtype == DType::bf16 ? 0x1p-8 : 0x1p-11;
  for (std::int64_t outer = 0; outer < desc.batch[0]; ++outer)
    for (std::int64_t inner = 0; inner < desc.batch[1]; ++inner)
      for (std::int64_t i = 0; i < desc.m; ++i)
        for (std::int64_t j = 0; j < desc.n; ++j) {
          const std::int64_t place = at(desc.c, outer, inner, i, j);
          double sum = elsewhere ? addend.get(place) : desc.accumulate ? before[place] : 0;
          if (desc.bias)
            sum += bias.get(j);
          for (std::int64_t k = 0; k < desc.k; ++k)
            sum += a.get(at(desc.a, outer, inner, i, k)) * b.get(at(desc.b, outer, inner, k, j));
          if (desc.geluGradient) {
            // 0.5·(1 + tanh(u)) + 0.5·x·(1 - tanh(u)²)·u', u = √(2/π)·(x + 0.044715·x³)
            const double x = aux.get(place), u = 0.7978845608028654 * (x + 0.044715 * x * x * x), t = std::tanh(u);
            sum *= 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * 0.7978845608028654 * (1 + 3 * 0.044715 * x * x);
          }
          ASSERT_NEAR(c.get(place), sum, operandError * (4 + desc.k) + resultError * (1 + std::fabs(sum)))
              << outer << " " << inner << " " << i << " " << j;
          written[place] = true;
        }
  for (std::size_t i = 0; i < before.size(); ++i)
    if (!written[i]) {
      ASSERT_EQ(c.get(i), before[i]) << "element " << i << " between the rows";
    }
}

void check(Products &products, const Device &device, const Stream &stream, const GemmDesc &desc, std::int64_t shift) {
  checkOnce(products, device, stream, desc, shift, false);
  if (desc.accumulate && desc.k > 0)
    checkOnce(products, device, stream, desc, shift, true);
}

/// Strides of a rows x columns matrix: row-major, column-major, and both with a gap.
MatrixLayout layoutOf(int kind, DType dtype, std::int64_t rows, std::int64_t columns) {
  const std::int64_t gap = kind / 2 * 3;
  return kind % 2 ? MatrixLayout{dtype, 1, rows + gap, {}} : MatrixLayout{dtype, columns + gap, 1, {}};
}

TEST_F(CudaGemm, SlopesOfGelu) {
  Products products(*device, "");
  for (DType dtype : {DType::bf16, DType::f16})
    for (int kindA : {0, 1, 2})
      for (int kindB : {0, 1, 3}) {
        GemmDesc desc;
        desc.m = 21, desc.n = 24, desc.k = 17;
        desc.geluGradient = true;
        desc.a = layoutOf(kindA, dtype, desc.m, desc.k);
        desc.b = layoutOf(kindB, dtype, desc.k, desc.n);
        desc.c = {dtype, desc.n, 1, {}};
        check(products, *device, stream, desc, 0);
        desc.c.rowStride = desc.n + 8; // rows with something between them
        check(products, *device, stream, desc, 8);
      }
  GemmDesc desc;
  desc.m = desc.n = desc.k = 8;
  desc.geluGradient = true;
  desc.a = desc.b = {DType::bf16, 8, 1, {}};
  desc.c = {DType::f32, 8, 1, {}};
  EXPECT_NE(errorOf([&] { products.make(desc, {}); }).find("is multiplied by slopes of GELU, which one of 16 bits"),
            std::string::npos);
  desc.c = {DType::bf16, 1, 8, {}};
  EXPECT_NE(errorOf([&] { products.make(desc, {}); }).find("c is transposed and is multiplied by slopes"),
            std::string::npos);
}

TEST_F(CudaGemm, EveryLayoutTypeAccumulationAndBias) {
  Products products(*device, "");
  const Types types[] = {{DType::f32, DType::f32},
                         {DType::bf16, DType::bf16},
                         {DType::bf16, DType::f32},
                         {DType::f16, DType::f16},
                         {DType::f16, DType::f32}};
  const std::array<std::int64_t, 3> sizes[] = {{5, 7, 3}, {16, 8, 32}, {1, 9, 4}, {6, 1, 5}, {4, 5, 1}, {1, 1, 1}};
  for (const auto [operands, result] : types)
    for (const auto [m, n, k] : sizes)
      for (int kinds = 0; kinds < 64; ++kinds)
        for (bool accumulate : {false, true})
          for (bool bias : {false, true}) {
            GemmDesc desc;
            desc.m = m, desc.n = n, desc.k = k;
            desc.a = layoutOf(kinds % 4, operands, m, k);
            desc.b = layoutOf(kinds / 4 % 4, operands, k, n);
            desc.c = layoutOf(kinds / 16, result, m, n);
            desc.accumulate = accumulate;
            if (bias)
              desc.bias = result;
            const bool transposed = normalized(desc.c, m, n).columnStride != 1;
            if (bias && transposed)
              EXPECT_NE(errorOf([&] { products.make(desc, {}); }).find("c is transposed and has a bias"),
                        std::string::npos);
            else
              check(products, *device, stream, desc, kinds % 3);
            if (HasFatalFailure())
              return;
          }
}

/// Matmuls with a bias: types, even and odd strides, batches, added to C or elsewhere.
std::vector<GemmDesc> biasProducts() {
  std::vector<GemmDesc> all;
  for (const auto [operands, result] :
       {Types{DType::f32, DType::f32}, {DType::bf16, DType::bf16}, {DType::bf16, DType::f32}, {DType::f16, DType::f16}})
    for (std::int64_t n : {8, 13, 64})
      for (std::array<std::int64_t, 2> batch : {std::array<std::int64_t, 2>{1, 1}, {3, 1}, {2, 3}})
        for (bool accumulate : {false, true}) {
          GemmDesc desc;
          desc.batch = batch;
          desc.m = 9, desc.n = n, desc.k = 24;
          desc.a = {operands, 24, 1, {batch[1] * 9 * 24, 9 * 24}};
          desc.b = {operands, n, 1, {0, 0}};
          desc.c = {result, n, 1, {batch[1] * 9 * n, 9 * n}};
          desc.accumulate = accumulate;
          desc.bias = result;
          all.push_back(desc);
        }
  return all;
}

TEST_F(CudaGemm, ABiasMayStartAnywhere) {
  Products products(*device, "");
  for (const GemmDesc &desc : biasProducts())
    for (std::int64_t shift : {1, 3, 4, 8})
      checkOnce(products, *device, stream, desc, 0, false, shift);
}

// Where the library has no algorithm with the bias, the bias is added all the same; where it has one for an aligned
// bias alone, the bias is copied.
TEST_F(CudaGemm, ABiasIsAddedWithoutTheLibrarysEpilogue) {
  for (const std::string heuristics : {"bare", "aligned"}) {
    setenv("TCC_CUBLASLT_HEURISTICS", heuristics.c_str(), 1);
    Products products(*device, "");
    for (const GemmDesc &desc : biasProducts()) {
      SCOPED_TRACE(heuristics);
      const bool alone = heuristics == "aligned" && desc.n != 13;
      EXPECT_EQ(products.make(desc, {}).calls(), alone ? 1u : 2u) << describe(desc);
      for (std::int64_t shift : {0, 1}) {
        checkOnce(products, *device, stream, desc, 0, false, shift);
        if (desc.accumulate)
          checkOnce(products, *device, stream, desc, 0, true, shift);
      }
      if (HasFatalFailure())
        return;
    }
  }
  { // both matmuls are in the tuning file
    setenv("TCC_CUBLASLT_HEURISTICS", "bare", 1);
    Products(*device, tuning).make(biasProducts().front(), {});
    const std::string first = *readFile(tuning);
    setenv("TCC_CUBLASLT_UNSTABLE", "all", 1);
    EXPECT_EQ(errorOf([&] { Products(*device, tuning).make(biasProducts().front(), {}); }), "no error");
    unsetenv("TCC_CUBLASLT_UNSTABLE");
    EXPECT_EQ(*readFile(tuning), first);
  }
  setenv("TCC_CUBLASLT_HEURISTICS", "none", 1);
  Products products(*device, "");
  const GemmDesc desc = biasProducts().front();
  const std::string error = errorOf([&] { products.make(desc, {16, 16, 16, 0}); });
  EXPECT_EQ(error, "choosing an algorithm for product " + describe(desc) +
                       ", operands aligned to 16, 16 and 16 bytes: the library has none");
}

TEST_F(CudaGemm, BatchesThatJoinThatDoNotAndThatRepeat) {
  Products products(*device, "");
  auto one = [&](std::array<std::int64_t, 2> batch, std::array<std::int64_t, 2> a, std::array<std::int64_t, 2> b,
                 std::array<std::int64_t, 2> c, std::int64_t row, std::size_t calls) {
    for (DType dtype : {DType::f32, DType::bf16}) {
      GemmDesc desc{batch, 4, 6, 8, {dtype, row, 1, a}, {dtype, 1, row, b}, {dtype, 6, 1, c}, false, {}, false};
      check(products, *device, stream, desc, 0);
      check(products, *device, stream, desc, 1);
      EXPECT_EQ(products.make(desc, {}).calls(), calls) << describe(desc);
    }
  };
  one({1, 3}, {0, 32}, {0, 48}, {0, 24}, 8, 1);
  one({3, 1}, {32, 0}, {48, 0}, {24, 0}, 8, 1);
  one({2, 3}, {96, 32}, {144, 48}, {72, 24}, 8, 1);
  one({2, 3}, {0, 0}, {144, 48}, {72, 24}, 8, 1); // one a for all
  one({2, 3}, {0, 32}, {144, 48}, {72, 24}, 8, 2);
  one({2, 3}, {96, 8}, {144, 8}, {72, 24}, 24, 2); // heads inside packed rows
  one({5, 2}, {48, 8}, {144, 8}, {48, 24}, 24, 2); // the loop goes over the smaller dim
}

TEST_F(CudaGemm, Tf32IsOnRequest) {
  Products products(*device, "");
  GemmDesc desc{{1, 1}, 16, 16,  64, {DType::f32, 64, 1, {}}, {DType::f32, 16, 1, {}}, {DType::f32, 16, 1, {}},
                false,  {}, true};
  check(products, *device, stream, desc, 0);
}

// Long sums are split. A part that is rounded to 16 bits costs more than the one rounding of the result, most where
// parts cancel: here each row's halves nearly do.
TEST_F(CudaGemm, PartsOfSumsAreNotRoundedTo16Bits) {
  Products products(*device, "");
  for (DType dtype : {DType::bf16, DType::f16}) {
    const std::int64_t m = 8, n = 16, k = 64;
    GemmDesc desc{{1, 1}, m, n, k, {dtype, k, 1, {}}, {dtype, n, 1, {}}, {dtype, n, 1, {}}, false, {}, false};
    Operand a(*device, desc.a, m * k * 2, 0, 1), b(*device, desc.b, k * n * 2, 0, 2),
        c(*device, desc.c, m * n * 2, 0, 3);
    for (std::int64_t i = 0; i < m; ++i)
      for (std::int64_t j = 0; j < k / 2; ++j)
        a.set(i * k + k / 2 + j, static_cast<float>(-a.get(i * k + j) * (1 + 0x1p-6)));
    for (std::int64_t j = 0; j < k / 2 * n; ++j)
      b.set(k / 2 * n + j, static_cast<float>(b.get(j)));
    const cuda::Buffer workspace = device->allocate(1 << 20);
    Product product = products.make(desc, {256, 256, 256, 1 << 20});
    product.place({a.address, b.address, c.address, 0, workspace.address()});
    product.run(stream);
    stream.synchronize();
    for (std::int64_t i = 0; i < m; ++i)
      for (std::int64_t j = 0; j < n; ++j) {
        double sum = 0;
        for (std::int64_t l = 0; l < k; ++l)
          sum += a.get(i * k + l) * b.get(l * n + j);
        EXPECT_NEAR(c.get(i * n + j), sum, (dtype == DType::bf16 ? 0x1.02p-8 : 0x1.02p-11) * std::fabs(sum) + 0x1p-24)
            << i << " " << j;
      }
  }
}

TEST_F(CudaGemm, NothingToAddUp) {
  Products products(*device, "");
  GemmDesc desc{{2, 1}, 3,  4,    0, {DType::f32, 1, 1, {}}, {DType::f32, 4, 1, {}}, {DType::f32, 7, 1, {30, 0}},
                false,  {}, false};
  check(products, *device, stream, desc, 1);
  desc.accumulate = true;
  check(products, *device, stream, desc, 0);
  desc.bias = DType::f32;
  EXPECT_NE(errorOf([&] { products.make(desc, {}); }).find("adds a bias to an empty sum"), std::string::npos);
  desc.bias.reset();
  desc.m = 0;
  EXPECT_EQ(products.make(desc, {}).calls(), 0u);
}

TEST_F(CudaGemm, RefusalsNameTheProduct) {
  Products products(*device, "");
  const GemmDesc good{{1, 1}, 4,  6,    8, {DType::bf16, 8, 1, {}}, {DType::bf16, 6, 1, {}}, {DType::bf16, 6, 1, {}},
                      false,  {}, false};
  auto refused = [&](auto change, const char *expected) {
    GemmDesc desc = good;
    change(desc);
    const std::string error = errorOf([&] { products.make(desc, {}); });
    EXPECT_NE(error.find(expected), std::string::npos) << error;
    EXPECT_NE(error.find("product"), std::string::npos) << error;
  };
  refused([](GemmDesc &d) { d.a.columnStride = 2; }, "a has neither unit row nor unit column stride");
  refused([](GemmDesc &d) { d.b.rowStride = 5; }, "b has rows or columns that overlap");
  refused([](GemmDesc &d) { d.b.rowStride = 0; }, "b has rows or columns that overlap");
  refused([](GemmDesc &d) { d.c = {DType::bf16, 12, 2, {}}; }, "c has no unit stride");
  refused([](GemmDesc &d) { d.bias = DType::f32; }, "cuBLASLt adds a bias of C's type, bf16");
  refused([](GemmDesc &d) { d.a.dtype = DType::f32; }, "f32 and bf16");
}

GemmDesc someProduct() {
  return {{1, 1}, 32, 48,   64, {DType::bf16, 64, 1, {}}, {DType::bf16, 48, 1, {}}, {DType::f32, 48, 1, {}},
          false,  {}, false};
}

TEST_F(CudaGemm, AnAlgorithmThatChangesBitsIsNotTaken) {
  for (const std::string &file : {std::string(), tuning}) {
    setenv("TCC_CUBLASLT_UNSTABLE", "0", 1);
    Products products(*device, file);
    check(products, *device, stream, someProduct(), 0);
    setenv("TCC_CUBLASLT_UNSTABLE", "all", 1);
    std::filesystem::remove(tuning);
    Products hopeless(*device, file);
    EXPECT_NE(errorOf([&] { hopeless.make(someProduct(), {}); }).find("gives equal bits twice"), std::string::npos);
  }
}

TEST_F(CudaGemm, TheChoiceIsInTheTuningFileBeforeItIsUsed) {
  {
    Products products(*device, tuning);
    products.make(someProduct(), {});
  }
  const std::string first = *readFile(tuning);
  EXPECT_NE(first.find("Fake H200"), std::string::npos) << first;
  EXPECT_NE(first.find("32x48x64"), std::string::npos);
  // From now on nothing is tried: even where no algorithm gives equal bits, the file's is taken.
  setenv("TCC_CUBLASLT_UNSTABLE", "all", 1);
  Products again(*device, tuning);
  EXPECT_EQ(errorOf([&] { again.make(someProduct(), {}); }), "no error");
  EXPECT_EQ(*readFile(tuning), first);
  // Other alignments are another entry.
  EXPECT_NE(errorOf([&] { again.make(someProduct(), {16, 16, 16, 0}); }).find("equal bits twice"), std::string::npos);
}

TEST_F(CudaGemm, ADamagedTuningFileIsNotBelieved) {
  ASSERT_FALSE(writeFileAtomically(tuning, "not JSON"));
  EXPECT_NE(errorOf([&] { Products(*device, tuning); }).find("tuning file `" + tuning + "` is not valid JSON"),
            std::string::npos);
  ASSERT_FALSE(writeFileAtomically(tuning, R"({"version": 2, "products": {}})"));
  EXPECT_NE(errorOf([&] { Products(*device, tuning); }).find("version 2"), std::string::npos);
  std::filesystem::remove(tuning);
  Products(*device, tuning).make(someProduct(), {});
  std::string text = *readFile(tuning);
  const std::size_t digit = text.find("\"algorithm\": \"") + 20;
  text[digit] = text[digit] == '0' ? '1' : '0';
  ASSERT_FALSE(writeFileAtomically(tuning, text));
  Products(*device, tuning).make(someProduct(), {}); // chosen anew and put right
  const std::string right = *readFile(tuning);
  EXPECT_NE(right, text);
  setenv("TCC_CUBLASLT_UNSTABLE", "all", 1);
  EXPECT_EQ(errorOf([&] { Products(*device, tuning).make(someProduct(), {}); }), "no error");
}

TEST_F(CudaGemm, EachCallOfTheLibraryFailingOnceIsOneMessage) {
  const char *functions[] = {"cublasLtCreate",
                             "cublasLtMatmulDescCreate",
                             "cublasLtMatmulDescSetAttribute",
                             "cublasLtMatrixLayoutCreate",
                             "cublasLtMatrixLayoutSetAttribute",
                             "cublasLtMatmulPreferenceCreate",
                             "cublasLtMatmulPreferenceSetAttribute",
                             "cublasLtMatmulAlgoGetHeuristic",
                             "cublasLtMatmul"};
  GemmDesc desc{{2, 1},
                8,
                12,
                16,
                {DType::f32, 16, 1, {128, 0}},
                {DType::f32, 12, 1, {192, 0}},
                {DType::f32, 12, 1, {96, 0}},
                false,
                DType::f32,
                false};
  const GemmExtents extents = *gemmExtents(desc);
  Operand a(*device, desc.a, extents.a, 0, 1), b(*device, desc.b, extents.b, 0, 2), c(*device, desc.c, extents.c, 0, 3),
      bias(*device, desc.c, extents.bias, 0, 4);
  auto work = [&] {
    Products products(*device, "");
    Product product = products.make(desc, {});
    for (int run = 0; run < 2; ++run) {
      product.place({a.address, b.address, c.address, bias.address, 0});
      product.run(stream);
    }
    stream.synchronize();
  };
  const Library standIn = Library::open({"the stand-in", "", {CUBLASLT_STAND_IN}, {}, ""});
  auto *fail = reinterpret_cast<void (*)(const char *, int, int)>(standIn.get("tccCublasLtFail"));
  auto *live = reinterpret_cast<int (*)()>(standIn.get("tccCublasLtLive"));
  for (const char *function : functions) {
    int failures = 0;
    for (int call = 1; call <= 64; ++call) {
      fail(function, 14, call);
      const std::string error = errorOf(work);
      fail(function, 14, 0);
      EXPECT_EQ(live(), 0) << "after call " << call << " of " << function;
      if (error == "no error") // it was not called so often
        break;
      ++failures;
      EXPECT_NE(error.find("cuBLASLt status 14"), std::string::npos) << function << " " << call << ": " << error;
      EXPECT_EQ(std::count(error.begin(), error.end(), '\n'), 0) << error;
      EXPECT_EQ(errorOf(work), "no error") << "after call " << call << " of " << function;
    }
    EXPECT_GE(failures, 1) << function;
    EXPECT_LT(failures, 64) << function;
  }
  // An algorithm that the library no longer takes is chosen anew.
  Products(*device, tuning).make(desc, {});
  fail("cublasLtMatmulAlgoCheck", 14, 1);
  EXPECT_EQ(errorOf([&] { Products(*device, tuning).make(desc, {}); }), "no error");
  fail("cublasLtMatmulAlgoCheck", 14, 0);
}

} // namespace
