// What each of two ranks computes of four lanes: one alone, then one that adds up and exchanges.
// RUN: %tcc %s --ranks=2 -emit=joint | FileCheck %s
// RUN: %tcc %s --ranks=2 --reduce=fast -emit=joint | FileCheck %s --check-prefix=FAST
// RUN: %tcc %s -emit=joint | FileCheck %s --check-prefix=ALONE
// RUN: %tcc %s --ranks=3:1 -emit=joint | FileCheck %s --check-prefix=UNEVEN
// RUN: %tcc %s --ranks=2 -emit=planned | FileCheck %s --check-prefix=PLANNED
// RUN: not %tcc %s --ranks=8 -emit=joint 2>&1 | FileCheck %s --check-prefix=MANY

// CHECK: %[[OWN:.*]] = tcc.shard %x of 2 : tensor<4x3xf32> -> tensor<2x3xf32>
// CHECK: %[[LEFT:.*]] = tcc.repeat 1
// CHECK: tcc.mul
// CHECK: tcc.repeat 1 {{.*}} = %[[LEFT]] : tensor<3xf32>)
// CHECK: %[[LANE:.*]] = tcc.mul
// CHECK: %[[HALF:.*]] = tcc.repeat 1 {{.*}} = %[[LANE]] : tensor<3xf32>
// CHECK: tcc.add
// CHECK: tcc.add
// CHECK: %[[ROWS:.*]] = tcc.all_to_all [1, 1] own 1 of %[[HALF]] {tcc.order = 1 : i64} : (tensor<3xf32>) -> tensor<2x16xf32>
// CHECK: %[[A:.*]] = tcc.slice %[[ROWS]] {{\[}}0, 0] to [1, 16]
// CHECK: %[[B:.*]] = tcc.slice %[[ROWS]] {{\[}}1, 0] to [2, 16]
// CHECK: %[[SUM:.*]] = tcc.add %{{.*}} : tensor<16xf32>
// CHECK: %[[ALL:.*]] = tcc.all_gather %[[SUM]] of 2 {tcc.order = 2 : i64} : tensor<16xf32> -> tensor<32xf32>
// CHECK: tcc.yield %[[ALL]] : tensor<32xf32>
// CHECK: tcc.unpack %{{.*}} : tensor<32xf32> -> tensor<3xf32>
// CHECK-NOT: tcc.lanes

// What is gathered is the loop's result, and nothing copies the sum out of it.
// PLANNED: tcc.all_gather {{.*}}tcc.places = [array<i64: 3, 0, 0>]
// PLANNED-NOT: tcc.kernel
// PLANNED: tcc.unpack

// FAST: %[[HALF:.*]] = tcc.repeat 1 {{.*}} uses
// FAST-NOT: tcc.all_to_all
// FAST: tcc.all_reduce %{{.*}} of 2

// Four lanes alone are written out: two sums of two lanes are never in memory at a time.
// ALONE-NOT: tcc.shard
// ALONE: %[[L0:.*]] = tcc.repeat 1
// ALONE: %[[L1:.*]] = tcc.repeat 1
// ALONE: %[[PAIR:.*]] = tcc.repeat 1 (%{{.*}} = %[[L0]] : tensor<3xf32>) uses (%{{.*}} = %[[L1]] : tensor<3xf32>)
// ALONE: %[[L2:.*]] = tcc.repeat 1
// ALONE: %[[L3:.*]] = tcc.repeat 1
// ALONE: tcc.repeat 1 (%[[A:.*]] = %[[PAIR]] : tensor<3xf32>) uses (%[[B:.*]] = %[[L2]] : tensor<3xf32>, %[[C:.*]] = %[[L3]] : tensor<3xf32>)
// ALONE: %[[ZERO:.*]] = tcc.constant dense<0.000000e+00>
// ALONE: %[[D:.*]] = tcc.add %[[B]], %[[ZERO]]
// ALONE: %[[E:.*]] = tcc.add %[[D]], %[[C]]
// ALONE: tcc.add %[[A]], %[[E]]
// ALONE-NOT: tcc.repeat 2
// ALONE-NOT: tcc.all_

// The ranks have 1, 1 and 2 lanes; rank 0's is no half of a pair that one rank has.
// UNEVEN: tcc.shard %x of 3 : tensor<4x3xf32> -> tensor<1x3xf32>
// UNEVEN: tcc.all_to_all [1, 1, 1] own 1

// MANY: `lanes` has 4 lanes for 8 ranks; each rank needs one or more
func.func @main(%x: tensor<4x3xf32>, %k: tensor<3xf32>) -> tensor<3xf32> {
  %y = tcc.lanes 4 slices (%s = %x : tensor<4x3xf32>) uses (%f = %k : tensor<3xf32>) -> tensor<3xf32> {
    %m = tcc.mul %s, %f : tensor<3xf32>
    tcc.yield %m : tensor<3xf32>
  }
  return %y : tensor<3xf32>
}
