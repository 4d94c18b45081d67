// 8-bit floats are of the language and the interpreter; a target without kernels of them says so at the op's line.
// RUN: not %tcc %s 2>&1 | FileCheck %s
// RUN: not %tcc %s --target=cuda -emit=fused 2>&1 | FileCheck %s --check-prefix=CUDA
// RUN: %tcc %s --run=reference | FileCheck %s --check-prefix=REFERENCE

// CHECK: eight_bit.mlir:[[#@LINE+6]]:8: error: `cast` is of 'f8E4M3FN', for which target 'cpu' has no code; it has f32, bf16, f16, i1, i32 and i64, and --run=reference all
// CHECK-NOT: error
// CUDA: error: `cast` is of 'f8E4M3FN', for which target 'cuda' has no code
// REFERENCE: result0: f32[2] {{.*}} first 1 2
func.func @main() -> tensor<2xf32> {
  %x = tcc.constant dense<[1.0, 2.03]> : tensor<2xf32>
  %a = tcc.cast %x : tensor<2xf32> -> tensor<2xf8E4M3FN>
  %b = tcc.cast %a : tensor<2xf8E4M3FN> -> tensor<2xf32>
  return %b : tensor<2xf32>
}
