// softmax is one kernel, its exp is computed again rather than stored; a product stays outside and takes the transposed
// view as it is; at -O0 each op is a kernel of its own.
// RUN: %tcc %s -emit=fused | FileCheck %s
// RUN: %tcc %s -emit=fused -O0 | FileCheck %s --check-prefix=SINGLE

// CHECK: func.func @main(%[[X:.*]]: tensor<4x8xf32>, %[[W:.*]]: tensor<5x8xf32>)
// CHECK: %[[P:.*]] = tcc.kernel {{.*}}(%[[IN:.*]] = %[[X]] : tensor<4x8xf32>) -> tensor<4x8xf32> {
// CHECK: tcc.reduce_max
// CHECK: tcc.exp
// CHECK: tcc.reduce_sum
// CHECK: tcc.yield
// CHECK-NOT: tcc.kernel
// CHECK: tcc.matmul %[[P]], %{{.*}} : tensor<4x8xf32>, tensor<8x5xf32> -> tensor<4x5xf32>

// SINGLE-COUNT-6: tcc.kernel
// SINGLE-NOT: tcc.kernel
// SINGLE: tcc.matmul
func.func @main(%x: tensor<4x8xf32>, %w: tensor<5x8xf32>) -> tensor<4x5xf32> {
  %p = tcc.softmax %x : tensor<4x8xf32>
  %t = tcc.transpose %w [1, 0] : tensor<5x8xf32> -> tensor<8x5xf32>
  %y = tcc.matmul %p, %t : tensor<4x8xf32>, tensor<8x5xf32> -> tensor<4x5xf32>
  return %y : tensor<4x5xf32>
}
