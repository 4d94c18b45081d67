// Both directions' products multiply in bf16: a value is cast once, below its views; a product's result is f32, or
// rounded on its way out where nothing else reads it.
// RUN: %tcc %s --dtype=bf16 -emit=shaped -fdump-ir=autocast 2>&1 | FileCheck %s
// RUN: %tcc %s -emit=shaped | FileCheck %s --check-prefix=OFF

// CHECK-LABEL: IR Dump After autocast
// CHECK: func.func @main(%[[X:.*]]: tensor<4x8xf32>, %[[W:.*]]: tensor<8x8xf32>, %[[B:.*]]: tensor<8xf32>)
// CHECK-DAG: %[[X16:.*]] = tcc.cast %[[X]] : tensor<4x8xf32> -> tensor<4x8xbf16>
// CHECK-DAG: %[[W16:.*]] = tcc.cast %[[W]] : tensor<8x8xf32> -> tensor<8x8xbf16>
// CHECK-NOT: tcc.cast
// CHECK: %[[FIRST:.*]] = tcc.matmul %[[X16]], %[[W16]] : tensor<4x8xbf16>, tensor<8x8xbf16> -> tensor<4x8xbf16>
// CHECK-NOT: tcc.cast
// CHECK: %[[SECOND:.*]] = tcc.matmul %[[FIRST]], %{{.*}} {dtype = f32} : {{.*}} -> tensor<4x8xf32>
// CHECK: tcc.add %[[SECOND]]

// OFF-NOT: bf16
func.func @main(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>, %b: tensor<8xf32>) -> (tensor<4x8xf32>) {
  %0 = tcc.matmul %x, %w : tensor<4x8xf32>, tensor<8x8xf32> -> tensor<4x8xf32>
  %1 = tcc.transpose %w [1, 0] : tensor<8x8xf32> -> tensor<8x8xf32>
  %2 = tcc.matmul %0, %1 : tensor<4x8xf32>, tensor<8x8xf32> -> tensor<4x8xf32>
  %3 = tcc.broadcast %b : tensor<8xf32> -> tensor<4x8xf32>
  %4 = tcc.add %2, %3 : tensor<4x8xf32>
  return %4 : tensor<4x8xf32>
}
