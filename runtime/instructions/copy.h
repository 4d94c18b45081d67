// Bytes that are moved or set.
#pragma once
#include "runtime/instructions/kind.h"

namespace tcc::runtime {

/// Copies source to target. The two have the same number of bytes and do not overlap.
struct CopyCall {
  static constexpr KindWords words{"copy", "copy", StepPart::copies};

  BufferId source = noBuffer;
  BufferId target = noBuffer;
  bool operator==(const CopyCall &) const = default;

  static void visitFields(auto &call, auto &fields) {
    fields.buffer("source", call.source);
    fields.buffer("target", call.target);
  }
  static void visitBuffers(auto &call, const PlanLists &, auto &&visit) {
    visit(call.source, BufferUse{.read = true});
    visit(call.target, BufferUse{.written = true});
  }
  static void visitParts(auto &, auto &&) {}
  std::string validate(const PlanLists &plan) const;
};

/// Sets every byte of a buffer to `value`.
struct FillCall {
  static constexpr KindWords words{"fill", "fill"};

  BufferId target = noBuffer;
  uint8_t value = 0;
  bool operator==(const FillCall &) const = default;

  static void visitFields(auto &call, auto &fields) {
    fields.buffer("target", call.target);
    fields.integer("value", call.value, 0, 255);
  }
  static void visitBuffers(auto &call, const PlanLists &, auto &&visit) {
    visit(call.target, BufferUse{.written = true});
  }
  static void visitParts(auto &, auto &&) {}
  std::string validate(const PlanLists &) const { return {}; }
};

} // namespace tcc::runtime
