// cublasLtMatmul: checks the call, then puts the matmul on the stream.
//
// D = epilogue(alpha · op(A) · op(B) + beta · C): products and sums in double, in the order of k, rounded to float
// once, then to D's type. What the library may write freely is written with garbage first: the workspace, and D, the
// auxiliary matrix and bias gradients as NaN, so that reading what was promised not to be read shows.
#include "tests/cuda_machine/cublaslt/algorithms.h"
#include "tests/cuda_machine/cublaslt/numbers.h"
#include "tests/cuda_machine/stream_hook.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <utility>
#include <vector>

namespace tcc::lt {
namespace {

std::atomic<long> products = 0;

/// Bytes of memory that a matmul touches: stacks of equal lines.
struct Region {
  std::string name;
  std::uintptr_t base;
  std::int64_t lineBytes, lines, lineStride, batches, batchStride;

  std::uintptr_t begin(std::int64_t batch) const { return base + batch * batchStride; }
  std::size_t span() const { return static_cast<std::size_t>((lines - 1) * lineStride + lineBytes); }
  /// Whether a line of it meets [low, high).
  bool meets(std::uintptr_t low, std::uintptr_t high) const {
    for (std::int64_t batch = 0; batch < batches; ++batch) {
      std::int64_t offset = static_cast<std::int64_t>(low - begin(batch));
      std::int64_t line = 0;
      if (offset >= lineBytes && lineStride > 0)
        line = (offset - lineBytes) / lineStride + 1;
      std::uintptr_t start = begin(batch) + line * lineStride;
      if (line < lines && start < high && low < start + lineBytes)
        return true;
    }
    return false;
  }
  /// From the lowest byte to the one after the highest.
  std::pair<std::uintptr_t, std::uintptr_t> extent() const {
    std::uintptr_t first = begin(0), last = begin(batches - 1);
    return {std::min(first, last), std::max(first, last) + span()};
  }
  bool overlaps(const Region &other) const {
    if (extent().first >= other.extent().second || other.extent().first >= extent().second)
      return false;
    for (std::int64_t batch = 0; batch < batches; ++batch)
      for (std::int64_t line = 0; line < lines; ++line) {
        std::uintptr_t start = begin(batch) + line * lineStride;
        if (other.meets(start, start + lineBytes))
          return true;
      }
    return false;
  }
};

Region regionOf(const char *name, const void *base, const Matrix &matrix) {
  std::int64_t bytes = static_cast<std::int64_t>(bytesOf(matrix.type));
  return {name,
          reinterpret_cast<std::uintptr_t>(base),
          matrix.lineLength() * bytes,
          matrix.lines(),
          matrix.ld * bytes,
          matrix.batches,
          matrix.batchStride * bytes};
}

struct Operation {
  Problem problem;
  const void *a, *b, *c;
  void *d, *workspace;
  std::size_t workspaceBytes;
  /// The values of host pointers, and the addresses of device pointers.
  float alpha, beta;
  const float *alphaPointer, *betaPointer;
  bool unstable;
  std::int64_t parts = 1; ///< of k, each rounded to D's type before they are added up

