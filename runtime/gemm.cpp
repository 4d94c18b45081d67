// Products by tiles where the CPU has them, by dnnl::matmul with AVX-512, else by panels: checks, the choice among
// them and between one primitive and one per batch element, execution.
#include "runtime/gemm.h"
#include "runtime/cpu.h"
#include "runtime/memory.h"
#include "runtime/panels/product.h"
#include "runtime/threads.h"
#include "runtime/tiles/product.h"
#include <algorithm>
#include <bit>
#include <cstdlib>
#include <dnnl.hpp>
#include <unordered_map>
#include <vector>

namespace tcc::runtime {
namespace {

using dnnl::memory;

/// oneDNN uses what cpu.h says. Products by tiles are those of tiles/; oneDNN's would end in an illegal instruction
/// where a virtual machine shows AMX and hides CPUID's leaf 0x1D, by which it sizes its own. Its variables still
/// decide.
void limitInstructionSet() {
  if (std::getenv("ONEDNN_MAX_CPU_ISA") || std::getenv("DNNL_MAX_CPU_ISA"))
    return;
  auto has = [](const char *features) { return !requireCpuFeatures(features); };
  const bool hasCore = has("avx512f,avx512bw,avx512dq,avx512vl");
  dnnl::set_max_cpu_isa(hasCore && has("avx512vnni,avx512bf16") ? dnnl::cpu_isa::avx512_core_bf16
                        : hasCore && has("avx512vnni")          ? dnnl::cpu_isa::avx512_core_vnni
                        : hasCore                               ? dnnl::cpu_isa::avx512_core
                        : has("avx2,fma")                       ? dnnl::cpu_isa::avx2
                        : has("avx")                            ? dnnl::cpu_isa::avx
                                                                : dnnl::cpu_isa::sse41);
}

dnnl::engine &cpuEngine() {
  static dnnl::engine *engine = [] {
    limitInstructionSet(); // before the library looks at the CPU
    return new dnnl::engine(dnnl::engine::kind::cpu, 0);
  }();
  return *engine;
}

/// Whether products of the type are oneDNN's. Below AVX-512 it has none of bf16, and sums of f32 products follow from
/// the number of threads.
bool isOneDnns(DType dtype) {
  cpuEngine(); // the limit comes first
  const auto least = static_cast<unsigned>(dnnl::cpu_isa::avx512_core);
  return dtype != DType::f16 && (static_cast<unsigned>(dnnl::get_effective_cpu_isa()) & least) == least;
}

memory::data_type toDnnl(DType dtype) {
  return dtype == DType::f32 ? memory::data_type::f32 : memory::data_type::bf16;
}

// Dims and strides of one operand; batch dims of size 1 are left out, broadcast ones have size 1.
memory::desc describeMemory(const MatrixLayout &layout, int64_t rows, int64_t columns,
                            const std::array<int64_t, 2> &batch, bool withBatch) {
  memory::dims dims, strides;
  for (int i = 0; i < 2 && withBatch; ++i) {
    if (batch[i] == 1)
      continue;
    const bool broadcast = layout.batchStrides[i] == 0;
    dims.push_back(broadcast ? 1 : batch[i]);
    strides.push_back(broadcast ? std::max<int64_t>(1, rows * layout.rowStride) : layout.batchStrides[i]);
  }
  dims.insert(dims.end(), {rows, columns});
  strides.insert(strides.end(), {layout.rowStride, layout.columnStride});
  return memory::desc(dims, toDnnl(layout.dtype), strides);
}

using Primitive = dnnl::matmul::primitive_desc;

/// Whether B is copied into the library's own layout before it is multiplied. Rows of f32 that lie a multiple of 4096
/// bytes apart fall into the same cache sets: on Sapphire Rapids 1024 × 768 · 768 × 3072 runs at 0.52 of the speed that
/// it has with B in blocks, the copy included. Where that distance is a power of two, and in bf16, oneDNN copies by
/// itself. A copy costs what 30 rows of A do.
bool packsB(const GemmDesc &desc) {
  const int64_t apart = desc.b.rowStride * byteSize(desc.b.dtype);
  return desc.batchCount() == 1 && desc.k >= 256 && desc.n >= 256 && desc.b.dtype == DType::f32 &&
         desc.b.columnStride == 1 && desc.m >= 64 && apart % 4096 == 0 &&
         !std::has_single_bit(static_cast<uint64_t>(apart));
}

Primitive makePrimitive(const GemmDesc &desc, bool withBatch, bool packed = false) {
  const auto a = describeMemory(normalized(desc.a, desc.m, desc.k), desc.m, desc.k, desc.batch, withBatch);
  const auto b = packed ? memory::desc({desc.k, desc.n}, toDnnl(desc.b.dtype), memory::format_tag::any)
                        : describeMemory(normalized(desc.b, desc.k, desc.n), desc.k, desc.n, desc.batch, withBatch);
  const auto c = describeMemory(normalized(desc.c, desc.m, desc.n), desc.m, desc.n, desc.batch, withBatch);
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (desc.accumulate) {
    dnnl::post_ops sum;
    sum.append_sum(1.0f);
    attributes.set_post_ops(sum);
  }
  if (!desc.bias)
    return Primitive(dnnl::matmul::desc(a, b, c), attributes, cpuEngine());
  memory::dims biasDims(a.dims().size(), 1);
  biasDims.back() = desc.n;
  memory::dims biasStrides(biasDims.size(), desc.n);
  biasStrides.back() = 1;
  const memory::desc bias(biasDims, toDnnl(*desc.bias), biasStrides);
  return Primitive(dnnl::matmul::desc(a, b, bias, c), attributes, cpuEngine());
}

bool isReference(const Primitive &primitive) {
  return std::string_view(primitive.impl_info_str()).substr(0, 3) == "ref";
}

// oneDNN's batch-reduce kernels: its best ones.
bool isBlocked(const Primitive &primitive) {
  return primitive && std::string_view(primitive.impl_info_str()).substr(0, 3) == "brg";
}

enum class Way { nothing, fill, tiles, panels, whole, perBatch };

struct Choice {
  Way way = Way::nothing;
  GemmDesc desc; // as it is computed: C has unit column stride
  bool swapped = false;
  std::optional<tiles::Product> tiles;
  std::optional<panels::Product> panels;
  Primitive primitive;
  dnnl::reorder::primitive_desc packing; // of B, where it is packed
  int64_t scratchEach = 0;               // per concurrent use, a multiple of 64
  int64_t packedAt = 0;                  // in the scratch: B packed
  int workers = 1;
};

int64_t aligned(size_t bytes) {
  return (static_cast<int64_t>(bytes) + 63) / 64 * 64;
}

/// The product with B packed, where that pays and the library has such a layout.
void choosePacked(Choice &choice) {
  const GemmDesc &desc = choice.desc;
  if (!packsB(desc) || !isBlocked(choice.primitive))
    return;
  const Primitive packed = makePrimitive(desc, false, true);
  const memory::desc given = choice.primitive.weights_desc(), wanted = packed.weights_desc();
  if (!isBlocked(packed) || wanted == given)
    return;
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  choice.packing = dnnl::reorder::primitive_desc(cpuEngine(), given, cpuEngine(), wanted, attributes);
  choice.primitive = packed;
  choice.packedAt = aligned(std::max(packed.scratchpad_desc().get_size(), choice.packing.scratchpad_desc().get_size()));
  choice.scratchEach = choice.packedAt + aligned(wanted.get_size());
}

void choosePanels(Choice &choice, int threads) {
  choice.panels = panels::Product::plan(choice.desc, threads);
  choice.way = Way::panels;
  choice.workers = 1; // it shares out scratch among its own
  choice.scratchEach = choice.panels->scratchBytes();
}

Expected<Choice> choose(const GemmDesc &desc, int threads) {
  if (auto extents = gemmExtents(desc); !extents)
    return extents.error();
  if (desc.geluGradient)
    return Error("product " + describe(desc) + " is multiplied by slopes of GELU; the CPU's products are not");
  Choice choice;
  choice.desc = desc;
  if (desc.batchCount() == 0 || desc.m == 0 || desc.n == 0)
    return choice;
  if (desc.k == 0) {
    choice.way = Way::fill;
    return choice;
  }
  const MatrixLayout c = normalized(desc.c, desc.m, desc.n);
  if (c.columnStride != 1) {
    if (c.rowStride != 1)
      return Error("c of product " + describe(desc) + " has no unit stride; copy it, or give it unit column stride");
    if (desc.bias)
      return Error("c of product " + describe(desc) + " is transposed and has a bias; give it unit column stride");
    choice.desc = transposed(desc);
    choice.swapped = true;
  }
  const GemmDesc &used = choice.desc;
  for (auto [operand, layout] :
       {std::pair{"a", normalized(used.a, used.m, used.k)}, std::pair{"b", normalized(used.b, used.k, used.n)}})
    if (layout.rowStride == 0 || layout.columnStride == 0 || (layout.rowStride != 1 && layout.columnStride != 1))
      return Error(std::string(choice.swapped ? (*operand == 'a' ? "b" : "a") : operand) + " of product " +
                   describe(desc) + " has neither unit row nor unit column stride; copy it first");
  if ((choice.tiles = tiles::Product::plan(used, threads))) {
    choice.way = Way::tiles;
    choice.scratchEach = aligned(static_cast<size_t>(choice.tiles->scratchBytes()));
    return choice;
  }
  if (!isOneDnns(used.a.dtype)) {
    choosePanels(choice, threads);
    return choice;
  }
  try {
    ThreadCountScope scope(threads);
    try {
      choice.primitive = makePrimitive(used, true);
    } catch (const dnnl::error &) {
      if (used.batchCount() == 1)
        throw;
    }
    choice.way = Way::whole;
    // Some batch strides go to oneDNN's older kernels alone; for bf16 a loop over the best one is faster.
    if (used.batchCount() > 1 && !isBlocked(choice.primitive)) {
      setThreadCount(1);
      const Primitive single = makePrimitive(used, false);
      const bool better = used.a.dtype == DType::bf16 && isBlocked(single) && used.batchCount() >= threads;
      if (better || !choice.primitive || isReference(choice.primitive)) {
        choice.primitive = single;
        choice.way = Way::perBatch;
        choice.workers = static_cast<int>(std::min<int64_t>(threads, used.batchCount()));
      }
    }
    if (isReference(choice.primitive)) {
      choosePanels(choice, threads);
      return choice;
    }
    choice.scratchEach = aligned(choice.primitive.scratchpad_desc().get_size());
    if (choice.way == Way::whole)
      choosePacked(choice);
  } catch (const dnnl::error &) { // it has no such product on this CPU
    choosePanels(choice, threads);
  }
  return choice;
}

// k = 0: C = bias or 0, or C += bias.
void fillEmptyProduct(const GemmDesc &desc, void *c, const void *bias) {
  auto load = [](DType dtype, const void *data, int64_t i) {
    if (dtype == DType::f32)
      return static_cast<const float *>(data)[i];
    const uint16_t bits = static_cast<const uint16_t *>(data)[i];
    return dtype == DType::bf16 ? bf16ToFloat(bits) : f16ToFloat(bits);
  };
  for (int64_t batch = 0; batch < desc.batchCount(); ++batch) {
    const int64_t start =
        batch / desc.batch[1] * desc.c.batchStrides[0] + batch % desc.batch[1] * desc.c.batchStrides[1];
    for (int64_t i = 0; i < desc.m; ++i)
      for (int64_t j = 0; j < desc.n; ++j) {
        const int64_t at = start + i * desc.c.rowStride + j * desc.c.columnStride;
        float value = desc.bias ? load(*desc.bias, bias, j) : 0.0f;
        if (desc.accumulate)
          value += load(desc.c.dtype, c, at);
        if (desc.c.dtype == DType::f32)
          static_cast<float *>(c)[at] = value;
        else
          static_cast<uint16_t *>(c)[at] = desc.c.dtype == DType::bf16 ? floatToBf16(value) : floatToF16(value);
      }
  }
}

} // namespace

struct Gemm::Impl {
  struct Worker {
    memory a, b, c, bias, scratch;
    memory unpacked, packingScratch; // where B is packed
    std::unordered_map<int, memory> arguments, packingArguments;
  };
  GemmDesc given;
  Choice choice;
  std::string implementation;
  dnnl::matmul primitive;
  dnnl::reorder packing;
  dnnl::stream stream;
  std::vector<Worker> workers;

