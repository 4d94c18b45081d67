// A part of a recorded step as a record of its own: what the values that the host asks for need, and no more. Equal
// parts give equal records wherever they stand, so the iterations of a loop share their code.
#pragma once
#include "frontend/trace.h"

namespace tcc {

/// Where an input of a segment comes from.
struct SegmentInput {
  enum class Source : uint8_t {
    argument, ///< `index`: of the whole record's argument
    kept,     ///< the value, which an earlier segment has computed
    literal   ///< the literal, which is a run-time scalar
  };
  Source source = Source::argument;
  uint32_t index = 0;
};

struct Segment {
  Record record;
  std::vector<SegmentInput> inputs; ///< aligned with the record's
  std::vector<uint32_t> literals;   ///< the whole record's, aligned with the record's
  std::vector<uint32_t> ops;        ///< the whole record's that it computes
};

/// What a segment is to compute, in terms of the whole record, of which the first `literals` literals are recorded.
struct SegmentWish {
  std::vector<uint32_t> targets = {}; ///< its outputs
  size_t asked = 0;                   ///< the first of them, for a step that runs in parts
  std::vector<Record::Update> updates = {};
  size_t literals = 0;
  std::function<bool(uint32_t)> isKept = {};   ///< values that are there; none by default
  std::function<bool(uint32_t)> isScalar = {}; ///< literals that are run-time scalars; none by default
  bool keepsNames = false;                     ///< of inputs; otherwise their names are their numbers
  bool steady = true;                          ///< as Record's
};

/// The ops that a segment has, as indices into the whole record.
std::vector<uint32_t> segmentOps(const Record &whole, const SegmentWish &wish);

/// A kept value becomes an input unless a gradient runs through it: then it is computed again.
Segment cutSegment(const Record &whole, const SegmentWish &wish);

/// Whether one of the first `ops` ops takes gradients.
bool takesGradients(const Record &record, size_t ops);

} // namespace tcc
