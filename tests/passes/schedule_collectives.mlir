// Two buckets of one rank: the first is exchanged while the second one's value is computed, the second while the first
// one is added up; and both at once.
// RUN: %tcc %s --ranks=2 -fbucket=1 -emit=fused | FileCheck %s
// RUN: %tcc %s --ranks=2 -fbucket=1 -fno-schedule-collectives -emit=fused | FileCheck %s --check-prefix=OFF
// RUN: %tcc %s --ranks=2 -fbucket=25MiB -emit=fused | FileCheck %s --check-prefix=ONE
// RUN: %tcc %s --ranks=2 -fbucket=1 -emit=asm -o /dev/null -Rpass=schedule-collectives 2>&1 | FileCheck %s --check-prefix=SAYS
// RUN: %tcc %s --ranks=2 -emit=asm -o /dev/null -Rpass-missed=schedule-collectives 2>&1 | FileCheck %s --check-prefix=MISSED
// RUN: not %tcc %s --ranks=2 -fbucket=0 2>&1 | FileCheck %s --check-prefix=SIZE

// CHECK: tcc.matmul
// CHECK: %[[A:.*]] = tcc.all_to_all {{.*}} {flight = 1 : i64, tcc.order = 1 : i64}
// CHECK: tcc.matmul
// CHECK: %[[B:.*]] = tcc.all_to_all {{.*}} {flight = 2 : i64, tcc.order = 2 : i64}
// CHECK: tcc.wait %[[A]]
// CHECK: %[[SUM:.*]] = tcc.kernel
// CHECK: %[[C:.*]] = tcc.all_gather %[[SUM]] of 2 {flight = 3 : i64, tcc.order = 3 : i64}
// CHECK: tcc.wait %[[B]]
// CHECK: tcc.all_gather {{.*}} {tcc.order = 4 : i64}
// CHECK: tcc.wait %[[C]]

// OFF-NOT: flight
// OFF: tcc.all_to_all
// OFF-NOT: tcc.wait

// ONE-COUNT-1: tcc.all_to_all
// ONE-NOT: tcc.all_to_all

// SAYS: remark: all_to_all of 1024 bytes runs beside 2 ops, from 'b' to 'r' [-Rpass=schedule-collectives]
// SAYS: remark: all_to_all of 1024 bytes runs beside 2 ops, from 'r' to 'r'
// SAYS: remark: all_gather of 512 bytes runs beside 2 ops

// MISSED: remark: all_to_all of 2048 bytes is waited for at once [-Rpass-missed=schedule-collectives]

// SIZE: error: '0' of -fbucket= is no size
func.func @main(%x: tensor<2x16x16xf32>, %w: tensor<16x16xf32>) -> (tensor<16x16xf32>, tensor<16x16xf32>) {
  %r:2 = tcc.lanes 2 slices (%s = %x : tensor<2x16x16xf32>) uses (%m = %w : tensor<16x16xf32>)
      -> (tensor<16x16xf32>, tensor<16x16xf32>) {
    %a = tcc.matmul %s, %m : tensor<16x16xf32>, tensor<16x16xf32> -> tensor<16x16xf32>
    %b = tcc.matmul %a, %m : tensor<16x16xf32>, tensor<16x16xf32> -> tensor<16x16xf32>
    tcc.yield %a, %b : tensor<16x16xf32>, tensor<16x16xf32>
  }
  return %r#0, %r#1 : tensor<16x16xf32>, tensor<16x16xf32>
}
