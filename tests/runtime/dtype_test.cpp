#include "runtime/dtype.h"
#include <cmath>
#include <gtest/gtest.h>
#include <random>

namespace tcc::runtime {
namespace {

TEST(DType, tableIsInEnumOrderAndNamesReadBack) {
  for (size_t i = 0; i < dtypeTable.size(); ++i) {
    const DType dtype = static_cast<DType>(i);
    EXPECT_EQ(info(dtype).dtype, dtype);
    EXPECT_EQ(parseDType(name(dtype)), dtype);
  }
  EXPECT_EQ(parseDType("f64"), std::nullopt);
  EXPECT_EQ(parseDType(""), std::nullopt);
}

TEST(DType, every16BitFloatSurvivesTheWayThroughFloat) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float bf16 = bf16ToFloat(static_cast<uint16_t>(bits)), f16 = f16ToFloat(static_cast<uint16_t>(bits));
    if (std::isnan(bf16))
      EXPECT_TRUE(std::isnan(bf16ToFloat(floatToBf16(bf16))));
    else
      ASSERT_EQ(floatToBf16(bf16), bits);
    if (std::isnan(f16))
      EXPECT_TRUE(std::isnan(f16ToFloat(floatToF16(f16))));
    else
      ASSERT_EQ(floatToF16(f16), bits);
  }
}

TEST(DType, f16KnownValues) {
  EXPECT_EQ(f16ToFloat(0x3c00), 1.0f);
  EXPECT_EQ(f16ToFloat(0x0001), 0x1p-24f);
  EXPECT_EQ(f16ToFloat(0x03ff), 1023 * 0x1p-24f);
  EXPECT_EQ(f16ToFloat(0x7bff), 65504.0f);
  EXPECT_EQ(floatToF16(65519.0f), 0x7bff);
  EXPECT_EQ(floatToF16(65520.0f), 0x7c00);
  EXPECT_EQ(floatToF16(0x1p-25f), 0); // a tie goes to the even zero
  EXPECT_EQ(floatToF16(0x1.000002p-25f), 1);
  EXPECT_EQ(floatToF16(-0.0f), 0x8000);
  EXPECT_EQ(bf16ToFloat(0x3f80), 1.0f);
}

// The nearest of the format's values, an even one on a tie, found by looking at both neighbours.
template <typename ToFloat>
void expectNearest(float value, uint16_t bits, ToFloat toFloat, uint16_t infinity) {
  if ((bits & 0x7fff) >= infinity)
    return;
  const double distance = std::fabs(static_cast<double>(toFloat(bits)) - value);
  for (int step : {-1, 1}) {
    const uint16_t magnitude = bits & 0x7fff;
    if ((magnitude == 0 && step < 0) || magnitude + step >= infinity)
      continue;
    const uint16_t neighbour = static_cast<uint16_t>(bits + step);
    const double other = std::fabs(static_cast<double>(toFloat(neighbour)) - value);
    EXPECT_TRUE(distance < other || (distance == other && bits % 2 == 0)) << value << " gave bits " << bits;
  }
}

TEST(DType, conversionsRoundToNearestEven) {
  std::mt19937 random(1);
  for (int i = 0; i < 300000; ++i) {
    uint32_t bits = random();
    if (i % 2) // half of them in the range of f16, many of them ties
      bits = (bits & 0x8fffe000u) | 0x30000000u | (i % 4 == 1 ? 0x1000u : 0);
    const float value = std::bit_cast<float>(bits);
    if (!std::isfinite(value))
      continue;
    expectNearest(value, floatToF16(value), f16ToFloat, 0x7c00);
    expectNearest(value, floatToBf16(value), bf16ToFloat, 0x7f80);
  }
}

TEST(DType, nanStaysNanAndKeepsItsSign) {
  const float quiet = std::bit_cast<float>(0xffc00001u), signaling = std::bit_cast<float>(0x7f800001u);
  for (float value : {quiet, signaling}) {
    EXPECT_TRUE(std::isnan(bf16ToFloat(floatToBf16(value))));
    EXPECT_TRUE(std::isnan(f16ToFloat(floatToF16(value))));
    EXPECT_EQ(std::signbit(bf16ToFloat(floatToBf16(value))), std::signbit(value));
  }
}

} // namespace
} // namespace tcc::runtime
