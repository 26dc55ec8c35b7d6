#!/bin/sh
# Records what kcheck prints, as input of the tests: `sh scripts/record.sh` in editors/vscode, with kcheck on the PATH.
set -u
recorded=$(cd "$(dirname "$0")/../test/recorded" && pwd)
cd "$recorded/../../../.." || exit 2
export KCHECK_STORE=off NO_COLOR=1
refused=$(mktemp -d)
trap 'rm -r "$refused"' EXIT

kcheck run specs/buggy/gemv_tail.yaml --cases 3 --device cpu --format json > "$recorded/wrong_values.json"
kcheck run specs/buggy/matmul_missing_barrier.yaml --cases 2 --device cpu --format json > "$recorded/race.json"
kcheck run specs/buggy/matmul_missing_barrier.yaml --cases 2 --device cpu --format concise > "$recorded/race.txt"
kcheck run specs/buggy/matmul_missing_barrier.yaml --cases 0 --device cpu --sanitize racecheck=warn --format concise > "$recorded/warning.txt"
kcheck run specs/gemv.yaml --cases 0 --device cpu --format json > "$recorded/passed.json"
kcheck cases specs/buggy/gemv_tail.yaml --cases 3 --format json > "$recorded/cases.json"

# A spec with an unknown key, in a project of its own.
mkdir "$refused/specs" && touch "$refused/kcheck.yaml" && cd "$refused" || exit 2
printf 'kcheck: 1\nop: broken\nkernal: kernels/k.py:k\n' > specs/broken.yaml
kcheck run specs/broken.yaml --format json > "$recorded/refused.json"
kcheck validate specs/broken.yaml > "$recorded/refused.txt" 2>&1
exit 0
