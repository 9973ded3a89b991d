# libprism_device.so: what is preloaded where a program runs on a real GPU. The virtual device's calls
# are in it under other names and keep the records (twins.h); each name of the replaced libraries is
# a function that forwards it (forward.h, pass.S); NCCL stays ours.
set(PRISM_CUDA_STUBS "/usr/local/cuda/lib64/stubs" CACHE PATH
    "folder of the toolkit's libcuda.so, which lists the driver's names")
# library=its "not supported" code=where its names are read. Codes: cudaErrorNotSupported and
# CUDA_ERROR_NOT_SUPPORTED 801, CUBLAS_STATUS_NOT_SUPPORTED 15, CUDNN_STATUS_NOT_SUPPORTED 3000,
# ncclInvalidUsage 5, CUSPARSE_STATUS_NOT_SUPPORTED 10 (cuSPARSELt too),
# CUSOLVER_STATUS_NOT_SUPPORTED 9, CUFFT_NOT_SUPPORTED 16, CURAND_STATUS_ARCH_MISMATCH 204 (cuRAND
# has no other), CU_FILE_PLATFORM_NOT_SUPPORTED 5007, CUPTI_ERROR_NOT_SUPPORTED 27,
# NVSHMEMX_ERROR_NOT_SUPPORTED 3.
set(prism_replaced
  libcublas.so.13=15=${PRISM_NVIDIA_DIR}/cu13/lib/libcublas.so.13
  libcublasLt.so.13=15=${PRISM_NVIDIA_DIR}/cu13/lib/libcublasLt.so.13
  libcuda.so.1=801=${PRISM_CUDA_STUBS}/libcuda.so
  libcudart.so.13=801=${PRISM_NVIDIA_DIR}/cu13/lib/libcudart.so.13
  libcudnn.so.9=3000=${PRISM_NVIDIA_DIR}/cudnn/lib/libcudnn.so.9
  libcufft.so.12=16=${PRISM_NVIDIA_DIR}/cu13/lib/libcufft.so.12
  libcufile.so.0=5007=${PRISM_NVIDIA_DIR}/cu13/lib/libcufile.so.0
  libcupti.so.13=27=${PRISM_NVIDIA_DIR}/cu13/lib/libcupti.so.13
  libcurand.so.10=204=${PRISM_NVIDIA_DIR}/cu13/lib/libcurand.so.10
  libcusolver.so.12=9=${PRISM_NVIDIA_DIR}/cu13/lib/libcusolver.so.12
  libcusparse.so.12=10=${PRISM_NVIDIA_DIR}/cu13/lib/libcusparse.so.12
  libcusparseLt.so.0=10=${PRISM_NVIDIA_DIR}/cusparselt/lib/libcusparseLt.so.0
  libnccl.so.2=5=${PRISM_NVIDIA_DIR}/nccl/lib/libnccl.so.2
  libnvshmem_host.so.3=3=${PRISM_NVIDIA_DIR}/nvshmem/lib/libnvshmem_host.so.3)


set(prism_passed ${prism_replaced})
list(FILTER prism_passed INCLUDE REGEX "^lib(cublas|cublasLt|cuda|cudart|cudnn|cufft|cusolver|cusparse)[.]")
set(prism_passes ${CMAKE_CURRENT_BINARY_DIR}/passes.S)
add_custom_command(OUTPUT ${prism_passes}
  COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/generate_stubs.py passes ${prism_passes}
          ${prism_passed}
  DEPENDS generate_stubs.py virtual_device/library_calls.txt VERBATIM)

# Names of NCCL that the stand-in lacks refuse, as on the virtual device.
set(prism_nccl ${prism_replaced})
list(FILTER prism_nccl INCLUDE REGEX "^libnccl[.]")
set(prism_nccl_refusals ${CMAKE_CURRENT_BINARY_DIR}/nccl_refusals.S)
add_custom_command(OUTPUT ${prism_nccl_refusals}
  COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/generate_stubs.py stubs
          ${prism_nccl_refusals} ${prism_nccl}
  DEPENDS generate_stubs.py VERBATIM)

set(prism_renames ${CMAKE_CURRENT_BINARY_DIR}/twin_names.txt)
set(prism_twin ${CMAKE_CURRENT_BINARY_DIR}/twin.o)
add_custom_command(OUTPUT ${prism_twin}
  COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/generate_stubs.py renames
          ${prism_renames} $<TARGET_OBJECTS:prism_cuda_objects>
  COMMAND ${CMAKE_LINKER} -r -o ${prism_twin}.plain $<TARGET_OBJECTS:prism_cuda_objects>
  COMMAND ${CMAKE_OBJCOPY} --redefine-syms=${prism_renames} ${prism_twin}.plain ${prism_twin}
  DEPENDS generate_stubs.py prism_cuda_objects $<TARGET_OBJECTS:prism_cuda_objects>
  COMMAND_EXPAND_LISTS VERBATIM)

