#include "python/src/tensors.h"
#include "python/src/result_memory.h"
#include <algorithm>
#include <memory>

namespace tcc::python {
namespace {

const ExchangeApi *opened = nullptr;
constexpr uint32_t knownMajor = 1;

} // namespace

Layout Layout::of(PyObject *tuple) {
  const std::vector<Ref> parts = items(tuple);
  if (parts.size() != 4)
    raise(PyExc_TypeError, "a layout is (code, bits, sizes, strides)");
  Layout layout;
  layout.dtype = {static_cast<uint8_t>(toInteger(parts[0].get())), static_cast<uint8_t>(toInteger(parts[1].get())), 1};
  layout.sizes = integers(parts[2].get());
  layout.strides = integers(parts[3].get());
  if (layout.sizes.size() != layout.strides.size())
    raise(PyExc_TypeError, "a layout has a stride for each size");
  return layout;
}

DLTensor Layout::over(void *data) const {
  return {.data = data,
          .device = {kDLCPU, 0},
          .ndim = static_cast<int32_t>(sizes.size()),
          .dtype = dtype,
          .shape = const_cast<int64_t *>(sizes.data()),
          .strides = const_cast<int64_t *>(strides.data()),
          .byte_offset = 0};
}

void Exchange::open(PyObject *capsule) {
  const auto *api = static_cast<const ExchangeApi *>(PyCapsule_GetPointer(capsule, exchangeName));
  check(api);
  while (api && api->header.version.major != knownMajor)
    api = reinterpret_cast<const ExchangeApi *>(api->header.previous);
  if (!api || !api->look)
    raise(PyExc_ImportError, "this version of torch exchanges tensors in a way that tcc does not know; PyTorch 2.10 or "
                             "later is needed (DLPack 1.2)");
  opened = api;
}

const ExchangeApi &Exchange::api() {
  if (!opened)
    raise(PyExc_RuntimeError, "no tensor library is open");
  return *opened;
}

DLTensor look(PyObject *object) {
  DLTensor seen;
  check(Exchange::api().look(object, &seen) == 0);
  seen.data = static_cast<char *>(seen.data) + seen.byte_offset;
  return seen;
}

void *currentStream(DLDevice device) {
  void *stream = nullptr;
  check(Exchange::api().stream(device.device_type, device.device_id, &stream) == 0);
  return stream;
}

bool hasLayout(const DLTensor &seen, const Layout &layout, DLDevice device) {
  if (seen.device.device_type != device.device_type || seen.device.device_id != device.device_id ||
      static_cast<size_t>(seen.ndim) != layout.sizes.size() || seen.dtype.code != layout.dtype.code ||
      seen.dtype.bits != layout.dtype.bits)
    return false;
  bool isEmpty = false, isEqual = true;
  for (size_t i = 0; i < layout.sizes.size(); ++i) {
    if (seen.shape[i] != layout.sizes[i])
      return false;
    isEmpty |= layout.sizes[i] == 0;
    isEqual &= layout.sizes[i] <= 1 || seen.strides[i] == layout.strides[i];
  }
  return isEmpty || isEqual;
}

namespace {

Ref tensorOf(std::unique_ptr<VersionedTensor> tensor) {
  void *object = nullptr;
  check(Exchange::api().toPython(tensor.get(), &object) == 0);
  (void)tensor.release(); // the object has it
  return Ref::made(static_cast<PyObject *>(object));
}

} // namespace

Ref tensorOver(const Layout &layout, void *data) {
  return tensorOf(std::make_unique<VersionedTensor>(
      VersionedTensor{{knownMajor, 0}, nullptr, [](VersionedTensor *self) { delete self; }, 0, layout.over(data)}));
}

Ref tensorOfResultMemory(const Layout &layout, size_t bytes) {
  void *memory = ResultMemory::ofProcess().take(bytes);
  if (!memory)
    return {};
  const auto release = [](VersionedTensor *self) {
    ResultMemory::ofProcess().give(self->context);
    delete self;
  };
  try {
    return tensorOf(
        std::make_unique<VersionedTensor>(VersionedTensor{{knownMajor, 0}, memory, release, 0, layout.over(memory)}));
  } catch (...) {
    ResultMemory::ofProcess().give(memory);
    throw;
  }
}

} // namespace tcc::python
