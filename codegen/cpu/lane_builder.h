// LaneBuilder: arith and LLVM-dialect ops on scalars and on vectors of one width, in short spellings. A value of an
// element type is computed as f32 (16-bit floats), i1, i32 or i64; memory holds the type itself, i1 as a byte.
#pragma once
#include "codegen/cpu/vector_target.h"
#include "ir/scalar_form.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Builders.h"

namespace tcc::cpu {

class LaneBuilder {
public:
  LaneBuilder(mlir::OpBuilder &builder, mlir::Location loc, const VectorTarget &target)
      : builder(builder), loc(loc), target(target), lanes(target.lanes) {}

  mlir::OpBuilder &builder;
  mlir::Location loc;
  const VectorTarget &target;
  const unsigned lanes;

  template <typename Op, typename... Args>
  mlir::Value create(Args &&...args) {
    return Op::create(builder, loc, std::forward<Args>(args)...);
  }

  // types
  mlir::Type pointer() { return mlir::LLVM::LLVMPointerType::get(builder.getContext()); }
  mlir::Type element(ElementType type) { return mlirType(builder.getContext(), type); }
  mlir::VectorType vector(mlir::Type element) { return mlir::VectorType::get({lanes}, element); }
  /// The type in which elements of `element` are computed.
  mlir::Type computed(mlir::Type element);
  /// The type that memory holds.
  mlir::Type stored(mlir::Type element);
  static int64_t bytes(mlir::Type element);

  // literals and scalars of 64 bits
  mlir::Value i64(int64_t value);
  mlir::Value literal(mlir::Type type, ScalarLiteral value);
  /// A literal of a scalar or vector type.
  mlir::Value literal(mlir::Type type, double value);
  mlir::Value integer(mlir::Type type, int64_t value);
  mlir::Value add(mlir::Value a, mlir::Value b);
  mlir::Value add(mlir::Value a, int64_t b);
  mlir::Value mul(mlir::Value a, int64_t b);
  mlir::Value div(mlir::Value a, int64_t b); // a must not be negative
  mlir::Value mod(mlir::Value a, int64_t b);

  /// The arith or math op of an opcode.
  mlir::Value step(Opcode opcode, mlir::Type type, mlir::ValueRange operands);

  // lanes
  mlir::Value splat(mlir::Value scalar);
  /// Lane numbers 0, 1, 2, … as integers of `element`, times a factor.
  mlir::Value iota(mlir::Type element, int64_t factor = 1);
  /// True in the first `count` lanes.
  mlir::Value firstLanes(unsigned count);
  /// The lanes that are in both masks. A null mask has all lanes.
  mlir::Value both(mlir::Value a, mlir::Value b);
  /// The lanes of a vector combined pairwise, as a fixed tree.
  mlir::Value reduce(mlir::Value vector, llvm::function_ref<mlir::Value(mlir::Value, mlir::Value)> combine);

  // memory; `element` is the tensor's element type, offsets count elements
  mlir::Value offset(mlir::Value base, mlir::Type element, mlir::Value elements);
  mlir::Value load(mlir::Value address, mlir::Type element);
  mlir::Value loadLanes(mlir::Value address, mlir::Type element, mlir::Value mask);
  /// Fetches the line that lies `bytes` after the address into the cache, `forWriting` if it will be written. It need
  /// not exist.
  void prefetch(mlir::Value address, int64_t bytes, bool forWriting = false);
  /// offsets: a vector of integers.
  mlir::Value gatherLanes(mlir::Value base, mlir::Type element, mlir::Value offsets, mlir::Value mask);
  void store(mlir::Value value, mlir::Value address, mlir::Type element);
  void storeLanes(mlir::Value value, mlir::Value address, mlir::Type element, mlir::Value mask);

  /// The computed value rounded to what `element` can hold. This changes only values for 16-bit floats.
  mlir::Value round(mlir::Value value, mlir::Type element);

  /// for (i = begin; i < end; i += step), carrying values.
  llvm::SmallVector<mlir::Value>
  loop(mlir::Value begin, mlir::Value end, int64_t step, mlir::ValueRange carried,
       llvm::function_ref<llvm::SmallVector<mlir::Value>(mlir::Value, mlir::ValueRange)> body);

  /// if (condition) { body }
  void when(mlir::Value condition, llvm::function_ref<void()> body);

private:
  mlir::Type like(mlir::Value value, mlir::Type element); // element, or a vector of it where value is one
  mlir::Value fromStored(mlir::Value value, mlir::Type element);
  mlir::Value toStored(mlir::Value value, mlir::Type element);
  // f16 as an integer of 16 bits, for targets without conversions
  mlir::Value fromHalf(mlir::Value half);
  mlir::Value toHalf(mlir::Value value);
};

} // namespace tcc::cpu
