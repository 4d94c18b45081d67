// The op list: the one place where an op is declared. Computation, gradient and verifier are in ops/<family>.cpp; the
// independent meaning is in reference/<family>.cpp; samples are in tests/op_table.cpp.
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
def Tcc_FloatTensor : RankedTensorOf<[Tcc_Float]>;
def Tcc_NumberTensor : RankedTensorOf<[Tcc_Float, I32, I64]>;
def Tcc_IntTensor : RankedTensorOf<[I32, I64]>;
def Tcc_BoolTensor : RankedTensorOf<[I1]>;
def Tcc_FloatScalar : Type<0DTensorOf<[F32]>.predicate, "f32 scalar tensor", "::mlir::RankedTensorType">,
                      BuildableType<"::mlir::RankedTensorType::get({}, $_builder.getF32Type())">;
def Tcc_BoolScalar : Type<0DTensorOf<[I1]>.predicate, "i1 scalar tensor", "::mlir::RankedTensorType">,
                     BuildableType<"::mlir::RankedTensorType::get({}, $_builder.getI1Type())">;
def Tcc_IntScalar : 0DTensorOf<[I32, I64]>;

//===- traits and base classes ---------------------------------------------------------------------------------===//

// The op has no gradient by its nature (integers, comparisons, optimizer): an explicit opting out.
def NoGradient : NativeOpTrait<"NoGradient"> { let cppNamespace = "::tcc"; }
// The result is the operand's elements at other coordinates: an index map, never a computation.
def ViewOp : NativeOpTrait<"ViewOp"> { let cppNamespace = "::tcc"; }
// Elements depend on their own coordinates.
def IndexedOp : NativeOpTrait<"IndexedOp"> { let cppNamespace = "::tcc"; }
// The op may stand in a tcc.kernel region.
def KernelBodyOp : NativeOpTrait<"KernelBodyOp"> { let cppNamespace = "::tcc"; }
// Recomputing it in a consumer costs about as much as a load.
def CheapToClone : NativeOpTrait<"CheapToClone"> { let cppNamespace = "::tcc"; }

defvar IsDifferentiable = DeclareOpInterfaceMethods<DifferentiableOpInterface>;
defvar IsElementwise = DeclareOpInterfaceMethods<ElementwiseOpInterface>;
defvar IsComposite = DeclareOpInterfaceMethods<CompositeOpInterface>;
defvar IsExpandable = DeclareOpInterfaceMethods<ExpandableOpInterface>;
defvar InferTypes = InferTypeOpAdaptor;

class Tcc_Op<string mnemonic, list<Trait> traits = []> : Op<Tcc_Dialect, mnemonic, !listconcat(traits, [Pure])>;

class Tcc_Unary<string mnemonic, Type type, list<Trait> traits>
    : Tcc_Op<mnemonic, !listconcat(traits, [IsElementwise, KernelBodyOp, SameOperandsAndResultType])> {
  let arguments = (ins type:$x);
  let results = (outs type:$result);
  let assemblyFormat = "$x attr-dict `:` type($result)";
}

class Tcc_Binary<string mnemonic, Type type, list<Trait> traits>
    : Tcc_Op<mnemonic, !listconcat(traits, [IsElementwise, KernelBodyOp, SameOperandsAndResultType])> {
  let arguments = (ins type:$lhs, type:$rhs);
  let results = (outs type:$result);
  let assemblyFormat = "$lhs `,` $rhs attr-dict `:` type($result)";
  let hasFolder = 1;
}

//===- elementwise arithmetic ----------------------------------------------------------------------------------===//

