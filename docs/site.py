"""A hook of MkDocs: makes the site from README.md, CONTRIBUTING.md, CHANGELOG.md, docs/, and a page for every file that they link to. Doxygen
makes the API reference inside the page api/index.md, in the place of what is between its two <h1></h1>. Links to headers lead there, those
whose text is a name to that name. The site's search finds the names, too; WEIGHTS says which pages answer first."""
import html
import itertools
import json
import os
import re
import subprocess
import xml.etree.ElementTree as xml
from pathlib import Path
from posixpath import dirname, join, normpath, relpath

from mkdocs.structure.files import File
from pygments.lexers import find_lexer_class_for_filename

LINK = re.compile(r"(?:\[([^][]*))?\]\(([^):#\s]+)(#[^)\s]*)?\)")
UNSEARCHED = "---\nsearch: {exclude: true}\n---\n"
API = f"""{UNSEARCHED}<p><a href="namespaceheadroom.html">namespace headroom</a> · <a href="namespaceheadroom_1_1gpu.html">gpu</a> ·
<a href="namespaceheadroom_1_1presets.html">presets</a> · <a href="annotated.html">classes</a> · <a href="headroom_8h.html">headroom.h for C</a> ·
<a href="files.html">headers</a></p>
<h1></h1>
<h1>API</h1>

These pages are made from the comments of the headers. The [reference](../docs/reference.md) lists the names by task.

| to | module | begin with |
|---|---|---|
| train as torch.amp does, on one rank or many | `training/` | [`GradScaler`](../include/headroom/training/grad_scaler.hpp) |
| hold and adjust a loss scale | `policy/` | [`DynamicLossScale`](../include/headroom/policy/dynamic.hpp) |
| scale, unscale, check, clip, accumulate, cast | `ops/` | [`unscale`](../include/headroom/ops/unscale.hpp) |
| use your own structs and tensors | `tree/` | [`tensor_traits`](../include/headroom/tree/tensor_traits.hpp) |
| store 16 or 8 bits | `dtype/` | [`half`](../include/headroom/dtype/half.hpp) |
| scale fp8 and 4 bits | `quantize/` | [`TensorScales`](../include/headroom/quantize/tensor_scales.hpp) |
| keep the loss scale on a GPU | `gpu/` | [`gpu::Scaler`](../include/headroom/gpu/scaler.hpp) |
| learn what happened in a training | `observe/` | [`History`](../include/headroom/observe/history.hpp) |
| save a state as text | `state/` | [`to_text`](../include/headroom/state/text.hpp) |
| call headroom from C | `headroom.h` | [`headroom_grad_scaler_make`](../include/headroom.h) |

Public names are in the namespace `headroom`; those for CUDA in `headroom::gpu`, the rules of other systems in `headroom::presets`. Names in
`detail` namespaces are internal.

<h1></h1>
"""
# Of a word on these pages in the search; on others it is 1. A class is a page, whose words the theme counts 2.5 times.
WEIGHTS = {
    "docs/troubleshooting": 1.5,
    "docs/faq": 0.7,
    "api/[^#]*$": 0.25,
    "api/|index": 0.8,
    "docs/(notes|architecture|benchmarks|evidence|reference)|tests/|tools/|evidence/|examples/data|CHANGELOG|CONTRIBUTING": 0.2,
}


def page_of(path):
    """The page that shows a file or folder of the project."""
    if os.path.isdir(path):
        return f"{path}/README.md" if os.path.exists(f"{path}/README.md") else f"{path}/index.md"
    return path if path.endswith((".md", ".png")) else f"{path}.md"


def on_files(files, config):
    files.append(File.generated(config, "api/index.md", content=API))
    waiting = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", *map(str, Path("docs").rglob("*.md"))]
    while waiting:
        path = normpath(waiting.pop())
        page = page_of(path)
        if files.get_file_from_path(page) or path.startswith("include/") or not os.path.exists(path):
            continue
        if os.path.isfile(page):
            content = Path(page).read_bytes()
        elif os.path.isdir(path):
            names = subprocess.check_output(["git", "ls-files", "-z", "--", "."], cwd=path, text=True).strip("\0").split("\0")
            content = f"{UNSEARCHED}# {path}\n\n" + "".join(f"- [{name}]({name})\n" for name in sorted({name.split("/")[0] for name in names} - {"data"}))
        else:
            lexer = find_lexer_class_for_filename(path)
            content = f"{UNSEARCHED}# {path}\n\n``````{lexer.aliases[0] if lexer else 'text'}\n{Path(path).read_text()}\n``````\n"
        files.append(File.generated(config, page, content=content))
        if page.endswith(".md") and page != f"{path}.md":
            waiting += [join(dirname(page), link) for _, link, _ in LINK.findall(files.get_file_from_path(page).content_string)]
    return files


