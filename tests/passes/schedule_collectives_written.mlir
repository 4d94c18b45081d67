// A flight and a tcc.wait that somebody has written are placed anew; without the pass they stay.
// RUN: %tcc %s --ranks=2 -emit=planned | FileCheck %s
// RUN: %tcc %s --ranks=2 -fno-schedule-collectives -emit=planned | FileCheck %s --check-prefix=OFF

// CHECK: %[[G:.*]] = tcc.all_gather %{{.*}} of 2 {flight = 1 : i64
// CHECK-NEXT: tcc.matmul
// CHECK-NEXT: tcc.matmul
// CHECK-NEXT: tcc.wait %[[G]]
// CHECK-NOT: tcc.wait

// OFF: %[[G:.*]] = tcc.all_gather %{{.*}} of 2 {flight = 7 : i64
// OFF-NEXT: tcc.wait %[[G]]
// OFF-NOT: tcc.wait
func.func @main(%x: tensor<128xf32>, %w: tensor<16x16xf32>) -> tensor<16x16xf32> {
  %g = tcc.all_gather %x of 2 {flight = 7 : i64} : tensor<128xf32> -> tensor<256xf32>
  tcc.wait %g : tensor<256xf32>
  %r = tcc.reshape %g : tensor<256xf32> -> tensor<16x16xf32>
  %a = tcc.matmul %w, %w : tensor<16x16xf32>, tensor<16x16xf32> -> tensor<16x16xf32>
  %b = tcc.matmul %a, %w : tensor<16x16xf32>, tensor<16x16xf32> -> tensor<16x16xf32>
  %n = tcc.mul %r, %b : tensor<16x16xf32>
  return %n : tensor<16x16xf32>
}
