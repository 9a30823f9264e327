#!/usr/bin/env bash
# Makes the site build/site from README.md, CONTRIBUTING.md, CHANGELOG.md, docs/, the comments of the headers, and the sources that the
# documents link to. Needs PyPI for MkDocs. Fails if a link leads nowhere, or if a public entity of a header has no comment.
#   bash docs/site.sh && xdg-open build/site/index.html
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source cmake/install_packages.sh
install_packages doxygen perl python3-venv
sources=build/site-sources
rm -rf "$sources" build/site
mkdir -p "$sources/docs" "$sources/api"

cp CONTRIBUTING.md CHANGELOG.md "$sources"
version=$(sed -n 's/^#define HEADROOM_VERSION_[A-Z]* //p' include/headroom/version.hpp | paste -sd.)
export REPOSITORY=${GITHUB_REPOSITORY:+$GITHUB_SERVER_URL/$GITHUB_REPOSITORY}
sed "1a Version $version · [changelog](CHANGELOG.md)${REPOSITORY:+ · [repository]($REPOSITORY)}" README.md >"$sources/README.md"
cp -r docs/*.md docs/*.png docs/notes "$sources/docs"
cp docs/site.css docs/site.js "$sources"
cat >"$sources/api/index.md" <<'END'
---
search: {exclude: true}
---
<p><a href="namespaceheadroom.html">namespace headroom</a> · <a href="namespaceheadroom_1_1presets.html">presets</a> ·
<a href="annotated.html">classes</a> · <a href="headroom_8h.html">headroom.h for C</a> · <a href="files.html">headers</a></p>
<h1></h1>
END
# A link to a source leads to a page that shows it.
find "$sources" -name '*.md' -exec sed -i -E 's,\]\(((\.\./)*(evidence/|examples|include)[^)#]*\.[a-z0-9]+)\),](\1.md),g; s,\.md\.md\),.md),g' {} +
find "$sources" -name '*.md' -exec sed -i -E 's,\]\(((\.\./)*(evidence|examples)(/[a-z_]+)?)\),](\1/index.md),g' {} +

# page SOURCE: a page for it.
page() {
  mkdir -p "$sources/${1%/*}"
  case $1 in
    *.md) cp "$1" "$sources/$1" ;;
    *) printf -- '---\nsearch: {exclude: true}\n---\n# %s\n\n``````%s\n%s\n``````\n' "$1" "$(language "$1")" "$(<"$1")" >"$sources/$1.md" ;;
  esac
}
language() {
  case $1 in *.[ch]pp | *.cu | *.cuh) echo cpp ;; *.py) echo python ;; *.f90) echo fortran ;; *.rs) echo rust ;; *.gp) echo gnuplot ;; *.txt) echo cmake ;; *) echo "${1##*.}" ;; esac
}
while read -r source; do page "$source"; done < <(
  find evidence examples tests/golden/README.md -type f -not -path '*/data/*.*' && echo examples/data/README.md
  grep -rhoE 'include/[a-z0-9_/]*\.[a-z]+\.md' "$sources" | sed 's/\.md$//' | sort -u
)
# The contents of evidence/ and examples/ and of their folders.
while read -r folder; do
  [[ ! -e $folder/README.md ]] || continue
  printf '# %s\n\n' "${folder#"$sources"/}" >"$folder/index.md"
  (cd "$folder" && find . -name '*.md' -not -path ./index.md -printf '%P\n' | sort | sed -E 's,(.*)\.md$,- [\1](&),; s,index\],],') >>"$folder/index.md"
done < <(find "$sources"/{evidence,examples} -depth -type d)

[[ -x build/site-venv/bin/mkdocs ]] || python3 -m venv build/site-venv
build/site-venv/bin/pip install --quiet mkdocs-material==9.8.2
NO_MKDOCS_2_WARNING=1 build/site-venv/bin/mkdocs build --strict --config-file docs/mkdocs.yml
# The theme would load this script, which it needs for the search in files, from unpkg.com.
find build/site -name '*.html' | while read -r page; do
  up=$(realpath --relative-to="${page%/*}" build/site)
  sed -i "s,https://unpkg.com/iframe-worker/shim,$up/site.js," "$page"
done
echo "build/site/index.html"
