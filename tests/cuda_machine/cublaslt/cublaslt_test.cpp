// The numbers of the stand-in for cuBLASLt, against a triple loop in double that knows nothing of it.
#include "tests/cuda_machine/cublaslt/stand_in.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

using namespace tcc::lt;

namespace {

std::size_t bytesOfType(int type) {
  return type == float32 ? 4 : 2;
}

double decodeHalf(unsigned bits) {
  double sign = bits & 0x8000 ? -1 : 1;
  unsigned exponent = bits >> 10 & 31, fraction = bits & 1023;
  if (exponent == 31)
    return fraction ? NAN : sign * INFINITY;
  return exponent == 0 ? sign * std::pow(2, -24) * fraction
                       : sign * std::pow(2, exponent - 15.0) * (1 + fraction / 1024.0);
}

/// Numbers that every type holds exactly are looked up; nothing is rounded here.
unsigned encodeHalf(double value) {
  static const std::map<double, unsigned> table = [] {
    std::map<double, unsigned> made;
    for (unsigned bits = 0; bits < 0x10000; ++bits)
      if (!std::isnan(decodeHalf(bits)))
        made[decodeHalf(bits)] = bits;
    return made;
  }();
  return table.at(value);
}

double decode(int type, const unsigned char *from) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, from, bytesOfType(type));
  return type == float16 ? decodeHalf(bits) : std::bit_cast<float>(type == float32 ? bits : bits << 16);
}

void encode(int type, double value, unsigned char *to) {
  std::uint32_t bits = std::bit_cast<std::uint32_t>(static_cast<float>(value));
  if (type == bfloat16)
    bits >>= 16;
  if (type == float16)
    bits = encodeHalf(value);
  std::memcpy(to, &bits, bytesOfType(type));
}

/// Matrices in memory of their own, guarded by bytes that nobody may touch, and the values that they hold.
struct Stored {
  int type, order, batches;
  std::int64_t rows, cols, ld, stride;
  std::vector<unsigned char> memory;
  std::vector<double> values;
  unsigned char *base;

  Stored(int elementType, int orderOfLines, int count, std::int64_t r, std::int64_t c, std::int64_t padding,
         std::mt19937 &random)
      : type(elementType), order(orderOfLines), batches(count), rows(r), cols(c) {
    ld = (order == columnMajor ? rows : cols) + padding;
    stride = ld * (order == columnMajor ? cols : rows) + padding;
    memory.assign((stride * batches + 256) * bytesOfType(type) + 512, 0xa5);
    base = memory.data() + 256 - reinterpret_cast<std::uintptr_t>(memory.data()) % 256;
    values.resize(rows * cols * batches);
    for (std::int64_t batch = 0; batch < batches; ++batch)
      for (std::int64_t row = 0; row < rows; ++row)
        for (std::int64_t col = 0; col < cols; ++col)
          encode(type, at(batch, row, col) = (static_cast<int>(random() % 33) - 16) / 8.0, place(batch, row, col));
  }
  double &at(std::int64_t batch, std::int64_t row, std::int64_t col) {
    return values[(batch * rows + row) * cols + col];
  }
  unsigned char *place(std::int64_t batch, std::int64_t row, std::int64_t col) {
    std::int64_t element = batch * stride;
    element += order == columnMajor ? row + col * ld : row * ld + col;
    return base + element * static_cast<std::int64_t>(bytesOfType(type));
  }
  double read(std::int64_t batch, std::int64_t row, std::int64_t col) { return decode(type, place(batch, row, col)); }
  /// Bytes that belong to no element.
  std::vector<unsigned char> outside() {
    std::vector<unsigned char> left = memory;
    for (std::int64_t batch = 0; batch < batches; ++batch)
      for (std::int64_t row = 0; row < rows; ++row)
        for (std::int64_t col = 0; col < cols; ++col)
          std::memset(left.data() + (place(batch, row, col) - memory.data()), 0, bytesOfType(type));
    return left;
  }
  Layout layout() const {
    Layout made = nullptr;
    EXPECT_EQ(LT(cublasLtMatrixLayoutCreate)(&made, type, rows, cols, ld), success);
    EXPECT_EQ(LT(cublasLtMatrixLayoutSetAttribute)(made, layoutOrder, &order, 4), success);
    EXPECT_EQ(LT(cublasLtMatrixLayoutSetAttribute)(made, layoutBatchCount, &batches, 4), success);
    EXPECT_EQ(LT(cublasLtMatrixLayoutSetAttribute)(made, layoutBatchOffset, &stride, 8), success);
    return made;
  }
};

