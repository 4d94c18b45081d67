// A column sum over many rows becomes partial sums and a sum of those; axes that are no neighbours become two sums.
// RUN: %tcc %s -emit=shaped -fdump-ir=split-reductions 2>&1 | FileCheck %s

// CHECK-LABEL: IR Dump After split-reductions
// CHECK: func.func @main(%[[X:.*]]: tensor<128x8xf32>, %[[Y:.*]]: tensor<2x3x4xf32>)
// CHECK: %[[PARTS:.*]] = tcc.reshape %[[X]] : tensor<128x8xf32> -> tensor<16x8x8xf32>
// CHECK: %[[PARTIAL:.*]] = tcc.reduce_sum %[[PARTS]] axes [1] : tensor<16x8x8xf32> -> tensor<16x1x8xf32>
// CHECK: tcc.reduce_sum %{{.*}} axes [1] : tensor<1x16x8xf32> -> tensor<1x1x8xf32>
// CHECK: %[[LAST:.*]] = tcc.reduce_sum %[[Y]] axes [2] : tensor<2x3x4xf32> -> tensor<2x3x1xf32>
// CHECK: tcc.reduce_sum %[[LAST]] axes [0] : tensor<2x3x1xf32> -> tensor<1x3x1xf32>
func.func @main(%x: tensor<128x8xf32>, %y: tensor<2x3x4xf32>) -> (tensor<1x8xf32>, tensor<1x3x1xf32>) {
  %a = tcc.reduce_sum %x axes [0] : tensor<128x8xf32> -> tensor<1x8xf32>
  %b = tcc.reduce_sum %y axes [0, 2] : tensor<2x3x4xf32> -> tensor<1x3x1xf32>
  return %a, %b : tensor<1x8xf32>, tensor<1x3x1xf32>
}
