#!/usr/bin/env bash
# Makes the site and reads it in a headless Chromium. Needs PyPI. The pictures are build/site-pictures/*.png.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
source cmake/install_packages.sh
install_packages chromium
bash docs/site.sh
build/site-venv/bin/pip install --quiet playwright==1.65.2
build/site-venv/bin/python tests/site/check.py build/site build/site-pictures
