#!/usr/bin/env bash
# How much of headroom could be wrong without a test noticing? Compiles the tests against headers with mutants in them, a `<` that
# is a `<=`, a call left out, and runs each mutant against the tests that reach it, in the build directory build/mutate. Fails if
# fewer than 89 % of them are noticed: some change nothing that a test could see. Installs what is missing on Debian 12.
#   bash tests/mutate/run.sh                            about 400 mutants of all rooms: 20 CPU minutes
#   bash tests/mutate/run.sh --number 5000 state tree   up to 5000 of these rooms, against these rooms' tests only
#   bash tests/mutate/run.sh --survivors                those again that survived last time, after tests have been added
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
source cmake/install_packages.sh
install_packages g++ cmake ninja-build catch2 libeigen3-dev libxtensor-dev nlohmann-json3-dev python3-clang-14
install_packages libtorch-dev || echo "Going on without libtorch: what needs it is skipped."
exec /usr/bin/python3 -B tests/mutate/mutate.py "$@"
