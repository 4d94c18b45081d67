#include "models/batches.h"
#include "models/counter_random.h"
#include "test_files.h"

#include <numeric>
#include <set>

namespace tcc::models {
namespace {

std::string shard(int32_t magic, int32_t version, int32_t count, const std::string &tokens) {
  std::vector<int32_t> header(256);
  header[0] = magic, header[1] = version, header[2] = count;
  return bytesOf(header) + tokens;
}

std::vector<int32_t> readAllTokens(const TokenSource &source) {
  std::vector<int32_t> tokens(size_t(source.size()));
  source.read(0, tokens);
  return tokens;
}

std::string openError(const std::string &path, int64_t vocabulary) {
  return errorOf([&] { TokenSource source(path, vocabulary); });
}

TEST(TokenSource, readsTextAsBytes) {
  TemporaryFolder folder;
  TokenSource source(folder.write("a.txt", "A\xff\n"), 256);
  EXPECT_EQ(source.format(), TokenFormat::Text);
  EXPECT_EQ(readAllTokens(source), (std::vector<int32_t>{65, 255, 10}));
}

TEST(TokenSource, readsNanoGptTokens) {
  TemporaryFolder folder;
  TokenSource source(folder.write("train.bin", bytesOf<uint16_t>({0, 50256, 7})), 50257);
  EXPECT_EQ(source.format(), TokenFormat::RawUint16);
  EXPECT_EQ(readAllTokens(source), (std::vector<int32_t>{0, 50256, 7}));
}

TEST(TokenSource, readsShardsWhateverTheirName) {
  TemporaryFolder folder;
  TokenSource narrow(folder.write("a.bin", shard(20240520, 1, 3, bytesOf<uint16_t>({1, 2, 50256}))), 50257);
  EXPECT_EQ(narrow.format(), TokenFormat::ShardUint16);
  EXPECT_EQ(readAllTokens(narrow), (std::vector<int32_t>{1, 2, 50256}));
  TokenSource wide(folder.write("b.dat", shard(20240801, 7, 2, bytesOf<uint32_t>({128255, 9}))), 128256);
  EXPECT_EQ(wide.format(), TokenFormat::ShardUint32);
  EXPECT_EQ(readAllTokens(wide), (std::vector<int32_t>{128255, 9}));
}

TEST(TokenSource, refusesBadFilesWithPathAndReason) {
  TemporaryFolder folder;
  expectContains(openError(folder.path("gone.txt"), 256), "gone.txt: cannot open: No such file");
  expectContains(openError(folder.path(""), 256), "is a folder");
  expectContains(openError(folder.write("empty.txt", ""), 256), "empty.txt: the file is empty");
  expectContains(openError(folder.write("odd.bin", "abc"), 256), "odd.bin: 3 bytes, but a .bin file of uint16 tokens");
  std::string tokens = bytesOf<uint16_t>({1, 2, 3});
  expectContains(openError(folder.write("v.bin", shard(20240520, 2, 3, tokens)), 256),
                 "byte 4: shard version 2, but magic 20240520 goes with version 1");
  expectContains(openError(folder.write("v7.bin", shard(20240801, 1, 3, tokens)), 256), "goes with version 7");
  for (int32_t count : {4, 2, 0, -1, 2147483647, -2147483647})
    expectContains(openError(folder.write("c.bin", shard(20240520, 1, count, tokens)), 256),
                   "c.bin: byte 8: the header counts " + std::to_string(count) + " tokens");
}

TEST(TokenSource, refusesEveryTruncationOfAShard) {
  MemoryFile memory;
  std::string whole = shard(20240520, 1, 3, bytesOf<uint16_t>({1, 2, 3}));
  for (size_t size = 4; size < whole.size(); ++size) {
    std::string error = openError(memory.write(whole.substr(0, size)), 256);
    expectContains(error, size < 1024 ? "the header of a token shard" : "the header counts 3 tokens");
  }
}

TEST(TokenSource, namesTheFirstTokenOutsideTheVocabulary) {
  TemporaryFolder folder;
  std::vector<uint16_t> tokens(100000, 5);
  tokens[70001] = 300;
  tokens[70002] = 400;
  expectContains(openError(folder.write("a.bin", bytesOf(tokens)), 256),
                 "a.bin: byte 140002: token 300 at position 70001 is outside the vocabulary of 256");
  expectContains(openError(folder.write("s.bin", shard(20240520, 1, 100000, bytesOf(tokens))), 300),
                 "s.bin: byte 141026: token 300 at position 70001 is outside the vocabulary of 300");
  expectContains(openError(folder.write("w", shard(20240801, 7, 1, bytesOf<uint32_t>({0xffffffffu}))), 50257),
                 "token 4294967295 at position 0");
  expectContains(openError(folder.write("t.txt", "abc\xc3"), 128), "byte 3: token 195 at position 3");
  EXPECT_EQ(openError(folder.path("a.bin"), 401), "");
}

TEST(TokenSource, checksLargeFilesAsTheyAreRead) {
  TemporaryFolder folder;
  std::string path = folder.write("sparse.bin", "");
  std::filesystem::resize_file(path, (uintmax_t(600) << 20));
  {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(2000);
    file.write("\xff\xff", 2);
  }
  TokenSource source(path, 256);
  std::vector<int32_t> tokens(10);
  source.read(0, tokens);
  expectContains(errorOf([&] { source.read(995, tokens); }), "byte 2000: token 65535 at position 1000");
}

/// A source whose token i is i.
class Counted {
public:
  explicit Counted(int count) {
    std::vector<uint16_t> tokens(static_cast<size_t>(count));
    std::iota(tokens.begin(), tokens.end(), uint16_t(0));
    path = folder.write("n.bin", bytesOf(tokens));
  }
  TokenSource open() const { return TokenSource(path, 65536); }

private:
  TemporaryFolder folder;
  std::string path;
};

std::pair<std::vector<int32_t>, std::vector<int32_t>> batchOf(const Batches &batches, int64_t step) {
  size_t size = size_t(batches.batch() * batches.sequence());
  std::vector<int32_t> inputs(size), targets(size);
  batches.read(step, inputs, targets);
  return {inputs, targets};
}

TEST(Batches, sequentialReadsInOrderAndStartsAgain) {
  Counted data(2 * 3 * 4 + 1 + 5); // two whole batches of 3 x 4, their last target and a rest
  TokenSource source = data.open();
  Batches batches(source, 3, 4, Order::Sequential, 1);
  EXPECT_EQ(batches.batchesPerPass(), 2);
  for (int64_t step : {0, 1, 2, 3, 1000001}) {
    auto [inputs, targets] = batchOf(batches, step);
    for (int32_t i = 0; i < 12; ++i) {
      EXPECT_EQ(inputs[size_t(i)], int32_t(step % 2) * 12 + i);
      EXPECT_EQ(targets[size_t(i)], int32_t(step % 2) * 12 + i + 1);
    }
  }
}

TEST(Batches, randomRowsAreWindowsAndCoverTheFile) {
  Counted data(40);
  TokenSource source = data.open();
  Batches batches(source, 4, 5, Order::Random, 7);
  std::set<int32_t> starts;
  for (int64_t step = 0; step < 200; ++step) {
    auto [inputs, targets] = batchOf(batches, step);
    for (size_t row = 0; row < 4; ++row) {
      starts.insert(inputs[row * 5]);
      for (size_t t = 0; t < 5; ++t) {
        EXPECT_EQ(inputs[row * 5 + t], inputs[row * 5] + int32_t(t));
        EXPECT_EQ(targets[row * 5 + t], inputs[row * 5] + int32_t(t) + 1);
      }
    }
  }
  EXPECT_EQ(*starts.begin(), 0);
  EXPECT_EQ(*starts.rbegin(), 34); // the last row that still has a target for each token
  EXPECT_EQ(starts.size(), 35u);
}

TEST(Batches, stayWithinTheirRange) {
  Counted data(100);
  TokenSource source = data.open();
  Batches random(source, {30, 25}, 3, 4, Order::Random, 7), sequential(source, {30, 25}, 3, 4, Order::Sequential, 7);
  EXPECT_EQ(sequential.batchesPerPass(), 2);
  std::set<int32_t> seen;
  for (int64_t step = 0; step < 300; ++step)
    for (const auto &tokens : {batchOf(random, step).first, batchOf(random, step).second})
      seen.insert(tokens.begin(), tokens.end());
  EXPECT_EQ(*seen.begin(), 30);
  EXPECT_EQ(*seen.rbegin(), 54);
  EXPECT_EQ(seen.size(), 25u);
  EXPECT_EQ(batchOf(sequential, 1).first.front(), 42);
  EXPECT_EQ(batchOf(sequential, 2).first.front(), 30);
}

TEST(Batches, heldOutIsTheEndOfTheData) {
  Counted data(100);
  const TokenSource source = data.open();
  HeldOutSplit split = splitHeldOut(source, 0.25, 2, 3);
  EXPECT_EQ(split.training.first, 0);
  EXPECT_EQ(split.training.count, 75);
  EXPECT_EQ(split.heldOut.first, 75);
  EXPECT_EQ(split.heldOut.count, 25);
  split = splitHeldOut(source, 0.01, 4, 12);
  EXPECT_EQ(split.heldOut.count, 49) << "at least a batch";
  expectContains(errorOf([&] { splitHeldOut(source, 0.5, 5, 10); }),
                 "100 tokens, but a batch of 5 x 10 to train on and "
                 "one to evaluate need 102");
}

TEST(TokenSource, fingerprintsAreOfTheContent) {
  const TemporaryFolder folder;
  const auto print = [&](const std::string &name, const std::string &text) {
    return TokenSource(folder.write(name, text), 65536).fingerprint();
  };
  const std::string first = print("a.txt", "some text");
  EXPECT_EQ(print("b.txt", "some text"), first);
  EXPECT_NE(print("c.txt", "some texu"), first);
  EXPECT_NE(print("d.bin", "some text!"), print("d.txt", "some text!")) << "other tokens";
}

TEST(Batches, areAFunctionOfSeedAndStep) {
  Counted data(1000);
  TokenSource source = data.open();
  Batches batches(source, 4, 8, Order::Random, 7), again(source, 4, 8, Order::Random, 7);
  Batches other(source, 4, 8, Order::Random, 8);
  auto fifth = batchOf(batches, 5);
  batchOf(again, 9);
  EXPECT_EQ(batchOf(again, 5), fifth);
  EXPECT_NE(batchOf(batches, 6), fifth);
  EXPECT_NE(batchOf(other, 5), fifth);
}

TEST(Batches, needOneWholeBatch) {
  Counted exact(13), short1(12);
  TokenSource enough = exact.open(), tooFew = short1.open();
  for (Order order : {Order::Random, Order::Sequential}) {
    EXPECT_EQ(batchOf(Batches(enough, 3, 4, order, 0), 0).first.size(), 12u);
    expectContains(errorOf([&] { Batches(tooFew, 3, 4, order, 0); }),
                   "n.bin: 12 tokens, but one batch of 3 x 4 needs 13");
  }
  int64_t large = int64_t(1) << 40;
  expectContains(errorOf([&] { Batches(enough, large, large, Order::Random, 0); }), "product below 2^31");
  expectContains(errorOf([&] { Batches(enough, 0, 4, Order::Random, 0); }), "must be at least 1");
}

/// Files of consecutive numbers, told apart by thousands.
struct Files {
  TemporaryFolder folder;
  std::vector<std::string> paths;

