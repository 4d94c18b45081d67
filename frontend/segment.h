// Segment: a part of a recorded step as a record of its own. It holds the ops that certain values need (those that the
// host asks for) and no others. Equal parts give equal records wherever they stand in the step, so the iterations of a
// loop share their code.
#pragma once
#include "frontend/trace.h"

namespace tcc {

/// Where an input of a segment comes from.
struct SegmentInput {
  enum class Source : uint8_t {
    argument, ///< `index` is an argument of the whole record
    kept,     ///< `index` is a value that an earlier segment has computed
    literal   ///< `index` is a literal that is passed as a run-time scalar
  };
  Source source = Source::argument;
  uint32_t index = 0;
};

struct Segment {
  Record record;
  std::vector<SegmentInput> inputs; ///< aligned with the inputs of `record`
  std::vector<uint32_t> literals;   ///< for each literal of `record` its number in the whole record
  std::vector<uint32_t> ops;        ///< the ops of the whole record that it computes
};

/// What a segment shall compute. Numbers are those of the whole record, which has `literals` literals so far.
struct SegmentWish {
  std::vector<uint32_t> targets = {}; ///< its outputs
  size_t asked = 0; ///< for a step that runs in parts: how many of the first outputs the host asks for
  std::vector<Record::Update> updates = {};
  size_t literals = 0;
  std::function<bool(uint32_t)> isKept = {};   ///< whether a value is there already; by default none is
  std::function<bool(uint32_t)> isScalar = {}; ///< whether a literal is a run-time scalar; by default none is
  bool keepsNames = false;                     ///< whether inputs keep their names; else their names are numbers
  bool steady = true;                          ///< becomes Record::steady
};

/// The ops that a segment has, as indices into the whole record.
std::vector<uint32_t> segmentOps(const Record &whole, const SegmentWish &wish);

/// Cuts the segment out of the record. A kept value becomes an input, unless a gradient runs through it: then it is
/// computed again.
Segment cutSegment(const Record &whole, const SegmentWish &wish);

/// Whether one of the first `ops` ops takes gradients.
bool takesGradients(const Record &record, size_t ops);

} // namespace tcc
