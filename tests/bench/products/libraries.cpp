#include "tests/bench/products/libraries.h"
#include <dlfcn.h>
#ifdef HAS_ONEDNN
#include <dnnl.hpp>
#endif

namespace tcc::bench {
namespace {

using runtime::DType;
using runtime::Error;
using runtime::Expected;

/// Where the matrices of one matmul lie in memory; rows follow each other after `lda`, `ldb`, `ldc` elements.
struct Call {
  bool transposeA, transposeB;
  int64_t m, n, k, lda, ldb, ldc;
  const float *a, *b;
  float *c;
};
using Multiply = std::function<void(const Call &call)>;

/// BLAS' C interface, whose integers are of 32 or 64 bits.
template <typename Int>
Multiply byCblas(void *symbol) {
  using Function =
      void (*)(int, int, int, Int, Int, Int, float, const float *, Int, const float *, Int, float, float *, Int);
  return [function = reinterpret_cast<Function>(symbol)](const Call &call) {
    constexpr int rowMajor = 101, plain = 111, transposed = 112;
    function(rowMajor, call.transposeA ? transposed : plain, call.transposeB ? transposed : plain,
             static_cast<Int>(call.m), static_cast<Int>(call.n), static_cast<Int>(call.k), 1, call.a,
             static_cast<Int>(call.lda), call.b, static_cast<Int>(call.ldb), 0, call.c, static_cast<Int>(call.ldc));
  };
}

/// BLAS' Fortran interface, whose matrices are stored by columns: it computes the transpose of C.
Multiply byFortran(void *symbol) {
  using Function =
      void (*)(const char *, const char *, const int *, const int *, const int *, const float *, const float *,
               const int *, const float *, const int *, const float *, float *, const int *);
  return [function = reinterpret_cast<Function>(symbol)](const Call &call) {
    const int m = static_cast<int>(call.m), n = static_cast<int>(call.n), k = static_cast<int>(call.k);
    const int lda = static_cast<int>(call.lda), ldb = static_cast<int>(call.ldb), ldc = static_cast<int>(call.ldc);
    const float one = 1, zero = 0;
    function(call.transposeB ? "T" : "N", call.transposeA ? "T" : "N", &n, &m, &k, &one, call.b, &ldb, call.a, &lda,
             &zero, call.c, &ldc);
  };
}

Multiply byOneDnnSgemm(void *symbol) {
  using Function = int (*)(char, char, int64_t, int64_t, int64_t, float, const float *, int64_t, const float *, int64_t,
                           float, float *, int64_t);
  return [function = reinterpret_cast<Function>(symbol)](const Call &call) {
    function(call.transposeA ? 'T' : 'N', call.transposeB ? 'T' : 'N', call.m, call.n, call.k, 1, call.a, call.lda,
             call.b, call.ldb, 0, call.c, call.ldc);
  };
}

struct Name {
  const char *symbol;
  Multiply (*make)(void *symbol);
};
constexpr Name names[] = {{"cblas_sgemm", byCblas<int>},
                          {"scipy_cblas_sgemm64_", byCblas<int64_t>},
                          {"SGEMM", byFortran},
                          {"sgemm_", byFortran},
                          {"dnnl_sgemm", byOneDnnSgemm}};

class Opened : public Library {
public:
  Opened(std::string name, Multiply multiply) : ownName(std::move(name)), multiply(std::move(multiply)) {}
  const std::string &name() const override { return ownName; }
  Run matmul(const Shape &shape, DType dtype) override {
    if (dtype != DType::f32)
      return nullptr;
    return [shape, multiply = multiply](const void *a, const void *b, void *c) {
      for (int64_t i = 0; i < shape.batch; ++i)
        multiply({shape.transposeA, shape.transposeB, shape.m, shape.n, shape.k, shape.transposeA ? shape.m : shape.k,
                  shape.transposeB ? shape.k : shape.n, shape.n, static_cast<const float *>(a) + i * shape.m * shape.k,
                  static_cast<const float *>(b) + i * shape.k * shape.n,
                  static_cast<float *>(c) + i * shape.m * shape.n});
    };
  }

private:
  std::string ownName;
  Multiply multiply;
};

#ifdef HAS_ONEDNN
class LinkedOneDnn : public Library {
public:
  LinkedOneDnn() : engine(dnnl::engine::kind::cpu, 0), stream(engine) {
    const dnnl_version_t *version = dnnl_version();
    ownName = "oneDNN " + std::to_string(version->major) + "." + std::to_string(version->minor);
  }
  const std::string &name() const override { return ownName; }

  Run matmul(const Shape &shape, DType dtype) override {
    using dnnl::memory;
    const runtime::GemmDesc desc = descOf(shape, dtype);
    auto describe = [&](const runtime::MatrixLayout &layout, int64_t rows, int64_t columns) {
      const auto type = dtype == DType::f32 ? memory::data_type::f32 : memory::data_type::bf16;
      const runtime::MatrixLayout l = normalized(layout, rows, columns);
      return shape.batch == 1
                 ? memory::desc({rows, columns}, type, {l.rowStride, l.columnStride})
                 : memory::desc({shape.batch, rows, columns}, type, {l.batchStrides[1], l.rowStride, l.columnStride});
    };
    try {
      const dnnl::matmul::primitive_desc primitive(dnnl::matmul::desc(describe(desc.a, desc.m, desc.k),
                                                                      describe(desc.b, desc.k, desc.n),
                                                                      describe(desc.c, desc.m, desc.n)),
                                                   dnnl::primitive_attr(), engine);
      return [this, matmul = dnnl::matmul(primitive), a = memory(primitive.src_desc(), engine, nullptr),
              b = memory(primitive.weights_desc(), engine, nullptr),
              c = memory(primitive.dst_desc(), engine, nullptr)](const void *x, const void *y, void *z) mutable {
        a.set_data_handle(const_cast<void *>(x));
        b.set_data_handle(const_cast<void *>(y));
        c.set_data_handle(z);
        matmul.execute(stream, {{DNNL_ARG_SRC, a}, {DNNL_ARG_WEIGHTS, b}, {DNNL_ARG_DST, c}});
      };
    } catch (const dnnl::error &) {
      return nullptr;
    }
  }

private:
  dnnl::engine engine;
  dnnl::stream stream;
  std::string ownName;
};
#endif

} // namespace

std::unique_ptr<Library> linkedOneDnn() {
#ifdef HAS_ONEDNN
  return std::make_unique<LinkedOneDnn>();
#else
  return nullptr;
#endif
}

Expected<std::unique_ptr<Library>> openLibrary(const std::string &name, const std::string &file) {
  // Its own symbols first, so that two versions of one library do not meet.
  void *library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
  if (!library)
    return Error(dlerror());
  for (const Name &known : names)
    if (void *symbol = dlsym(library, known.symbol))
      return std::unique_ptr<Library>(std::make_unique<Opened>(name, known.make(symbol)));
  std::string wanted;
  for (const Name &known : names)
    wanted += std::string(wanted.empty() ? "" : ", ") + known.symbol;
  return Error(file + " has none of the matmuls " + wanted);
}

} // namespace tcc::bench
