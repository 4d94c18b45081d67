// Attention reads q, k, v, out and dOut in 16 bits, forward and backward the same ones; log-sum-exps stay f32, and who
// wants f32 gets the results widened. A product after it reads the 16-bit result as it is.
// RUN: %tcc %s --dtype=bf16 -emit=shaped -fdump-ir=autocast 2>&1 | FileCheck %s -DN=bf16
// RUN: %tcc %s --dtype=f16 -emit=shaped -fdump-ir=autocast 2>&1 | FileCheck %s -DN=f16

// CHECK-LABEL: IR Dump After autocast
// CHECK-COUNT-5: tcc.cast {{.*}}xf32> -> {{.*}}x[[N]]>
// CHECK: %[[OUT:.*]], %[[LSE:.*]] = tcc.flash_attention %[[Q:.*]], %[[K:.*]], %[[V:.*]] diagonal 0 scale {{.*}} : (tensor<2x8x2x4x[[N]]>, tensor<2x8x2x4x[[N]]>, tensor<2x8x2x4x[[N]]>) -> (tensor<2x8x2x4x[[N]]>, tensor<2x2x8xf32>)
// CHECK: %[[ROWS:.*]] = tcc.reshape %[[OUT]] : tensor<2x8x2x4x[[N]]> -> tensor<16x8x[[N]]>
// CHECK: tcc.matmul %[[ROWS]]
// CHECK: tcc.flash_attention_backward %[[Q]], %[[K]], %[[V]], %[[OUT]], %[[LSE]], %{{.*}} diagonal 0 {{.*}} -> (tensor<2x8x2x4x[[N]]>, tensor<2x8x2x4x[[N]]>, tensor<2x8x2x4x[[N]]>)
// CHECK: tcc.cast {{.*}} : tensor<2x8x2x4x[[N]]> -> tensor<2x8x2x4xf32>
func.func @main(%q: tensor<2x8x2x4xf32>, %k: tensor<2x8x2x4xf32>, %v: tensor<2x8x2x4xf32>, %w: tensor<8x8xf32>,
                %d: tensor<2x8x2x4xf32>) -> (tensor<16x8xf32>, tensor<2x8x2x4xf32>, tensor<2x2x8xf32>) {
  %0:2 = tcc.flash_attention %q, %k, %v diagonal 0 scale 5.000000e-01 : (tensor<2x8x2x4xf32>, tensor<2x8x2x4xf32>, tensor<2x8x2x4xf32>) -> (tensor<2x8x2x4xf32>, tensor<2x2x8xf32>)
  %1 = tcc.reshape %0#0 : tensor<2x8x2x4xf32> -> tensor<16x8xf32>
  %2 = tcc.matmul %1, %w : tensor<16x8xf32>, tensor<8x8xf32> -> tensor<16x8xf32>
  %3:3 = tcc.flash_attention_backward %q, %k, %v, %0#0, %0#1, %d diagonal 0 scale 5.000000e-01 : (tensor<2x8x2x4xf32>, tensor<2x8x2x4xf32>, tensor<2x8x2x4xf32>, tensor<2x8x2x4xf32>, tensor<2x2x8xf32>, tensor<2x8x2x4xf32>) -> (tensor<2x8x2x4xf32>, tensor<2x8x2x4xf32>, tensor<2x8x2x4xf32>)
  return %2, %3#1, %0#1 : tensor<16x8xf32>, tensor<2x8x2x4xf32>, tensor<2x2x8xf32>
}
