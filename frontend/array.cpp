// Arrays and states over memory that may be mirrored on a device.
#include "frontend/array.h"
#include "frontend/storage.h"
#include <array>
#include <cmath>
#include <cstring>

namespace tcc {
namespace {

/// Bytes of a dense tensor. Throws Error for a negative size or one beyond what the runtime can plan.
int64_t checkedBytes(const Shape &shape, DType dtype) {
  int64_t bytes = runtime::byteSize(dtype);
  for (int64_t size : shape) {
    if (size < 0)
      throw Error("shape " + shape.text() + " has a negative size; sizes are at least 0");
    if (__builtin_mul_overflow(bytes, size, &bytes) || bytes > runtime::maxPlanBytes)
      throw Error("shape " + shape.text() + " is beyond 2^46 bytes, the largest tensor");
  }
  return bytes;
}

runtime::MirroredTensor allocate(const Shape &shape, DType dtype, bool zero) {
  const int64_t bytes = checkedBytes(shape, dtype);
  auto memory = zero ? runtime::TensorStorage::zeros(bytes) : runtime::TensorStorage::allocate(bytes);
  if (!memory)
    throw Error(memory.error().message());
  return runtime::MirroredTensor(std::move(*memory));
}

/// Memory that wrap() is given.
class Foreign {
public:
  /// Throws Error, which names `what`, for what is no tensor.
  Foreign(const std::string &what, void *data, const Shape &shape, DType dtype, std::span<const int64_t> strides)
      : data(data), shape(shape), width(runtime::byteSize(dtype)), bytes(checkedBytes(shape, dtype)) {
    if (bytes > 0 && !data)
      throw Error(what + " of shape " + shape.text() + " is wrapped at a null pointer; " + std::to_string(bytes) +
                  " bytes are expected there");
    if (!strides.empty() && strides.size() != shape.size())
      throw Error(what + " of shape " + shape.text() + " is wrapped with " + std::to_string(strides.size()) +
                  " strides; one for each dim, or none, is expected");
    int64_t dense = 1;
    for (size_t i = shape.size(); i-- > 0; dense *= shape[i]) {
      steps[i] = (strides.empty() ? dense : strides[i]) * width;
      isDense = isDense && (shape[i] == 1 || steps[i] == dense * width);
    }
    isDense = isDense || bytes == 0;
  }

  bool isAligned() const { return reinterpret_cast<uintptr_t>(data) % uintptr_t{runtime::arenaAlignment} == 0; }
  /// Why a step cannot use it as it is; "" where it can.
  std::string obstacle() const {
    if (!isDense)
      return "is not dense and row-major";
    return isAligned() || bytes == 0 ? ""
                                     : "starts at no multiple of " + std::to_string(runtime::arenaAlignment) + " bytes";
  }
  runtime::MirroredTensor borrowed(std::shared_ptr<void> owner) const {
    return runtime::MirroredTensor(runtime::TensorStorage::borrow(bytes ? data : nullptr, bytes, std::move(owner)));
  }
  void copyTo(void *to) const {
    auto *next = static_cast<char *>(to);
    copyDim(0, static_cast<const char *>(data), next);
  }

private:
  /// The elements of dims from `dim` on, one after another.
  void copyDim(size_t dim, const char *from, char *&to) const {
    if (dim + 1 < shape.size()) {
      for (int64_t i = 0; i < shape[dim]; ++i)
        copyDim(dim + 1, from + i * steps[dim], to);
      return;
    }
    const bool isScalar = shape.empty();
    const int64_t count = isScalar ? 1 : shape[dim], step = isScalar ? width : steps[dim];
    if (step == width)
      std::memcpy(to, from, static_cast<size_t>(count * width));
    else if (width == 8)
      copyRow<8>(from, step, count, to);
    else if (width == 4)
      copyRow<4>(from, step, count, to);
    else if (width == 2)
      copyRow<2>(from, step, count, to);
    else
      copyRow<1>(from, step, count, to);
    to += count * width;
  }
  /// Elements that are `step` bytes apart.
  template <size_t width>
  static void copyRow(const char *from, int64_t step, int64_t count, char *to) {
    for (int64_t i = 0; i < count; ++i)
      std::memcpy(to + i * int64_t{width}, from + i * step, width);
  }

