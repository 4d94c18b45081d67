// Three buckets of one rank: the first one's sum is gathered in the middle of what runs between the starts of the second
// and of the third exchange.
// RUN: %tcc %s --ranks=2 -fbucket=1 -emit=fused | FileCheck %s

// CHECK: tcc.matmul
// CHECK: %[[A:.*]] = tcc.all_to_all {{.*}} {flight = 1 : i64, tcc.order = 1 : i64}
// CHECK-NEXT: tcc.matmul
// CHECK-NEXT: tcc.all_to_all {{.*}} {flight = 2 : i64, tcc.order = 2 : i64}
// CHECK-NEXT: tcc.matmul
// CHECK-NEXT: tcc.matmul
// CHECK-NEXT: tcc.wait %[[A]]
// CHECK: %[[SUM:.*]] = tcc.kernel
// CHECK: tcc.all_gather %[[SUM]] of 2 {flight = 3 : i64, tcc.order = 3 : i64}
// CHECK-NEXT: tcc.matmul
// CHECK-NEXT: tcc.matmul
// CHECK-NEXT: tcc.all_to_all {{.*}} {flight = 4 : i64, tcc.order = 4 : i64}
func.func @main(%x: tensor<2x16x16xf32>, %w: tensor<16x16xf32>)
    -> (tensor<16x16xf32>, tensor<16x16xf32>, tensor<16x16xf32>) {
  %r:3 = tcc.lanes 2 slices (%s = %x : tensor<2x16x16xf32>) uses (%m = %w : tensor<16x16xf32>)
      -> (tensor<16x16xf32>, tensor<16x16xf32>, tensor<16x16xf32>) {
    %a = tcc.matmul %s, %m : tensor<16x16xf32>, tensor<16x16xf32> -> tensor<16x16xf32>
    %b = tcc.matmul %a, %m : tensor<16x16xf32>, tensor<16x16xf32> -> tensor<16x16xf32>
    %c = tcc.matmul %b, %m : tensor<16x16xf32>, tensor<16x16xf32> -> tensor<16x16xf32>
    %d = tcc.matmul %c, %m : tensor<16x16xf32>, tensor<16x16xf32> -> tensor<16x16xf32>
    %e = tcc.matmul %d, %m : tensor<16x16xf32>, tensor<16x16xf32> -> tensor<16x16xf32>
    %f = tcc.matmul %e, %m : tensor<16x16xf32>, tensor<16x16xf32> -> tensor<16x16xf32>
    tcc.yield %a, %b, %f : tensor<16x16xf32>, tensor<16x16xf32>, tensor<16x16xf32>
  }
  return %r#0, %r#1, %r#2 : tensor<16x16xf32>, tensor<16x16xf32>, tensor<16x16xf32>
}
