// BodyTrace: records the body of a cond or repeat, without MLIR. It finds the values that the body reads from outside;
// these become operands of the op. The structs before it hold a finished body.
#pragma once
#include "frontend/trace.h"

namespace tcc {

struct BodiesRecord;

/// An op inside a body. Its values have numbers of the body.
struct BodyOp {
  OpKind kind = OpKind::neg;
  std::vector<uint32_t> operands;
  std::vector<uint64_t> words;
  uint32_t firstResult = 0, results = 1;
  Loc loc;
  const std::string *scope = nullptr;
  std::shared_ptr<const BodiesRecord> bodies; ///< of a cond or repeat
};

/// A value that a body reads from outside: number `value` in the body is input number `input` of the op. Inputs are the
/// op's operands after its predicate, or after its start and scanned values.
struct Captured {
  uint32_t input = 0, value = 0;
};

struct BodyRecord {
  std::vector<ValueType> values; ///< by number; the first are the body's own arguments
  std::vector<Captured> captures;
  std::vector<BodyOp> ops;
  std::vector<uint32_t> results;
};

/// All that a cond or repeat has beside its operands. (The operands are the predicate of a cond, or the start and
/// scanned values of a repeat; then the inputs.)
struct BodiesRecord {
  std::vector<BodyRecord> list;
  std::vector<ValueType> results;
  uint32_t carried = 0, scanned = 0, inputs = 0;
  int64_t count = 0; ///< turns of a repeat

  /// The same as words, to be hashed and compared; places in the user's code are left out.
  std::vector<uint64_t> words() const;
};

/// The recording of one body. From its construction to its destruction the thread's ops are recorded here. Bodies nest.
class BodyTrace {
public:
  /// `what`: the op's name, for messages.
  BodyTrace(Tracer &tracer, std::string_view what, std::span<const ValueType> arguments);
  BodyTrace(const BodyTrace &) = delete;
  BodyTrace &operator=(const BodyTrace &) = delete;
  ~BodyTrace();

  std::vector<Tensor> arguments() const;
  /// Makes `results` the body's results; they are values of this body or from outside.
  void give(std::span<const Tensor> results, Loc loc);

  std::vector<Tensor> op(OpKind kind, std::span<const Tensor> operands, std::span<const uint64_t> words, Loc loc);
  std::vector<Tensor> op(OpKind kind, std::span<const Tensor> operands,
                         const std::shared_ptr<const BodiesRecord> &bodies, Loc loc);
  const ValueType &typeOf(const Tensor &tensor, Loc loc) const;
  Loc placeOf(const Tensor &tensor) const;
  std::string_view name() const { return what; }

  BodyRecord body;
  std::vector<Tensor> captured; ///< aligned with body.captures

private:
  friend class Tracer;
  uint32_t numberOf(const Tensor &tensor, Loc loc);
  std::vector<Tensor> append(BodyOp op, std::span<const Tensor> operands, std::span<const ValueType> results, Loc loc);

  Tracer &tracer;
  BodyTrace *outer;
  std::string what;
  uint32_t id;
  uint32_t ownArguments;
};

} // namespace tcc