  Region biasRegion() const {
    std::int64_t bytes = static_cast<std::int64_t>(bytesOf(problem.d.type));
    return {"the bias", reinterpret_cast<std::uintptr_t>(problem.bias),  problem.biasLength() * bytes, 1,
            0,          problem.biasStride == 0 ? 1 : problem.d.batches, problem.biasStride * bytes};
  }
  Region auxRegion() const {
    std::int64_t bytes = static_cast<std::int64_t>(bytesOf(problem.d.type));
    bool bits = problem.hasBitMask();
    auto size = [&](std::int64_t elements) { return bits ? (elements + 7) / 8 : elements * bytes; };
    return {"the auxiliary matrix", reinterpret_cast<std::uintptr_t>(problem.aux),
            size(problem.m),        problem.n,
            size(problem.auxLd),    problem.d.batches,
            size(problem.auxStride)};
  }
  std::string checkMemory() const;
  void poison() const;
  void run();
  void runBatch(std::int64_t batch, const std::vector<double> &c);
  void finishColumn(std::int64_t batch, std::int64_t n, const double *sums, const double *c);
  void storeGradients(std::int64_t batch, const std::vector<double> &biasSums);
  float activate(float value, std::int64_t batch, std::int64_t m, std::int64_t n) const;

private:
  std::vector<double> leftLines, rightLines, rowSums;
};

/// What a launch would find wrong with its addresses, or "".
std::string Operation::checkMemory() const {
  std::vector<Region> reads = {regionOf("A", a, problem.a), regionOf("B", b, problem.b)};
  std::vector<Region> writes = {regionOf("D", d, problem.d)};
  if (c != d && beta != 0.0f)
    reads.push_back(regionOf("C", c, problem.c));
  if (problem.usesBias())
    (problem.writesBias() ? writes : reads).push_back(biasRegion());
  if (problem.hasAux())
    (problem.writesAux() ? writes : reads).push_back(auxRegion());
  if (workspaceBytes > 0)
    writes.push_back({"the workspace", reinterpret_cast<std::uintptr_t>(workspace),
                      static_cast<std::int64_t>(workspaceBytes), 1, 0, 1, 0});
  const TccStreamHook &hook = *tccStreamHook();
  for (const auto *regions : {&reads, &writes})
    for (const Region &region : *regions)
      for (std::int64_t batch = 0; hook.isDeviceMemory && batch < region.batches; ++batch)
        if (!hook.isDeviceMemory(reinterpret_cast<const void *>(region.begin(batch)), region.span()))
          return "cublasLtMatmul: " + region.name + " does not lie in one allocation of the device";
  for (std::size_t i = 0; i < writes.size(); ++i) {
    for (const Region &read : reads)
      if (writes[i].overlaps(read))
        return "cublasLtMatmul: " + writes[i].name + " overlaps " + read.name;
    for (std::size_t j = 0; j < i; ++j)
      if (writes[i].overlaps(writes[j]))
        return "cublasLtMatmul: " + writes[i].name + " overlaps " + writes[j].name;
  }
  return "";
}

void poisonRegion(const Region &region) {
  for (std::int64_t batch = 0; batch < region.batches; ++batch)
    for (std::int64_t line = 0; line < region.lines; ++line)
      std::memset(reinterpret_cast<void *>(region.begin(batch) + line * region.lineStride), 0xff, region.lineBytes);
}

void Operation::poison() const {
  if (workspaceBytes > 0)
    std::memset(workspace, 0xff, workspaceBytes);
  poisonRegion(regionOf("D", d, problem.d));
  if (problem.writesBias())
    poisonRegion(biasRegion());
  // A mask's bits beyond the last row, up to the byte's end, stay garbage.
  if (problem.writesAux())
    poisonRegion(auxRegion());
}

/// What the tensor cores see of an f32 operand.
double operandValue(double value, int computeType) {
  if (computeType == compute32FastTf32)
    return toTf32(static_cast<float>(value));
  if (computeType == compute32FastBf16)
    return std::bit_cast<float>(static_cast<std::uint32_t>(toBf16(static_cast<float>(value))) << 16);
  if (computeType == compute32Fast16)
    return fromHalf(toHalf(value));
  return value;
}

constexpr double rootTwoOverPi = 0.79788456080286535588, cubic = 0.044715;

double gelu(double x) {
  return 0.5 * x * (1.0 + std::tanh(rootTwoOverPi * (x + cubic * x * x * x)));
}
double geluSlope(double x) {
  double t = std::tanh(rootTwoOverPi * (x + cubic * x * x * x));
  return 0.5 * (1.0 + t) + 0.5 * x * (1.0 - t * t) * rootTwoOverPi * (1.0 + 3.0 * cubic * x * x);
}

/// The epilogue's function of one element; keeps or reads its auxiliary value.
float Operation::activate(float value, std::int64_t batch, std::int64_t m, std::int64_t n) const {
  std::int64_t place = batch * problem.auxStride + n * problem.auxLd + m;
  unsigned char *bits = static_cast<unsigned char *>(problem.aux) + place / 8;
  unsigned char bit = static_cast<unsigned char>(1u << (place % 8));
  if (problem.isGeluGradient())
    return static_cast<float>(value * geluSlope(load(problem.aux, problem.d.type, place)));
  if (problem.isReluGradient())
    return *bits & bit ? value : 0.0f;
  if (problem.isGelu()) {
    if (problem.writesAux())
      store(problem.aux, problem.d.type, place, value);
    return static_cast<float>(gelu(value));
  }
  if (problem.isRelu()) {
    bool positive = value > 0.0f;
    if (problem.writesAux())
      *bits = static_cast<unsigned char>(positive ? *bits | bit : *bits & ~bit);
    return positive ? value : 0.0f;
  }
  return value;
}

void Operation::finishColumn(std::int64_t batch, std::int64_t n, const double *sums, const double *cColumn) {
  for (std::int64_t m = 0; m < problem.m; ++m) {
    double scaled = static_cast<double>(alpha) * static_cast<float>(sums[m]);
    if (beta != 0.0f)
      scaled += static_cast<double>(beta) * cColumn[m];
    float value = static_cast<float>(scaled);
    if (problem.hasBias())
      value += static_cast<float>(load(problem.bias, problem.d.type, batch * problem.biasStride + m));
    value = activate(value, batch, m, n);
    rowSums[m] += value;
    store(d, problem.d.type, problem.d.index(batch, m, n), value);
  }
}

void Operation::storeGradients(std::int64_t batch, const std::vector<double> &biasSums) {
  for (std::int64_t i = 0; i < problem.biasLength(); ++i)
    store(problem.bias, problem.d.type, batch * problem.biasStride + i, static_cast<float>(biasSums[i]));
}

/// `c` holds C's values of this batch, [n][m], where beta is not 0.
void Operation::runBatch(std::int64_t batch, const std::vector<double> &cValues) {
  std::int64_t M = problem.m, N = problem.n, K = problem.k;
  leftLines.assign(M * K, 0.0);  // [k][m]
  rightLines.assign(N * K, 0.0); // [n][k]
  rowSums.assign(M, 0.0);
  for (std::int64_t k = 0; k < K; ++k)
    for (std::int64_t m = 0; m < M; ++m) {
      std::int64_t place = problem.transposeA ? problem.a.index(batch, k, m) : problem.a.index(batch, m, k);
      leftLines[k * M + m] = operandValue(load(a, problem.a.type, place), problem.computeType);
    }
  for (std::int64_t n = 0; n < N; ++n)
    for (std::int64_t k = 0; k < K; ++k) {
      std::int64_t place = problem.transposeB ? problem.b.index(batch, n, k) : problem.b.index(batch, k, n);
      rightLines[n * K + k] = operandValue(load(b, problem.b.type, place), problem.computeType);
    }

  constexpr std::int64_t blockRows = 512;
  std::vector<double> sums(M), partSums(M);
  auto addTo = [&](std::vector<double> &target, std::int64_t n, std::int64_t begin, std::int64_t end) {
    for (std::int64_t first = 0; first < M; first += blockRows) {
      std::int64_t rows = std::min(blockRows, M - first);
      double *into = &target[first];
      for (std::int64_t k = begin; k < end; ++k) {
        const double *left = &leftLines[k * M + first];
        double right = rightLines[n * K + k];
        for (std::int64_t m = 0; m < rows; ++m)
          into[m] += left[m] * right;
      }
    }
  };
  for (std::int64_t n = 0; n < N; ++n) {
    std::fill(sums.begin(), sums.end(), 0.0);
    if (parts == 1)
      addTo(sums, n, 0, K);
    for (std::int64_t part = 0; parts > 1 && part < parts; ++part) {
      std::fill(partSums.begin(), partSums.end(), 0.0);
      addTo(partSums, n, K * part / parts, K * (part + 1) / parts);
      for (std::int64_t m = 0; m < M; ++m)
        sums[m] += rounded(partSums[m], problem.d.type);
    }
    finishColumn(batch, n, sums.data(), beta != 0.0f ? &cValues[n * M] : nullptr);
  }

  if (problem.epilogue == epilogueBgradA || problem.epilogue == epilogueBgradB) {
    bool ofA = problem.epilogue == epilogueBgradA;
    std::vector<double> biasSums(problem.biasLength());
    for (std::int64_t i = 0; i < problem.biasLength(); ++i)
      for (std::int64_t k = 0; k < K; ++k)
        biasSums[i] += ofA ? leftLines[k * M + i] : rightLines[i * K + k];
    storeGradients(batch, biasSums);
  } else if (problem.writesBias()) {
    storeGradients(batch, rowSums);
  }
}

bool isDevice(const float *scalar) {
  return !tccStreamHook()->isDeviceMemory || tccStreamHook()->isDeviceMemory(scalar, sizeof *scalar);
}

void fault(const std::string &text) {
  if (tccStreamHook()->fault)
    tccStreamHook()->fault(text.c_str());
}

void Operation::run() {
  long number = products++;
  if (alphaPointer) {
    if (!isDevice(alphaPointer) || !isDevice(betaPointer))
      return fault("cublasLtMatmul: alpha or beta does not lie on the device");
    alpha = *alphaPointer;
    beta = *betaPointer;
  }
  if (std::string wrong = checkMemory(); !wrong.empty())
    return fault(wrong);
  std::vector<std::vector<double>> cValues(problem.d.batches);
  for (std::int64_t batch = 0; beta != 0.0f && batch < problem.d.batches; ++batch) {
    cValues[batch].resize(problem.m * problem.n);
    for (std::int64_t n = 0; n < problem.n; ++n)
      for (std::int64_t m = 0; m < problem.m; ++m)
        cValues[batch][n * problem.m + m] = load(c, problem.c.type, problem.c.index(batch, m, n));
  }
  poison();
  for (std::int64_t batch = 0; batch < problem.d.batches; ++batch)
    runBatch(batch, cValues[batch]);
  if (unstable) {
    std::int64_t place = problem.d.index(0, number % problem.m, number / problem.m % problem.n);
    static_cast<unsigned char *>(d)[place * bytesOf(problem.d.type)] ^= 1;
  }
}

Status checkPointers(const Operation &operation, const AlgoData &algo) {
  const Problem &problem = operation.problem;
  const void *pointers[] = {operation.a, operation.b, operation.c, operation.d};
  for (int i = 0; i < 4; ++i) {
    if (!pointers[i])
      return refuse(invalidValue, std::string("operand ") + "ABCD"[i] + " is null");
    if (reinterpret_cast<std::uintptr_t>(pointers[i]) % algo.aligned[i] != 0)
      return refuse(notSupported, std::string("operand ") + "ABCD"[i] + " is less aligned than the " +
                                      std::to_string(algo.aligned[i]) + " bytes that the algorithm was chosen for");
  }
  if (operation.c == operation.d && std::memcmp(&problem.c, &problem.d, sizeof problem.c) != 0)
    return refuse(invalidValue, "C is D, but their layouts differ");
  std::uintptr_t element = bytesOf(problem.d.type);
  if (problem.usesBias() && (!problem.bias || reinterpret_cast<std::uintptr_t>(problem.bias) % element != 0))
    return refuse(invalidValue, "the epilogue's bias pointer is null or not aligned to its elements");
  if (problem.hasAux() && (!problem.aux || reinterpret_cast<std::uintptr_t>(problem.aux) % 16 != 0))
    return refuse(invalidValue, "the epilogue's auxiliary pointer is null or not aligned to 16 bytes");
  if (operation.workspaceBytes > 0 && !operation.workspace)
    return refuse(invalidValue, "the workspace is null and has a size");
  if (reinterpret_cast<std::uintptr_t>(operation.workspace) % 256 != 0)
    return refuse(invalidValue, "the workspace is not aligned to 256 bytes");
  if (operation.workspaceBytes < algo.workspace)
    return refuse(invalidValue, "the workspace has " + std::to_string(operation.workspaceBytes) +
                                    " bytes, the algorithm needs " + std::to_string(algo.workspace));
  return success;
}

/// Without an algorithm the library chooses one for the very pointers.
Status chooseAlgo(const Operation &operation, AlgoData &algo) {
  Promise promise;
  const void *pointers[] = {operation.a, operation.b, operation.c, operation.d};
  for (int i = 0; i < 4; ++i)
    for (promise.aligned[i] = 256; reinterpret_cast<std::uintptr_t>(pointers[i]) % promise.aligned[i] != 0;)
      promise.aligned[i] /= 2;
  promise.workspace = operation.workspaceBytes;
  if (candidates(operation.problem, promise, &algo, 1) == 0)
    return refuse(notSupported, "no algorithm fits these pointers");
  return success;
}

Status putOnStream(std::unique_ptr<Operation> operation, void *stream) {
  const TccStreamHook &hook = *tccStreamHook();
  if (!hook.enqueue) {
    operation->run();
    return success;
  }
  int result = hook.enqueue(
      stream, [](void *argument) { static_cast<Operation *>(argument)->run(); }, operation.release(),
      [](void *argument) { delete static_cast<Operation *>(argument); });
  if (result != 0)
    return refuse(executionFailed, "the stream took no operation: CUresult " + std::to_string(result));
  return success;
}

} // namespace
} // namespace tcc::lt

