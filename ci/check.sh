#!/usr/bin/env bash
# Everything that must hold before a change lands, in a fresh environment (.venv-ci): formatting,
# lint, types, then the README's test command with PyTorch as the oracle. Oclgrind is installed
# where this may be done; elsewhere its tests say why they are skipped.
set -euo pipefail
cd "$(dirname "$0")/.."

if ! command -v oclgrind >/dev/null && command -v apt-get >/dev/null && [[ $(id -u) == 0 ]]; then
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends oclgrind
fi

rm -rf .venv-ci
in_venv() { make --no-print-directory VENV=.venv-ci TORCH=1 "$@"; }
in_venv environment
# Beside the tests, which leave cores idle now and then.
in_venv lint >.venv-ci/lint.log 2>&1 &
lint=$!
# What is marked slow (Oclgrind, examples, whole trainings) would take longer than CI has; it is part of
# a plain `make test`.
tests=0
in_venv test ARGS="-m 'not perf and not gpu and not slow'" || tests=$?
linted=0
wait "$lint" || linted=$?
cat .venv-ci/lint.log
exit $((tests ? tests : linted))
