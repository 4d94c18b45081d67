// Equal kernels that do not depend on each other run as one, where memory allows it: the sums of both products wait for
// the second one. The exponentials are equal too, but one is made from the other.
// RUN: %tcc %s -emit=planned | FileCheck %s
// RUN: %tcc %s -emit=planned -O0 | FileCheck %s --check-prefix=APART

// CHECK: func.func @main
// CHECK: %[[A:.*]] = tcc.matmul %[[X:.*]], %[[X]]
// CHECK: %[[B:.*]] = tcc.matmul %[[Y:.*]], %[[Y]]
// CHECK: %[[SA:.*]] = tcc.kernel attributes {{.*}}tcc.joined = 0{{.*}}= %[[A]] :
// CHECK: %[[SB:.*]] = tcc.kernel attributes {{.*}}tcc.joined = 0{{.*}}= %[[B]] :
// CHECK: tcc.matmul %{{.*}}, %[[SA]]
// CHECK-NOT: tcc.joined
// APART-NOT: tcc.joined
func.func @main(%x: tensor<8x8xf32>, %y: tensor<8x8xf32>) -> (tensor<8x1xf32>, tensor<8x1xf32>) {
  %a = tcc.matmul %x, %x : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %sa = tcc.reduce_sum %a axes [1] : tensor<8x8xf32> -> tensor<8x1xf32>
  %b = tcc.matmul %y, %y : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %sb = tcc.reduce_sum %b axes [1] : tensor<8x8xf32> -> tensor<8x1xf32>
  %pa = tcc.matmul %x, %sa : tensor<8x8xf32>, tensor<8x1xf32> -> tensor<8x1xf32>
  %pb = tcc.matmul %y, %sb : tensor<8x8xf32>, tensor<8x1xf32> -> tensor<8x1xf32>
  %ea = tcc.exp %pa : tensor<8x1xf32>
  %qa = tcc.matmul %y, %ea : tensor<8x8xf32>, tensor<8x1xf32> -> tensor<8x1xf32>
  %eb = tcc.exp %qa : tensor<8x1xf32>
  return %eb, %pb : tensor<8x1xf32>, tensor<8x1xf32>
}
