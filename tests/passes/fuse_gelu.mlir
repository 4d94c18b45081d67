// The hidden layer of an MLP, forward and backward, for a target whose products multiply by GELU's slopes: no kernel of
// the gradient is left, forward and backward read one stored value, and another target keeps the gradient.
// RUN: %tcc %s --target=cuda --dtype=bf16 -emit=shaped | FileCheck %s
// RUN: %tcc %s --target=cuda --dtype=bf16 -emit=fused | FileCheck %s --check-prefix=FUSED
// RUN: %tcc %s --target=cuda --dtype=bf16 -fno-fuse-gelu -emit=shaped | FileCheck %s --check-prefix=KEPT
// RUN: %tcc %s --dtype=bf16 -emit=shaped | FileCheck %s --check-prefix=KEPT
// RUN: %tcc %s --target=cuda --dtype=bf16 -emit=planned -fverify-each -o /dev/null
// RUN: %tcc %s --target=cuda --dtype=f16 -emit=planned -fverify-each -o /dev/null
// RUN: %tcc %s --target=cuda --dtype=bf16 -Rpass=fuse-gelu -emit=planned -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK

// CHECK: %[[X:.*]] = tcc.matmul %{{.*}}, %{{.*}} bias %{{.*}} -> tensor<64x96xbf16>
// CHECK: %[[WIDE:.*]] = tcc.cast %[[X]] : tensor<64x96xbf16> -> tensor<64x96xf32>
// CHECK: tcc.gelu %[[WIDE]]
// CHECK: tcc.matmul_gelu_gradient %{{.*}}, %{{.*}} transposed at %[[X]] : tensor<64x32xbf16>, tensor<96x32xbf16>, tensor<64x96xbf16> -> tensor<64x96xbf16>
// CHECK-NOT: tcc.gelu_gradient
// FUSED-NOT: tcc.gelu_gradient
// KEPT-NOT: tcc.matmul_gelu_gradient
// KEPT: tcc.gelu_gradient
// REMARK: remark: the product before it is multiplied by GELU's slopes
func.func @main(%x: tensor<64x32xf32> {tcc.name = "x"}, %w: tensor<32x96xf32> {tcc.name = "w"},
                %b: tensor<96xf32> {tcc.name = "b"}, %v: tensor<96x32xf32> {tcc.name = "v"})
    -> (tensor<f32>, tensor<32x96xf32>, tensor<96xf32>, tensor<96x32xf32>) {
  %0 = tcc.matmul %x, %w : tensor<64x32xf32>, tensor<32x96xf32> -> tensor<64x96xf32>
  %1 = tcc.broadcast %b : tensor<96xf32> -> tensor<64x96xf32>
  %2 = tcc.add %0, %1 : tensor<64x96xf32>
  %3 = tcc.gelu %2 : tensor<64x96xf32>
  %4 = tcc.matmul %3, %v : tensor<64x96xf32>, tensor<96x32xf32> -> tensor<64x32xf32>
  %5 = tcc.mul %4, %4 : tensor<64x32xf32>
  %6 = tcc.reduce_sum %5 axes [0, 1] : tensor<64x32xf32> -> tensor<1x1xf32>
  %7 = tcc.reshape %6 : tensor<1x1xf32> -> tensor<f32>
  %8:3 = tcc.gradient %7 wrt %w, %b, %v : tensor<f32>, tensor<32x96xf32>, tensor<96xf32>, tensor<96x32xf32>
  return %7, %8#0, %8#1, %8#2 : tensor<f32>, tensor<32x96xf32>, tensor<96xf32>, tensor<96x32xf32>
}
