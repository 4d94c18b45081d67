// Four blocks x + gelu(x·a)·b: between blocks only x is needed. With --remat=block the first product of a block is made again
// for the gradient, once; with auto only what a kernel makes of it.
// RUN: %tcc %s --remat=none -emit=planned | FileCheck %s --check-prefix=NONE
// RUN: %tcc %s --remat=auto -emit=planned -fdump-ir=rematerialize 2>&1 | FileCheck %s --check-prefix=AUTO
// RUN: %tcc %s --remat=block -emit=planned -fdump-ir=rematerialize 2>&1 | FileCheck %s --check-prefix=BLOCK
// RUN: %tcc %s --remat=none -fverify-each
// RUN: %tcc %s --remat=auto -fverify-each
// RUN: %tcc %s --remat=block -fverify-each
// RUN: %tcc %s --remat=full -fverify-each
// RUN: not %tcc %s --remat=some 2>&1 | FileCheck %s --check-prefix=WRONG
// RUN: %tcc %s -fmemory-limit=1MiB | FileCheck %s --check-prefix=FITS
// RUN: %tcc %s -fmemory-limit=700KiB | FileCheck %s --check-prefix=LIMIT
// RUN: not %tcc %s -fmemory-limit=700KiB --remat=none 2>&1 | FileCheck %s --check-prefix=SMALL
// RUN: not %tcc %s -fmemory-limit=100KiB 2>&1 | FileCheck %s --check-prefix=SMALL
// RUN: not %tcc %s -fmemory-limit=1TB 2>&1 | FileCheck %s --check-prefix=SIZE
// RUN: %tcc %s -fmemory-report 2>&1 | FileCheck %s --check-prefix=REPORT
// FITS-NOT: again
// LIMIT: ops again (time {{[0-9]+}} % more, as predicted)
// SMALL: error: the step needs at least 0.{{[0-9]+}} MB, and its memory limit is 0.{{[0-9]+}} MB; what takes most:
// SMALL-NEXT: MB {{.*}}rematerialize.mlir:{{[0-9]+}}
// SIZE: '1TB' of -fmemory-limit= is no size such as 512MiB or 2GiB
// REPORT: memory of `step` as planned
// REPORT: arena: activations and their gradients
// REPORT: together
// REPORT-NEXT: the arena is fullest at `{{.*}}` ({{.*}}rematerialize.mlir:{{[0-9]+}}), instruction
// REPORT-NEXT: by layer
// REPORT: h2
// REPORT: the arena by source line
// REPORT: rematerialize.mlir:{{[0-9]+}}{{.*}}`h2.gelu`
// REPORT: by value
// REPORT: 0.049 MB {{.*}}h2.gelu

// WRONG: unknown choice 'some' of --remat= (one of none auto block full)

// NONE-NOT: tcc.recomputed

// AUTO-LABEL: IR Dump After rematerialize
// AUTO: %squares.grad
// AUTO-NOT: tcc.matmul {{.*}}tcc.recomputed
// AUTO: tcc.kernel attributes {label = "h2.gelu", tcc.recomputed} (%{{.*}} = %h2.up :
// AUTO-NOT: tcc.matmul {{.*}}tcc.recomputed
// AUTO: tcc.kernel attributes {label = "h1.gelu", tcc.recomputed} (%{{.*}} = %h1.up :

