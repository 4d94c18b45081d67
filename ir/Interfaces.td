// What passes and emitters may ask of an op. Defaults are the safe answer.
#ifndef TCC_INTERFACES_TD
#define TCC_INTERFACES_TD

include "mlir/IR/OpBase.td"

def ElementwiseOpInterface : OpInterface<"ElementwiseOpInterface"> {
  let cppNamespace = "::tcc";
  let description = [{
    Each result element is a function of the operand elements at the same coordinates. All operands and the result
    have one shape.
  }];
  let methods = [
    InterfaceMethod<[{
      Builds the computation of one element in arith and math ops. `operands` are scalars or vectors of one length, of
      f32, i1, i32 or i64 elements (16-bit floats are widened by the caller); `type` is the result's type in that form.
    }], "::mlir::Value", "scalarBody",
    (ins "::mlir::OpBuilder &":$builder, "::mlir::Location":$loc, "::mlir::ValueRange":$operands,
         "::mlir::Type":$type)>
  ];
}

def DifferentiableOpInterface : OpInterface<"DifferentiableOpInterface"> {
  let cppNamespace = "::tcc";
  let description = [{ The op has a vector-Jacobian product. }];
  let methods = [
    InterfaceMethod<[{
      Gradients with respect to the operands, aligned with them, given the gradients of the results (a null value where
      a result has none). A null entry in the answer: no gradient flows to that operand.
    }], "::llvm::SmallVector<::mlir::Value>", "gradient",
    (ins "::tcc::Emit &":$b, "::mlir::ValueRange":$dResults)>
  ];
}

def CompositeOpInterface : OpInterface<"CompositeOpInterface"> {
  let cppNamespace = "::tcc";
  let description = [{ The op is written in terms of other ops; `decompose` replaces it by them. }];
  let methods = [
    InterfaceMethod<"The values that replace the results.",
      "::llvm::SmallVector<::mlir::Value>", "decompose", (ins "::tcc::Emit &":$b)>
  ];
}

def ExpandableOpInterface : OpInterface<"ExpandableOpInterface"> {
  let cppNamespace = "::tcc";
  let description = [{
    An op for which a target may have a kernel of its own; `expand` writes it in terms of other primitives where the
    target has none. Its gradient is known, so it is no composite.
  }];
  let methods = [
    InterfaceMethod<"The values that replace the results.",
      "::llvm::SmallVector<::mlir::Value>", "expand", (ins "::tcc::Emit &":$b)>
  ];
}

def CostOpInterface : OpInterface<"CostOpInterface"> {
  let cppNamespace = "::tcc";
  let description = [{ Floating-point operations of one execution; an op without it counts one per result element. }];
  let methods = [
    InterfaceMethod<"Floating-point operations, static shapes assumed.", "int64_t", "flops">
  ];
}

#endif
