// Tensors of a Python library (PyTorch), seen and made through DLPack's exchange functions.
#pragma once
#include "python/src/dlpack_exchange.h"
#include "python/src/objects.h"
#include <cstdint>
#include <span>
#include <vector>

namespace tcc::python {

/// How elements lie in a tensor's memory: strides count elements.
struct Layout {
  DLDataType dtype = {};
  std::vector<int64_t> sizes, strides;

  /// From Python: (code, bits, sizes, strides).
  static Layout of(PyObject *tuple);
  /// As a tensor over `data`, which refers to this layout.
  DLTensor over(void *data) const;
};

/// The exchange functions of the library that the process uses.
class Exchange {
public:
  /// From the capsule `__dlpack_c_exchange_api__` of the library's tensor class. Throws PythonError.
  static void open(PyObject *capsule);
  static const ExchangeApi &api();
};

/// What an object's memory looks like; valid as long as the object. Throws PythonError for what is no tensor.
DLTensor look(PyObject *object);

/// Whether `seen` is on the device and has this layout; strides of dims of one element do not count.
bool hasLayout(const DLTensor &seen, const Layout &layout, DLDevice device);

/// The stream of a device on which the library puts what it computes now. Throws PythonError.
void *currentStream(DLDevice device);

/// A tensor over memory that outlives it.
Ref tensorOver(const Layout &layout, void *data);

/// A tensor of the CPU that owns its memory, which is of ResultMemory; null if there is none.
Ref tensorOfResultMemory(const Layout &layout, size_t bytes);

} // namespace tcc::python
