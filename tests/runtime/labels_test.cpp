// labelPattern() and joinedLabel(): one label for the instructions of several layers.
#include "runtime/labels.h"
#include <gtest/gtest.h>

namespace tcc::runtime {
namespace {

TEST(Labels, layersHaveOnePattern) {
  EXPECT_EQ(labelPattern("h.3.mlp.gelu+c_fc.bias"), "h.*.mlp.gelu+c_fc.bias");
  EXPECT_EQ(labelPattern("h.11.attn.linear: matmul 24 x 64x64x64 nt"), "h.*.attn.linear: matmul 24 x 64x64x64 nt");
  for (const char *plain : {"", "gelu", "fused 7 ops into x", "rate 0.1", "3.x", "a.b3"})
    EXPECT_EQ(labelPattern(plain), plain);
}

TEST(Labels, twoShareWhatIsEqual) {
  EXPECT_EQ(joinedLabel("gelu", "gelu"), "gelu");
  EXPECT_EQ(joinedLabel("h.0.mlp.gelu+bias", "h.1.mlp.gelu+bias"), "h.*.mlp.gelu+bias");
  EXPECT_EQ(joinedLabel("h.*.mlp.gelu", "h.7.mlp.gelu"), "h.*.mlp.gelu");
  EXPECT_EQ(joinedLabel("wte.weight.adamw", "h.0.ln_1.bias.adamw"), "*.adamw");
  EXPECT_EQ(joinedLabel("*.adamw", "h.0.ln_1.bias.adamw"), "*.adamw");
}

TEST(Labels, whatOneHasAloneIsLeftOut) {
  EXPECT_EQ(joinedLabel("h.0.attn.attention", "h.1.attn.attention+h.0.attn.attention"), "h.*.attn.attention+…");
  EXPECT_EQ(joinedLabel("h.*.attn.attention+…", "h.2.attn.attention"), "h.*.attn.attention+…");
  EXPECT_EQ(joinedLabel("x", "y"), "x, …");
  EXPECT_EQ(joinedLabel("x, …", "z"), "x, …");
}

} // namespace
} // namespace tcc::runtime
