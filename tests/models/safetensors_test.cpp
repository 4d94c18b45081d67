// The reader and the writer of safetensors files: what a file holds comes back, and a damaged file gives one error.
#include "frontend/safetensors.h"
#include "models/counter_random.h"
#include "test_files.h"

#include <cmath>
#include <cstring>

namespace tcc::models {
namespace {

/// A file with this header and these data.
std::string withHeader(const std::string &json, const std::string &data = "") {
  return bytesOf<uint64_t>({json.size()}) + json + data;
}

/// The error of opening a file with these bytes; empty if it opens.
std::string openError(const std::string &content) {
  MemoryFile memory;
  std::string path = memory.write(content);
  std::string error = errorOf([&] { SafetensorsFile file(path); });
  if (!error.empty())
    expectContains(error, path + ": ");
  return error;
}

/// A file with one tensor "w" whose description is `fields`, followed by `data`.
std::string oneTensor(const std::string &fields, const std::string &data) {
  return withHeader("{\"w\":{" + fields + "}}", data);
}

const std::string eightBytes(8, '\1');

/// A small valid file: three tensors of different kinds and metadata.
std::string sampleFile(const TemporaryFolder &folder) {
  static const std::vector<float> matrix = {1, -2, 3.5f, 0, 1e30f, -0.f};
  static const std::vector<uint16_t> half = {0x3c00, 0xc000, 0x7c00};
  std::string path = folder.path("m.safetensors");
  TensorToWrite tensors[] = {
      {"bits", TensorDtype::F16, {3}, std::as_bytes(std::span(half))},
      {"h.0.w", TensorDtype::F32, {2, 3}, std::as_bytes(std::span(matrix))},
      {"empty", TensorDtype::F32, {0, 4}, {}},
  };
  writeSafetensors(path, tensors, {{"step", "12"}});
  return path;
}

TEST(Safetensors, roundTrip) {
  TemporaryFolder folder;
  SafetensorsFile file(sampleFile(folder));
  EXPECT_EQ(file.metadata(), (std::map<std::string, std::string>{{"format", "pt"}, {"step", "12"}}));
  EXPECT_EQ(file.tensors().size(), 3u);
  EXPECT_EQ(file.find("nothing"), nullptr);
  const TensorEntry *matrix = file.find("h.0.w");
  ASSERT_NE(matrix, nullptr);
  EXPECT_EQ(matrix->shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(reinterpret_cast<uintptr_t>(file.bytes(*matrix).data()) % 8, 0u);
  std::vector<float> values(6);
  file.readFloats(*matrix, values);
  EXPECT_EQ(values, (std::vector<float>{1, -2, 3.5f, 0, 1e30f, -0.f}));
  EXPECT_TRUE(std::signbit(values[5]));
  EXPECT_EQ(file.find("empty")->elements(), 0);
}

TEST(Safetensors, layoutIsTheFormats) {
  TemporaryFolder folder;
  std::vector<float> one = {1};
  TensorToWrite tensor{"a", TensorDtype::F32, {}, std::as_bytes(std::span(one))};
  writeSafetensors(folder.path("f"), {&tensor, 1});
  std::string header = R"({"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[],"data_offsets":[0,4]}})";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  EXPECT_EQ(readAll(folder.path("f")), withHeader(header, bytesOf(one)));
}

TEST(Safetensors, widensSixteenBitValues) {
  TemporaryFolder folder;
  std::vector<uint16_t> half = {0x3c00, 0xc000, 0x0001, 0x8000, 0x7bff, 0x7c00, 0xfc00, 0x7e00, 0x0400};
  std::vector<uint16_t> brain = {0x3f80, 0xc049};
  TensorToWrite tensors[] = {{"half", TensorDtype::F16, {9}, std::as_bytes(std::span(half))},
                             {"brain", TensorDtype::BF16, {2}, std::as_bytes(std::span(brain))}};
  writeSafetensors(folder.path("f"), tensors);
  SafetensorsFile file(folder.path("f"));
  std::vector<float> values(9);
  file.readFloats(*file.find("half"), values);
  EXPECT_EQ(values[0], 1);
  EXPECT_EQ(values[1], -2);
  EXPECT_EQ(values[2], std::ldexp(1.f, -24));
  EXPECT_TRUE(values[3] == 0 && std::signbit(values[3]));
  EXPECT_EQ(values[4], 65504);
  EXPECT_EQ(values[5], INFINITY);
  EXPECT_EQ(values[6], -INFINITY);
  EXPECT_TRUE(std::isnan(values[7]));
  EXPECT_EQ(values[8], std::ldexp(1.f, -14));
  values.resize(2);
  file.readFloats(*file.find("brain"), values);
  EXPECT_EQ(values, (std::vector<float>{1, -3.140625f}));
  expectContains(errorOf([&] { file.readFloats(*file.find("half"), values); }), "`half` has shape [9], 2 elements");
}

