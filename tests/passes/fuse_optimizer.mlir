// -f[no-]fuse-optimizer: the ops that lead to new states alone share kernels, or none, whatever the level says of others.
// RUN: %tcc %s -O0 -emit=fused | FileCheck %s --check-prefix=PLAIN
// RUN: %tcc %s -O0 -ffuse-optimizer -emit=fused | FileCheck %s --check-prefix=UPDATE
// RUN: %tcc %s -O2 -emit=fused | FileCheck %s --check-prefix=ALL
// RUN: %tcc %s -O2 -fno-fuse-optimizer -emit=fused | FileCheck %s --check-prefix=REST
// RUN: %tcc %s -O0 -ffuse-optimizer -fverify-each -emit=planned -o /dev/null
// RUN: %tcc %s -O2 -fno-fuse-optimizer -fverify-each -emit=planned -o /dev/null
// RUN: %tcc %s -O2 -fno-fuse-optimizer -ffuse-optimizer -emit=fused | FileCheck %s --check-prefix=ALL

// PLAIN-COUNT-6: tcc.kernel
// PLAIN-NOT: tcc.kernel
// The update's three ops are one kernel.
// UPDATE-COUNT-4: tcc.kernel
// UPDATE-NOT: tcc.kernel
// ALL-COUNT-2: tcc.kernel
// ALL-NOT: tcc.kernel
// REST-COUNT-4: tcc.kernel
// REST-NOT: tcc.kernel
func.func @main(%x: tensor<8x8xf32> {tcc.name = "x"}, %d: tensor<8x8xf32> {tcc.name = "d"},
                %w: tensor<8x8xf32> {tcc.name = "w", tcc.state}, %m: tensor<8x8xf32> {tcc.name = "m", tcc.state})
    -> (tensor<8x8xf32> {tcc.name = "y"}, tensor<8x8xf32> {tcc.updates = "w"}, tensor<8x8xf32> {tcc.updates = "m"}) {
  %0 = tcc.exp %x : tensor<8x8xf32>
  %1 = tcc.tanh %0 : tensor<8x8xf32>
  %2 = tcc.mul %0, %1 : tensor<8x8xf32>
  %3 = tcc.add %m, %d : tensor<8x8xf32>
  %4 = tcc.mul %3, %3 : tensor<8x8xf32>
  %5 = tcc.sub %w, %4 : tensor<8x8xf32>
  func.return %2, %5, %3 : tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>
}
