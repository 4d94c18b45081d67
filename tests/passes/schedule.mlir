// An update that only the step's end reads moves after every reader of the old value.
// RUN: %tcc %s -emit=planned -fdump-ir=schedule 2>&1 | FileCheck %s

// CHECK-LABEL: IR Dump After schedule
// CHECK: func.func @main(%[[W:.*]]: tensor<8x8xf32> {{.*}}, %[[X:.*]]: tensor<8x8xf32>)
// CHECK: %[[Y:.*]] = tcc.matmul %[[X]], %[[W]]
// CHECK: tcc.matmul %[[Y]], %[[W]]
// CHECK: %[[NEXT:.*]] = tcc.kernel {{.*}}%[[W]]
// CHECK: return %{{.*}}, %[[NEXT]]
func.func @main(%w: tensor<8x8xf32> {tcc.name = "w", tcc.state}, %x: tensor<8x8xf32>)
    -> (tensor<8x8xf32>, tensor<8x8xf32> {tcc.updates = "w"}) {
  %next = tcc.neg %w : tensor<8x8xf32>
  %y = tcc.matmul %x, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %z = tcc.matmul %y, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %r = tcc.exp %z : tensor<8x8xf32>
  return %r, %next : tensor<8x8xf32>, tensor<8x8xf32>
}
