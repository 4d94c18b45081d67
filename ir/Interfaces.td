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

def SizedOpInterface : OpInterface<"SizedOpInterface"> {
  let cppNamespace = "::tcc";
  let description = [{ A source or view whose type is written out; `?` sizes of it are those of the operand `like`. }];
  let methods = [
    InterfaceMethod<"The operand that has the sizes, or null.", "::mlir::Value", "getLike">,
    InterfaceMethod<"The same, to be changed.", "::mlir::MutableOperandRange", "getLikeMutable">
  ];
}

def ViewOpInterface : OpInterface<"ViewOpInterface"> {
  let cppNamespace = "::tcc";
  let description = [{
    Each result element is one element of the first operand, at a place that follows from its coordinates. Such an op
    needs no memory of its own: what reads it reads the operand at those places.
  }];
  let methods = [
    InterfaceMethod<[{
      Where a result element stands in the operand: for each dim of the operand, which of the result's coordinates it
      follows. Nothing where the elements keep their row-major order under another shape instead. Static shapes only.
    }], "::std::optional<::llvm::SmallVector<::tcc::ViewedDim>>", "viewedDims">
  ];
}

def NarrowableOpInterface : OpInterface<"NarrowableOpInterface"> {
  let cppNamespace = "::tcc";
  let description = [{
    An op that multiplies and adds up in f32 whatever it reads: `autocast` may give it 16-bit operands instead of f32
    ones. Result types follow from the operands'.
  }];
  let methods = [
    InterfaceMethod<"Whether the operand may be one of 16 bits; all of those that may have one element type.",
      "bool", "narrows", (ins "unsigned":$operand), "", [{ (void)operand; return true; }]>,
    InterfaceMethod<[{
      Says on the op, where it can, that its results stay of the type that they are, before the operands change.
    }], "void", "keepResultType">
  ];
}

def BodyOpInterface : OpInterface<"BodyOpInterface"> {
  let cppNamespace = "::tcc";
  let description = [{
    An op with bodies: regions of one block, isolated from above, whose arguments stand for operands and which end with
    tcc.yield. Passes see a body as a function of its own (passes/bodies.h).
  }];
  let methods = [
    InterfaceMethod<"The types of each body's arguments, given the operands' types.",
      "::llvm::SmallVector<::mlir::Type>", "argumentTypes">,
    InterfaceMethod<[{
      How many of a body's first arguments stand for the memory of the op's results: the body's result with the same
      number is the argument's next value. The other arguments are only read.
    }], "unsigned", "carriedArguments", (ins), "", [{ return 0; }]>,
    InterfaceMethod<"How many of the next arguments are parts of operands, which are copied before a body reads them.",
      "unsigned", "slicedArguments", (ins), "", [{ return 0; }]>
  ];
}

def CollectiveOpInterface : OpInterface<"CollectiveOpInterface"> {
  let cppNamespace = "::tcc";
  let description = [{
    An op that all ranks of a run come to together, in one order. What it gives a rank depends on the operands of all.
  }];
  let methods = [
    InterfaceMethod<"The number of ranks that come to it.", "int64_t", "rankCount">
  ];
}

def InFlightOpInterface : OpInterface<"InFlightOpInterface"> {
  let cppNamespace = "::tcc";
  let description = [{
    An op that runs on a stream of its own. Ops of one stream run one after another; all others are on stream 0. It
    starts when everything of stream 0 that stands before it is done, and whatever stands at or after the op that waits
    for it starts when it is done: in between it is in flight. Its operands keep their bytes as long, and nothing else is
    written where its results and its scratch are (passes/stream_order.h).

    - (in_flight_c1) the op that waits stands after it in the same block, on stream 0;
    - (in_flight_c2) what uses its results before that is on its own stream.
  }];
  let methods = [
    InterfaceMethod<"The stream that it runs on; 0: it is in order with all others, and nobody waits for it.",
      "unsigned", "stream">,
    InterfaceMethod<"The op that waits for it; null on stream 0.", "::mlir::Operation *", "waitingOp">
  ];
}

def StructuredOpInterface : OpInterface<"StructuredOpInterface"> {
  let cppNamespace = "::tcc";
  let description = [{
    An op that stands in a fused function by itself: a matmul, a kernel, attention, a collective. Fusion, scheduling,
    planning and the lowering of the plan know such an op by these facts alone, which hold on every target; the target
    decides what it runs as (codegen/target.h). Results are dense tensors in memory. Static shapes are assumed.
  }];
  let methods = [
    InterfaceMethod<[{
      How each operand is read from memory, aligned with the operands: the view's root must be in memory. An operand
      that cannot be read so within `limits` is its own root, dense. By default all are dense.
    }], "::llvm::SmallVector<::tcc::StridedView, 2>", "operandViews", (ins "const ::tcc::ViewLimits &":$limits), "", [{
      (void)limits;
      return ::tcc::denseOperands($_op);
    }]>,
    InterfaceMethod<[{
      Bit result · operands + operand: whether the result may be written into the buffer of the operand, since each
      element of that is read before its bytes are written. By default none.
    }], "::llvm::BitVector", "sharedBuffers", (ins), "", [{
      return ::llvm::BitVector($_op->getNumResults() * $_op->getNumOperands());
    }]>,
    InterfaceMethod<"Whether the result may be written into a slice of a larger tensor. By default not.",
      "bool", "writesSlices", (ins "unsigned":$result), "", [{ (void)result; return false; }]>,
    InterfaceMethod<[{
      Where operands may lie in the op's scratch, so that the op does not copy them there: for each operand the bytes of
      scratch before it. By default empty: nowhere.
    }], "::llvm::SmallVector<int64_t>", "placesInScratch", (ins), "", [{ return {}; }]>,
    InterfaceMethod<"Floating-point operations. By default none.", "int64_t", "flops", (ins), "", [{ return 0; }]>,
    InterfaceMethod<"Least bytes read and written: each operand once, as its view reaches, and each result once.",
      "int64_t", "bytes", (ins "const ::tcc::ViewLimits &":$limits), "", [{
        return ::tcc::bytesOfViews($_op, $_op.operandViews(limits));
    }]>
  ];
}

#endif