using namespace tcc::lt;

int cublasLtMatmul(Handle handle, Desc desc, const void *alpha, const void *a, Layout aLayout, const void *b,
                   Layout bLayout, const void *beta, const void *c, Layout cLayout, void *d, Layout dLayout,
                   const Algo *algo, void *workspace, std::size_t workspaceBytes, void *stream) {
  if (Status status = begin(__func__))
    return status;
  if (!isLive(handle))
    return refuse(notInitialized, "the handle is null or destroyed");
  auto operation = std::make_unique<Operation>();
  if (Status status = describe(desc, aLayout, bLayout, cLayout, dLayout, operation->problem))
    return status;
  if (!alpha || !beta)
    return refuse(invalidValue, "alpha or beta is null");
  operation->a = a;
  operation->b = b;
  operation->c = c;
  operation->d = d;
  operation->workspace = workspace;
  operation->workspaceBytes = workspaceBytes;
  if (operation->problem.pointerMode == pointerHost) {
    operation->alpha = *static_cast<const float *>(alpha);
    operation->beta = *static_cast<const float *>(beta);
  } else {
    operation->alphaPointer = static_cast<const float *>(alpha);
    operation->betaPointer = static_cast<const float *>(beta);
  }
  AlgoData data;
  if (Status status = algo ? readAlgo(algo, operation->problem, data) : chooseAlgo(*operation, data))
    return status;
  if (Status status = checkPointers(*operation, data))
    return status;
  operation->unstable = data.unstable;
  if (data.reduction == reductionOutputType && operation->problem.d.type != float32)
    operation->parts = data.splitK;
  return putOnStream(std::move(operation), stream);
}

long tccCublasLtProducts() {
  return products;
}