double geluOf(double x) {
  double z = std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x);
  return x / (1 + std::exp(-2 * z));
}
double geluSlopeOf(double x) {
  return (geluOf(x + 1e-5) - geluOf(x - 1e-5)) / 2e-5;
}

struct Types {
  int compute, operands, results;
};
struct Sample {
  Types types;
  int transA, transB, orderA, orderB, orderD, batches;
  unsigned epilogue;
  float alpha, beta;
  bool inPlace;

  std::string text() const {
    return "types " + std::to_string(types.compute) + "/" + std::to_string(types.operands) + "/" +
           std::to_string(types.results) + " trans " + std::to_string(transA) + std::to_string(transB) + " orders " +
           std::to_string(orderA) + std::to_string(orderB) + std::to_string(orderD) + " batches " +
           std::to_string(batches) + " epilogue " + std::to_string(epilogue) + " beta " + std::to_string(beta) +
           (inPlace ? " in place" : "");
  }
};

/// One matmul with everything that belongs to it.
struct Run {
  static constexpr std::int64_t m = 11, n = 4, k = 6;
  Sample sample;
  Stored a, b, c, d, aux, bias;
  static constexpr std::int64_t maskLd = 128, maskStride = 128 * n;
  std::vector<unsigned char> mask;

  Run(const Sample &wanted, std::mt19937 &random)
      : sample(wanted), a(wanted.types.operands, wanted.orderA, wanted.batches, wanted.transA ? k : m,
                          wanted.transA ? m : k, 3, random),
        b(wanted.types.operands, wanted.orderB, wanted.batches, wanted.transB ? n : k, wanted.transB ? k : n, 1,
          random),
        c(wanted.types.results, wanted.orderD, wanted.batches, m, n, 2, random),
        d(wanted.types.results, wanted.orderD, wanted.batches, m, n, wanted.inPlace ? 2 : 5, random),
        aux(wanted.types.results, columnMajor, wanted.batches, 16, n, 8, random),
        bias(wanted.types.results, columnMajor, wanted.batches, std::max(m, n), 1, 0, random),
        mask(wanted.batches * maskStride / 8 + 16) {
    for (unsigned char &byte : mask)
      byte = static_cast<unsigned char>(random());
  }

  bool usesMask() const { return (sample.epilogue & 128) && (sample.epilogue & (2 | 8)); }
  unsigned char *maskBase() { return mask.data() + 15 - (reinterpret_cast<std::uintptr_t>(mask.data()) + 15) % 16; }
  bool maskBit(std::int64_t batch, std::int64_t row, std::int64_t col) {
    std::int64_t place = batch * maskStride + col * maskLd + row;
    return maskBase()[place / 8] >> (place % 8) & 1;
  }

  void multiply() {
    Call call(sample.types.compute);
    call.a = a.layout();
    call.b = b.layout();
    call.c = (sample.inPlace ? d : c).layout();
    call.d = d.layout();
    call.set(descTransA, sample.transA);
    call.set(descTransB, sample.transB);
    call.set(descEpilogue, sample.epilogue);
    call.set(descBiasPointer, bias.base);
    call.set(descBiasBatchStride, bias.stride);
    call.set(descAuxPointer, usesMask() ? maskBase() : aux.base);
    call.set(descAuxLd, usesMask() ? maskLd : aux.ld);
    call.set(descAuxBatchStride, usesMask() ? maskStride : aux.stride);
    std::vector<unsigned char> space(4096);
    void *workspace = space.data() + 256 - reinterpret_cast<std::uintptr_t>(space.data()) % 256;
    EXPECT_EQ(LT(cublasLtMatmul)(call.handle, call.desc, &sample.alpha, a.base, call.a, b.base, call.b, &sample.beta,
                                 (sample.inPlace ? d : c).base, call.c, d.base, call.d, nullptr, workspace, 2048,
                                 nullptr),
              success)
        << call.reason();
  }