TEST(Safetensors, acceptsWhatOtherWritersMake) {
  EXPECT_EQ(openError(withHeader("{}")), "");
  EXPECT_EQ(openError(withHeader("{}     ")), "");
  EXPECT_EQ(openError(oneTensor(R"("shape":[2],"data_offsets":[0,8],"dtype":"F32")", eightBytes)), "");
  EXPECT_EQ(openError(oneTensor(R"("dtype":"I64","shape":[],"data_offsets":[0,8])", eightBytes)), "");
  EXPECT_EQ(openError(oneTensor(R"("dtype":"F8_E4M3","shape":[2,2,2],"data_offsets":[0,8])", eightBytes)), "");
}

TEST(Safetensors, refusesBadLengths) {
  expectContains(openError(""), "0 bytes, but a safetensors file begins with 8 bytes");
  expectContains(openError("1234567"), "7 bytes");
  expectContains(openError(bytesOf<uint64_t>({100'000'001})), "byte 0: a header of 100000001 bytes, at most 100000000");
  expectContains(openError(bytesOf<uint64_t>({~uint64_t(0)})), "a header of 18446744073709551615 bytes");
  expectContains(openError(bytesOf<uint64_t>({99'999'999}) + "{}"), "but only 2 bytes follow");
  expectContains(openError(bytesOf<uint64_t>({0})), "does not begin with {");
}

TEST(Safetensors, refusesBadHeaders) {
  struct Case {
    std::string header, message;
  };
  const Case cases[] = {
      {"[]", "byte 8: the header does not begin with {"},
      {" {}", "does not begin with {"},
      {"{", "byte 9: not valid JSON here"},
      {"{}x", "not valid JSON here"},
      {"{\"a\xff\":1}", "not valid JSON here"},
      {R"({"a":5})", "`a`: a number stands where"},
      {R"({"a":[]})", "`a`: an array stands where"},
      {R"({"a":"x"})", "`a`: a string stands where"},
      {R"({"a":null})", "`a`: null stands where"},
      {R"({"a":{"dtype":{}}})", "`a`: an object stands where"},
      {R"({"a":{"shape":[[1]]}})", "`a`: an array stands where"},
      {R"({"a":{"shape":["1"]}})", "`a`: a string stands where"},
      {R"({"a":{"shape":[1.5]}})", "`a`: `1.5` stands where a whole number is expected"},
      {R"({"a":{"shape":[-1]}})", "`a`: -1 is negative"},
      {R"({"a":{"shape":[99999999999999999999]}})", "stands where a whole number is expected"},
      {R"({"a":{"shape":[18446744073709551615]}})", "18446744073709551615 is beyond 2^63"},
      {R"({"a":{"shape":[true]}})", "a boolean stands where"},
      {R"({"a":{"dtype":"F33"}})", "`a`: unknown dtype `F33`"},
      {R"({"a":{"device":"cpu"}})", "`a`: unknown key `device`"},
      {R"({"a":{"dtype":"F32","dtype":"F32"}})", "`a`: key `dtype` stands twice"},
      {R"({"a":{"dtype":"F32","shape":[2]}})", "`a`: dtype, shape and two data_offsets are needed"},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0]}})", "two data_offsets are needed"},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8,9]}})", "data_offsets has two numbers"},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}})", "end before they begin"},
      {R"({"__metadata__":{"a":1}})", "`__metadata__`: a number stands where"},
      {R"({"__metadata__":{},"__metadata__":{}})", "`__metadata__`: it stands twice"},
  };
  for (const Case &c : cases)
    expectContains(openError(withHeader(c.header, eightBytes)), c.message);
}

TEST(Safetensors, refusesSizesThatDisagree) {
  expectContains(openError(oneTensor(R"("dtype":"F32","shape":[3],"data_offsets":[0,8])", eightBytes)),
                 "`w`: F32 [3] needs 12 bytes, but data_offsets [0, 8] hold 8");
  expectContains(openError(oneTensor(R"("dtype":"F32","shape":[4294967296,4294967296,4294967296],"data_offsets":[0,8])",
                                     eightBytes)),
                 "needs more than 2^63 bytes");
  EXPECT_EQ(openError(oneTensor(R"("dtype":"F32","shape":[4294967296,4294967296,0],"data_offsets":[0,0])", "")), "");
  std::string many = "1";
  for (int i = 0; i < 32; ++i)
    many += ",1";
  expectContains(openError(oneTensor(R"("dtype":"F32","data_offsets":[0,4],"shape":[)" + many + "]", eightBytes)),
                 "more than 32 dimensions");
  expectContains(
      openError(oneTensor(R"("dtype":"F32","shape":[2305843009213693951],"data_offsets":[0,9223372036854775804])", "")),
      "the tensors end at data byte 9223372036854775804, but the file holds 0");
}

