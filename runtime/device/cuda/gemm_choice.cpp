// Which of the library's suggestions a matmul uses. Each is run twice on memory of its own: what gives other bits the
// second time is out, whatever its documentation says.
#include "runtime/device/cuda/gemm_parts.h"

#include <algorithm>
#include <cstring>
#include <limits>
#define XXH_INLINE_ALL
#include <xxhash.h>

namespace tcc::runtime::cuda {

namespace {

constexpr int mostSuggestions = 8;
constexpr std::size_t blockBytes = std::size_t{1} << 20;

struct PreferenceValue {
  int attribute;
  std::uint64_t value;
  std::size_t bytes;
};

/// The library's suggestions, best first; none where it has no algorithm. Not asked for: sums that are added up in an
/// order of their own, and parts of sums that are rounded to 16 bits.
std::vector<LtHeuristic> suggestions(const Product::Impl &product, const ProductPromise &promise) {
  const CublasLt &lt = product.session->lt;
  void *made = nullptr;
  lt.check(lt.preferenceCreate(&made), "describing what a product may use");
  const Owned<void *> preference(made, lt.preferenceDestroy);
  const bool isWide = product.desc.c.dtype == DType::f32;
  for (const PreferenceValue &each :
       {PreferenceValue{ltPreferWorkspaceBytes, promise.workspaceBytes, 8},
        {ltPreferReductions, std::uint64_t(ltReduceInComputeType | (isWide ? ltReduceInOutputType : 0)), 4},
        {ltPreferAlignmentA, promise.b, 4},
        {ltPreferAlignmentB, promise.a, 4},
        {ltPreferAlignmentC, promise.c, 4},
        {ltPreferAlignmentD, promise.c, 4}})
    lt.check(lt.preferenceSet(made, each.attribute, &each.value, each.bytes), "describing what a product may use");
  std::vector<LtHeuristic> list(mostSuggestions);
  int found = 0;
  const int status =
      lt.heuristic(product.session->handle.get(), product.operation.get(), product.layoutA.get(), product.layoutB.get(),
                   product.layoutC.get(), product.layoutC.get(), made, mostSuggestions, list.data(), &found);
  if (status == ltNotSupported)
    return {};
  lt.check(status, "choosing an algorithm for product " + describe(product.desc));
  list.resize(static_cast<std::size_t>(std::clamp(found, 0, mostSuggestions)));
  std::erase_if(
      list, [&](const LtHeuristic &each) { return each.status != 0 || each.workspaceBytes > promise.workspaceBytes; });
  return list;
}

Algorithm algorithmOf(const LtHeuristic &suggestion) {
  Algorithm algorithm;
  std::copy(std::begin(suggestion.algorithm), std::end(suggestion.algorithm), algorithm.begin());
  return algorithm;
}

/// Small numbers of both signs, the same at each call; `size` is a multiple of the element's.
std::vector<char> pattern(DType dtype, std::size_t size) {
  std::vector<char> bytes(size);
  std::uint32_t seed = 1;
  for (std::size_t at = 0; at < bytes.size(); at += static_cast<std::size_t>(byteSize(dtype))) {
    seed = seed * 1664525u + 1013904223u;
    const float value = static_cast<float>(seed >> 8) * 0x1p-23f - 1.0f;
    if (dtype == DType::f32) {
      std::memcpy(&bytes[at], &value, 4);
    } else {
      const std::uint16_t half = dtype == DType::bf16 ? floatToBf16(value) : floatToF16(value);
      std::memcpy(&bytes[at], &half, 2);
    }
  }
  return bytes;
}

/// Memory of its own for one call of a matmul, aligned as promised and no better.
class Trial {
public:
  Trial(const Product::Impl &product, const ProductPromise &promise)
      : product(product), stream(product.session->device->makeStream()), start(product.session->device->makeEvent()),
        stop(product.session->device->makeEvent()) {
    GemmDesc one = product.desc; // all batches: the layouts have them
    const GemmExtents extents = *gemmExtents(one);
    places.a = allocate(extents.a, promise.a);
    places.b = allocate(extents.b, promise.b);
    places.c = allocate(extents.c, promise.c);
    places.bias = allocate(extents.bias, promise.bias);
    places.aux = allocate(one.geluGradient ? extents.c : 0, promise.c);
    places.workspace = allocate(static_cast<std::int64_t>(promise.workspaceBytes), 256);
    resultBytes = static_cast<std::size_t>(extents.c);
    fill(places.a, extents.a, one.a.dtype);
    fill(places.b, extents.b, one.b.dtype);
    if (one.bias) {
      fill(places.bias, extents.bias, *one.bias);
      product.session->lt.check(product.session->lt.matmulDescSet(product.operation.get(), ltDescBiasPointer,
                                                                  &places.bias, sizeof places.bias),
                                "describing a product");
    }
    if (one.geluGradient) {
      fill(places.aux, extents.c, one.c.dtype);
      product.session->lt.check(
          product.session->lt.matmulDescSet(product.operation.get(), ltDescAuxPointer, &places.aux, sizeof places.aux),
          "describing a product");
    }
  }

