#!/bin/sh
# Builds what needs libtorch's headers, for one torch:
#   build_for_torch.sh OUT CXX11_ABI INCLUDES FILE...
# OUT: an existing folder. CXX11_ABI: 1, or 0 for a torch with the old std::string. INCLUDES:
# folders of headers of torch, CUDA and NCCL, joined by colons. FILE: those of torch_sources.txt.
# The sources of a file are one unit, since parsing libtorch's headers takes most of the time. A
# library is linked with names in place of torch's libraries, and what is undefined is found in
# the process; a program needs those beside torch's headers, since a linker binds what it leaves
# undefined to nothing. NDEBUG as in every release of torch: without it its headers check members
# that torch never sets.
set -eu
out=$1 abi=$2 includes=$3
shift 3
root=$(cd "$(dirname "$0")/../.." && pwd)
compiler=${CXX:-c++}
work=$out/work
mkdir -p "$work/shim/rendezvous"

add() { printf '"%s"\n' "$@" >>"$work/options"; }
add -std=c++20 -O1 -fPIC -fvisibility=hidden -w -D_GLIBCXX_USE_CXX11_ABI="$abi" \
  -DNDEBUG -DUSE_C10D_NCCL -DUSE_C10D_GLOO -DFMT_HEADER_ONLY "-I$root" "-I$work" \
  "-ffile-prefix-map=$root=prism"
for folder in "$root/third_party" "$root/shim/rendezvous/gloo_headers"; do
  add -isystem "$folder"
done
torch_libraries=$work
IFS=:
for folder in $includes; do
  add -isystem "$folder" "-ffile-prefix-map=$folder=include"
  [ ! -f "$folder/../lib/libtorch_cpu.so" ] || torch_libraries=$folder/../lib
  [ ! -d "$folder/torch/csrc/api/include" ] || add -isystem "$folder/torch/csrc/api/include"
done
unset IFS

for library in torch_cpu torch_cuda c10_cuda c10; do
  $compiler -shared -nostdlib -x c++ /dev/null "-Wl,-soname,lib$library.so" -o "$work/lib$library.so"
done
sh "$root/shim/rendezvous/absent_ranks_source.sh" >"$work/shim/rendezvous/absent_ranks_source.h"

jobs=
for file in "$@"; do
  grep "^$file " "$root/launch/process/torch_sources.txt" |
    sed 's/.* \(.*\)/#include "\1"/' >"$work/$file.cc"
  case $file in
    *.so) kind="-shared -Wl,-Bsymbolic -Wl,--unresolved-symbols=ignore-all" libraries=$work ;;
    *) kind="-pie -Wl,--allow-shlib-undefined" libraries=$torch_libraries ;;
  esac
  $compiler "@$work/options" $kind "$work/$file.cc" "-L$libraries" -Wl,--no-as-needed \
    -ltorch_cpu -ltorch_cuda -lc10_cuda -lc10 -Wl,-s -o "$out/$file" &
  jobs="$jobs $!"
done
for job in $jobs; do
  wait "$job"
done
rm -r "$work"
