// Descriptors of a matmul: (1) C gets unit column stride, by transposing the whole matmul where it must; (2) each
// operand becomes a column-major matrix and a flag; (3) two batch dims become one, or a loop over the smaller of them.
#include "runtime/device/cuda/gemm.h"
#include "runtime/device/cuda/gemm_parts.h"

#include <algorithm>
#include <bit>

namespace tcc::runtime::cuda {

namespace {

int ltType(DType dtype) {
  return dtype == DType::f32 ? ltFloat32 : dtype == DType::bf16 ? ltBfloat16 : ltFloat16;
}

/// A matrix of the library: column-major, `leading` elements from column to column.
struct LtMatrix {
  bool transposed = false;
  std::int64_t rows = 0, columns = 0, leading = 0;
};

[[noreturn]] void refuse(const GemmDesc &desc, const std::string &problem) {
  throw CudaError("product " + describe(desc) + ": " + problem);
}

/// The transpose of a `rows` x `columns` operand, as the library sees it.
LtMatrix transposeOf(const GemmDesc &desc, const char *operand, const MatrixLayout &given, std::int64_t rows,
                     std::int64_t columns) {
  const MatrixLayout layout = normalized(given, rows, columns);
  LtMatrix matrix;
  if (layout.columnStride == 1)
    matrix = {false, columns, rows, rows == 1 ? columns : layout.rowStride};
  else if (layout.rowStride == 1)
    matrix = {true, rows, columns, layout.columnStride};
  else
    refuse(desc, std::string(operand) + " has neither unit row nor unit column stride; copy it first");
  if (matrix.leading < matrix.rows)
    refuse(desc, std::string(operand) + " has rows or columns that overlap or repeat; copy it first");
  return matrix;
}

/// One batch dim for the library, and what is left as a loop around it.
struct Batches {
  std::int64_t count = 1, aStride = 0, bStride = 0, cStride = 0; // in elements
  std::int64_t loops = 1, aStep = 0, bStep = 0, cStep = 0;
};

Batches splitBatches(const GemmDesc &desc) {
  const MatrixLayout *operands[] = {&desc.a, &desc.b, &desc.c};
  const bool joins = std::all_of(std::begin(operands), std::end(operands), [&](const MatrixLayout *operand) {
    return operand->batchStrides[0] == operand->batchStrides[1] * desc.batch[1];
  });
  Batches batches;
  auto take = [&](int dim, std::int64_t &count, std::int64_t &a, std::int64_t &b, std::int64_t &c) {
    count = desc.batch[dim];
    a = desc.a.batchStrides[dim];
    b = desc.b.batchStrides[dim];
    c = desc.c.batchStrides[dim];
  };
  const bool onlyOuter = desc.batch[1] == 1;
  const int inner = onlyOuter || (desc.batch[0] != 1 && !joins && desc.batch[1] < desc.batch[0]) ? 0 : 1;
  take(inner, batches.count, batches.aStride, batches.bStride, batches.cStride);
  if (desc.batch[0] != 1 && !onlyOuter && joins)
    batches.count = desc.batchCount();
  else
    take(1 - inner, batches.loops, batches.aStep, batches.bStep, batches.cStep);
  return batches;
}

template <typename Value>
void setLayout(const CublasLt &lt, void *layout, LtLayoutAttribute attribute, Value value) {
  lt.check(lt.layoutSet(layout, attribute, &value, sizeof value), "describing a matrix");
}

Owned<void *> makeLayout(const CublasLt &lt, DType dtype, const LtMatrix &matrix, std::int64_t batchCount,
                         std::int64_t batchStride) {
  void *made = nullptr;
  lt.check(lt.layoutCreate(&made, ltType(dtype), static_cast<std::uint64_t>(matrix.rows),
                           static_cast<std::uint64_t>(matrix.columns), matrix.leading),
           "describing a matrix");
  Owned<void *> layout(made, lt.layoutDestroy);
  if (batchCount > 1) {
    setLayout(lt, made, ltLayoutBatchCount, static_cast<std::int32_t>(batchCount));
    setLayout(lt, made, ltLayoutBatchStride, batchStride);
  }
  return layout;
}

template <typename Value>
void setOperation(const CublasLt &lt, void *operation, LtDescAttribute attribute, Value value) {
  lt.check(lt.matmulDescSet(operation, attribute, &value, sizeof value), "describing a product");
}

Owned<void *> makeOperation(const CublasLt &lt, const GemmDesc &desc, bool transposeA, bool transposeB) {
  void *made = nullptr;
  lt.check(
      lt.matmulDescCreate(&made, desc.tf32 && desc.a.dtype == DType::f32 ? ltComputeTf32 : ltComputeFloat32, ltFloat32),
      "describing a product");
  Owned<void *> operation(made, lt.matmulDescDestroy);
  setOperation(lt, made, ltDescTransposeA, std::int32_t(transposeA ? ltTransposed : ltPlain));
  setOperation(lt, made, ltDescTransposeB, std::int32_t(transposeB ? ltTransposed : ltPlain));
  setOperation(lt, made, ltDescEpilogue,
               std::int32_t(desc.geluGradient ? ltGeluGradient
                            : desc.bias       ? ltBias
                                              : ltNoEpilogue));
  if (desc.geluGradient)
    setOperation(lt, made, ltDescAuxLeading, desc.m == 1 ? desc.n : desc.c.rowStride);
  if (desc.bias)
    setOperation(lt, made, ltDescBiasType, std::int32_t(ltType(*desc.bias)));
  return operation;
}

std::uint32_t lowestBit(std::int64_t value, std::uint32_t most) {
  return value == 0 ? most : static_cast<std::uint32_t>(std::min<std::int64_t>(most, value & -value));
}

/// The same promise for every call of a loop.
ProductPromise throughLoop(const GemmDesc &desc, const Batches &batches, ProductPromise promise) {
  if (batches.loops > 1) {
    promise.a = lowestBit(batches.aStep * byteSize(desc.a.dtype), promise.a);
    promise.b = lowestBit(batches.bStep * byteSize(desc.b.dtype), promise.b);
    promise.c = lowestBit(batches.cStep * byteSize(desc.c.dtype), promise.c);
  }
  return promise;
}

/// C of unit column stride: as it is, or the transpose of the whole matmul.
void orient(Product::Impl &product, const GemmDesc &given) {
  const MatrixLayout c = normalized(given.c, given.m, given.n);
  product.desc = given;
  if (c.columnStride != 1) {
    if (c.rowStride != 1)
      refuse(given, "c has no unit stride; copy it, or give it unit column stride");
    if (given.bias)
      refuse(given, "c is transposed and has a bias; give it unit column stride");
    if (given.geluGradient)
      refuse(given, "c is transposed and is multiplied by slopes; give it unit column stride");
    product.desc = transposed(given);
    product.swapped = true;
  }
  if (given.bias && *given.bias != given.c.dtype)
    refuse(given, "its bias is of " + std::string(name(*given.bias)) + "; cuBLASLt adds a bias of C's type, " +
                      std::string(name(given.c.dtype)));
}

std::string keyOf(const Product::Impl &product, const ProductPromise &promise) {
  const GemmDesc &desc = product.desc;
  return describe(desc) + (desc.bias ? " of " + std::string(name(*desc.bias)) : "") +
         (desc.c.dtype == DType::f32 ? "" : " of f32 parts") + " aligned " + std::to_string(promise.a) + "," +
         std::to_string(promise.b) + "," + std::to_string(promise.c) +
         (desc.bias ? "," + std::to_string(promise.bias) : "") + " workspace " +
         std::to_string(promise.workspaceBytes) + " cuBLASLt " + std::to_string(product.session->lt.version()) +
         " on " + product.session->device->name();
}

/// At least `count` ones on the device, at an aligned place.
std::shared_ptr<Buffer> onesOf(LtSession &session, DType dtype, std::int64_t count) {
  std::shared_ptr<Buffer> &kept = session.ones[dtype];
  const auto bytes = static_cast<std::size_t>(count * byteSize(dtype));
  if (kept && kept->size() >= bytes)
    return kept;
  std::vector<std::uint32_t> words((bytes + 3) / 4, std::bit_cast<std::uint32_t>(1.0f));
  if (dtype != DType::f32)
    std::fill(words.begin(), words.end(), 0x10001u * (dtype == DType::bf16 ? floatToBf16(1) : floatToF16(1)));
  auto made = std::make_shared<Buffer>(session.device->allocate(bytes));
  const Stream stream = session.device->makeStream();
  stream.copyToDevice(made->address(), words.data(), bytes);
  stream.synchronize();
  return kept = std::move(made);
}

} // namespace

void Product::Impl::runOnce(const Stream &stream, const CallOffsets &at, const ProductPlaces &from,
                            const Algorithm &with) const {
  const float one = 1, zero = 0;
  auto pointer = [](DevicePointer base, std::int64_t offset) {
    return reinterpret_cast<void *>(base + static_cast<DevicePointer>(offset));
  };
  void *const c = pointer(from.c, at.c), *const addend = from.addend ? pointer(from.addend, at.c) : c;
  const int status = session->lt.matmul(
      session->handle.get(), operation.get(), &one, pointer(from.b, at.b), layoutA.get(), pointer(from.a, at.a),
      layoutB.get(), desc.accumulate ? &one : &zero, addend, layoutC.get(), c, layoutC.get(), with.data(),
      reinterpret_cast<void *>(from.workspace), workspaceBytes, stream.handle());
  if (status != 0)
    session->lt.check(status, "running product " + describe(desc));
}

// An empty sum: C = 0, row by row unless its rows are dense.
void Product::Impl::fillZero(const Stream &stream) const {
  const std::int64_t element = byteSize(desc.c.dtype);
  const bool dense = desc.m == 1 || desc.c.rowStride == desc.n;
  for (std::int64_t outer = 0; outer < desc.batch[0]; ++outer)
    for (std::int64_t inner = 0; inner < desc.batch[1]; ++inner)
      for (std::int64_t row = 0; row < (dense ? 1 : desc.m); ++row) {
        const std::int64_t at =
            outer * desc.c.batchStrides[0] + inner * desc.c.batchStrides[1] + row * desc.c.rowStride;
        stream.setBytes(places.c + static_cast<DevicePointer>(at * element), 0,
                        static_cast<std::size_t>((dense ? desc.m : 1) * desc.n * element));
      }
}

Product::Product(std::unique_ptr<Impl> impl) : impl(std::move(impl)) {}
Product::Product(Product &&) noexcept = default;
Product::~Product() = default;

void Product::place(const ProductPlaces &given) {
  ProductPlaces places = given;
  if (impl->alignedBias.size() != 0) {
    impl->biasSource = given.bias;
    places.bias = impl->alignedBias.address();
  }
  if (impl->biasRows) {
    impl->biasRows->place({impl->ones->address(), places.bias, places.c, 0, places.workspace, places.addend});
    places.addend = 0;
  }
  impl->places = places;
  if (impl->swapped)
    std::swap(impl->places.a, impl->places.b);
  if (impl->way == Impl::Way::nothing && places.addend)
    refuse(impl->desc, "it adds an empty sum to a tensor elsewhere; a copy does that");
  if (impl->desc.bias && impl->way == Impl::Way::calls)
    setOperation(impl->session->lt, impl->operation.get(), ltDescBiasPointer, places.bias);
  if (impl->desc.geluGradient && impl->way == Impl::Way::calls)
    setOperation(impl->session->lt, impl->operation.get(), ltDescAuxPointer, places.aux);
}

void Product::run(const Stream &stream) const {
  if (const Buffer &bias = impl->alignedBias; bias.size() != 0)
    stream.copyOnDevice(bias.address(), impl->biasSource, bias.size());
  if (impl->biasRows)
    impl->biasRows->run(stream);
  if (impl->way == Impl::Way::zero)
    impl->fillZero(stream);
  for (const CallOffsets &at : impl->offsets)
    impl->runOnce(stream, at, impl->places, impl->algorithm);
}

std::size_t Product::calls() const {
  return impl->offsets.size() + (impl->biasRows ? impl->biasRows->calls() : 0);
}

struct Products::Impl {
  std::shared_ptr<LtSession> session = std::make_shared<LtSession>();
  TuningFile tuning;
};

Products::Products(const Device &device, const std::string &tuningFile) : impl(std::make_unique<Impl>()) {
  auto tuning = TuningFile::open(tuningFile);
  if (!tuning)
    throw CudaError(tuning.error().message());
  impl->tuning = std::move(*tuning);
  LtSession &session = *impl->session;
  session.lt = CublasLt::open();
  session.device = &device;
  void *handle = nullptr;
  session.lt.check(session.lt.create(&handle), "starting cuBLASLt on " + device.name());
  session.handle = Owned<void *>(handle, session.lt.destroy);
}

Products::~Products() = default;

Product Products::make(const GemmDesc &given, const ProductPromise &promised) {
  const auto extents = gemmExtents(given);
  if (!extents)
    throw CudaError(extents.error().message());
  if (auto product = tryMake(given, promised))
    return std::move(*product);
  constexpr std::uint32_t widestLoad = 16;
  ProductPromise promise = promised;
  promise.bias = std::max(promise.bias, widestLoad);
  if (given.bias)
    for (auto attempt : {&Products::tryMake, &Products::tryInTwo})
      if (auto product = (this->*attempt)(given, promise)) {
        if (promise.bias != promised.bias)
          product->impl->alignedBias = impl->session->device->allocate(static_cast<std::size_t>(extents->bias));
        return std::move(*product);
      }
  throw CudaError("choosing an algorithm for product " + describe(given) + ", operands aligned to " +
                  std::to_string(promised.a) + ", " + std::to_string(promised.b) + " and " +
                  std::to_string(promised.c) + " bytes: the library has none");
}

// C = ones · bias (+ addend), then C += A · B: a result of 16 bits is rounded once more where there is an addend.
std::optional<Product> Products::tryInTwo(const GemmDesc &given, const ProductPromise &promise) {
  GemmDesc rows = given, rest = given;
  rows.k = 1;
  rows.a = {given.c.dtype, 1, 1, {}};
  rows.b = {given.c.dtype, given.n, 1, {}};
  rows.bias.reset();
  rest.bias.reset();
  rest.accumulate = true;
  ProductPromise ofRows = promise;
  ofRows.a = 256;
  ofRows.b = promise.bias;
  auto first = tryMake(rows, ofRows), second = tryMake(rest, promise);
  if (!first || !second)
    return std::nullopt;
  second->impl->biasRows = std::make_unique<Product>(std::move(*first));
  second->impl->ones = onesOf(*impl->session, given.c.dtype, given.m);
  return second;
}

std::optional<Product> Products::tryMake(const GemmDesc &given, const ProductPromise &promised) {
  auto product = std::make_unique<Product::Impl>();
  product->session = impl->session;
  product->workspaceBytes = promised.workspaceBytes;
  if (given.batchCount() == 0 || given.m == 0 || given.n == 0)
    return Product(std::move(product));
  orient(*product, given);
  const GemmDesc &desc = product->desc;
  if (desc.k == 0) {
    if (desc.bias)
      refuse(given, "it adds a bias to an empty sum; a kernel does that");
    product->way = desc.accumulate ? Product::Impl::Way::nothing : Product::Impl::Way::zero;
    return Product(std::move(product));
  }
  product->way = Product::Impl::Way::calls;
  ProductPromise promise = promised;
  if (product->swapped)
    std::swap(promise.a, promise.b);
  const Batches batches = splitBatches(desc);
  promise = throughLoop(desc, batches, promise);
  for (std::int64_t i = 0; i < batches.loops; ++i)
    product->offsets.push_back({i * batches.aStep * byteSize(desc.a.dtype), i * batches.bStep * byteSize(desc.b.dtype),
                                i * batches.cStep * byteSize(desc.c.dtype)});
  const CublasLt &lt = impl->session->lt;
  const LtMatrix a = transposeOf(given, product->swapped ? "a" : "b", desc.b, desc.k, desc.n);
  const LtMatrix b = transposeOf(given, product->swapped ? "b" : "a", desc.a, desc.m, desc.k);
  const MatrixLayout c = normalized(desc.c, desc.m, desc.n);
  product->operation = makeOperation(lt, desc, a.transposed, b.transposed);
  product->layoutA = makeLayout(lt, desc.b.dtype, a, batches.count, batches.bStride);
  product->layoutB = makeLayout(lt, desc.a.dtype, b, batches.count, batches.aStride);
  product->layoutC = makeLayout(lt, desc.c.dtype, {false, desc.n, desc.m, desc.m == 1 ? desc.n : c.rowStride},
                                batches.count, batches.cStride);
  // The library reads of these addresses how aligned they will be.
  if (desc.bias)
    setOperation(lt, product->operation.get(), ltDescBiasPointer, DevicePointer(promise.bias));
  if (desc.geluGradient)
    setOperation(lt, product->operation.get(), ltDescAuxPointer, DevicePointer(promise.c));
  const std::string key = keyOf(*product, promise);
  if (const auto known = impl->tuning.find(key); known && isTaken(*product, *known, promise)) {
    product->algorithm = *known;
    return Product(std::move(product));
  }
  impl->tuning.drop(key);
  const std::optional<Algorithm> choice = chooseAlgorithm(*product, promise, impl->tuning.isKept());
  if (!choice)
    return std::nullopt;
  auto chosen = impl->tuning.add(key, *choice);
  if (!chosen)
    throw CudaError(chosen.error().message());
  product->algorithm = *chosen;
  return Product(std::move(product));
}

} // namespace tcc::runtime::cuda
