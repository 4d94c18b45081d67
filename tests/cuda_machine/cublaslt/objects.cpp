// Handles, descriptors and their attributes; status texts; failures on request.
#include "tests/cuda_machine/cublaslt/objects.h"

#include <atomic>
#include <cstdlib>
#include <mutex>

namespace tcc::lt {
namespace {

// Numbers, sizes and defaults of the documentation's attribute tables; those that belong to types which the stand-in
// does not multiply must keep their defaults.
constexpr AttributeRule descRules[] = {
    {descComputeType, 4, compute32},
    {descScaleType, 4, float32},
    {descPointerMode, 4, pointerHost},
    {descTransA, 4, normal},
    {descTransB, 4, normal},
    {descTransC, 4, normal},
    {descFillMode, 4, fillFull},
    {descEpilogue, 4, epilogueDefault},
    {descBiasPointer, 8, 0},
    {descBiasBatchStride, 8, 0},
    {descAuxPointer, 8, 0},
    {descAuxLd, 8, 0},
    {descAuxBatchStride, 8, 0},
    {descAlphaVectorBatchStride, 8, 0},
    {descSmCountTarget, 4, 0},
    {descFirstScale, 8, 0},
    {descFirstScale + 1, 8, 0},
    {descFirstScale + 2, 8, 0},
    {descFirstScale + 3, 8, 0},
    {descFirstScale + 4, 8, 0},
    {descAuxDataType, 4, -1},
    {descAuxScale, 8, 0},
    {descAuxMax, 8, 0},
    {descFastAccumulation, 1, 0},
    {descBiasDataType, 4, -1},
};
constexpr AttributeRule layoutRules[] = {
    {layoutType, 4, float32}, {layoutOrder, 4, columnMajor}, {layoutRows, 8, 0},        {layoutCols, 8, 0},
    {layoutLd, 8, 0},         {layoutBatchCount, 4, 1},      {layoutBatchOffset, 8, 0}, {layoutPlaneOffset, 8, 0},
    {layoutBatchMode, 4, 0},
};
constexpr AttributeRule preferenceRules[] = {
    {preferenceSearchMode, 4, 0}, {preferenceWorkspace, 8, 0}, {preferenceReductionMask, 4, reductionMask},
    {preferenceAlignA, 4, 256},   {preferenceAlignB, 4, 256},  {preferenceAlignC, 4, 256},
    {preferenceAlignD, 4, 256},   {preferenceWaves, 4, 0},     {preferenceImplementationMask, 8, -1},
};

struct StatusText {
  int status;
  const char *name, *text;
};
constexpr StatusText statusTexts[] = {
    {success, "CUBLAS_STATUS_SUCCESS", "success"},
    {notInitialized, "CUBLAS_STATUS_NOT_INITIALIZED", "the library was not initialized"},
    {allocFailed, "CUBLAS_STATUS_ALLOC_FAILED", "the resource allocation failed"},
    {invalidValue, "CUBLAS_STATUS_INVALID_VALUE", "an unsupported value or parameter was passed to the function"},
    {archMismatch, "CUBLAS_STATUS_ARCH_MISMATCH",
     "the function requires an architectural feature absent from the device"},
    {mappingError, "CUBLAS_STATUS_MAPPING_ERROR", "an access to GPU memory space failed"},
    {executionFailed, "CUBLAS_STATUS_EXECUTION_FAILED", "the function failed to launch on the GPU"},
    {internalError, "CUBLAS_STATUS_INTERNAL_ERROR", "an internal operation failed"},
    {notSupported, "CUBLAS_STATUS_NOT_SUPPORTED", "the requested functionality is not supported"},
    {licenseError, "CUBLAS_STATUS_LICENSE_ERROR", "the license check failed"},
};

std::atomic<int> live = 0;
thread_local std::string reason;

struct PlannedFailure {
  std::mutex mutex;
  std::string function;
  int status = 0, calls = 0;