TEST(Safetensors, refusesHolesAndOverlaps) {
  auto two = [](const std::string &first, const std::string &second) {
    return withHeader(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[)" + first +
                          R"(]},"b":{"dtype":"U8","shape":[4],"data_offsets":[)" + second + "]}}",
                      eightBytes);
  };
  EXPECT_EQ(openError(two("0,4", "4,8")), "");
  EXPECT_EQ(openError(two("4,8", "0,4")), "");
  expectContains(openError(two("0,4", "3,7")), "`b` begins at data byte 3, but 4 is the end of the one before");
  expectContains(openError(two("0,4", "0,4")), "tensors overlap");
  expectContains(openError(two("0,4", "5,9")), "a hole");
  expectContains(openError(two("1,5", "5,9")), "`a` begins at data byte 1, but 0");
  expectContains(openError(two("0,4", "4,8") + "x"), "the tensors end at data byte 8, but the file holds 9");
  std::string twice = R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"a":{"dtype":"U8","shape":[4],)"
                      R"("data_offsets":[4,8]}})";
  expectContains(openError(withHeader(twice, eightBytes)), "tensor `a` stands twice");
}

TEST(Safetensors, deepNestingIsOneError) {
  const std::pair<std::string, std::string> cases[] = {{"[", "`a`: an array stands where"},
                                                       {"{\"a\":", "`a`: unknown key `a`"}};
  for (const auto &[piece, message] : cases) {
    std::string header = "{\"a\":";
    for (int i = 0; i < 200000; ++i)
      header += piece;
    expectContains(openError(withHeader(header)), message);
  }
}

TEST(Safetensors, everyTruncationIsAnError) {
  TemporaryFolder folder;
  std::string whole = readAll(sampleFile(folder));
  for (size_t size = 0; size < whole.size(); ++size)
    EXPECT_NE(openError(whole.substr(0, size)), "") << "size " << size;
}

TEST(Safetensors, changedBytesAreAnErrorOrAConsistentFile) {
  TemporaryFolder folder;
  const std::string whole = readAll(sampleFile(folder));
  uint64_t headerBytes;
  std::memcpy(&headerBytes, whole.data(), 8);
  MemoryFile memory;
  int refused = 0, accepted = 0;
  auto tryFile = [&](const std::string &content) {
    std::string path = memory.write(content);
    try {
      SafetensorsFile file(path);
      size_t total = 0;
      for (const TensorEntry &entry : file.tensors()) {
        for (std::byte byte : file.bytes(entry))
          total += size_t(byte) >> 8; // reads each byte that the header promises
        total += file.bytes(entry).size();
      }
      EXPECT_EQ(total, whole.size() - 8 - headerBytes);
      ++accepted;
    } catch (const Error &error) {
      expectContains(error.what(), path + ": ");
      ++refused;
    }
  };
  for (size_t at = 0; at < 8 + headerBytes; ++at)
    for (int bit = 0; bit < 8; ++bit) {
      std::string changed = whole;
      changed[at] = char(changed[at] ^ (1 << bit));
      tryFile(changed);
    }
  for (uint64_t i = 0; i < 2000; ++i) { // several bytes at once
    std::string changed = whole;
    for (uint64_t j = 0; j < 3; ++j) {
      uint64_t bits = randomBits(1, i, j);
      changed[size_t(boundedBits(bits, 8 + headerBytes))] = char(bits);
    }
    tryFile(changed);
  }
  EXPECT_GT(refused, 1000);
  EXPECT_GT(accepted, 50); // changed names and metadata keep a file consistent
}

TEST(Safetensors, writerRefusesWhatItCannotWrite) {
  TemporaryFolder folder;
  std::vector<float> two = {1, 2};
  TensorToWrite tensor{"a", TensorDtype::F32, {3}, std::as_bytes(std::span(two))};
  expectContains(errorOf([&] { writeSafetensors(folder.path("f"), {&tensor, 1}); }),
                 "`a` of shape [3] and dtype F32 is given 8 bytes");
  tensor.shape = {2};
  TensorToWrite twice[] = {tensor, tensor};
  expectContains(errorOf([&] { writeSafetensors(folder.path("f"), twice); }), "`a` stands twice");
  expectContains(errorOf([&] { writeSafetensors(folder.path("no/f"), {&tensor, 1}); }), "cannot write");
  EXPECT_FALSE(std::filesystem::exists(folder.path("f")));
}

} // namespace
} // namespace tcc::models
