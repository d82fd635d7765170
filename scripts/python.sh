#!/usr/bin/env bash
# Makes build/python-venv: the Python module on the libraries of a build folder (`python.sh [build/release]`; without one it
# builds them there), Flower, TensorBoard, MLflow and pyarrow for the tests. With nothing changed it does nothing and needs no network.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/phase.sh"

build=${1:-build/release}
venv=build/python-venv
flower=$(sed -n 's/.*"\(flwr[^"]*\)".*/\1/p' flower/pyproject.toml) # named there, once
stamp=$venv/fedgrab.stamp
newer() { find "$build/src" python include flower/pyproject.toml scripts/python.sh -newer "$stamp" \( -name '*.a' -o -path 'python/*' -o -path 'include/*' -o -path "flower/*" -o -path "scripts/*" \) -type f -print -quit 2>/dev/null; }
if [[ -e $stamp && -z $(newer) ]]; then exit 0; fi

options=()
if [[ -e $build/src/experiment/libfedgrab_experiment.a ]]; then
  options=("--config-settings=cmake.define.fedgrab_DIR=$(realpath "$build")")
fi
[[ -x $venv/bin/python ]] || phase venv python3 -m venv "$venv"
touch "$venv/started" # what changes while this runs is newer
phase packages "$venv/bin/pip" install "$flower" scikit-build-core pybind11 tensorboard mlflow-skinny pyarrow
# For a test that is skipped without them: they have no build for every machine.
(phase onnx "$venv/bin/pip" install --only-binary :all: onnx onnxruntime) || echo "python.onnx will be skipped"
# Not isolated: pybind11 in a new folder each time would have everything compiled again.
phase module "$venv/bin/pip" install --no-build-isolation --force-reinstall --no-deps --config-settings=build-dir="$PWD/build/python" "${options[@]}" ./python
"$venv/bin/python" -c "import fedgrab; fedgrab.Balancer"
mv "$venv/started" "$stamp"
