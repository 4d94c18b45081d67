// Known answers of Random123 (kat_vectors, philox4x32 10), checked at compile time.
#include "runtime/philox.h"
#include <gtest/gtest.h>

namespace tcc::runtime {

static_assert(philox4x32({0, 0, 0, 0}, {0, 0}) == PhiloxCounter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
static_assert(philox4x32({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}) ==
              PhiloxCounter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
static_assert(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) ==
              PhiloxCounter{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});

TEST(Philox, uniformStaysBelowOne) {
  EXPECT_EQ(philoxUniform(0), 0.0f);
  EXPECT_LT(philoxUniform(0xffffffff), 1.0f);
}

TEST(Philox, uniformIsCentered) {
  double sum = 0;
  const uint32_t count = 40000;
  for (uint32_t i = 0; i < count; ++i)
    sum += philoxUniform(philox4x32({i, 0, 0, 0}, {1, 2})[i % 4]);
  EXPECT_NEAR(sum / count, 0.5, 0.01); // standard error 0.0014
}

} // namespace tcc::runtime
