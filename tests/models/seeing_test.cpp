// What a run leaves to look at: scalars for TensorBoard and Weights & Biases, CSV, the figure of its loss, and where
// two runs part.
#include "frontend/safetensors.h"
#include "models/checkpoint_store.h"
#include "models/csv_log.h"
#include "models/loss_plot.h"
#include "models/run_comparison.h"
#include "models/tensorboard.h"
#include "models/wandb.h"
#include "models/wire_format.h"
#include "test_files.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <span>

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

/// The one file of the one run in a folder.
std::string wandbFile(const std::string &folder) {
  for (const auto &entry : std::filesystem::recursive_directory_iterator(folder))
    if (entry.path().extension() == ".wandb")
      return entry.path();
  return "";
}

// tests/traces/wandb_test.py reads such files with the package; here are the edges of their blocks.
TEST(Wandb, recordsOfEachLengthAreReadBack) {
  EXPECT_EQ(wire::crc32<wire::ieee>("123456789"), 0xcbf43926u); // the check value of the catalogue
  constexpr size_t lengths[] = {1, 40000, 100000, 7, 65536};
  const TemporaryFolder folder;
  std::string path;
  size_t written = 0;
  {
    WandbRun run({.folder = folder.path("w"), .name = "a", .config = {{"x", "1"}}});
    path = wandbFile(folder.path("w"));
    for (const size_t length : lengths)
      for (size_t more = 0; more < 16; ++more, ++written) // each end of a block
        run.step(int64_t(written), 0.5, {{"text", '"' + std::string(length + more * 1023, 'X') + '"'}});
    run.finish(3, 1, {});
    EXPECT_TRUE(run.complete());
  }
  const std::string bytes = readAll(path);
  const std::vector<WandbRecord> records = wandbRecords(bytes);
  ASSERT_EQ(records.size(), 2 + 2 * written + 2);
  EXPECT_EQ(records.back().end, int64_t(bytes.size()));
  EXPECT_EQ(records[1].bytes.substr(0, 2), "\x08\x02") << "the second record";
  for (size_t i = 0; i < written; ++i)
    EXPECT_NE(records[2 + 2 * i].bytes.find('"' + std::string(lengths[i / 16] + i % 16 * 1023, 'X') + '"'),
              std::string::npos)
        << i;

  // Whatever is cut off or changed, the records before it are there.
  for (size_t cut = 0; cut < bytes.size(); cut += 99991) {
    const std::vector<WandbRecord> fewer = wandbRecords(std::string_view(bytes).substr(0, cut));
    EXPECT_TRUE(fewer.empty() || fewer.back().end <= int64_t(cut));
    EXPECT_TRUE(std::ranges::equal(fewer, std::span(records).first(fewer.size()), {}, &WandbRecord::bytes,
                                   &WandbRecord::bytes));
    std::string damaged = bytes;
    damaged[cut] = char(damaged[cut] ^ 0x40);
    const std::vector<WandbRecord> intact = wandbRecords(damaged);
    EXPECT_TRUE(std::ranges::equal(intact, std::span(records).first(intact.size()), {}, &WandbRecord::bytes,
                                   &WandbRecord::bytes))
        << cut;
  }
}

TEST(Csv, linesOfOlderStepsStay) {
  const TemporaryFolder folder;
  const std::string path = folder.path("log.csv");
  {
    CsvLog log(path, 0);
    for (int64_t step = 0; step < 12; ++step)
      log.step({.step = step, .loss = 0.5, .norm = NAN, .machineShare = 1.5});
    EXPECT_TRUE(log.complete());
  }
  const std::string whole = readAll(path);
  expectContains(whole, "step,loss,val_loss,lr,norm,ms,tokens_per_second,tokens,elapsed_s,skipped,mfu\n"
                        "0,0.5,,0,nan,0,0,0,0,0,\n");
  {
    CsvLog log(path, 3);
  }
  EXPECT_EQ(readAll(path), whole.substr(0, whole.find("3,0.5")));
  folder.write("other.csv", "1,2\n");
  expectContains(errorOf([&] { CsvLog log(folder.path("other.csv"), 3); }), "its first line is `1,2`");
}

TEST(Csv, aLogHasOneRun) {
  const TemporaryFolder folder;
  const std::string path = folder.path("log.csv");
  CsvLog log(path, 0);
  log.step({.step = 0, .loss = 0.5});
  const std::string before = readAll(path);
  expectContains(errorOf([&] { CsvLog second(path, 0); }), "cannot write the log: another run writes it");
  EXPECT_EQ(readAll(path), before) << "the other run's lines stay";
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
