// The code of one instruction set. A file kernel_*.cpp includes it once, in an unnamed namespace, so that no function
// of one instruction set is ever taken for another's. Before that the file defines:
//   TCC_VECTOR_CODE      the attribute of functions that may use the instructions; TCC_INLINE: the same with inlining
//   lanes                floats of a vector: 4, 8 or 16
//   registers            vectors that the CPU holds
//   blockRows            rows of C that registers hold, of two vectors each
//   packedDepth          how many depths a float of a panel holds: 1, or 2 as bf16, the first one in its low half
//   multiplyPacked       adds to c the products of the numbers that a and b hold, which are floats of two panels
//   broadcast            one float in all lanes
//   multiplyAdd          a * b + c
//   lowPairs, highPairs  from each four lanes of a and b: a0 b0 a1 b1, and a2 b2 a3 b3
//   lowHalves, highHalves                                 a0 a1 b0 b1, and a2 a3 b2 b3
//   joinFours            four numbers each of lines 0, 4, 8, …, as many lines as fill a vector
//   joinPacked           the same with the numbers that four floats of a panel hold
//   widen, narrow        convert Halves to Vector and back, for the tag F16; narrow rounds to nearest, ties to even

constexpr int64_t blockColumns = 2 * lanes;

TCC_INLINE Vector widen(Halves x, Bf16) {
  return reinterpret_cast<Vector>(__builtin_convertvector(x, Bits) << 16);
}

TCC_INLINE Halves narrow(Vector x, Bf16) {
  const Bits bits = reinterpret_cast<Bits>(x);
  const Bits rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16, quiet = bits >> 16 | 0x40;
  const auto isNan = reinterpret_cast<Bits>(x != x);
  return __builtin_convertvector((rounded & ~isNan) | (quiet & isNan), Halves);
}

template <typename T>
TCC_INLINE Vector load(const T *from) {
  if constexpr (std::is_same_v<T, float>)
    return *reinterpret_cast<const LooseVector *>(from);
  else
    return widen(*reinterpret_cast<const LooseHalves *>(from), T());
}

template <typename T>
TCC_INLINE void store(T *to, Vector x) {
  if constexpr (std::is_same_v<T, float>)
    *reinterpret_cast<LooseVector *>(to) = x;
  else
    *reinterpret_cast<LooseHalves *>(to) = narrow(x, T());
}

template <typename T>
TCC_INLINE float widenOne(T x) {
  if constexpr (std::is_same_v<T, float>)
    return x;
  else
    return std::is_same_v<T, Bf16> ? bf16ToFloat(x.bits) : f16ToFloat(x.bits);
}

template <typename T>
TCC_INLINE void storeOne(T *to, float x) {
  if constexpr (std::is_same_v<T, float>)
    *to = x;
  else
    to->bits = std::is_same_v<T, Bf16> ? floatToBf16(x) : floatToF16(x);
}

/// The numbers of one vector of lines at one depth (or two), as panels hold them. The numbers of the next depth are
/// `step` further.
template <typename T>
TCC_INLINE Vector loadPacked(const T *from, int64_t step) {
  if constexpr (packedDepth == 1)
    return load(from);
  const Bits low = __builtin_convertvector(*reinterpret_cast<const LooseHalves *>(from), Bits);
  const Bits high = __builtin_convertvector(*reinterpret_cast<const LooseHalves *>(from + step), Bits);
  return reinterpret_cast<Vector>(low | high << 16);
}

/// Element i of x[j] becomes element j of x[i], in each four lanes.
TCC_INLINE void transpose(Vector (&x)[4]) {
  const Vector low01 = lowPairs(x[0], x[1]), high01 = highPairs(x[0], x[1]);
  const Vector low23 = lowPairs(x[2], x[3]), high23 = highPairs(x[2], x[3]);
  x[0] = lowHalves(low01, low23);
  x[1] = highHalves(low01, low23);
  x[2] = lowHalves(high01, high23);
  x[3] = highHalves(high01, high23);
}

/// The float of a panel for one line at one depth (or two). `line` points to the line's number there; the next depth's
/// number is `step` further, and `rest` says how many depths are left.
template <typename T>
TCC_INLINE float packedOne(const T *line, int64_t step, int64_t rest) {
  if constexpr (packedDepth == 1)
    return widenOne(*line);
  else
    return std::bit_cast<float>(line[0].bits | (rest > 1 ? uint32_t{line[step].bits} << 16 : 0));
}

