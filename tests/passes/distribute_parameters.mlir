// Parameters in parts: each lane gathers what it reads, and the update stays with the rank's rows.
// RUN: %tcc %s --ranks=2 --zero=3 -emit=joint -fbucket=1 -Rpass=distribute 2>&1 | FileCheck %s
// RUN: %tcc %s --ranks=2:1 --zero=3 -emit=planned -fbucket=1 | FileCheck %s --check-prefix=PLANNED
// RUN: %tcc %s --ranks=4 --zero=3 -emit=joint -Rpass-missed=distribute 2>&1 | FileCheck %s --check-prefix=MISSED
// RUN: not %tcc %s --ranks=3 --zero=3 -emit=joint 2>&1 | FileCheck %s --check-prefix=LANES

// CHECK: state 'w' of 48 bytes is kept in 2 parts, here 24 bytes
// CHECK: @main({{.*}}, %w: tensor<2x3xf32>{{.*}}, %m: tensor<2x3xf32>{{.*}}, %v: tensor<2x3xf32>{{.*}}, %n: tensor<2x3xf32>
// CHECK: tcc.repeat 1
// CHECK: tcc.all_gather {{.*}}tcc.parameter = 1 : i64} : tensor<6xf32> -> tensor<12xf32>
// CHECK: tcc.all_gather {{.*}}tcc.parameter = 2 : i64} : tensor<6xf32> -> tensor<12xf32>
// CHECK: tcc.mul
// CHECK: tcc.all_gather {{.*}}tcc.parameter = 3 : i64} : tensor<6xf32> -> tensor<12xf32>
// CHECK: tcc.mul
// CHECK: tcc.mul
// CHECK: tcc.repeat 1
// CHECK: tcc.all_gather {{.*}}tcc.order = 4
// CHECK: tcc.all_gather {{.*}}tcc.order = 5
// CHECK: tcc.all_gather {{.*}}tcc.order = 6
// CHECK: tcc.all_to_all {{.*}}tcc.order = 7
// CHECK: tcc.mul
// CHECK: tcc.all_to_all {{.*}}tcc.order = 8
// CHECK-NOT: tcc.all_gather
// CHECK: tcc.sub %w, {{.*}} : tensor<2x3xf32>
// CHECK: return %{{.*}} : tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>

// PLANNED: %[[W:.*]] = tcc.all_gather {{.*}}flight = 1 : i64, tcc.order = 1
// PLANNED: tcc.wait %[[W]]
// PLANNED: tcc.kernel
// MISSED: state 'u' of 12 bytes is whole on each rank: it has fewer rows than there are ranks
// LANES: error: {{.*}}has 4 lanes for 3 ranks; with --zero=3 each rank computes 1, 2, 4, 8, … of them, all ranks equally many, as of 6 lanes
func.func @main(%x: tensor<4x4x3xf32> {tcc.name = "x"},
                %w: tensor<4x3xf32> {tcc.name = "w", tcc.state}, %m: tensor<4x3xf32> {tcc.name = "w.m", tcc.state},
                %v: tensor<4x3xf32> {tcc.name = "v", tcc.state}, %n: tensor<4x3xf32> {tcc.name = "v.m", tcc.state},
                %u: tensor<1x3xf32> {tcc.name = "u", tcc.state})
    -> (tensor<4x3xf32> {tcc.updates = "w"}, tensor<4x3xf32> {tcc.updates = "w.m"},
        tensor<4x3xf32> {tcc.updates = "v"}, tensor<4x3xf32> {tcc.updates = "v.m"}, tensor<1x3xf32> {tcc.updates = "u"}) {
  %g:2 = tcc.lanes 4 slices (%s = %x : tensor<4x4x3xf32>)
      uses (%a = %w : tensor<4x3xf32>, %b = %v : tensor<4x3xf32>, %c = %u : tensor<1x3xf32>)
      -> (tensor<4x3xf32>, tensor<4x3xf32>) {
    %wide = tcc.broadcast %c : tensor<1x3xf32> -> tensor<4x3xf32>
    %moved = tcc.add %s, %wide : tensor<4x3xf32>
    %p = tcc.mul %moved, %a : tensor<4x3xf32>
    %q = tcc.mul %p, %b : tensor<4x3xf32>
    %r = tcc.mul %q, %a : tensor<4x3xf32>
    tcc.yield %q, %r : tensor<4x3xf32>, tensor<4x3xf32>
  }
  %m1 = tcc.add %m, %g#0 : tensor<4x3xf32>
  %w1 = tcc.sub %w, %m1 : tensor<4x3xf32>
  %n1 = tcc.add %n, %g#1 : tensor<4x3xf32>
  %v1 = tcc.sub %v, %n1 : tensor<4x3xf32>
  %u1 = tcc.add %u, %u : tensor<1x3xf32>
  func.return %w1, %m1, %v1, %n1, %u1 : tensor<4x3xf32>, tensor<4x3xf32>, tensor<4x3xf32>, tensor<4x3xf32>, tensor<1x3xf32>
}
