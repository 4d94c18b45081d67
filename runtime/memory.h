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

/// The same for bytes that are only read.
struct ConstTensorRef {
  const void *data = nullptr;
  int64_t bytes = 0;
  ConstTensorRef() = default;
  ConstTensorRef(const void *data, int64_t bytes) : data(data), bytes(bytes) {}
  ConstTensorRef(TensorRef ref) : data(ref.data), bytes(ref.bytes) {}
};

/// The bytes that are live now, and the most that were live at one time since the process started.
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
/// Says whether new and freed tensors are filled with 0xFF bytes (NaN in every float type) from now on.
void poisonAllocations(bool enabled);

/// Owns 64-byte aligned memory from the counted allocator, or keeps memory of somebody else alive. Move only.
class TensorStorage {
public:
  TensorStorage() = default;
  /// Uninitialised memory. Errors: negative or beyond maxPlanBytes, or no memory.
  static Expected<TensorStorage> allocate(int64_t bytes);
  /// Zeros.
  static Expected<TensorStorage> zeros(int64_t bytes);
  static Expected<TensorStorage> zeros(const TensorSpec &spec) { return zeros(spec.bytes()); }
  /// Memory of somebody else, at a multiple of 64 bytes, which exists as long as `owner`. If `owner` is null, the
  /// caller must see that it exists long enough. The memory is not counted.
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
