// The record of one traced call, without MLIR: the ops, their operands and their attributes. When the same function is
// recorded again, each op is first compared with the record of the call before (replay). As long as all are equal,
// nothing is stored, and types are taken from that record.
#pragma once
#include "frontend/state_places.h"
#include "frontend/tensor.h"
#include "runtime/cache.h"
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

namespace tcc {

/// How an attribute is written as words: as one word, or as a count followed by so many words.
enum class WordKind : uint8_t { flag, integer, number, integers, dtype, predicate, literal };

/// The word that stands for an absent dtype.
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
  int32_t operandGroups = 0;              ///< how many groups of operands it counts, if it does; the last may be absent
  bool interned = false;                  ///< its one word is the number of an object (custom_instance.h)
};

/// The ops that users write, in the order of Ops.td.
enum class OpKind : uint8_t {
#include "frontend/op_kinds.inc"
};
/// All of these ops.
std::span<const TracedOp> tracedOps();
const TracedOp &tracedOp(OpKind kind);

struct BodiesRecord; // body_trace.h
class BodyTrace;

struct OpRecord {
  OpKind kind = OpKind::neg;
  uint16_t results = 1;
  uint32_t operands = 0, operandEnd = 0; ///< into Record::operands
  uint32_t words = 0, wordEnd = 0;       ///< into Record::words
  uint32_t literals = 0;                 ///< how many literals stand before this op
  uint32_t firstResult = 0;
  runtime::RollingHash hash; ///< of everything up to and including this op
  Loc loc;
  const std::string *scope = nullptr;         ///< the name of the scope; null outside of any scope
  std::shared_ptr<const BodiesRecord> bodies; ///< the bodies of a cond or repeat; the op's words encode them too
};

/// A value that is captured as a constant.
struct Literal {
  double value;
  Loc loc;
};

/// What a host program does with a value that it asks for in the middle of a recording.
enum class ReadKind : uint8_t { item, array, print, branch };

/// A value that the host asked for: a graph break.
struct HostRead {
  uint32_t value = 0;
  ReadKind kind = ReadKind::item;
  std::string name;               ///< the name of a print
  uint32_t ops = 0, literals = 0; ///< how many ops and literals stand before it
  Loc loc;                        ///< for a branch, where its condition was computed
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
  std::vector<HostRead> reads;
  std::vector<uint32_t> outputs;
  std::vector<Update> updates;
  size_t inputs = 0;
  size_t asked = 0;    ///< for a step that runs in parts: how many of the first outputs the host reads, in their order
  bool steady = false; ///< whether each value must have the bits that other segments give it (passes/stages.h)

  /// The op that gives a value, as an index; none for an argument.
  std::optional<size_t> producerOf(uint32_t value) const;
  /// Whether op `index` is a splat, whose value is a literal.
  bool hasLiteral(size_t index) const;
};

/// Adds an op to the hash of those before it.
void hashOp(runtime::RollingHash &hash, OpKind kind, std::span<const uint32_t> operands,
            std::span<const uint64_t> words);
/// The hash of ops, arguments, outputs, updates and reads; the literals' values are left out.
uint64_t recordHash(const Record &record);

/// Where a call first did something else than the call before it.
struct Departure {
  std::string_view is, was; ///< an op's name, "a state" or "a question"; empty: the call ended there
  Loc place, wasPlace;
};

/// One recorded call. The record lives in its tracer, until the next call.
struct Recorded {
  const Record *record = nullptr;
  uint64_t hash = 0;     ///< of ops, arguments, outputs and updates; without the literals' values
  bool replayed = false; ///< whether it equals the previous recording, perhaps except for the values of literals
};

/// Gives the host a value of the running recording (Tracer::running).
using HostAnswer = std::function<Array(const HostRead &)>;

/// Records the calls of a function, one after another.
class Tracer {
public:
  Tracer() = default;
  Tracer(const Tracer &) = delete;
  Tracer &operator=(const Tracer &) = delete;

  /// Runs `fn` on values of these types; `answer` gives what it asks for. Throws Error, also when called while another
  /// function is being traced.
  Recorded record(const std::function<std::vector<Tensor>(std::span<const Tensor>)> &fn,
                  std::span<const ValueType> inputs, std::span<const std::string> inputNames, HostAnswer answer = {});

  /// Records a body that stands inside of the running recording, in which other tensors, states and graph breaks are
  /// errors. `what` names it: "custom op `softcap`".
  Recorded recordBody(std::string what, const std::function<std::vector<Tensor>(std::span<const Tensor>)> &fn,
                      std::span<const ValueType> inputs);

