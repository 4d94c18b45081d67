#include "tests/cuda_machine/cublaslt/algorithms.h"

#include "tests/cuda_machine/cublaslt/numbers.h"

#include <algorithm>
#include <array>
#include <cstdlib>

namespace tcc::lt {
namespace {

/// Kinds of kernels: those that move 16 bytes at once, with and without a split of k, and one for any alignment.
struct Kind {
  std::uint32_t id, tile, splitK, reduction, alignment;
  std::uint64_t workspace;
};
constexpr Kind kinds[] = {
    {66, 28, 4, reductionOutputType, 16, 64 << 10},
    {66, 20, 1, reductionNone, 16, 0},
    {66, 24, 2, reductionComputeType, 16, 64 << 10},
    {67, 20, 1, reductionNone, 16, 4 << 20},
    {21, 15, 1, reductionNone, 1, 0},
};

/// How far the lines of a matrix are aligned relative to its first element.
bool linesAligned(const Matrix &matrix, std::uint32_t alignment) {
  std::int64_t bytes = static_cast<std::int64_t>(bytesOf(matrix.type));
  return matrix.ld * bytes % alignment == 0 && (matrix.batches == 1 || matrix.batchStride * bytes % alignment == 0);
}

/// Null stands for an address that is not known yet and will be aligned.
bool pointersAligned(const Problem &problem, std::uint32_t alignment) {
  return reinterpret_cast<std::uintptr_t>(problem.bias) % alignment == 0 &&
         reinterpret_cast<std::uintptr_t>(problem.aux) % alignment == 0;
}

bool shapeAligned(const Problem &problem, std::uint32_t alignment) {
  return linesAligned(problem.a, alignment) && linesAligned(problem.b, alignment) &&
         linesAligned(problem.c, alignment) && linesAligned(problem.d, alignment) &&
         pointersAligned(problem, alignment);
}

std::uint32_t checksumOf(AlgoData data) {
  data.checksum = 0;
  std::uint32_t hash = 2166136261u;
  for (unsigned char byte : std::bit_cast<std::array<unsigned char, sizeof data>>(data))
    hash = (hash ^ byte) * 16777619u;
  return hash;
}

/// TCC_CUBLASLT_UNSTABLE: "all", or the place in the list of the algorithm whose runs differ.
bool isUnstable(int place) {
  const char *wish = std::getenv("TCC_CUBLASLT_UNSTABLE");
  return wish && (std::strcmp(wish, "all") == 0 || std::atoi(wish) == place);
}

/// TCC_CUBLASLT_HEURISTICS: "bare", no algorithm with an epilogue; "aligned", with one only where addresses and strides
/// are multiples of 16 bytes; "none", none at all.
bool isOffered(const Problem &problem, const Kind &kind) {
  const char *wish = std::getenv("TCC_CUBLASLT_HEURISTICS");
  const std::string word = wish ? wish : "";
  if (word == "none")
    return false;
  return problem.epilogue == epilogueDefault || (word != "bare" && (word != "aligned" || kind.alignment == 16));
}

std::uint32_t neededAlignment(const AlgoData &data) {
  for (const Kind &kind : kinds)
    if (kind.id == data.id && kind.tile == data.tile)
      return kind.alignment;
  return 16;
}

} // namespace

int candidates(const Problem &problem, const Promise &promise, AlgoData *found, int most) {
  const int types[] = {problem.a.type, problem.b.type, problem.c.type, problem.d.type};
  int count = 0;
  for (const Kind &kind : kinds) {
    bool fits = true;
    for (int operand = 0; operand < 4; ++operand) {
      std::uint32_t need = std::max(kind.alignment, static_cast<std::uint32_t>(bytesOf(types[operand])));
      fits = fits && promise.aligned[operand] >= need; // both are powers of two
    }
    if (count == most || !fits || !isOffered(problem, kind) || !shapeAligned(problem, kind.alignment) ||
        kind.workspace > promise.workspace || (kind.reduction & ~promise.reductions))
      continue;
    AlgoData &data = found[count];
    data = {};
    data.mark = AlgoData::markOf;
    data.version = static_cast<std::uint32_t>(cublasLtGetVersion());
    data.id = kind.id;
    data.tile = kind.tile;
    data.splitK = kind.splitK;
    data.reduction = kind.reduction;
    data.computeType = static_cast<std::uint8_t>(problem.computeType);
    data.operandType = static_cast<std::uint8_t>(problem.a.type);
    data.resultType = static_cast<std::uint8_t>(problem.d.type);
    data.unstable = isUnstable(count);
    std::copy(std::begin(promise.aligned), std::end(promise.aligned), data.aligned);
    data.workspace = kind.workspace;
    data.checksum = checksumOf(data);
    ++count;
  }
  return count;
}

Status readAlgo(const Algo *algo, const Problem &problem, AlgoData &data) {
  data = std::bit_cast<AlgoData>(*algo);
  if (data.mark != AlgoData::markOf || data.checksum != checksumOf(data))
    return refuse(invalidValue, "the algorithm is not one that this library gave");
  if (data.version != cublasLtGetVersion())
    return refuse(invalidValue, "the algorithm is of release " + std::to_string(data.version));
  if (data.computeType != problem.computeType || data.operandType != problem.a.type ||
      data.resultType != problem.d.type)
    return refuse(invalidValue, "the algorithm is for other types");
  if (!shapeAligned(problem, neededAlignment(data)))
    return refuse(notSupported, "the algorithm moves 16 bytes at once; a leading dimension, batch stride, bias or "
                                "auxiliary pointer is not so aligned");
  return success;
}

Algo writeAlgo(const AlgoData &data) {
  return std::bit_cast<Algo>(data);
}

} // namespace tcc::lt

