// A view that is returned, and a view of it that lies densely in the value below both: the second is read through the
// first, which is stored for the caller alone.
// RUN: %tcc %s -emit=fused -O0 | FileCheck %s
// RUN: %tcc %s -O0 -fverify-each 2>&1 | FileCheck %s --check-prefix=CLEAN

// CHECK: %[[N:.*]] = tcc.kernel {{.*}}label = "n"
// CHECK: %[[A:.*]] = tcc.kernel {{.*}}label = "a"
// CHECK: %[[V:.*]] = tcc.transpose %[[N]] [1, 2, 0]
// CHECK: %[[B:.*]] = tcc.transpose %[[V]] [0, 2, 1]
// CHECK: return %[[A]], %[[B]]
// CLEAN: 3 ops -> 2 kernels
func.func @main(%x: tensor<5x1x7xf32>) -> (tensor<1x7x5xf32>, tensor<1x5x7xf32>) {
  %n = tcc.neg %x : tensor<5x1x7xf32>
  %a = tcc.transpose %n [1, 2, 0] : tensor<5x1x7xf32> -> tensor<1x7x5xf32>
  %b = tcc.transpose %a [0, 2, 1] : tensor<1x7x5xf32> -> tensor<1x5x7xf32>
  return %a, %b : tensor<1x7x5xf32>, tensor<1x5x7xf32>
}
