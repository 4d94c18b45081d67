// Array: a tensor that goes into or comes out of a compiled function. State: a named tensor that lives across calls.
// Both are handles: copies share the memory. Users read and write them on the host. If a device with memory of its own
// uses them, they live there too, and bytes are copied when one side needs newer ones of the other. wrap() makes them
// from memory that belongs to others.
#pragma once
#include "frontend/shape.h"
#include <concepts>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace tcc {

class Array;
class State;
class Tensor;

namespace runtime {
class MirroredTensor;
}

namespace detail {
struct StateStorage;
struct ArrayStorage;
/// For calls: arrayOf() makes an array around the output of a step, memoryOf() gives the memory of a state.
Array arrayOf(Shape shape, DType dtype, runtime::MirroredTensor memory);
runtime::MirroredTensor &memoryOf(const State &state);
std::vector<int64_t> &partBytesOf(const State &state);
/// Throws Error unless a C++ type of this size and kind holds an element of `dtype`.
void checkElementType(DType dtype, size_t elementSize, bool isFloat);
} // namespace detail

/// A dense row-major tensor; on the host its bytes are 64-byte aligned. Reading the result of a step on a device waits
/// for that step alone, and throws Error if the device has failed meanwhile.
class Array {
public:
  Array() = default; ///< holds nothing
  /// Zeros. Throws Error for a negative or too large size.
  explicit Array(Shape shape, DType dtype = DType::f32);
  /// Rank 0, f32: learning rates, step counts. A template, so that Array({2}) is a shape.
  template <std::floating_point T>
  Array(T scalar) : Array(scalar32(static_cast<float>(scalar))) {}

  static Array uninitialized(Shape shape, DType dtype);
  static Array scalar(int32_t value); ///< rank 0, i32: seeds
  /// Copies `values` (float for f32, int32_t for i32, int64_t for i64). Throws Error unless there are as many as the
  /// shape has elements.
  static Array of(std::span<const float> values, Shape shape);
  static Array of(std::span<const int32_t> values, Shape shape);
  static Array of(std::span<const int64_t> values, Shape shape);

  /// An array over memory of someone else (a PyTorch tensor's, numpy's). The memory must exist as long as `owner`; if
  /// `owner` is null the caller sees to that. `strides` count elements, one for each dim; without them the memory is
  /// dense and row-major. Memory that is dense, row-major and at a multiple of 64 bytes is used as it is. Any other is
  /// copied at once, and what its owner writes there later is not seen; sharesMemory() says which of the two happened.
  /// The owner is released by the thread that drops the last handle. Throws Error for a null pointer to elements and
  /// for a wrong number of strides.
  static Array wrap(void *data, Shape shape, DType dtype, std::shared_ptr<void> owner,
                    std::span<const int64_t> strides = {});

  explicit operator bool() const { return storage != nullptr; }
  const Shape &shape() const;
  DType dtype() const;
  int64_t bytes() const;
  /// Whether its bytes on the host are those that wrap() was given.
  bool sharesMemory() const;
  /// The bytes: raw() is for writing, rawForReading() for reading alone.
  void *raw() const;
  const void *rawForReading() const;
  /// The elements, to be written. T is float for f32, uint16_t for bf16 and f16, uint8_t for the 8-bit types, int32_t,
  /// int64_t. Throws Error for another T.
  template <typename T>
  std::span<T> data() const {
    detail::checkElementType(dtype(), sizeof(T), std::is_floating_point_v<T>);
    return {static_cast<T *>(raw()), static_cast<size_t>(shape().elements())};
  }
  /// The elements, only to be read.
  template <typename T>
  std::span<const T> read() const {
    detail::checkElementType(dtype(), sizeof(T), std::is_floating_point_v<T>);
    return {static_cast<const T *>(rawForReading()), static_cast<size_t>(shape().elements())};
  }
  /// The element of a one-element array of any dtype, as double. Throws Error for more elements.
  double item() const;
  /// item() gives element `index` in row-major order as double; setItem() sets it. Floats are rounded. If an integer
  /// dtype cannot hold the value, setItem() writes nothing and gives false. Both throw Error for 8-bit floats.
  double item(int64_t index) const;
  bool setItem(int64_t index, double value);

private:
  friend Array detail::arrayOf(Shape shape, DType dtype, runtime::MirroredTensor memory);
  static Array scalar32(float value);
  std::shared_ptr<detail::ArrayStorage> storage;
};

/// A named value that lives across calls: a parameter or an optimizer's moment. In a traced function it stands for its
/// value before the call; assign() gives it the value after the call.
class State {
public:
  State() = default; ///< holds nothing
  /// Zeros. Names are unique within one traced function.
  State(std::string name, Shape shape, DType dtype = DType::f32);

  /// A state in memory of someone else, which must exist as long as `owner` (see Array::wrap). Its value is what stands
  /// there; on a CPU steps update it in place. Where a device with memory of its own uses it, the memory has the newest
  /// bytes after read(), and what its owner writes there counts after data(). Throws Error for memory that is not
  /// dense, row-major and at a multiple of 64 bytes: a copy would not be the owner's value.
  static State wrap(std::string name, void *data, Shape shape, DType dtype, std::shared_ptr<void> owner,
                    std::span<const int64_t> strides = {});

  explicit operator bool() const { return storage != nullptr; }
  const std::string &name() const;
  const Shape &shape() const;
  DType dtype() const;
  int64_t bytes() const;
  /// Whether it is one rank's part of the value (FunctionOptions::zero): `shape` is that of the whole, the bytes are
  /// those of the part. wholeStates() (state_parts.h) gives the whole.
  bool isPart() const;
  int64_t wholeBytes() const; ///< of the whole value
  /// The bytes: to write them, and only to read them.
  void *raw() const;
  const void *rawForReading() const;
  /// The elements, to be written until the next call of a function that uses the state. That call copies them to the
  /// device again; what is written later is lost. read() causes no such copy.
  template <typename T>
  std::span<T> data() const {
    detail::checkElementType(dtype(), sizeof(T), std::is_floating_point_v<T>);
    return {static_cast<T *>(raw()), static_cast<size_t>(bytes()) / sizeof(T)};
  }
  /// The elements, only to be read, until the next such call.
  template <typename T>
  std::span<const T> read() const {
    detail::checkElementType(dtype(), sizeof(T), std::is_floating_point_v<T>);
    return {static_cast<const T *>(rawForReading()), static_cast<size_t>(bytes()) / sizeof(T)};
  }
  /// To be called after a device was lost that had the newest value: the value becomes the one that was last read or
  /// written on the host.
  void fallBack() const;
  bool operator==(const State &other) const = default;

private:
  friend class Tracer;
  friend runtime::MirroredTensor &detail::memoryOf(const State &state);
  friend std::vector<int64_t> &detail::partBytesOf(const State &state);
  std::shared_ptr<detail::StateStorage> storage;
};

/// Another name for State, for states with respect to which gradients are taken.
using Parameter = State;

} // namespace tcc
