// What a run leaves to look at: TensorBoard's scalars, the figure of its loss, and where two runs part.
#include "frontend/safetensors.h"
#include "models/checkpoint_store.h"
#include "models/loss_plot.h"
#include "models/run_comparison.h"
#include "models/tensorboard.h"
#include "test_files.h"

#include <cmath>
#include <cstring>

namespace tcc::models {
namespace {

/// CRC-32C bit by bit.
uint32_t plainCrc(const std::string &bytes) {
  uint32_t crc = 0xffffffff;
  for (const char byte : bytes)
    for (int bit = 0; bit < 8; ++bit) {
      const bool carry = ((crc ^ uint32_t(uint8_t(byte) >> bit)) & 1) != 0;
      crc = crc >> 1 ^ (carry ? 0x82f63b78u : 0);
    }
  return ~crc;
}

template <typename T>
T valueAt(const std::string &bytes, size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof(T));
  return value;
}

TEST(TensorBoard, checksumsAreCrc32c) {
  EXPECT_EQ(crc32c("123456789"), 0xe3069283u); // the check value of the catalogue
  EXPECT_EQ(crc32c(""), 0u);
}

TEST(TensorBoard, recordsAreWholeAndChecked) {
  const TemporaryFolder folder;
  {
    TensorBoardLog log(folder.path("board/run"));
    log.scalars(7, 1.5, {{"loss/training", 2.25}, {"lr", 0.5}});
    log.scalars(300, 2.5, {{"loss/training", 1.25}});
    EXPECT_TRUE(log.complete());
  }
  std::string file;
  for (const auto &entry : std::filesystem::directory_iterator(folder.path("board/run"))) {
    EXPECT_TRUE(entry.path().filename().string().starts_with("events.out.tfevents."));
    file = readAll(entry.path().string());
  }
  std::vector<std::string> events;
  for (size_t at = 0; at < file.size();) {
    const auto length = size_t(valueAt<uint64_t>(file, at));
    const auto expectCrc = [&](size_t where, const std::string &of) {
      const uint32_t unmasked = valueAt<uint32_t>(file, where) - 0xa282ead8u;
      EXPECT_EQ(unmasked << 15 | unmasked >> 17, plainCrc(of));
    };
    expectCrc(at + 8, file.substr(at, 8));
    ASSERT_LE(at + 12 + length + 4, file.size());
    events.push_back(file.substr(at + 12, length));
    expectCrc(at + 12 + length, events.back());
    at += 16 + length;
  }
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[0].substr(9, 2), std::string("\x10\0", 2)) << "step 0";
  EXPECT_EQ(events[0].substr(11), "\x1a\x0d"
                                  "brain.Event:2");
  // By hand from the protocol: time 1.5, step 7, a summary of two values.
  std::string expected("\x09\0\0\0\0\0\0\xf8\x3f\x10\x07\x2a\x21", 13);
  expected += std::string("\x0a\x14\x0a\x0dloss/training\x15\0\0\x10\x40", 22);
  expected += std::string("\x0a\x09\x0a\x02lr\x15\0\0\0\x3f", 11);
  EXPECT_EQ(events[1], expected);
  EXPECT_EQ(events[2].substr(9, 3), "\x10\xac\x02") << "300 as a varint";
  expectContains(errorOf([&] { TensorBoardLog log(folder.write("file", "") + "/board"); }), "cannot make the folder");
}

TEST(LossPlot, isOneDrawingWithRoundAxes) {
  std::vector<PlotPoint> training, validation;
  for (int i = 0; i < 5000; ++i)
    training.push_back({2048.0 * (i + 1), 2 + 3.4 * std::exp(-i / 500.0)});
  for (int i = 500; i <= 5000; i += 500)
    validation.push_back({2048.0 * i, 2.2 + 3 * std::exp(-i / 500.0)});
  training[17].loss = NAN;
  const std::string svg = lossPlot(training, validation, "a <b> & c");
  EXPECT_TRUE(svg.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\"") && svg.ends_with("</svg>\n"));
  for (const char *text :
       {">a &lt;b&gt; &amp; c<", ">2<", ">6<", ">2M<", ">10M<", ">tokens<", ">loss<", "training 2.0", "held out 2.20"})
    expectContains(svg, text);
  EXPECT_EQ(svg.find("nan"), std::string::npos);
  EXPECT_LT(svg.size(), 150000u) << "a long run is thinned";
  EXPECT_EQ(lossPlot({}, {}, "x").find("nan"), std::string::npos);
  EXPECT_EQ(lossPlot({{1, 2}}, {{1, 2}}, "x").find("inf"), std::string::npos);
}

TEST(CompareRuns, logsPartAtTheirFirstDifference) {
  const TemporaryFolder folder;
  const std::string first = R"({"step":0,"loss":2.0,"norm":1.0}
{"step":1,"loss":1.5,"norm":1.0,"parameters":{"a":"11","b":"22"}}
{"step":2,"loss":1.25,"norm":1.0}
{"model":"baby"}
)";
  const std::string a = folder.write("a", first);
  const auto compared = [&](const std::string &from, const std::string &to) {
    std::string text = first;
    text.replace(text.find(from), from.size(), to);
    return compareRuns(a, folder.write("b", text));
  };
  RunDifference same = compareRuns(a, folder.write("b", first.substr(0, first.find("{\"step\":2"))));
  EXPECT_FALSE(same.differ);
  EXPECT_EQ(same.text, "2 steps are equal");
  EXPECT_EQ(compared("1.25", "1.26").text, "step 2: loss (1.25 and 1.26)");
  EXPECT_EQ(compared("\"22\"", "\"23\"").text, "step 1: parameter `b`");
  EXPECT_TRUE(compared("1.25", "null").differ);
  expectContains(errorOf([&] { compareRuns(a, folder.write("c", "x\n")); }), "no line of it is a step");
  expectContains(errorOf([&] { compareRuns(a, folder.path("")); }), "two logs or two folders");
  expectContains(errorOf([&] { compareRuns(a, folder.write("d", "{\"step\":9}\n")); }), "no step in common");
}

TEST(CompareRuns, checkpointsPartAtTheirFirstTensor) {
  const TemporaryFolder folder;
  const auto write = [&](const std::string &name, int64_t step, float second, float moment) {
    CheckpointStore store(folder.path(name), 9);
    store.write(step, [&](const std::string &into) {
      const std::vector<float> one = {1, 2}, two = {3, second}, m = {moment};
      const TensorToWrite weights[] = {{"w.one", TensorDtype::F32, {2}, std::as_bytes(std::span(one))},
                                       {"w.two", TensorDtype::F32, {2}, std::as_bytes(std::span(two))}};
      const TensorToWrite moments[] = {{"w.m", TensorDtype::F32, {1}, std::as_bytes(std::span(m))}};
      writeSafetensors(into + "/model.safetensors", weights);
      writeSafetensors(into + "/optimizer.safetensors", moments);
    });
  };
  for (const char *name : {"a", "b"})
    write(name, 10, 4, 1);
  write("a", 30, 4, 1);
  EXPECT_EQ(compareRuns(folder.path("a"), folder.path("b")).text, "1 steps are equal");
  write("a", 20, 4, 1);
  write("b", 20, 4, 2);
  EXPECT_EQ(compareRuns(folder.path("a"), folder.path("b")).text, "step 20: tensor `w.m`, by up to 1");
  write("b", 20, 4.5, 2);
  EXPECT_EQ(compareRuns(folder.path("a"), folder.path("b")).text, "step 20: tensor `w.two`, by up to 0.5");
}

} // namespace
} // namespace tcc::models