  /// The tracer that is recording in this thread. Throws Error where there is none.
  static Tracer &current(Loc loc);
  /// Where the value was computed; for an argument where it was first used, if that is known.
  Loc placeOf(const Tensor &tensor) const;
  const ValueType &typeOf(const Tensor &tensor, Loc loc) const;

  /// Records an op with one result. `words` are its attributes and, for an op of explicit type, dtype, rank and sizes.
  Tensor op(OpKind kind, std::span<const Tensor> operands, std::span<const uint64_t> words, Loc loc) {
    return body ? ops(kind, operands, words, loc)[0] : Tensor(id, firstResult(kind, operands, words, loc));
  }
  /// The same with as many results as the op has.
  std::vector<Tensor> ops(OpKind kind, std::span<const Tensor> operands, std::span<const uint64_t> words, Loc loc);
  /// A cond or repeat; in a body it is recorded there.
  std::vector<Tensor> control(OpKind kind, std::span<const Tensor> operands,
                              const std::shared_ptr<const BodiesRecord> &bodies, Loc loc);
  /// A splat, whose value becomes a guard of the whole recording, also if a body reads it.
  Tensor splat(double value, const ValueType &type, Loc loc);
  Tensor use(const State &state, Loc loc);
  void assign(const State &state, const Tensor &value, Loc loc);

  /// Gives the host a value.
  Array read(const Tensor &tensor, ReadKind kind, std::string_view name, Loc loc);

  /// The record so far, for whoever answers the host. While the recording replays an earlier one, the record holds that
  /// earlier recording to its end.
  const Record &running() const { return rec; }
  size_t literalsSoFar() const { return literal; }
  bool isReplaying() const { return replaying && complete; }
  /// Whether the user's code still holds the value.
  bool isHeld(uint32_t value) const { return value < handles.size() && handles[value] > 0; }
  /// Where the running or last recording first differed from the whole recording before it; nothing if it did not.
  const std::optional<Departure> &departure() const { return left; }
  /// The assignments of the running recording.
  std::span<const Record::Update> assigned() const { return updates; }

  int64_t opsRecorded() const { return recordedOps; }

  /// A tensor's recording, or that of the body that it belongs to, and its number there.
  static std::pair<uint32_t, uint32_t> handleOf(const Tensor &tensor) { return {tensor.trace, tensor.value}; }
  static Tensor handle(uint32_t trace, uint32_t value) { return Tensor(trace, value); }

private:
  friend class BodyTrace;
  friend void detail::retainHandle(uint32_t trace, uint32_t value) noexcept;
  friend void detail::releaseHandle(uint32_t trace, uint32_t value) noexcept;
  uint32_t valueOf(const Tensor &tensor, Loc loc) const;
  uint32_t firstResult(OpKind kind, std::span<const Tensor> operands, std::span<const uint64_t> words, Loc loc,
                       const std::shared_ptr<const BodiesRecord> &bodies = {});
  uint32_t newId(); // of a body of this recording
  bool matches(const OpRecord &op, OpKind kind, std::span<const Tensor> operands,
               std::span<const uint64_t> words) const;
  void append(OpKind kind, std::span<const Tensor> operands, std::span<const uint64_t> words, Loc loc,
              const BodiesRecord *bodies);
  void diverge(std::string_view what, Loc place);
  void indexArguments();
  uint32_t argumentOf(const State &state, Loc loc);

  Record rec;
  // The names of rec's arguments, and where its states stand among them. States are shared by functions that are
  // traced in several threads, so they know of no recording.
  std::unordered_set<std::string> names;
  StatePlaces states;
  std::vector<Record::Update> updates; // of the running recording
  std::optional<Departure> left;
  std::vector<uint32_t> handles; // of each value of the running recording
  HostAnswer answer;
  std::string inside; // what is recorded, if that is not a whole function
  uint64_t lastHash = 0;
  bool complete = false;         // whether rec is a whole recording
  bool replaying = false;        // whether all was equal to rec so far
  uint32_t id = 0;               // of the running or last recording; unique in the process
  BodyTrace *body = nullptr;     // the innermost that is being recorded
  std::vector<uint32_t> bodyIds; // of this recording
  size_t position = 0, argument = 0, literal = 0, reading = 0; // how much of rec the running recording has
  uint32_t nextValue = 0;
  int64_t recordedOps = 0;
};

} // namespace tcc
