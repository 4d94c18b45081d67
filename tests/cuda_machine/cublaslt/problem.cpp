// The rules of cublasLtMatmul that need no pointers: types, shapes, strides, epilogues.
#include "tests/cuda_machine/cublaslt/problem.h"

#include "tests/cuda_machine/cublaslt/numbers.h"

#include <algorithm>
#include <cstdlib>

namespace tcc::lt {
namespace {

/// The documentation's table "cublasLtMatmul supports the following computeType, scaleType, Atype/Btype, Ctype", as far
/// as real f32, bf16 and f16 go, without COMPUTE_16F. The scale is f32 in all of them.
struct TypeRow {
  int compute, operands, results;
};
constexpr TypeRow typeTable[] = {
    {compute32, bfloat16, bfloat16},       {compute32, float16, float16},
    {compute32, bfloat16, float32},        {compute32, float16, float32},
    {compute32, float32, float32},         {compute32Pedantic, bfloat16, bfloat16},
    {compute32Pedantic, float16, float16}, {compute32Pedantic, bfloat16, float32},
    {compute32Pedantic, float16, float32}, {compute32Pedantic, float32, float32},
    {compute32Fast16, float32, float32},   {compute32FastBf16, float32, float32},
    {compute32FastTf32, float32, float32},
};

constexpr unsigned epilogues[] = {
    epilogueDefault, epilogueRelu,       epilogueReluAux, epilogueBias,     epilogueReluBias, epilogueReluAuxBias,
    epilogueDrelu,   epilogueDreluBgrad, epilogueGelu,    epilogueGeluBias, epilogueGeluAux,  epilogueGeluAuxBias,
    epilogueDgelu,   epilogueDgeluBgrad, epilogueBgradA,  epilogueBgradB,
};

Status readLayout(const char *name, Layout layout, Matrix &matrix) {
  std::string who = name;
  if (!isLive(layout))
    return refuse(invalidValue, who + "'s layout is null or destroyed");
  matrix.type = layout->value<int>(layoutType);
  matrix.order = layout->value<int>(layoutOrder);
  matrix.rows = layout->value<std::int64_t>(layoutRows);
  matrix.cols = layout->value<std::int64_t>(layoutCols);
  matrix.ld = layout->value<std::int64_t>(layoutLd);
  matrix.batches = layout->value<int>(layoutBatchCount);
  matrix.batchStride = layout->value<std::int64_t>(layoutBatchOffset);
  if (bytesOf(matrix.type) == 0)
    return refuse(notSupported, who + "'s type " + std::to_string(matrix.type) + " is none of f32, bf16, f16");
  if (matrix.order != columnMajor && matrix.order != rowMajor)
    return refuse(notSupported, who + "'s order " + std::to_string(matrix.order) + " is neither columns nor rows");
  if (!layout->isInitial(layoutPlaneOffset) || !layout->isInitial(layoutBatchMode))
    return refuse(notSupported, who + "'s planes and batch modes other than strided");
  if (matrix.rows <= 0 || matrix.cols <= 0)
    return refuse(invalidValue, who + " has no elements");
  if (matrix.batches < 1)
    return refuse(invalidValue, who + "'s batch count is below 1");
  // The leading dimension 0 repeats one line: the documentation allows it for C.
  bool repeats = matrix.ld == 0 && who == "C";
  if (matrix.ld < matrix.lineLength() && !repeats)
    return refuse(invalidValue, who + "'s leading dimension " + std::to_string(matrix.ld) + " is below " +
                                    std::to_string(matrix.lineLength()));
  return success;
}

Status readTransform(const char *name, int transform, bool &transposes) {
  if (transform < normal || transform > conjugated)
    return refuse(invalidValue, std::string(name) + "'s transform " + std::to_string(transform) + " is not 0, 1 or 2");
  transposes = transform != normal;
  return success;
}

Status checkTypes(const Problem &problem, int scaleType) {
  if (problem.a.type != problem.b.type || problem.c.type != problem.d.type)
    return refuse(notSupported, "A and B, or C and D, are of different types");
  bool listed = std::any_of(std::begin(typeTable), std::end(typeTable), [&](const TypeRow &row) {
    return row.compute == problem.computeType && row.operands == problem.a.type && row.results == problem.d.type;
  });
  if (!listed || scaleType != float32)
    return refuse(notSupported, "compute type " + std::to_string(problem.computeType) + " with scale " +
                                    std::to_string(scaleType) + ", operands " + std::to_string(problem.a.type) +
                                    " and results " + std::to_string(problem.d.type) + " is not in the table");
  return success;
}

Status checkShapes(Problem &problem) {
  const Matrix &a = problem.a, &b = problem.b, &c = problem.c, &d = problem.d;
  problem.m = d.rows;
  problem.n = d.cols;
  problem.k = problem.transposeA ? a.rows : a.cols;
  if ((problem.transposeA ? a.cols : a.rows) != problem.m)
    return refuse(invalidValue, "op(A) and D have different numbers of rows");
  if ((problem.transposeB ? b.rows : b.cols) != problem.n)
    return refuse(invalidValue, "op(B) and D have different numbers of columns");
  if ((problem.transposeB ? b.cols : b.rows) != problem.k)
    return refuse(invalidValue, "op(A)'s columns and op(B)'s rows differ");
  if (c.rows != d.rows || c.cols != d.cols || c.order != d.order)
    return refuse(invalidValue, "C and D differ in rows, columns or order");
  if (a.batches != d.batches || b.batches != d.batches || c.batches != d.batches)
    return refuse(invalidValue, "the batch counts differ");
  std::int64_t size = (d.lines() - 1) * d.ld + d.lineLength();
  bool interleaved = std::llabs(d.batchStride) >= d.lineLength() && std::llabs(d.batchStride) * d.batches <= d.ld;
  if (d.batches > 1 && std::llabs(d.batchStride) < size && !interleaved)
    return refuse(invalidValue, "D's matrices overlap");
  return success;
}

Status checkAux(const Problem &problem, int auxType) {
  std::int64_t unit = problem.hasBitMask() ? 128 : 8;
  if (problem.auxLd < problem.m || problem.auxLd % unit != 0)
    return refuse(invalidValue, "the auxiliary leading dimension " + std::to_string(problem.auxLd) +
                                    " is below D's rows or no multiple of " + std::to_string(unit));
  if (problem.d.batches > 1 && problem.auxStride % unit != 0)
    return refuse(invalidValue, "the auxiliary batch stride is no multiple of " + std::to_string(unit));
  if (!problem.hasBitMask() && auxType != -1 && auxType != problem.d.type)
    return refuse(invalidValue, "the auxiliary type is not D's");
  return success;
}

Status checkEpilogue(Desc desc, Problem &problem) {
  problem.epilogue = desc->value<unsigned>(descEpilogue);
  if (std::find(std::begin(epilogues), std::end(epilogues), problem.epilogue) == std::end(epilogues))
    return refuse(invalidValue, "epilogue " + std::to_string(problem.epilogue) + " is unknown");
  if (problem.epilogue == epilogueDefault)
    return success;
  if (problem.d.order == rowMajor)
    return refuse(notSupported, "epilogues want D in columns");
  problem.bias = desc->value<void *>(descBiasPointer);
  problem.aux = desc->value<void *>(descAuxPointer);
  problem.biasStride = desc->value<std::int64_t>(descBiasBatchStride);
  problem.auxLd = desc->value<std::int64_t>(descAuxLd);
  problem.auxStride = desc->value<std::int64_t>(descAuxBatchStride);
  int biasType = desc->value<int>(descBiasDataType);
  if (problem.usesBias() && biasType != -1 && biasType != problem.d.type)
    return refuse(notSupported, "the bias has another type than D");
  if (problem.writesBias() && problem.d.batches > 1 && std::llabs(problem.biasStride) < problem.biasLength())
    return refuse(invalidValue, "the bias gradients of a batch overlap");
  return problem.hasAux() ? checkAux(problem, desc->value<int>(descAuxDataType)) : success;
}

/// Attributes of what is not multiplied here: narrow floats and their scales, other fill modes.
Status checkForeign(Desc desc) {
  for (int attribute = descFirstScale; attribute < descFirstScale + 5; ++attribute)
    if (!desc->isInitial(attribute))
      return refuse(notSupported, "scales of A, B, C and D belong to 8-bit types");
  if (!desc->isInitial(descAuxScale) || !desc->isInitial(descAuxMax) || !desc->isInitial(descFastAccumulation))
    return refuse(notSupported, "auxiliary scales and fast accumulation belong to 8-bit types");
  if (!desc->isInitial(descTransC))
    return refuse(notSupported, "C cannot be transposed");
  if (!desc->isInitial(descFillMode))
    return refuse(notSupported, "only full matrices are written");
  return success;
}

} // namespace

Status describe(Desc desc, Layout a, Layout b, Layout c, Layout d, Problem &problem) {
  if (!isLive(desc))
    return refuse(invalidValue, "the operation's descriptor is null or destroyed");
  if (Status status = readLayout("A", a, problem.a))
    return status;
  if (Status status = readLayout("B", b, problem.b))
    return status;
  if (Status status = readLayout("D", d, problem.d))
    return status;
  if (Status status = readLayout("C", c ? c : d, problem.c))
    return status;
  if (Status status = readTransform("A", desc->value<int>(descTransA), problem.transposeA))
    return status;
  if (Status status = readTransform("B", desc->value<int>(descTransB), problem.transposeB))
    return status;
  if (Status status = checkForeign(desc))
    return status;
  problem.pointerMode = desc->value<int>(descPointerMode);
  if (problem.pointerMode != pointerHost && problem.pointerMode != pointerDevice)
    return refuse(notSupported, "scalars lie on the host or on the device, vectors of them are not done");
  problem.computeType = desc->value<int>(descComputeType);
  if (Status status = checkTypes(problem, desc->value<int>(descScaleType)))
    return status;
  if (Status status = checkShapes(problem))
    return status;
  return checkEpilogue(desc, problem);
}

} // namespace tcc::lt
