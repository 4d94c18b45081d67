// The op list: the one place where an op is declared. Computation, gradient and verifier are in ops/<family>.cpp, the
// independent meaning is in reference/<family>.cpp, and samples are in tests/ops/op_table.cpp. docs/LANGUAGE.md is
// written from this file.
#ifndef TCC_OPS_TD
#define TCC_OPS_TD

include "Dialect.td"
include "Interfaces.td"
include "mlir/IR/BuiltinAttributes.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/OpBase.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

//===- types ---------------------------------------------------------------------------------------------------===//

def Tcc_Float : AnyTypeOf<[F32, BF16, F16, F8E4M3FN, F8E5M2]>;
def Tcc_Element : AnyTypeOf<[F32, BF16, F16, F8E4M3FN, F8E5M2, I1, I32, I64]>;
def Tcc_Tensor : RankedTensorOf<[Tcc_Element]>;
def Tcc_PrintedTensor : RankedTensorOf<[F32, BF16, F16, I1, I32, I64]>;
def Tcc_FloatTensor : RankedTensorOf<[Tcc_Float]>;
def Tcc_NumberTensor : RankedTensorOf<[Tcc_Float, I32, I64]>;
def Tcc_IntTensor : RankedTensorOf<[I32, I64]>;
def Tcc_BoolTensor : RankedTensorOf<[I1]>;
def Tcc_LogicTensor : RankedTensorOf<[I1, I32, I64]>;
def Tcc_FloatScalar : Type<0DTensorOf<[F32]>.predicate, "f32 scalar tensor", "::mlir::RankedTensorType">,
                      BuildableType<"::mlir::RankedTensorType::get({}, $_builder.getF32Type())">;
def Tcc_BoolScalar : Type<0DTensorOf<[I1]>.predicate, "i1 scalar tensor", "::mlir::RankedTensorType">,
                     BuildableType<"::mlir::RankedTensorType::get({}, $_builder.getI1Type())">;
def Tcc_IndexScalar : Type<0DTensorOf<[I32]>.predicate, "i32 scalar tensor", "::mlir::RankedTensorType">,
                      BuildableType<"::mlir::RankedTensorType::get({}, $_builder.getI32Type())">;
def Tcc_IntScalar : 0DTensorOf<[I32, I64]>;

//===- traits and base classes ---------------------------------------------------------------------------------===//

// The op has no gradient by its nature (integers, comparisons, optimizer). Ops without a gradient must say so.
def NoGradient : NativeOpTrait<"NoGradient"> { let cppNamespace = "::tcc"; }
// The op computes nothing: each element of its result is an element of an operand, or a zero.
def ViewOp : NativeOpTrait<"ViewOp"> { let cppNamespace = "::tcc"; }
// The op may stand in a tcc.kernel region.
def KernelBodyOp : NativeOpTrait<"KernelBodyOp"> { let cppNamespace = "::tcc"; }

defvar IsDifferentiable = DeclareOpInterfaceMethods<DifferentiableOpInterface>;
defvar IsView = DeclareOpInterfaceMethods<ViewOpInterface>;
defvar IsElementwise = DeclareOpInterfaceMethods<ElementwiseOpInterface>;
defvar IsComposite = DeclareOpInterfaceMethods<CompositeOpInterface>;
defvar IsExpandable = DeclareOpInterfaceMethods<ExpandableOpInterface>;
defvar InferTypes = InferTypeOpAdaptor;

class Tcc_Op<string mnemonic, list<Trait> traits = [], list<Trait> effects = [Pure]>
    : Op<Tcc_Dialect, mnemonic, !listconcat(traits, effects)> {
  // For ir/generate_ops.cpp, which makes for each op an enumerator, a row of the tracer's table and C++ functions.
  string cppName = "";    // the name of enumerator and function; empty: the mnemonic in camel case
  bit hasOwnFunction = 0; // 1: its function in the front end is written by hand (frontend/tensor.h)
  bit isTraced = 1;       // 0: only passes and .graph files write the op, the tracer never records it
  bit asksHost = 0;       // 1: it hands a value to the host; its class is declared in host_ops.h
  bit isInterned = 0;     // 1: the tracer keeps its attributes and regions as one object and records a word for it
  // For docs/LANGUAGE.md. dx stands for the gradient of the loss with respect to x.
  string formula = "";
  string gradientFormula = "";
  string example = ""; // ops, then what they give: "// %y = 1 2"; tests/language runs it
}

class Tcc_Unary<string mnemonic, Type type, list<Trait> traits>
    : Tcc_Op<mnemonic, !listconcat(traits, [IsElementwise, KernelBodyOp, SameOperandsAndResultType])> {
  let arguments = (ins type:$x);
  let results = (outs type:$result);
  let assemblyFormat = "$x attr-dict `:` type($result)";
}

class Tcc_Binary<string mnemonic, Type type, list<Trait> traits>
    : Tcc_Op<mnemonic, !listconcat(traits, [IsElementwise, KernelBodyOp, SameOperandsAndResultType])> {
  let hasOwnFunction = 1;
  let arguments = (ins type:$lhs, type:$rhs);
  let results = (outs type:$result);
  let assemblyFormat = "$lhs `,` $rhs attr-dict `:` type($result)";
  let hasFolder = 1;
}

//===- elementwise arithmetic ----------------------------------------------------------------------------------===//

