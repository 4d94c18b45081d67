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
// CHECK: autocast shaped off
// CHECK: simplify shaped on
// CHECK: narrow-activations shaped off
// CHECK: fuse-kernels fused on
// CHECK: rematerialize fused off
// CHECK: plan-memory planned on
// NARROW: autocast shaped on
// NARROW: narrow-activations shaped off
// TILES: narrow-activations shaped on
// CUDA: narrow-activations shaped on
// CUDA: fuse-gelu shaped on
// SINGLE: simplify shaped off
// SINGLE: pad-shapes shaped off
// SINGLE: fuse-epilogues shaped off
// UNKNOWN: did you mean '-fno-simplify'?
// REQUIRED: pass 'autodiff' cannot be left out
// DUMP: autodif
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}
