#!/usr/bin/env bash
# Compiles and links the CUDA build on a machine without a GPU, with the oldest CMake that CMakeLists.txt allows and with
# the newest on PyPI: `cuda_check.sh [TARGET…]`, everything by default. Nothing is run. PyTorch, the CUDA compiler and both
# versions of CMake come from PyPI (3 GB) into build/cuda-check, or into the folder that FEDGRAB_CUDA_CHECK names.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/phase.sh"

pytorch=2.11.0 # PyPI has it for CUDA 13.0
cuda=13.0.2
cmake=$(sed -n 's/^cmake_minimum_required(VERSION \(.*\))/\1/p' CMakeLists.txt)
folder=${FEDGRAB_CUDA_CHECK:-$PWD/build/cuda-check}
pip=("$folder/venv/bin/pip" --disable-pip-version-check install --no-cache-dir)

link_packages() {
  local packages library name
  packages=$("$folder/venv/bin/python" -c "import sysconfig; print(sysconfig.get_path('purelib'))")
  ln -sfn "$packages" "$folder/cmake-newest"
  ln -sfn "$packages/torch" "$folder/torch"
  ln -sfn "$packages/nvidia/cu${cuda%%.*}" "$folder/cuda"
  # CMake and the linker look for lib64 and for libraries without a version in their name.
  ln -sfn lib "$folder/cuda/lib64"
  for library in "$folder"/cuda/lib/lib*.so.*; do
    name=${library##*/}
    ln -sf "$name" "$folder/cuda/lib/${name%%.so.*}.so"
  done
}

check() { # oldest|newest TARGET…
  local cmake=$folder/cmake-$1/cmake/data/bin/cmake tree=build/cuda-$1 name=$1 version
  shift
  version=$("$cmake" --version | sed -n '1s/.* //p')
  if (
    phase "configure-$name" env CUDACXX="$folder/cuda/bin/nvcc" "$cmake" -G Ninja -S . -B "$tree" -DCMAKE_BUILD_TYPE=Release \
      -DCMAKE_PREFIX_PATH="$folder/torch" -DCUDA_TOOLKIT_ROOT_DIR="$folder/cuda" -DCUDAToolkit_ROOT="$folder/cuda" \
      -DTORCH_CUDA_ARCH_LIST=9.0 -DFEDGRAB_CUDA=ON -DFEDGRAB_WERROR=ON
    phase "build-$name" "$cmake" --build "$tree" --parallel "$(fitting_jobs)" --target "$@"
  ); then
    results+=("CMake $version: the CUDA build compiles and links")
  else
    results+=("CMake $version: the CUDA build fails")
    failed=1
  fi
}

scripts/setup.sh test
mkdir -p "$folder"
if ! cmp -s scripts/cuda_check.sh "$folder/installed"; then
  python3 -m venv "$folder/venv"
  phase packages "${pip[@]}" "torch==$pytorch" "cuda-toolkit[nvcc,crt,nvvm,cccl,cudart,profiler]==$cuda"
  phase cmake-oldest "${pip[@]}" --upgrade --target "$folder/cmake-oldest" "cmake==$cmake.*"
  link_packages
  cp scripts/cuda_check.sh "$folder/installed"
fi
# Without network: the newest of the last time.
(phase cmake-newest "${pip[@]}" --upgrade cmake) || [[ -e $folder/cmake-newest/cmake ]]

failed=0 results=()
if (($# == 0)); then set -- all; fi
check oldest "$@"
check newest "$@"
printf '%s\n' "${results[@]}"
exit "$failed"
