// The part of CUPTI with which a profiler can say why it shows no kernels: subscribing is refused
// by name (generated stub), its error has a name.
#include <cupti_result.h>

extern "C" {

CUptiResult cuptiGetResultString(CUptiResult result, const char** text) {
  *text = result == CUPTI_SUCCESS ? "CUPTI_SUCCESS" : "CUPTI_ERROR_NOT_SUPPORTED";
  return CUPTI_SUCCESS;
}

CUptiResult cuptiGetErrorMessage(CUptiResult result, const char** text) {
  *text = result == CUPTI_SUCCESS ? "no error" : "not supported by the virtual device";
  return CUPTI_SUCCESS;
}
}