  void check() {
    std::vector<unsigned char> outsideD = d.outside();
    Stored before = d;
    std::vector<bool> maskBefore;
    for (std::int64_t batch = 0; batch < sample.batches; ++batch)
      for (std::int64_t i = 0; i < m * n; ++i)
        maskBefore.push_back(maskBit(batch, i % m, i / m));
    multiply();
    EXPECT_EQ(d.outside(), outsideD);
    for (std::int64_t batch = 0; batch < sample.batches; ++batch) {
      std::vector<double> rowSums(m);
      for (std::int64_t col = 0; col < n; ++col)
        for (std::int64_t row = 0; row < m; ++row) {
          bool bit = maskBefore[(batch * n + col) * m + row];
          double wanted = element(before, batch, row, col, bit);
          rowSums[row] += wanted;
          near(d.read(batch, row, col), wanted, "D");
        }
      checkBias(batch, rowSums);
      for (std::int64_t col = 0; col < n; ++col)
        for (std::int64_t row = m; row < aux.rows; ++row)
          EXPECT_EQ(aux.read(batch, row, col), aux.at(batch, row, col)) << "beyond the rows: " << sample.text();
    }
  }

private:
  double left(std::int64_t batch, std::int64_t row, std::int64_t step) {
    return sample.transA ? a.at(batch, step, row) : a.at(batch, row, step);
  }
  double right(std::int64_t batch, std::int64_t step, std::int64_t col) {
    return sample.transB ? b.at(batch, col, step) : b.at(batch, step, col);
  }

  double element(Stored &before, std::int64_t batch, std::int64_t row, std::int64_t col, bool bit) {
    double value = 0;
    for (std::int64_t step = 0; step < k; ++step)
      value += left(batch, row, step) * right(batch, step, col);
    value *= sample.alpha;
    value += sample.beta == 0 ? 0 : sample.beta * (sample.inPlace ? before : c).at(batch, row, col);
    switch (sample.epilogue) {
    case epilogueBias:
      return value + bias.at(batch, row, 0);
    case epilogueReluBias:
      return std::max(0.0, value + bias.at(batch, row, 0));
    case epilogueGeluBias:
      return geluOf(value + bias.at(batch, row, 0));
    case epilogueReluAuxBias:
    case epilogueGeluAuxBias:
      value += bias.at(batch, row, 0);
      break;
    }
    switch (sample.epilogue) {
    case epilogueRelu:
      return std::max(0.0, value);
    case epilogueReluAux:
    case epilogueReluAuxBias:
      EXPECT_EQ(maskBit(batch, row, col), value > 0);
      return std::max(0.0, value);
    case epilogueGelu:
      return geluOf(value);
    case epilogueGeluAux:
    case epilogueGeluAuxBias:
      near(aux.read(batch, row, col), value, "auxiliary");
      return geluOf(value);
    case epilogueDrelu:
    case epilogueDreluBgrad:
      return bit ? value : 0;
    case epilogueDgelu:
    case epilogueDgeluBgrad:
      return value * geluSlopeOf(aux.at(batch, row, col));
    }
    return value;
  }

  void checkBias(std::int64_t batch, const std::vector<double> &rowSums) {
    bool ofA = sample.epilogue == epilogueBgradA, ofB = sample.epilogue == epilogueBgradB;
    bool ofD = sample.epilogue == epilogueDreluBgrad || sample.epilogue == epilogueDgeluBgrad;
    for (std::int64_t i = 0; i < std::max(m, n); ++i) {
      double wanted = bias.at(batch, i, 0);
      if ((ofA || ofD) && i < m)
        wanted = ofD ? rowSums[i] : 0;
      if (ofB && i < n)
        wanted = 0;
      for (std::int64_t step = 0; step < k; ++step)
        wanted += ofA && i < m ? left(batch, i, step) : ofB && i < n ? right(batch, step, i) : 0;
      near(bias.read(batch, i, 0), wanted, "bias");
    }
  }

  void near(double seen, double wanted, const char *what) {
    double ulp = sample.types.results == float32 ? 2e-6 : sample.types.results == float16 ? 6e-4 : 4.1e-3;
    EXPECT_NEAR(seen, wanted, ulp * std::fabs(wanted) + 2e-6) << what << ": " << sample.text();
  }
};

constexpr Types allTypes[] = {
    {compute32, bfloat16, bfloat16},        {compute32, float16, float16},
    {compute32, bfloat16, float32},         {compute32, float16, float32},
    {compute32, float32, float32},          {compute32Pedantic, float32, float32},
    {compute32Pedantic, bfloat16, float32}, {compute32FastTf32, float32, float32},
    {compute32FastBf16, float32, float32},  {compute32Fast16, float32, float32},
};
constexpr unsigned allEpilogues[] = {1, 2, 130, 4, 6, 134, 136, 152, 32, 36, 160, 164, 192, 208, 256, 512};