def Tcc_NegOp : Tcc_Unary<"neg", Tcc_NumberTensor, [IsDifferentiable]> {
  let hasOwnFunction = 1;
  let summary = "-x";
  let hasFolder = 1;
  let formula = "result = -x";
  let gradientFormula = "dx = -dy";
  let example = [{
    %x = tcc.constant dense<[1.0, -2.0]> : tensor<2xf32>
    %y = tcc.neg %x : tensor<2xf32>
    // %y = -1 2
  }];
}
def Tcc_AbsOp : Tcc_Unary<"abs", Tcc_NumberTensor, [IsDifferentiable]> {
  let summary = "|x|; the gradient at 0 is 0";
  let formula = "result = |x|";
  let gradientFormula = "dx = dy · sign(x), 0 at 0";
  let example = [{
    %x = tcc.constant dense<[1.0, -2.0]> : tensor<2xf32>
    %y = tcc.abs %x : tensor<2xf32>
    // %y = 1 2
  }];
}
def Tcc_ExpOp : Tcc_Unary<"exp", Tcc_FloatTensor, [IsDifferentiable]> {
  let summary = "e to the x";
  let formula = "result = e^x";
  let gradientFormula = "dx = dy · result";
  let example = [{
    %x = tcc.constant dense<[0.0, 1.0]> : tensor<2xf32>
    %y = tcc.exp %x : tensor<2xf32>
    // %y = 1 2.7182817
  }];
}
def Tcc_LogOp : Tcc_Unary<"log", Tcc_FloatTensor, [IsDifferentiable]> {
  let summary = "natural logarithm";
  let formula = "result = ln x; -inf at 0, NaN below";
  let gradientFormula = "dx = dy / x";
  let example = [{
    %x = tcc.constant dense<[1.0, 10.0]> : tensor<2xf32>
    %y = tcc.log %x : tensor<2xf32>
    // %y = 0 2.3025851
  }];
}
def Tcc_SqrtOp : Tcc_Unary<"sqrt", Tcc_FloatTensor, [IsDifferentiable]> {
  let summary = "square root";
  let formula = "result = √x; NaN below 0";
  let gradientFormula = "dx = dy / (2 · result)";
  let example = [{
    %x = tcc.constant dense<[4.0, 2.0]> : tensor<2xf32>
    %y = tcc.sqrt %x : tensor<2xf32>
    // %y = 2 1.4142135
  }];
}
def Tcc_RsqrtOp : Tcc_Unary<"rsqrt", Tcc_FloatTensor, [IsDifferentiable]> {
  let summary = "1 / sqrt(x)";
  let formula = "result = 1 / √x";
  let gradientFormula = "dx = -dy · result³ / 2";
  let example = [{
    %x = tcc.constant dense<[4.0, 2.0]> : tensor<2xf32>
    %y = tcc.rsqrt %x : tensor<2xf32>
    // %y = 0.5 0.70710678
  }];
}
def Tcc_TanhOp : Tcc_Unary<"tanh", Tcc_FloatTensor, [IsDifferentiable]> {
  let summary = "hyperbolic tangent";
  let formula = "result = (e^x - e^-x) / (e^x + e^-x)";
  let gradientFormula = "dx = dy · 4e / (1 + e)² with e = e^(-2|x|), which is 1 - result² without its cancellation";
  let example = [{
    %x = tcc.constant dense<[0.5, -20.0]> : tensor<2xf32>
    %y = tcc.tanh %x : tensor<2xf32>
    // %y = 0.46211717 -1
  }];
}
def Tcc_SinOp : Tcc_Unary<"sin", Tcc_FloatTensor, [IsDifferentiable]> {
  let summary = "sine, x in radians";
  let formula = "result = sin x, x in radians; NaN for infinite x";
  let gradientFormula = "dx = dy · cos x";
  let example = [{
    %x = tcc.constant dense<[1.0, 1.0e+18]> : tensor<2xf32>
    %y = tcc.sin %x : tensor<2xf32>
    // %y = 0.84147098 -0.21673788
  }];
}
def Tcc_CosOp : Tcc_Unary<"cos", Tcc_FloatTensor, [IsDifferentiable]> {
  let summary = "cosine, x in radians";
  let formula = "result = cos x, x in radians; NaN for infinite x";
  let gradientFormula = "dx = -dy · sin x";
  let example = [{
    %x = tcc.constant dense<[1.0, 0.0]> : tensor<2xf32>
    %y = tcc.cos %x : tensor<2xf32>
    // %y = 0.54030231 1
  }];
}
def Tcc_ErfOp : Tcc_Unary<"erf", Tcc_FloatTensor, [IsDifferentiable]> {
  let summary = "Gauss error function";
  let formula = "result = 2/√π · ∫₀ˣ e^(-t²) dt";
  let gradientFormula = "dx = dy · 2/√π · e^(-x²)";
  let example = [{
    %x = tcc.constant dense<[0.5, -5.0]> : tensor<2xf32>
    %y = tcc.erf %x : tensor<2xf32>
    // %y = 0.52049988 -1
  }];
}
def Tcc_Expm1Op : Tcc_Unary<"expm1", Tcc_FloatTensor, [IsDifferentiable]> {
  let summary = "e to the x, less 1, without cancellation near 0";
  let formula = "result = e^x - 1";
  let gradientFormula = "dx = dy · e^x";
  let example = [{
    %x = tcc.constant dense<[1.0e-10, 1.0]> : tensor<2xf32>
    %y = tcc.expm1 %x : tensor<2xf32>
    // %y = 1e-10 1.7182818
  }];
}
def Tcc_Log1pOp : Tcc_Unary<"log1p", Tcc_FloatTensor, [IsDifferentiable]> {
  let summary = "natural logarithm of 1 + x, without cancellation near 0";
  let formula = "result = ln(1 + x); -inf at -1, NaN below";
  let gradientFormula = "dx = dy / (1 + x)";
  let example = [{
    %x = tcc.constant dense<[1.0e-10, 9.0]> : tensor<2xf32>
    %y = tcc.log1p %x : tensor<2xf32>
    // %y = 1e-10 2.3025851
  }];
}
def Tcc_FloorOp : Tcc_Unary<"floor", Tcc_FloatTensor, [NoGradient]> {
  let summary = "the largest whole number that is at most x";
  let formula = "result = ⌊x⌋; -0, infinities and NaN stay";
  let gradientFormula = "none: it is constant between whole numbers, so gradients take it for a constant";
  let example = [{
    %x = tcc.constant dense<[1.5, -1.5]> : tensor<2xf32>
    %y = tcc.floor %x : tensor<2xf32>
    // %y = 1 -2
  }];
}
def Tcc_CeilOp : Tcc_Unary<"ceil", Tcc_FloatTensor, [NoGradient]> {
  let summary = "the least whole number that is at least x";
  let formula = "result = ⌈x⌉; -0 for -1 < x < 0; infinities and NaN stay";
  let gradientFormula = "none, as of floor";
  let example = [{
    %x = tcc.constant dense<[1.5, -1.5]> : tensor<2xf32>
    %y = tcc.ceil %x : tensor<2xf32>
    // %y = 2 -1
  }];
}
def Tcc_RoundOp : Tcc_Unary<"round", Tcc_FloatTensor, [NoGradient]> {
  let summary = "the nearest whole number, the even one of two";
  let formula = "result = the whole number nearest to x, of two the even one; its sign is x's";
  let gradientFormula = "none, as of floor";
  let example = [{
    %x = tcc.constant dense<[1.5, 2.5, -0.6]> : tensor<3xf32>
    %y = tcc.round %x : tensor<3xf32>
    // %y = 2 2 -1
  }];
}
def Tcc_TruncOp : Tcc_Unary<"trunc", Tcc_FloatTensor, [NoGradient]> {
  let summary = "x without its fraction";
  let formula = "result = ⌊|x|⌋ with x's sign";
  let gradientFormula = "none, as of floor";
  let example = [{
    %x = tcc.constant dense<[1.5, -1.5]> : tensor<2xf32>
    %y = tcc.trunc %x : tensor<2xf32>
    // %y = 1 -1
  }];
}
def Tcc_SignOp : Tcc_Unary<"sign", Tcc_NumberTensor, [NoGradient]> {
  let summary = "-1, 0 or 1; 0 for NaN";
  let formula = "result = 1 where x > 0, -1 where x < 0, else 0";
  let gradientFormula = "none, as of floor";
  let example = [{
    %x = tcc.constant dense<[1.5, -0.0, -3.0]> : tensor<3xf32>
    %y = tcc.sign %x : tensor<3xf32>
    // %y = 1 0 -1
  }];
}
def Tcc_NotOp : Tcc_Unary<"not", Tcc_LogicTensor, [NoGradient]> {
  let cppName = "logicalNot";
  let summary = "negation of truth values, or of each bit of integers";
  let formula = "result = true where x is false; -x - 1 of integers";
  let gradientFormula = "none: truth values and integers";
  let example = [{
    %x = tcc.constant dense<[true, false]> : tensor<2xi1>
    %y = tcc.not %x : tensor<2xi1>
    // %y = 0 1
  }];
}
def Tcc_AddOp : Tcc_Binary<"add", Tcc_NumberTensor, [IsDifferentiable, Commutative]> {
  let summary = "lhs + rhs; integers wrap";
  let formula = "result = lhs + rhs";
  let gradientFormula = "dlhs = drhs = dy";
  let example = [{
    %a = tcc.constant dense<[1.0, 2.0]> : tensor<2xf32>
    %b = tcc.constant dense<[10.0, 20.0]> : tensor<2xf32>
    %y = tcc.add %a, %b : tensor<2xf32>
    // %y = 11 22
  }];
}
def Tcc_SubOp : Tcc_Binary<"sub", Tcc_NumberTensor, [IsDifferentiable]> {
  let summary = "lhs - rhs; integers wrap";
  let formula = "result = lhs - rhs";
  let gradientFormula = "dlhs = dy, drhs = -dy";
  let example = [{
    %a = tcc.constant dense<[1.0, 2.0]> : tensor<2xf32>
    %b = tcc.constant dense<[10.0, 20.0]> : tensor<2xf32>
    %y = tcc.sub %a, %b : tensor<2xf32>
    // %y = -9 -18
  }];
}
def Tcc_MulOp : Tcc_Binary<"mul", Tcc_NumberTensor, [IsDifferentiable, Commutative]> {
  let summary = "lhs · rhs; integers wrap";
  let formula = "result = lhs · rhs";
  let gradientFormula = "dlhs = dy · rhs, drhs = dy · lhs";
  let example = [{
    %a = tcc.constant dense<[1.0, 2.0]> : tensor<2xf32>
    %b = tcc.constant dense<[10.0, 20.0]> : tensor<2xf32>
    %y = tcc.mul %a, %b : tensor<2xf32>
    // %y = 10 40
  }];
}
def Tcc_DivOp : Tcc_Binary<"div", Tcc_FloatTensor, [IsDifferentiable]> {
  let summary = "lhs / rhs, IEEE division";
  let formula = "result = lhs / rhs";
  let gradientFormula = "dlhs = dy / rhs, drhs = -dlhs · result";
  let example = [{
    %a = tcc.constant dense<[1.0, -1.0]> : tensor<2xf32>
    %b = tcc.constant dense<[8.0, 0.0]> : tensor<2xf32>
    %y = tcc.div %a, %b : tensor<2xf32>
    // %y = 0.125 -inf
  }];
}
def Tcc_MaximumOp : Tcc_Binary<"maximum", Tcc_NumberTensor, [IsDifferentiable, Commutative]> {
  let summary = "the larger; NaN if either is NaN; equal operands share the gradient in halves";
  let formula = "result = the larger of lhs and rhs; NaN where either is NaN";
  let gradientFormula = "dy to the larger, halves where equal, the whole dy to both where either is NaN";
  let example = [{
    %a = tcc.constant dense<[1.0, 5.0]> : tensor<2xf32>
    %b = tcc.constant dense<[2.0, 2.0]> : tensor<2xf32>
    %y = tcc.maximum %a, %b : tensor<2xf32>
    // %y = 2 5
  }];
}
def Tcc_MinimumOp : Tcc_Binary<"minimum", Tcc_NumberTensor, [IsDifferentiable, Commutative]> {
  let summary = "the smaller; NaN if either is NaN; equal operands share the gradient in halves";
  let formula = "result = the smaller of lhs and rhs; NaN where either is NaN";
  let gradientFormula = "dy to the smaller, halves where equal, the whole dy to both where either is NaN";
  let example = [{
    %a = tcc.constant dense<[1.0, 5.0]> : tensor<2xf32>
    %b = tcc.constant dense<[2.0, 2.0]> : tensor<2xf32>
    %y = tcc.minimum %a, %b : tensor<2xf32>
    // %y = 1 2
  }];
}
def Tcc_PowOp : Tcc_Binary<"pow", Tcc_FloatTensor, [IsDifferentiable]> {
  let summary = "lhs to the power rhs, as C's pow";
  let formula = [{ result = lhs^rhs; 1 where rhs is 0 or lhs is 1, with NaN beside it too; NaN where lhs is negative and
    finite and rhs no whole number }];
  let gradientFormula = [{ dlhs = dy · rhs · lhs^(rhs - 1), 0 where rhs is 0; drhs = dy · result · ln lhs, 0 where lhs
    is 0 and rhs at least 0 }];
  let example = [{
    %a = tcc.constant dense<[-2.0, 2.0, -8.0]> : tensor<3xf32>
    %b = tcc.constant dense<[3.0, 0.5, 0.5]> : tensor<3xf32>
    %y = tcc.pow %a, %b : tensor<3xf32>
    // %y = -8 1.4142135 nan
  }];
}
def Tcc_FmodOp : Tcc_Binary<"fmod", Tcc_NumberTensor, [IsDifferentiable]> {
  let hasFolder = 0;
  let summary = "the rest of a division that is rounded towards 0: its sign is that of lhs";
  let description = [{ The result is exact. Of floats, an infinite lhs or an rhs of 0 gives NaN, an infinite rhs gives lhs.
    Of integers, an rhs of 0 gives 0. }];
  let formula = "result = lhs - n · rhs with the whole number n = trunc(lhs / rhs)";
  let gradientFormula = "dlhs = dy, drhs = -dy · trunc(lhs / rhs)";
  let example = [{
    %a = tcc.constant dense<[5.5, -5.5]> : tensor<2xf32>
    %b = tcc.constant dense<[2.0, 2.0]> : tensor<2xf32>
    %y = tcc.fmod %a, %b : tensor<2xf32>
    // %y = 1.5 -1.5
  }];
}
def Tcc_RemainderOp : Tcc_Binary<"remainder", Tcc_NumberTensor, [IsDifferentiable]> {
  let hasFolder = 0;
  let summary = "the rest of a division that is rounded down: its sign is that of rhs";
  let description = [{ It is fmod, with rhs added where it is not 0 and its sign is not that of rhs. }];
  let formula = "result = lhs - n · rhs with the whole number n = floor(lhs / rhs)";
  let gradientFormula = "dlhs = dy, drhs = -dy · floor_divide(lhs, rhs)";
  let example = [{
    %a = tcc.constant dense<[5.5, -5.5]> : tensor<2xf32>
    %b = tcc.constant dense<[2.0, 2.0]> : tensor<2xf32>
    %y = tcc.remainder %a, %b : tensor<2xf32>
    // %y = 1.5 0.5
  }];
}
def Tcc_FloorDivideOp : Tcc_Binary<"floor_divide", Tcc_NumberTensor, [NoGradient]> {
  let summary = "the quotient rounded down to a whole number";
  let description = [{ Of floats it is the quotient that belongs to remainder, lhs / rhs where rhs is 0. Of integers, an
    rhs of 0 gives 0, and the least integer divided by -1 is itself. }];
  let formula = "result = ⌊lhs / rhs⌋";
  let gradientFormula = "none, as of floor";
  let example = [{
    %a = tcc.constant dense<[7, -7]> : tensor<2xi32>
    %b = tcc.constant dense<[2, 2]> : tensor<2xi32>
    %y = tcc.floor_divide %a, %b : tensor<2xi32>
    // %y = 3 -4
  }];
}
def Tcc_AndOp : Tcc_Binary<"and", Tcc_LogicTensor, [NoGradient, Commutative]> {
  let cppName = "logicalAnd";
  let summary = "and of truth values, or of each bit of integers";
  let formula = "result = true where both are true";
  let gradientFormula = "none: truth values and integers";
  let example = [{
    %a = tcc.constant dense<[true, true]> : tensor<2xi1>
    %b = tcc.constant dense<[true, false]> : tensor<2xi1>
    %y = tcc.and %a, %b : tensor<2xi1>
    // %y = 1 0
  }];
}
def Tcc_OrOp : Tcc_Binary<"or", Tcc_LogicTensor, [NoGradient, Commutative]> {
  let cppName = "logicalOr";
  let summary = "or of truth values, or of each bit of integers";
  let formula = "result = true where either is true";
  let gradientFormula = "none: truth values and integers";
  let example = [{
    %a = tcc.constant dense<[true, false]> : tensor<2xi1>
    %b = tcc.constant dense<[false, false]> : tensor<2xi1>
    %y = tcc.or %a, %b : tensor<2xi1>
    // %y = 1 0
  }];
}
def Tcc_XorOp : Tcc_Binary<"xor", Tcc_LogicTensor, [NoGradient, Commutative]> {
  let hasFolder = 0;
  let cppName = "logicalXor";
  let summary = "exclusive or of truth values, or of each bit of integers";
  let formula = "result = true where exactly one is true";
  let gradientFormula = "none: truth values and integers";
  let example = [{
    %a = tcc.constant dense<[6, 1]> : tensor<2xi32>
    %b = tcc.constant dense<[3, 1]> : tensor<2xi32>
    %y = tcc.xor %a, %b : tensor<2xi32>
    // %y = 5 0
  }];
}
def Tcc_ClampOp : Tcc_Op<"clamp", [IsDifferentiable, IsElementwise, KernelBodyOp, SameOperandsAndResultType]> {
  let hasOwnFunction = 1;
  let summary = "x held between low and high; NaN if any is NaN; high where low is above it";
  let arguments = (ins Tcc_NumberTensor:$x, Tcc_NumberTensor:$low, Tcc_NumberTensor:$high);
  let results = (outs Tcc_NumberTensor:$result);
  let assemblyFormat = "$x `,` $low `,` $high attr-dict `:` type($result)";
  let formula = "result = min(max(x, low), high)";
  let gradientFormula = [{ dx = dy where low <= x <= high, else 0; dlow = dy where x < low <= high, dhigh = dy where
    x > high or low > high }];
  let example = [{
    %x = tcc.constant dense<[-3.0, 0.5, 3.0]> : tensor<3xf32>
    %l = tcc.constant dense<-1.0> : tensor<3xf32>
    %h = tcc.constant dense<2.0> : tensor<3xf32>
    %y = tcc.clamp %x, %l, %h : tensor<3xf32>
    // %y = -1 0.5 2
  }];
}

def Tcc_Predicate : I32EnumAttr<"Predicate", "comparison of two numbers, or of truth values with false below true; NaN compares unequal to everything",
    [I32EnumAttrCase<"eq", 0>, I32EnumAttrCase<"ne", 1>, I32EnumAttrCase<"lt", 2>, I32EnumAttrCase<"le", 3>,
     I32EnumAttrCase<"gt", 4>, I32EnumAttrCase<"ge", 5>]> {
  let cppNamespace = "::tcc";
}

def Tcc_CompareOp : Tcc_Op<"compare", [NoGradient, IsElementwise, KernelBodyOp, SameTypeOperands,
                                        SameOperandsAndResultShape, InferTypes]> {
  let hasOwnFunction = 1;
  let summary = "comparison of equal shapes, i1 result";
  let arguments = (ins Tcc_Predicate:$predicate, Tcc_Tensor:$lhs, Tcc_Tensor:$rhs);
  let results = (outs Tcc_BoolTensor:$result);
  let assemblyFormat = "$predicate $lhs `,` $rhs attr-dict `:` type($lhs) `->` type($result)";
  let formula = "result = lhs PREDICATE rhs with eq, ne, lt, le, gt or ge; beside NaN only ne is true";
  let gradientFormula = "none: truth values";
  let example = [{
    %a = tcc.constant dense<[1, 2, 3]> : tensor<3xi32>
    %b = tcc.constant dense<[2, 2, 2]> : tensor<3xi32>
    %y = tcc.compare le %a, %b : tensor<3xi32> -> tensor<3xi1>
    // %y = 1 1 0
  }];
}

def Tcc_IsFiniteOp : Tcc_Op<"is_finite", [NoGradient, IsElementwise, KernelBodyOp,
                                           SameOperandsAndResultShape, InferTypes]> {
  let summary = "true where x is neither infinite nor NaN";
  let arguments = (ins Tcc_FloatTensor:$x);
  let results = (outs Tcc_BoolTensor:$result);
  let assemblyFormat = "$x attr-dict `:` type($x) `->` type($result)";
  let formula = "result = |x| < ∞";
  let gradientFormula = "none: truth values";
  let example = [{
    %zero = tcc.constant dense<0.0> : tensor<2xf32>
    %a = tcc.constant dense<[1.0, 0.0]> : tensor<2xf32>
    %x = tcc.div %a, %zero : tensor<2xf32>
    %y = tcc.is_finite %x : tensor<2xf32> -> tensor<2xi1>
    // %y = 0 0
  }];
}

def Tcc_SelectOp : Tcc_Op<"select", [IsDifferentiable, IsElementwise, KernelBodyOp,
    SameOperandsAndResultShape, AllTypesMatch<["onTrue", "onFalse", "result"]>]> {
  let hasOwnFunction = 1;
  let summary = "onTrue where the condition holds, onFalse elsewhere; no gradient leaks from the side not taken";
  let arguments = (ins Tcc_BoolTensor:$condition, Tcc_Tensor:$onTrue, Tcc_Tensor:$onFalse);
  let results = (outs Tcc_Tensor:$result);
  let assemblyFormat = "$condition `,` $onTrue `,` $onFalse attr-dict `:` type($condition) `,` type($result)";
  let hasFolder = 1;
  let formula = "result = onTrue where condition holds, else onFalse";
  let gradientFormula = "donTrue = dy where condition holds, else 0; donFalse the other way round";
  let example = [{
    %c = tcc.constant dense<[true, false]> : tensor<2xi1>
    %a = tcc.constant dense<[1.0, 2.0]> : tensor<2xf32>
    %b = tcc.constant dense<[10.0, 20.0]> : tensor<2xf32>
    %y = tcc.select %c, %a, %b : tensor<2xi1>, tensor<2xf32>
    // %y = 1 20
  }];
}

def Tcc_CastOp : Tcc_Op<"cast", [IsDifferentiable, IsElementwise, KernelBodyOp, SameOperandsAndResultShape]> {
  let hasOwnFunction = 1;
  let summary = "conversion of the element type: floats round to nearest even, float to integer truncates";
  let description = [{ Float to integer saturates; NaN gives 0. An integer becomes a 16-bit float by way of f32. }];
  let arguments = (ins Tcc_Tensor:$x);
  let results = (outs Tcc_Tensor:$result);
  let assemblyFormat = "$x attr-dict `:` type($x) `->` type($result)";
  let hasFolder = 1;
  let formula = "result = x in the result's element type; to i1, whether x is not 0";
  let gradientFormula = "dx = dy cast back, between floats; none otherwise";
  let example = [{
    %x = tcc.constant dense<[2.75, -3.0e+10]> : tensor<2xf32>
    %y = tcc.cast %x : tensor<2xf32> -> tensor<2xi32>
    // %y = 2 -2147483648
  }];
}

