#include "frontend/tensor_files.h"
#include "frontend/shape.h"
#include <algorithm>
#include <set>

namespace tcc {
namespace {

/// Why the tensor is no value of the state; "" where it is one.
std::string mismatch(const runtime::TensorSpec &state, const TensorEntry *entry, std::span<const std::byte> bytes) {
  const std::string title = "state '" + state.name + "' ";
  if (!entry)
    return title + "is not in the file";
  const auto typeText = [](TensorDtype dtype, const Shape &shape) {
    return std::string(dtypeName(dtype)) + " " + shape.text();
  };
  const bool hasRank = entry->shape.size() <= Shape::maxRank;
  const Shape shape = hasRank ? Shape(entry->shape) : Shape();
  if (!hasRank || entry->dtype != fileDtype(state.dtype) || !(shape == Shape(state.shape)))
    return title + "is " + typeText(fileDtype(state.dtype), Shape(state.shape)) + ", in the file " +
           (hasRank ? typeText(entry->dtype, shape) : "of rank " + std::to_string(entry->shape.size()));
  if (state.dtype == DType::i1 && !std::ranges::all_of(bytes, [](std::byte byte) { return byte <= std::byte{1}; }))
    return title + "has in the file BOOL elements that are neither 0 nor 1";
  return {};
}

/// All that is wrong, in one message.
std::string summary(const std::vector<std::string> &problems) {
  constexpr size_t most = 4;
  std::string text;
  for (size_t i = 0; i < std::min(most, problems.size()); ++i)
    text += (i ? "; " : "") + problems[i];
  if (problems.size() > most)
    text += "; and " + std::to_string(problems.size() - most) + " more";
  return text;
}

} // namespace

TensorDtype fileDtype(DType dtype) {
  switch (dtype) {
  case DType::f32:
    return TensorDtype::F32;
  case DType::bf16:
    return TensorDtype::BF16;
  case DType::f16:
    return TensorDtype::F16;
  case DType::f8e4m3:
    return TensorDtype::F8E4M3;
  case DType::f8e5m2:
    return TensorDtype::F8E5M2;
  case DType::i1:
    return TensorDtype::Bool;
  case DType::i32:
    return TensorDtype::I32;
  case DType::i64:
    return TensorDtype::I64;
  }
  throw Error("a dtype without a name in safetensors files", Error::Kind::internal);
}

std::vector<std::span<const std::byte>> valuesOf(const SafetensorsFile &file,
                                                 std::span<const runtime::TensorSpec> wanted, Others others) {
  std::vector<std::string> problems;
  std::vector<std::span<const std::byte>> values;
  std::set<std::string_view> names;
  for (const runtime::TensorSpec &spec : wanted) {
    if (!names.insert(spec.name).second)
      problems.push_back("two states are named '" + spec.name + "'");
    const TensorEntry *entry = file.find(spec.name);
    values.push_back(entry ? file.bytes(*entry) : std::span<const std::byte>());
    if (std::string problem = mismatch(spec, entry, values.back()); !problem.empty())
      problems.push_back(std::move(problem));
  }
  for (const TensorEntry &entry : file.tensors())
    if (others == Others::refused && !names.contains(entry.name))
      problems.push_back("its tensor '" + entry.name + "' is no state");
  if (!problems.empty())
    throw Error(file.path() + " does not fit the states, and nothing is loaded: " + summary(problems));
  return values;
}

} // namespace tcc