  /// From TCC_CUBLASLT_FAIL: function=status, and @n for the n-th call.
  PlannedFailure() {
    const char *wish = std::getenv("TCC_CUBLASLT_FAIL");
    std::string text = wish ? wish : "";
    std::size_t equals = text.find('='), at = text.find('@');
    if (equals == std::string::npos)
      return;
    function = text.substr(0, equals);
    status = std::atoi(text.c_str() + equals + 1);
    calls = at == std::string::npos ? 1 : std::atoi(text.c_str() + at + 1);
  }
};
PlannedFailure &plannedFailure() {
  static PlannedFailure planned;
  return planned;
}

template <class T>
int create(const char *function, T **object) {
  if (Status status = begin(function))
    return status;
  if (!object)
    return refuse(invalidValue, "no place for the new object");
  *object = new T;
  (*object)->kind = T::kindOf;
  ++live;
  return success;
}

/// Null is no error for descriptors, as in the real library.
template <class T>
int destroy(const char *function, T *object) {
  if (Status status = begin(function))
    return status;
  if (!object)
    return success;
  if (!isLive(object))
    return refuse(invalidValue, "destroys what is no live object of its kind");
  object->kind = 0;
  delete object;
  --live;
  return success;
}

template <class T>
int setAttribute(const char *function, T *object, int attribute, const void *value, std::size_t bytes) {
  if (Status status = begin(function))
    return status;
  if (!isLive(object))
    return refuse(invalidValue, "sets an attribute of what is no live object of its kind");
  return object->set(attribute, value, bytes);
}

template <class T>
int getAttribute(const char *function, const T *object, int attribute, void *value, std::size_t bytes,
                 std::size_t *written) {
  if (Status status = begin(function))
    return status;
  if (!isLive(object))
    return refuse(invalidValue, "asks for an attribute of what is no live object of its kind");
  return object->get(attribute, value, bytes, written);
}

/// TCC_CUBLASLT_VERSION pretends another release, for callers that remember what an algorithm belongs to.
std::size_t version() {
  const char *wish = std::getenv("TCC_CUBLASLT_VERSION");
  return wish ? std::strtoul(wish, nullptr, 10) : 130100;
}

} // namespace

Status refuse(Status status, std::string text) {
  reason = std::move(text);
  return status;
}

Status begin(const char *function) {
  reason.clear();
  PlannedFailure &planned = plannedFailure();
  std::lock_guard lock(planned.mutex);
  if (planned.calls <= 0 || planned.function != function || --planned.calls > 0)
    return success;
  return refuse(static_cast<Status>(planned.status), std::string(function) + " was asked to fail");
}

Attributes::Attributes(std::span<const AttributeRule> given) : rules(given) {
  for (const AttributeRule &rule : rules)
    std::memcpy(values[rule.attribute], &rule.initial, rule.bytes);
}

const AttributeRule *Attributes::find(int attribute) const {
  for (const AttributeRule &rule : rules)
    if (rule.attribute == attribute)
      return &rule;
  return nullptr;
}

Status Attributes::set(int attribute, const void *value, std::size_t bytes) {
  const AttributeRule *rule = find(attribute);
  if (!rule)
    return refuse(invalidValue, "attribute " + std::to_string(attribute) + " is unknown");
  if (!value || bytes != rule->bytes)
    return refuse(invalidValue, "attribute " + std::to_string(attribute) + " has " + std::to_string(rule->bytes) +
                                    " bytes, not " + std::to_string(bytes));
  std::memcpy(values[attribute], value, bytes);
  return success;
}

Status Attributes::get(int attribute, void *value, std::size_t bytes, std::size_t *written) const {
  const AttributeRule *rule = find(attribute);
  if (!rule)
    return refuse(invalidValue, "attribute " + std::to_string(attribute) + " is unknown");
  if (bytes == 0) {
    if (!written)
      return refuse(invalidValue, "asks for a size and gives no place for it");
    *written = rule->bytes;
    return success;
  }
  if (!value || bytes != rule->bytes)
    return refuse(invalidValue, "attribute " + std::to_string(attribute) + " has " + std::to_string(rule->bytes) +
                                    " bytes, not " + std::to_string(bytes));
  std::memcpy(value, values[attribute], bytes);
  if (written)
    *written = bytes;
  return success;
}

bool Attributes::isInitial(int attribute) const {
  const AttributeRule *rule = find(attribute);
  return std::memcmp(values[attribute], &rule->initial, rule->bytes) == 0;
}

DescObject::DescObject() : Attributes(descRules) {}
LayoutObject::LayoutObject() : Attributes(layoutRules) {}
PreferenceObject::PreferenceObject() : Attributes(preferenceRules) {}

} // namespace tcc::lt

