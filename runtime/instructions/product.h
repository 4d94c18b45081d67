// A matmul by the library of the device.
#pragma once
#include "runtime/gemm.h"
#include "runtime/instructions/kind.h"
#include <optional>

namespace tcc::runtime {

struct MatmulCall {
  static constexpr KindWords words{"matmul", "matmul", StepPart::products};

  GemmDesc desc;
  BufferId a = noBuffer, b = noBuffer, c = noBuffer;
  BufferId bias = noBuffer;    ///< given exactly when desc.bias is
  BufferId scratch = noBuffer; ///< in the arena; noBuffer if the matmul needs none
  BufferId addend = noBuffer;  ///< laid out as c; what a matmul that accumulates adds to; noBuffer: it adds to c itself
  BufferId aux = noBuffer;     ///< laid out as c, given exactly when desc.geluGradient is: what GELU was taken of
  BufferId packed = noBuffer;  ///< in the arena; b as the device's library packs it, for several calls of this desc
  bool isPacked = false;       ///< whether a call before has packed b there; if not, this one does
  bool operator==(const MatmulCall &) const = default;

  static void visitFields(auto &call, auto &fields) {
    fields.object("product", [&](auto &product) { visitProduct(call.desc, product); });
    fields.buffer("a", call.a);
    fields.buffer("b", call.b);
    fields.buffer("c", call.c);
    fields.buffer("bias", call.bias);
    fields.buffer("addend", call.addend);
    fields.buffer("aux", call.aux);
    fields.buffer("scratch", call.scratch);
    fields.buffer("packed", call.packed);
    fields.boolean("is_packed", call.isPacked);
  }
  static void visitBuffers(auto &call, const PlanLists &, auto &&visit) {
    visit(call.a, BufferUse{.read = true});
    visit(call.b, BufferUse{.read = true});
    for (auto *operand : {&call.bias, &call.addend, &call.aux})
      if (*operand != noBuffer)
        visit(*operand, BufferUse{.read = true});
    visit(call.c, BufferUse{.read = call.desc.accumulate && call.addend == noBuffer, .written = true});
    if (call.scratch != noBuffer)
      visit(call.scratch, BufferUse{.written = true, .scratch = true});
    if (call.packed != noBuffer)
      visit(call.packed, BufferUse{.read = call.isPacked, .written = !call.isPacked});
  }
  static void visitParts(auto &, auto &&) {}
  DType multiplied() const { return desc.a.dtype; }
  std::string validate(const PlanLists &plan) const;

private:
  static void visitProduct(auto &desc, auto &fields) {
    fields.integers("batch", desc.batch);
    fields.integer("m", desc.m, 0, maxPlanBytes);
    fields.integer("n", desc.n, 0, maxPlanBytes);
    fields.integer("k", desc.k, 0, maxPlanBytes);
    fields.object("a", [&](auto &layout) { visitLayout(desc.a, layout); });
    fields.object("b", [&](auto &layout) { visitLayout(desc.b, layout); });
    fields.object("c", [&](auto &layout) { visitLayout(desc.c, layout); });
    fields.dtype("bias", desc.bias);
    fields.boolean("accumulate", desc.accumulate);
    fields.boolean("geluGradient", desc.geluGradient);
    fields.boolean("tf32", desc.tf32);
  }
  static void visitLayout(auto &layout, auto &fields) {
    fields.dtype("dtype", layout.dtype);
    fields.integer("row_stride", layout.rowStride, 0, maxPlanBytes);
    fields.integer("column_stride", layout.columnStride, 0, maxPlanBytes);
    fields.integers("batch_strides", layout.batchStrides);
  }
};

} // namespace tcc::runtime
