// Bodies go through every pass as functions do; text comes back as it went in; sizes of bodies follow from operands.
// RUN: %tcc %s -emit=captured | FileCheck %s --check-prefix=TEXT
// RUN: %tcc %s -emit=captured | %tcc - -emit=captured | FileCheck %s --check-prefix=TEXT
// RUN: %tcc %s -emit=joint --shape=x:4x8 | FileCheck %s --check-prefix=JOINT
// RUN: %tcc %s -emit=fused --shape=x:4x8 | FileCheck %s --check-prefix=FUSED
// RUN: %tcc %s -emit=planned --shape=x:4x8 | FileCheck %s --check-prefix=PLANNED
// RUN: %tcc %s -emit=fused --shape=x:4x8 --target=cuda -march=sm_90a -Rpass-missed=expand 2>&1 | FileCheck %s --check-prefix=CUDA
// RUN: %tcc %s --run=2 --shape=x:4x8 -fverify-each
// RUN: %tcc %s --run=2 --shape=x:4x8 -fverify-each -O0

// TEXT: %[[R:[^ ]+]] = tcc.repeat 3 (%[[C:[^ ]+]] = %{{[^ ]+}} : tensor<?x8xf32>) slices (%{{[^ ]+}} = %{{[^ ]+}} : tensor<3x8xf32>) uses (%[[W:[^ ]+]] = %{{[^ ]+}} : tensor<8x8xf32>) {
// TEXT: tcc.matmul %[[C]], %[[W]]
// TEXT: tcc.yield
// TEXT: tcc.cond %{{[^ ]+}} (%[[X:[^ ]+]] = %[[R]] : tensor<?x8xf32>) -> tensor<?x8xf32> {
// TEXT: tcc.gelu %[[X]]
// TEXT: } else {
// TEXT-NEXT: tcc.yield %[[X]]

// The gradient is a cond with the predicate of the first, of the input and what the result receives.
// JOINT: tcc.repeat 3 (%{{.*}} : tensor<4x8xf32>)
// JOINT: tcc.cond %[[P:[^ ]+]] (%{{.*}} : tensor<4x8xf32>) -> tensor<4x8xf32> {
// JOINT-NOT: tcc.gradient
// JOINT: tcc.cond %[[P]] (%{{.*}} : tensor<4x8xf32>, %{{.*}} : tensor<4x8xf32>) -> tensor<4x8xf32> {
// JOINT-NOT: tcc.gradient

// FUSED: tcc.repeat 3
// FUSED: tcc.matmul
// FUSED: tcc.kernel
// FUSED: tcc.yield
// FUSED: tcc.cond
// FUSED-NEXT: tcc.kernel

// A body's arena is scratch of its op; its results are written over what it carries.
// PLANNED: tcc.repeat 3
// PLANNED: tcc.kernel {{.*}}tcc.places = [array<i64: 3, 0, 0>]
// PLANNED: tcc.arenas = array<i64: {{[1-9][0-9]*}}>{{.*}}tcc.scratch = array<i64
// PLANNED: tcc.cond

// CUDA: both bodies of `cond` are computed and a value is selected: target 'cuda' has no branches
// CUDA: tcc.repeat 3
// CUDA-NOT: tcc.cond
func.func @main(%x: tensor<?x8xf32> {tcc.name = "x"}, %s: tensor<3x8xf32>, %w: tensor<8x8xf32>, %p: tensor<i1>)
    -> (tensor<?x8xf32>, tensor<?x8xf32>) {
  %r = tcc.repeat 3 (%c = %x : tensor<?x8xf32>) slices (%row = %s : tensor<3x8xf32>) uses (%m = %w : tensor<8x8xf32>) {
    %h = tcc.matmul %c, %m : tensor<?x8xf32>, tensor<8x8xf32> -> tensor<?x8xf32>
    %b = tcc.broadcast %row like %h : tensor<?x8xf32> : tensor<8xf32> -> tensor<?x8xf32>
    %e = tcc.mul %h, %b : tensor<?x8xf32>
    tcc.yield %e : tensor<?x8xf32>
  }
  %y = tcc.cond %p (%v = %r : tensor<?x8xf32>) -> tensor<?x8xf32> {
    %g = tcc.gelu %v : tensor<?x8xf32>
    tcc.yield %g : tensor<?x8xf32>
  } else {
    tcc.yield %v : tensor<?x8xf32>
  }
  %q = tcc.mul %y, %y : tensor<?x8xf32>
  %t = tcc.reduce_sum %q axes [0, 1] : tensor<?x8xf32> -> tensor<1x1xf32>
  %l = tcc.reshape %t : tensor<1x1xf32> -> tensor<f32>
  %d = tcc.gradient %l wrt %r : tensor<f32>, tensor<?x8xf32>
  return %y, %d : tensor<?x8xf32>, tensor<?x8xf32>
}