def Tcc_NegOp : Tcc_Unary<"neg", Tcc_NumberTensor, [IsDifferentiable, CheapToClone]> {
  let summary = "-x";
  let hasFolder = 1;
}
def Tcc_AbsOp : Tcc_Unary<"abs", Tcc_NumberTensor, [IsDifferentiable, CheapToClone]> {
  let summary = "|x|; the gradient at 0 is 0";
}
def Tcc_ExpOp : Tcc_Unary<"exp", Tcc_FloatTensor, [IsDifferentiable]> { let summary = "e to the x"; }
def Tcc_LogOp : Tcc_Unary<"log", Tcc_FloatTensor, [IsDifferentiable]> { let summary = "natural logarithm"; }
def Tcc_SqrtOp : Tcc_Unary<"sqrt", Tcc_FloatTensor, [IsDifferentiable]> { let summary = "square root"; }
def Tcc_RsqrtOp : Tcc_Unary<"rsqrt", Tcc_FloatTensor, [IsDifferentiable]> { let summary = "1 / sqrt(x)"; }
def Tcc_TanhOp : Tcc_Unary<"tanh", Tcc_FloatTensor, [IsDifferentiable]> { let summary = "hyperbolic tangent"; }
def Tcc_SinOp : Tcc_Unary<"sin", Tcc_FloatTensor, [IsDifferentiable]> { let summary = "sine, x in radians"; }
def Tcc_CosOp : Tcc_Unary<"cos", Tcc_FloatTensor, [IsDifferentiable]> { let summary = "cosine, x in radians"; }
def Tcc_ErfOp : Tcc_Unary<"erf", Tcc_FloatTensor, [IsDifferentiable]> { let summary = "Gauss error function"; }
def Tcc_NotOp : Tcc_Unary<"not", Tcc_BoolTensor, [NoGradient, CheapToClone]> {
  let summary = "logical negation";
}
def Tcc_AddOp : Tcc_Binary<"add", Tcc_NumberTensor, [IsDifferentiable, Commutative, CheapToClone]> {
  let summary = "lhs + rhs; integers wrap";
}
def Tcc_SubOp : Tcc_Binary<"sub", Tcc_NumberTensor, [IsDifferentiable, CheapToClone]> {
  let summary = "lhs - rhs; integers wrap";
}
def Tcc_MulOp : Tcc_Binary<"mul", Tcc_NumberTensor, [IsDifferentiable, Commutative, CheapToClone]> {
  let summary = "lhs · rhs; integers wrap";
}
def Tcc_DivOp : Tcc_Binary<"div", Tcc_FloatTensor, [IsDifferentiable]> { let summary = "lhs / rhs, IEEE division"; }
def Tcc_MaximumOp : Tcc_Binary<"maximum", Tcc_NumberTensor, [IsDifferentiable, Commutative, CheapToClone]> {
  let summary = "the larger; NaN if either is NaN; equal operands share the gradient in halves";
}
def Tcc_MinimumOp : Tcc_Binary<"minimum", Tcc_NumberTensor, [IsDifferentiable, Commutative, CheapToClone]> {
  let summary = "the smaller; NaN if either is NaN; equal operands share the gradient in halves";
}
def Tcc_AndOp : Tcc_Binary<"and", Tcc_BoolTensor, [NoGradient, Commutative, CheapToClone]> {
  let summary = "logical and";
}
def Tcc_OrOp : Tcc_Binary<"or", Tcc_BoolTensor, [NoGradient, Commutative, CheapToClone]> {
  let summary = "logical or";
}

def Tcc_Predicate : I32EnumAttr<"Predicate", "comparison of two numbers; NaN compares unequal to everything",
    [I32EnumAttrCase<"eq", 0>, I32EnumAttrCase<"ne", 1>, I32EnumAttrCase<"lt", 2>, I32EnumAttrCase<"le", 3>,
     I32EnumAttrCase<"gt", 4>, I32EnumAttrCase<"ge", 5>]> {
  let cppNamespace = "::tcc";
}

def Tcc_CompareOp : Tcc_Op<"compare", [NoGradient, IsElementwise, KernelBodyOp, CheapToClone, SameTypeOperands,
                                        SameOperandsAndResultShape, InferTypes]> {
  let summary = "comparison of equal shapes, i1 result";
  let arguments = (ins Tcc_Predicate:$predicate, Tcc_NumberTensor:$lhs, Tcc_NumberTensor:$rhs);
  let results = (outs Tcc_BoolTensor:$result);
  let assemblyFormat = "$predicate $lhs `,` $rhs attr-dict `:` type($lhs) `->` type($result)";
}