// A copy stands before the first op that reads it, and serves the others too.
// BLOCK-LABEL: IR Dump After rematerialize
// BLOCK: %x1 = tcc.kernel
// BLOCK: %h1.up = tcc.matmul %x1, %a1
// BLOCK: %squares.grad
// BLOCK: %h1.down.grad = tcc.matmul
// BLOCK-NEXT: %[[AGAIN:[a-z0-9_.]+]] = tcc.matmul %x1, %a1 {tcc.recomputed}
// BLOCK-NEXT: %[[GELU:[a-z0-9_.]+]] = tcc.kernel attributes {label = "h1.gelu", tcc.recomputed} (%{{.*}} = %[[AGAIN]] :
// BLOCK: %b1.grad = tcc.matmul %[[GELU]] transposed
// BLOCK-NEXT: %h1.gelu.grad = tcc.kernel attributes {label = "h1.gelu.grad"} (%{{.*}} = %[[AGAIN]] :
func.func @step(%x: tensor<96x32xf32> {tcc.name = "x"},
    %a0: tensor<32x128xf32> {tcc.name = "a0"}, %b0: tensor<128x32xf32> {tcc.name = "b0"},
    %a1: tensor<32x128xf32> {tcc.name = "a1"}, %b1: tensor<128x32xf32> {tcc.name = "b1"},
    %a2: tensor<32x128xf32> {tcc.name = "a2"}, %b2: tensor<128x32xf32> {tcc.name = "b2"},
    %a3: tensor<32x128xf32> {tcc.name = "a3"}, %b3: tensor<128x32xf32> {tcc.name = "b3"})
    -> (tensor<f32>, tensor<32x128xf32>, tensor<128x32xf32>, tensor<32x128xf32>, tensor<128x32xf32>,
        tensor<32x128xf32>, tensor<128x32xf32>, tensor<32x128xf32>, tensor<128x32xf32>) {
  %h0.up = tcc.matmul %x, %a0 : tensor<96x32xf32>, tensor<32x128xf32> -> tensor<96x128xf32>
  %h0.gelu = tcc.gelu %h0.up : tensor<96x128xf32>
  %h0.down = tcc.matmul %h0.gelu, %b0 : tensor<96x128xf32>, tensor<128x32xf32> -> tensor<96x32xf32>
  %x1 = tcc.add %x, %h0.down : tensor<96x32xf32>
  %h1.up = tcc.matmul %x1, %a1 : tensor<96x32xf32>, tensor<32x128xf32> -> tensor<96x128xf32>
  %h1.gelu = tcc.gelu %h1.up : tensor<96x128xf32>
  %h1.down = tcc.matmul %h1.gelu, %b1 : tensor<96x128xf32>, tensor<128x32xf32> -> tensor<96x32xf32>
  %x2 = tcc.add %x1, %h1.down : tensor<96x32xf32>
  %h2.up = tcc.matmul %x2, %a2 : tensor<96x32xf32>, tensor<32x128xf32> -> tensor<96x128xf32>
  %h2.gelu = tcc.gelu %h2.up : tensor<96x128xf32>
  %h2.down = tcc.matmul %h2.gelu, %b2 : tensor<96x128xf32>, tensor<128x32xf32> -> tensor<96x32xf32>
  %x3 = tcc.add %x2, %h2.down : tensor<96x32xf32>
  %h3.up = tcc.matmul %x3, %a3 : tensor<96x32xf32>, tensor<32x128xf32> -> tensor<96x128xf32>
  %h3.gelu = tcc.gelu %h3.up : tensor<96x128xf32>
  %h3.down = tcc.matmul %h3.gelu, %b3 : tensor<96x128xf32>, tensor<128x32xf32> -> tensor<96x32xf32>
  %x4 = tcc.add %x3, %h3.down : tensor<96x32xf32>
  %squares = tcc.mul %x4, %x4 : tensor<96x32xf32>
  %sum = tcc.reduce_sum %squares axes [0, 1] : tensor<96x32xf32> -> tensor<1x1xf32>
  %loss = tcc.reshape %sum : tensor<1x1xf32> -> tensor<f32>
  %d:8 = tcc.gradient %loss wrt %a0, %b0, %a1, %b1, %a2, %b2, %a3, %b3 : tensor<f32>, tensor<32x128xf32>,
    tensor<128x32xf32>, tensor<32x128xf32>, tensor<128x32xf32>, tensor<32x128xf32>, tensor<128x32xf32>,
    tensor<32x128xf32>, tensor<128x32xf32>
  func.return %loss, %d#0, %d#1, %d#2, %d#3, %d#4, %d#5, %d#6, %d#7 : tensor<f32>, tensor<32x128xf32>,
    tensor<128x32xf32>, tensor<32x128xf32>, tensor<128x32xf32>, tensor<32x128xf32>, tensor<128x32xf32>,
    tensor<32x128xf32>, tensor<128x32xf32>
}
