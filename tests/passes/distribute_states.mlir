// What each of two ranks keeps and computes with --zero=1.
// RUN: %tcc %s --ranks=2 --zero=1 -emit=joint -Rpass=distribute 2>&1 | FileCheck %s
// RUN: %tcc %s --ranks=2:1 --zero=1 -emit=joint | FileCheck %s --check-prefix=LAST
// RUN: %tcc %s --ranks=2 --zero=1 -emit=planned -fbucket=1 | FileCheck %s --check-prefix=PLANNED
// RUN: %tcc %s --zero=1 -emit=joint | FileCheck %s --check-prefix=WHOLE
// RUN: %tcc %s --ranks=2 --zero=1 -emit=joint -Rpass-missed=distribute 2>&1 | FileCheck %s --check-prefix=MISSED
// RUN: not %tcc %s --ranks=2 --zero=9 2>&1 | FileCheck %s --check-prefix=STAGE

// CHECK: state 'w.m' of 60 bytes is kept in 2 parts, here 24 bytes
// CHECK: @main(%x: tensor<4x5x3xf32>{{.*}}, %w: tensor<5x3xf32>{{.*}}, %m: tensor<2x3xf32>{{.*}}, %u: tensor<5x3xf32>
// CHECK: %[[G:.*]] = tcc.slice %{{.*}} {{\[}}0, 0] to [2, 3] : tensor<5x3xf32> -> tensor<2x3xf32>
// CHECK: %[[M:.*]] = tcc.add %m, %[[G]] : tensor<2x3xf32>
// CHECK: %[[W:.*]] = tcc.slice %w {{\[}}0, 0] to [2, 3]
// CHECK: %[[NEXT:.*]] = tcc.sub %[[W]], %[[M]] : tensor<2x3xf32>
// CHECK: tcc.pad %[[NEXT]] {{\[}}0, 0], [1, 0]
// CHECK: %[[ALL:.*]] = tcc.all_gather %{{.*}} of 2 {{.*}}: tensor<9xf32> -> tensor<18xf32>
// CHECK: tcc.concat
// CHECK: return %{{.*}}, %[[M]], %{{.*}} : tensor<5x3xf32>, tensor<2x3xf32>, tensor<5x3xf32>

// The last rank has a row more.
// LAST: %m: tensor<3x3xf32>
// LAST: tcc.slice %{{.*}} {{\[}}2, 0] to [5, 3] : tensor<5x3xf32> -> tensor<3x3xf32>
// LAST-NOT: tcc.pad

// PLANNED: tcc.all_gather
// WHOLE: %m: tensor<5x3xf32>
// MISSED: state 'w.u' of 60 bytes is whole on each rank: with an owner, 0 bytes of parameters would be sent
// STAGE: '9' of --zero=9 is no number from 0 to
func.func @main(%x: tensor<4x5x3xf32> {tcc.name = "x"}, %w: tensor<5x3xf32> {tcc.name = "w", tcc.state},
                %m: tensor<5x3xf32> {tcc.name = "w.m", tcc.state}, %u: tensor<5x3xf32> {tcc.name = "w.u", tcc.state})
    -> (tensor<5x3xf32> {tcc.updates = "w"}, tensor<5x3xf32> {tcc.updates = "w.m"},
        tensor<5x3xf32> {tcc.updates = "w.u"}) {
  %g = tcc.lanes 4 slices (%s = %x : tensor<4x5x3xf32>) uses (%f = %w : tensor<5x3xf32>) -> tensor<5x3xf32> {
    %p = tcc.mul %s, %f : tensor<5x3xf32>
    tcc.yield %p : tensor<5x3xf32>
  }
  %m1 = tcc.add %m, %g : tensor<5x3xf32>
  %w1 = tcc.sub %w, %m1 : tensor<5x3xf32>
  %t = tcc.reduce_sum %u axes [0] : tensor<5x3xf32> -> tensor<1x3xf32>
  %b = tcc.broadcast %t : tensor<1x3xf32> -> tensor<5x3xf32>
  %u1 = tcc.add %b, %g : tensor<5x3xf32>
  func.return %w1, %m1, %u1 : tensor<5x3xf32>, tensor<5x3xf32>, tensor<5x3xf32>
}