  void *data;
  Shape shape;
  int64_t width, bytes;
  std::array<int64_t, Shape::maxRank> steps{}; // bytes from one element of a dim to the next
  bool isDense = true;
};

template <typename T>
Array copyOf(std::span<const T> values, const Shape &shape, DType dtype) {
  Array array = Array::uninitialized(shape, dtype);
  if (static_cast<int64_t>(values.size()) != shape.elements())
    throw Error(std::to_string(values.size()) + " values for shape " + shape.text() + "; it has " +
                std::to_string(shape.elements()) + " elements");
  if (!values.empty())
    std::memcpy(array.raw(), values.data(), values.size_bytes());
  return array;
}

} // namespace

void detail::checkElementType(DType dtype, size_t elementSize, bool isFloat) {
  const bool fits = static_cast<size_t>(runtime::byteSize(dtype)) == elementSize && isFloat == (dtype == DType::f32);
  if (!fits)
    throw Error("elements of " + std::string(runtime::name(dtype)) + " are read as " +
                (dtype == DType::f32 ? "float" : "integers of " + std::to_string(runtime::byteSize(dtype)) + " bytes") +
                ", not as a " + (isFloat ? "float" : "integer") + " of " + std::to_string(elementSize) + " bytes");
}

Array::Array(Shape shape, DType dtype)
    : storage(std::make_shared<detail::ArrayStorage>(shape, dtype, allocate(shape, dtype, true))) {}

Array Array::uninitialized(Shape shape, DType dtype) {
  Array array;
  array.storage = std::make_shared<detail::ArrayStorage>(shape, dtype, allocate(shape, dtype, false));
  return array;
}

Array Array::wrap(void *data, Shape shape, DType dtype, std::shared_ptr<void> owner, std::span<const int64_t> strides) {
  const Foreign memory("an array", data, shape, dtype, strides);
  if (memory.obstacle().empty()) {
    Array array = detail::arrayOf(shape, dtype, memory.borrowed(std::move(owner)));
    array.storage->sharesMemory = true;
    return array;
  }
  Array array = uninitialized(shape, dtype);
  memory.copyTo(array.raw());
  return array;
}

Array Array::scalar32(float value) {
  return of(std::span<const float>(&value, 1), {});
}
Array Array::scalar(int32_t value) {
  return of(std::span<const int32_t>(&value, 1), {});
}
Array Array::of(std::span<const float> values, Shape shape) {
  return copyOf(values, shape, DType::f32);
}
Array Array::of(std::span<const int32_t> values, Shape shape) {
  return copyOf(values, shape, DType::i32);
}
Array Array::of(std::span<const int64_t> values, Shape shape) {
  return copyOf(values, shape, DType::i64);
}

namespace {
template <typename Storage>
Storage &held(const std::shared_ptr<Storage> &storage) {
  if (!storage)
    throw Error("an empty array or state is used; give it a shape first");
  return *storage;
}

/// The address; an error is thrown as the user's, with `name` before it.
template <typename Pointer>
Pointer orThrow(runtime::Expected<Pointer> address, const std::string &name = {}) {
  if (!address)
    throw Error((name.empty() ? "" : "state '" + name + "': ") + address.error().message());
  return *address;
}
} // namespace

Array detail::arrayOf(Shape shape, DType dtype, runtime::MirroredTensor memory) {
  Array array;
  array.storage = std::make_shared<ArrayStorage>(std::move(shape), dtype, std::move(memory));
  return array;
}

runtime::MirroredTensor &detail::memoryOf(const State &state) {
  return held(state.storage).memory;
}
std::vector<int64_t> &detail::partBytesOf(const State &state) {
  return held(state.storage).partBytes;
}

const Shape &Array::shape() const {
  return held(storage).shape;
}
DType Array::dtype() const {
  return held(storage).dtype;
}
int64_t Array::bytes() const {
  return held(storage).memory.bytes();
}
void *Array::raw() const {
  return orThrow(held(storage).memory.write());
}
bool Array::sharesMemory() const {
  return held(storage).sharesMemory;
}
const void *Array::rawForReading() const {
  return orThrow(held(storage).memory.read());
}

double Array::item() const {
  if (shape().elements() != 1)
    throw Error("item() of shape " + shape().text() + "; it needs exactly one element");
  return item(0);
}

double Array::item(int64_t index) const {
  switch (dtype()) {
  case DType::f32:
    return static_cast<const float *>(rawForReading())[index];
  case DType::bf16:
    return runtime::bf16ToFloat(static_cast<const uint16_t *>(rawForReading())[index]);
  case DType::f16:
    return runtime::f16ToFloat(static_cast<const uint16_t *>(rawForReading())[index]);
  case DType::i1:
    return static_cast<const uint8_t *>(rawForReading())[index] != 0;
  case DType::i32:
    return static_cast<const int32_t *>(rawForReading())[index];
  case DType::i64:
    return static_cast<double>(static_cast<const int64_t *>(rawForReading())[index]);
  case DType::f8e4m3:
  case DType::f8e5m2:
    break;
  }
  throw Error("item() of " + std::string(runtime::name(dtype())) + "; cast it to f32 in the function");
}

bool Array::setItem(int64_t index, double value) {
  const bool integral = value == std::trunc(value);
  switch (dtype()) {
  case DType::f32:
    static_cast<float *>(raw())[index] = static_cast<float>(value);
    return true;
  case DType::bf16:
    static_cast<uint16_t *>(raw())[index] = runtime::floatToBf16(static_cast<float>(value));
    return true;
  case DType::f16:
    static_cast<uint16_t *>(raw())[index] = runtime::floatToF16(static_cast<float>(value));
    return true;
  case DType::i1:
    if (value != 0 && value != 1)
      return false;
    static_cast<uint8_t *>(raw())[index] = value != 0;
    return true;
  case DType::i32:
    if (!integral || std::abs(value) > 0x1p31 || value == 0x1p31)
      return false;
    static_cast<int32_t *>(raw())[index] = static_cast<int32_t>(value);
    return true;
  case DType::i64:
    if (!integral || value < -0x1p63 || value >= 0x1p63)
      return false;
    static_cast<int64_t *>(raw())[index] = static_cast<int64_t>(value);
    return true;
  case DType::f8e4m3:
  case DType::f8e5m2:
    break;
  }
  throw Error("setItem() of " + std::string(runtime::name(dtype())) + "; cast it in the function");
}

/// Its name, or an Error for none.
static std::string namedState(std::string name) {
  if (name.empty())
    throw Error("a state without a name; states are told apart by their names");
  return name;
}

State::State(std::string name, Shape shape, DType dtype)
    : storage(std::make_shared<detail::StateStorage>(namedState(std::move(name)), shape, dtype,
                                                     allocate(shape, dtype, true))) {}

State State::wrap(std::string name, void *data, Shape shape, DType dtype, std::shared_ptr<void> owner,
                  std::span<const int64_t> strides) {
  const std::string what = "state '" + name + "'";
  const Foreign memory(what, data, shape, dtype, strides);
  if (const std::string obstacle = memory.obstacle(); !obstacle.empty())
    throw Error("the memory of " + what + " " + obstacle +
                "; a state is updated where it lies, move it to memory that " +
                "is dense, row-major and at a multiple of " + std::to_string(runtime::arenaAlignment) + " bytes");
  State state;
  state.storage = std::make_shared<detail::StateStorage>(namedState(std::move(name)), shape, dtype,
                                                         memory.borrowed(std::move(owner)));
  return state;
}

const std::string &State::name() const {
  return held(storage).name;
}
const Shape &State::shape() const {
  return held(storage).shape;
}
DType State::dtype() const {
  return held(storage).dtype;
}
int64_t State::bytes() const {
  return held(storage).memory.bytes();
}
bool State::isPart() const {
  return !held(storage).partBytes.empty();
}
int64_t State::wholeBytes() const {
  return shape().elements() * runtime::byteSize(dtype());
}
void *State::raw() const {
  return orThrow(held(storage).memory.write(), name());
}
const void *State::rawForReading() const {
  return orThrow(held(storage).memory.read(), name());
}
void State::fallBack() const {
  held(storage).memory.fallBack();
}

} // namespace tcc
