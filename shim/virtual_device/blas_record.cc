#include "shim/virtual_device/blas_record.h"

#include <string>

#include "graph/program/op.h"
#include "shim/session.h"
#include "shim/virtual_device/issue.h"

namespace prism::shim {
namespace {

DataType DataTypeOf(cudaDataType type) {
  switch (type) {
    case CUDA_R_16F:
      return DataType::kFloat16;
    case CUDA_R_16BF:
      return DataType::kBfloat16;
    case CUDA_R_32F:
      return DataType::kFloat32;
    case CUDA_R_64F:
      return DataType::kFloat64;
    case CUDA_R_8F_E4M3:
    case CUDA_R_8F_E5M2:
      return DataType::kFloat8;
    case CUDA_R_8I:
      return DataType::kInt8;
    case CUDA_R_8U:
      return DataType::kUint8;
    case CUDA_R_32I:
      return DataType::kInt32;
    default:
      return DataType::kUnknown;
  }
}

}  // namespace

size_t ScalarBytes(cudaDataType type) {
  switch (type) {
    case CUDA_R_16F:
    case CUDA_R_16BF:
      return 2;
    case CUDA_R_64F:
    case CUDA_C_32F:
      return 8;
    case CUDA_C_64F:
      return 16;
    default:
      return 4;
  }
}

void EmitProduct(const Product& product, cudaStream_t stream) {
  if (product.m <= 0 || product.n <= 0 || product.batch <= 0) {
    return;
  }
  channel::Record record = {};
  record.kind = channel::RecordKind::kMatmul;
  channel::MatmulBody& body = record.matmul;
  const bool tf32 = product.tf32 && product.input == CUDA_R_32F;
  body.name =
      DefineOnce(channel::Table::kKernelName, std::string(product.name) + (tf32 ? " (tf32)" : ""));
  body.m = product.m;
  body.n = product.n;
  body.k = product.k;
  body.batch = product.batch;
  body.input_dtype = static_cast<uint8_t>(DataTypeOf(product.input));
  body.output_dtype = static_cast<uint8_t>(DataTypeOf(product.output));
  body.transpose_a = product.transpose_a ? 1 : 0;
  body.transpose_b = product.transpose_b ? 1 : 0;
  IssueOp(stream, record);
}

void EmitLibraryCall(std::string_view name, cudaStream_t stream) {
  channel::Record record = {};
  record.kind = channel::RecordKind::kKernel;
  record.kernel.name = DefineOnce(channel::Table::kKernelName, name);
  IssueOp(stream, record);
}

}  // namespace prism::shim