def Tcc_IsFiniteOp : Tcc_Op<"is_finite", [NoGradient, IsElementwise, KernelBodyOp, CheapToClone,
                                           SameOperandsAndResultShape, InferTypes]> {
  let summary = "true where x is neither infinite nor NaN";
  let arguments = (ins Tcc_FloatTensor:$x);
  let results = (outs Tcc_BoolTensor:$result);
  let assemblyFormat = "$x attr-dict `:` type($x) `->` type($result)";
}

def Tcc_SelectOp : Tcc_Op<"select", [IsDifferentiable, IsElementwise, KernelBodyOp, CheapToClone,
    SameOperandsAndResultShape, AllTypesMatch<["onTrue", "onFalse", "result"]>]> {
  let summary = "onTrue where the condition holds, onFalse elsewhere; no gradient leaks from the side not taken";
  let arguments = (ins Tcc_BoolTensor:$condition, Tcc_Tensor:$onTrue, Tcc_Tensor:$onFalse);
  let results = (outs Tcc_Tensor:$result);
  let assemblyFormat = "$condition `,` $onTrue `,` $onFalse attr-dict `:` type($condition) `,` type($result)";
  let hasFolder = 1;
}

def Tcc_CastOp : Tcc_Op<"cast", [IsDifferentiable, IsElementwise, KernelBodyOp, CheapToClone, SameOperandsAndResultShape]> {
  let summary = "conversion of the element type: floats round to nearest even, float to integer truncates";
  let description = [{ Float to integer saturates; NaN gives 0. }];
  let arguments = (ins Tcc_Tensor:$x);
  let results = (outs Tcc_Tensor:$result);
  let assemblyFormat = "$x attr-dict `:` type($x) `->` type($result)";
  let hasFolder = 1;
}

def Tcc_DetachOp : Tcc_Unary<"detach", Tcc_Tensor, [NoGradient, CheapToClone]> {
  let summary = "x, seen as a constant by gradients";
}

//===- sources -------------------------------------------------------------------------------------------------===//

def Tcc_ConstantOp : Tcc_Op<"constant", [NoGradient, KernelBodyOp, CheapToClone, ConstantLike, InferTypes]> {
  let summary = "a literal; non-splat literals hold at most 1 KiB (constant_c1)";
  let arguments = (ins ElementsAttr:$value);
  let results = (outs Tcc_Tensor:$result);
  let assemblyFormat = "attr-dict $value";
  let hasFolder = 1;
  let hasVerifier = 1;
}

def Tcc_IotaOp : Tcc_Op<"iota", [NoGradient, IndexedOp, KernelBodyOp, CheapToClone]> {
  let summary = "each element's own coordinate along `dim`";
  let description = [{ `?` sizes of the result are those of `like`.
    iota_c1: 0 <= dim < rank. iota_c2: a `?` needs `like` of the same rank. }];
  let arguments = (ins I64Attr:$dim, Optional<Tcc_Tensor>:$like);
  let results = (outs Tcc_NumberTensor:$result);
  let assemblyFormat = "`dim` $dim (`like` $like^ `:` type($like))? attr-dict `->` type($result)";
  let hasVerifier = 1;
}

def Tcc_RandomBitsOp : Tcc_Op<"random_bits", [NoGradient, IndexedOp, KernelBodyOp]> {
  let summary = "32 random bits an element: Philox4x32-10, key (seed, stream), counter = the element's linear index";
  let description = [{ The first word of Philox with counter (index mod 2^32, index div 2^32, 0, 0); so a value never
    depends on tiling and recomputing gives the same bits. random_bits_c1: a `?` needs `like` of the same rank. }];
  let arguments = (ins Tcc_IntScalar:$seed, I64Attr:$stream, Optional<Tcc_Tensor>:$like);
  let results = (outs RankedTensorOf<[I32]>:$result);
  let assemblyFormat = [{ $seed `stream` $stream (`like` $like^ `:` type($like))? attr-dict `:` type($seed) `->`
                          type($result) }];
  let hasVerifier = 1;
}

