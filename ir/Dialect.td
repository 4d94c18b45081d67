// The tcc dialect: dataflow of GPT training over ranked tensors.
#ifndef TCC_DIALECT_TD
#define TCC_DIALECT_TD

include "mlir/IR/OpBase.td"

def Tcc_Dialect : Dialect {
  let name = "tcc";
  let cppNamespace = "::tcc";
  let summary = "training-step dataflow: primitives, composites, gradient and kernel regions";
  let description = [{
    Ops are pure functions of ranked tensors (f32 bf16 f16 f8E4M3FN f8E5M2 i1 i32 i64). Primitives are what the
    compiler reasons about; composites are written once in terms of primitives and expanded by `decompose`.
    Function arguments carry `tcc.name` and, for values that live across steps, `tcc.state`; a function result with
    `tcc.updates = "name"` is the next value of that state.
  }];
  let hasConstantMaterializer = 1;
  let hasRegionArgAttrVerify = 1;
  let hasRegionResultAttrVerify = 1;
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::math::MathDialect"];
}

#endif
