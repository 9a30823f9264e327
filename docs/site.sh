#!/usr/bin/env bash
# Makes the site build/site, as docs/site.py says. Needs PyPI. Fails if a link leads nowhere.
#   bash docs/site.sh && xdg-open build/site/index.html
#   bash docs/site.sh --check    also reads it in a headless Chromium: tests/site/check.py
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source cmake/install_packages.sh
install_packages doxygen perl git python3-venv ${1:+chromium}
rm -rf build/site build/site-sources
mkdir -p build/site-sources && cp docs/site.css docs/site.js build/site-sources
export REPOSITORY=${GITHUB_REPOSITORY:+$GITHUB_SERVER_URL/$GITHUB_REPOSITORY}
[[ -x build/site-venv/bin/mkdocs ]] || python3 -m venv build/site-venv
build/site-venv/bin/pip install --quiet mkdocs-material==9.8.2 ${1:+playwright==1.65.2}
NO_MKDOCS_2_WARNING=1 build/site-venv/bin/mkdocs build --strict --config-file docs/mkdocs.yml
[[ ${1:-} != --check ]] || build/site-venv/bin/python tests/site/check.py build/site