//===- views ---------------------------------------------------------------------------------------------------===//

def Tcc_BroadcastOp : Tcc_Op<"broadcast", [IsDifferentiable, ViewOp, KernelBodyOp, CheapToClone]> {
  let summary = "x repeated: shapes are aligned at the last dim, sizes 1 and missing leading dims are stretched";
  let description = [{ broadcast_c1: the result's rank is at least x's. broadcast_c2: each aligned size of x is 1 or
    the result's. broadcast_c3: a `?` in the result needs `like` of the result's rank. }];
  let arguments = (ins Tcc_Tensor:$x, Optional<Tcc_Tensor>:$like);
  let results = (outs Tcc_Tensor:$result);
  let assemblyFormat = "$x (`like` $like^ `:` type($like))? attr-dict `:` type($x) `->` type($result)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

def Tcc_ReshapeOp : Tcc_Op<"reshape", [IsDifferentiable, ViewOp, KernelBodyOp, CheapToClone]> {
  let summary = "the same elements in row-major order under another shape";
  let description = [{ reshape_c1: equal element counts. reshape_c2: beyond the common prefix at most one result size
    is `?`, unless `like` gives them. }];
  let arguments = (ins Tcc_Tensor:$x, Optional<Tcc_Tensor>:$like);
  let results = (outs Tcc_Tensor:$result);
  let assemblyFormat = "$x (`like` $like^ `:` type($like))? attr-dict `:` type($x) `->` type($result)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

def Tcc_TransposeOp : Tcc_Op<"transpose", [IsDifferentiable, ViewOp, KernelBodyOp, CheapToClone, InferTypes]> {
  let summary = "result dim i is x's dim permutation[i]";
  let description = [{ transpose_c1: permutation is one of 0..rank-1. }];
  let arguments = (ins Tcc_Tensor:$x, DenseI64ArrayAttr:$permutation);
  let results = (outs Tcc_Tensor:$result);
  let assemblyFormat = "$x $permutation attr-dict `:` type($x) `->` type($result)";
  let hasFolder = 1;
}

def Tcc_SliceOp : Tcc_Op<"slice", [IsDifferentiable, ViewOp, KernelBodyOp, CheapToClone, InferTypes]> {
  let summary = "elements starts[i] <= index < limits[i] of each dim; a limit of -1 is the dim's size";
  let description = [{ slice_c1: one start and limit a dim. slice_c2: 0 <= start <= limit <= size. }];
  let arguments = (ins Tcc_Tensor:$x, DenseI64ArrayAttr:$starts, DenseI64ArrayAttr:$limits);
  let results = (outs Tcc_Tensor:$result);
  let assemblyFormat = "$x $starts `to` $limits attr-dict `:` type($x) `->` type($result)";
  let hasFolder = 1;
}

def Tcc_PadOp : Tcc_Op<"pad", [IsDifferentiable, ViewOp, KernelBodyOp, CheapToClone, InferTypes]> {
  let summary = "x with low[i] zeros before and high[i] zeros after it along each dim";
  let description = [{ pad_c1: one low and high a dim, none negative. }];
  let arguments = (ins Tcc_Tensor:$x, DenseI64ArrayAttr:$low, DenseI64ArrayAttr:$high);
  let results = (outs Tcc_Tensor:$result);
  let assemblyFormat = "$x $low `,` $high attr-dict `:` type($x) `->` type($result)";
  let hasFolder = 1;
}

def Tcc_ConcatOp : Tcc_Op<"concat", [IsDifferentiable, ViewOp, KernelBodyOp, InferTypes]> {
  let summary = "the operands one after the other along `axis`";
  let description = [{ concat_c1: at least one operand and 0 <= axis < rank. concat_c2: equal sizes but along axis. }];
  let arguments = (ins Variadic<Tcc_Tensor>:$parts, I64Attr:$axis);
  let results = (outs Tcc_Tensor:$result);
  let assemblyFormat = "$parts `axis` $axis attr-dict `:` type($parts) `->` type($result)";
}

//===- reductions ----------------------------------------------------------------------------------------------===//

class Tcc_Reduction<string mnemonic, Type type, list<Trait> traits>
    : Tcc_Op<mnemonic, !listconcat(traits, [KernelBodyOp, InferTypes])> {
  let description = [{ Reduced dims stay as size 1. reduce_c1: axes ascend within 0..rank-1. }];
  let arguments = (ins type:$x, DenseI64ArrayAttr:$axes);
  let results = (outs type:$result);
  let assemblyFormat = "$x `axes` $axes attr-dict `:` type($x) `->` type($result)";
  let hasFolder = 1;
}
def Tcc_ReduceSumOp : Tcc_Reduction<"reduce_sum", Tcc_NumberTensor, [IsDifferentiable]> {
  let summary = "sum over axes, 0 for none; 16-bit floats are accumulated in f32 and rounded once";
}
def Tcc_ReduceMaxOp : Tcc_Reduction<"reduce_max", Tcc_NumberTensor, [IsDifferentiable]> {
  let summary = "maximum over axes, -inf for none; NaN wins; equal maxima share the gradient";
}

//===- indexing ------------------------------------------------------------------------------------------------===//

def Tcc_GatherOp : Tcc_Op<"gather", [IsDifferentiable, KernelBodyOp, InferTypes]> {
  let summary = "rows of a table: result[i..., j...] = table[index[i...], j...]";
  let description = [{ An index outside 0..rows-1 gives a row of NaN (0 for integers), so that bad data is seen.
    gather_c1: the table has at least one dim. }];
  let arguments = (ins Tcc_Tensor:$table, Tcc_IntTensor:$index);
  let results = (outs Tcc_Tensor:$result);
  let assemblyFormat = "$table `at` $index attr-dict `:` type($table) `,` type($index) `->` type($result)";
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
}

//===- products ------------------------------------------------------------------------------------------------===//

def Tcc_MatmulOp : Tcc_Op<"matmul", [IsDifferentiable, InferTypes,
    DeclareOpInterfaceMethods<NarrowableOpInterface, ["keepResultType"]>,
    DeclareOpInterfaceMethods<StructuredOpInterface, ["writesSlices"]>]> {
  let summary = "batched matrix product op(a)·op(b), accumulated in f32";
  let description = [{ a: [batch..., M, K], or [batch..., K, M] with transpose_a; b likewise [batch..., K, N], or one
    matrix for all of a's batch. The result's element type is a's, or `dtype`.
    matmul_c1: equal contraction sizes. matmul_c2: equal batch sizes, or b of rank 2. matmul_c3: a single matrix b
    with a batched a needs transpose_a = false. matmul_c4: equal element types. matmul_c5: ranks of at least 2. }];
  let arguments = (ins Tcc_FloatTensor:$a, Tcc_FloatTensor:$b, UnitAttr:$transpose_a, UnitAttr:$transpose_b,
                       OptionalAttr<TypeAttr>:$dtype);
  let results = (outs Tcc_FloatTensor:$result);
  let assemblyFormat = [{ $a (`transposed` $transpose_a^)? `,` $b (`transposed` $transpose_b^)? attr-dict `:`
                          type($a) `,` type($b) `->` type($result) }];
}

//===- attention -----------------------------------------------------------------------------------------------===//

def Tcc_FlashAttentionOp : Tcc_Op<"flash_attention", [IsDifferentiable, IsExpandable, InferTypes,
    DeclareOpInterfaceMethods<NarrowableOpInterface>, DeclareOpInterfaceMethods<StructuredOpInterface>]> {
  let summary = "softmax(scale · q·kᵀ, masked) · v by heads, and each row's log-sum-exp; no T×S value in memory";
  let description = [{ q [B, T, H, d], k and v [B, S, G, d]; query head h reads key head h div (H div G). With
    `diagonal` D, query t sees keys s <= t + D; with `window` W too, only s > t + D - W. out is q's type, lse f32
    [B, H, T]: the logarithm of the sum of the visible exponentials. A row without a visible key gives 0 and -inf.
    Scores, softmax and sums are f32; probabilities are rounded to the element type before they multiply v. Hidden
    keys are not read (Dao 2023).
    flash_attention_c1: q, k and v have rank 4, one element type, equal B and d; v has k's type.
    flash_attention_c2: k's heads divide q's. flash_attention_c3: a window is positive and needs a diagonal. }];
  let arguments = (ins Tcc_FloatTensor:$q, Tcc_FloatTensor:$k, Tcc_FloatTensor:$v, F64Attr:$scale,
                       OptionalAttr<I64Attr>:$diagonal, OptionalAttr<I64Attr>:$window);
  let results = (outs Tcc_FloatTensor:$out, RankedTensorOf<[F32]>:$lse);
  let assemblyFormat = [{ $q `,` $k `,` $v (`diagonal` $diagonal^)? (`window` $window^)? `scale` $scale attr-dict `:`
                          functional-type(operands, results) }];
}

def Tcc_FlashAttentionBackwardOp : Tcc_Op<"flash_attention_backward", [NoGradient, IsExpandable, InferTypes,
    DeclareOpInterfaceMethods<NarrowableOpInterface, ["narrows"]>,
    DeclareOpInterfaceMethods<StructuredOpInterface>]> {
  let summary = "gradients of q, k and v, given those of flash_attention's out; probabilities are computed again";
  let description = [{ Operands and attributes are flash_attention's, out and lse its results, dOut the gradient of
    out. With P = exp(scale·q·kᵀ - lse) and dS = P·(dOut·vᵀ - rowsum(dOut·out)): dQ = scale·dS·k, dK = scale·dSᵀ·q,
    dV = Pᵀ·dOut; dK and dV are summed over a group's heads. P and dS are rounded to the element type before they
    multiply. flash_attention_backward_c1: out and dOut have q's type, lse is f32 [B, H, T]. The other constraints are
    flash_attention's. }];
  let arguments = (ins Tcc_FloatTensor:$q, Tcc_FloatTensor:$k, Tcc_FloatTensor:$v, Tcc_FloatTensor:$out,
                       RankedTensorOf<[F32]>:$lse, Tcc_FloatTensor:$dOut, F64Attr:$scale,
                       OptionalAttr<I64Attr>:$diagonal, OptionalAttr<I64Attr>:$window);
  let results = (outs Tcc_FloatTensor:$dQ, Tcc_FloatTensor:$dK, Tcc_FloatTensor:$dV);
  let assemblyFormat = [{ $q `,` $k `,` $v `,` $out `,` $lse `,` $dOut (`diagonal` $diagonal^)? (`window` $window^)?
                          `scale` $scale attr-dict `:` functional-type(operands, results) }];
}

//===- composites ----------------------------------------------------------------------------------------------===//

class Tcc_UnaryComposite<string mnemonic, list<Trait> traits = []>
    : Tcc_Op<mnemonic, !listconcat(traits, [IsComposite, SameOperandsAndResultType])> {
  let arguments = (ins Tcc_FloatTensor:$x);
  let results = (outs Tcc_FloatTensor:$result);
  let assemblyFormat = "$x attr-dict `:` type($result)";
}
def Tcc_GeluOp : Tcc_UnaryComposite<"gelu"> { let summary = "GELU, tanh form (Hendrycks and Gimpel 2016)"; }
def Tcc_SiluOp : Tcc_UnaryComposite<"silu"> { let summary = "x · sigmoid(x)"; }
def Tcc_SigmoidOp : Tcc_UnaryComposite<"sigmoid"> { let summary = "1 / (1 + exp(-x))"; }
def Tcc_ReluOp : Tcc_UnaryComposite<"relu"> { let summary = "max(x, 0); the gradient at 0 is 0"; }
def Tcc_SoftmaxOp : Tcc_UnaryComposite<"softmax"> { let summary = "softmax over the last dim"; }

def Tcc_ReduceMeanOp : Tcc_Op<"reduce_mean", [IsComposite, InferTypes]> {
  let summary = "arithmetic mean over axes, which stay as size 1";
  let arguments = (ins Tcc_FloatTensor:$x, DenseI64ArrayAttr:$axes);
  let results = (outs Tcc_FloatTensor:$result);
  let assemblyFormat = "$x `axes` $axes attr-dict `:` type($x) `->` type($result)";
}

def Tcc_LayerNormOp : Tcc_Op<"layer_norm", [IsComposite, AllTypesMatch<["x", "result"]>]> {
  let summary = "(x - mean) / sqrt(variance + eps) · weight + bias over the last dim (Ba et al. 2016)";
  let description = [{ layer_norm_c1: weight and bias have x's last size. }];
  let arguments = (ins Tcc_FloatTensor:$x, Tcc_FloatTensor:$weight, Tcc_FloatTensor:$bias,
                       DefaultValuedAttr<F64Attr, "1e-5">:$eps);
  let results = (outs Tcc_FloatTensor:$result);
  let assemblyFormat = "$x `,` $weight `,` $bias attr-dict `:` type($x) `,` type($weight) `,` type($bias)";
  let hasVerifier = 1;
}

def Tcc_RmsNormOp : Tcc_Op<"rms_norm", [IsComposite, AllTypesMatch<["x", "result"]>]> {
  let summary = "x / sqrt(mean(x²) + eps) · weight over the last dim (Zhang and Sennrich 2019)";
  let description = [{ rms_norm_c1: weight has x's last size. }];
  let arguments = (ins Tcc_FloatTensor:$x, Tcc_FloatTensor:$weight, DefaultValuedAttr<F64Attr, "1e-5">:$eps);
  let results = (outs Tcc_FloatTensor:$result);
  let assemblyFormat = "$x `,` $weight attr-dict `:` type($x) `,` type($weight)";
  let hasVerifier = 1;
}

def Tcc_LinearOp : Tcc_Op<"linear", [IsComposite, InferTypes]> {
  let summary = "x · weight + bias; weight is [in, out]";
  let description = [{ linear_c1: weight is [x's last size, out]. linear_c2: bias is [out]. }];
  let arguments = (ins Tcc_FloatTensor:$x, Tcc_FloatTensor:$weight, Optional<Tcc_FloatTensor>:$bias);
  let results = (outs Tcc_FloatTensor:$result);
  let assemblyFormat = [{ $x `,` $weight (`,` $bias^)? attr-dict `:` type($x) `,` type($weight) (`,` type($bias)^)?
                          `->` type($result) }];
}

def Tcc_CrossEntropyOp : Tcc_Op<"cross_entropy", [IsComposite, InferTypes]> {
  let summary = "mean over rows of -log softmax(logits)[target]; rows whose target is negative do not count";
  let description = [{ logits [..., V], targets [...], result a f32 scalar.
    cross_entropy_c1: targets have the logits' shape without its last dim. }];
  let arguments = (ins Tcc_FloatTensor:$logits, Tcc_IntTensor:$targets);
  let results = (outs Tcc_FloatTensor:$result);
  let assemblyFormat = "$logits `,` $targets attr-dict `:` type($logits) `,` type($targets) `->` type($result)";
}

def Tcc_AttentionOp : Tcc_Op<"attention", [IsComposite, AllTypesMatch<["q", "result"]>]> {
  let summary = "softmax(scale · q·kᵀ, masked) · v";
  let description = [{ q [batch..., T, d], k and v [batch..., S, d]. With `causal`, query t sees keys 0..t.
    attention_c1: k and v have q's batch and head size. attention_c2: causal needs T = S. }];
  let arguments = (ins Tcc_FloatTensor:$q, Tcc_FloatTensor:$k, Tcc_FloatTensor:$v, UnitAttr:$causal, F64Attr:$scale);
  let results = (outs Tcc_FloatTensor:$result);
  let assemblyFormat = [{ $q `,` $k `,` $v (`causal` $causal^)? `scale` $scale attr-dict `:` type($q) `,` type($k) `,`
                          type($v) }];
  let hasVerifier = 1;
}

def Tcc_DropoutOp : Tcc_Op<"dropout", [IsComposite, AllTypesMatch<["x", "result"]>]> {
  let summary = "x / (1 - rate) where kept, 0 elsewhere; kept with probability 1 - rate by random_bits(seed, stream)";
  let description = [{ dropout_c1: 0 <= rate < 1. }];
  let arguments = (ins Tcc_FloatTensor:$x, Tcc_IntScalar:$seed, F64Attr:$rate, I64Attr:$stream);
  let results = (outs Tcc_FloatTensor:$result);
  let assemblyFormat = "$x `,` $seed `rate` $rate `stream` $stream attr-dict `:` type($x) `,` type($seed)";
  let hasVerifier = 1;
}

def Tcc_AdamwOp : Tcc_Op<"adamw", [IsComposite, NoGradient, AllTypesMatch<["parameter", "newParameter"]>,
    AllTypesMatch<["m", "v", "newM", "newV"]>, AllShapesMatch<["parameter", "gradient", "m", "v"]>]> {
  let summary = "one AdamW update (Loshchilov and Hutter 2019) of a parameter and its two moments";
  let description = [{ gradient is multiplied by `scale` first; `step` counts from 1; where `apply` is false the old
    values are kept bit for bit. }];
  let arguments = (ins Tcc_FloatTensor:$parameter, Tcc_FloatTensor:$gradient, Tcc_FloatTensor:$m, Tcc_FloatTensor:$v,
                       Tcc_FloatScalar:$lr, Tcc_FloatScalar:$step, Tcc_FloatScalar:$scale, Tcc_BoolScalar:$apply,
                       F64Attr:$beta1, F64Attr:$beta2, F64Attr:$eps, F64Attr:$weight_decay);
  let results = (outs Tcc_FloatTensor:$newParameter, Tcc_FloatTensor:$newM, Tcc_FloatTensor:$newV);
  let assemblyFormat = [{ $parameter `,` $gradient `,` $m `,` $v `lr` $lr `step` $step `scale` $scale `apply` $apply
                          attr-dict `:` type($parameter) `,` type($gradient) `,` type($m) }];
}

//===- structure -----------------------------------------------------------------------------------------------===//

def Tcc_GradientOp : Tcc_Op<"gradient", [InferTypes]> {
  let summary = "gradients of a scalar loss with respect to values it was computed from";
  let description = [{ Expanded by `autodiff`. gradient_c1: the loss is a float scalar. gradient_c2: each wrt is a
    float tensor. A value that the loss does not depend on has gradient 0. }];
  let arguments = (ins Tcc_FloatTensor:$loss, Variadic<Tcc_FloatTensor>:$wrt);
  let results = (outs Variadic<Tcc_FloatTensor>:$results);
  let assemblyFormat = "$loss `wrt` $wrt attr-dict `:` type($loss) `,` type($wrt)";
}

def Tcc_KernelOp : Tcc_Op<"kernel", [IsolatedFromAbove, SingleBlock,
    DeclareOpInterfaceMethods<StructuredOpInterface, ["sharedBuffers", "bytes"]>]> {
  let summary = "a fused region of primitives that an emitter turns into one kernel";
  let description = [{ The region takes the operands as block arguments and yields the results. It is a legal kernel
    exactly when analyzeKernel accepts it (ir/kernel.h). kernel_c1: block arguments have the operands' types.
    kernel_c2: the yield has the results' types. kernel_c3: every op may stand in a kernel. }];
  let arguments = (ins Variadic<Tcc_Tensor>:$inputs, OptionalAttr<StrAttr>:$label);
  let results = (outs Variadic<Tcc_Tensor>:$results);
  let regions = (region SizedRegion<1>:$body);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
}

def Tcc_YieldOp : Tcc_Op<"yield", [Terminator, HasParent<"::tcc::KernelOp">, KernelBodyOp, NoGradient]> {
  let summary = "the results of a kernel region";
  let arguments = (ins Variadic<Tcc_Tensor>:$values);
  let assemblyFormat = "($values^ `:` type($values))? attr-dict";
}

#endif
