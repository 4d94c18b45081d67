// Bounds on how far a device's values may be from the CPU's. A result that is stored in 16 bits was rounded on both
// sides: 2.1 times half an ulp allows for that.
#include "codegen/check_values.h"
#include "runtime/memory.h"
#include "runtime/threads.h"
#include <cmath>
#include <cstring>

namespace tcc {
namespace {

using runtime::DType;

constexpr double epsilon32 = 0x1p-24;

template <typename Value>
Value read(const std::string &bytes, int64_t index) {
  Value value;
  std::memcpy(&value, bytes.data() + static_cast<size_t>(index) * sizeof(Value), sizeof value);
  return value;
}

/// Half an ulp of a stored value, relative to it.
double roundingOf(DType dtype) {
  return dtype == DType::bf16 ? 0x1p-8 : dtype == DType::f16 ? 0x1p-11 : epsilon32;
}

} // namespace

bool sameKind(double a, double b) {
  return std::isnan(a) ? std::isnan(b) : std::isfinite(a) ? std::isfinite(b) : a == b;
}

double elementAt(const std::string &bytes, DType dtype, int64_t index) {
  switch (dtype) {
  case DType::f32:
    return read<float>(bytes, index);
  case DType::bf16:
    return runtime::bf16ToFloat(read<uint16_t>(bytes, index));
  case DType::f16:
    return runtime::f16ToFloat(read<uint16_t>(bytes, index));
  case DType::i32:
    return read<int32_t>(bytes, index);
  case DType::i64:
    return static_cast<double>(read<int64_t>(bytes, index));
  case DType::i1:
  case DType::f8e4m3:
  case DType::f8e5m2:
    break;
  }
  return read<uint8_t>(bytes, index);
}

std::string nudged(std::string argument, DType dtype, uint32_t seed) {
  if (dtype != DType::f32)
    return argument;
  for (size_t at = 0; at + 4 <= argument.size(); at += 4) {
    seed = seed * 1664525u + 1013904223u;
    float value;
    std::memcpy(&value, &argument[at], 4);
    if (!std::isfinite(value) || value == 0)
      continue;
    value = std::nextafter(value, seed >> 31 ? INFINITY : -INFINITY);
    if (std::isfinite(value))
      std::memcpy(&argument[at], &value, 4);
  }
  return argument;
}

int64_t longestSum(const KernelInfo &form) {
  int64_t terms = form.hasRowReduction() ? form.space.columns : 1;
  for (const KernelStore &store : form.stores)
    if (store.kind == KernelStore::Kind::scatterAdd ||
        (store.kind == KernelStore::Kind::columnReduce && store.reduction != Reduction::maximum))
      terms = std::max(terms, form.space.rows);
  return terms;
}

std::optional<KernelInfo> withRoundingsMoved(const KernelInfo &form, unsigned variant) {
  llvm::SmallVector<bool> isRead(form.nodes.size());
  for (const KernelNode &node : form.nodes)
    for (unsigned operand : node.operands)
      isRead[operand] = true;
  for (const KernelStore &store : form.stores) // sums read their terms
    isRead[store.node] = isRead[store.node] || store.kind != KernelStore::Kind::element;
  KernelInfo moved = form;
  moved.nodes.clear();
  llvm::SmallVector<unsigned> stored, read; // numbers of the new nodes: of a value, and of what others read of it
  bool up = true;
  for (const auto &[number, old] : llvm::enumerate(form.nodes)) {
    moved.nodes.push_back(old);
    for (unsigned &operand : moved.nodes.back().operands)
      operand = read[operand];
    stored.push_back(static_cast<unsigned>(moved.nodes.size() - 1));
    if (is16BitFloat(old.type) && isRead[number] && old.kind == KernelNode::Kind::compute) {
      // By 0.75 to 1.5 ulps, so that rounding gives a neighbour.
      const double part = 1.5 * roundingOf(static_cast<DType>(old.type));
      KernelNode node;
      node.kind = KernelNode::Kind::compute;
      node.type = old.type;
      node.operands = {stored.back()};
      node.perColumn = old.perColumn;
      node.stage = old.stage;
      ScalarStep factor, product; // values 1 and 2 beside the operand
      factor.literal = ScalarLiteral::ofFloat(1 + (up ? part : -part));
      product.opcode = Opcode::mulF;
      product.operands = {0, 1, 0};
      node.steps.steps = {factor, product};
      node.steps.result = 2;
      moved.nodes.push_back(std::move(node));
      up = variant == 0 || !up;
    }
    read.push_back(static_cast<unsigned>(moved.nodes.size() - 1));
  }
  if (moved.nodes.size() == form.nodes.size())
    return std::nullopt;
  for (KernelStore &store : moved.stores) {
    store.node = (store.kind == KernelStore::Kind::element ? stored : read)[store.node];
    store.scatterRow = stored[store.scatterRow];
  }
  return moved;
}

ValueDifference compareResult(const std::string &device, const std::string &cpu, const NearbyResults &nearby,
                              DType dtype, int64_t terms) {
  const auto count = static_cast<int64_t>(cpu.size()) / runtime::byteSize(dtype);
  double scale = 0;
  if (runtime::isFloat(dtype))
    for (int64_t i = 0; i < count; ++i)
      if (const double value = std::abs(elementAt(cpu, dtype, i)); std::isfinite(value))
        scale = std::max(scale, value);
  // How far any element may be off: the device may add in another order, and its functions are right to a few ulps.
  const double floor = epsilon32 * scale * (8 + 2 * std::sqrt(static_cast<double>(terms)));
  for (int64_t i = 0; i < count; ++i) {
    const double seen = elementAt(device, dtype, i), expected = elementAt(cpu, dtype, i);
    if (seen == expected || (std::isnan(seen) && std::isnan(expected)))
      continue;
    const auto largestMove = [&](const std::vector<std::string> &others) {
      double moved = 0;
      for (const std::string &other : others) {
        const double value = elementAt(other, dtype, i);
        moved =
            std::max(moved, sameKind(value, expected) && std::isfinite(value) ? std::abs(value - expected) : INFINITY);
      }
      return moved;
    };
    // How far the CPU's own result moves when operands move by an ulp, or roundings to a neighbour.
    const double moved = std::max(8 * largestMove(nearby.operands), 1.25 * largestMove(nearby.roundings));
    double allowed = moved;
    if (runtime::isFloat(dtype))
      allowed += floor + std::abs(expected) * (16 * epsilon32 + (dtype == DType::f32 ? 0 : 2.1 * roundingOf(dtype)));
    const bool near = sameKind(seen, expected) ? std::abs(seen - expected) <= allowed : std::isinf(moved);
    if (!near)
      return {i, seen, expected, allowed};
  }
  return {};
}

namespace {

/// The same values without their signs.
std::string magnitudes(std::string bytes, DType dtype) {
  const auto size = static_cast<size_t>(runtime::byteSize(dtype));
  for (size_t last = size - 1; last < bytes.size(); last += size)
    bytes[last] = static_cast<char>(bytes[last] & 0x7f);
  return bytes;
}

runtime::Expected<runtime::TensorStorage> stored(const std::string &bytes, int64_t least) {
  auto memory = runtime::TensorStorage::zeros(std::max(static_cast<int64_t>(bytes.size()), least));
  if (memory)
    std::memcpy(memory->data(), bytes.data(), bytes.size());
  return memory;
}

/// C as the CPU's library computes it.
runtime::Expected<std::string> productOf(const runtime::GemmDesc &desc, const ProductValues &values) {
  const int threads = runtime::availableThreads();
  runtime::ThreadCountScope scope(threads);
  auto product = runtime::Gemm::create(desc, threads);
  auto extents = runtime::gemmExtents(desc);
  if (!product || !extents)
    return product ? extents.error() : product.error();
  auto a = stored(values.a, extents->a), b = stored(values.b, extents->b), bias = stored(values.bias, 1),
       c = stored(values.before, static_cast<int64_t>(values.after.size())),
       scratch = runtime::TensorStorage::allocate(product->scratchpadBytes());
  for (const auto *memory : {&a, &b, &bias, &c, &scratch})
    if (!*memory)
      return memory->error();
  product->run(a->data(), b->data(), c->data(), desc.bias ? bias->data() : nullptr, scratch->data());
  return std::string(static_cast<const char *>(c->data()), values.after.size());
}

/// GELU's slope, in its tanh form.
double geluSlope(double x) {
  constexpr double rate = 0.7978845608028654, cubic = 0.044715; // √(2/π)
  if (std::isinf(x))
    return x > 0;
  const double t = std::tanh(rate * (x + cubic * x * x * x));
  return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * rate * (1 + 3 * cubic * x * x);
}

/// Compares the result of a matmul with GELU's slopes (desc.geluGradient). The CPU multiplies the matrices in f32, and
/// its sums are multiplied by the slopes here.
runtime::Expected<ValueDifference> compareSloped(const runtime::GemmDesc &desc, const ProductValues &values) {
  runtime::GemmDesc plain = desc;
  plain.geluGradient = false;
  plain.c.dtype = DType::f32;
  const auto count = static_cast<int64_t>(values.after.size()) / runtime::byteSize(desc.c.dtype);
  ProductValues wide = values;
  wide.before = wide.after = std::string(static_cast<size_t>(count) * 4, '\0');
  const runtime::Expected<std::string> sums = productOf(plain, wide);
  wide.a = magnitudes(values.a, desc.a.dtype);
  wide.b = magnitudes(values.b, desc.b.dtype);
  const runtime::Expected<std::string> sizes = sums ? productOf(plain, wide) : sums.error();
  if (!sizes)
    return sizes.error();
  constexpr double ofSlope = 0x1p-9; // how far a slope may be off: libraries approximate it
  const double factor = epsilon32 * (4 + 4 * std::sqrt(static_cast<double>(desc.k)));
  for (int64_t i = 0; i < count; ++i) {
    const double seen = elementAt(values.after, desc.c.dtype, i), sum = elementAt(*sums, DType::f32, i);
    const double slope = geluSlope(elementAt(values.aux, desc.c.dtype, i)), expected = sum * slope;
    const double allowed = 1.2 * factor * elementAt(*sizes, DType::f32, i) + ofSlope * std::abs(sum) +
                           2.1 * roundingOf(desc.c.dtype) * std::abs(expected);
    if (!sameKind(seen, expected) || (std::isfinite(expected) && std::abs(seen - expected) > allowed))
      return ValueDifference{i, seen, expected, allowed};
  }
  return ValueDifference{};
}

} // namespace

runtime::Expected<ValueDifference> compareProduct(const runtime::GemmDesc &desc, const ProductValues &values) {
  if (desc.geluGradient)
    return compareSloped(desc, values);
  const runtime::Expected<std::string> cpu = productOf(desc, values);
  if (!cpu)
    return cpu.error();
  ProductValues absolute = values;
  absolute.a = magnitudes(values.a, desc.a.dtype);
  absolute.b = magnitudes(values.b, desc.b.dtype);
  absolute.before = magnitudes(values.before, desc.c.dtype);
  if (desc.bias)
    absolute.bias = magnitudes(values.bias, *desc.bias);
  const runtime::Expected<std::string> sums = productOf(desc, absolute);
  if (!sums)
    return sums.error();
  const double unit = desc.tf32 ? 0x1p-11 : epsilon32;
  const double factor = unit * (4 + 4 * std::sqrt(static_cast<double>(desc.k)));
  const DType dtype = desc.c.dtype;
  const auto count = static_cast<int64_t>(cpu->size()) / runtime::byteSize(dtype);
  // Tensor cores, which multiply numbers of 16 bits, cut a sum off after every few terms instead of rounding it: seen
  // on an H200, where 512 terms of one sign lose 100 units. The sums on the way are taken to be no larger than the
  // largest.
  double largest = 0;
  if (desc.a.dtype != DType::f32)
    for (int64_t i = 0; i < count; ++i)
      if (const double value = std::abs(elementAt(*cpu, dtype, i)); std::isfinite(value))
        largest = std::max(largest, value);
  const double cut = epsilon32 * static_cast<double>(desc.k) / 2;
  for (int64_t i = 0; i < count; ++i) {
    const double seen = elementAt(values.after, dtype, i), expected = elementAt(*cpu, dtype, i);
    if (seen == expected || (std::isnan(seen) && std::isnan(expected)))
      continue;
    const double sum = elementAt(*sums, dtype, i);
    const double allowed = factor * sum + cut * std::min(sum, largest) + 2.1 * roundingOf(dtype) * std::abs(expected);
    if (!sameKind(seen, expected) || std::abs(seen - expected) > allowed)
      return ValueDifference{i, seen, expected, allowed};
  }
  return ValueDifference{};
}

} // namespace tcc
