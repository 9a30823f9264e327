#!/usr/bin/env bash
# How much of headroom could be wrong without a test that notices? Compiles the tests with headers that contain mutants, such as
# a `<=` in place of `<` or a missing call, and runs the tests that reach each mutant, in the build directory build/mutate.
# Fails if fewer than 89 % of the mutants are noticed: some change nothing that a test can see. Installs what is missing on
# Debian 12.
#   bash tests/mutate/run.sh                            about 400 mutants of all modules: 20 CPU minutes
#   bash tests/mutate/run.sh --number 5000 state tree   up to 5000 of these modules, with the tests of these modules only
#   bash tests/mutate/run.sh ops/run.hpp                mutants of one header, with the tests of its module only
#   bash tests/mutate/run.sh --survivors                the mutants that survived last time, after you have added tests
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
source cmake/install_packages.sh
install_packages g++ cmake ninja-build catch2 libeigen3-dev libxtensor-dev nlohmann-json3-dev python3-clang-14
install_packages libtorch-dev || echo "Going on without libtorch: what needs it is skipped."
exec /usr/bin/python3 -B tests/mutate/mutate.py "$@"