using namespace tcc::lt;

extern "C" {

std::size_t cublasLtGetVersion() {
  return version();
}
std::size_t cublasLtGetCudartVersion() {
  return 13000;
}
int cublasLtGetProperty(int type, int *value) {
  if (Status status = begin(__func__))
    return status;
  if (!value || type < 0 || type > 2)
    return refuse(invalidValue, "a property is 0, 1 or 2: major, minor, patch");
  std::size_t whole = version();
  *value = static_cast<int>(type == 0 ? whole / 10000 : type == 1 ? whole / 100 % 100 : whole % 100);
  return success;
}

const char *cublasLtGetStatusName(int status) {
  for (const StatusText &entry : statusTexts)
    if (entry.status == status)
      return entry.name;
  return "unrecognized status";
}
const char *cublasLtGetStatusString(int status) {
  for (const StatusText &entry : statusTexts)
    if (entry.status == status)
      return entry.text;
  return "unrecognized status";
}

int cublasLtCreate(Handle *handle) {
  return create(__func__, handle);
}
int cublasLtDestroy(Handle handle) {
  if (!handle)
    return refuse(invalidValue, "the handle is null");
  return destroy(__func__, handle);
}

int cublasLtMatmulDescCreate(Desc *desc, int computeType, int scaleType) {
  if (int status = create(__func__, desc))
    return status;
  (*desc)->assign(descComputeType, computeType);
  (*desc)->assign(descScaleType, scaleType);
  return success;
}
int cublasLtMatmulDescDestroy(Desc desc) {
  return destroy(__func__, desc);
}
int cublasLtMatmulDescSetAttribute(Desc desc, int attribute, const void *value, std::size_t bytes) {
  return setAttribute(__func__, desc, attribute, value, bytes);
}
int cublasLtMatmulDescGetAttribute(Desc desc, int attribute, void *value, std::size_t bytes, std::size_t *written) {
  return getAttribute(__func__, desc, attribute, value, bytes, written);
}

int cublasLtMatrixLayoutCreate(Layout *layout, int type, std::uint64_t rows, std::uint64_t cols, std::int64_t ld) {
  if (int status = create(__func__, layout))
    return status;
  (*layout)->assign(layoutType, type);
  (*layout)->assign(layoutRows, rows);
  (*layout)->assign(layoutCols, cols);
  (*layout)->assign(layoutLd, ld);
  return success;
}
int cublasLtMatrixLayoutDestroy(Layout layout) {
  return destroy(__func__, layout);
}
int cublasLtMatrixLayoutSetAttribute(Layout layout, int attribute, const void *value, std::size_t bytes) {
  return setAttribute(__func__, layout, attribute, value, bytes);
}
int cublasLtMatrixLayoutGetAttribute(Layout layout, int attribute, void *value, std::size_t bytes,
                                     std::size_t *written) {
  return getAttribute(__func__, layout, attribute, value, bytes, written);
}

int cublasLtMatmulPreferenceCreate(Preference *preference) {
  return create(__func__, preference);
}
int cublasLtMatmulPreferenceDestroy(Preference preference) {
  return destroy(__func__, preference);
}
int cublasLtMatmulPreferenceSetAttribute(Preference preference, int attribute, const void *value, std::size_t bytes) {
  return setAttribute(__func__, preference, attribute, value, bytes);
}
int cublasLtMatmulPreferenceGetAttribute(Preference preference, int attribute, void *value, std::size_t bytes,
                                         std::size_t *written) {
  return getAttribute(__func__, preference, attribute, value, bytes, written);
}

const char *tccCublasLtReason() {
  return reason.c_str();
}
void tccCublasLtFail(const char *function, int status, int nth) {
  PlannedFailure &planned = plannedFailure();
  std::lock_guard lock(planned.mutex);
  planned.function = function;
  planned.status = status;
  planned.calls = nth;
}
int tccCublasLtLive() {
  return live;
}

} // extern "C"
