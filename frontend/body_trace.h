// Bodies of cond and repeat in a record, without MLIR, and their recording: what they read from outside is found here
// and becomes operands of the op.
#pragma once
#include "frontend/trace.h"

namespace tcc {

struct BodiesRecord;

/// An op inside of a body; values are numbered in the body.
struct BodyOp {
  OpKind kind = OpKind::neg;
  std::vector<uint32_t> operands;
  std::vector<uint64_t> words;
  uint32_t firstResult = 0, results = 1;
  Loc loc;
  const std::string *scope = nullptr;
  std::shared_ptr<const BodiesRecord> bodies; ///< of a cond or repeat
};

/// A value from outside: `input` of the op (behind its predicate, start and scanned operands) is `value` in the body.
struct Captured {
  uint32_t input = 0, value = 0;
};

struct BodyRecord {
  std::vector<ValueType> values; ///< by number; the first are the body's own arguments
  std::vector<Captured> captures;
  std::vector<BodyOp> ops;
  std::vector<uint32_t> results;
};

/// All that a cond or repeat has beside its operands, which are: the predicate; or start and scanned values; then the
/// inputs.
struct BodiesRecord {
  std::vector<BodyRecord> list;
  std::vector<ValueType> results;
  uint32_t carried = 0, scanned = 0, inputs = 0;
  int64_t count = 0; ///< turns of a repeat

  /// The same as words, for hash and comparison: without places in the user's code.
  std::vector<uint64_t> words() const;
};

/// The recording of one body: from construction to destruction ops are recorded here. Bodies nest.
class BodyTrace {
public:
  /// `what`: the op's name, for messages.
  BodyTrace(Tracer &tracer, std::string_view what, std::span<const ValueType> arguments);
  BodyTrace(const BodyTrace &) = delete;
  BodyTrace &operator=(const BodyTrace &) = delete;
  ~BodyTrace();

  std::vector<Tensor> arguments() const;
  /// Ends the list of results: values of this body or from outside.
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
