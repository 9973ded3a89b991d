# libprism_device.so: what is preloaded where a program runs on a real GPU. The virtual device's calls
# are in it under other names and keep the records (twins.h); each name of the replaced libraries is
# a function that forwards it (forward.h, pass.S); NCCL stays ours.
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
          ${prism_nccl_refusals} ${CMAKE_CURRENT_BINARY_DIR}/nccl_facade ${prism_nccl}
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
target_link_options(prism_device PRIVATE -static-libstdc++ -static-libgcc
  -Wl,--version-script=${CMAKE_CURRENT_SOURCE_DIR}/exports.map -Wl,-z,defs -Wl,-z,now
  -Wl,-Bsymbolic-functions -Wl,--exclude-libs,ALL)
set_target_properties(prism_device PROPERTIES LINK_DEPENDS
  ${CMAKE_CURRENT_SOURCE_DIR}/exports.map)

# Facades of what programs open by name: the driver, which is forwarded, and NCCL, which never is.
set(prism_device_preload libprism_device.so)
foreach(soname libcuda.so.1 libnccl.so.2)
  string(MAKE_C_IDENTIFIER device_facade_${soname} target)
  prism_add_facade(${target} ${soname} prism_device prism-cuda)
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
  add_library(echo_device SHARED EXCLUDE_FROM_ALL
    ${prism_echoes} ${PROJECT_SOURCE_DIR}/tests/support/echo.S)
  set_target_properties(echo_device PROPERTIES
    LINKER_LANGUAGE CXX LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
endif()