  void runOne(Worker &worker, const void *a, const void *b, void *c, const void *bias, void *scratch) {
    worker.a.set_data_handle(const_cast<void *>(a));
    if (choice.packing) {
      worker.unpacked.set_data_handle(const_cast<void *>(b));
      worker.packingScratch.set_data_handle(scratch);
      b = static_cast<char *>(scratch) + choice.packedAt;
    }
    worker.b.set_data_handle(const_cast<void *>(b));
    worker.c.set_data_handle(c);
    if (given.bias)
      worker.bias.set_data_handle(const_cast<void *>(bias));
    worker.scratch.set_data_handle(scratch);
    if (choice.packing)
      packing.execute(stream, worker.packingArguments);
    primitive.execute(stream, worker.arguments);
  }
};

Gemm::Gemm(std::unique_ptr<Impl> impl) : impl(std::move(impl)) {}
Gemm::Gemm(Gemm &&) noexcept = default;
Gemm &Gemm::operator=(Gemm &&) noexcept = default;
Gemm::~Gemm() = default;

int64_t Gemm::scratchpadBytes() const {
  return impl->choice.scratchEach * impl->choice.workers;
}
const std::string &Gemm::implementation() const {
  return impl->implementation;
}

std::string productInstructions() {
  if (!isOneDnns(DType::f32))
    return std::string("panels by ") + panels::bestKernel().name;
  const std::string library = "oneDNN's " + std::to_string(static_cast<int>(dnnl::get_effective_cpu_isa()));
  return hasTiles() ? library + " and AMX's tiles" : library;
}

Expected<int64_t> scratchpadBytes(const GemmDesc &desc, int threads) {
  auto choice = choose(desc, threads);
  if (!choice)
    return choice.error();
  return choice->scratchEach * choice->workers;
}

Expected<Gemm> Gemm::create(const GemmDesc &desc, int threads) {
  auto choice = choose(desc, threads);
  if (!choice)
    return choice.error();
  auto impl = std::make_unique<Impl>();
  impl->given = desc;
  impl->choice = *choice;
  if (choice->way != Way::whole && choice->way != Way::perBatch) {
    impl->implementation = choice->tiles              ? choice->tiles->name()
                           : choice->panels           ? choice->panels->name()
                           : choice->way == Way::fill ? "zero"
                                                      : "none";
    return Gemm(std::move(impl));
  }
  try {
    ThreadCountScope scope(choice->way == Way::perBatch ? 1 : threads);
    const Primitive &primitive = choice->primitive;
    impl->implementation = primitive.impl_info_str();
    if (choice->way == Way::perBatch)
      impl->implementation += " per batch";
    impl->primitive = dnnl::matmul(primitive);
    if (choice->packing) {
      impl->packing = dnnl::reorder(choice->packing);
      impl->implementation += " packed";
    }
    impl->stream = dnnl::stream(cpuEngine());
    for (int i = 0; i < choice->workers; ++i) {
      Impl::Worker worker;
      worker.a = memory(primitive.src_desc(), cpuEngine(), nullptr);
      worker.b = memory(primitive.weights_desc(), cpuEngine(), nullptr);
      worker.c = memory(primitive.dst_desc(), cpuEngine(), nullptr);
      worker.scratch = memory(primitive.scratchpad_desc(), cpuEngine(), nullptr);
      worker.arguments = {{DNNL_ARG_SRC, worker.a},
                          {DNNL_ARG_WEIGHTS, worker.b},
                          {DNNL_ARG_DST, worker.c},
                          {DNNL_ARG_SCRATCHPAD, worker.scratch}};
      if (choice->packing) {
        worker.unpacked = memory(choice->packing.src_desc(), cpuEngine(), nullptr);
        worker.packingScratch = memory(choice->packing.scratchpad_desc(), cpuEngine(), nullptr);
        worker.packingArguments = {
            {DNNL_ARG_FROM, worker.unpacked}, {DNNL_ARG_TO, worker.b}, {DNNL_ARG_SCRATCHPAD, worker.packingScratch}};
      }
      if (desc.bias) {
        worker.bias = memory(primitive.bias_desc(), cpuEngine(), nullptr);
        worker.arguments.emplace(DNNL_ARG_BIAS, worker.bias);
      }
      impl->workers.push_back(std::move(worker));
    }
  } catch (const dnnl::error &error) {
    return Error("oneDNN cannot build product " + describe(desc) + ": " + error.what());
  }
  return Gemm(std::move(impl));
}

Error Gemm::run(const void *a, const void *b, void *c, const void *bias, void *scratch) const {
  const Choice &choice = impl->choice;
  if (choice.way == Way::nothing)
    return Error::success();
  if (choice.way == Way::fill) {
    fillEmptyProduct(impl->given, c, bias);
    return Error::success();
  }
  if (choice.swapped)
    std::swap(a, b);
  if (choice.way == Way::tiles) {
    choice.tiles->run(a, b, c, bias, scratch);
    return Error::success();
  }
  if (choice.way == Way::panels) {
    choice.panels->run(a, b, c, bias, scratch);
    return Error::success();
  }
  try {
    if (choice.way == Way::whole) {
      impl->runOne(impl->workers[0], a, b, c, bias, scratch);
      return Error::success();
    }
  } catch (const dnnl::error &error) {
    return Error("oneDNN failed in product " + describe(impl->given) + ": " + error.what());
  }
  // One single-thread product per batch element, the elements dealt to the workers in contiguous runs.
  const GemmDesc &desc = choice.desc;
  std::vector<const char *> failures(static_cast<size_t>(choice.workers), nullptr);
  parallelRun(choice.workers, [&](int64_t worker) {
    ThreadCountScope scope(1);
    const Range range = cutRange(desc.batchCount(), 1, choice.workers, worker);
    for (int64_t i = range.begin; i < range.end; ++i) {
      auto at = [&](const void *base, const MatrixLayout &layout) { return batchElement(base, desc, layout, i); };
      try {
        impl->runOne(impl->workers[worker], at(a, desc.a), at(b, desc.b), const_cast<char *>(at(c, desc.c)), bias,
                     static_cast<char *>(scratch) + worker * choice.scratchEach);
      } catch (const dnnl::error &) {
        failures[worker] = "execution failed";
        return;
      }
    }
  });
  for (const char *failure : failures)
    if (failure)
      return Error("oneDNN failed in product " + describe(impl->given) + ": " + failure);
  return Error::success();
}

} // namespace tcc::runtime