add_library(prism_device SHARED
  gpu/device_reduction.cc
  gpu/forward_blas.cc
  gpu/forward_dnn.cc
  gpu/forward_driver.cc
  gpu/forward_library.cc
  gpu/forward_runtime.cc
  gpu/held_values.cc
  gpu/library_call.S
  gpu/holds.cc
  gpu/kernel_times.cc
  gpu/last_calls.cc
  gpu/pass.S
  gpu/real_library.cc
  gpu/real_memory.cc
  gpu/staging.cc
  gpu/twins.cc
  ${prism_passes}
  ${prism_nccl_refusals}
  ${prism_twin}
  $<TARGET_OBJECTS:prism_process_objects>)
set_source_files_properties(${prism_twin} PROPERTIES EXTERNAL_OBJECT TRUE GENERATED TRUE)
target_link_libraries(prism_device PRIVATE prism_options prism_hold)
target_include_directories(prism_device SYSTEM PRIVATE ${prism_nvidia_includes})
target_compile_options(prism_device PRIVATE
  $<$<COMPILE_LANGUAGE:CXX>:-fno-exceptions -fno-rtti -ftls-model=initial-exec>)
prism_standalone(prism_device)
target_link_options(prism_device PRIVATE
  -Wl,--version-script=${CMAKE_CURRENT_SOURCE_DIR}/exports.map -Wl,-z,defs -Wl,-z,now
  -Wl,-Bsymbolic-functions -Wl,--exclude-libs,ALL)
set_target_properties(prism_device PROPERTIES LINK_DEPENDS
  ${CMAKE_CURRENT_SOURCE_DIR}/exports.map)

# Facades of what programs open by name: the driver, which is forwarded, and NCCL, which never is.
set(prism_device_preload libprism_device.so)
file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/facade.c "typedef int prism_facade;\n")
foreach(soname libcuda.so.1 libnccl.so.2)
  string(MAKE_C_IDENTIFIER device_facade_${soname} target)
  add_library(${target} SHARED ${CMAKE_CURRENT_BINARY_DIR}/facade.c)
  target_link_libraries(${target} PRIVATE prism_device)
  target_link_options(${target} PRIVATE -nostdlib -Wl,--no-as-needed -Wl,-soname,${soname})
  set_target_properties(${target} PROPERTIES
    PREFIX "" OUTPUT_NAME ${soname} SUFFIX "" NO_SONAME ON
    LIBRARY_OUTPUT_DIRECTORY ${CMAKE_LIBRARY_OUTPUT_DIRECTORY}/prism-cuda
    BUILD_RPATH_USE_ORIGIN ON)
  list(APPEND prism_device_facades ${target})
  list(APPEND prism_device_preload prism-cuda/${soname})
endforeach()
add_custom_target(prism_device_facades ALL DEPENDS ${prism_device_facades})
list(JOIN prism_device_preload ":" prism_device_preload_text)
file(WRITE ${CMAKE_LIBRARY_OUTPUT_DIRECTORY}/prism-cuda/preload.txt
  "${prism_device_preload_text}\n")

# For tests: a device below that tells what it is called with.
if(PRISM_BUILD_TESTS)
  set(prism_echoes ${CMAKE_CURRENT_BINARY_DIR}/echoes.S)
  add_custom_command(OUTPUT ${prism_echoes}
    COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/generate_stubs.py echoes
            ${prism_echoes} ${prism_passed}
    DEPENDS generate_stubs.py VERBATIM)
  # The virtual device as a library that tests take for NVIDIA's has all names in itself.
  set(prism_stubs ${CMAKE_CURRENT_BINARY_DIR}/unimplemented.S)
  add_custom_command(OUTPUT ${prism_stubs}
    COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/generate_stubs.py stubs ${prism_stubs}
            ${prism_replaced}
    DEPENDS generate_stubs.py virtual_device/library_calls.txt VERBATIM)
  add_library(prism_refusals OBJECT EXCLUDE_FROM_ALL ${prism_stubs})
  add_library(echo_device SHARED EXCLUDE_FROM_ALL
    ${prism_echoes} ${PROJECT_SOURCE_DIR}/tests/support/echo.S)
  set_target_properties(echo_device PROPERTIES
    LINKER_LANGUAGE CXX LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
endif()
