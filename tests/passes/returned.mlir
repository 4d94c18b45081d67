// What only the caller reads is computed as soon as it can be, so that what it is computed from need not be kept; and a
// value that dies where an output of its size is written lies in the output's memory before.
// RUN: %tcc %s -emit=planned -O1 | FileCheck %s
// RUN: %tcc %s -emit=memory | FileCheck %s --check-prefix=MEMORY
// RUN: %tcc %s -O1 -fverify-each

// CHECK: %a = tcc.matmul %x, %w {{.*}}array<i64: 0, 0, {{[0-9]+}}>
// CHECK: tcc.kernel attributes {label = "saved"{{.*}}array<i64: 2, 1, 0>
// CHECK: %b = tcc.matmul %a, %w {{.*}}array<i64: 2, 0, 0>
// CHECK: tcc.kernel attributes {label = "y"{{.*}}array<i64: 2, 0, 0>
// MEMORY: 0.016 MB  arena
func.func @main(%x: tensor<64x64xf32>, %w: tensor<64x64xf32>) -> (tensor<64x64xf32>, tensor<64x32xf32>) {
  %a = tcc.matmul %x, %w : tensor<64x64xf32>, tensor<64x64xf32> -> tensor<64x64xf32>
  %b = tcc.matmul %a, %w : tensor<64x64xf32>, tensor<64x64xf32> -> tensor<64x64xf32>
  %y = tcc.softmax %b : tensor<64x64xf32>
  %half = tcc.slice %a [0, 0] to [64, 32] : tensor<64x64xf32> -> tensor<64x32xf32>
  %saved = tcc.exp %half : tensor<64x32xf32>
  return %y, %saved : tensor<64x64xf32>, tensor<64x32xf32>
}
