// Where the tensors of a case lie, how they are written and read, and how far results may be off.
#include "attention_case.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <sstream>

namespace tcc::attention_test {

using namespace tcc::cuda;

namespace {

bool isKeySide(Tensor tensor) {
  return tensor == Tensor::Key || tensor == Tensor::Value || tensor == Tensor::KeyGradient ||
         tensor == Tensor::ValueGradient;
}

bool isInput(Tensor tensor) {
  return tensor == Tensor::Query || tensor == Tensor::Key || tensor == Tensor::Value ||
         tensor == Tensor::OutputGradient;
}

template <class Visit>
void forEachRow(const Problem &problem, const Place &place, Visit &&visit) {
  std::size_t dense = 0;
  for (int batch = 0; batch < problem.batch; ++batch)
    for (int head = 0; head < place.heads; ++head)
      for (int row = 0; row < place.rows; ++row, dense += problem.headDim)
        visit(dense, place.offset + batch * place.batchStride + head * place.headStride + row * place.rowStride);
}

} // namespace

Place placeOf(const Problem &problem, Tensor tensor, bool packed) {
  Place place = {};
  place.heads = isKeySide(tensor) ? problem.keyHeads() : problem.heads;
  place.rows = isKeySide(tensor) ? problem.keys : problem.queries;
  long long d = problem.headDim;
  if (packed) {
    long long foreign = isInput(tensor) ? 1 : 0; // heads of other tensors on each side
    place.headStride = d;
    place.rowStride = (place.heads + 2 * foreign) * d;
    place.batchStride = place.rows * place.rowStride;
    place.offset = foreign * d;
  } else {
    place.rowStride = d;
    place.headStride = place.rows * d;
    place.batchStride = place.heads * place.headStride;
  }
  place.elements = std::max<std::size_t>(1, std::size_t(problem.batch * place.batchStride));
  return place;
}

std::vector<std::uint16_t> scatter(const Problem &problem, const Place &place, const std::vector<double> &dense) {
  std::vector<std::uint16_t> buffer(place.elements, 0x7fff);
  forEachRow(problem, place, [&](std::size_t from, std::size_t to) {
    for (int i = 0; i < problem.headDim; ++i)
      buffer[to + i] = roundToElement(float(dense[from + i]), problem.element);
  });
  return buffer;
}

std::vector<double> gather(const Problem &problem, const Place &place, const std::uint16_t *buffer) {
  std::vector<double> dense(std::size_t(problem.batch) * place.heads * place.rows * problem.headDim);
  forEachRow(problem, place, [&](std::size_t to, std::size_t from) {
    for (int i = 0; i < problem.headDim; ++i)
      dense[to + i] = valueOfElement(buffer[from + i], problem.element);
  });
  return dense;
}

AttentionArguments argumentsOf(const Problem &problem, bool packed, void *const (&bases)[tensorCount]) {
  AttentionArguments arguments = {};
  AttentionView *views[tensorCount] = {
      &arguments.query,          &arguments.key,           &arguments.value,       &arguments.output,
      &arguments.outputGradient, &arguments.queryGradient, &arguments.keyGradient, &arguments.valueGradient};
  for (int i = 0; i < tensorCount; ++i) {
    Place place = placeOf(problem, Tensor(i), packed);
    *views[i] = {static_cast<std::uint16_t *>(bases[i]) + place.offset, place.batchStride, place.headStride,
                 place.rowStride};
  }
  arguments.stream = problem.stream;
  arguments.dropBelow = dropThreshold(problem.dropout);
  arguments.keepScale = problem.dropout < 1 ? float(1 / (1 - problem.dropout)) : 0.0f;
  arguments.scale = float(problem.scale);
  arguments.queries = problem.queries;
  arguments.keys = problem.keys;
  arguments.heads = problem.heads;
  arguments.group = problem.group;
  arguments.diagonal = problem.diagonal;
  arguments.window = problem.window;
  arguments.batch = problem.batch;
  const auto [ofBatch, ofHead, ofQuery] = problem.biasStrides();
  arguments.biasBatchStride = ofBatch;
  arguments.biasHeadStride = ofHead;
  arguments.biasRowStride = ofQuery;
  return arguments;
}

AttentionCase caseOf(const Problem &problem, AttentionPass pass) {
  return {pass,
          problem.element == Element::Bf16 ? AttentionElement::Bf16 : AttentionElement::F16,
          problem.headDim,
          problem.causal,
          problem.dropout > 0,
          problem.window > 0,
          problem.bias != Bias::None};
}

Deviation deviation(const std::vector<double> &got, const std::vector<double> &exact,
                    const std::vector<double> &rounded, Element element, double largestTerm) {
  Deviation result;
  double largest = 0;
  double naive = 0;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    largest = std::max(largest, std::abs(exact[i]));
    naive = std::max(naive, std::abs(rounded[i] - exact[i]));
    double error = std::abs(got[i] - exact[i]);
    if (std::isnan(error))
      error = std::numeric_limits<double>::infinity();
    if (error > result.error) {
      result.error = error;
      result.worst = i;
    }
  }
  int mantissaBits = element == Element::Bf16 ? 7 : 10;
  double ulp = largest > 0 ? std::ldexp(1.0, std::ilogb(largest) - mantissaBits) : 0;
  result.allowed = std::max({3 * naive, ulp, std::ldexp(largestTerm, -20)});
  return result;
}

std::string describe(const Problem &problem, bool packed) {
  std::ostringstream text;
  text << (problem.element == Element::Bf16 ? "bf16" : "f16") << " d=" << problem.headDim << " batch=" << problem.batch
       << " heads=" << problem.heads << "/" << problem.group << " T=" << problem.queries << "x" << problem.keys;
  if (problem.causal)
    text << " causal" << (problem.diagonal < 0 ? "" : "+") << problem.diagonal;
  if (problem.window > 0)
    text << " window=" << problem.window;
  if (problem.dropout > 0)
    text << " dropout=" << problem.dropout;
  const char *const biases[] = {"", " bias of each pair and head", " bias of pairs", " bias of keys"};
  text << biases[int(problem.bias)];
  text << (packed ? " packed" : " separate");
  return text.str();
}

} // namespace tcc::attention_test
