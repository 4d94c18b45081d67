// Tensors by DLPack. Its structs have kept their layout since its first version.
#include <dlpack/dlpack.h>
// after DLPack, which switches the declarations on
#include "c_api/guard.h"
#include "c_api/step.h"
#include "c_api/tcc_runtime.h"
#include <cstring>

using namespace tcc;
using namespace tcc::c;

namespace {

struct TypeCode {
  uint8_t code, bits;
};

/// DLPack's numbers: 0 int, 1 unsigned, 2 float, 4 bfloat, 6 bool, 10 float8_e4m3fn, 12 float8_e5m2.
TypeCode typeCode(runtime::DType dtype) {
  switch (dtype) {
  case runtime::DType::f32:
    return {2, 32};
  case runtime::DType::bf16:
    return {4, 16};
  case runtime::DType::f16:
    return {2, 16};
  case runtime::DType::f8e4m3:
    return {10, 8};
  case runtime::DType::f8e5m2:
    return {12, 8};
  case runtime::DType::i1:
    return {6, 8};
  case runtime::DType::i32:
    return {0, 32};
  case runtime::DType::i64:
    return {0, 64};
  }
  return {};
}

/// Empty where the tensor is dense memory of the host with the spec's shape and type.
std::string mismatch(const DLTensor &tensor, const runtime::TensorSpec &spec) {
  const TypeCode type = typeCode(spec.dtype);
  if (tensor.device.device_type != kDLCPU && tensor.device.device_type != kDLCUDAHost)
    return "is not in the host's memory";
  if (tensor.dtype.code != type.code || tensor.dtype.bits != type.bits || tensor.dtype.lanes != 1)
    return "has another type than " + std::string(runtime::name(spec.dtype));
  if (tensor.ndim < 0 || !std::equal(spec.shape.begin(), spec.shape.end(), tensor.shape, tensor.shape + tensor.ndim))
    return "has another shape than the step's";
  int64_t stride = 1;
  for (int i = tensor.ndim - 1; tensor.strides && i >= 0; --i) {
    if (tensor.shape[i] > 1 && tensor.strides[i] != stride)
      return "is not dense and row-major";
    stride *= tensor.shape[i];
  }
  return {};
}

/// The tensors' addresses; null where an output is not wanted.
int addressesOf(const tcc_step *step, int kind, const DLTensor *const *tensors, size_t count,
                std::vector<void *> &addresses) {
  const auto &specs = step->step->tensors(kind);
  const std::string what = kind == TCC_INPUT ? "input" : "output";
  if (count > 0 && !tensors)
    return wrongUse("the list of " + what + "s is null; the step has " + std::to_string(specs.size()));
  if (count != specs.size())
    return wrongUse(std::to_string(count) + " " + what + "s are given; the step has " + std::to_string(specs.size()));
  for (size_t i = 0; i < count; ++i) {
    if (!tensors[i]) {
      addresses.push_back(nullptr);
      continue;
    }
    if (const std::string problem = mismatch(*tensors[i], specs[i]); !problem.empty())
      return wrongUse(what + " `" + specs[i].name + "` " + problem);
    addresses.push_back(static_cast<char *>(tensors[i]->data) + tensors[i]->byte_offset);
  }
  return TCC_OK;
}

/// What a lent state needs as long as it is lent.
struct LentState {
  DLManagedTensor managed{};
  std::vector<int64_t> shape;
  std::shared_ptr<void> memory;
};

} // namespace

extern "C" {

int tcc_run_dlpack(tcc_step *step, const DLTensor *const *inputs, size_t input_count, const DLTensor *const *outputs,
                   size_t output_count) {
  return guarded([&] {
    if (!step)
      return wrongUse("tcc_run_dlpack: the step is null");
    std::vector<void *> in, out;
    if (const int status = addressesOf(step, TCC_INPUT, inputs, input_count, in))
      return status;
    if (const int status = addressesOf(step, TCC_OUTPUT, outputs, output_count, out))
      return status;
    return tcc_run(step, in.data(), in.size(), out.data(), out.size());
  });
}

int tcc_state_dlpack(tcc_step *step, const char *name, DLManagedTensor **tensor) {
  return guarded([&] {
    if (!tensor)
      return wrongUse("tcc_state_dlpack: tensor is null");
    size_t index = 0;
    if (const int status = tcc_find(step, TCC_STATE, name, &index))
      return status;
    if (!step->step->stateData(index))
      return failed(TCC_FAILED,
                    "state `" + std::string(name) + "` is in the memory of a device; tcc_get_state copies it");
    const runtime::TensorSpec &spec = step->step->tensors(TCC_STATE)[index];
    const TypeCode type = typeCode(spec.dtype);
    auto lent = std::make_unique<LentState>();
    lent->shape = spec.shape;
    lent->memory = step->step->stateOwner(index);
    DLTensor &view = lent->managed.dl_tensor;
    view.data = step->step->stateData(index);
    view.device = {kDLCPU, 0};
    view.ndim = static_cast<int>(spec.shape.size());
    view.dtype = {type.code, type.bits, 1};
    view.shape = lent->shape.data();
    lent->managed.manager_ctx = lent.get();
    lent->managed.deleter = [](DLManagedTensor *self) { delete static_cast<LentState *>(self->manager_ctx); };
    *tensor = &lent.release()->managed;
    return int(TCC_OK);
  });
}

} // extern "C"