  /// Whether two runs give equal bits.
  bool isRepeatable(const Algorithm &algorithm) {
    const XXH128_hash_t first = once(algorithm), second = once(algorithm);
    return XXH128_isEqual(first, second);
  }

  /// Milliseconds, the least of a few runs.
  float time(const Algorithm &algorithm) {
    constexpr int runs = 5;
    float least = std::numeric_limits<float>::infinity();
    for (int i = 0; i < runs; ++i) {
      stream.record(start);
      product.runOnce(stream, {}, places, algorithm);
      stream.record(stop);
      stream.synchronize();
      least = std::min(least, stop.millisecondsSince(start));
    }
    return least;
  }

private:
  DevicePointer allocate(std::int64_t bytes, std::uint32_t alignment) {
    if (bytes == 0)
      return 0;
    owned.push_back(product.session->device->allocate(static_cast<std::size_t>(bytes) + 256));
    return owned.back().address() + (alignment < 256 ? alignment : 0);
  }

  void fill(DevicePointer to, std::int64_t bytes, DType dtype) {
    const std::vector<char> block = pattern(dtype, std::min(blockBytes, static_cast<std::size_t>(bytes)));
    for (std::size_t at = 0; at < static_cast<std::size_t>(bytes); at += blockBytes)
      stream.copyToDevice(to + at, block.data(), std::min(block.size(), static_cast<std::size_t>(bytes) - at));
    stream.synchronize();
  }

  XXH128_hash_t once(const Algorithm &algorithm) {
    stream.setBytes(places.c, 0, resultBytes);
    product.runOnce(stream, {}, places, algorithm);
    return hashResult();
  }

  // All of C up to 256 MiB; of more, blocks at equal distances.
  XXH128_hash_t hashResult() {
    constexpr std::size_t mostBlocks = 256;
    const std::size_t blocks = (resultBytes + blockBytes - 1) / blockBytes,
                      step = (blocks + mostBlocks - 1) / mostBlocks;
    std::vector<char> block(std::min(blockBytes, resultBytes));
    std::vector<XXH128_hash_t> hashes;
    for (std::size_t i = 0; i < blocks; i += step) {
      const std::size_t bytes = std::min(blockBytes, resultBytes - i * blockBytes);
      stream.copyToHost(block.data(), places.c + i * blockBytes, bytes);
      stream.synchronize();
      hashes.push_back(XXH3_128bits(block.data(), bytes));
    }
    return XXH3_128bits(hashes.data(), hashes.size() * sizeof(XXH128_hash_t));
  }

  const Product::Impl &product;
  Stream stream;
  Event start, stop;
  std::vector<Buffer> owned;
  ProductPlaces places;
  std::size_t resultBytes = 0;
};

} // namespace

bool isTaken(const Product::Impl &product, const Algorithm &algorithm, const ProductPromise &promise) {
  LtHeuristic result{};
  const int status = product.session->lt.checkAlgorithm(
      product.session->handle.get(), product.operation.get(), product.layoutA.get(), product.layoutB.get(),
      product.layoutC.get(), product.layoutC.get(), algorithm.data(), &result);
  return status == 0 && result.workspaceBytes <= promise.workspaceBytes;
}

std::optional<Algorithm> chooseAlgorithm(const Product::Impl &product, const ProductPromise &promise, bool timed) {
  const std::vector<LtHeuristic> list = suggestions(product, promise);
  if (list.empty())
    return std::nullopt;
  std::optional<Trial> trial;
  try {
    trial.emplace(product, promise);
  } catch (const CudaError &error) {
    constexpr int outOfMemory = 2;
    if (error.code() != outOfMemory)
      throw;
    return algorithmOf(list.front()); // no room to try: what the library documents as repeatable is taken at its word
  }
  std::optional<Algorithm> best;
  float bestTime = 0;
  for (const LtHeuristic &suggestion : list) {
    const Algorithm algorithm = algorithmOf(suggestion);
    if (!trial->isRepeatable(algorithm))
      continue;
    if (!timed)
      return algorithm;
    if (const float time = trial->time(algorithm); !best || time < bestTime) {
      best = algorithm;
      bestTime = time;
    }
  }
  if (!best)
    throw CudaError("product " + describe(product.desc) + ": none of the library's " + std::to_string(list.size()) +
                    " algorithms gives equal bits twice");
  return best;
}

} // namespace tcc::runtime::cuda