using namespace tcc::lt;

namespace {

Status ready(Handle handle) {
  return isLive(handle) ? success : refuse(notInitialized, "the handle is null or destroyed");
}

HeuristicResult resultOf(const AlgoData &data) {
  HeuristicResult result = {};
  result.algo = writeAlgo(data);
  result.workspaceSize = data.workspace;
  result.state = success;
  result.wavesCount = 1.0f;
  return result;
}

} // namespace

extern "C" {

int cublasLtMatmulAlgoGetHeuristic(Handle handle, Desc desc, Layout a, Layout b, Layout c, Layout d,
                                   Preference preference, int requested, HeuristicResult *results, int *returned) {
  if (Status status = begin(__func__))
    return status;
  if (Status status = ready(handle))
    return status;
  if (!isLive(preference) || !results || !returned || requested <= 0)
    return refuse(invalidValue, "no preference, no place for results, or no result asked for");
  *returned = 0;
  Problem problem;
  if (Status status = describe(desc, a, b, c, d, problem))
    return status;
  if (preference->value<std::uint32_t>(preferenceSearchMode) != 0)
    return refuse(notSupported, "only the best fit is searched for");
  Promise promise;
  for (int operand = 0; operand < 4; ++operand) {
    promise.aligned[operand] = preference->value<std::uint32_t>(preferenceAlignA + operand);
    if (promise.aligned[operand] & (promise.aligned[operand] - 1))
      return refuse(invalidValue, "an alignment is no power of two");
  }
  promise.workspace = preference->value<std::uint64_t>(preferenceWorkspace);
  promise.reductions = preference->value<std::uint32_t>(preferenceReductionMask);
  AlgoData found[std::size(kinds)];
  int count = candidates(problem, promise, found, std::min<int>(requested, std::size(kinds)));
  const char *wish = std::getenv("TCC_CUBLASLT_HEURISTICS");
  if (count == 0 && (!wish || std::strcmp(wish, "none") != 0)) // there it is a success without results
    return refuse(notSupported, "no algorithm fits the alignments and the workspace");
  for (int i = 0; i < count; ++i)
    results[i] = resultOf(found[i]);
  *returned = count;
  return success;
}

int cublasLtMatmulAlgoCheck(Handle handle, Desc desc, Layout a, Layout b, Layout c, Layout d, const Algo *algo,
                            HeuristicResult *result) {
  if (Status status = begin(__func__))
    return status;
  if (Status status = ready(handle))
    return status;
  if (!algo || !result)
    return refuse(invalidValue, "no algorithm, or no place for the result");
  Problem problem;
  if (Status status = describe(desc, a, b, c, d, problem))
    return status;
  AlgoData data;
  if (Status status = readAlgo(algo, problem, data))
    return status;
  *result = resultOf(data);
  return success;
}

int cublasLtMatmulAlgoConfigGetAttribute(const Algo *algo, int attribute, void *value, std::size_t bytes,
                                         std::size_t *written) {
  if (Status status = begin(__func__))
    return status;
  if (!algo || attribute < configId || attribute > configReduction || (bytes == 0 && !written) ||
      (bytes != 0 && (!value || bytes != sizeof(std::uint32_t))))
    return refuse(invalidValue, "an unknown attribute of an algorithm, or one of another size");
  AlgoData data = std::bit_cast<AlgoData>(*algo);
  const std::uint32_t fields[] = {data.id, data.tile, data.splitK, data.reduction};
  if (bytes != 0)
    std::memcpy(value, &fields[attribute], sizeof(std::uint32_t));
  if (written)
    *written = sizeof(std::uint32_t);
  return success;
}

} // extern "C"
