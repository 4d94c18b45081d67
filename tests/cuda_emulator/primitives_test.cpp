// Each portable primitive of the CPU prelude against plain formulas, and the emulator's own rules: bounds, guard pages,
// launches that a device would refuse, unknown kernels, text that does not compile.
#include "tests/cuda_emulator/samples.h"

#include <gtest/gtest.h>

#include <limits>

namespace tcc::emulator {
namespace {

TEST(Primitives, ShufflesAndVotes) {
  Module module = Module::compile(R"(
KERNEL(shuffles, 64, 1)(int *out) {
  int lane = lane_index(), value = 100 * warp_index() + lane;
  int *mine = out + thread_x() * 8;
  mine[0] = shuffle_xor(value, 5);
  mine[1] = shuffle_down(value, 3);
  mine[2] = shuffle_up(value, 3);
  mine[3] = shuffle_from(value, 7);
  mine[4] = static_cast<int>(vote_ballot(lane % 3 == 0));
  mine[5] = vote_any(lane == 31) + 2 * vote_any(false);
  mine[6] = vote_all(lane < 32) + 2 * vote_all(lane < 31);
  mine[7] = static_cast<int>(shuffle_xor(static_cast<float>(lane), 16));
}
)");
  for (Schedule schedule : testSchedules()) {
    DeviceBuffer out(64 * 32, "out");
    out.writeOnce(4);
    LaunchResult result = launch(module, "shuffles", {1}, {64}, 0, schedule, out.data());
    ASSERT_TRUE(result.ok()) << result.text();
    for (int x = 0; x < 64; ++x) {
      int lane = x % 32, base = x / 32 * 100;
      const int *got = out.as<int>() + x * 8;
      EXPECT_EQ(got[0], base + (lane ^ 5));
      EXPECT_EQ(got[1], base + (lane + 3 < 32 ? lane + 3 : lane));
      EXPECT_EQ(got[2], base + (lane >= 3 ? lane - 3 : lane));
      EXPECT_EQ(got[3], base + 7);
      EXPECT_EQ(static_cast<unsigned>(got[4]), 0x49249249u);
      EXPECT_EQ(got[5], 1);
      EXPECT_EQ(got[6], 1);
      EXPECT_EQ(got[7], lane ^ 16);
    }
  }
}

TEST(Primitives, Reductions) {
  Module module = Module::compile(R"(
KERNEL(reductions, 96, 1)(const float *in, float *out) {
  SHARED(float, scratch, 32);
  float x = in[thread_x()];
  float *mine = out + thread_x() * 7;
  mine[0] = quad_reduce_sum(x);
  mine[1] = quad_reduce_max(x);
  mine[2] = warp_reduce_sum(x);
  mine[3] = warp_reduce_max(x);
  mine[4] = warp_reduce_min(x);
  mine[5] = block_reduce_sum(x, scratch);
  mine[6] = block_reduce_max(x, scratch);
}
)");
  DeviceBuffer in(96 * 4, "in"), out(96 * 28, "out");
  for (int i = 0; i < 96; ++i)
    in.as<float>()[i] = static_cast<float>((i * 37) % 101) - 50.0f;
  for (Schedule schedule : testSchedules()) {
    LaunchResult result = launch(module, "reductions", {1}, {96}, 0, schedule, in.data(), out.data());
    ASSERT_TRUE(result.ok()) << result.text();
    for (int x = 0; x < 96; ++x)
      for (int kind = 0; kind < 7; ++kind) {
        int width = kind < 2 ? 4 : kind < 5 ? 32 : 96, first = x / width * width;
        bool sum = kind == 0 || kind == 2 || kind == 5;
        float expected = sum ? 0.0f : in.as<float>()[first];
        for (int i = first; i < first + width; ++i) {
          float value = in.as<float>()[i]; // integers: sums are exact in any order
          expected = sum ? expected + value : kind == 4 ? std::min(expected, value) : std::max(expected, value);
        }
        EXPECT_EQ(out.as<float>()[x * 7 + kind], expected) << x << " " << kind;
      }
  }
}

// Known answers of Philox4x32-10 from the Random123 distribution (kat_vectors).
TEST(Primitives, PhiloxKnownAnswers) {
  Module module = Module::compile(R"(
KERNEL(random, 32, 1)(const u32 *in, u32 *out) {
  if (thread_x() < 3) {
    const u32 *c = in + 6 * thread_x();
    u32 words[4];
    philox(words, c[0], c[1], c[2], c[3], c[4], c[5]);
    for (int i = 0; i < 4; ++i)
      out[4 * thread_x() + i] = words[i];
  }
}
)");
  const std::uint32_t in[18] = {0,          0,          0,          0,          0,          0,
                                0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff,
                                0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344, 0xa4093822, 0x299f31d0};
  const std::uint32_t known[12] = {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8, 0x408f276d, 0x41c83b0e,
                                   0xa20bc7c6, 0x6d5451fd, 0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1};
  DeviceBuffer inputs(sizeof in, "in"), out(sizeof known, "out");
  std::memcpy(inputs.data(), in, sizeof in);
  LaunchResult result = launch(module, "random", {1}, {32}, 0, {}, inputs.data(), out.data());
  ASSERT_TRUE(result.ok()) << result.text();
  for (int i = 0; i < 12; ++i)
    EXPECT_EQ(out.as<std::uint32_t>()[i], known[i]) << i;
}

/// The nearest value of a 16-bit format, ties to the even one, by trying its neighbours.
std::uint16_t nearest(float x, bool half) {
  auto value = [half](std::uint32_t bits) -> double {
    if (!half)
      return bf16Value(static_cast<std::uint16_t>(bits));
    int exponent = bits >> 10 & 31;
    double magnitude = exponent ? std::ldexp(1024.0 + (bits & 1023), exponent - 25) : std::ldexp(bits & 1023, -24);
    return bits & 0x8000 ? -magnitude : magnitude;
  };
  std::uint32_t sign = std::signbit(x) ? 0x8000 : 0, infinity = half ? 0x7c00 : 0x7f80;
  double target = std::fabs(static_cast<double>(x)), limit = half ? 65520.0 : 3.3961775292304957e38;
  if (target >= limit)
    return static_cast<std::uint16_t>(sign | infinity);
  std::uint32_t low = 0, high = infinity - 1;
  while (low < high) { // the greatest value not above the target
    std::uint32_t middle = (low + high + 1) / 2;
    if (value(middle) <= target)
      low = middle;
    else
      high = middle - 1;
  }
  if (low + 1 < infinity) {
    double down = target - value(low), up = value(low + 1) - target;
    if (up < down || (up == down && low % 2))
      ++low;
  }
  return static_cast<std::uint16_t>(sign | low);
}

TEST(Primitives, ConversionsRoundToNearestEven) {
  Module module = Module::compile(R"(
KERNEL(convert, 256, 1)(const float *in, u16 *toB, u16 *toH, u32 *packed, float *back, int count) {
  for (int i = block_x() * 256 + thread_x(); i < count; i += grid_x() * 256) {
    toB[i] = to_bf16(in[i]).bits;
    toH[i] = from_float<f16>(in[i]).bits;
    packed[2 * i] = pack<bf16>(in[i], 1.0f);
    packed[2 * i + 1] = pack<f16>(1.0f, in[i]);
    back[2 * i] = unpack_low<bf16>(packed[2 * i]);
    back[2 * i + 1] = unpack_high<f16>(packed[2 * i + 1]);
  }
}
)");
  std::vector<float> values = {0.0f,
                               -0.0f,
                               1.0f,
                               65504.0f,
                               65519.0f,
                               65520.0f,
                               65536.0f,
                               1e38f,
                               3.39e38f,
                               3.4e38f,
                               5.9604645e-8f,
                               2.9802322e-8f,
                               2.98023259e-8f,
                               6.1e-5f,
                               6.0975552e-5f,
                               1e-40f,
                               std::numeric_limits<float>::infinity(),
                               -std::numeric_limits<float>::infinity()};
  std::mt19937 generator(5);
  while (values.size() < 20000) { // every exponent, and midpoints
    std::uint32_t bits = generator();
    if (values.size() % 3 == 0)
      bits &= 0xffff8000u;
    else if (values.size() % 3 == 1)
      bits = (bits & 0xbfffffffu) | 0x30000000u;
    float x;
    std::memcpy(&x, &bits, 4);
    if (!std::isnan(x))
      values.push_back(x);
  }
  std::size_t count = values.size();
  DeviceBuffer in(4 * count), toB(2 * count), toH(2 * count), packed(8 * count), back(8 * count);
  std::memcpy(in.data(), values.data(), 4 * count);
  LaunchResult result = launch(module, "convert", {4}, {256}, 0, {}, in.data(), toB.data(), toH.data(), packed.data(),
                               back.data(), static_cast<int>(count));
  ASSERT_TRUE(result.ok()) << result.text();
  for (std::size_t i = 0; i < count; ++i) {
    std::uint16_t b = nearest(values[i], false), h = nearest(values[i], true);
    ASSERT_EQ(toB.as<std::uint16_t>()[i], b) << values[i];
    ASSERT_EQ(toH.as<std::uint16_t>()[i], h) << values[i];
    ASSERT_EQ(packed.as<std::uint32_t>()[2 * i], b | 0x3f80u << 16);
    ASSERT_EQ(packed.as<std::uint32_t>()[2 * i + 1], 0x3c00u | static_cast<std::uint32_t>(h) << 16);
    ASSERT_EQ(back.as<float>()[2 * i], bf16Value(b));
    ASSERT_EQ(nearest(back.as<float>()[2 * i + 1], true), h); // a 16-bit value converts back to itself
  }
}

// reciprocal_f32 of every number in [1, 2), and with other exponents to both ends, by approximations up to two units
// off.
TEST(Primitives, ReciprocalIsWithinHalfAUnit) {
  Module module = Module::compile(R"(
KERNEL(reciprocals, 32, 1)(const float *in, float *out, int n) {
  for (int i = thread_x(); i < n; i += 32)
    out[i] = reciprocal_f32(in[i]);
}
)");
  constexpr int all = 1 << 23;
  DeviceBuffer in(4 * all), out(4 * all);
  for (int exponent : {0, -125, 124})
    for (int noise : {0, 2}) {
      const int step = exponent == 0 ? 1 : 101, count = (all + step - 1) / step;
      for (int i = 0; i < count; ++i)
        in.as<float>()[i] = std::ldexp(1 + std::ldexp(static_cast<float>(i * step), -23), exponent);
      Schedule schedule;
      schedule.approximationNoise = noise;
      LaunchResult result = launch(module, "reciprocals", {1}, {32}, 0, schedule, in.data(), out.data(), count);
      ASSERT_TRUE(result.ok()) << result.text();
      double worst = 0;
      for (int i = 0; i < count; ++i) {
        const double exact = 1 / static_cast<double>(in.as<float>()[i]);
        const double unit = std::ldexp(1.0, std::ilogb(exact) - 23);
        worst = std::max(worst, std::fabs(out.as<float>()[i] - exact) / unit);
      }
      EXPECT_LT(worst, 0.51) << "exponent " << exponent << ", noise " << noise;
    }
}

TEST(Primitives, MathAndBits) {
  Module module = Module::compile(R"(
KERNEL(math, 32, 1)(const float *in, float *out) {
  float x = in[thread_x()];
  float *mine = out + thread_x() * 20;
  mine[0] = fast_exp2(x);
  mine[1] = fast_log2(x);
  mine[2] = fast_tanh(x);
  mine[3] = fast_reciprocal(x);
  mine[4] = fast_rsqrt(x);
  mine[5] = fma_f32(x, x, -1.0f);
  mine[6] = max_f32(x, 1.0f);
  mine[7] = min_f32(x, 1.0f);
  mine[8] = abs_f32(-x);
  mine[9] = sqrt_f32(x);
  mine[10] = divide_f32(x, 3.0f);
  mine[11] = exp_f32(x);
  mine[12] = exp2_f32(x);
  mine[13] = log_f32(x);
  mine[14] = tanh_f32(x);
  mine[15] = erf_f32(x);
  mine[16] = pow_f32(x, 1.5f);
  mine[17] = floor_f32(x) + ceil_f32(x) + round_f32(x) + trunc_f32(x) + expm1_f32(x) + log1p_f32(x) +
             remainder_f32(x, 1.5f);
  mine[18] = static_cast<float>(popcount(bits_of(x)) + (multiply_high(bits_of(x), 1u << 16) == bits_of(x) >> 16));
  mine[19] = max_f32(float_from_bits(0x7fc00000u), x) + min_f32(x, float_from_bits(0x7fc00000u));
}
)");
  DeviceBuffer in(128), out(32 * 80);
  for (int i = 0; i < 32; ++i)
    in.as<float>()[i] = 0.03f + 0.21f * static_cast<float>(i);
  LaunchResult result = launch(module, "math", {1}, {32}, 0, {}, in.data(), out.data());
  ASSERT_TRUE(result.ok()) << result.text();
  for (int i = 0; i < 32; ++i) {
    double x = in.as<float>()[i];
    std::uint32_t bits;
    std::memcpy(&bits, in.as<float>() + i, 4);
    const double expected[20] = {std::exp2(x),
                                 std::log2(x),
                                 std::tanh(x),
                                 1 / x,
                                 1 / std::sqrt(x),
                                 x * x - 1,
                                 std::max(x, 1.0),
                                 std::min(x, 1.0),
                                 x,
                                 std::sqrt(x),
                                 x / 3,
                                 std::exp(x),
                                 std::exp2(x),
                                 std::log(x),
                                 std::tanh(x),
                                 std::erf(x),
                                 std::pow(x, 1.5),
                                 std::floor(x) + std::ceil(x) + std::nearbyint(x) + std::trunc(x) + std::expm1(x) +
                                     std::log1p(x) + std::fmod(x, 1.5),
                                 __builtin_popcount(bits) + 1.0,
                                 2 * x};
    for (int k = 0; k < 20; ++k)
      EXPECT_NEAR(out.as<float>()[i * 20 + k], expected[k], 1e-6 * (1 + std::fabs(expected[k]))) << i << " " << k;
  }
}

TEST(Primitives, LoadsStoresAndCopies) {
  Module module = Module::compile(R"(
KERNEL(move, 32, 1)(const u32 *in, u32 *out) {
  SHARED(Vec16, stage, 64);
  int i = thread_x();
  store_16(out + 4 * i, load_16_streaming(in + 4 * i));
  store_16_streaming(out + 128 + 4 * i, load_16(in + 4 * i));
  store_8(out + 256 + 2 * i, load_8(in + 2 * i));
  store_4(out + 320 + i, load_4(in + i));
  copy_async_16(&stage[i], in + 4 * i, i % 2 == 0);
  for (int k = 0; k < 4; ++k)
    copy_async_4(reinterpret_cast<u32 *>(&stage[32 + i]) + k, in + 4 * i + k, k != 1);
  copy_async_commit();
  copy_async_wait<0>();
  store_16(out + 352 + 4 * i, load_16(&stage[i]));
  store_16(out + 480 + 4 * i, load_16(&stage[32 + i]));
}
)");
  for (Schedule schedule : testSchedules()) {
    DeviceBuffer in(512, "in"), out(608 * 4, "out");
    out.writeOnce(4);
    for (unsigned i = 0; i < 128; ++i)
      in.as<std::uint32_t>()[i] = i + 7;
    LaunchResult result = launch(module, "move", {1}, {32}, 0, schedule, in.data(), out.data());
    ASSERT_TRUE(result.ok()) << result.text();
    for (unsigned i = 0; i < 608; ++i) {
      unsigned source = i < 352 ? (i < 256 ? i % 128 : i < 320 ? i - 256 : i - 320) : (i - 352) % 128;
      bool zero = (i >= 352 && i < 480 && source / 4 % 2) || (i >= 480 && source % 4 == 1);
      EXPECT_EQ(out.as<std::uint32_t>()[i], zero ? 0 : source + 7) << i;
    }
  }
}

// A block may end once the source of its stores has been read: the results come by themselves.
TEST(Primitives, StoresMayArriveAfterTheBlocksEnd) {
  Module module = Module::compile(R"(
KERNEL(late, 32, 1)(GRID_CONSTANT const TensorMap map) {
  DYNAMIC_SHARED(arena, 128);
  reinterpret_cast<float *>(arena)[thread_x()] = static_cast<float>(thread_x() + 1);
  fence_proxy_async();
  warp_barrier();
  if (thread_x() == 0) {
    tma_store_2d(&map, arena, 0, 0);
    tma_store_commit();
    tma_store_wait_read<0>();
  }
  warp_barrier();
  reinterpret_cast<float *>(arena)[thread_x()] = 0.0f;
}
)");
  for (Schedule schedule : testSchedules()) {
    DeviceBuffer out(128, "out");
    EncodedMap map = makeTensorMap({MapElement::F32, out.data(), {32, 1}, {128}, {32, 1}, 0});
    void *args[] = {&map};
    LaunchResult result = module.launch("late", {1}, {32}, 128, args, schedule);
    ASSERT_TRUE(result.ok()) << result.text();
    for (int i = 0; i < 32; ++i)
      EXPECT_EQ(out.as<float>()[i], static_cast<float>(i + 1));
  }
}

// --- The emulator's rules -----------------------------------------------------------------------------------------

LaunchResult run(const std::string &body, const Schedule &schedule, Dim3 grid = {1}, bool checks = true) {
  CompileOptions options;
  options.checks = checks;
  Module module = Module::compile("KERNEL(rule, 64, 1)(float *data, int n) {\n" + body + "\n}\n", options);
  DeviceBuffer data(100 * 4, "data");
  std::memset(data.data(), 0, 400);
  return launch(module, "rule", grid, {64}, 0, schedule, data.data(), 100);
}

TEST(Rules, AccessBehindABufferIsFoundAtItsLine) {
  Schedule checked;
  checked.checkAccesses = true;
  LaunchResult result = run("int i = thread_x();\ndata[i + 37] = 1.0f;", checked);
  ASSERT_TRUE(result.has(FindingKind::OutOfBounds)) << result.text();
  EXPECT_EQ(result.findings[0].where, "kernel.cu:3");
  EXPECT_NE(result.findings[0].text.find("`data`"), std::string::npos) << result.text();
}

TEST(Rules, GuardPagesCatchWhatIsNotChecked) {
  for (bool checks : {false, true}) {
    LaunchResult result = run("int i = thread_x();\n\ndata[i + 4096] += 1.0f;", {}, {1}, checks);
    ASSERT_TRUE(result.has(FindingKind::OutOfBounds)) << result.text();
    EXPECT_EQ(result.findings[0].where, "kernel.cu:4") << result.text();
    EXPECT_TRUE(run("data[thread_x()] = 1.0f;", {}).ok()); // and the emulator lives on
  }
}

TEST(Rules, BlocksThatMeetInGlobalMemoryRace) {
  Schedule checked;
  checked.checkAccesses = true;
  EXPECT_TRUE(run("if (thread_x() == 0) data[block_x()] = 1.0f;", checked, {1}).ok());
  EXPECT_TRUE(run("if (thread_x() == 0) data[1] = block_x();", checked, {2}).has(FindingKind::Race));
  EXPECT_TRUE(run("if (thread_x() == 0) { if (block_x()) data[1] = 2; else data[2] = data[1]; }", checked, {2})
                  .has(FindingKind::Race));
  EXPECT_TRUE(run("if (thread_x() == 0) data[block_x()] = data[50];", checked, {2}).ok());
}

TEST(Rules, LanesOfAWarpRaceWithoutAWarpBarrier) {
  Schedule checked;
  checked.checkAccesses = true;
  std::string body = "SHARED(float, x, 64);\nx[thread_x()] = 1.0f;\n";
  std::string use = "data[thread_x()] = x[thread_x() ^ 1];";
  EXPECT_TRUE(run(body + use, checked).has(FindingKind::Race));
  EXPECT_TRUE(run(body + "warp_barrier();\n" + use, checked).ok());
  EXPECT_TRUE(run(body + "warp_barrier();\ndata[thread_x()] = x[thread_x() ^ 32];", checked).has(FindingKind::Race));
  EXPECT_TRUE(run(body + "float y = shuffle_xor(1.0f, 1);\n" + use, checked).has(FindingKind::Race));
}

TEST(Rules, UnwrittenSharedMemoryIsFound) {
  Schedule checked;
  checked.checkAccesses = true;
  LaunchResult result = run("SHARED(float, x, 64);\ndata[thread_x()] = x[thread_x()];", checked);
  ASSERT_TRUE(result.has(FindingKind::Uninitialized)) << result.text();
  EXPECT_EQ(result.findings[0].where, "kernel.cu:3");
}

TEST(Rules, MisalignedWideLoadsAreRefused) {
  LaunchResult result = run("data[thread_x()] = float_from_bits(load_16(data + thread_x()).word[0]);", {});
  EXPECT_TRUE(result.has(FindingKind::Misaligned)) << result.text();
}

TEST(Rules, LaunchesThatADeviceRefuses) {
  Module module = Module::compile("KERNEL(empty, 64, 1)(int n) {}\n");
  int n = 0;
  void *args[] = {&n};
  EXPECT_TRUE(module.launch("empty", {1}, {64}, 0, args).ok());
  EXPECT_TRUE(module.launch("empty", {1}, {96}, 0, args).has(FindingKind::Launch));
  EXPECT_TRUE(module.launch("empty", {1}, {48}, 0, args).has(FindingKind::Launch));
  EXPECT_TRUE(module.launch("empty", {1}, {32, 2, 1}, 0, args).has(FindingKind::Launch));
  EXPECT_TRUE(module.launch("empty", {0}, {64}, 0, args).has(FindingKind::Launch));
  EXPECT_TRUE(module.launch("empty", {1}, {64}, 228 * 1024, args).has(FindingKind::Launch));
  EXPECT_THROW(module.launch("full", {1}, {64}, 0, args), std::invalid_argument);
}

TEST(Rules, TextThatDoesNotCompileNamesItsLine) {
  try {
    Module::compile("KERNEL(wrong, 32, 1)(int n) {\n  no_such_primitive();\n}\n");
    FAIL() << "it compiled";
  } catch (const std::runtime_error &error) {
    EXPECT_NE(std::string(error.what()).find("kernel.cu:2"), std::string::npos) << error.what();
  }
}

// The whole list of primitives exists on the CPU too: the texts that NVRTC compiles are compiled here.
TEST(Rules, BothPreludesHaveTheSameNames) {
  auto read = [](const std::string &file) {
    std::ifstream in(std::string(TCC_EMULATOR_PROBES) + "/" + file);
    std::stringstream text;
    text << in.rdbuf();
    return text.str();
  };
  std::vector<std::string> texts = {read("portable.cu"), read("tma.cu")};
  for (const char *element : {"bf16", "f16"})
    texts.push_back("#define ELEMENT " + std::string(element) + "\n#define COLUMNS 96\n" + read("wgmma.cu"));
  EXPECT_NO_THROW(Module::compileAll(texts));
}

} // namespace
} // namespace tcc::emulator
