// KeyValueCache: the keys and values that attention has computed for a text so far. With them each layer computes one
// row for the next token, instead of the whole text again.
#pragma once
#include "models/model_config.h"
#include <tcc/tcc.h>

#include <cstdint>
#include <vector>

namespace tcc::models {

class Model;

/// The states of one text's keys and values: two a layer, [positions, key heads, size], keys as attention reads them
/// (after norms and turns). Rows of tokens that are not there yet are 0. Copies share the states.
class KeyValueCache {
public:
  /// A cache for up to `positions` tokens. `dtype` is bf16 if attention multiplies bf16, which would round keys and
  /// values to that type anyway.
  KeyValueCache(const ModelConfig &config, int64_t positions, DType dtype);

  int64_t positions() const { return length; }
  /// How many rows attention reads for the last one of so many tokens: these and a few more, up to a power of two, so
  /// that a long text needs few functions. A text that grows costs what its length costs, not what the context's does.
  int64_t rowsRead(int64_t tokens) const;
  const State &keys(size_t layer) const { return keyStates[layer]; }
  const State &values(size_t layer) const { return valueStates[layer]; }

private:
  int64_t length;
  std::vector<State> keyStates, valueStates;
};

/// A forward pass over one row of tokens [1, T] that fills a cache or goes on from one; for traced functions, one
/// object for each pass.
class CachedText {
public:
  /// The tokens begin the text; the first `count` (i32 [1]) of them count. The cache then has these and no others.
  static CachedText beginning(const KeyValueCache &cache, const Tensor &count);
  /// The only token stands at `position` (i32 [1]), which is below `rows`, and the cache has all tokens before it. The
  /// cache then has it too. Attention reads the cache's first `rows` rows and no others.
  static CachedText next(const KeyValueCache &cache, const Tensor &position, int64_t rows);

  /// The position (i32 [1]) of the only token; undefined where the tokens begin the text.
  const Tensor &position() const { return place; }
  /// Causal attention of the next layer: q [1, heads, T, size], k and v [1, key heads, T, size].
  Tensor attention(const Model &model, const Tensor &q, const Tensor &k, const Tensor &v);

private:
  explicit CachedText(const KeyValueCache &cache) : cache(cache) {}

  KeyValueCache cache;
  Tensor count, place; // only one of the two is defined
  int64_t rows = 0;    // with `place`
  size_t layer = 0;

  Tensor written(const State &state, const Tensor &x) const;
};

} // namespace tcc::models