/// Bits 0 to 5 choose transposes, orders and batches.
void runAll(const Types &types, unsigned epilogue, int bits, std::mt19937 &random) {
  for (float beta : {0.0f, 0.5f})
    for (bool inPlace : {false, true}) {
      Sample sample = {types,
                       bits & 1,
                       bits >> 1 & 1,
                       bits >> 2 & 1,
                       bits >> 3 & 1,
                       bits >> 4 & 1,
                       bits & 32 ? 3 : 1,
                       epilogue,
                       beta == 0.0f ? 1.0f : 0.75f,
                       beta,
                       inPlace};
      if (epilogue != epilogueDefault && sample.orderD == rowMajor)
        continue;
      Run(sample, random).check();
    }
}

TEST(CublasLtStandIn, EveryTransposeOrderBatchAndType) {
  std::mt19937 random(1);
  for (const Types &types : allTypes)
    for (int bits = 0; bits < 64; ++bits)
      runAll(types, epilogueDefault, bits, random);
}

TEST(CublasLtStandIn, EveryEpilogue) {
  std::mt19937 random(2);
  for (const Types &types : {allTypes[0], allTypes[1], allTypes[2], allTypes[4], allTypes[7]})
    for (unsigned epilogue : allEpilogues)
      for (int bits = 0; bits < 64; bits += 1 + bits % 3)
        runAll(types, epilogue, bits, random);
}

/// One matmul of 1×1 by 1×1, whose bits show how operands and results are rounded.
float oneByOne(int compute, int operands, float left, float right, int results = float32) {
  std::mt19937 random(3);
  Stored a(operands, columnMajor, 1, 1, 1, 0, random), b = Stored(operands, columnMajor, 1, 1, 1, 0, random);
  Stored d(results, columnMajor, 1, 1, 1, 0, random);
  encode(operands, left, a.base);
  encode(operands, right, b.base);
  Call call(compute);
  call.a = a.layout();
  call.b = b.layout();
  call.c = d.layout();
  call.d = d.layout();
  float one = 1, zero = 0;
  EXPECT_EQ(LT(cublasLtMatmul)(call.handle, call.desc, &one, a.base, call.a, b.base, call.b, &zero, d.base, call.c,
                               d.base, call.d, nullptr, nullptr, 0, nullptr),
            success);
  return static_cast<float>(d.read(0, 0, 0));
}

TEST(CublasLtStandIn, RoundsAsTheTypesSay) {
  float fine = 1.0f + 0x1p-11f; // Half a step of TF32 and of f16, a sixteenth of bf16's.
  EXPECT_EQ(oneByOne(compute32, float32, fine, 1.0f), fine);
  EXPECT_EQ(oneByOne(compute32FastTf32, float32, fine, 1.0f), 1.0f + 0x1p-10f);
  EXPECT_EQ(oneByOne(compute32FastTf32, float32, 1.0f + 0x1p-12f, 1.0f), 1.0f);
  EXPECT_EQ(oneByOne(compute32Fast16, float32, 1.0f + 0x1.8p-10f, 1.0f), 1.0f + 0x1p-9f);
  EXPECT_EQ(oneByOne(compute32FastBf16, float32, 1.0f + 0x1.8p-7f, 1.0f), 1.0f + 0x1p-6f);
  // Ties of a result go to even; f16 has an end and a floor.
  EXPECT_EQ(oneByOne(compute32, bfloat16, 1.0f + 0x1p-7f, 1.0f + 0x1p-1f, bfloat16), 1.5f + 0x1p-6f);
  EXPECT_EQ(oneByOne(compute32, float16, 1024.0f, 64.0f, float16), INFINITY);
  EXPECT_EQ(oneByOne(compute32, float16, -2047.0f, 32.0f, float16), -65504.0f);
  EXPECT_EQ(oneByOne(compute32, float16, 0x1p-12f, 0x1.8p-12f, float16), 0x1p-23f);
  EXPECT_EQ(oneByOne(compute32, float16, 0x1p-13f, 0x1p-12f, float16), 0.0f);
  EXPECT_TRUE(std::isnan(oneByOne(compute32, bfloat16, NAN, 1.0f, bfloat16)));
}

} // namespace
