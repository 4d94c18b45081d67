// Matmuls of lanes by one weight pack it once. What a lane makes itself is packed where it is multiplied, such as both
// operands of the weight's gradient. Matmuls by tiles keep nothing.
// RUN: %tcc %s -emit=planned | FileCheck %s
// RUN: env TCC_TILES=0 %tcc %s -emit=json | FileCheck %s --check-prefix=PLAN
// RUN: env TCC_TILES=0 %tcc %s -emit=json -o %t -Rpass=keep-packed 2>&1 | FileCheck %s --check-prefix=SAYS
// RUN: %tcc %s -emit=planned -fno-keep-packed | FileCheck %s --check-prefix=OFF
// RUN: %tcc %s -emit=planned -Os | FileCheck %s --check-prefix=OFF
// RUN: %tcc %s -emit=planned -O0 | FileCheck %s --check-prefix=OFF
// RUN: %tcc %s -emit=planned -fmemory-limit=100MiB | FileCheck %s --check-prefix=OFF
// RUN: %tcc %s -emit=planned --target=cuda | FileCheck %s --check-prefix=OFF

// CHECK: tcc.repeat 1
// CHECK-COUNT-3: tcc.matmul {{.*}} {tcc.kept_packing
// CHECK: tcc.matmul {{.*}} transposed, {{.*}} {tcc.places
// CHECK-NOT: tcc.kept_packing
// CHECK: tcc.repeat 1

// Two matmuls of each of four lanes multiply by the weight, one by its transpose: in the first lane one of each packs.
// PLAN-COUNT-10: "is_packed": true
// PLAN-NOT: "is_packed": true

// The first lane's first matmul by the weight, and the first one by its transpose.
// SAYS: keep_packed.mlir:[[#@LINE+9]]:10: remark: matmul 64x96x96 nn: packs its right operand for 7 more matmuls, 0.04 MB: saves {{.*}} a step [-Rpass=keep-packed]
// SAYS: keep_packed.mlir:{{.*}}: packs its right operand for 3 more matmuls

// OFF: tcc.matmul
// OFF-NOT: tcc.kept_packing
func.func @main(%x: tensor<4x64x96xf32> {tcc.name = "x"}, %w: tensor<96x96xf32> {tcc.name = "w", tcc.state})
    -> (tensor<f32>, tensor<96x96xf32> {tcc.updates = "w"}) {
  %g:2 = tcc.lanes 4 slices (%s = %x : tensor<4x64x96xf32>) uses (%a = %w : tensor<96x96xf32>)
      -> (tensor<f32>, tensor<96x96xf32>) {
    %0 = tcc.matmul %s, %a : tensor<64x96xf32>, tensor<96x96xf32> -> tensor<64x96xf32>
    %1 = tcc.tanh %0 : tensor<64x96xf32>
    %2 = tcc.matmul %1, %a : tensor<64x96xf32>, tensor<96x96xf32> -> tensor<64x96xf32>
    %3 = tcc.mul %2, %2 : tensor<64x96xf32>
    %4 = tcc.reduce_sum %3 axes [0, 1] : tensor<64x96xf32> -> tensor<1x1xf32>
    %5 = tcc.reshape %4 : tensor<1x1xf32> -> tensor<f32>
    %d = tcc.gradient %5 wrt %a : tensor<f32>, tensor<96x96xf32>
    tcc.yield %5, %d : tensor<f32>, tensor<96x96xf32>
  }
  %u = tcc.sub %w, %g#1 : tensor<96x96xf32>
  return %g#0, %u : tensor<f32>, tensor<96x96xf32>
}