/// Depth is contiguous: four floats of each line are transposed at a time. What a vector writes beyond a panel's last
/// line is overwritten by the next floats of depth.
template <typename T, int64_t width>
TCC_VECTOR_CODE void packAlongDepth(const ProductOperand &operand, int64_t firstPanel, int64_t panels,
                                    const Panels &to) {
  constexpr int64_t groups = (width + lanes - 1) / lanes;
  for (int64_t panel = firstPanel; panel < firstPanel + panels; ++panel) {
    const T *lines[groups * lanes]; // where the operand has no more lines, its last one again
    for (int64_t i = 0; i < groups * lanes; ++i)
      lines[i] = static_cast<const T *>(operand.data) +
                 std::min(panel * width + std::min(i, width - 1), operand.lines - 1) * operand.lineStride;
    float *out = to.data + panel * to.stride;
    int64_t depth = 0;
    for (; depth + 4 * packedDepth <= operand.depth; depth += 4 * packedDepth) {
      if (depth % (64 / static_cast<int64_t>(sizeof(T))) == 0) // prefetches the next panel's lines
#pragma GCC unroll 16
        for (int64_t i = 0; i < width; ++i)
          __builtin_prefetch(lines[i] + width * operand.lineStride + depth);
      Vector x[groups][4];
#pragma GCC unroll 4
      for (int64_t group = 0; group < groups; ++group) {
        const T *const *from = lines + group * lanes;
#pragma GCC unroll 4
        for (int64_t i = 0; i < 4; ++i)
          x[group][i] = joinPacked(from + i, depth);
        transpose(x[group]);
      }
#pragma GCC unroll 4
      for (int64_t i = 0; i < 4; ++i, out += width)
#pragma GCC unroll 4
        for (int64_t group = 0; group < groups; ++group)
          store(out + group * lanes, x[group][i]);
    }
    for (; depth < operand.depth; depth += packedDepth, out += width)
      for (int64_t i = 0; i < width; ++i)
        out[i] = packedOne(lines[i] + depth, 1, operand.depth - depth);
  }
}

/// Lines are contiguous: each row of memory is walked to the end of the last panel before the next row is begun.
template <typename T, int64_t width>
TCC_VECTOR_CODE void packAlongLines(const ProductOperand &operand, int64_t firstPanel, int64_t panels,
                                    const Panels &to) {
  constexpr int64_t groups = (width + lanes - 1) / lanes;
  constexpr int64_t rowsAhead = 8 * packedDepth, line = 64 / static_cast<int64_t>(sizeof(T));
  const int64_t firstLine = firstPanel * width;
  // How many panels have all their vectors within the operand.
  const int64_t whole = std::clamp<int64_t>((operand.lines - firstLine - groups * lanes + width) / width, 0, panels);
  for (int64_t depth = 0; depth < operand.depth; depth += packedDepth) {
    const T *from = static_cast<const T *>(operand.data) + depth * operand.depthStride + firstLine;
    float *out = to.data + firstPanel * to.stride + depth / packedDepth * width;
    const bool isWhole = depth + packedDepth <= operand.depth;
    int64_t panel = 0;
    for (; panel < whole && isWhole; ++panel, from += width, out += to.stride) {
#pragma GCC unroll 2
      for (int64_t i = 0; i < packedDepth; ++i)
#pragma GCC unroll 2
        for (int64_t at = 0; at < width; at += line)
          __builtin_prefetch(from + (rowsAhead + i) * operand.depthStride + at);
#pragma GCC unroll 4
      for (int64_t group = 0; group < groups; ++group)
        store(out + group * lanes, loadPacked(from + group * lanes, operand.depthStride));
    }
    for (; panel < panels; ++panel, from += width, out += to.stride)
      for (int64_t i = 0; i < width; ++i)
        out[i] = firstLine + panel * width + i < operand.lines
                     ? packedOne(from + i, operand.depthStride, operand.depth - depth)
                     : 0.0f;
  }
}

template <int64_t width, typename T>
void packOf(const ProductOperand &operand, int64_t firstPanel, int64_t panels, const Panels &to) {
  (operand.depthStride == 1 ? packAlongDepth<T, width> : packAlongLines<T, width>)(operand, firstPanel, panels, to);
}

template <int64_t width>
void pack(const ProductOperand &operand, int64_t firstPanel, int64_t panels, const Panels &to) {
  if constexpr (packedDepth == 2)
    packOf<width, Bf16>(operand, firstPanel, panels, to);
  else
    byType(operand.dtype, [&](auto number) { packOf<width, decltype(number)>(operand, firstPanel, panels, to); });
}

