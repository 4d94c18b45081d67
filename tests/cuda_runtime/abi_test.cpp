// driver.h and cublaslt.h against NVIDIA's own headers.
#include "runtime/device/cuda/cublaslt.h"
#include "runtime/device/cuda/driver.h"

#include <cublasLt.h>
#include <cuda.h>
#include <gtest/gtest.h>

namespace cuda = tcc::runtime::cuda;

namespace {

TEST(CudaAbi, LayoutsAgree) {
  EXPECT_EQ(sizeof(cuda::LaunchConfig), sizeof(CUlaunchConfig));
  EXPECT_EQ(offsetof(cuda::LaunchConfig, sharedBytes), offsetof(CUlaunchConfig, sharedMemBytes));
  EXPECT_EQ(offsetof(cuda::LaunchConfig, stream), offsetof(CUlaunchConfig, hStream));
  EXPECT_EQ(offsetof(cuda::LaunchConfig, attributes), offsetof(CUlaunchConfig, attrs));
  EXPECT_EQ(offsetof(cuda::LaunchConfig, attributeCount), offsetof(CUlaunchConfig, numAttrs));
  EXPECT_EQ(sizeof(cuda::LaunchAttribute), sizeof(CUlaunchAttribute));
  EXPECT_EQ(offsetof(cuda::LaunchAttribute, value), offsetof(CUlaunchAttribute, value));
  EXPECT_EQ(sizeof(cuda::TensorMap), sizeof(CUtensorMap));
  // The driver asks for 64; later headers declare more.
  EXPECT_EQ(alignof(CUtensorMap) % alignof(cuda::TensorMap), 0u);
  EXPECT_EQ(sizeof(cuda::LtHeuristic), sizeof(cublasLtMatmulHeuristicResult_t));
  EXPECT_EQ(offsetof(cuda::LtHeuristic, workspaceBytes), offsetof(cublasLtMatmulHeuristicResult_t, workspaceSize));
}

TEST(CudaAbi, ValuesAgree) {
  EXPECT_EQ(int(cuda::attributeMultiprocessors), int(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT));
  EXPECT_EQ(int(cuda::attributeMajor), int(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR));
  EXPECT_EQ(int(cuda::attributeMinor), int(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR));
  EXPECT_EQ(int(cuda::attributeClockRate), int(CU_DEVICE_ATTRIBUTE_CLOCK_RATE));
  EXPECT_EQ(int(cuda::attributeMaxSharedPerBlock), int(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK));
  EXPECT_EQ(int(cuda::attributeMaxSharedPerBlockOptin), int(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN));
  EXPECT_EQ(int(cuda::functionStaticShared), int(CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES));
  EXPECT_EQ(int(cuda::functionLocalBytes), int(CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES));
  EXPECT_EQ(int(cuda::functionRegisters), int(CU_FUNC_ATTRIBUTE_NUM_REGS));
  EXPECT_EQ(int(cuda::functionMaxDynamicShared), int(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES));
  EXPECT_EQ(int(cuda::mapElement16), int(CU_TENSOR_MAP_DATA_TYPE_UINT16));
  EXPECT_EQ(int(cuda::mapSwizzleNone), int(CU_TENSOR_MAP_SWIZZLE_NONE));
  EXPECT_EQ(int(cuda::mapSwizzle32), int(CU_TENSOR_MAP_SWIZZLE_32B));
  EXPECT_EQ(int(cuda::mapSwizzle64), int(CU_TENSOR_MAP_SWIZZLE_64B));
  EXPECT_EQ(int(cuda::mapSwizzle128), int(CU_TENSOR_MAP_SWIZZLE_128B));
  EXPECT_EQ(int(cuda::mapPromote128), int(CU_TENSOR_MAP_L2_PROMOTION_L2_128B));
  EXPECT_EQ(int(cuda::captureThreadLocal), int(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  EXPECT_EQ(int(cuda::launchCooperative), int(CU_LAUNCH_ATTRIBUTE_COOPERATIVE));
  EXPECT_EQ(int(cuda::launchCluster), int(CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION));
  EXPECT_EQ(int(cuda::launchProgrammaticSerialization), int(CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION));
}

TEST(CudaAbi, CublasLtValuesAgree) {
  EXPECT_EQ(int(cuda::ltFloat32), int(CUDA_R_32F));
  EXPECT_EQ(int(cuda::ltFloat16), int(CUDA_R_16F));
  EXPECT_EQ(int(cuda::ltBfloat16), int(CUDA_R_16BF));
  EXPECT_EQ(int(cuda::ltComputeFloat32), int(CUBLAS_COMPUTE_32F));
  EXPECT_EQ(int(cuda::ltComputeTf32), int(CUBLAS_COMPUTE_32F_FAST_TF32));
  EXPECT_EQ(int(cuda::ltPlain), int(CUBLAS_OP_N));
  EXPECT_EQ(int(cuda::ltTransposed), int(CUBLAS_OP_T));
  EXPECT_EQ(int(cuda::ltNoEpilogue), int(CUBLASLT_EPILOGUE_DEFAULT));
  EXPECT_EQ(int(cuda::ltBias), int(CUBLASLT_EPILOGUE_BIAS));
  EXPECT_EQ(int(cuda::ltGeluGradient), int(CUBLASLT_EPILOGUE_DGELU));
  EXPECT_EQ(int(cuda::ltDescTransposeA), int(CUBLASLT_MATMUL_DESC_TRANSA));
  EXPECT_EQ(int(cuda::ltDescTransposeB), int(CUBLASLT_MATMUL_DESC_TRANSB));
  EXPECT_EQ(int(cuda::ltDescEpilogue), int(CUBLASLT_MATMUL_DESC_EPILOGUE));
  EXPECT_EQ(int(cuda::ltDescBiasPointer), int(CUBLASLT_MATMUL_DESC_BIAS_POINTER));
  EXPECT_EQ(int(cuda::ltDescAuxPointer), int(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER));
  EXPECT_EQ(int(cuda::ltDescAuxLeading), int(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD));
  EXPECT_EQ(int(cuda::ltDescBiasType), int(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE));
  EXPECT_EQ(int(cuda::ltLayoutBatchCount), int(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT));
  EXPECT_EQ(int(cuda::ltLayoutBatchStride), int(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET));
  EXPECT_EQ(int(cuda::ltPreferWorkspaceBytes), int(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES));
  EXPECT_EQ(int(cuda::ltPreferReductions), int(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK));
  EXPECT_EQ(int(cuda::ltPreferAlignmentA), int(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES));
  EXPECT_EQ(int(cuda::ltPreferAlignmentB), int(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES));
  EXPECT_EQ(int(cuda::ltPreferAlignmentC), int(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES));
  EXPECT_EQ(int(cuda::ltPreferAlignmentD), int(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES));
  EXPECT_EQ(cuda::ltNotSupported, int(CUBLAS_STATUS_NOT_SUPPORTED));
  EXPECT_EQ(int(cuda::ltReduceInComputeType), int(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  EXPECT_EQ(int(cuda::ltReduceInOutputType), int(CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE));
}

} // namespace
