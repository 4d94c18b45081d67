// Memory of tensors. Every tensor allocation of the runtime, the frontend and the models goes through one counted
// allocator, so that the peak of a step can be counted without believing the plan.
#pragma once
#include "runtime/dtype.h"
#include "runtime/error.h"
#include "runtime/plan.h"
#include <cstdint>
#include <memory>
#include <span>

namespace tcc::runtime {

/// Bytes of a tensor that somebody else owns.
struct TensorRef {
  void *data = nullptr;
  int64_t bytes = 0;
};

/// The same, only read.
struct ConstTensorRef {
  const void *data = nullptr;
  int64_t bytes = 0;
  ConstTensorRef() = default;
  ConstTensorRef(const void *data, int64_t bytes) : data(data), bytes(bytes) {}
  ConstTensorRef(TensorRef ref) : data(ref.data), bytes(ref.bytes) {}
};

/// Bytes live now, and most bytes ever live since the start of the process.
int64_t countedLiveBytes();
int64_t countedPeakBytes();

/// The most bytes live at one time since its construction.
class PeakScope {
public:
  PeakScope();
  ~PeakScope();
  PeakScope(const PeakScope &) = delete;
  PeakScope &operator=(const PeakScope &) = delete;
  int64_t bytes() const;

private:
  int64_t peak;
};

/// Whether the counted allocator owns the memory at `data`.
bool isCounted(const void *data);
/// From now on, fill new and freed tensors with 0xFF bytes (NaN in every float type).
void poisonAllocations(bool enabled);

/// Owns 64-byte aligned memory from the counted allocator, or keeps someone else's alive. Move only.
class TensorStorage {
public:
  TensorStorage() = default;
  /// Uninitialised memory. Errors: negative or beyond maxPlanBytes, or no memory.
  static Expected<TensorStorage> allocate(int64_t bytes);
  /// Zeros.
  static Expected<TensorStorage> zeros(int64_t bytes);
  static Expected<TensorStorage> zeros(const TensorSpec &spec) { return zeros(spec.bytes()); }
  /// Memory at a multiple of 64 bytes that is there as long as `owner`, which null leaves to the caller. It is not
  /// counted.
  static TensorStorage borrow(void *data, int64_t bytes, std::shared_ptr<void> owner);

  TensorStorage(TensorStorage &&other) noexcept;
  TensorStorage &operator=(TensorStorage &&other) noexcept;
  ~TensorStorage();

  void *data() const { return memory; }
  int64_t bytes() const { return size; }
  TensorRef ref() const { return {memory, size}; }
  /// The content as elements of T (float, int32_t, uint16_t for the 16-bit floats, ...).
  template <typename T>
  std::span<T> as() const {
    return {static_cast<T *>(memory), static_cast<size_t>(size) / sizeof(T)};
  }

private:
  void *memory = nullptr;
  int64_t size = 0;
  bool counted = false;
  std::shared_ptr<void> owner; ///< of memory that is not counted
};

} // namespace tcc::runtime