def on_page_markdown(markdown, page, config, files):
    uri = page.file.src_uri

    def lead_to_page(found):
        text, link, anchor = found.groups("")
        path = normpath(join(dirname(uri), link))
        if path.startswith("include/"):
            return f'<a href="{link}">{text}</a>'  # on_post_build finds the place
        return f"{found[0].partition('](')[0]}]({relpath(page_of(path), dirname(uri))}{anchor})" if os.path.exists(path) else found[0]

    if uri == "README.md":
        version = ".".join(re.findall("#define HEADROOM_VERSION_[A-Z]+ ([0-9]+)", Path("include/headroom/version.hpp").read_text()))
        markdown = markdown.replace("\n", f"\nVersion {version} · [changelog](CHANGELOG.md)\n", 1)
    return markdown if os.path.isfile(uri[:-3]) else LINK.sub(lead_to_page, markdown)


def on_page_content(content, **_):
    """Cells have the names of their columns, which site.css shows on a telephone."""

    def name_cells(table):
        names = [html.escape(html.unescape(re.sub("<.*?>", "", name))) for name in re.findall("<th.*?>(.*?)</th>", table[0])]
        cells = itertools.cycle(names)
        return re.sub("<td", lambda _: f'<td data-column="{next(cells)}"', table[0])

    return re.sub("<table>.*?</table>", name_cells, content, flags=re.DOTALL)


def on_post_build(config):
    site = Path(config.site_dir)
    make_api(site / "api")
    places = add_to_search(site / "search/search_index.json")
    for path in site.rglob("*.html"):
        up = os.path.relpath(site, path.parent) + "/"
        place = lambda link: f'href="{up}{places.get(html.unescape(link[3] or "")) or places[link[1]]}"{link[2]}'
        text = re.sub('href="[./]*(include/[^"]*)"(>(?:<code>([^<]*))?)', place, path.read_text())
        path.write_text(text.replace("https://unpkg.com/iframe-worker/shim", f"{up}site.js"))  # which the theme loads to search in files


def make_api(api):
    page = re.sub('<link rel="canonical".*?>', "", (api / "index.html").read_text())
    head, _, foot = re.sub("<title>.*?</title>", "<title>$title</title>", page).split("<h1></h1>")
    Path("build/api_head.html").write_text(head + '<div id="top">')  # Doxygen closes it
    Path("build/api_foot.html").write_text(foot)
    settings = f"HTML_HEADER=build/api_head.html\nHTML_FOOTER=build/api_foot.html\nHTML_OUTPUT={api}\nGENERATE_TAGFILE=build/api.tag\n"
    subprocess.run(["doxygen", "-"], input="@INCLUDE=docs/Doxyfile\n" + settings, text=True, check=True)
    (api / "index.html").write_text(page.replace("<h1></h1>", ""))
    for path in api.iterdir():
        if path.suffix != ".html" or re.match("classes|functions|globals|hierarchy|namespacemembers|namespaces", path.name):
            path.unlink()  # styles, scripts and indices, which no page uses
            continue
        text = re.sub('<div class="levels">.*?</div>|<span id="arr_.*?</span>|<img src="closed.*?>| onclick=".*?"', "", path.read_text())
        path.write_text(re.sub('<div class="title">(.*?)</div>', r"<h1>\1</h1>", text, flags=re.DOTALL))


def add_to_search(path):
    """Returns the places of headers, and of names without `headroom::`: of the first overload."""
    index, places = json.loads(path.read_text()), {}

    def add(name, place, arguments=""):
        short = name.removeprefix("headroom::")
        if places.setdefault(short, place) == place:
            title = name.split("::")[-1]
            index["docs"].append({"location": place, "title": title, "text": html.escape(name + arguments)})

    for scope in sorted(xml.parse("build/api.tag").iterfind("compound"), key=lambda scope: scope.get("kind") in ("file", "namespace")):
        name, kind, page = scope.findtext("name"), scope.get("kind"), scope.findtext("filename")
        if kind == "file":
            places[os.path.relpath(scope.findtext("path") + name)] = f"api/{page}"
        else:
            add(name, f"api/{page}")
        for member in scope.iterfind("member"):
            inner = member.findtext("name")
            if kind in ("file", "namespace") and member.findtext("anchorfile") == page:
                add(inner if kind == "file" else f"{name}::{inner}", f"api/{page}#{member.findtext('anchor')}", member.findtext("arglist"))
    for doc in index["docs"]:
        doc["boost"] = next((weight for pages, weight in WEIGHTS.items() if re.match(pages, doc["location"])), 1)
    path.write_text(json.dumps(index))
    return places
