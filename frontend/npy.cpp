// The format: "\x93NUMPY", version, header length, a Python dict of descr, fortran_order and shape, then the data.
#include "frontend/npy.h"
#include "runtime/files.h"
#include <array>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <memory>
#include <sys/stat.h>

namespace tcc {
namespace {

struct NpyReader {
  std::string path;
  std::unique_ptr<std::FILE, int (*)(std::FILE *)> file{nullptr, std::fclose};
  int64_t size = 0;

  [[noreturn]] void fail(const std::string &message) const { throw Error(path + ": " + message); }

  explicit NpyReader(const std::string &path) : path(path) {
    file.reset(std::fopen(path.c_str(), "rb"));
    if (!file)
      fail(std::strerror(errno));
    struct stat status = {};
    if (::fstat(::fileno(file.get()), &status) == 0 && S_ISDIR(status.st_mode))
      fail("is a folder, a file is expected");
    if (std::fseek(file.get(), 0, SEEK_END) != 0 || (size = std::ftell(file.get())) < 0 ||
        std::fseek(file.get(), 0, SEEK_SET) != 0)
      fail("is no regular file");
  }
  void read(void *target, size_t bytes) const {
    if (std::fread(target, 1, bytes, file.get()) != bytes)
      fail("ends early; a .npy file of NumPy was expected");
  }
};

/// What follows `'key':` in the header's dict, up to the next comma outside of parentheses.
std::string_view field(std::string_view header, std::string_view key) {
  const size_t at = header.find(key);
  if (at == std::string_view::npos)
    return {};
  size_t begin = header.find(':', at);
  if (begin == std::string_view::npos)
    return {};
  begin = header.find_first_not_of(' ', begin + 1);
  if (begin == std::string_view::npos)
    return {};
  const size_t end = header[begin] == '(' ? header.find(')', begin) : header.find_first_of(",}", begin);
  return end == std::string_view::npos ? std::string_view() : header.substr(begin, end - begin);
}

double element(const char *bytes, std::string_view descr) {
  auto as = [&]<typename T>(T value) {
    std::memcpy(&value, bytes, sizeof value);
    return value;
  };
  if (descr == "<f4")
    return as(float());
  if (descr == "<f8")
    return as(double());
  if (descr == "<f2")
    return runtime::f16ToFloat(as(uint16_t()));
  if (descr == "<i4")
    return as(int32_t());
  if (descr == "<i8")
    return static_cast<double>(as(int64_t()));
  return as(uint8_t()) != 0;
}

/// `value` as the float type holds it; integers, which setItem refuses by itself, as they are.
double storedFloat(double value, DType dtype) {
  const auto narrow = static_cast<float>(value);
  switch (dtype) {
  case DType::f32:
    return narrow;
  case DType::bf16:
    return runtime::bf16ToFloat(runtime::floatToBf16(narrow));
  case DType::f16:
    return runtime::f16ToFloat(runtime::floatToF16(narrow));
  default:
    return value;
  }
}

std::string shortest(double value) {
  std::array<char, 32> text{};
  return {text.data(), std::to_chars(text.data(), text.data() + text.size(), value).ptr};
}

/// NumPy's name of the type that an array is written in.
const char *descrOf(DType dtype) {
  switch (dtype) {
  case DType::f32:
  case DType::bf16:
    return "<f4";
  case DType::f16:
    return "<f2";
  case DType::i1:
    return "|b1";
  case DType::i32:
    return "<i4";
  case DType::i64:
    return "<i8";
  case DType::f8e4m3:
  case DType::f8e5m2:
    break;
  }
  throw Error(std::string(runtime::name(dtype)) + " has no .npy form; cast it to f32 in the graph");
}

/// Magic, version 1.0, and the dict padded so that the data begin at a multiple of 64 bytes.
std::string headerOf(const Array &array) {
  std::string dict = std::string("{'descr': '") + descrOf(array.dtype()) + "', 'fortran_order': False, 'shape': (";
  for (size_t i = 0; i < array.shape().size(); ++i)
    dict += (i ? ", " : "") + std::to_string(array.shape()[i]);
  dict += array.shape().size() == 1 ? ",), }" : "), }";
  constexpr size_t before = 10;
  dict.resize((before + dict.size() + 1 + 63) / 64 * 64 - before - 1, ' ');
  dict += '\n';
  std::string header("\x93NUMPY\x01\x00", 8);
  header += static_cast<char>(dict.size() & 0xff);
  header += static_cast<char>(dict.size() >> 8);
  return header + dict;
}

} // namespace

Array readNpy(const std::string &path, DType dtype) {
  const NpyReader reader(path);

  // 1. The header.
  std::array<unsigned char, 8> magic{};
  reader.read(magic.data(), magic.size());
  if (std::memcmp(magic.data(), "\x93NUMPY", 6) != 0 || (magic[6] != 1 && magic[6] != 2))
    reader.fail("is no .npy file of version 1 or 2");
  std::array<unsigned char, 4> lengthBytes{};
  reader.read(lengthBytes.data(), magic[6] == 1 ? 2 : 4);
  const uint32_t length =
      lengthBytes[0] | lengthBytes[1] << 8 | lengthBytes[2] << 16 | static_cast<uint32_t>(lengthBytes[3]) << 24;
  if (length > 65536)
    reader.fail("header of " + std::to_string(length) + " bytes; 64 KiB are the most");
  std::string header(length, '\0');
  reader.read(header.data(), length);

  // 2. Its fields.
  std::string descr(field(header, "'descr'"));
  std::erase(descr, '\'');
  int64_t itemBytes = descr == "|b1" ? 1 : descr.size() == 3 && descr[0] == '<' ? descr[2] - '0' : 0;
  if (descr != "|b1" && descr != "<f2" && descr != "<f4" && descr != "<f8" && descr != "<i4" && descr != "<i8")
    reader.fail("element type " + descr + "; f2, f4, f8, i4, i8 and b1 are read, little endian");
  if (field(header, "'fortran_order'") != "False")
    reader.fail("is in Fortran order; C order is read");
  const std::string_view sizes = field(header, "'shape'");
  if (sizes.empty())
    reader.fail("has no shape");
  Shape shape;
  for (size_t i = 1; i < sizes.size();) {
    int64_t size = 0;
    const auto [end, problem] = std::from_chars(sizes.data() + i, sizes.data() + sizes.size(), size);
    if (problem == std::errc() && size >= 0)
      shape.push(size);
    else if (problem == std::errc::result_out_of_range)
      reader.fail("has a size beyond 2^63");
    i = static_cast<size_t>(end - sizes.data()) + 1;
  }

  // 3. The data: as long as the shape says, before anything is allocated.
  const int64_t offset = std::ftell(reader.file.get());
  int64_t bytes = itemBytes;
  for (int64_t size : shape)
    if (__builtin_mul_overflow(bytes, size, &bytes))
      reader.fail("has more than 2^63 bytes by its shape");
  if (reader.size - offset != bytes)
    reader.fail("holds " + std::to_string(reader.size - offset) + " bytes of data; its shape " + shape.text() +
                " needs " + std::to_string(bytes));
  std::string data(static_cast<size_t>(bytes), '\0');
  reader.read(data.data(), data.size());
  Array array = Array::uninitialized(shape, dtype);
  if (descr == "<i8" && dtype == DType::i64) { // a double would round them
    std::memcpy(array.raw(), data.data(), data.size());
    return array;
  }
  for (int64_t i = 0; i < shape.elements(); ++i) {
    const double value = element(data.data() + i * itemBytes, descr);
    if (std::isfinite(value) && !std::isfinite(storedFloat(value, dtype)))
      reader.fail("element " + std::to_string(i) + " is " + shortest(value) + ", which is beyond the range of " +
                  std::string(runtime::name(dtype)));
    if (!array.setItem(i, value))
      reader.fail("element " + std::to_string(i) + " is " + shortest(value) + ", which is no " +
                  std::string(runtime::name(dtype)));
  }
  return array;
}

void writeNpy(const std::string &path, const Array &array) {
  std::string bytes = headerOf(array);
  if (array.dtype() == DType::bf16) {
    const auto *from = static_cast<const uint16_t *>(array.rawForReading());
    for (int64_t i = 0; i < array.shape().elements(); ++i) {
      const float value = runtime::bf16ToFloat(from[i]);
      bytes.append(reinterpret_cast<const char *>(&value), sizeof value);
    }
  } else {
    bytes.append(static_cast<const char *>(array.rawForReading()), static_cast<size_t>(array.bytes()));
  }
  if (runtime::Error error = runtime::writeFileAtomically(path, bytes))
    throw Error(error.message());
}

} // namespace tcc
