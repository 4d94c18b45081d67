// --print-pipeline is the pipeline's own table; names that it lacks are refused with the nearest one.
// RUN: %tcc --print-pipeline | FileCheck %s
// RUN: %tcc --print-pipeline -O0 | FileCheck %s --check-prefix=SINGLE
// RUN: %tcc --print-pipeline --dtype=bf16 -march=x86-64-v3 | FileCheck %s --check-prefix=NARROW
// RUN: %tcc --print-pipeline --dtype=bf16 -march=sapphirerapids | FileCheck %s --check-prefix=TILES
// RUN: %tcc --print-pipeline --dtype=f16 --target=cuda | FileCheck %s --check-prefix=CUDA
// RUN: not %tcc %s -fno-simplif 2>&1 | FileCheck %s --check-prefix=UNKNOWN
// RUN: not %tcc %s -fno-autodiff 2>&1 | FileCheck %s --check-prefix=REQUIRED
// RUN: not %tcc %s -fdump-ir=autodif 2>&1 | FileCheck %s --check-prefix=DUMP

// CHECK: 1 specialize-shapes captured on
// CHECK-NEXT: 2 decompose captured on
// CHECK-NEXT: 3 match-attention captured on
// CHECK-NEXT: 4 join-matmuls captured on
// CHECK-NEXT: 5 autodiff joint on
// CHECK-NEXT: 6 distribute joint on
// CHECK-NEXT: 7 autocast shaped off
// CHECK-NEXT: 8 expand-unsupported shaped on
// CHECK-NEXT: 9 simplify shaped on
// CHECK-NEXT: 10 pad-shapes shaped on
// CHECK-NEXT: 11 split-reductions shaped on
// CHECK-NEXT: 12 narrow-activations shaped off
// CHECK-NEXT: 13 fuse-gelu shaped off
// CHECK-NEXT: 14 pack-attention shaped on
// CHECK-NEXT: 15 fuse-epilogues shaped on
// CHECK-NEXT: 16 fuse-kernels fused on
// CHECK-NEXT: 17 rematerialize fused off
// CHECK-NEXT: 18 schedule fused on
// CHECK-NEXT: 19 schedule-collectives fused on
// CHECK-NEXT: 20 plan-memory planned on
// NARROW: 7 autocast shaped on
// NARROW: 12 narrow-activations shaped off
// TILES: 12 narrow-activations shaped on
// CUDA: 12 narrow-activations shaped on
// CUDA: 13 fuse-gelu shaped on
// SINGLE: 9 simplify shaped off
// SINGLE: 10 pad-shapes shaped off
// SINGLE: 15 fuse-epilogues shaped off
// UNKNOWN: did you mean '-fno-simplify'?
// REQUIRED: pass 'autodiff' cannot be left out
// DUMP: autodif
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}
