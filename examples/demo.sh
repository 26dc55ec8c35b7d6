#!/bin/sh
# The main job twice: on a correct kernel, and on the tiled matmul that loops over gridDim.x tiles instead of
# ceil(K / TPB). allclose on a square matrix accepts both; kcheck does not.
#
# usage: demo.sh COMMAND...   the kcheck to run, e.g. `python -m kcheck`
set -u
cd "$(dirname "$0")/.." || exit 3

printf '\n$ kcheck run specs/matmul.yaml --cases 12\n\n'
"$@" run specs/matmul.yaml --cases 12
clean=$?

printf '\n$ kcheck run specs/buggy/matmul_griddim.yaml --cases 12\n\n'
"$@" run specs/buggy/matmul_griddim.yaml --cases 12
buggy=$?

echo
if [ "$clean" -eq 0 ] && [ "$buggy" -eq 1 ]; then
    echo "The correct kernel passed (exit 0), the bug was caught (exit 1). Next: kcheck run specs/"
    exit 0
fi
echo "This is not what the demo should show: exit codes $clean and $buggy, expected 0 and 1." >&2
exit 3