  explicit Files(const std::vector<int> &sizes) {
    for (size_t file = 0; file < sizes.size(); ++file) {
      std::vector<uint16_t> tokens(static_cast<size_t>(sizes[file]));
      std::iota(tokens.begin(), tokens.end(), uint16_t(1000 * file));
      paths.push_back(folder.write(std::to_string(file) + ".bin", bytesOf(tokens)));
    }
  }
};

TEST(TokenSource, filesAreOneBehindTheOther) {
  const Files files({3, 1, 2});
  const TokenSource source(files.paths, 65536);
  EXPECT_EQ(source.boundaries(), (std::vector<int64_t>{0, 3, 4, 6}));
  EXPECT_EQ(readAllTokens(source), (std::vector<int32_t>{0, 1, 2, 1000, 2000, 2001}));
  std::vector<int32_t> part(3);
  source.read(2, part);
  EXPECT_EQ(part, (std::vector<int32_t>{2, 1000, 2000}));
  EXPECT_NE(source.fingerprint(), TokenSource({files.paths[0], files.paths[2], files.paths[1]}, 65536).fingerprint());
  expectContains(errorOf([&] { TokenSource mixed({files.paths[0], files.folder.write("t.txt", "text")}, 65536); }),
                 "t.txt is text, one token a byte: files of one kind are expected");
  expectContains(errorOf([&] { TokenSource small(files.paths, 1001); }), "2.bin: byte 0: token 2000");
}

TEST(Batches, shuffledReadsEachFilesBatchesOnceAPass) {
  const Files files({25, 3, 13, 61}); // of 2 x 3 tokens: 4, none, 2 and 10 batches
  const TokenSource source(files.paths, 65536);
  const Batches batches(source, 2, 3, Order::Shuffled, 5);
  EXPECT_EQ(batches.batchesPerPass(), 16);
  std::vector<std::vector<int32_t>> orders;
  for (int64_t pass = 0; pass < 3; ++pass) {
    std::set<int32_t> seen;
    std::vector<int32_t> order, fileOrder;
    for (int64_t step = 0; step < 16; ++step) {
      const auto [inputs, targets] = batchOf(batches, pass * 16 + step);
      for (size_t i = 0; i < inputs.size(); ++i) { // never across files
        EXPECT_EQ(inputs[i], inputs[0] + int32_t(i));
        EXPECT_EQ(targets[i], inputs[i] + 1);
      }
      EXPECT_TRUE(seen.insert(inputs[0]).second) << "twice in a pass";
      order.push_back(inputs[0]);
      if (fileOrder.empty() || fileOrder.back() != inputs[0] / 1000)
        fileOrder.push_back(inputs[0] / 1000);
    }
    EXPECT_EQ(fileOrder.size(), 3u) << "one file after the other";
    EXPECT_EQ(seen.count(3054), 1u) << "the last whole batch";
    orders.push_back(order);
  }
  EXPECT_NE(orders[0], orders[1]);
  EXPECT_NE(orders[1], orders[2]);
  EXPECT_NE(batchOf(Batches(source, 2, 3, Order::Shuffled, 6), 0).first, batchOf(batches, 0).first);
  // Held out from the middle of the last file on: its batches are not seen.
  const Batches training(source, {0, 71}, 2, 3, Order::Shuffled, 5);
  EXPECT_EQ(training.batchesPerPass(), 4 + 2 + 4);
  for (int64_t step = 0; step < 40; ++step)
    EXPECT_LT(batchOf(training, step).second.back(), 3030);
  expectContains(errorOf([&] { Batches none(source, {24, 8}, 2, 3, Order::Shuffled, 5); }),
                 "no file holds one batch of 2 x 3, 7 tokens");
}

TEST(Batches, permutationsAreBijections) {
  for (uint64_t count : {1, 2, 3, 5, 16, 17, 1000}) {
    std::set<uint64_t> images;
    for (uint64_t index = 0; index < count; ++index)
      images.insert(permuted(index, count, 9));
    EXPECT_EQ(images.size(), count);
    EXPECT_EQ(*images.rbegin(), count - 1);
  }
}

TEST(Batches, prefetchedOnesAreTheSame) {
  Counted data(500);
  const TokenSource source = data.open();
  const Batches batches(source, 3, 4, Order::Random, 3);
  PrefetchedBatches prefetched(batches);
  for (int64_t step : {0, 1, 2, 7, 8, 3, 3, 4}) { // also where a run does not go on from there
    std::vector<int32_t> inputs(12), targets(12);
    prefetched.read(step, inputs, targets);
    EXPECT_EQ(std::pair(inputs, targets), batchOf(batches, step)) << step;
  }
}

} // namespace
} // namespace tcc::models
