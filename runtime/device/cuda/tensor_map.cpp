#include "runtime/device/cuda/tensor_map.h"

#include <array>

namespace tcc::runtime::cuda {

void encodeMap(const Driver &driver, const MapSlot &slot, DevicePointer address, void *target) {
  if (!driver.encodeTensorMap)
    throw CudaError("this driver has no tensor maps: one for CUDA 12.0 or later is needed");
  const int elements = slot.elementBytes == 1   ? 0
                       : slot.elementBytes == 2 ? mapElement16
                       : slot.elementBytes == 4 ? 2
                                                : 4;
  const int swizzle = slot.swizzleBytes == 0    ? mapSwizzleNone
                      : slot.swizzleBytes == 32 ? mapSwizzle32
                      : slot.swizzleBytes == 64 ? mapSwizzle64
                                                : mapSwizzle128;
  std::array<std::uint64_t, maxMapRank> sizes{}, strides{};
  std::array<std::uint32_t, maxMapRank> box{}, steps{};
  for (std::size_t i = 0; i < slot.sizes.size(); ++i) {
    sizes[i] = static_cast<std::uint64_t>(slot.sizes[i]);
    box[i] = static_cast<std::uint32_t>(slot.box[i]);
    steps[i] = 1;
    if (i > 0)
      strides[i - 1] = static_cast<std::uint64_t>(slot.strides[i - 1]);
  }
  driver.check(driver.encodeTensorMap(static_cast<TensorMap *>(target), elements,
                                      static_cast<std::uint32_t>(slot.sizes.size()), reinterpret_cast<void *>(address),
                                      sizes.data(), strides.data(), box.data(), steps.data(), 0, swizzle, mapPromote128,
                                      0),
               "describing a tensor for bulk copies");
}

} // namespace tcc::runtime::cuda
