// Lane maps and swizzles against tables/, one hot element at a time. The tables follow the PTX ISA's figures and formulas;
// kernels/lanes.cu and wgmma_lanes.cu run on a GPU unchanged, where the same comparison checks the tables.
#include "tests/cuda_emulator/samples.h"

#include <gtest/gtest.h>

#include <array>
#include <map>

namespace tcc::emulator {
namespace {

std::vector<std::vector<int>> table(const std::string &name) {
  std::ifstream in(std::string(TCC_EMULATOR_TABLES) + "/" + name + ".txt");
  std::vector<std::vector<int>> rows;
  for (std::string line; std::getline(in, line);) {
    if (line.empty() || line[0] == '#')
      continue;
    std::istringstream numbers(line);
    rows.emplace_back();
    for (int number; numbers >> number;)
      rows.back().push_back(number);
  }
  if (rows.empty())
    throw std::runtime_error("no table " + name);
  return rows;
}

TEST(Lanes, LdmatrixFollowsItsTables) {
  Module module = Module::compile(kernelText("lanes.cu"));
  for (Schedule schedule : testSchedules()) {
    DeviceBuffer plain(512, "plain"), transposed(512, "transposed"), plain2(256, "plain2"), transposed2(256, "t2");
    LaunchResult result = launch(module, "ldmatrix_lanes", {1}, {32}, 0, schedule, plain.data(), transposed.data(),
                                 plain2.data(), transposed2.data());
    ASSERT_TRUE(result.ok()) << result.text();
    auto compare = [](const char *name, const DeviceBuffer &four, const DeviceBuffer &two) {
      std::vector<std::vector<int>> rows = table(name);
      ASSERT_EQ(rows.size(), 256u);
      for (const std::vector<int> &r : rows) {
        int element = r[3] * 64 + r[4] * 8 + r[5];
        EXPECT_EQ(four.as<std::uint16_t>()[(r[0] * 4 + r[1]) * 2 + r[2]], element) << name << " lane " << r[0];
        if (r[1] < 2) {
          EXPECT_EQ(two.as<std::uint16_t>()[(r[0] * 2 + r[1]) * 2 + r[2]], element) << name << " x2 lane " << r[0];
        }
      }
    };
    compare("ldmatrix", plain, plain2);
    compare("ldmatrix_trans", transposed, transposed2);
  }
}

TEST(Lanes, MmaFollowsItsTables) {
  // From the tables: where the product of slots of A and B shows.
  std::map<std::pair<int, int>, int> slotD;
  for (const auto &r : table("mma_m16n8k16_d"))
    slotD[{r[2], r[3]}] = r[0] * 4 + r[1];
  ASSERT_EQ(slotD.size(), 128u);
  std::vector<std::vector<int>> a = table("mma_m16n8k16_a"), b = table("mma_m16n8k16_b");
  ASSERT_EQ(a.size(), 256u);
  ASSERT_EQ(b.size(), 128u);
  Module module = Module::compile(kernelText("lanes.cu"));
  for (int half : {0, 1}) {
    DeviceBuffer out(256 * 128 * 4, "out");
    LaunchResult result = launch(module, "mma_lanes", {1}, {32}, 0, {}, out.data(), half);
    ASSERT_TRUE(result.ok()) << result.text();
    int wrong = 0;
    for (const auto &ra : a)
      for (const auto &rb : b) {
        int slotA = (ra[0] * 4 + ra[1]) * 2 + ra[2], slotB = (rb[0] * 2 + rb[1]) * 2 + rb[2];
        unsigned expected = ra[4] == rb[3] ? 1u + static_cast<unsigned>(slotD.at({ra[3], rb[4]})) : 0u;
        wrong += out.as<std::uint32_t>()[slotA * 128 + slotB] != expected;
      }
    EXPECT_EQ(wrong, 0);
  }
}

/// Byte offsets of the elements of a 16-bit operand tile, rows × 16, and the descriptor's offsets: written down from the
/// canonical layouts, swizzled by the tables.
struct Layout {
  std::string name;
  int swizzle; // bytes, 0: none
  bool transposed;
  int code; // in the descriptor
  int leading, stride;
};

std::vector<std::uint16_t> places(const Layout &layout) {
  std::vector<std::vector<int>> pattern;
  if (layout.swizzle)
    pattern = table("swizzle_" + std::to_string(layout.swizzle));
  std::vector<std::uint16_t> all(64 * 16);
  for (int row = 0; row < 64; ++row)
    for (int k = 0; k < 16; ++k) {
      int linear;
      int width = layout.swizzle;
      if (!layout.transposed && width) // rows of `width` bytes, all 64 below each other
        linear = row * width + k * 2;
      else if (!layout.transposed) // core matrices of 8 rows × 16 bytes: along k first
        linear = row / 8 * 256 + k / 8 * 128 + row % 8 * 16 + k % 8 * 2;
      else if (width) // rows of `width` bytes along MN, k below each other, then the next part of MN
        linear = row * 2 / width * (16 * width) + k * width + row * 2 % width;
      else // core matrices of 8 k × 16 bytes of MN: along MN first
        linear = k / 8 * 1024 + row / 8 * 128 + k % 8 * 16 + row % 8 * 2;
      if (width) {
        const std::vector<int> &line = pattern[static_cast<std::size_t>(linear / 128) % pattern.size()];
        linear = linear / 128 * 128 + line[static_cast<std::size_t>(1 + linear % 128 / 16)] * 16 + linear % 16;
      }
      all[static_cast<std::size_t>(row * 16 + k)] = static_cast<std::uint16_t>(linear);
    }
  return all;
}

TEST(Lanes, WgmmaFollowsItsTables) {
  std::map<std::pair<int, int>, unsigned> slotD;
  for (const auto &r : table("wgmma_m64n64_d"))
    slotD[{r[2], r[3]}] = 1u + static_cast<unsigned>(r[0] * 32 + r[1]);
  ASSERT_EQ(slotD.size(), 4096u);
  Module module = Module::compile(kernelText("wgmma_lanes.cu"));
  // Offsets as the PTX ISA defines them: K-major swizzled: stride is 8 rows; unswizzled: leading 8 k, stride 8 rows.
  // MN-major swizzled: leading is one row's width of MN, stride 8 k; unswizzled: leading 8 k, stride 8 of MN.
  const std::vector<Layout> kMajor = {{"128", 128, false, 1, 16, 1024},
                                      {"64", 64, false, 2, 16, 512},
                                      {"32", 32, false, 3, 16, 256},
                                      {"none", 0, false, 0, 128, 256}};
  const std::vector<Layout> mnMajor = {{"128", 128, true, 1, 2048, 1024},
                                       {"64", 64, true, 2, 1024, 512},
                                       {"32", 32, true, 3, 512, 256},
                                       {"none", 0, true, 0, 1024, 128}};
  for (std::size_t i = 0; i < kMajor.size(); ++i)
    for (bool transposed : {false, true}) {
      const Layout &a = kMajor[i], &b = transposed ? mnMajor[i] : kMajor[i];
      DeviceBuffer placeA(2048, "placeA"), placeB(2048, "placeB"), out(4096, "out");
      std::memcpy(placeA.data(), places(a).data(), 2048);
      std::memcpy(placeB.data(), places(b).data(), 2048);
      out.writeOnce(4); // two hits of one product would be written twice
      Schedule schedule;
      schedule.checkAccesses = true;
      LaunchResult result =
          launch(module, transposed ? "wgmma_lanes_transposed" : "wgmma_lanes", {1}, {128}, 32768, schedule,
                 placeA.data(), placeB.data(), out.data(), a.leading, a.stride, b.leading, b.stride, a.code);
      ASSERT_TRUE(result.ok()) << result.text() << "swizzle " << a.name << " transposed " << transposed;
      int wrong = 0;
      for (int hot = 0; hot < 1024; ++hot) {
        int row = hot / 16, k = hot % 16;
        wrong += out.as<std::uint32_t>()[hot] != slotD.at({row, (row + 5 * k) % 64});
      }
      EXPECT_EQ(wrong, 0) << "swizzle " << a.name << " transposed " << transposed;
    }

  // A from registers.
  DeviceBuffer placeB(2048, "placeB"), out(4096, "out");
  std::memcpy(placeB.data(), places(kMajor[0]).data(), 2048);
  LaunchResult result =
      launch(module, "wgmma_register_lanes", {1}, {128}, 32768, {}, placeB.data(), out.data(), 16, 1024, 1);
  ASSERT_TRUE(result.ok()) << result.text();
  for (const auto &r : table("wgmma_m64k16_a")) {
    int slot = (r[0] * 4 + r[1]) * 2 + r[2];
    EXPECT_EQ(out.as<std::uint32_t>()[slot], slotD.at({r[3], 0}) * 16 + static_cast<unsigned>(r[4]));
  }
}

// A box of 16-bit elements whose value is their index, loaded under each swizzle, with rows before, in and behind the
// tensor; what lies outside is zero.
TEST(Lanes, TmaFollowsTheSwizzleTables) {
  Module module = Module::compile(R"(
KERNEL(box, 128, 1)(GRID_CONSTANT const TensorMap map, u16 *out, int bytes, int c0, int c1, int c2, int c3) {
  DYNAMIC_SHARED(arena, 1024);
  SHARED(Mbarrier, full, 1);
  if (thread_x() == 0) {
    mbarrier_init(&full[0], 1);
    fence_mbarrier_init();
    mbarrier_arrive_expect(&full[0], bytes);
    tma_load_4d(arena, &map, &full[0], c0, c1, c2, c3);
  }
  block_barrier();
  mbarrier_wait(&full[0], 0);
  for (int i = thread_x(); i < bytes / 2; i += 128)
    out[i] = reinterpret_cast<u16 *>(arena)[i];
}
)");
  constexpr int columns = 72, rows = 20, heads = 3, batches = 2; // (d, T, H, B)
  DeviceBuffer in(columns * rows * heads * batches * 2, "in");
  for (int i = 0; i < columns * rows * heads * batches; ++i)
    in.as<std::uint16_t>()[i] = static_cast<std::uint16_t>(i + 1);
  for (int swizzle : {0, 32, 64, 128}) {
    int inner = swizzle ? swizzle / 2 : 40;
    EncodedMap map = makeTensorMap({MapElement::Bf16,
                                    in.data(),
                                    {columns, rows, heads, batches},
                                    {columns * 2, columns * rows * 2, columns * rows * heads * 2},
                                    {static_cast<std::uint32_t>(inner), 12, 1, 1},
                                    swizzle});
    std::vector<std::vector<int>> pattern = {{0, 0, 1, 2, 3, 4, 5, 6, 7}};
    if (swizzle)
      pattern = table("swizzle_" + std::to_string(swizzle));
    for (std::array<int, 4> at : {std::array{0, 0, 0, 0}, {48, 12, 1, 1}, {-8, -5, 2, 0}, {64, 16, 3, 1}}) {
      int bytes = inner * 12 * 2;
      DeviceBuffer out(static_cast<std::size_t>(bytes), "out");
      for (const Schedule &schedule : testSchedules()) {
        LaunchResult result = launch(module, "box", {1}, {128}, 4096, schedule, map, out.data(), bytes, at[0], at[1],
                                     at[2], at[3]);
        ASSERT_TRUE(result.ok()) << result.text();
        for (int row = 0; row < 12; ++row)
          for (int column = 0; column < inner; ++column) {
            int d = at[0] + column, t = at[1] + row;
            bool inside = d >= 0 && d < columns && t >= 0 && t < rows && at[2] < heads && at[3] < batches;
            int expected = inside ? ((at[3] * heads + at[2]) * rows + t) * columns + d + 1 : 0;
            int linear = (row * inner + column) * 2;
            const auto &line = pattern[static_cast<std::size_t>(linear / 128) % pattern.size()];
            int place = linear / 128 * 128 + line[static_cast<std::size_t>(1 + linear % 128 / 16)] * 16 + linear % 16;
            ASSERT_EQ(out.as<std::uint16_t>()[place / 2], expected) << "swizzle " << swizzle << " row " << row;
          }
      }
    }
  }
}

TEST(Lanes, TensorMapsFollowTheDriversRules) {
  DeviceBuffer in(64 * 64 * 2, "in");
  const TensorMapRequest sound{MapElement::Bf16, in.data(), {64, 64}, {128}, {64, 64}, 128};
  EXPECT_NO_THROW(makeTensorMap(sound));
  auto refused = [&](auto change) {
    TensorMapRequest request = sound;
    change(request);
    EXPECT_THROW(makeTensorMap(request), std::invalid_argument);
  };
  refused([](TensorMapRequest &r) { r.address = static_cast<char *>(r.address) + 8; });
  refused([](TensorMapRequest &r) { r.strides[0] = 120; });
  refused([](TensorMapRequest &r) { r.box[1] = 257; });
  refused([](TensorMapRequest &r) { r.box[0] = 128; });
  refused([](TensorMapRequest &r) { r.box[0] = 0; });
  refused([](TensorMapRequest &r) { r.sizes[1] = 0; });
  refused([](TensorMapRequest &r) { r.swizzle = 48; });
  refused([](TensorMapRequest &r) { r.strides.clear(); });
}

} // namespace
} // namespace tcc::emulator
