#include "frontend/safetensors.h"
#include "frontend/quotes.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstring>
#include <fmt/format.h>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

namespace tcc {

static_assert(std::endian::native == std::endian::little, "safetensors files are little-endian");

namespace {

constexpr int64_t lengthBytes = 8;
constexpr uint64_t headerLimit = 100'000'000;
constexpr size_t rankLimit = 32;

struct DtypeRow {
  TensorDtype dtype;
  std::string_view name;
  int64_t bytes;
};
constexpr DtypeRow dtypeTable[] = {
    {TensorDtype::Bool, "BOOL", 1},      {TensorDtype::U8, "U8", 1},          {TensorDtype::I8, "I8", 1},
    {TensorDtype::F8E4M3, "F8_E4M3", 1}, {TensorDtype::F8E5M2, "F8_E5M2", 1}, {TensorDtype::U16, "U16", 2},
    {TensorDtype::I16, "I16", 2},        {TensorDtype::F16, "F16", 2},        {TensorDtype::BF16, "BF16", 2},
    {TensorDtype::U32, "U32", 4},        {TensorDtype::I32, "I32", 4},        {TensorDtype::F32, "F32", 4},
    {TensorDtype::U64, "U64", 8},        {TensorDtype::I64, "I64", 8},        {TensorDtype::F64, "F64", 8},
};

/// Bytes of a tensor, or nothing where the product leaves int64.
std::optional<int64_t> byteCount(TensorDtype dtype, std::span<const int64_t> shape) {
  int64_t bytes = dtypeBytes(dtype);
  if (std::find(shape.begin(), shape.end(), 0) != shape.end())
    return 0;
  for (int64_t dim : shape)
    if (dim < 0 || __builtin_mul_overflow(bytes, dim, &bytes))
      return std::nullopt;
  return bytes;
}

std::string describeShape(std::span<const int64_t> shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

/// Reads bytes for the JSON parser and leaves the place of the latest one where the handler can see it.
class CountingIterator {
public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char *;
  using reference = const char &;

  CountingIterator(const char *at, const char **latest) : at(at), latest(latest) {}
  reference operator*() const { return *at; }
  CountingIterator &operator++() {
    *latest = ++at;
    return *this;
  }
  CountingIterator operator++(int) {
    CountingIterator before = *this;
    ++*this;
    return before;
  }
  bool operator==(const CountingIterator &other) const { return at == other.at; }

private:
  const char *at;
  const char **latest;
};

/// Takes the events of the header's JSON. The grammar has four places:
///   { "__metadata__": { "key": "text" }, "name": { "dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24] } }
/// Anything else, deeper nesting included, ends the parse with one message in `problem`.
class HeaderHandler : public nlohmann::json_sax<nlohmann::json> {
public:
  std::vector<TensorEntry> entries;
  std::map<std::string, std::string> attributes;
  std::string problem;

  bool start_object(size_t) override {
    if (place == Place::Start) {
      place = Place::Top;
      return true;
    }
    if (place != Place::Top)
      return refuse("an object stands where a value is expected");
    place = name == "__metadata__" ? Place::Metadata : Place::Tensor;
    entry = TensorEntry{};
    offsets.clear();
    hasDtype = hasShape = hasOffsets = false;
    return true;
  }

  bool end_object() override {
    if (place == Place::Top) {
      place = Place::End;
      return true;
    }
    bool tensor = place == Place::Tensor;
    place = Place::Top;
    return tensor ? finishTensor() : true;
  }

  bool key(string_t &text) override {
    if (place == Place::Top) {
      name = text;
      if (name == "__metadata__" && std::exchange(hasMetadata, true))
        return refuse("it stands twice");
      return true;
    }
    field = text;
    if (place == Place::Metadata)
      return true;
    bool *seen = field == "dtype"          ? &hasDtype
                 : field == "shape"        ? &hasShape
                 : field == "data_offsets" ? &hasOffsets
                                           : nullptr;
    if (!seen)
      return refuse(fmt::format("unknown key {}, a tensor has dtype, shape and data_offsets", inQuotes(field)));
    if (std::exchange(*seen, true))
      return refuse(fmt::format("key {} stands twice", inQuotes(field)));
    return true;
  }

  bool string(string_t &text) override {
    if (place == Place::Metadata) {
      attributes[field] = text;
      return true;
    }
    if (place != Place::Tensor || field != "dtype")
      return refuse("a string stands where something else is expected");
    for (const DtypeRow &row : dtypeTable)
      if (row.name == text) {
        entry.dtype = row.dtype;
        return true;
      }
    return refuse(fmt::format("unknown dtype {}", inQuotes(text)));
  }

  bool start_array(size_t) override {
    if (place != Place::Tensor || field == "dtype")
      return refuse("an array stands where something else is expected");
    place = field == "shape" ? Place::Shape : Place::Offsets;
    return true;
  }

  bool end_array() override {
    place = Place::Tensor;
    return true;
  }

  bool number_unsigned(number_unsigned_t value) override {
    if (place != Place::Shape && place != Place::Offsets)
      return refuse("a number stands where something else is expected");
    if (value > uint64_t(std::numeric_limits<int64_t>::max()))
      return refuse(fmt::format("{} is beyond 2^63", value));
    std::vector<int64_t> &list = place == Place::Shape ? entry.shape : offsets;
    if (list.size() >= (place == Place::Shape ? rankLimit : 2))
      return refuse(place == Place::Shape ? fmt::format("more than {} dimensions", rankLimit)
                                          : "data_offsets has two numbers, begin and end");
    list.push_back(int64_t(value));
    return true;
  }

  bool number_integer(number_integer_t value) override {
    return refuse(fmt::format("{} is negative, sizes and offsets are not", value));
  }
  bool number_float(number_float_t, const string_t &text) override {
    return refuse(fmt::format("{} stands where a whole number is expected", inQuotes(text)));
  }
  bool null() override { return refuse("null stands where something else is expected"); }
  bool boolean(bool) override { return refuse("a boolean stands where something else is expected"); }
  bool binary(binary_t &) override { return refuse("binary data stand where something else is expected"); }
  bool parse_error(size_t, const std::string &, const nlohmann::detail::exception &) override {
    problem = "not valid JSON here";
    return false;
  }

private:
  enum class Place { Start, Top, Metadata, Tensor, Shape, Offsets, End };

  bool refuse(std::string_view what) {
    if (place == Place::Start)
      problem = "the header is not a JSON object";
    else
      problem = fmt::format("{}: {}", inQuotes(name), what);
    return false;
  }

  bool finishTensor() {
    if (!hasDtype || !hasShape || !hasOffsets || offsets.size() != 2)
      return refuse("dtype, shape and two data_offsets are needed");
    entry.name = name;
    entry.begin = offsets[0];
    entry.end = offsets[1];
    if (entry.begin > entry.end)
      return refuse(fmt::format("data_offsets [{}, {}] end before they begin", entry.begin, entry.end));
    std::optional<int64_t> bytes = byteCount(entry.dtype, entry.shape);
    if (!bytes || *bytes != entry.end - entry.begin)
      return refuse(fmt::format("{} {} needs {} bytes, but data_offsets [{}, {}] hold {}", dtypeName(entry.dtype),
                                describeShape(entry.shape), bytes ? fmt::to_string(*bytes) : "more than 2^63",
                                entry.begin, entry.end, entry.end - entry.begin));
    entries.push_back(std::move(entry));
    return true;
  }

  Place place = Place::Start;
  std::string name, field;
  TensorEntry entry;
  std::vector<int64_t> offsets;
  bool hasMetadata = false, hasDtype = false, hasShape = false, hasOffsets = false;
};

/// The length in the first eight bytes, checked against the limit and the file.
int64_t headerLength(const MappedFile &file) {
  if (file.size() < lengthBytes)
    throw Error(fmt::format("{}: {} bytes, but a safetensors file begins with 8 bytes of header length", file.path(),
                            file.size()));
  uint64_t length;
  std::memcpy(&length, file.data(), sizeof length);
  if (length > headerLimit)
    throw Error(fmt::format("{}: byte 0: a header of {} bytes, at most {} are allowed (is this a safetensors file?)",
                            file.path(), length, headerLimit));
  if (int64_t(length) > file.size() - lengthBytes)
    throw Error(fmt::format("{}: byte 0: a header of {} bytes, but only {} bytes follow (is the file truncated?)",
                            file.path(), length, file.size() - lengthBytes));
  return int64_t(length);
}

/// Tensors sorted by offset must follow each other from 0 to the end of the file.
void checkLayout(const MappedFile &file, std::span<const TensorEntry> sorted, int64_t dataBytes) {
  int64_t at = 0;
  for (const TensorEntry &entry : sorted) {
    if (entry.begin != at)
      throw Error(fmt::format("{}: tensor {} begins at data byte {}, but {} is the end of the one before ({})",
                              file.path(), inQuotes(entry.name), entry.begin, at,
                              entry.begin < at ? "tensors overlap" : "a hole"));
    at = entry.end;
  }
  if (at != dataBytes)
    throw Error(fmt::format("{}: the tensors end at data byte {}, but the file holds {} data bytes ({})", file.path(),
                            at, dataBytes,
                            at > dataBytes ? "is the file truncated?" : "there is something after the last one"));
}

float widenHalf(uint16_t bits) {
  uint32_t sign = uint32_t(bits & 0x8000) << 16, exponent = (bits >> 10) & 31, fraction = bits & 1023;
  if (exponent == 0) {
    float magnitude = float(fraction) * 0x1p-24f;
    return sign ? -magnitude : magnitude;
  }
  uint32_t wide = exponent == 31 ? 0x7f800000u : (exponent + 112) << 23;
  return std::bit_cast<float>(sign | wide | (fraction << 13));
}

} // namespace

std::string_view dtypeName(TensorDtype dtype) {
  return dtypeTable[size_t(dtype)].name;
}
int64_t dtypeBytes(TensorDtype dtype) {
  return dtypeTable[size_t(dtype)].bytes;
}

bool isReadAsFloat(TensorDtype dtype) {
  return dtype == TensorDtype::F32 || dtype == TensorDtype::F16 || dtype == TensorDtype::BF16;
}

static_assert(
    [] {
      for (size_t i = 0; i < std::size(dtypeTable); ++i)
        if (size_t(dtypeTable[i].dtype) != i)
          return false;
      return true;
    }(),
    "the rows stand in the order of the enumeration");

SafetensorsFile::SafetensorsFile(const std::string &path) : file(path) {
  int64_t length = headerLength(file);
  dataStart = lengthBytes + length;
  const char *begin = reinterpret_cast<const char *>(file.data()) + lengthBytes;
  const char *latest = begin;
  if (length == 0 || *begin != '{')
    throw Error(fmt::format("{}: byte {}: the header does not begin with {{", path, lengthBytes));
  HeaderHandler handler;
  bool good =
      nlohmann::json::sax_parse(CountingIterator(begin, &latest), CountingIterator(begin + length, &latest), &handler);
  if (!good)
    throw Error(fmt::format("{}: byte {}: {}", path, lengthBytes + (latest - begin), handler.problem));
  entries = std::move(handler.entries);
  attributes = std::move(handler.attributes);

  // Empty tensors share their offset with the next one and stand before it.
  std::sort(entries.begin(), entries.end(), [](const TensorEntry &a, const TensorEntry &b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
  byName.resize(entries.size());
  std::iota(byName.begin(), byName.end(), 0);
  std::sort(byName.begin(), byName.end(),
            [&](int32_t a, int32_t b) { return entries[size_t(a)].name < entries[size_t(b)].name; });
  for (size_t i = 1; i < byName.size(); ++i)
    if (entries[size_t(byName[i - 1])].name == entries[size_t(byName[i])].name)
      throw Error(fmt::format("{}: tensor {} stands twice", path, inQuotes(entries[size_t(byName[i])].name)));
  checkLayout(file, entries, file.size() - dataStart);
}

const TensorEntry *SafetensorsFile::find(std::string_view name) const {
  auto at = std::lower_bound(byName.begin(), byName.end(), name,
                             [&](int32_t i, std::string_view wanted) { return entries[size_t(i)].name < wanted; });
  return at != byName.end() && entries[size_t(*at)].name == name ? &entries[size_t(*at)] : nullptr;
}

std::span<const std::byte> SafetensorsFile::bytes(const TensorEntry &entry) const {
  return file.bytes().subspan(size_t(dataStart + entry.begin), size_t(entry.end - entry.begin));
}

void SafetensorsFile::readFloats(const TensorEntry &entry, std::span<float> out) const {
  if (entry.elements() != int64_t(out.size()))
    throw Error(fmt::format("{}: tensor {} has shape {}, {} elements are needed", path(), inQuotes(entry.name),
                            describeShape(entry.shape), out.size()));
  const std::byte *from = bytes(entry).data();
  auto widen = [&](auto convert) {
    for (size_t i = 0; i < out.size(); ++i) {
      uint16_t bits;
      std::memcpy(&bits, from + 2 * i, 2);
      out[i] = convert(bits);
    }
  };
  switch (entry.dtype) {
  case TensorDtype::F32:
    if (!out.empty())
      std::memcpy(out.data(), from, out.size_bytes());
    return;
  case TensorDtype::F16:
    return widen(widenHalf);
  case TensorDtype::BF16:
    return widen([](uint16_t bits) { return std::bit_cast<float>(uint32_t(bits) << 16); });
  default:
    throw Error(fmt::format("{}: tensor {} is {}, only F32, F16 and BF16 are read as weights", path(),
                            inQuotes(entry.name), dtypeName(entry.dtype)));
  }
}

void writeSafetensors(const std::string &path, std::span<const TensorToWrite> tensors,
                      const std::map<std::string, std::string> &metadata) {
  std::vector<const TensorToWrite *> order;
  std::set<std::string_view> names;
  for (const TensorToWrite &tensor : tensors) {
    if (tensor.name == "__metadata__" || !names.insert(tensor.name).second)
      throw Error(fmt::format("{}: tensor name {} stands twice or is reserved", path, inQuotes(tensor.name)));
    if (byteCount(tensor.dtype, tensor.shape) != int64_t(tensor.bytes.size()))
      throw Error(fmt::format("{}: tensor {} of shape {} and dtype {} is given {} bytes", path, inQuotes(tensor.name),
                              describeShape(tensor.shape), dtypeName(tensor.dtype), tensor.bytes.size()));
    order.push_back(&tensor);
  }
  std::sort(order.begin(), order.end(), [](const TensorToWrite *a, const TensorToWrite *b) {
    return std::pair(-dtypeBytes(a->dtype), a) < std::pair(-dtypeBytes(b->dtype), b); // `tensors` is one array
  });

  nlohmann::ordered_json header;
  header["__metadata__"]["format"] = "pt"; // transformers refuses a file without it
  for (const auto &[key, value] : metadata)
    header["__metadata__"][key] = value;
  int64_t at = 0;
  for (const TensorToWrite *tensor : order) {
    int64_t end = at + int64_t(tensor->bytes.size());
    header[tensor->name] = {{"dtype", dtypeName(tensor->dtype)}, {"shape", tensor->shape}, {"data_offsets", {at, end}}};
    at = end;
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' '); // tensors begin on a multiple of 8 bytes
  uint64_t length = text.size();

  AtomicFile file(path);
  file.write(std::as_bytes(std::span(&length, 1)));
  file.write(text);
  for (const TensorToWrite *tensor : order)
    file.write(tensor->bytes);
  file.commit();
}

} // namespace tcc