/// Multiplies and adds what registers hold, `turns` times for each of a number of sums that do not wait for each other.
/// Gives the number of operations.
TCC_VECTOR_CODE __attribute__((noinline)) double multiplyInRegisters(int64_t turns) {
  constexpr int64_t sums = 12;
  const float half = 0.5f;
  Vector x = broadcast(&half), sum[sums] = {};
  for (int64_t turn = 0; turn < turns; ++turn)
#pragma GCC unroll 16
    for (int64_t i = 0; i < sums; ++i) {
      asm volatile("" : "+x"(x)); // so that no multiplication is taken out of the loop
      sum[i] = multiplyPacked(x, x, sum[i]);
    }
#pragma GCC unroll 16
  for (int64_t i = 0; i < sums; ++i)
    asm volatile("" : : "x"(sum[i]));
  return 2.0 * sums * lanes * packedDepth * static_cast<double>(turns);
}

/// Where the sums of a block of registers are stored, in whole vectors.
struct Sums {
  float *to;
  int64_t stride;
  bool adds;         // whether they are added to what is there
  const float *bias; // or null
};

/// Walks over the cache lines of what is upcoming.
class UpcomingLines {
public:
  explicit UpcomingLines(const Upcoming &upcoming)
      : next(upcoming.data), end(upcoming.data + upcoming.bytes), bytes(upcoming.bytes), stride(upcoming.stride),
        rowsLeft(upcoming.bytes > 0 ? upcoming.rows : 0) {}

  int64_t count() const { return rowsLeft * (ceilDiv(bytes, 64) + 1); } // about, from the start
  TCC_INLINE void prefetch() {
    if (rowsLeft == 0)
      return;
    __builtin_prefetch(next, 0, 2);
    next += 64;
    if (next < end)
      return;
    end += stride;
    next = end - bytes;
    --rowsLeft;
  }

private:
  const char *next, *end;
  int64_t bytes, stride, rowsLeft;
};

/// What is prefetched to the second-level cache for each row of registers that are multiplied.
struct Ahead {
  const float *panel; // from here on of the next right panel
  int64_t linesOfRow; // of it, of 64 bytes
  UpcomingLines &upcoming;
  int64_t upcomingOfRow;
};

/// Adds the products of one float of depth of each line.
template <int64_t rows, int64_t vectors>
TCC_INLINE void addProducts(const float *left, const float *right, Vector (&sum)[rows][vectors]) {
  Vector columns[vectors];
#pragma GCC unroll 2
  for (int64_t j = 0; j < vectors; ++j)
    columns[j] = load(right + j * lanes);
#pragma GCC unroll 16
  for (int64_t i = 0; i < rows; ++i) {
    const Vector x = broadcast(left + i);
#pragma GCC unroll 2
    for (int64_t j = 0; j < vectors; ++j)
      sum[i][j] = multiplyPacked(x, columns[j], sum[i][j]);
  }
}

/// Floats of depth that one turn of the loop multiplies. Where another program runs on the same core, the number of
/// instructions limits the loop, its own counter's and branch's too.
constexpr int64_t depthOfTurn = registers == 16 ? 8 : 4;

/// Adds the products of `depth` floats of each line, a multiple of depthOfTurn, and moves on by them.
template <int64_t rows, int64_t vectors>
TCC_INLINE void addTurns(const float *&left, const float *&right, int64_t depth, Vector (&sum)[rows][vectors]) {
  for (int64_t k = 0; k < depth; k += depthOfTurn, left += depthOfTurn * blockRows, right += depthOfTurn * blockColumns)
#pragma GCC unroll 8
    for (int64_t i = 0; i < depthOfTurn; ++i)
      addProducts(left + i * blockRows, right + i * blockColumns, sum);
}

