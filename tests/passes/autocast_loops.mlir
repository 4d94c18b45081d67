// What a loop multiplies in 16 bits in each turn is cast once, before it; two loops, as those of two lanes, share the
// cast, and an inner loop's goes out of both. What changes from turn to turn, or is computed, is cast in the loop.
// RUN: %tcc %s --dtype=bf16 -emit=shaped -fdump-ir=autocast -fverify-each 2>&1 | FileCheck %s

// CHECK-LABEL: IR Dump After autocast
// CHECK: func.func @main(%[[X:.*]]: tensor<4x8xf32>, %[[W:.*]]: tensor<8x8xf32>)
// CHECK: %[[W16:.*]] = tcc.cast %[[W]] : tensor<8x8xf32> -> tensor<8x8xbf16>
// CHECK: tcc.repeat 3 ({{.*}}) uses ({{.*}}, %[[A:[^ ]+]] = %[[W16]] : tensor<8x8xbf16>) {
// CHECK-NEXT: %[[C:.*]] = tcc.cast %{{.*}} : tensor<4x8xf32> -> tensor<4x8xbf16>
// CHECK-NEXT: tcc.matmul %[[C]], %[[A]]
// CHECK-NEXT: tcc.yield
// CHECK: tcc.repeat 2 ({{.*}}) uses ({{.*}}, %[[B:[^ ]+]] = %[[W16]] : tensor<8x8xbf16>) {
// CHECK-NEXT: tcc.repeat 2 ({{.*}}) uses ({{.*}}, %[[D:[^ ]+]] = %[[B]] : tensor<8x8xbf16>) {
// CHECK-NEXT: %[[E:.*]] = tcc.cast
// CHECK-NEXT: tcc.matmul %[[E]], %[[D]]
// CHECK: %[[COMPUTED:.*]] = tcc.mul %[[W]], %[[W]]
// CHECK: tcc.repeat 2 ({{.*}}) uses (%[[F:[^ ]+]] = %[[COMPUTED]] : tensor<8x8xf32>) {
// CHECK-DAG: tcc.cast %[[F]] : tensor<8x8xf32> -> tensor<8x8xbf16>
func.func @main(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>) {
  %0 = tcc.repeat 3 (%c = %x : tensor<4x8xf32>) uses (%u = %w : tensor<8x8xf32>) {
    %m = tcc.matmul %c, %u : tensor<4x8xf32>, tensor<8x8xf32> -> tensor<4x8xf32>
    tcc.yield %m : tensor<4x8xf32>
  }
  %1 = tcc.repeat 2 (%c = %x : tensor<4x8xf32>) uses (%u = %w : tensor<8x8xf32>) {
    %i = tcc.repeat 2 (%d = %c : tensor<4x8xf32>) uses (%v = %u : tensor<8x8xf32>) {
      %m = tcc.matmul %d, %v : tensor<4x8xf32>, tensor<8x8xf32> -> tensor<4x8xf32>
      tcc.yield %m : tensor<4x8xf32>
    }
    tcc.yield %i : tensor<4x8xf32>
  }
  %2 = tcc.mul %w, %w : tensor<8x8xf32>
  %3 = tcc.repeat 2 (%c = %x : tensor<4x8xf32>) uses (%u = %2 : tensor<8x8xf32>) {
    %m = tcc.matmul %c, %u : tensor<4x8xf32>, tensor<8x8xf32> -> tensor<4x8xf32>
    tcc.yield %m : tensor<4x8xf32>
  }
  return %0, %1, %3 : tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>
}
