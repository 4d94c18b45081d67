// Random traced programs (ops, values asked for, branches and loops on data, states, gradients) are compared with the
// same programs run op by op in double, with gradients by a tape that is written here. They are called with three
// shapes in every order, and throw exceptions after breaks. TCC_BREAK_PROGRAMS=2000 runs so many programs,
// TCC_BREAK_FIRST=17 begins with program 17.
#include "tests/environment.h"
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <gtest/gtest.h>
#include <memory>
#include <random>
#include <tcc/tcc.h>

using namespace tcc;

namespace {

constexpr int64_t width = 4;

/// A value of the tape with its gradient. Its shape is [rows, width]; [width] if rows is 0; a scalar if rows is -1.
struct Node {
  int64_t rows;
  std::vector<double> value, grad;
  std::function<void()> back = [] {};
};
using Ref = Node *;

struct Stop {};

/// What both ways of running a program share: the decisions, and where it stops.
struct Host {
  int64_t stopAt = -1, breaks = 0;
  bool isClose = false; // whether rounding might have turned a decision
  void count() {
    if (breaks++ == stopAt)
      throw Stop();
  }
  bool decide(double value, double bound) {
    isClose |= !(std::abs(value - bound) > 1e-3);
    return value > bound;
  }
};

class Tape {
public:
  explicit Tape(Host &host) : host(host) {}
  Ref make(int64_t rows, std::vector<double> value) {
    nodes.push_back(std::make_unique<Node>(Node{rows, std::move(value), {}}));
    nodes.back()->grad.resize(nodes.back()->value.size());
    return nodes.back().get();
  }
  /// f(a, b) of each element, where b is broadcast to a's shape; da and db are the derivatives of f.
  template <typename F, typename Da, typename Db>
  Ref zip(Ref a, Ref b, F f, Da da, Db db) {
    const auto at = [=](size_t i) { return b->rows == a->rows ? i : b->rows == 0 ? i % size_t(width) : 0; };
    std::vector<double> values;
    for (size_t i = 0; i < a->value.size(); ++i)
      values.push_back(f(a->value[i], b->value[at(i)]));
    Ref made = make(a->rows, std::move(values));
    made->back = [=] {
      for (size_t i = 0; i < a->value.size(); ++i) {
        const double x = a->value[i], y = b->value[at(i)];
        a->grad[i] += made->grad[i] * da(x, y);
        b->grad[at(i)] += made->grad[i] * db(x, y);
      }
    };
    return made;
  }
  Ref add(Ref a, Ref b) {
    return zip(a, b, std::plus(), [](double, double) { return 1.0; }, [](double, double) { return 1.0; });
  }
  Ref mul(Ref a, Ref b) {
    return zip(a, b, std::multiplies(), [](double, double y) { return y; }, [](double x, double) { return x; });
  }
  Ref scale(Ref a, double by) { return mul(a, make(-1, {static_cast<double>(static_cast<float>(by))})); }
  Ref tanh(Ref a) {
    return zip(
        a, make(-1, {0}), [](double x, double) { return std::tanh(x); },
        [](double x, double) { return 1 - std::tanh(x) * std::tanh(x); }, [](double, double) { return 0.0; });
  }
  Ref mean(Ref a) {
    double sum = 0;
    for (double x : a->value)
      sum += x;
    const double count = static_cast<double>(a->value.size());
    Ref made = make(-1, {sum / count});
    made->back = [=] {
      for (double &g : a->grad)
        g += made->grad[0] / count;
    };
    return made;
  }
  /// Each row divided by its length: a / sqrt(1 + sum(a²)).
  Ref unit(Ref a) {
    const auto rows = static_cast<size_t>(a->rows), columns = static_cast<size_t>(width);
    std::vector<double> lengths(rows, 1), values;
    for (size_t i = 0; i < a->value.size(); ++i)
      lengths[i / columns] += a->value[i] * a->value[i];
    for (size_t i = 0; i < a->value.size(); ++i)
      values.push_back(a->value[i] / std::sqrt(lengths[i / columns]));
    Ref made = make(a->rows, std::move(values));
    made->back = [=] {
      for (size_t row = 0; row < rows; ++row) {
        double dot = 0;
        for (size_t i = row * columns; i < (row + 1) * columns; ++i)
          dot += made->grad[i] * made->value[i];
        for (size_t i = row * columns; i < (row + 1) * columns; ++i)
          a->grad[i] += (made->grad[i] - made->value[i] * dot) / std::sqrt(lengths[row]);
      }
    };
    return made;
  }
  /// a · (bᵀ · c), by way of a [width, width] matrix.
  Ref mix(Ref a, Ref b, Ref c) {
    const auto rows = static_cast<size_t>(a->rows), n = static_cast<size_t>(width);
    std::vector<double> inner(n * n), values(rows * n);
    for (size_t r = 0; r < rows; ++r)
      for (size_t i = 0; i < n * n; ++i)
        inner[i] += b->value[r * n + i / n] * c->value[r * n + i % n];
    for (size_t r = 0; r < rows; ++r)
      for (size_t i = 0; i < n * n; ++i)
        values[r * n + i % n] += a->value[r * n + i / n] * inner[i];
    Ref made = make(a->rows, std::move(values));
    made->back = [=] {
      std::vector<double> slope(n * n);
      for (size_t r = 0; r < rows; ++r)
        for (size_t i = 0; i < n * n; ++i) {
          slope[i] += a->value[r * n + i / n] * made->grad[r * n + i % n];
          a->grad[r * n + i / n] += inner[i] * made->grad[r * n + i % n];
        }
      for (size_t r = 0; r < rows; ++r)
        for (size_t i = 0; i < n * n; ++i) {
          b->grad[r * n + i / n] += slope[i] * c->value[r * n + i % n];
          c->grad[r * n + i % n] += slope[i] * b->value[r * n + i / n];
        }
    };
    return made;
  }
  double item(Ref a) { return host.count(), a->value[0]; }
  double first(Ref a) { return host.count(), a->value[0]; }
  bool above(Ref a, double bound) { return host.count(), host.decide(a->value[0], bound); }
  std::vector<Ref> gradient(Ref loss, std::vector<Ref> wrt) {
    for (auto &node : nodes)
      std::fill(node->grad.begin(), node->grad.end(), 0);
    loss->grad[0] = 1;
    for (size_t i = nodes.size(); i-- > 0;)
      nodes[i]->back();
    std::vector<Ref> result;
    for (Ref w : wrt)
      result.push_back(make(w->rows, w->grad));
    return result;
  }
  void assign(size_t state, Ref value) { next[state] = value->value; }
  std::vector<double> next[2];

private:
  Host &host;
  std::vector<std::unique_ptr<Node>> nodes;
};

/// The functions of Tape, for traced tensors.
class Traced {
public:
  Traced(Host &host, const State &v, const State &w) : host(host), states{v, w} {}
  Tensor add(Tensor a, Tensor b) { return a + b; }
  Tensor mul(Tensor a, Tensor b) { return a * b; }
  Tensor scale(Tensor a, double by) { return a * by; }
  Tensor tanh(Tensor a) { return tcc::tanh(a); }
  Tensor mean(Tensor a) { return tcc::mean(a); }
  Tensor unit(Tensor a) { return a / tcc::sqrt(1 + tcc::sum(a * a, -1, KeepDims::yes)); }
  Tensor mix(Tensor a, Tensor b, Tensor c) { return matmul(a, matmul(tcc::transpose(b, {1, 0}), c)); }
  double item(Tensor a) {
    const double value = a.item();
    return host.count(), value;
  }
  double first(Tensor a) {
    const double value = a.toHost().item(0);
    return host.count(), value;
  }
  bool above(Tensor a, double bound) {
    const bool result = bool(a > bound);
    return host.count(), result;
  }
  std::vector<Tensor> gradient(Tensor loss, std::vector<Tensor> wrt) { return tcc::gradient(loss, wrt); }
  void assign(size_t state, Tensor value) { tcc::assign(states[state], value); }

private:
  Host &host;
  State states[2];
};

double bounded(double x) {
  return x / (1 + std::abs(x));
}

/// Program `seed` on x [n, width] and the states v [width] and w: {loss, a matrix}.
template <typename Value, typename Machine>
std::vector<Value> program(uint32_t seed, Machine &m, Value x, Value v, Value w) {
  std::mt19937 random(seed);
  const auto below = [&](uint32_t n) { return random() % n; };
  std::vector<Value> matrices{x, m.tanh(m.mul(x, v))}, scalars{w, m.mean(x)};
  const auto matrix = [&] { return matrices[below(uint32_t(matrices.size()))]; };
  const auto scalar = [&] { return scalars[below(uint32_t(scalars.size()))]; };
  if (below(2))
    m.assign(1, m.scale(w, 0.9));
  const bool takesGradient = below(3) > 0;
  for (uint32_t step = 0, steps = 4 + below(8); step < steps; ++step) {
    Value a = matrix(), b = matrix(), s = scalar();
    const double c = -0.5 + 0.1 * below(11);
    switch (below(13)) {
    case 0:
      matrices.push_back(m.add(a, b));
      break;
    case 1:
      matrices.push_back(m.tanh(m.mul(a, b)));
      break;
    case 2:
      matrices.push_back(m.mul(a, v));
      break;
    case 3:
      matrices.push_back(m.tanh(m.mul(a, s)));
      break;
    case 4:
      scalars.push_back(m.mean(m.mul(a, b)));
      break;
    case 5:
      matrices.push_back(m.scale(a, bounded(m.item(s))));
      break;
    case 6:
      matrices.push_back(m.above(s, c) ? m.scale(a, 0.5) : m.tanh(b));
      break;
    case 7:
      scalars.push_back(m.scale(s, bounded(m.first(a))));
      break;
    case 8: // ends by data
      for (int turn = 0; turn < 4 && m.above(m.mean(m.mul(a, a)), 0.2); ++turn)
        a = m.scale(a, 0.5);
      matrices.push_back(a);
      break;
    case 9:
      if (m.above(m.mean(a), c))
        scalars.push_back(m.mul(s, m.mean(b)));
      break;
    case 10:
      matrices.push_back(m.tanh(m.add(a, b)));
      break;
    case 11:
      matrices.push_back(m.unit(m.add(a, b)));
      break;
    case 12:
      matrices.push_back(m.tanh(m.mix(a, b, matrix())));
      break;
    }
  }
  Value last = matrices.back();
  Value loss = m.add(m.mean(m.mul(last, last)), m.mul(scalars.back(), w));
  if (takesGradient) {
    const std::vector<Value> gradients = m.gradient(loss, {v, w});
    if (below(3) == 0 && m.above(m.mean(m.mul(gradients[0], gradients[0])), 0.05))
      loss = m.scale(loss, 2);
    m.assign(0, m.add(v, m.scale(gradients[0], -0.1)));
  } else {
    m.assign(0, m.scale(v, 0.95));
  }
  return {loss, last};
}

std::vector<float> bitsOf(const State &state) {
  const auto values = state.read<float>();
  return {values.begin(), values.end()};
}

bool sameBits(const std::vector<float> &a, const std::vector<float> &b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

/// One program with its states, from its first call to its last.
class Life {
public:
  Life(uint32_t seed, FunctionOptions options)
      : seed(seed), random(seed + 1), v("v", {width}), w("w", {}),
        step(compile(
            "program",
            [this, seed](Tensor x) {
              Traced traced(host, v, w);
              return program<Tensor>(seed, traced, x, Tensor(v), Tensor(w));
            },
            std::move(options))) {
    for (float &value : v.data<float>())
      value = draw();
    w.data<float>()[0] = draw();
  }

  /// One call with all that goes in and comes out.
  struct Call {
    Array x;
    std::vector<float> v, w, bits;
  };

  /// Calls the program and checks what it gives; false, without a call, if rounding could turn one of its decisions.
  bool check(int64_t rows) {
    Call call{Array({rows, width}), bitsOf(v), bitsOf(w), {}};
    for (float &value : call.x.data<float>())
      value = draw();
    Host expected;
    Tape tape(expected);
    const auto doubles = [](std::span<const float> values) {
      return std::vector<double>(values.begin(), values.end());
    };
    const Ref tapeV = tape.make(0, doubles(call.v)), tapeW = tape.make(-1, doubles(call.w));
    const auto results = program<Ref>(seed, tape, tape.make(rows, doubles(call.x.read<float>())), tapeV, tapeW);
    if (expected.isClose)
      return false;
    std::vector<int64_t> stops;
    if (expected.breaks > 0 && random() % 3 == 0)
      stops.push_back(static_cast<int64_t>(random() % static_cast<uint32_t>(expected.breaks)));
    for (int64_t stop = 0; past.size() == 2 && stop < expected.breaks; ++stop) // after each break, in the third call
      stops.push_back(stop);
    for (const int64_t stop : stops) {
      host = {.stopAt = stop};
      EXPECT_THROW(step(call.x), Stop);
      EXPECT_TRUE(sameBits(bitsOf(v), call.v) && sameBits(bitsOf(w), call.w)) << "an exception has changed a state";
    }
    host = {};
    const std::vector<Array> got = step(call.x);
    EXPECT_EQ(host.breaks, expected.breaks);
    compare(got[0].read<float>(), results[0]->value, "loss");
    compare(got[1].read<float>(), results[1]->value, "matrix");
    for (size_t i = 0; i < 2; ++i)
      if (!tape.next[i].empty())
        compare((i ? w : v).read<float>(), tape.next[i], i ? "w" : "v");
    call.bits = allBits(got);
    past.push_back(std::move(call));
    repeat(past.back());
    return true;
  }

  /// Every call once more, in another order: each has the bits that it had.
  void repeatAll() {
    std::shuffle(past.begin(), past.end(), random);
    for (const Call &call : past)
      repeat(call);
  }

  int64_t misses() const { return step.counters().cache.misses; }
  int64_t waits() const {
    int64_t sum = 0;
    for (const BreakSite &site : step.report().sites)
      sum += site.inStep;
    return sum;
  }
  int64_t otherBits = 0, repeated = 0;

private:
  uint32_t seed;
  std::mt19937 random;
  Host host;
  State v, w;
  Function step;
  std::vector<Call> past;

  std::vector<float> allBits(const std::vector<Array> &results) const {
    std::vector<float> bits;
    for (const Array &array : results)
      bits.insert(bits.end(), array.read<float>().begin(), array.read<float>().end());
    for (const State *state : {&v, &w})
      bits.insert(bits.end(), state->read<float>().begin(), state->read<float>().end());
    return bits;
  }

  /// Makes the call once more, from the states that it had then, and puts the present states back.
  void repeat(const Call &call) {
    const std::vector<float> oldV = bitsOf(v), oldW = bitsOf(w);
    set(call.v, call.w);
    host = {};
    const bool same = sameBits(allBits(step(call.x)), call.bits);
    EXPECT_TRUE(same) << "other bits along one path, " << call.x.shape().text() << ", repetition " << repeated;
    otherBits += !same;
    ++repeated;
    set(oldV, oldW);
  }
  void set(const std::vector<float> &newV, const std::vector<float> &newW) {
    std::copy(newV.begin(), newV.end(), v.data<float>().begin());
    w.data<float>()[0] = newW[0];
  }

  float draw() { return -1 + 2 * static_cast<float>(random() % 1024) / 1024; }

  void compare(std::span<const float> got, const std::vector<double> &expected, const char *what) {
    ASSERT_EQ(got.size(), expected.size());
    for (size_t i = 0; i < got.size(); ++i)
      EXPECT_NEAR(got[i], expected[i], 2e-4 * (1 + std::abs(expected[i]))) << what << " " << i;
  }
};

TEST(RandomBreaks, ProgramsEqualThoseThatAreNotCompiled) {
  const auto first = static_cast<uint32_t>(test::fromEnvironment("TCC_BREAK_FIRST", 1));
  const auto count = static_cast<uint32_t>(test::fromEnvironment("TCC_BREAK_PROGRAMS", 12));
  int64_t calls = 0, left = 0, waits = 0, misses = 0, otherBits = 0, repeated = 0;
  for (uint32_t seed = first; seed < first + count; ++seed) {
    SCOPED_TRACE("TCC_BREAK_FIRST=" + std::to_string(seed) + " TCC_BREAK_PROGRAMS=1");
    FunctionOptions options;
    options.threads = 1;
    options.checked = seed % 3 == 0;
    options.report = [](std::string_view) {};
    Life life(seed, options);
    for (int64_t rows : {1, 3, 7, 1, 3, 1, 7, 3, 1}) // every order of three shapes
      ++(life.check(rows) ? calls : left);
    life.repeatAll();
    waits += life.waits();
    misses += life.misses();
    otherBits += life.otherBits;
    repeated += life.repeated;
    if (testing::Test::HasFailure() && count == 1)
      break;
  }
  std::printf("%lld calls (%lld left out: rounding decides), %lld waits within a step, %lld compilations, %lld of "
              "%lld repeated calls with other bits\n",
              static_cast<long long>(calls), static_cast<long long>(left), static_cast<long long>(waits),
              static_cast<long long>(misses), static_cast<long long>(otherBits), static_cast<long long>(repeated));
  EXPECT_GT(calls, 4 * left);
  EXPECT_GT(waits, 0);
}

} // namespace
