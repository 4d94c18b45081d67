// A head that shares the embedding's table, and its gradient: with 16-bit products the vocabulary is padded in all three
// products, where casting the table writes it padded; the loss is one kernel, the gradient is added to in place and cut
// back. f32 would copy the table. What is kept is said, with the reason.
// RUN: %tcc %s --dtype=bf16 -fno-narrow-activations -emit=fused | FileCheck %s
// RUN: %tcc %s --dtype=bf16 -fpad=8 -emit=fused | FileCheck %s --check-prefix=EIGHT
// RUN: %tcc %s --dtype=bf16 -fpad=off -emit=fused | FileCheck %s --check-prefix=OFF
// RUN: %tcc %s -emit=fused | FileCheck %s --check-prefix=OFF
// RUN: %tcc %s --dtype=bf16 -fno-narrow-activations -fverify-each -o /dev/null
// RUN: %tcc %s --dtype=bf16 -fno-narrow-activations -fpad=8 -fverify-each -o /dev/null
// RUN: %tcc %s --dtype=bf16 -emit=shaped -Rpass=pad -Rpass-missed=pad 2>&1 >/dev/null | FileCheck %s --check-prefix=SAID
// RUN: %tcc %s -emit=shaped -Rpass=pad -Rpass-missed=pad 2>&1 >/dev/null | FileCheck %s --check-prefix=WIDE
// RUN: %tcc %s --target=cuda -emit=shaped -Rpass-missed=pad 2>&1 >/dev/null | FileCheck %s --check-prefix=CUDA
// RUN: %tcc %s --dtype=bf16 -fpad=off -emit=shaped -Rpass=pad -Rpass-missed=pad 2>&1 >/dev/null | FileCheck %s --check-prefix=NONE --allow-empty
// RUN: not %tcc %s -fpad=7 2>&1 | FileCheck %s --check-prefix=WRONG

// CHECK: tcc.kernel {{.*}}tensor<1001x64xf32>) -> tensor<1024x64xbf16>
// CHECK: tcc.matmul {{.*}} transposed {dtype = f32} : tensor<128x64xbf16>, tensor<1024x64xbf16> -> tensor<128x1024xf32>
// CHECK: tcc.kernel {{.*}}tensor<128x1024xf32>, {{.*}} -> (tensor<128x1024xbf16>, tensor<128x1xf32>)
// CHECK: tcc.matmul {{.*}} : tensor<128x1024xbf16>, tensor<1024x64xbf16> -> tensor<128x64xf32>
// CHECK: tcc.matmul {{.*}} : tensor<128x1024xbf16>, tensor<128x64xbf16> -> tensor<1024x64xf32>
// CHECK: tcc.scatter_add {{.*}} : tensor<1024x64xf32>, tensor<128xi32>, tensor<128x64xf32>
// CHECK: return {{.*}} : tensor<f32>, tensor<1001x64xf32>
// EIGHT: tensor<128x1008xf32>
// EIGHT: tensor<1008x64xf32>
// OFF-NOT: 1024
// SAID: pad_shapes.mlir:[[#]]:18: remark: size 1001 of head.matmul and 2 more products is computed as 1024: saves the time of 0.001 GFLOP of 0.049, adds 0.001, copies 0.0 MB [-Rpass=pad-shapes]
// SAID-NEXT: %head.matmul
// WIDE: remark: size 1001 of head.matmul and 2 more products is kept: 1024 would not pay: saves the time of 0.001 GFLOP of 0.049, adds 0.001, copies 0.5 MB [-Rpass-missed=pad-shapes]
// CUDA: remark: size 1001 of head.matmul and 2 more products is kept: products like these gain nothing from multiples of 64 on target 'cuda' [-Rpass-missed=pad-shapes]
// NONE-NOT: remark
// WRONG: tcc: error: unknown padding '7' of -fpad= (one of 64 8 off)
func.func @main(%table: tensor<1001x64xf32> {tcc.name = "table", tcc.state}, %tokens: tensor<128xi32> {tcc.name = "tokens"},
                %targets: tensor<128xi32> {tcc.name = "targets"})
    -> (tensor<f32> {tcc.name = "loss"}, tensor<1001x64xf32> {tcc.updates = "table"}) {
  %embedded = tcc.gather %table at %tokens : tensor<1001x64xf32>, tensor<128xi32> -> tensor<128x64xf32>
  %x = tcc.gelu %embedded : tensor<128x64xf32>
  %head.matmul = tcc.matmul %x, %table transposed : tensor<128x64xf32>, tensor<1001x64xf32> -> tensor<128x1001xf32>
  %loss = tcc.cross_entropy %head.matmul, %targets : tensor<128x1001xf32>, tensor<128xi32> -> tensor<f32>
  %g = tcc.gradient %loss wrt %table : tensor<f32>, tensor<1001x64xf32>
  %rate = tcc.constant dense<0.1> : tensor<1001x64xf32>
  %change = tcc.mul %g, %rate : tensor<1001x64xf32>
  %next = tcc.sub %table, %change : tensor<1001x64xf32>
  return %loss, %next : tensor<f32>, tensor<1001x64xf32>
}