def Tcc_CastByBitsOp : Tcc_Op<"cast_by_bits", [IsDifferentiable, IsElementwise, KernelBodyOp,
                                               SameOperandsAndResultShape, InferTypes]> {
  let isTraced = 0;
  let summary = "f32 to bf16, up or down by the lower 16 bits of a number an element";
  let description = [{ With numbers uniform in 0..2^16 - 1 the result's mean is x (stochastic rounding). Infinities, NaN
    and what bf16 holds stay themselves; above bf16's largest number the next one is infinite. }];
  let arguments = (ins RankedTensorOf<[F32]>:$x, RankedTensorOf<[I32]>:$bits);
  let results = (outs RankedTensorOf<[BF16]>:$result);
  let assemblyFormat = "$x `,` $bits attr-dict `:` type($x) `,` type($bits) `->` type($result)";
  let formula = [{ result = the bf16 number next to x towards 0, or the next one where the share of the way to it that x
    has gone, plus (bits mod 2^16) / 2^16, is at least 1 }];
  let gradientFormula = "dx = dy cast back; none for the bits";
  let example = [{
    %x = tcc.constant dense<1.001953125> : tensor<2xf32>
    %bits = tcc.constant dense<[49151, 49152]> : tensor<2xi32>
    %r = tcc.cast_by_bits %x, %bits : tensor<2xf32>, tensor<2xi32> -> tensor<2xbf16>
    %y = tcc.cast %r : tensor<2xbf16> -> tensor<2xf32>
    // %y = 1 1.0078125
  }];
}

def Tcc_DetachOp : Tcc_Unary<"detach", Tcc_Tensor, [NoGradient]> {
  let summary = "x, seen as a constant by gradients";
  let formula = "result = x";
  let gradientFormula = "none: gradients take the result for a constant";
  let example = [{
    %x = tcc.constant dense<3.0> : tensor<f32>
    %d = tcc.detach %x : tensor<f32>
    %p = tcc.mul %x, %d : tensor<f32>
    %y = tcc.gradient %p wrt %x : tensor<f32>, tensor<f32>
    // %y = 3
  }];
}

// Gives the host a value in the middle of a step. When a host runs the step, this is a graph break.
def Tcc_ItemOp : Tcc_Unary<"item", Tcc_Tensor, [NoGradient]> {
  let isTraced = 0;
  let asksHost = 1;
  let summary = "x, which the host asks for";
  let description = [{ item_c1: x has one element. item_c2: it stands in no body of another op. }];
  let formula = "result = x";
  let gradientFormula = "none: gradients take the result for a constant";
  let hasVerifier = 1;
  let example = [{
    %x = tcc.constant dense<3.0> : tensor<f32>
    %seen = tcc.item %x : tensor<f32>
    %y = tcc.mul %x, %seen : tensor<f32>
    // %y = 9
  }];
}

//===- sources -------------------------------------------------------------------------------------------------===//

def Tcc_ConstantOp : Tcc_Op<"constant", [NoGradient, KernelBodyOp, ConstantLike, InferTypes]> {
  let hasOwnFunction = 1;
  let summary = "a literal; non-splat literals hold at most 1 KiB (constant_c1)";
  let arguments = (ins ElementsAttr:$value);
  let results = (outs Tcc_Tensor:$result);
  let assemblyFormat = "attr-dict $value";
  let hasFolder = 1;
  let hasVerifier = 1;
  let formula = "result = the literal";
  let gradientFormula = "none: it has no operand";
  let example = [{
    %y = tcc.constant dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf32>
    // %y = 1 2 3 4
  }];
}

def Tcc_IotaOp : Tcc_Op<"iota", [NoGradient, KernelBodyOp, SizedOpInterface]> {
  let hasOwnFunction = 1;
  let summary = "each element's own coordinate along `dim`";
  let description = [{ `?` sizes of the result are those of `like`.
    iota_c1: 0 <= dim < rank. iota_c2: a `?` needs `like` of the same rank. }];
  let arguments = (ins I64Attr:$dim, Optional<Tcc_Tensor>:$like);
  let results = (outs Tcc_NumberTensor:$result);
  let assemblyFormat = "`dim` $dim (`like` $like^ `:` type($like))? attr-dict `->` type($result)";
  let hasVerifier = 1;
  let formula = "result[i...] = i[dim]";
  let gradientFormula = "none: it has no float operand";
  let example = [{
    %y = tcc.iota dim 1 -> tensor<2x3xi32>
    // %y = 0 1 2 0 1 2
  }];
}

def Tcc_RandomBitsOp : Tcc_Op<"random_bits", [NoGradient, KernelBodyOp, AttrSizedOperandSegments, SizedOpInterface]> {
  let hasOwnFunction = 1;
  let summary = "32 random bits an element, a function of seed, stream and the element's coordinates alone";
  let description = [{ The last two coordinates are row and column, the others as one row-major number the outer
    index; what a smaller rank lacks is 0. `first` is added to the coordinate along dim 0: a part of a batch that begins
    there has the bits that it has in the whole. One Philox call serves rows {r, r + 8} and columns {c, c + 8}, as
    attention's kernels hold them: its counter is (outer, row and column with bit 3 clear, seed div 2^32), its key the
    low words of seed and stream, and bit 3 of row and column choose its word (Salmon et al. 2011). An i32 seed counts
    as its 32 bits. random_bits_c1: a `?` needs `like` of the same rank. random_bits_c2: `first` needs a dim 0. }];
  let arguments = (ins Tcc_IntScalar:$seed, I64Attr:$stream, Optional<Tcc_IndexScalar>:$first,
                       Optional<Tcc_Tensor>:$like);
  let results = (outs RankedTensorOf<[I32]>:$result);
  let assemblyFormat = [{ $seed `stream` $stream (`first` $first^)? (`like` $like^ `:` type($like))? attr-dict `:`
                          type($seed) `->` type($result) }];
  let hasVerifier = 1;
  let formula = [{ result[o…, r, c] = word 2·(r div 8 mod 2) + c div 8 mod 2 of Philox4x32-10 with key (seed mod
    2^32, stream mod 2^32) and counter (o, r and c less bit 3, seed div 2^32) }];
  let gradientFormula = "none: integers";
  let example = [{
    %seed = tcc.constant dense<0> : tensor<i32>
    %y = tcc.random_bits %seed stream 0 : tensor<i32> -> tensor<1xi32>
    // %y = 1713891541
  }];
}

//===- views ---------------------------------------------------------------------------------------------------===//

def Tcc_BroadcastOp : Tcc_Op<"broadcast", [IsDifferentiable, ViewOp, IsView, KernelBodyOp, SizedOpInterface]> {
  let hasOwnFunction = 1;
  let summary = "x repeated: shapes are aligned at the last dim, sizes 1 and missing leading dims are stretched";
  let description = [{ broadcast_c1: the result's rank is at least x's. broadcast_c2: each aligned size of x is 1 or
    the result's. broadcast_c3: a `?` in the result needs `like` of the result's rank. }];
  let arguments = (ins Tcc_Tensor:$x, Optional<Tcc_Tensor>:$like);
  let results = (outs Tcc_Tensor:$result);
  let assemblyFormat = "$x (`like` $like^ `:` type($like))? attr-dict `:` type($x) `->` type($result)";
  let hasVerifier = 1;
  let hasFolder = 1;
  let formula = "result[..., i, j] = x[i or 0, j or 0]";
  let gradientFormula = "dx = the sum of dy over what was stretched";
  let example = [{
    %x = tcc.constant dense<[[1.0], [2.0]]> : tensor<2x1xf32>
    %y = tcc.broadcast %x : tensor<2x1xf32> -> tensor<2x3xf32>
    // %y = 1 1 1 2 2 2
  }];
}

def Tcc_ReshapeOp : Tcc_Op<"reshape", [IsDifferentiable, ViewOp, IsView, KernelBodyOp, SizedOpInterface]> {
  let hasOwnFunction = 1;
  let summary = "the same elements in row-major order under another shape";
  let description = [{ The result's last `?` follows from the element count, as in [a, b] to [?], which is [a · b].
    reshape_c1: equal element counts. reshape_c2: without `like`, every other `?` of the result is among the leading
    sizes that the result has in common with x. }];
  let arguments = (ins Tcc_Tensor:$x, Optional<Tcc_Tensor>:$like);
  let results = (outs Tcc_Tensor:$result);
  let assemblyFormat = "$x (`like` $like^ `:` type($like))? attr-dict `:` type($x) `->` type($result)";
  let hasVerifier = 1;
  let hasFolder = 1;
  let formula = "the result's linear order is x's";
  let gradientFormula = "dx = dy reshaped back";
  let example = [{
    %x = tcc.constant dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf32>
    %y = tcc.reshape %x : tensor<2x2xf32> -> tensor<4xf32>
    // %y = 1 2 3 4
  }];
}

def Tcc_TransposeOp : Tcc_Op<"transpose", [IsDifferentiable, ViewOp, IsView, KernelBodyOp, InferTypes]> {
  let hasOwnFunction = 1;
  let summary = "result dim i is x's dim permutation[i]";
  let description = [{ transpose_c1: permutation is one of 0..rank-1. }];
  let arguments = (ins Tcc_Tensor:$x, DenseI64ArrayAttr:$permutation);
  let results = (outs Tcc_Tensor:$result);
  let assemblyFormat = "$x $permutation attr-dict `:` type($x) `->` type($result)";
  let hasFolder = 1;
  let formula = "result[i₀, i₁, ...] = x at index j with j[permutation[n]] = i[n]";
  let gradientFormula = "dx = dy transposed back";
  let example = [{
    %x = tcc.constant dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf32>
    %y = tcc.transpose %x [1, 0] : tensor<2x2xf32> -> tensor<2x2xf32>
    // %y = 1 3 2 4
  }];
}

def Tcc_SliceOp : Tcc_Op<"slice", [IsDifferentiable, ViewOp, IsView, KernelBodyOp, InferTypes]> {
  let hasOwnFunction = 1;
  let summary = "elements starts[i] <= index < limits[i] of each dim, every steps[i]-th; a limit of -1 is the dim's size";
  let description = [{ Without `by` every step is 1. slice_c1: one start and limit a dim. slice_c2: 0 <= start <= limit
    <= size. slice_c3: one step a dim, at least 1, and 1 along a dim of size `?`. }];
  let arguments = (ins Tcc_Tensor:$x, DenseI64ArrayAttr:$starts, DenseI64ArrayAttr:$limits,
                       DefaultValuedAttr<DenseI64ArrayAttr, "{}">:$steps);
  let results = (outs Tcc_Tensor:$result);
  let assemblyFormat = "$x $starts `to` $limits (`by` $steps^)? attr-dict `:` type($x) `->` type($result)";
  let hasFolder = 1;
  let extraClassDeclaration = [{ int64_t step(size_t dim) { return getSteps().empty() ? 1 : getSteps()[dim]; } }];
  let formula = "result[i...] = x[i · steps + starts...]";
  let gradientFormula = "dx = dy with zeros around it, and between its elements where the step is not 1";
  let example = [{
    %x = tcc.constant dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>
    %y = tcc.slice %x [1] to [3] : tensor<4xf32> -> tensor<2xf32>
    // %y = 2 3
    %z = tcc.slice %x [1] to [4] by [2] : tensor<4xf32> -> tensor<2xf32>
    // %z = 2 4
  }];
}

def Tcc_PadOp : Tcc_Op<"pad", [IsDifferentiable, ViewOp, KernelBodyOp, InferTypes]> {
  let hasOwnFunction = 1;
  let summary = "x with low[i] elements of a value before and high[i] after it along each dim, 0 by default";
  let description = [{ pad_c1: one low and high a dim, none negative. pad_c2: of integers, the value is one of their type. }];
  let arguments = (ins Tcc_Tensor:$x, DenseI64ArrayAttr:$low, DenseI64ArrayAttr:$high,
                       DefaultValuedAttr<F64Attr, "0.0">:$value);
  let results = (outs Tcc_Tensor:$result);
  let assemblyFormat = "$x $low `,` $high (`value` $value^)? attr-dict `:` type($x) `->` type($result)";
  let hasFolder = 1;
  let extraClassDeclaration = [{ bool isOfZeros() { return getValue().isPosZero(); } }];
  let formula = "result[i + low...] = x[i...], elsewhere the value, rounded to the element type";
  let gradientFormula = "dx = dy sliced";
  let example = [{
    %x = tcc.constant dense<[1.0, 2.0]> : tensor<2xf32>
    %y = tcc.pad %x [1], [2] : tensor<2xf32> -> tensor<5xf32>
    // %y = 0 1 2 0 0
    %z = tcc.pad %x [0], [1] value 7.0 : tensor<2xf32> -> tensor<3xf32>
    // %z = 1 2 7
  }];
}

def Tcc_WindowOp : Tcc_Op<"window", [IsDifferentiable, ViewOp, IsView, KernelBodyOp, InferTypes]> {
  let hasOwnFunction = 1;
  let summary = "windows over some dims, overlapping or apart: their places stay in the dims, their elements come last";
  let description = [{ A window along dims[i] has sizes[i] elements, dilations[i] apart, and begins steps[i] after the one
    before; without `steps` and `dilations` these are 1. The result has x's dims, with the number of windows that fit, and
    then one dim of sizes[i] for each of `dims`.
    window_c1: dims ascend within 0..rank-1; a size, step and dilation of at least 1 for each. window_c2: each dim has a
    known size and room for one window. }];
  let arguments = (ins Tcc_Tensor:$x, DenseI64ArrayAttr:$dims, DenseI64ArrayAttr:$sizes,
                       DefaultValuedAttr<DenseI64ArrayAttr, "{}">:$steps,
                       DefaultValuedAttr<DenseI64ArrayAttr, "{}">:$dilations);
  let results = (outs Tcc_Tensor:$result);
  let assemblyFormat = [{ $x `dims` $dims `sizes` $sizes (`steps` $steps^)? (`dilations` $dilations^)? attr-dict `:`
                          type($x) `->` type($result) }];
  let formula = "result[..., i, ..., w] = x[..., i · step + w · dilation, ...]";
  let gradientFormula = "dx = fold of dy";
  let example = [{
    %x = tcc.constant dense<[1.0, 2.0, 3.0, 4.0, 5.0]> : tensor<5xf32>
    %y = tcc.window %x dims [0] sizes [3] steps [2] : tensor<5xf32> -> tensor<2x3xf32>
    // %y = 1 2 3 3 4 5
  }];
}

def Tcc_ConcatOp : Tcc_Op<"concat", [IsDifferentiable, ViewOp, KernelBodyOp, InferTypes]> {
  let hasOwnFunction = 1;
  let summary = "the operands one after the other along `axis`";
  let description = [{ concat_c1: at least one operand and 0 <= axis < rank. concat_c2: equal sizes but along axis. }];
  let arguments = (ins Variadic<Tcc_Tensor>:$parts, I64Attr:$axis);
  let results = (outs Tcc_Tensor:$result);
  let assemblyFormat = "$parts `axis` $axis attr-dict `:` type($parts) `->` type($result)";
  let formula = "result = parts[0], parts[1], ... along axis";
  let gradientFormula = "each part gets its slice of dy";
  let example = [{
    %a = tcc.constant dense<[1.0, 2.0]> : tensor<2xf32>
    %b = tcc.constant dense<[3.0]> : tensor<1xf32>
    %y = tcc.concat %a, %b axis 0 : tensor<2xf32>, tensor<1xf32> -> tensor<3xf32>
    // %y = 1 2 3
  }];
}

//===- reductions ----------------------------------------------------------------------------------------------===//

class Tcc_Reduction<string mnemonic, Type type, list<Trait> traits>
    : Tcc_Op<mnemonic, !listconcat(traits, [KernelBodyOp, InferTypes])> {
  let hasOwnFunction = 1;
  let description = [{ Reduced dims stay as size 1. reduce_c1: axes ascend within 0..rank-1. }];
  let arguments = (ins type:$x, DenseI64ArrayAttr:$axes);
  let results = (outs type:$result);
  let assemblyFormat = "$x `axes` $axes attr-dict `:` type($x) `->` type($result)";
  let hasFolder = 1;
}
def Tcc_ReduceSumOp : Tcc_Reduction<"reduce_sum", Tcc_NumberTensor, [IsDifferentiable]> {
  let summary = "sum over axes, 0 for none; 16-bit floats are accumulated in f32 and rounded once";
  let formula = "result = Σ x over axes";
  let gradientFormula = "dx = dy broadcast";
  let example = [{
    %x = tcc.constant dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf32>
    %y = tcc.reduce_sum %x axes [1] : tensor<2x2xf32> -> tensor<2x1xf32>
    // %y = 3 7
  }];
}
def Tcc_ReduceMaxOp : Tcc_Reduction<"reduce_max", Tcc_NumberTensor, [IsDifferentiable]> {
  let summary = "maximum over axes; of no elements -inf, or the least integer; NaN wins; equal maxima share the gradient";
  let formula = "result = max x over axes; NaN where one is NaN";
  let gradientFormula = "dx = dy, shared among equal maxima, 0 elsewhere; NaN for all that share a result with a NaN";
  let example = [{
    %x = tcc.constant dense<[[1.0, 2.0], [3.0, -4.0]]> : tensor<2x2xf32>
    %y = tcc.reduce_max %x axes [1] : tensor<2x2xf32> -> tensor<2x1xf32>
    // %y = 2 3
  }];
}

def Tcc_ReduceProdOp : Tcc_Reduction<"reduce_prod", Tcc_NumberTensor, [IsDifferentiable]> {
  let summary = "product over axes, 1 for none; 16-bit floats are multiplied in f32 and rounded once; integers wrap";
  let formula = "result = Π x over axes";
  let gradientFormula = "dx = dy · the product of the other elements, also where one or several are 0";
  let example = [{
    %x = tcc.constant dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf32>
    %y = tcc.reduce_prod %x axes [1] : tensor<2x2xf32> -> tensor<2x1xf32>
    // %y = 2 12
  }];
}

//===- indexing ------------------------------------------------------------------------------------------------===//

def Tcc_GatherOp : Tcc_Op<"gather", [IsDifferentiable, KernelBodyOp, InferTypes]> {
  let summary = "rows of a table: result[i..., j...] = table[index[i...], j...]";
  let description = [{ An index outside 0..rows-1 gives a row of NaN (0 for integers), so that bad data is seen.
    gather_c1: the table has at least one dim. }];
  let arguments = (ins Tcc_Tensor:$table, Tcc_IntTensor:$index);
  let results = (outs Tcc_Tensor:$result);
  let assemblyFormat = "$table `at` $index attr-dict `:` type($table) `,` type($index) `->` type($result)";
  let formula = "result[i..., j...] = table[index[i...], j...]";
  let gradientFormula = "dtable = zeros with the rows of dy added at index; none for index";
  let example = [{
    %t = tcc.constant dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf32>
    %i = tcc.constant dense<[1, 0, 1]> : tensor<3xi32>
    %y = tcc.gather %t at %i : tensor<2x2xf32>, tensor<3xi32> -> tensor<3x2xf32>
    // %y = 3 4 1 2 3 4
  }];
}

def Tcc_ScatterAddOp : Tcc_Op<"scatter_add", [IsDifferentiable, KernelBodyOp, AllTypesMatch<["base", "result"]>]> {
  let summary = "base with rows[i...] added at row index[i...], in ascending order of i";
  let description = [{ Indices outside the base are dropped. The sum stands in the result, so each row added is rounded
    to the element type: sum many duplicates in f32. scatter_add_c1: rows' shape is index's shape and then
    base's row shape. scatter_add_c2: equal element types. }];
  let arguments = (ins Tcc_FloatTensor:$base, Tcc_IntTensor:$index, Tcc_FloatTensor:$rows);
  let results = (outs Tcc_FloatTensor:$result);
  let assemblyFormat = "$base `at` $index `,` $rows attr-dict `:` type($base) `,` type($index) `,` type($rows)";
  let hasVerifier = 1;
  let formula = "result[r, j...] = base[r, j...] + Σ rows[i..., j...] over all i with index[i...] = r";
  let gradientFormula = "dbase = dy, drows = dy gathered at index";
  let example = [{
    %b = tcc.constant dense<[[1.0], [2.0]]> : tensor<2x1xf32>
    %i = tcc.constant dense<[1, 1, 5]> : tensor<3xi32>
    %r = tcc.constant dense<[[10.0], [20.0], [30.0]]> : tensor<3x1xf32>
    %y = tcc.scatter_add %b at %i, %r : tensor<2x1xf32>, tensor<3xi32>, tensor<3x1xf32>
    // %y = 1 32
  }];
}

//===- products ------------------------------------------------------------------------------------------------===//

def Tcc_MatmulOp : Tcc_Op<"matmul", [IsDifferentiable, InferTypes, AttrSizedOperandSegments,
    DeclareOpInterfaceMethods<NarrowableOpInterface, ["narrows", "keepResultType"]>,
    DeclareOpInterfaceMethods<StructuredOpInterface, ["operandViews", "sharedBuffers", "writesSlices", "flops"]>]> {
  let hasOwnFunction = 1;
  let summary = "batched matrix product op(a)·op(b), accumulated in f32";
  let description = [{ a: [batch..., M, K], or [batch..., K, M] with transpose_a; b likewise [batch..., K, N], or one
    matrix for all of a's batch. The result's element type is a's, or f32 by `dtype`. With `bias` [N], it is added to every
    row; with `addend`, a tensor of the result's type is added: all in f32, rounded once, in an order that the target's
    library chooses. fuse-epilogues makes both; a bias or addend that a program writes counts as an addition until then.
    matmul_c1: equal contraction sizes. matmul_c2: equal batch sizes, or b of rank 2. matmul_c3: a single matrix b
    with a batched a needs transpose_a = false. matmul_c4: equal element types. matmul_c5: ranks of at least 2.
    matmul_c6: a bias is [N], of f32, of a's type or of the result's. matmul_c7: an addend has the result's type.
    matmul_c8: `dtype` is a's type or f32. }];
  let arguments = (ins Tcc_FloatTensor:$a, Tcc_FloatTensor:$b, Optional<Tcc_FloatTensor>:$bias,
                       Optional<Tcc_FloatTensor>:$addend, UnitAttr:$transpose_a, UnitAttr:$transpose_b,
                       OptionalAttr<TypeAttr>:$dtype);
  let results = (outs Tcc_FloatTensor:$result);
  let assemblyFormat = [{ $a (`transposed` $transpose_a^)? `,` $b (`transposed` $transpose_b^)? (`bias` $bias^)?
                          (`addend` $addend^)? attr-dict `:` type($a) `,` type($b) (`bias` type($bias)^)?
                          (`addend` type($addend)^)? `->` type($result) }];
  let extraClassDeclaration = [{
    bool hasEpilogue() { return getBias() || getAddend(); }
    /// The same result computed without an epilogue: a matmul in f32 that adds nothing, then the additions in f32, then
    /// one rounding.
    ::mlir::Value withoutEpilogue(::tcc::Emit &b);
  }];
  let formula = "result[..., m, n] = Σ_k a[..., m, k] · b[..., k, n] + bias[n] + addend[..., m, n]";
  let gradientFormula = "da = dy · bᵀ, db = aᵀ · dy, summed over the batch for a single matrix b; dbias = Σ dy over all but n, daddend = dy";
  let example = [{
    %a = tcc.constant dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf32>
    %b = tcc.constant dense<[[1.0, 10.0]]> : tensor<1x2xf32>
    %y = tcc.matmul %a, %b transposed : tensor<2x2xf32>, tensor<1x2xf32> -> tensor<2x1xf32>
    // %y = 21 43
    %c = tcc.constant dense<[0.5]> : tensor<1xf32>
    %z = tcc.matmul %a, %b transposed bias %c addend %y : tensor<2x2xf32>, tensor<1x2xf32> bias tensor<1xf32> addend tensor<2x1xf32> -> tensor<2x1xf32>
    // %z = 42.5 86.5
  }];
}

def Tcc_MatmulGeluGradientOp : Tcc_Op<"matmul_gelu_gradient", [IsDifferentiable, IsExpandable, InferTypes,
    DeclareOpInterfaceMethods<StructuredOpInterface, ["operandViews", "flops"]>]> {
  let isTraced = 0;
  let summary = "a matrix product times the slope of gelu at x: gelu_gradient of a product, rounded once";
  let description = [{ a: [M, K]; b: [K, N], or [N, K] with transpose_b; x and the result [M, N]. Sums and slopes are
    f32. A library computes this as part of the matmul; fuse-gelu makes the op.
    matmul_gelu_gradient_c1: matrices of one element type, of sizes that fit. }];
  let arguments = (ins Tcc_FloatTensor:$a, Tcc_FloatTensor:$b, Tcc_FloatTensor:$x, UnitAttr:$transpose_b);
  let results = (outs Tcc_FloatTensor:$result);
  let assemblyFormat = [{ $a `,` $b (`transposed` $transpose_b^)? `at` $x attr-dict `:`
                          type($a) `,` type($b) `,` type($x) `->` type($result) }];
  let formula = "result = gelu_gradient(x, a·b)";
  let gradientFormula = "that of the formula";
  let example = [{
    %a = tcc.constant dense<[[1.0, 2.0]]> : tensor<1x2xf32>
    %b = tcc.constant dense<[[1.0], [0.5]]> : tensor<2x1xf32>
    %x = tcc.constant dense<0.0> : tensor<1x1xf32>
    %y = tcc.matmul_gelu_gradient %a, %b at %x : tensor<1x2xf32>, tensor<2x1xf32>, tensor<1x1xf32> -> tensor<1x1xf32>
    // %y = 1
  }];
}

//===- attention -----------------------------------------------------------------------------------------------===//

def Tcc_FlashAttentionOp : Tcc_Op<"flash_attention", [IsDifferentiable, IsExpandable, InferTypes,
    AttrSizedOperandSegments, DeclareOpInterfaceMethods<NarrowableOpInterface, ["narrows"]>,
    DeclareOpInterfaceMethods<StructuredOpInterface, ["operandViews", "flops"]>]> {
  let isTraced = 0;
  let summary = "softmax(scale · q·kᵀ, masked) · v by heads, and each row's log-sum-exp; no T×S value in memory";
  let description = [{ q [B, T, H, d], k and v [B, S, G, d]; query head h reads key head h div (H div G). With
    `diagonal` D, query t sees keys s <= t + D; with `window` W too, only s > t + D - W. out is q's type, lse f32
    [B, H, T]: the logarithm of the sum of the visible exponentials. A row without a visible key gives 0 and -inf.
    Scores, softmax and sums are f32; probabilities are rounded to the element type before they multiply v. Hidden
    keys are not read (Dao 2023). With `bias`, its elements are added to the scaled scores before the softmax, -inf to
    hide a pair; broadcast dims are read as such. With `rate`, probabilities are dropped out as by dropout of
    [B, H, T, S] with these seed, stream and first; lse is that of the undropped row.
    flash_attention_c1: q, k and v have rank 4, one element type, equal B and d; v has k's type.
    flash_attention_c2: k's heads divide q's. flash_attention_c3: a window is positive and needs a diagonal.
    flash_attention_c4: rate, stream and seed stand together, `first` with them; 0 <= rate < 1.
    flash_attention_c5: the scale is finite in f32. flash_attention_c6: a bias is f32 [B, H, T, S]. }];
  let arguments = (ins Tcc_FloatTensor:$q, Tcc_FloatTensor:$k, Tcc_FloatTensor:$v,
                       Optional<RankedTensorOf<[F32]>>:$bias, Optional<Tcc_IntScalar>:$seed,
                       Optional<Tcc_IndexScalar>:$first, F64Attr:$scale, OptionalAttr<I64Attr>:$diagonal,
                       OptionalAttr<I64Attr>:$window, OptionalAttr<F64Attr>:$rate, OptionalAttr<I64Attr>:$stream);
  let results = (outs Tcc_FloatTensor:$out, RankedTensorOf<[F32]>:$lse);
  let assemblyFormat = [{ $q `,` $k `,` $v (`bias` $bias^)? (`diagonal` $diagonal^)? (`window` $window^)?
                          `scale` $scale (`rate` $rate^)? (`stream` $stream^)? (`seed` $seed^)? (`first` $first^)?
                          attr-dict `:` functional-type(operands, results) }];
  let formula = "out = softmax(scale · q·kᵀ + bias over visible keys) · v; lse = ln Σ e^(visible scores)";
  let gradientFormula = "flash_attention_backward; of lse, and of the bias, through materialised probabilities";
  let example = [{
    %q = tcc.constant dense<1.0> : tensor<1x1x1x1xf32>
    %k = tcc.constant dense<0.0> : tensor<1x2x1x1xf32>
    %v = tcc.constant dense<[[[[2.0]], [[4.0]]]]> : tensor<1x2x1x1xf32>
    %y:2 = tcc.flash_attention %q, %k, %v scale 1.0 : (tensor<1x1x1x1xf32>, tensor<1x2x1x1xf32>, tensor<1x2x1x1xf32>) -> (tensor<1x1x1x1xf32>, tensor<1x1x1xf32>)
    // %y#0 = 3
    // %y#1 = 0.69314718
  }];
}

class Tcc_AttentionGradient<string mnemonic> : Tcc_Op<mnemonic, [IsDifferentiable, IsExpandable, InferTypes,
    AttrSizedOperandSegments, DeclareOpInterfaceMethods<NarrowableOpInterface, ["narrows"]>,
    DeclareOpInterfaceMethods<StructuredOpInterface, ["operandViews", "flops"]>]> {
  let isTraced = 0;
  let arguments = (ins Tcc_FloatTensor:$q, Tcc_FloatTensor:$k, Tcc_FloatTensor:$v, Tcc_FloatTensor:$out,
                       RankedTensorOf<[F32]>:$lse, Tcc_FloatTensor:$dOut, Optional<RankedTensorOf<[F32]>>:$bias,
                       Optional<Tcc_IntScalar>:$seed, Optional<Tcc_IndexScalar>:$first, F64Attr:$scale,
                       OptionalAttr<I64Attr>:$diagonal, OptionalAttr<I64Attr>:$window, OptionalAttr<F64Attr>:$rate,
                       OptionalAttr<I64Attr>:$stream);
  let assemblyFormat = [{ $q `,` $k `,` $v `,` $out `,` $lse `,` $dOut (`bias` $bias^)? (`diagonal` $diagonal^)?
                          (`window` $window^)? `scale` $scale (`rate` $rate^)? (`stream` $stream^)?
                          (`seed` $seed^)? (`first` $first^)? attr-dict `:` functional-type(operands, results) }];
}
def Tcc_FlashAttentionBackwardOp : Tcc_AttentionGradient<"flash_attention_backward"> {
  let summary = "gradients of q, k and v, given those of flash_attention's out; probabilities are computed again";
  let description = [{ Operands and attributes are flash_attention's, out and lse its results, dOut the gradient of
    out. With P = exp(scale·q·kᵀ - lse) and dS = P·(dOut·vᵀ - rowsum(dOut·out)): dQ = scale·dS·k, dK = scale·dSᵀ·q,
    dV = Pᵀ·dOut; dK and dV are summed over a group's heads. P and dS are rounded to the element type before they
    multiply. With dropout, it is applied to dOut·vᵀ and to the P of dV.
    flash_attention_backward_c1: out and dOut have q's type, lse is f32 [B, H, T]. The other constraints are
    flash_attention's. }];
  let results = (outs Tcc_FloatTensor:$dQ, Tcc_FloatTensor:$dK, Tcc_FloatTensor:$dV);
  let formula = "dQ, dK, dV of flash_attention";
  let gradientFormula = "that of the formulas, through materialised probabilities";
  let example = [{
    %q = tcc.constant dense<1.0> : tensor<1x1x1x1xf32>
    %k = tcc.constant dense<0.0> : tensor<1x2x1x1xf32>
    %v = tcc.constant dense<[[[[2.0]], [[4.0]]]]> : tensor<1x2x1x1xf32>
    %o:2 = tcc.flash_attention %q, %k, %v scale 1.0 : (tensor<1x1x1x1xf32>, tensor<1x2x1x1xf32>, tensor<1x2x1x1xf32>) -> (tensor<1x1x1x1xf32>, tensor<1x1x1xf32>)
    %dy = tcc.constant dense<1.0> : tensor<1x1x1x1xf32>
    %y:3 = tcc.flash_attention_backward %q, %k, %v, %o#0, %o#1, %dy scale 1.0 : (tensor<1x1x1x1xf32>, tensor<1x2x1x1xf32>, tensor<1x2x1x1xf32>, tensor<1x1x1x1xf32>, tensor<1x1x1xf32>, tensor<1x1x1x1xf32>) -> (tensor<1x1x1x1xf32>, tensor<1x2x1x1xf32>, tensor<1x2x1x1xf32>)
    // %y#0 = 0
    // %y#1 = -0.5 0.5
    // %y#2 = 0.5 0.5
  }];
}

def Tcc_FlashAttentionPackedGradientOp : Tcc_AttentionGradient<"flash_attention_packed_gradient"> {
  let summary = "flash_attention_backward's gradients in one tensor: heads of q, then of k, then of v";
  let description = [{ Operands and attributes are flash_attention_backward's. packed [B, T, H + 2·G, d] holds dQ, dK
    and dV side by side: where a layer computes q, k and v by one matmul, the gradient of that matmul reads them so.
    flash_attention_packed_gradient_c1: out and dOut have q's type, lse is f32 [B, H, T].
    flash_attention_packed_gradient_c2: k has as many rows as q. The other constraints are flash_attention's. }];
  let results = (outs Tcc_FloatTensor:$packed);
  let formula = "packed = dQ, dK, dV of flash_attention, joined along their third dimension";
  let gradientFormula = "that of the formulas, through materialised probabilities";
  let example = [{
    %q = tcc.constant dense<1.0> : tensor<1x2x1x1xf32>
    %k = tcc.constant dense<0.0> : tensor<1x2x1x1xf32>
    %v = tcc.constant dense<[[[[2.0]], [[4.0]]]]> : tensor<1x2x1x1xf32>
    %o:2 = tcc.flash_attention %q, %k, %v scale 1.0 : (tensor<1x2x1x1xf32>, tensor<1x2x1x1xf32>, tensor<1x2x1x1xf32>) -> (tensor<1x2x1x1xf32>, tensor<1x1x2xf32>)
    %dy = tcc.constant dense<1.0> : tensor<1x2x1x1xf32>
    %y = tcc.flash_attention_packed_gradient %q, %k, %v, %o#0, %o#1, %dy scale 1.0 : (tensor<1x2x1x1xf32>, tensor<1x2x1x1xf32>, tensor<1x2x1x1xf32>, tensor<1x2x1x1xf32>, tensor<1x1x2xf32>, tensor<1x2x1x1xf32>) -> tensor<1x2x3x1xf32>
    // %y = 0 -1 1 0 1 1
  }];
}

//===- activations ---------------------------------------------------------------------------------------------===//

def Tcc_GeluOp : Tcc_Unary<"gelu", Tcc_FloatTensor, [IsDifferentiable]> {
  let summary = "GELU, tanh form (Hendrycks and Gimpel 2016)";
  let formula = [{ result = x · (1 + tanh(√(2/π) · (x + 0.044715 x³))) / 2, computed as x · sigmoid(2u), whose tail
    is exact }];
  let gradientFormula = "dx = gelu_gradient(x, dy)";
  let example = [{
    %x = tcc.constant dense<[1.0, -6.0]> : tensor<2xf32>
    %y = tcc.gelu %x : tensor<2xf32>
    // %y = 0.841192 -8.45e-11
  }];
}
class Tcc_SlopeOp<string mnemonic, string activation>
    : Tcc_Op<mnemonic, [IsDifferentiable, IsElementwise, KernelBodyOp, SameOperandsAndResultType]> {
  let summary = "dy times the slope of " # activation # " at x";
  let isTraced = 0;
  let arguments = (ins Tcc_FloatTensor:$x, Tcc_FloatTensor:$dy);
  let results = (outs Tcc_FloatTensor:$result);
  let assemblyFormat = "$x `,` $dy attr-dict `:` type($result)";
}
def Tcc_GeluGradientOp : Tcc_SlopeOp<"gelu_gradient", "gelu"> {
  let formula = [{ result = dy · (s + x · 2u' · s · (1 - s)) with s = sigmoid(2u), u = √(2/π) · (x + 0.044715 x³) }];
  let gradientFormula = "that of dy is gelu_gradient(x, dr), that of x is dr · dy · gelu''(x)";
  let example = [{
    %x = tcc.constant dense<[0.0, 1.0]> : tensor<2xf32>
    %dy = tcc.constant dense<[2.0, 1.0]> : tensor<2xf32>
    %y = tcc.gelu_gradient %x, %dy : tensor<2xf32>
    // %y = 1 1.0829641
  }];
}
def Tcc_SigmoidOp : Tcc_Unary<"sigmoid", Tcc_FloatTensor, [IsDifferentiable]> {
  let summary = "1 / (1 + exp(-x))";
  let formula = "result = 1 / (1 + e^-x)";
  let gradientFormula = "dx = sigmoid_gradient(x, dy)";
  let example = [{
    %x = tcc.constant dense<[0.0, -20.0]> : tensor<2xf32>
    %y = tcc.sigmoid %x : tensor<2xf32>
    // %y = 0.5 2.0611537e-09
  }];
}
def Tcc_SigmoidGradientOp : Tcc_SlopeOp<"sigmoid_gradient", "sigmoid"> {
  let formula = "result = dy · sigmoid(x) · sigmoid(-x)";
  let gradientFormula = [{ that of dy is sigmoid_gradient(x, dr), that of x is
    dr · dy · sigmoid(x) · sigmoid(-x) · (sigmoid(-x) - sigmoid(x)) }];
  let example = [{
    %x = tcc.constant dense<[0.0, -20.0]> : tensor<2xf32>
    %dy = tcc.constant dense<[2.0, 1.0]> : tensor<2xf32>
    %y = tcc.sigmoid_gradient %x, %dy : tensor<2xf32>
    // %y = 0.5 2.0611537e-09
  }];
}
def Tcc_SiluOp : Tcc_Unary<"silu", Tcc_FloatTensor, [IsDifferentiable]> {
  let summary = "x · sigmoid(x)";
  let formula = "result = x / (1 + e^-x)";
  let gradientFormula = "dx = silu_gradient(x, dy)";
  let example = [{
    %x = tcc.constant dense<[1.0, -20.0]> : tensor<2xf32>
    %y = tcc.silu %x : tensor<2xf32>
    // %y = 0.73105858 -4.1223073e-08
  }];
}
def Tcc_SiluGradientOp : Tcc_SlopeOp<"silu_gradient", "silu"> {
  let formula = [{ result = dy · (s + x · s · (1 - s)) with s = sigmoid(x), whose tails are exact }];
  let gradientFormula = "that of dy is silu_gradient(x, dr), that of x is dr · dy · silu''(x)";
  let example = [{
    %x = tcc.constant dense<[0.0, 1.0]> : tensor<2xf32>
    %dy = tcc.constant dense<[2.0, 1.0]> : tensor<2xf32>
    %y = tcc.silu_gradient %x, %dy : tensor<2xf32>
    // %y = 1 0.92767051
  }];
}
def Tcc_SoftplusOp : Tcc_Unary<"softplus", Tcc_FloatTensor, [IsDifferentiable]> {
  let summary = "ln(1 + e^x), smooth where relu has its corner";
  let formula = "result = max(x, 0) + ln(1 + e^-|x|)";
  let gradientFormula = "dx = dy · sigmoid(x)";
  let example = [{
    %x = tcc.constant dense<[0.0, -20.0]> : tensor<2xf32>
    %y = tcc.softplus %x : tensor<2xf32>
    // %y = 0.69314718 2.0611536e-09
  }];
}

//===- composites ----------------------------------------------------------------------------------------------===//

class Tcc_UnaryComposite<string mnemonic, list<Trait> traits = []>
    : Tcc_Op<mnemonic, !listconcat(traits, [IsComposite, SameOperandsAndResultType])> {
  let arguments = (ins Tcc_FloatTensor:$x);
  let results = (outs Tcc_FloatTensor:$result);
  let assemblyFormat = "$x attr-dict `:` type($result)";
}
def Tcc_ReluOp : Tcc_UnaryComposite<"relu"> {
  let summary = "max(x, 0); the gradient at 0 is 0";
  let formula = "result = x where x > 0, else 0; NaN stays";
  let gradientFormula = "dx = 0 where x <= 0, else dy";
  let example = [{
    %x = tcc.constant dense<[1.5, -2.0]> : tensor<2xf32>
    %y = tcc.relu %x : tensor<2xf32>
    // %y = 1.5 0
  }];
}
def Tcc_SoftmaxOp : Tcc_UnaryComposite<"softmax"> {
  let summary = "softmax over the last dim";
  let formula = "result[..., i] = e^(x[..., i] - m) / Σ_j e^(x[..., j] - m), m the row's maximum";
  let gradientFormula = "dx = result · (dy - Σ_j dy · result)";
  let example = [{
    %x = tcc.constant dense<[0.0, 0.0, 1000.0]> : tensor<3xf32>
    %y = tcc.softmax %x : tensor<3xf32>
    // %y = 0 0 1
  }];
}

def Tcc_ReduceMeanOp : Tcc_Op<"reduce_mean", [IsComposite, InferTypes]> {
  let hasOwnFunction = 1;
  let summary = "arithmetic mean over axes, which stay as size 1";
  let arguments = (ins Tcc_FloatTensor:$x, DenseI64ArrayAttr:$axes);
  let results = (outs Tcc_FloatTensor:$result);
  let assemblyFormat = "$x `axes` $axes attr-dict `:` type($x) `->` type($result)";
  let formula = "result = Σ x / n over axes";
  let gradientFormula = "dx = dy / n broadcast";
  let example = [{
    %x = tcc.constant dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf32>
    %y = tcc.reduce_mean %x axes [0] : tensor<2x2xf32> -> tensor<1x2xf32>
    // %y = 2 3
  }];
}

def Tcc_ReduceMinOp : Tcc_Op<"reduce_min", [IsComposite, InferTypes]> {
  let hasOwnFunction = 1;
  let summary = "minimum over axes, which stay as size 1; of no elements inf, or the largest integer; NaN wins";
  let arguments = (ins Tcc_NumberTensor:$x, DenseI64ArrayAttr:$axes);
  let results = (outs Tcc_NumberTensor:$result);
  let assemblyFormat = "$x `axes` $axes attr-dict `:` type($x) `->` type($result)";
  let formula = "result = min x over axes; NaN where one is NaN";
  let gradientFormula = "as of reduce_max";
  let example = [{
    %x = tcc.constant dense<[[1.0, 2.0], [3.0, -4.0]]> : tensor<2x2xf32>
    %y = tcc.reduce_min %x axes [1] : tensor<2x2xf32> -> tensor<2x1xf32>
    // %y = 1 -4
  }];
}

class Tcc_Place<string mnemonic> : Tcc_Op<mnemonic, [IsComposite, NoGradient, InferTypes]> {
  let hasOwnFunction = 1;
  let arguments = (ins Tcc_NumberTensor:$x, I64Attr:$axis);
  let results = (outs RankedTensorOf<[I32]>:$result);
  let assemblyFormat = "$x `axis` $axis attr-dict `:` type($x) `->` type($result)";
  let gradientFormula = "none: integers";
}
def Tcc_ArgmaxOp : Tcc_Place<"argmax"> {
  let summary = "the place of the largest element along an axis, the first of equal ones; NaN is the largest";
  let description = [{ The axis stays as size 1.
    argmax_c1: 0 <= axis < rank. argmax_c2: the axis has an element, at most 2^31 - 1. }];
  let formula = "result = the least i with x[i] = max x along the axis, or with x[i] NaN";
  let example = [{
    %x = tcc.constant dense<[[1.0, 5.0, 5.0], [3.0, -4.0, 0.0]]> : tensor<2x3xf32>
    %y = tcc.argmax %x axis 1 : tensor<2x3xf32> -> tensor<2x1xi32>
    // %y = 1 0
  }];
}
def Tcc_ArgminOp : Tcc_Place<"argmin"> {
  let summary = "the place of the least element along an axis, the first of equal ones; NaN is the least";
  let description = [{ The axis stays as size 1.
    argmin_c1: 0 <= axis < rank. argmin_c2: the axis has an element, at most 2^31 - 1. }];
  let formula = "result = the least i with x[i] = min x along the axis, or with x[i] NaN";
  let example = [{
    %x = tcc.constant dense<[[1.0, 5.0, 5.0], [3.0, -4.0, 0.0]]> : tensor<2x3xf32>
    %y = tcc.argmin %x axis 1 : tensor<2x3xf32> -> tensor<2x1xi32>
    // %y = 0 1
  }];
}

class Tcc_Running<string mnemonic> : Tcc_Op<mnemonic, [IsComposite, SameOperandsAndResultType]> {
  let arguments = (ins Tcc_NumberTensor:$x, I64Attr:$axis);
  let results = (outs Tcc_NumberTensor:$result);
  let assemblyFormat = "$x `axis` $axis attr-dict `:` type($result)";
  let hasVerifier = 1;
}
def Tcc_CumsumOp : Tcc_Running<"cumsum"> {
  let summary = "running sums along an axis; 16-bit floats are added in f32 and rounded once; integers wrap";
  let description = [{ Blocks of 32 elements are summed by themselves: the order of additions follows from the size.
    cumsum_c1: 0 <= axis < rank. }];
  let formula = "result[i] = x[0] + … + x[i] along the axis";
  let gradientFormula = "dx[i] = the sum of dy from i on";
  let example = [{
    %x = tcc.constant dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>
    %y = tcc.cumsum %x axis 0 : tensor<4xf32>
    // %y = 1 3 6 10
  }];
}
def Tcc_CumprodOp : Tcc_Running<"cumprod"> {
  let summary = "running products along an axis; 16-bit floats are multiplied in f32 and rounded once; integers wrap";
  let description = [{ cumprod_c1: 0 <= axis < rank. }];
  let formula = "result[i] = x[0] · … · x[i] along the axis";
  let gradientFormula = "that of the products";
  let example = [{
    %x = tcc.constant dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>
    %y = tcc.cumprod %x axis 0 : tensor<4xf32>
    // %y = 1 2 6 24
  }];
}

def Tcc_SortOp : Tcc_Op<"sort", [IsComposite, InferTypes]> {
  let hasOwnFunction = 1;
  let summary = "elements in order along an axis, equal ones as they stood; NaN is the largest";
  let description = [{ `places` says where each element stood. With `descending` the largest comes first.
    Each element is compared with each of its line: sizes of thousands are slow.
    sort_c1: 0 <= axis < rank. sort_c2: the axis has a known size of at most 65536. }];
  let arguments = (ins Tcc_NumberTensor:$x, I64Attr:$axis, UnitAttr:$descending);
  let results = (outs Tcc_NumberTensor:$values, RankedTensorOf<[I32]>:$places);
  let assemblyFormat = [{ $x `axis` $axis (`descending` $descending^)? attr-dict `:` type($x) `->` type($values) `,`
                          type($places) }];
  let formula = "values[i] = x[places[i]], ascending along the axis; places of equal elements ascend";
  let gradientFormula = "dx[places[i]] = dvalues[i]";
  let example = [{
    %x = tcc.constant dense<[3.0, 1.0, 2.0]> : tensor<3xf32>
    %y:2 = tcc.sort %x axis 0 : tensor<3xf32> -> tensor<3xf32>, tensor<3xi32>
    // %y#0 = 1 2 3
    // %y#1 = 1 2 0
  }];
}

def Tcc_LayerNormOp : Tcc_Op<"layer_norm", [IsComposite, AllTypesMatch<["x", "result"]>]> {
  let summary = "(x - mean) / sqrt(variance + eps) · weight + bias over the last dim (Ba et al. 2016)";
  let description = [{ layer_norm_c1: weight and bias have x's last size. layer_norm_c2: eps is at least 0, and finite
    in f32. }];
  let arguments = (ins Tcc_FloatTensor:$x, Tcc_FloatTensor:$weight, Tcc_FloatTensor:$bias,
                       DefaultValuedAttr<F64Attr, "1e-5">:$eps);
  let results = (outs Tcc_FloatTensor:$result);
  let assemblyFormat = "$x `,` $weight `,` $bias attr-dict `:` type($x) `,` type($weight) `,` type($bias)";
  let hasVerifier = 1;
  let formula = [{ result = (x - mean) / √(variance + eps) · weight + bias, mean and variance (over n, not n - 1) of
    the last dim }];
  let gradientFormula = "that of the formula; dweight and dbias are sums over the rows";
  let example = [{
    %x = tcc.constant dense<[1.0, 3.0]> : tensor<2xf32>
    %w = tcc.constant dense<[1.0, 2.0]> : tensor<2xf32>
    %b = tcc.constant dense<[0.0, 1.0]> : tensor<2xf32>
    %y = tcc.layer_norm %x, %w, %b {eps = 3.0} : tensor<2xf32>, tensor<2xf32>, tensor<2xf32>
    // %y = -0.5 2
  }];
}

def Tcc_RmsNormOp : Tcc_Op<"rms_norm", [IsComposite, AllTypesMatch<["x", "result"]>]> {
  let summary = "x / sqrt(mean(x²) + eps) · weight over the last dim (Zhang and Sennrich 2019)";
  let description = [{ rms_norm_c1: weight has x's last size. rms_norm_c2: eps is at least 0, and finite in f32. }];
  let arguments = (ins Tcc_FloatTensor:$x, Tcc_FloatTensor:$weight, DefaultValuedAttr<F64Attr, "1e-5">:$eps);
  let results = (outs Tcc_FloatTensor:$result);
  let assemblyFormat = "$x `,` $weight attr-dict `:` type($x) `,` type($weight)";
  let hasVerifier = 1;
  let formula = "result = x / √(mean(x²) + eps) · weight over the last dim";
  let gradientFormula = "that of the formula; dweight is a sum over the rows";
  let example = [{
    %x = tcc.constant dense<[1.0, 7.0]> : tensor<2xf32>
    %w = tcc.constant dense<[1.0, 2.0]> : tensor<2xf32>
    %y = tcc.rms_norm %x, %w {eps = 0.0} : tensor<2xf32>, tensor<2xf32>
    // %y = 0.2 2.8
  }];
}

def Tcc_LinearOp : Tcc_Op<"linear", [IsComposite, InferTypes]> {
  let summary = "x · weight + bias; weight is [in, out]";
  let description = [{ linear_c1: weight is [x's last size, out]. linear_c2: bias is [out]. }];
  let arguments = (ins Tcc_FloatTensor:$x, Tcc_FloatTensor:$weight, Optional<Tcc_FloatTensor>:$bias);
  let results = (outs Tcc_FloatTensor:$result);
  let assemblyFormat = [{ $x `,` $weight (`,` $bias^)? attr-dict `:` type($x) `,` type($weight) (`,` type($bias)^)?
                          `->` type($result) }];
  let formula = "result = x · weight + bias";
  let gradientFormula = "dx = dy · weightᵀ, dweight = xᵀ · dy, dbias = Σ dy over the rows";
  let example = [{
    %x = tcc.constant dense<[[1.0, 2.0]]> : tensor<1x2xf32>
    %w = tcc.constant dense<[[1.0, 0.0], [0.0, 10.0]]> : tensor<2x2xf32>
    %b = tcc.constant dense<[0.5, 0.0]> : tensor<2xf32>
    %y = tcc.linear %x, %w, %b : tensor<1x2xf32>, tensor<2x2xf32>, tensor<2xf32> -> tensor<1x2xf32>
    // %y = 1.5 20
  }];
}

def Tcc_CrossEntropyOp : Tcc_Op<"cross_entropy", [IsComposite, InferTypes]> {
  let summary = "mean over rows of -log softmax(logits)[target]; rows whose target is negative do not count";
  let description = [{ logits [..., V], targets [...], result a f32 scalar: NaN, the mean of nothing, where no row
    counts. cross_entropy_c1: targets have the logits' shape without its last dim. }];
  let arguments = (ins Tcc_FloatTensor:$logits, Tcc_IntTensor:$targets);
  let results = (outs Tcc_FloatTensor:$result);
  let assemblyFormat = "$logits `,` $targets attr-dict `:` type($logits) `,` type($targets) `->` type($result)";
  let formula = [{ result = Σ over counted rows of ln Σ_j e^(logits[j] - m) - (logits[target] - m), divided by their
    number, m the row's maximum }];
  let gradientFormula = [{ dlogits = dy · (softmax(logits) - onehot(target)) / number of counted rows; 0 in rows
    that do not count, NaN in rows whose target is V or more }];
  let example = [{
    %x = tcc.constant dense<[[10000.0, 10000.0], [0.0, 5.0]]> : tensor<2x2xf32>
    %t = tcc.constant dense<[1, -1]> : tensor<2xi32>
    %y = tcc.cross_entropy %x, %t : tensor<2x2xf32>, tensor<2xi32> -> tensor<f32>
    // %y = 0.69314718
  }];
}

def Tcc_FoldOp : Tcc_Op<"fold", [IsComposite]> {
  let hasOwnFunction = 1;
  let summary = "the sum of windows, each where it stands: what window's gradient does";
  let description = [{ x has the type that `window` of the result would have; 16-bit floats are added in f32.
    fold_c1: sizes are known, element types equal; dims ascend within the result's rank, and steps and dilations are at
    least 1. fold_c2: x has the type of the windows. }];
  let arguments = (ins Tcc_FloatTensor:$x, DenseI64ArrayAttr:$dims,
                       DefaultValuedAttr<DenseI64ArrayAttr, "{}">:$steps,
                       DefaultValuedAttr<DenseI64ArrayAttr, "{}">:$dilations);
  let results = (outs Tcc_FloatTensor:$result);
  let assemblyFormat = [{ $x `dims` $dims (`steps` $steps^)? (`dilations` $dilations^)? attr-dict `:`
                          type($x) `->` type($result) }];
  let hasVerifier = 1;
  let formula = "result[..., j, ...] = Σ x[..., i, ..., w] over i · step + w · dilation = j";
  let gradientFormula = "dx = window of dy";
  let example = [{
    %x = tcc.constant dense<[[1.0, 2.0, 3.0], [3.0, 4.0, 5.0]]> : tensor<2x3xf32>
    %y = tcc.fold %x dims [0] steps [2] : tensor<2x3xf32> -> tensor<5xf32>
    // %y = 1 2 6 4 5
  }];
}

def Tcc_ConvolutionOp : Tcc_Op<"convolution", [IsComposite, InferTypes]> {
  let hasOwnFunction = 1;
  let summary = "products of a weight with windows of x, summed over channels, over 1 to 3 dims of space";
  let description = [{ x [batch, channels, space...], weight [out, channels / groups, window...], result [batch, out,
    places...]; with `padding` zeros on both sides of each dim of space. Each group of outs reads its group of channels.
    It is a product of windows, written to memory before it: batch · channels · places · window elements at a time.
    convolution_c1: 1 to 3 dims of space, equal ranks and element types. convolution_c2: the weight's channels times the
    groups are x's, and the groups divide out. convolution_c3: steps and dilations are at least 1, paddings at least 0,
    one a dim. convolution_c4: a window fits into the padded x. convolution_c5: the bias is [out]. }];
  let arguments = (ins Tcc_FloatTensor:$x, Tcc_FloatTensor:$weight, Optional<Tcc_FloatTensor>:$bias,
                       DefaultValuedAttr<DenseI64ArrayAttr, "{}">:$steps,
                       DefaultValuedAttr<DenseI64ArrayAttr, "{}">:$padding,
                       DefaultValuedAttr<DenseI64ArrayAttr, "{}">:$dilations, DefaultValuedAttr<I64Attr, "1">:$groups);
  let results = (outs Tcc_FloatTensor:$result);
  let assemblyFormat = [{ $x `,` $weight (`bias` $bias^)? (`steps` $steps^)? (`padding` $padding^)?
                          (`dilations` $dilations^)? (`groups` $groups^)? attr-dict `:` type($x) `,` type($weight)
                          (`bias` type($bias)^)? `->` type($result) }];
  let formula = "result[b, o, i...] = Σ_c,w x[b, c, i · step + w · dilation - padding...] · weight[o, c, w...] + bias[o]";
  let gradientFormula = "that of the product: dx folds the windows of dy · weight";
  let example = [{
    %x = tcc.constant dense<[[[1.0, 2.0, 3.0, 4.0]]]> : tensor<1x1x4xf32>
    %w = tcc.constant dense<[[[1.0, 0.0, -1.0]]]> : tensor<1x1x3xf32>
    %y = tcc.convolution %x, %w padding [1] : tensor<1x1x4xf32>, tensor<1x1x3xf32> -> tensor<1x1x4xf32>
    // %y = -2 -2 -2 3
  }];
}

def Tcc_AttentionOp : Tcc_Op<"attention", [IsComposite, AllTypesMatch<["q", "result"]>]> {
  let hasOwnFunction = 1;
  let summary = "softmax(scale · q·kᵀ, masked) · v";
  let description = [{ q [batch..., T, d], k and v [batch..., S, d]. With `causal`, query t sees keys 0..t. A `mask` of
    [batch..., T, S], whose sizes may be 1 instead, is added to the scaled scores, or, of i1, shows the pairs where it is
    true; a query that sees no key gets 0. It makes a flash_attention with a bias.
    attention_c1: k and v have q's batch and head size. attention_c2: causal needs T = S. attention_c3: the scale is
    finite in f32. attention_c4: a mask has q's rank, and known sizes of 1 or of the scores. }];
  let arguments = (ins Tcc_FloatTensor:$q, Tcc_FloatTensor:$k, Tcc_FloatTensor:$v,
                       Optional<RankedTensorOf<[I1, F32, BF16, F16]>>:$mask, UnitAttr:$causal, F64Attr:$scale);
  let results = (outs Tcc_FloatTensor:$result);
  let assemblyFormat = [{ $q `,` $k `,` $v (`mask` $mask^)? (`causal` $causal^)? `scale` $scale attr-dict `:` type($q) `,`
                          type($k) `,` type($v) (`mask` type($mask)^)? }];
  let hasVerifier = 1;
  let formula = "result = softmax(scale · q · kᵀ + mask) · v, hidden scores -inf";
  let gradientFormula = "that of the formula";
  let example = [{
    %q = tcc.constant dense<[[1.0], [1.0]]> : tensor<2x1xf32>
    %k = tcc.constant dense<[[0.0], [0.0]]> : tensor<2x1xf32>
    %v = tcc.constant dense<[[2.0], [4.0]]> : tensor<2x1xf32>
    %y = tcc.attention %q, %k, %v causal scale 1.0 : tensor<2x1xf32>, tensor<2x1xf32>, tensor<2x1xf32>
    // %y = 2 3
  }];
}

def Tcc_DropoutOp : Tcc_Op<"dropout", [IsComposite, AllTypesMatch<["x", "result"]>]> {
  let hasOwnFunction = 1;
  let summary = "x / (1 - rate) where kept, 0 elsewhere; kept with probability 1 - rate by random_bits(seed, stream)";
  let description = [{ Random bits of x's shape are drawn by random_bits(seed, stream, first). An element is dropped where
    its bits, as an unsigned number, are below ⌊rate · 2^32⌋; the rate that counts is ⌊rate · 2^32⌋ / 2^32.
    dropout_c1: 0 <= rate < 1. dropout_c2: `first` needs a dim 0. }];
  let arguments = (ins Tcc_FloatTensor:$x, Tcc_IntScalar:$seed, F64Attr:$rate, I64Attr:$stream,
                       Optional<Tcc_IndexScalar>:$first);
  let results = (outs Tcc_FloatTensor:$result);
  let assemblyFormat = [{ $x `,` $seed `rate` $rate `stream` $stream (`first` $first^)? attr-dict `:` type($x) `,`
                          type($seed) }];
  let hasVerifier = 1;
  let formula = [{ result = x / (1 - p) where random_bits(seed, stream, first), as an unsigned number, is at least p
    · 2^32, with p = ⌊rate · 2^32⌋ / 2^32; else 0 }];
  let gradientFormula = "dx = dy / (1 - rate) where kept, else 0";
  let example = [{
    %x = tcc.constant dense<[1.0, 2.0]> : tensor<2xf32>
    %seed = tcc.constant dense<7> : tensor<i32>
    %y = tcc.dropout %x, %seed rate 0.0 stream 3 : tensor<2xf32>, tensor<i32>
    // %y = 1 2
  }];
}

def Tcc_StochasticCastOp : Tcc_Op<"stochastic_cast", [IsComposite, InferTypes]> {
  let hasOwnFunction = 1;
  let summary = "cast from f32 to bf16 with stochastic rounding: up or down at random, x on average";
  let description = [{ This is cast_by_bits with random_bits(seed, stream) of x's shape. A sum of many small updates
    keeps growing where rounding to nearest would leave it as it is. }];
  let arguments = (ins RankedTensorOf<[F32]>:$x, Tcc_IntScalar:$seed, I64Attr:$stream);
  let results = (outs RankedTensorOf<[BF16]>:$result);
  let assemblyFormat = "$x `,` $seed `stream` $stream attr-dict `:` type($x) `,` type($seed) `->` type($result)";
  let formula = "result = cast_by_bits(x, random_bits(seed, stream))";
  let gradientFormula = "dx = dy cast back";
  let example = [{
    %x = tcc.constant dense<[1.0, 2.5]> : tensor<2xf32>
    %seed = tcc.constant dense<7> : tensor<i32>
    %r = tcc.stochastic_cast %x, %seed stream 3 : tensor<2xf32>, tensor<i32> -> tensor<2xbf16>
    %y = tcc.cast %r : tensor<2xbf16> -> tensor<2xf32>
    // %y = 1 2.5
  }];
}

def Tcc_AdamwOp : Tcc_Op<"adamw", [IsComposite, NoGradient, AllTypesMatch<["parameter", "newParameter"]>,
    AllTypesMatch<["m", "v", "newM", "newV"]>, AllShapesMatch<["parameter", "gradient", "m", "v"]>]> {
  let hasOwnFunction = 1;
  let summary = "one AdamW update (Loshchilov and Hutter 2019) of a parameter and its two moments";
  let description = [{ gradient is multiplied by `scale` first; `step` counts from 1; where `apply` is false the old
    values are kept bit for bit. adamw_c1: 0 <= beta1, beta2 < 1. adamw_c2: eps is at least 0, and finite in f32.
    adamw_c3: weight_decay is finite in f32. }];
  let hasVerifier = 1;
  let arguments = (ins Tcc_FloatTensor:$parameter, Tcc_FloatTensor:$gradient, Tcc_FloatTensor:$m, Tcc_FloatTensor:$v,
                       Tcc_FloatScalar:$lr, Tcc_FloatScalar:$step, Tcc_FloatScalar:$scale, Tcc_BoolScalar:$apply,
                       F64Attr:$beta1, F64Attr:$beta2, F64Attr:$eps, F64Attr:$weight_decay);
  let results = (outs Tcc_FloatTensor:$newParameter, Tcc_FloatTensor:$newM, Tcc_FloatTensor:$newV);
  let assemblyFormat = [{ $parameter `,` $gradient `,` $m `,` $v `lr` $lr `step` $step `scale` $scale `apply` $apply
                          attr-dict `:` type($parameter) `,` type($gradient) `,` type($m) }];
  let formula = [{ g = gradient · scale; newM = beta1 · m + (1 - beta1) · g; newV = beta2 · v + (1 - beta2) · g²;
    newParameter = (1 - lr · weight_decay) · parameter - lr · (newM / (1 - beta1^step)) / (√(newV / (1 -
    beta2^step)) + eps) }];
  let gradientFormula = "that of the formula; updates usually come after the gradients";
  let example = [{
    %p = tcc.constant dense<[1.0]> : tensor<1xf32>
    %g = tcc.constant dense<[0.5]> : tensor<1xf32>
    %zero = tcc.constant dense<[0.0]> : tensor<1xf32>
    %lr = tcc.constant dense<0.1> : tensor<f32>
    %one = tcc.constant dense<1.0> : tensor<f32>
    %yes = tcc.constant dense<true> : tensor<i1>
    %y:3 = tcc.adamw %p, %g, %zero, %zero lr %lr step %one scale %one apply %yes {beta1 = 0.9, beta2 = 0.999, eps = 1.0e-8, weight_decay = 0.0} : tensor<1xf32>, tensor<1xf32>, tensor<1xf32>
    // %y#0 = 0.9
  }];
}

//===- structure -----------------------------------------------------------------------------------------------===//

def Tcc_GradientOp : Tcc_Op<"gradient", [InferTypes]> {
  let hasOwnFunction = 1;
  let summary = "gradients of a scalar loss with respect to values it was computed from";
  let description = [{ Expanded by `autodiff`. gradient_c1: the loss is a float scalar. gradient_c2: each wrt is a
    float tensor. A value that the loss does not depend on has gradient 0. }];
  let arguments = (ins Tcc_FloatTensor:$loss, Variadic<Tcc_FloatTensor>:$wrt);
  let results = (outs Variadic<Tcc_FloatTensor>:$results);
  let assemblyFormat = "$loss `wrt` $wrt attr-dict `:` type($loss) `,` type($wrt)";
  let formula = "results[n] = ∂ loss / ∂ wrt[n]";
  let gradientFormula = "gradients of gradients are taken like any other";
  let example = [{
    %x = tcc.constant dense<3.0> : tensor<f32>
    %l = tcc.mul %x, %x : tensor<f32>
    %d = tcc.gradient %l wrt %x : tensor<f32>, tensor<f32>
    %y = tcc.gradient %d wrt %x : tensor<f32>, tensor<f32>
    // %y = 2
  }];
}

def Tcc_PrintOp : Tcc_Op<"print", [NoGradient], [MemoryEffects<[MemWrite]>]> {
  let isTraced = 0;
  let asksHost = 1;
  let summary = "name and values on stdout, when the step is done; digits read back to the same bits";
  let description = [{ A print is never removed, and lines come in the order of the ops. print_c1: it stands in the
    function itself, in no region of another op. print_c2: the name is not empty and of one line. }];
  let arguments = (ins StrAttr:$name, Tcc_PrintedTensor:$x);
  let assemblyFormat = "$name `,` $x attr-dict `:` type($x)";
  let hasVerifier = 1;
  let formula = "no result: a line `name = values`, `name [2, 3] = values` for a tensor, in the order of memory";
  let gradientFormula = "none: it has no result";
  let example = [{
    %x = tcc.constant dense<[0.5, -2.0]> : tensor<2xf32>
    %y = tcc.neg %x : tensor<2xf32>
    tcc.print "y", %y : tensor<2xf32>
    // %y = -0.5 2
  }];
}

def Tcc_CondOp : Tcc_Op<"cond", [IsolatedFromAbove, IsDifferentiable, IsExpandable,
    DeclareOpInterfaceMethods<BodyOpInterface>, DeclareOpInterfaceMethods<StructuredOpInterface, ["flops"]>]> {
  let hasOwnFunction = 1;
  let summary = "the results of one of two bodies";
  let description = [{ Both bodies take the inputs as block arguments and yield the results. The second body stands after
    `else` and uses the first one's names of the inputs. A CPU runs only the body that the predicate chooses; for a
    target without branches `expand-unsupported` runs both and selects. Several result types stand in parentheses;
    without inputs the parentheses are empty: `%y:2 = tcc.cond %p () -> (tensor<2xf32>, tensor<f32>)`. cond_c1: block
    arguments have the inputs' types. cond_c2: each body ends with a tcc.yield of the results' types. }];
  let arguments = (ins Tcc_BoolScalar:$predicate, Variadic<Tcc_Tensor>:$inputs);
  let results = (outs Variadic<Tcc_Tensor>:$results);
  let regions = (region SizedRegion<1>:$then, SizedRegion<1>:$otherwise);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  let formula = "the first body's values where the predicate is true, else the second's";
  let gradientFormula = "d inputs = the gradient of the body that was chosen, which recomputes what it needs; 0 for "
                        "inputs that only the other body reads";
  let example = [{
    %p = tcc.constant dense<true> : tensor<i1>
    %a = tcc.constant dense<[1.0, 2.0]> : tensor<2xf32>
    %y = tcc.cond %p (%x = %a : tensor<2xf32>) -> tensor<2xf32> {
      %e = tcc.add %x, %x : tensor<2xf32>
      tcc.yield %e : tensor<2xf32>
    } else {
      tcc.yield %x : tensor<2xf32>
    }
    // %y = 2 4
  }];
}

def Tcc_RepeatOp : Tcc_Op<"repeat", [IsolatedFromAbove, IsDifferentiable, AttrSizedOperandSegments,
    DeclareOpInterfaceMethods<BodyOpInterface, ["carriedArguments", "slicedArguments"]>,
    DeclareOpInterfaceMethods<StructuredOpInterface, ["sharedBuffers", "flops"]>]> {
  let hasOwnFunction = 1;
  let summary = "a body that runs a fixed number of times, each time on what it yielded before";
  let description = [{ The body's arguments are, in this order: the carried values, which are `start` in the first turn
    and then what the turn before yielded; of each of the `scanned` values part i in turn i; and the inputs, which stand
    after `uses` and are the same in every turn.
    repeat_c1: the count is 1 or more, at most 2^31. repeat_c2: scanned values are [count, ...]. repeat_c3: block
    arguments have the types of start, parts and inputs. repeat_c4: the body ends with a tcc.yield of the results'
    types, which are start's. }];
  let arguments = (ins I64Attr:$count, Variadic<Tcc_Tensor>:$start, Variadic<Tcc_Tensor>:$scanned,
                       Variadic<Tcc_Tensor>:$inputs);
  let results = (outs Variadic<Tcc_Tensor>:$results);
  let regions = (region SizedRegion<1>:$body);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  let formula = "c ← start; for i < count: c ← body(c, scanned[i], inputs); results = c";
  let gradientFormula = "that of the body, count times in a row; for at most 32 turns";
  let example = [{
    %a = tcc.constant dense<1.0> : tensor<f32>
    %t = tcc.constant dense<[1.0, 2.0, 3.0]> : tensor<3xf32>
    %k = tcc.constant dense<2.0> : tensor<f32>
    %y = tcc.repeat 3 (%x = %a : tensor<f32>) slices (%s = %t : tensor<3xf32>) uses (%two = %k : tensor<f32>) {
      %m = tcc.mul %x, %two : tensor<f32>
      %e = tcc.add %m, %s : tensor<f32>
      tcc.yield %e : tensor<f32>
    }
    // %y = 19
  }];
}

def Tcc_LanesOp : Tcc_Op<"lanes", [IsolatedFromAbove, NoGradient, AttrSizedOperandSegments,
    DeclareOpInterfaceMethods<BodyOpInterface, ["slicedArguments"]>]> {
  let hasOwnFunction = 1;
  let summary = "the sum of what a body yields for each of the lanes, which ranks share out";
  let description = [{ The body's arguments are part i of each `scanned` value in lane i, and the inputs, which stand
    after `uses` and are the same in every lane. The lanes' values are added in one binary tree: n lanes are the first k
    of them plus the others, where k is the largest power of two below n. So the bits follow from the lanes alone, however
    many ranks compute them. `distribute` writes the lanes of a rank as loops, and what ranks exchange as collectives.
    Gradients stand inside of the body.
    lanes_c1: the count is 1 or more, at most 4096. lanes_c2: scanned values are [count, ...]. lanes_c3: block arguments
    have the types of parts and inputs. lanes_c4: the body ends with a tcc.yield of the results' types, which are f32. }];
  let arguments = (ins I64Attr:$count, Variadic<Tcc_Tensor>:$scanned, Variadic<Tcc_Tensor>:$inputs);
  let results = (outs Variadic<Tcc_Tensor>:$results);
  let regions = (region SizedRegion<1>:$body);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  let formula = "result = tree(0, count); tree(i, 1) = body(scanned[i], inputs); tree(i, n) = tree(i, k) + tree(i + k, n - k)";
  let gradientFormula = "none: gradients are taken in the body";
  let example = [{
    %t = tcc.constant dense<[1.0, 2.0, 3.0]> : tensor<3xf32>
    %k = tcc.constant dense<2.0> : tensor<f32>
    %y = tcc.lanes 3 slices (%s = %t : tensor<3xf32>) uses (%two = %k : tensor<f32>) -> tensor<f32> {
      %m = tcc.mul %s, %two : tensor<f32>
      tcc.yield %m : tensor<f32>
    }
    // %y = 12
  }];
}

def Tcc_ShardOp : Tcc_Op<"shard", [NoGradient, DeclareOpInterfaceMethods<CollectiveOpInterface>,
    DeclareOpInterfaceMethods<StructuredOpInterface>]> {
  let isTraced = 0;
  let summary = "the part of a value that belongs to the rank";
  let description = [{ Of n first indices, rank r of `ranks` has those from r · n / ranks on, rounded down, to where the
    next rank's begin. shard_c1: the result is the operand with a first size of n / ranks, rounded down or up, at least
    1. }];
  let arguments = (ins Tcc_Tensor:$x, I64Attr:$ranks);
  let results = (outs Tcc_Tensor:$result);
  let assemblyFormat = "$x `of` $ranks attr-dict `:` type($x) `->` type($result)";
  let hasVerifier = 1;
  let formula = "result = x[rank · n / ranks : (rank + 1) · n / ranks]";
  let gradientFormula = "none: ranks share out work after autodiff";
  let example = [{
    %x = tcc.constant dense<[1.0, 2.0]> : tensor<2xf32>
    %y = tcc.shard %x of 1 : tensor<2xf32> -> tensor<2xf32>
    // %y = 1 2
  }];
}

def Tcc_AllToAllOp : Tcc_Op<"all_to_all", [NoGradient, DeclareOpInterfaceMethods<CollectiveOpInterface>, DeclareOpInterfaceMethods<InFlightOpInterface>,
    DeclareOpInterfaceMethods<StructuredOpInterface, ["placesInScratch"]>]> {
  let isTraced = 0;
  let summary = "every rank gets its part of every rank's pieces, and adds nothing";
  let description = [{ Rank i has pieces[i] pieces; this rank has `own`. A piece is the same number of tensors in every
    rank: their elements one after another, each tensor at a multiple of 64, with zeros between and after them, as
    ranks · S elements (tcc.unpack takes them out). Row j of the result is part number `rank` (S elements) of piece j,
    where all pieces of rank 0 come first, then those of rank 1.
    all_to_all_c1: the ranks have 1 piece or more each, and one of them has as many as `own`. all_to_all_c2: there are as
    many operands in each piece, 1 or more, of f32 and of equal types. all_to_all_c3: the result is [sum of pieces, S], and
    ranks · S is not less than where a piece's last tensor ends. all_to_all_c4: the flight, if it has one (tcc.wait), is 1
    to 2^20. }];
  let extraClassDeclaration = [{
    /// Whether this rank sends one piece to others, so that it can send from where the piece lies.
    bool sendsOnePiece() { return getOwn() == 1 && getPieces().size() > 1; }
  }];
  let arguments = (ins DenseI64ArrayAttr:$pieces, I64Attr:$own, Variadic<Tcc_Tensor>:$values, OptionalAttr<I64Attr>:$flight);
  let results = (outs Tcc_Tensor:$result);
  let assemblyFormat = "$pieces `own` $own `of` $values attr-dict `:` functional-type($values, $result)";
  let hasVerifier = 1;
  let formula = "result[j] = piece_j[rank · S : (rank + 1) · S]";
  let gradientFormula = "none: ranks exchange values after autodiff";
  let example = [{
    %a = tcc.constant dense<[1.0, 2.0]> : tensor<2xf32>
    %b = tcc.constant dense<[3.0, 4.0]> : tensor<2xf32>
    %y = tcc.all_to_all [2] own 2 of %a, %b : (tensor<2xf32>, tensor<2xf32>) -> tensor<2x3xf32>
    // %y = 1 2 0 3 4 0
  }];
}

def Tcc_AllGatherOp : Tcc_Op<"all_gather", [NoGradient, DeclareOpInterfaceMethods<CollectiveOpInterface>, DeclareOpInterfaceMethods<InFlightOpInterface>,
    DeclareOpInterfaceMethods<StructuredOpInterface>]> {
  let isTraced = 0;
  let summary = "the values of all ranks, one after another";
  let description = [{ all_gather_c1: the operand is [S], and the result is [ranks · S] of its type. all_gather_c2:
    the flight, if it has one (tcc.wait), is 1 to 2^20. }];
  let arguments = (ins Tcc_Tensor:$x, I64Attr:$ranks, OptionalAttr<I64Attr>:$flight);
  let results = (outs Tcc_Tensor:$result);
  let assemblyFormat = "$x `of` $ranks attr-dict `:` type($x) `->` type($result)";
  let hasVerifier = 1;
  let formula = "result[i · S : (i + 1) · S] = x of rank i";
  let gradientFormula = "none: ranks exchange values after autodiff";
  let example = [{
    %x = tcc.constant dense<[1.0, 2.0]> : tensor<2xf32>
    %y = tcc.all_gather %x of 1 : tensor<2xf32> -> tensor<2xf32>
    // %y = 1 2
  }];
}

def Tcc_AllReduceOp : Tcc_Op<"all_reduce", [NoGradient, DeclareOpInterfaceMethods<CollectiveOpInterface>, DeclareOpInterfaceMethods<InFlightOpInterface>,
    DeclareOpInterfaceMethods<StructuredOpInterface, ["sharedBuffers", "flops"]>]> {
  let isTraced = 0;
  let summary = "the sums over all ranks, added in the order of the engine that moves the bytes";
  let description = [{ Its bits may follow from the number of ranks: --reduce=fast alone asks for it.
    all_reduce_c1: operands are f32, and results have their types. all_reduce_c2: the flight, if it has one (tcc.wait),
    is 1 to 2^20. }];
  let arguments = (ins I64Attr:$ranks, Variadic<Tcc_Tensor>:$values, OptionalAttr<I64Attr>:$flight);
  let results = (outs Variadic<Tcc_Tensor>:$results);
  let assemblyFormat = "$values `of` $ranks attr-dict `:` type($values) `->` type($results)";
  let hasVerifier = 1;
  let formula = "result = Σ over ranks of x";
  let gradientFormula = "none: ranks exchange values after autodiff";
  let example = [{
    %x = tcc.constant dense<[1.0, 2.0]> : tensor<2xf32>
    %y = tcc.all_reduce %x of 1 : tensor<2xf32> -> tensor<2xf32>
    // %y = 1 2
  }];
}

def Tcc_UnpackOp : Tcc_Op<"unpack", [NoGradient, DeclareOpInterfaceMethods<StructuredOpInterface, ["bytes"]>]> {
  let isTraced = 0;
  let summary = "tensors that lie one after another in a value";
  let description = [{ Each begins at a multiple of 64 elements, as in a piece of tcc.all_to_all. Nothing is copied:
    plan-memory places the results in the operand. unpack_c1: the operand is [S], and there are 1 result or more, of its
    element type. unpack_c2: S is not less than where the last result ends. }];
  let arguments = (ins Tcc_Tensor:$x);
  let results = (outs Variadic<Tcc_Tensor>:$results);
  let assemblyFormat = "$x attr-dict `:` type($x) `->` type($results)";
  let hasVerifier = 1;
  let formula = "result_k = x[b_k : b_k + s_k], where s_k are its elements, b_0 = 0, b_{k+1} = 64 · ⌈(b_k + s_k) / 64⌉";
  let gradientFormula = "none: ranks exchange values after autodiff";
  let example = [{
    %x = tcc.constant dense<[1.0, 2.0, 3.0]> : tensor<3xf32>
    %y = tcc.unpack %x : tensor<3xf32> -> tensor<2x1xf32>
    // %y = 1 2
  }];
}

def Tcc_WaitOp : Tcc_Op<"wait", [NoGradient, DeclareOpInterfaceMethods<StructuredOpInterface, ["bytes"]>],
    [MemoryEffects<[MemWrite]>]> {
  let isTraced = 0;
  let summary = "the end of a collective that was started before, while other ops ran";
  let description = [{ A collective with the attribute `flight` starts where it stands and is over here. Until then
    nothing reads its results, which plan-memory checks, and nothing writes what it reads.
    No two collectives of a block have the same `flight`, which is 1 or more.
    wait_c1: the operands are all results of one collective with a flight, in their order. }];
  let arguments = (ins Variadic<Tcc_Tensor>:$values);
  let assemblyFormat = "$values attr-dict `:` type($values)";
  let hasVerifier = 1;
  let formula = "nothing: its operands are there from here on";
  let gradientFormula = "none: ranks exchange values after autodiff";
  let example = [{
    %x = tcc.constant dense<[1.0, 2.0]> : tensor<2xf32>
    %y = tcc.all_gather %x of 1 {flight = 1 : i64} : tensor<2xf32> -> tensor<2xf32>
    tcc.wait %y : tensor<2xf32>
    // %y = 1 2
  }];
}

def Tcc_KernelOp : Tcc_Op<"kernel", [IsolatedFromAbove, SingleBlock,
    DeclareOpInterfaceMethods<StructuredOpInterface, ["operandViews", "sharedBuffers", "flops", "bytes"]>]> {
  let isTraced = 0;
  let summary = "a fused region of primitives that an emitter turns into one kernel";
  let description = [{ The region takes the operands as block arguments and yields the results. It is a legal kernel
    exactly when analyzeKernel accepts it (ir/analyze_kernel.h). kernel_c1: block arguments have the operands' types.
    kernel_c2: the yield has the results' types. kernel_c3: every op may stand in a kernel. }];
  let arguments = (ins Variadic<Tcc_Tensor>:$inputs, OptionalAttr<StrAttr>:$label);
  let results = (outs Variadic<Tcc_Tensor>:$results);
  let regions = (region SizedRegion<1>:$body);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  let formula = "the results of the region";
  let gradientFormula = "none: kernels are made after autodiff";
  let example = [{
    %a = tcc.constant dense<[1.0, 2.0]> : tensor<2xf32>
    %y = tcc.kernel (%x = %a : tensor<2xf32>) -> tensor<2xf32> {
      %e = tcc.add %x, %x : tensor<2xf32>
      tcc.yield %e : tensor<2xf32>
    }
    // %y = 2 4
  }];
}

def Tcc_YieldOp : Tcc_Op<"yield", [Terminator, KernelBodyOp, NoGradient,
    ParentOneOf<["::tcc::KernelOp", "::tcc::CustomOp", "::tcc::CondOp", "::tcc::RepeatOp", "::tcc::LanesOp"]>]> {
  let isTraced = 0;
  let summary = "the results of a region";
  let arguments = (ins Variadic<Tcc_Tensor>:$values);
  let assemblyFormat = "($values^ `:` type($values))? attr-dict";
  let formula = "the values that the region gives";
  let gradientFormula = "none: it ends a region";
  let example = [{
    %a = tcc.constant dense<[1.0, 2.0]> : tensor<2xf32>
    %y = tcc.kernel (%x = %a : tensor<2xf32>) -> tensor<2xf32> {
      tcc.yield %x : tensor<2xf32>
    }
    // %y = 1 2
  }];
}

//===- user kernels --------------------------------------------------------------------------------------------===//

def Tcc_CustomOp : Tcc_Op<"custom", [IsolatedFromAbove, SingleBlock, IsDifferentiable, IsExpandable,
    DeclareOpInterfaceMethods<StructuredOpInterface, ["operandViews", "flops", "bytes"]>]> {
  let hasOwnFunction = 1;
  let isInterned = 1;
  let summary = "an op of the user's, by name";
  let description = [{ The first region, its body, is what the op means; where the target has no code for it, the op is
    written out as its body and fuses like any other. Code for the CPU is a function of a shared object (`library`,
    `symbol`; docs/CUSTOM.md) or of this process (`host_function`, a number that no text can have); for GPUs it is CUDA text (`cuda`) with a kernel
    (`cuda_kernel`), launched as `block`, and `grid` or one block for `elements_per_block` elements of the first result,
    with `shared_bytes`; its parameters are the operands', then the results' addresses, then `cuda_arguments` as
    long long. Such code stands alone in a step. A body with code has a second region for its gradient, or none. `flop_count`
    and `traffic` (bytes) say what it costs; `tolerance`, relative to a result's largest magnitude, how far code may be
    from the body. With `unchecked`, code is not compared with the
    body: it is what the op means.
    custom_c1: the body's arguments have the operands' types. custom_c2: the body yields the results' types, and
    there is at least one.
    custom_c3: the gradient takes operands, results and the gradients of the float results, and yields those of the
    float operands. custom_c4: there is a body, or `host_reference`, the number of a function of this process. custom_c5: library
    and symbol come together, and so do cuda and cuda_kernel. custom_c6: a name has letters, digits, `_` and `.`, and
    begins with a letter. custom_c7: sizes of a launch are at least 1, and blocks have at most 1024 threads. }];
  let arguments = (ins Variadic<Tcc_Tensor>:$inputs, StrAttr:$called, OptionalAttr<StrAttr>:$library,
                       OptionalAttr<StrAttr>:$symbol, OptionalAttr<StrAttr>:$cuda, OptionalAttr<StrAttr>:$cuda_kernel,
                       OptionalAttr<DenseI64ArrayAttr>:$block, OptionalAttr<DenseI64ArrayAttr>:$grid,
                       OptionalAttr<I64Attr>:$elements_per_block, OptionalAttr<I64Attr>:$shared_bytes,
                       OptionalAttr<DenseI64ArrayAttr>:$cuda_arguments, OptionalAttr<I64Attr>:$flop_count,
                       OptionalAttr<I64Attr>:$traffic, OptionalAttr<F64Attr>:$tolerance,
                       OptionalAttr<I64Attr>:$host_function, OptionalAttr<I64Attr>:$host_reference, UnitAttr:$unchecked);
  let results = (outs Variadic<Tcc_Tensor>:$results);
  let regions = (region MaxSizedRegion<1>:$body, MaxSizedRegion<1>:$backward);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    ::mlir::LogicalResult verifyLaunch();
    /// Whether the CPU runs a function of the user's instead of the op's body.
    bool hasCpuCode() { return getLibrary() || getHostFunction(); }
    /// Whether the op has a kernel as text for the target with this name.
    bool hasTextFor(::llvm::StringRef target) { return target == "cuda" && getCuda(); }
    bool hasCode() { return hasCpuCode() || getCuda(); }
    /// Which code a .graph text names for the op, in the words of messages: "in 'libsquare.so'", "as CUDA text"; empty
    /// if it names none.
    std::string namedCode();
    /// Whether the op is its body and nothing else, without a gradient of its own.
    bool isPlain() { return !getBody().empty() && getBackward().empty() && !hasCode(); }
  }];
  let formula = "results = body(inputs)";
  let gradientFormula = "the second region's; of an op that is nothing but its body, that of the body";
  let example = [{
    %a = tcc.constant dense<[1.0, 2.0]> : tensor<2xf32>
    %y = tcc.custom "twice" (%x = %a : tensor<2xf32>) -> tensor<2xf32> {
      %e = tcc.add %x, %x : tensor<2xf32>
      tcc.yield %e : tensor<2xf32>
    }
    // %y = 2 4
  }];
}

#endif
