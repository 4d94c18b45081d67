#include "tests/bench/products/shapes.h"
#include <tuple>

namespace tcc::bench {
namespace {

/// Forward, gradient of the input, gradient of the weight of a layer with `in` and `out` features.
void addLayer(std::vector<Shape> &shapes, const char *group, int64_t tokens, int64_t in, int64_t out, int count) {
  shapes.push_back({group, tokens, out, in, false, false, count});
  shapes.push_back({group, tokens, in, out, false, true, count});
  shapes.push_back({group, in, out, tokens, true, false, count});
}

/// The same with the weight of an embedding, [out, in].
void addHead(std::vector<Shape> &shapes, const char *group, int64_t tokens, int64_t in, int64_t out) {
  shapes.push_back({group, tokens, out, in, false, true, 1});
  shapes.push_back({group, tokens, in, out, false, false, 1});
  shapes.push_back({group, out, in, tokens, true, false, 1});
}

} // namespace

std::string Shape::text() const {
  return (batch > 1 ? std::to_string(batch) + " of " : std::string()) + std::to_string(m) + " x " + std::to_string(n) +
         " x " + std::to_string(k) + (transposeA ? " t" : " n") + (transposeB ? "t" : "n");
}

std::vector<Shape> allShapes() {
  std::vector<Shape> shapes;
  for (auto [group, tokens, width, layers, vocabulary] :
       {std::tuple{"char", 4096, 384, 6, 65}, {"gpt2", 1024, 768, 12, 50304}}) {
    addLayer(shapes, group, tokens, width, 3 * width, layers);
    addLayer(shapes, group, tokens, width, width, layers);
    addLayer(shapes, group, tokens, width, 4 * width, layers);
    addLayer(shapes, group, tokens, 4 * width, width, layers);
    addHead(shapes, group, tokens, width, vocabulary);
  }
  const Shape others[] = {{"odd", 31, 65, 2},
                          {"odd", 64, 64, 64},
                          {"odd", 100, 100, 100},
                          {"odd", 257, 255, 129},
                          {"odd", 1, 768, 768},
                          {"odd", 1, 3072, 768},
                          {"odd", 1, 768, 3072, false, true},
                          {"odd", 768, 1, 768},
                          {"odd", 4096, 1, 384},
                          {"odd", 1, 50257, 768, false, true},
                          {"odd", 8, 3072, 768},
                          {"odd", 16, 768, 768, false, true},
                          {"odd", 384, 65, 4096, true, false},
                          {"odd", 256, 1000, 384},
                          {"odd", 256, 1000, 384, false, true},
                          {"odd", 128, 50257, 64, false, true},
                          {"odd", 100000, 16, 16},
                          {"odd", 16, 16, 100000, true, false},
                          {"batched", 256, 256, 64, false, true, 0, 96},
                          {"batched", 256, 64, 256, false, false, 0, 96},
                          {"batched", 256, 64, 256, true, false, 0, 96},
                          {"batched", 32, 32, 16, false, true, 0, 512},
                          {"batched", 1024, 1024, 64, false, true, 0, 12},
                          {"small", 64, 96, 33, false, false, 1},
                          {"small", 64, 33, 96, false, true, 1},
                          {"small", 33, 96, 64, true, false, 1},
                          {"small", 5, 7, 9, true, true, 1, 3}};
  shapes.insert(shapes.end(), std::begin(others), std::end(others));
  return shapes;
}

runtime::GemmDesc descOf(const Shape &shape, runtime::DType dtype) {
  auto layout = [dtype, &shape](int64_t rows, int64_t columns, bool transposed) {
    runtime::MatrixLayout made{dtype, transposed ? 1 : columns, transposed ? rows : 1, {}};
    made.batchStrides[1] = shape.batch > 1 ? rows * columns : 0;
    return made;
  };
  runtime::GemmDesc desc;
  desc.batch = {1, shape.batch};
  desc.m = shape.m, desc.n = shape.n, desc.k = shape.k;
  desc.a = layout(shape.m, shape.k, shape.transposeA);
  desc.b = layout(shape.k, shape.n, shape.transposeB);
  desc.c = layout(shape.m, shape.n, false);
  return desc;
}

} // namespace tcc::bench
