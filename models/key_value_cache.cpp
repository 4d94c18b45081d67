#include "models/key_value_cache.h"
#include "models/model.h"

#include <algorithm>
#include <bit>
#include <fmt/format.h>

namespace tcc::models {

namespace {

/// [1, heads, T, size] to [T, heads, size] and back.
Tensor rowsOf(const Tensor &x) {
  return reshape(transpose(x, {0, 2, 1, 3}), {x.dim(2), x.dim(1), x.dim(3)});
}
Tensor headsOf(const Tensor &rows) {
  return transpose(reshape(rows, {1, rows.dim(0), rows.dim(1), rows.dim(2)}), {0, 2, 1, 3});
}

} // namespace

KeyValueCache::KeyValueCache(const ModelConfig &config, int64_t positions, DType dtype) : length(positions) {
  const Shape shape{positions, config.keyValueHeads(), config.headSize()};
  for (int64_t layer = 0; layer < config.layers(); ++layer) {
    keyStates.emplace_back(fmt::format("cached_keys.{}", layer), shape, dtype);
    valueStates.emplace_back(fmt::format("cached_values.{}", layer), shape, dtype);
  }
}

int64_t KeyValueCache::rowsRead(int64_t tokens) const {
  constexpr int64_t fewest = 64;
  return std::min(length, std::max(fewest, int64_t(std::bit_ceil(uint64_t(tokens)))));
}

CachedText CachedText::beginning(const KeyValueCache &cache, const Tensor &count) {
  CachedText text(cache);
  text.count = count;
  return text;
}

CachedText CachedText::next(const KeyValueCache &cache, const Tensor &position, int64_t rows) {
  CachedText text(cache);
  text.place = position;
  text.rows = rows;
  return text;
}

/// What the state is after this pass, with the rows of `x`: one that is added to a row of zeros, which is done in the
/// state's own memory and touches nothing else of it, or all of a text that begins.
Tensor CachedText::written(const State &state, const Tensor &x) const {
  Tensor rows = cast(rowsOf(x), state.dtype());
  if (place.defined())
    return scatterAdd(state, place, rows);
  const Tensor counts = iota(0, {rows.dim(0), 1, 1}) < reshape(count, {1, 1, 1});
  rows = select(counts, rows, 0);
  return pad(rows, {0, 0, 0}, {cache.positions() - rows.dim(0), 0, 0});
}

Tensor CachedText::attention(const Model &model, const Tensor &q, const Tensor &k, const Tensor &v) {
  const State &keys = cache.keys(layer), &values = cache.values(layer);
  ++layer;
  const Tensor newKeys = written(keys, k), newValues = written(values, v);
  assign(keys, newKeys);
  assign(values, newValues);
  if (!place.defined())
    return causalAttention(model, q, k, v);
  // The query heads that share a key head are rows of one matmul, since each has one query: no key is read twice.
  const Tensor queries = reshape(q, {1, k.dim(1), q.dim(1) / k.dim(1), q.dim(3)});
  const auto read = [&](const Tensor &kept) { return headsOf(cast(slice(kept, 0, 0, rows), q.dtype())); };
  const Tensor seen = iota(1, {1, rows}) <= reshape(place, {1, 1});
  return reshape(tcc::attention(queries, read(newKeys), read(newValues), seen), q.shape());
}

} // namespace tcc::models
