#!/usr/bin/env bash
# Installs the Debian packages that this machine lacks: `setup.sh [test|lint|fuzz]`. docs/dependencies.md says what each is for.
# With nothing missing it does nothing and needs no network.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/phase.sh"

tools=(c++:g++ cmake:cmake ninja:ninja-build ccache:ccache node:nodejs npm:npm) # command:package, for what may also come from elsewhere
libraries=(libcli11-dev libtomlplusplus-dev nlohmann-json3-dev libfmt-dev libjpeg-dev libpng-dev zlib1g-dev libcurl4-openssl-dev libssl-dev libopenmpi-dev)
libraries+=(libtiff-dev libwebp-dev libdcmtk-dev) # image formats: without one of them, fedgrab is built without that format
case "${1:-}" in
  "") ;;
  test) tools+=(clang-format:clang-format python3:python3 chromium:chromium mpirun:openmpi-bin openssl:openssl ssh-keygen:openssh-client dcm2pnm:dcmtk) libraries+=(libgtest-dev python3-venv python3-dev python3-torch) ;;
  lint) tools+=(clang-format:clang-format clang-tidy:clang-tidy) ;;
  fuzz) tools+=(clang++:clang llvm-symbolizer:llvm python3:python3) libraries+=(libclang-rt-14-dev) ;;
  *) echo "usage: scripts/setup.sh [test|lint|fuzz]" >&2 && exit 2 ;;
esac
if [[ -e .git ]]; then tools+=(git:git); fi # every run records the revision that made it

# LibTorch from CMAKE_PREFIX_PATH or python3 goes before Debian's, as in cmake/libtorch.cmake, and brings its own BLAS.
has_own_libtorch() {
  local IFS=: prefix
  for prefix in ${CMAKE_PREFIX_PATH:-} $(python3 -c "import torch; print(torch.utils.cmake_prefix_path)" 2>/dev/null); do
    if [[ -e $prefix/Torch/TorchConfig.cmake || -e $prefix/share/cmake/Torch/TorchConfig.cmake ]]; then return 0; fi
  done
  return 1
}
# libtorch-dev is content with any BLAS and gets the reference one, 60 times slower than OpenBLAS.
if ! has_own_libtorch; then libraries+=(libtorch-dev libopenblas0-openmp); fi

if ! command -v dpkg-query >/dev/null; then
  echo "setup: not a Debian system; needed are what Debian calls ${tools[*]#*:} ${libraries[*]}" >&2
  exit 0 # CMake names what it does not find
fi

missing=()
for tool in "${tools[@]}"; do
  command -v "${tool%%:*}" >/dev/null || missing+=("${tool#*:}")
done
for library in "${libraries[@]}"; do
  [[ $(dpkg-query -W -f '${db:Status-Status}' "$library" 2>/dev/null) == installed ]] || missing+=("$library")
done
if ((${#missing[@]} == 0)); then exit 0; fi

if ((EUID != 0)); then
  echo "setup: packages are missing: sudo apt-get install --no-install-recommends ${missing[*]}" >&2
  exit 1
fi
echo "installing ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
phase update apt-get update
phase install apt-get install -y --no-install-recommends "${missing[@]}"
