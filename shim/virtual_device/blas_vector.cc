// Vector calls of cuBLAS: each emits one kKernel record with the call's name.
#pragma GCC visibility push(default)
#include <cublas_v2.h>
#pragma GCC visibility pop

#include "shim/virtual_device/blas_handle.h"

using prism::shim::Run;
using prism::shim::RunScalar;

extern "C" {

cublasStatus_t cublasSaxpy_v2(cublasHandle_t handle,
                              int /*n*/,
                              const float* /*alpha*/,
                              const float* /*x*/,
                              int /*incx*/,
                              float* /*y*/,
                              int /*incy*/) {
  return Run(handle, "cublasSaxpy");
}

cublasStatus_t cublasSscal_v2(
    cublasHandle_t handle, int /*n*/, const float* /*alpha*/, float* /*x*/, int /*incx*/) {
  return Run(handle, "cublasSscal");
}

cublasStatus_t cublasScopy_v2(cublasHandle_t handle,
                              int /*n*/,
                              const float* /*x*/,
                              int /*incx*/,
                              float* /*y*/,
                              int /*incy*/) {
  return Run(handle, "cublasScopy");
}

cublasStatus_t cublasSdot_v2(cublasHandle_t handle,
                             int /*n*/,
                             const float* /*x*/,
                             int /*incx*/,
                             const float* /*y*/,
                             int /*incy*/,
                             float* result) {
  return RunScalar(handle, "cublasSdot", result, sizeof(float));
}

cublasStatus_t cublasSnrm2_v2(
    cublasHandle_t handle, int /*n*/, const float* /*x*/, int /*incx*/, float* result) {
  return RunScalar(handle, "cublasSnrm2", result, sizeof(float));
}

cublasStatus_t cublasSasum_v2(
    cublasHandle_t handle, int /*n*/, const float* /*x*/, int /*incx*/, float* result) {
  return RunScalar(handle, "cublasSasum", result, sizeof(float));
}

cublasStatus_t cublasSger_v2(cublasHandle_t handle,
                             int /*m*/,
                             int /*n*/,
                             const float* /*alpha*/,
                             const float* /*x*/,
                             int /*incx*/,
                             const float* /*y*/,
                             int /*incy*/,
                             float* /*A*/,
                             int /*lda*/) {
  return Run(handle, "cublasSger");
}

cublasStatus_t cublasDaxpy_v2(cublasHandle_t handle,
                              int /*n*/,
                              const double* /*alpha*/,
                              const double* /*x*/,
                              int /*incx*/,
                              double* /*y*/,
                              int /*incy*/) {
  return Run(handle, "cublasDaxpy");
}

cublasStatus_t cublasDscal_v2(
    cublasHandle_t handle, int /*n*/, const double* /*alpha*/, double* /*x*/, int /*incx*/) {
  return Run(handle, "cublasDscal");
}

cublasStatus_t cublasDcopy_v2(cublasHandle_t handle,
                              int /*n*/,
                              const double* /*x*/,
                              int /*incx*/,
                              double* /*y*/,
                              int /*incy*/) {
  return Run(handle, "cublasDcopy");
}

cublasStatus_t cublasDdot_v2(cublasHandle_t handle,
                             int /*n*/,
                             const double* /*x*/,
                             int /*incx*/,
                             const double* /*y*/,
                             int /*incy*/,
                             double* result) {
  return RunScalar(handle, "cublasDdot", result, sizeof(double));
}

cublasStatus_t cublasDnrm2_v2(
    cublasHandle_t handle, int /*n*/, const double* /*x*/, int /*incx*/, double* result) {
  return RunScalar(handle, "cublasDnrm2", result, sizeof(double));
}

cublasStatus_t cublasDasum_v2(
    cublasHandle_t handle, int /*n*/, const double* /*x*/, int /*incx*/, double* result) {
  return RunScalar(handle, "cublasDasum", result, sizeof(double));
}

cublasStatus_t cublasDger_v2(cublasHandle_t handle,
                             int /*m*/,
                             int /*n*/,
                             const double* /*alpha*/,
                             const double* /*x*/,
                             int /*incx*/,
                             const double* /*y*/,
                             int /*incy*/,
                             double* /*A*/,
                             int /*lda*/) {
  return Run(handle, "cublasDger");
}

cublasStatus_t cublasDotEx(cublasHandle_t handle,
                           int /*n*/,
                           const void* /*x*/,
                           cudaDataType /*xType*/,
                           int /*incx*/,
                           const void* /*y*/,
                           cudaDataType /*yType*/,
                           int /*incy*/,
                           void* result,
                           cudaDataType resultType,
                           cudaDataType /*executionType*/) {
  return RunScalar(handle, "cublasDotEx", result, prism::shim::ScalarBytes(resultType));
}

}  // extern "C"
