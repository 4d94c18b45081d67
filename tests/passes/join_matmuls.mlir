// Adapters beside frozen matrices: the narrow matmuls of one value are one, and so is its gradient through them. The
// wide ones stay apart, as does what is added to at once; both are said. Without the pass nothing is joined.
// RUN: %tcc %s -emit=shaped | FileCheck %s
// RUN: %tcc %s --target=cuda --dtype=bf16 -emit=shaped | FileCheck %s --check-prefix=CUDA
// RUN: %tcc %s -fno-join-matmuls -emit=shaped | FileCheck %s --check-prefix=OFF
// RUN: %tcc %s -O0 -emit=shaped | FileCheck %s --check-prefix=OFF
// RUN: %tcc %s -emit=planned -fverify-each -o /dev/null
// RUN: %tcc %s --target=cuda --dtype=bf16 -emit=planned -fverify-each -o /dev/null
// RUN: %tcc %s -emit=joint -Rpass=join-matmuls -Rpass-missed=join-matmuls -o /dev/null 2>&1 | FileCheck %s --check-prefix=SAID

// CHECK: %[[A:.*]] = tcc.concat {{.*}} axis 1 : tensor<64x2xf32>, tensor<64x2xf32> -> tensor<64x4xf32>
// CHECK: tcc.matmul {{.*}}, %[[A]] : tensor<16x64xf32>, tensor<64x4xf32> -> tensor<16x4xf32>
// CHECK: tcc.matmul {{.*}} tensor<16x4xf32>, tensor<64x4xf32>{{.*}} -> tensor<16x64xf32>
// CUDA: tensor<64x4xbf16>
// OFF-NOT: 64x4x
// SAID-DAG: remark: added stays apart: expected no addition to its result, which a matmul does itself [-Rpass-missed=join-matmuls]
// SAID-DAG: remark: the 2 matmuls q_and_v stay apart: one would save moving {{.*}} kB and copy {{.*}} kB [-Rpass-missed=join-matmuls]
// SAID-DAG: remark: the 2 matmuls qa_and_va are one: saves {{.*}} kB a step [-Rpass=join-matmuls]
func.func @main(%x: tensor<16x64xf32> {tcc.name = "x"}, %wq: tensor<64x64xf32> {tcc.name = "wq"},
                %wv: tensor<64x64xf32> {tcc.name = "wv"}, %aq: tensor<64x2xf32> {tcc.name = "aq"},
                %av: tensor<64x2xf32> {tcc.name = "av"}, %b: tensor<16x64xf32> {tcc.name = "b"})
    -> (tensor<16x64xf32>, tensor<16x64xf32>, tensor<64x2xf32>, tensor<64x2xf32>) {
  %q = tcc.matmul %x, %wq : tensor<16x64xf32>, tensor<64x64xf32> -> tensor<16x64xf32>
  %v = tcc.matmul %x, %wv : tensor<16x64xf32>, tensor<64x64xf32> -> tensor<16x64xf32>
  %qa = tcc.matmul %x, %aq : tensor<16x64xf32>, tensor<64x2xf32> -> tensor<16x2xf32>
  %va = tcc.matmul %x, %av : tensor<16x64xf32>, tensor<64x2xf32> -> tensor<16x2xf32>
  %added = tcc.matmul %x, %wv : tensor<16x64xf32>, tensor<64x64xf32> -> tensor<16x64xf32>
  %sum = tcc.add %added, %b : tensor<16x64xf32>
  %wide = tcc.mul %q, %v : tensor<16x64xf32>
  %narrow = tcc.mul %qa, %va : tensor<16x2xf32>
  %s = tcc.reduce_sum %wide axes [0, 1] : tensor<16x64xf32> -> tensor<1x1xf32>
  %t = tcc.reduce_sum %narrow axes [0, 1] : tensor<16x2xf32> -> tensor<1x1xf32>
  %both = tcc.add %s, %t : tensor<1x1xf32>
  %loss = tcc.reshape %both : tensor<1x1xf32> -> tensor<f32>
  %dx, %dq, %dv = tcc.gradient %loss wrt %x, %aq, %av : tensor<f32>, tensor<16x64xf32>, tensor<64x2xf32>, tensor<64x2xf32>
  return %sum, %dx, %dq, %dv : tensor<16x64xf32>, tensor<16x64xf32>, tensor<64x2xf32>, tensor<64x2xf32>
}
