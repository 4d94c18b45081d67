// The values of the Hopper primitives: boxes of two to four dimensions there and back, bulk copies, expected bytes, and
// wgmma of every width, element type and order.
#include "tests/cuda_emulator/samples.h"

#include <gtest/gtest.h>

namespace tcc::emulator {
namespace {

// A box goes from one tensor to another at other coordinates; rows before and after both are zeros, or dropped.
TEST(Hopper, BoxesOfEveryRankGoThereAndBack) {
  Module module = Module::compile(R"(
KERNEL(boxes, 64, 1)(GRID_CONSTANT const TensorMap from, GRID_CONSTANT const TensorMap to, int rank, int bytes,
                     int first, int second) {
  DYNAMIC_SHARED(arena, 1024);
  SHARED(Mbarrier, full, 1);
  if (thread_x() == 0) {
    tma_prefetch_map(&from);
    mbarrier_init(&full[0], 1);
    fence_mbarrier_init();
    mbarrier_expect(&full[0], bytes - 16);
    mbarrier_arrive_expect(&full[0], 16);
    if (rank == 2)
      tma_load_2d(arena, &from, &full[0], 0, first);
    else if (rank == 3)
      tma_load_3d(arena, &from, &full[0], 0, first, 1);
    else
      tma_load_4d(arena, &from, &full[0], 0, first, 1, 1);
  }
  block_barrier();
  mbarrier_wait(&full[0], 0);
  if (thread_x() == 0) {
    if (rank == 2)
      tma_store_2d(&to, arena, 0, second);
    else if (rank == 3)
      tma_store_3d(&to, arena, 0, second, 0);
    else
      tma_store_4d(&to, arena, 0, second, 0, 1);
    tma_store_commit();
    tma_store_wait<0>();
  }
}
)");
  constexpr int columns = 32, rows = 10, planes = 3, blocks = 2, boxRows = 6;
  for (int rank : {2, 3, 4})
    for (int swizzle : {0, 64})
      for (auto [first, second] : {std::pair{0, 0}, {-2, 3}, {7, -1}, {2, 8}})
        for (const Schedule &schedule : {testSchedules()[0], testSchedules()[4]}) {
          DeviceBuffer from(columns * rows * planes * blocks * 2, "from");
          DeviceBuffer to(columns * rows * planes * blocks * 2, "to");
          for (std::size_t i = 0; i < from.bytes() / 2; ++i) {
            from.as<std::uint16_t>()[i] = static_cast<std::uint16_t>(i + 1);
            to.as<std::uint16_t>()[i] = 9;
          }
          auto mapOf = [&](const DeviceBuffer &buffer) {
            TensorMapRequest request{MapElement::Bf16, buffer.data(), {columns, rows, planes, blocks}, {}, {}, swizzle};
            request.sizes.resize(static_cast<std::size_t>(rank));
            for (std::uint64_t stride = 2, i = 0; i + 1 < static_cast<std::uint64_t>(rank); ++i)
              request.strides.push_back(stride *= request.sizes[i]);
            request.box = {columns, boxRows, 1, 1};
            request.box.resize(static_cast<std::size_t>(rank));
            return makeTensorMap(request);
          };
          EncodedMap source = mapOf(from), target = mapOf(to);
          int bytes = columns * boxRows * 2, ranks = rank, at = first, there = second;
          void *args[] = {&source, &target, &ranks, &bytes, &at, &there};
          LaunchResult result = module.launch("boxes", {1}, {64}, 4096, args, schedule);
          ASSERT_TRUE(result.ok()) << result.text();
          int fromPlane = rank == 2 ? 0 : rank == 3 ? 1 : planes + 1, toPlane = rank == 4 ? planes : 0;
          for (int plane = 0; plane < planes * blocks; ++plane)
            for (int row = 0; row < rows; ++row)
              for (int column = 0; column < columns; ++column) {
                int boxRow = row - second, sourceRow = first + boxRow;
                bool stored = plane == toPlane && boxRow >= 0 && boxRow < boxRows;
                bool inside = sourceRow >= 0 && sourceRow < rows;
                int expected = !stored ? 9 : inside ? (fromPlane * rows + sourceRow) * columns + column + 1 : 0;
                ASSERT_EQ(to.as<std::uint16_t>()[(plane * rows + row) * columns + column], expected)
                    << "rank " << rank << " plane " << plane << " row " << row << " column " << column;
              }
        }
}

TEST(Hopper, BulkCopiesArrive) {
  Module module = Module::compile(R"(
KERNEL(bulk, 32, 1)(const float *in, float *out) {
  DYNAMIC_SHARED(arena, 128);
  SHARED(Mbarrier, full, 1);
  if (elect_one()) {
    mbarrier_init(&full[0], 1);
    fence_mbarrier_init();
    mbarrier_arrive_expect(&full[0], 144);
    bulk_load(arena, in, 128, &full[0]);
    bulk_load(arena + 128, in + 96, 16, &full[0]);
  }
  block_barrier();
  mbarrier_wait(&full[0], 0);
  const float *copied = reinterpret_cast<const float *>(arena);
  out[thread_x()] = copied[thread_x()] + copied[32 + thread_x() % 4];
}
)");
  for (const Schedule &schedule : testSchedules()) {
    DeviceBuffer in(400, "in"), out(128, "out");
    for (int i = 0; i < 100; ++i)
      in.as<float>()[i] = static_cast<float>(i);
    LaunchResult result = launch(module, "bulk", {1}, {32}, 144, schedule, in.data(), out.data());
    ASSERT_TRUE(result.ok()) << result.text();
    for (int i = 0; i < 32; ++i)
      EXPECT_EQ(out.as<float>()[i], static_cast<float>(i + 96 + i % 4));
  }
}

// d = 2 · a · b over k = 32 from small integers, which every format holds exactly: A from shared memory, then from
// registers. Operands lie in panels of 64: K-major 128 bytes a row; MN-major 64 elements of MN a line, k below each
// other.
const char *widthText = R"(
DEVICE int k_major(int row, int k) { return row * 128 + ((k / 8 ^ row % 8) * 16) + k % 8 * 2; }
DEVICE int mn_major(int row, int k) {
  return row / 64 * 4096 + k * 128 + ((row % 64 / 8 ^ k % 8) * 16) + row % 8 * 2;
}
template <bool transposedA, bool transposedB>
DEVICE void both(unsigned char *tileA, unsigned char *tileB, const float *a, float (&d)[COLUMNS / 2]) {
  u64 left = wgmma_descriptor(tileA, transposedA ? 4096 : 16, 1024, swizzle_128);
  u64 right = wgmma_descriptor(tileB, transposedB ? 4096 : 16, 1024, swizzle_128);
  int row = thread_x() / 32 * 16 + lane_index() / 4, column = lane_index() % 4 * 2;
  u32 registers[2][4];
  for (int step = 0; step < 2; ++step)
    for (int i = 0; i < 4; ++i) {
      const float *from = a + (row + 8 * (i & 1)) * 32 + 16 * step + column + 8 * (i >> 1);
      registers[step][i] = pack<ELEMENT>(from[0], from[1]);
    }
  wgmma_fence();
  constexpr int stepA = transposedA ? 2048 : 32, stepB = transposedB ? 2048 : 32;
  for (int step = 0; step < 2; ++step)
    wgmma_shared<ELEMENT, transposedA, transposedB>(d, wgmma_advance(left, step * stepA),
                                                    wgmma_advance(right, step * stepB), step > 0);
  for (int step = 0; step < 2; ++step)
    wgmma_registers<ELEMENT, transposedB>(d, registers[step], wgmma_advance(right, step * stepB), true);
  wgmma_commit();
  wgmma_wait<0>();
}
KERNEL(widths, 128, 1)(const float *a, const float *b, float *out, int order) {
  DYNAMIC_SHARED(arena, 1024);
  unsigned char *tileB = arena + 8192;
  for (int i = thread_x(); i < 64 * 32; i += 128) {
    int place = order & 1 ? mn_major(i / 32, i % 32) : k_major(i / 32, i % 32);
    *reinterpret_cast<ELEMENT *>(arena + place) = from_float<ELEMENT>(a[i]);
  }
  for (int i = thread_x(); i < COLUMNS * 32; i += 128) {
    int place = order & 2 ? mn_major(i / 32, i % 32) : k_major(i / 32, i % 32);
    *reinterpret_cast<ELEMENT *>(tileB + place) = from_float<ELEMENT>(b[i]);
  }
  fence_proxy_async();
  block_barrier();
  float d[COLUMNS / 2];
  if (order == 0)
    both<false, false>(arena, tileB, a, d);
  else if (order == 1)
    both<true, false>(arena, tileB, a, d);
  else if (order == 2)
    both<false, true>(arena, tileB, a, d);
  else
    both<true, true>(arena, tileB, a, d);
  int row = thread_x() / 32 * 16 + lane_index() / 4, column = lane_index() % 4 * 2;
  for (int i = 0; i < COLUMNS / 2; ++i)
    out[(row + 8 * (i / 2 % 2)) * COLUMNS + 8 * (i / 4) + column + i % 2] = d[i];
}
)";

TEST(Hopper, WgmmaOfEveryWidthElementAndOrder) {
  std::vector<std::string> texts;
  const int widths[] = {32, 64, 96, 128, 192, 256};
  for (const char *element : {"bf16", "f16"})
    for (int columns : widths)
      texts.push_back("#define ELEMENT " + std::string(element) + "\n#define COLUMNS " + std::to_string(columns) +
                      "\n" + widthText);
  std::vector<Module> modules = Module::compileAll(texts);
  std::mt19937 generator(2);
  for (std::size_t i = 0; i < modules.size(); ++i) {
    int columns = widths[i % 6];
    DeviceBuffer a(64 * 32 * 4, "a"), b(static_cast<std::size_t>(columns) * 32 * 4, "b");
    DeviceBuffer out(64 * static_cast<std::size_t>(columns) * 4, "out");
    out.writeOnce(4);
    for (const DeviceBuffer *buffer : {&a, &b})
      for (std::size_t j = 0; j < buffer->bytes() / 4; ++j)
        buffer->as<float>()[j] = static_cast<float>(static_cast<int>(generator() % 17) - 8);
    for (int order = 0; order < 4; ++order)
      for (const Schedule &schedule : {testSchedules()[0], testSchedules()[3]}) {
        LaunchResult result =
            launch(modules[i], "widths", {1}, {128}, 8192 + 4 * 8192, schedule, a.data(), b.data(), out.data(), order);
        ASSERT_TRUE(result.ok()) << "columns " << columns << " order " << order << "\n" << result.text();
        for (int row = 0; row < 64; ++row)
          for (int column = 0; column < columns; ++column) {
            float sum = 0;
            for (int k = 0; k < 32; ++k)
              sum += 2 * a.as<float>()[row * 32 + k] * b.as<float>()[column * 32 + k];
            ASSERT_EQ(out.as<float>()[row * columns + column], sum)
                << "columns " << columns << " order " << order << " row " << row << " column " << column;
          }
      }
  }
}

} // namespace
} // namespace tcc::emulator
