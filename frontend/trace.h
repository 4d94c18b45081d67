// The record of one traced call, without MLIR: which op on which values with which attributes. A second recording of
// the same function replays against the first: equal ops cost a comparison, and types are taken from the record.
#pragma once
#include "frontend/tensor.h"
#include "runtime/cache.h"
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace tcc {

/// How an attribute is written as words: one word, a count and its words, or shape and dtype of the result.
enum class WordKind : uint8_t { flag, integer, number, integers, dtype, predicate, literal };

/// The word of an absent dtype.
inline constexpr uint64_t noDType = ~uint64_t{0};

/// One op of the dialect as the tracer knows it.
struct TracedOp {
  std::string_view name; ///< without "tcc."
  struct Attribute {
    std::string_view name;
    WordKind kind;
  };
  std::vector<Attribute> attributes = {}; ///< in the order of their words
  bool explicitType = false;              ///< result dtype and shape follow the attributes' words
  int32_t operandGroups = 0;              ///< of an op that counts each group's operands: how many; the last may lack
};

/// The ops that users write, in the order of Ops.td.
enum class OpKind : uint8_t {
#include "frontend/op_kinds.inc"
};
/// Every one of them.
std::span<const TracedOp> tracedOps();
const TracedOp &tracedOp(OpKind kind);

struct ValueType {
  DType dtype = DType::f32;
  Shape shape;
  bool operator==(const ValueType &) const = default;
};

struct OpRecord {
  OpKind kind = OpKind::neg;
  uint16_t results = 1;
  uint32_t operands = 0, operandEnd = 0; ///< into Record::operands
  uint32_t words = 0, wordEnd = 0;       ///< into Record::words
  uint32_t literals = 0;                 ///< how many stand before this op
  uint32_t firstResult = 0;
  runtime::RollingHash hash; ///< of everything up to and including this op
  Loc loc;
  const std::string *scope = nullptr; ///< its name; null outside of any
};

/// A value that is captured as a constant.
struct Literal {
  double value;
  Loc loc;
};

struct Record {
  struct Argument {
    std::string name;
    ValueType type;
    State state; ///< none for an input
    uint32_t value;
    Loc loc;
  };
  struct Update {
    uint32_t argument; ///< index of the state's argument
    uint32_t value;
    Loc loc;
  };

  std::vector<ValueType> values;   ///< of every value id
  std::vector<Argument> arguments; ///< inputs first, then states in the order of their first use
  std::vector<OpRecord> ops;
  std::vector<uint32_t> operands;
  std::vector<uint64_t> words;
  std::vector<Literal> literals;
  std::vector<uint32_t> outputs;
  std::vector<Update> updates;
  size_t inputs = 0;
};

/// One recorded call. The record lives in its tracer, until the next call.
struct Recorded {
  const Record *record = nullptr;
  uint64_t hash = 0;     ///< of ops, arguments, outputs and updates; without the literals' values
  bool replayed = false; ///< equal to the previous recording, perhaps but for literals' values
};

/// Records a function, again and again.
class Tracer {
public:
  Tracer() = default;
  Tracer(const Tracer &) = delete;
  Tracer &operator=(const Tracer &) = delete;

  /// Runs `fn` on values of these types. Throws Error, also when called while another function is being traced.
  Recorded record(const std::function<std::vector<Tensor>(std::span<const Tensor>)> &fn,
                  std::span<const ValueType> inputs, std::span<const std::string> inputNames);

  /// The tracer that is recording in this thread. Throws Error where there is none.
  static Tracer &current(Loc loc);
  const ValueType &typeOf(const Tensor &tensor, Loc loc) const { return rec.values[valueOf(tensor, loc)]; }

  /// Records an op with one result. `words` are its attributes and, for an op of explicit type, dtype, rank and sizes.
  Tensor op(OpKind kind, std::span<const Tensor> operands, std::span<const uint64_t> words, Loc loc) {
    return Tensor(id, firstResult(kind, operands, words, loc));
  }
  /// The same with as many results as the op has.
  std::vector<Tensor> ops(OpKind kind, std::span<const Tensor> operands, std::span<const uint64_t> words, Loc loc);
  /// A splat whose value is a guard.
  Tensor splat(double value, const ValueType &type, Loc loc);
  Tensor use(const State &state, Loc loc);
  void assign(const State &state, const Tensor &value, Loc loc);

  int64_t opsRecorded() const { return recordedOps; }

private:
  uint32_t valueOf(const Tensor &tensor, Loc loc) const;
  uint32_t firstResult(OpKind kind, std::span<const Tensor> operands, std::span<const uint64_t> words, Loc loc);
  bool matches(const OpRecord &op, OpKind kind, std::span<const Tensor> operands,
               std::span<const uint64_t> words) const;
  void append(OpKind kind, std::span<const Tensor> operands, std::span<const uint64_t> words, Loc loc);
  void diverge();
  uint64_t wholeHash() const;

  Record rec;
  std::vector<Record::Update> updates; // of the running recording
  uint64_t lastHash = 0;
  bool complete = false;                          // rec is a whole recording
  bool replaying = false;                         // all was equal to rec so far
  uint32_t id = 0;                                // of the running or last recording; unique in the process
  size_t position = 0, argument = 0, literal = 0; // how much of rec the running recording has
  uint32_t nextValue = 0;
  int64_t recordedOps = 0;
};

} // namespace tcc
