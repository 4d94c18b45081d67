// A factor that the sum does not run over moves out, equal sums are one, and scatter_add takes the other gradient as
// its base; without the pass nothing of this happens.
// RUN: %tcc %s -emit=shaped -fdump-ir=simplify 2>&1 | FileCheck %s
// RUN: %tcc %s -emit=shaped -fno-simplify | FileCheck %s --check-prefix=OFF

// CHECK-LABEL: IR Dump After simplify
// CHECK: func.func @main(%[[X:.*]]: tensor<4x8xf32>, %[[R:.*]]: tensor<4x1xf32>, %[[I:.*]]: tensor<4xi32>, %[[G:.*]]: tensor<6x8xf32>)
// CHECK: %[[SUM:.*]] = tcc.reduce_sum %[[X]] axes [1]
// CHECK: %[[ROW:.*]] = tcc.mul %[[SUM]], %[[R]] : tensor<4x1xf32>
// CHECK-NOT: tcc.reduce_sum
// CHECK: %[[D:.*]] = tcc.scatter_add %[[G]] at %[[I]], %[[X]]
// CHECK-NOT: tcc.add
// CHECK: return %[[ROW]], %[[SUM]], %[[D]]

// OFF: tcc.reduce_sum
// OFF: tcc.reduce_sum
// OFF: tcc.scatter_add
// OFF: tcc.add
func.func @main(%x: tensor<4x8xf32>, %r: tensor<4x1xf32>, %i: tensor<4xi32>, %g: tensor<6x8xf32>)
    -> (tensor<4x1xf32>, tensor<4x1xf32>, tensor<6x8xf32>) {
  %b = tcc.broadcast %r : tensor<4x1xf32> -> tensor<4x8xf32>
  %p = tcc.mul %x, %b : tensor<4x8xf32>
  %row = tcc.reduce_sum %p axes [1] : tensor<4x8xf32> -> tensor<4x1xf32>
  %sum = tcc.reduce_sum %x axes [1] : tensor<4x8xf32> -> tensor<4x1xf32>
  %zero = tcc.constant dense<0.0> : tensor<6x8xf32>
  %s = tcc.scatter_add %zero at %i, %x : tensor<6x8xf32>, tensor<4xi32>, tensor<4x8xf32>
  %d = tcc.add %s, %g : tensor<6x8xf32>
  return %row, %sum, %d : tensor<4x1xf32>, tensor<4x1xf32>, tensor<6x8xf32>
}
