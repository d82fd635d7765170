#!/usr/bin/env bash
# Builds the documentation site into build/site; a dead link is an error. MkDocs and its theme come from PyPI into build/site-venv.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/phase.sh"

venv=build/site-venv
if ! cmp -s scripts/site.sh "$venv/installed"; then
  rm -rf "$venv"
  phase site-packages sh -c "python3 -m venv $venv && $venv/bin/pip --disable-pip-version-check install \
    mkdocs==1.6.1 mkdocs-material==9.8.1 'mkdocstrings[python]==1.0.8' latex2mathml==3.81.1"
  cp scripts/site.sh "$venv/installed"
fi
phase site env NO_MKDOCS_2_WARNING=1 "$venv/bin/mkdocs" build
echo "build/site/index.html"
