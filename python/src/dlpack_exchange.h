// What DLPack 1.2 and later add to the DLPack of Debian 12: tensors with a version, and the table of functions by which
// a Python library hands out tensors without a Python call (`__dlpack_c_exchange_api__`).
// Source: DLPack's own header, https://dmlc.github.io/dlpack.
#pragma once
#include <cstdint>
#include <dlpack/dlpack.h>

namespace tcc::python {

inline constexpr uint8_t dlBool = 6; // kDLBool
inline constexpr char exchangeName[] = "dlpack_exchange_api";

struct DLVersion {
  uint32_t major, minor;
};

struct VersionedTensor {
  DLVersion version;
  void *context;
  void (*release)(VersionedTensor *self);
  uint64_t flags;
  DLTensor tensor;
};

struct ExchangeHeader {
  DLVersion version;
  ExchangeHeader *previous;
};

/// Functions give 0, or -1 with a Python error set.
struct ExchangeApi {
  ExchangeHeader header;
  int (*allocate)(DLTensor *like, VersionedTensor **made, void *context,
                  void (*setError)(void *context, const char *kind, const char *message));
  int (*keep)(void *object, VersionedTensor **made);
  int (*toPython)(VersionedTensor *tensor, void **object); ///< takes the tensor
  int (*look)(void *object, DLTensor *seen);               ///< valid as long as the object; may be null
  int (*stream)(DLDeviceType device, int32_t number, void **current);
};

static_assert(sizeof(VersionedTensor) == 32 + sizeof(DLTensor) && sizeof(ExchangeApi) == 16 + 5 * sizeof(void *));

} // namespace tcc::python