/// Multiplies `rows` rows of the left panel with the first `vectors` vectors of the right panel's columns. Prefetches
/// are spread over the depth: a CPU waits when too many lines are on their way.
template <int64_t rows, int64_t vectors>
TCC_VECTOR_CODE __attribute__((noinline)) void multiplyPanels(const float *left, const float *right, int64_t depth,
                                                              const Sums &sums, const Ahead &ahead) {
  Vector sum[rows][vectors];
#pragma GCC unroll 16
  for (int64_t i = 0; i < rows; ++i)
#pragma GCC unroll 2
    for (int64_t j = 0; j < vectors; ++j)
      sum[i][j] = Vector{};
  const int64_t part = depth / (rows + 2) / depthOfTurn * depthOfTurn;
  const float *row = sums.to, *next = ahead.panel;
  for (int64_t i = 0; i < rows; ++i, row += sums.stride) {
    __builtin_prefetch(row, 1, 3);
    __builtin_prefetch(row + vectors * lanes - 1, 1, 3);
    for (int64_t line = 0; line < ahead.linesOfRow; ++line, next += 16)
      __builtin_prefetch(next, 0, 2);
    for (int64_t line = 0; line < ahead.upcomingOfRow; ++line)
      ahead.upcoming.prefetch();
    addTurns(left, right, part, sum);
  }
  const int64_t rest = depth - rows * part, turns = rest / depthOfTurn * depthOfTurn;
  addTurns(left, right, turns, sum);
  for (int64_t k = turns; k < rest; ++k, left += blockRows, right += blockColumns)
    addProducts(left, right, sum);
#pragma GCC unroll 16
  for (int64_t i = 0; i < rows; ++i)
#pragma GCC unroll 2
    for (int64_t j = 0; j < vectors; ++j) {
      float *to = sums.to + i * sums.stride + j * lanes;
      Vector x = sum[i][j];
      if (sums.bias)
        x += load(sums.bias + j * lanes);
      if (sums.adds)
        x += load(to);
      store(to, x);
    }
}

template <int64_t vectors>
void multiplyRows(int64_t rows, const float *left, const float *right, int64_t depth, const Sums &sums,
                  const Ahead &ahead) {
  static constexpr auto ofRows = []<int64_t... i>(std::integer_sequence<int64_t, i...>) {
    return std::array{multiplyPanels<i + 1, vectors>...};
  }(std::make_integer_sequence<int64_t, blockRows>());
  ofRows[static_cast<size_t>(rows - 1)](left, right, depth, sums, ahead);
}

/// C = or += the sums, rounded to C's type.
template <typename T>
TCC_VECTOR_CODE void finish(const float *sums, int64_t sumsStride, int64_t rows, int64_t columns, T *c,
                            const Results &results) {
  for (int64_t i = 0; i < rows; ++i, sums += sumsStride, c += results.stride) {
    int64_t j = 0;
    for (; j + lanes <= columns; j += lanes)
      store(c + j, results.accumulate ? load(sums + j) + load(c + j) : load(sums + j));
    for (; j < columns; ++j)
      storeOne(c + j, results.accumulate ? sums[j] + widenOne(c[j]) : sums[j]);
  }
}

/// Computes a block, for C of type T.
template <typename T>
void multiplyInto(const Block &block) {
  const Results &results = block.results;
  alignas(64) float own[blockRows * blockColumns];
  UpcomingLines upcoming(block.upcoming);
  const int64_t leftPanels = ceilDiv(block.rows, blockRows), rightPanels = ceilDiv(block.columns, blockColumns);
  const int64_t panelLines = ceilDiv(block.depth * blockColumns, 16); // of a right panel, of 64 bytes
  const int64_t linesOfRow = ceilDiv(panelLines, leftPanels * blockRows);
  Ahead ahead{nullptr, 0, upcoming, ceilDiv(upcoming.count(), leftPanels * rightPanels * blockRows)};
  for (int64_t column = 0; column < block.columns; column += blockColumns) {
    const float *right = block.right.data + column / blockColumns * block.right.stride, *left = block.left.data;
    const int64_t columns = std::min(blockColumns, block.columns - column);
    ahead.panel = right + block.right.stride;
    ahead.linesOfRow = column + blockColumns < block.columns ? linesOfRow : 0;
    for (int64_t row = 0; row < block.rows; row += blockRows, left += block.left.stride) {
      const int64_t rows = std::min(blockRows, block.rows - row);
      T *c = static_cast<T *>(results.c) + row * results.stride + column;
      Sums sums{own, blockColumns, false, results.bias ? results.bias + column : nullptr};
      if (results.sums) {
        sums.to = results.sums + row * results.sumsStride + column;
        sums.stride = results.sumsStride;
        sums.adds = results.isBegun;
      }
      if constexpr (std::is_same_v<T, float>)
        if (columns % lanes == 0) {
          sums.to = c;
          sums.stride = results.stride;
          sums.adds = results.accumulate;
        }
      (columns <= lanes ? multiplyRows<1> : multiplyRows<2>)(rows, left, right, block.depth, sums, ahead);
      ahead.panel += blockRows * ahead.linesOfRow * 16;
      if (results.isLast && static_cast<void *>(sums.to) != c)
        finish(sums.to, sums.stride, rows, columns, c, results);
    }
  }
}

void multiply(const Block &block) {
  byType(block.results.dtype, [&](auto number) { multiplyInto<decltype(number)>(block); });
}
