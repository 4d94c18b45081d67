// Places are [space, number, offset]: the first product is in the arena (0), the kernel takes its buffer over, the
// second product writes the output (2), and the update is made in place of the state (3). How much scratch the
// library wants for a product is its own.
// RUN: %tcc %s -emit=planned | FileCheck %s

// CHECK: func.func @main
// CHECK-SAME: tcc.arena =
// CHECK: tcc.matmul {{.*}}tcc.places = [array<i64: 0, 0, [[OFFSET:[0-9]+]]>]
// CHECK: tcc.kernel {{.*}}tcc.places = [array<i64: 0, 0, [[OFFSET]]>]
// CHECK: tcc.matmul {{.*}}tcc.places = [array<i64: 2, 0, 0>]
// CHECK: tcc.kernel {{.*}}tcc.places = [array<i64: 3, 0, 0>]
// CHECK: return {{.*}}tcc.staging = array<i64: -1, -1>
func.func @main(%w: tensor<8x8xf32> {tcc.name = "w", tcc.state}, %x: tensor<8x8xf32>)
    -> (tensor<8x8xf32>, tensor<8x8xf32> {tcc.updates = "w"}) {
  %y = tcc.matmul %x, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %e = tcc.exp %y : tensor<8x8xf32>
  %z = tcc.matmul %e, %x : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %next = tcc.neg %w : tensor<8x8xf32>
  return %z, %next : tensor<8x8xf32>, tensor<8x8xf32>
}
