// BodyTrace: records the body of a cond or repeat, without MLIR. It finds the values that the body reads from outside;
// these become operands of the op. The structs above the class (BodyRecord and its parts) hold the recording when it is
// finished.
#pragma once
#include "frontend/trace.h"

namespace tcc {

struct BodiesRecord;

/// An op inside a body. `operands` and `firstResult` are value numbers: indices into BodyRecord::values of that body.
struct BodyOp {
  OpKind kind = OpKind::neg;
  std::vector<uint32_t> operands;
  std::vector<uint64_t> words; ///< the attributes, in the encoding of WordKind (trace.h); or BodiesRecord::words()
  uint32_t firstResult = 0, results = 1;
  Loc loc;
  const std::string *scope = nullptr;
  std::shared_ptr<const BodiesRecord> bodies; ///< set only if the op is itself a cond or repeat: its own bodies
};

/// A value that a body reads from outside. Inside the body it has number `value`; outside it is the op's input number
/// `input`. A cond's operands are its predicate and then the inputs; a repeat's are its start values, its scanned
/// values and then the inputs. While a body is being recorded, `input` is an index into BodyTrace::captured;
/// joinCaptures() (control.cpp) renumbers it.
struct Captured {
  uint32_t input = 0, value = 0;
};

struct BodyRecord {
  std::vector<ValueType> values; ///< the type of each value, by its number; the body's own arguments come first
  std::vector<Captured> captures;
  std::vector<BodyOp> ops;
  std::vector<uint32_t> results; ///< value numbers
};

/// All that a cond or repeat has beside its operands.
struct BodiesRecord {
  std::vector<BodyRecord> list;
  std::vector<ValueType> results;
  /// How many operands of each sort the op has; `carried` is the number of a repeat's start values.
  uint32_t carried = 0, scanned = 0, inputs = 0;
  int64_t count = 0; ///< iterations of a repeat; 0 for a cond

  /// Encodes the record as numbers, so that two records can be hashed and compared. Source locations are left out.
  std::vector<uint64_t> words() const;
};

/// The recording of one body. While the object lives, every op that this thread traces goes into it. Bodies nest: the
/// innermost one records.
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
  std::vector<Tensor> captured; ///< captured[i] is the outer tensor that body.captures[i] stands for

private:
  friend class Tracer;
  /// The number of a tensor in this body; a tensor from outside becomes a capture at its first use.
  uint32_t numberOf(const Tensor &tensor, Loc loc);
  std::vector<Tensor> append(BodyOp op, std::span<const Tensor> operands, std::span<const ValueType> results, Loc loc);

  Tracer &tracer;
  BodyTrace *outer;
  std::string what;
  uint32_t id;
  uint32_t ownArguments;
};

} // namespace tcc
