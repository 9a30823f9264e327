"""A hook of MkDocs: makes the API reference with Doxygen inside the page api/index.md, in the place of its <h1></h1>, so that all pages
look alike. The site's search finds the classes and functions of the API, too."""
import html
import json
import pathlib
import re
import subprocess
import xml.etree.ElementTree as xml


def on_post_build(config):
    site, work = pathlib.Path(config.site_dir), pathlib.Path("build")
    make_pages(site / "api", work)
    add_to_search(site / "search/search_index.json", work / "api.tag")


def make_pages(api, work):
    head, foot = (api / "index.html").read_text().split("<h1></h1>")
    head = re.sub("<title>.*?</title>", "<title>$title</title>", re.sub('<link rel="canonical".*?>', "", head))
    head += '<div id="top">'  # Doxygen closes it
    (work / "api_head.html").write_text(head)
    (work / "api_foot.html").write_text(foot)
    settings = f"HTML_HEADER={work}/api_head.html\nHTML_FOOTER={work}/api_foot.html\nHTML_OUTPUT={api}\nGENERATE_TAGFILE={work}/api.tag\n"
    subprocess.run(["doxygen", "-"], input="@INCLUDE=docs/Doxyfile\n" + settings, text=True, check=True)
    for path in api.iterdir():
        if path.suffix != ".html" or re.match("classes|functions|globals|hierarchy|namespacemembers|namespaces", path.name):
            path.unlink()  # styles, scripts and indices, which no page uses
            continue
        text = re.sub('<div class="levels">.*?</div>|<span id="arr_.*?</span>|<img src="closed.*?>| onclick=".*?"', "", path.read_text())
        path.write_text(re.sub('<div class="title">(.*?)</div>', r"<h1>\1</h1>", text, flags=re.DOTALL))


def add_to_search(path, tags):
    index, found = json.loads(path.read_text()), {}
    for scope in xml.parse(tags).iterfind("compound"):
        if scope.get("kind") == "file":
            continue
        scope_name, page = scope.findtext("name"), "api/" + scope.findtext("filename")
        found[page, scope_name.split("::")[-1]] = page, scope_name
        for member in scope.iterfind("member") if scope.get("kind") == "namespace" else ():
            name = member.findtext("name")
            text = f"{scope_name}::{name}{member.findtext('arglist')}"
            found.setdefault((page, name), (f"{page}#{member.findtext('anchor')}", text))  # the first overload
    for (_, name), (url, text) in found.items():  # a word finds the names that begin with it, and the shortest is the nearest
        boost = 20 * (8 / len(name)) ** 8
        index["docs"].append({"location": url, "title": name, "text": html.escape(text), "boost": boost})
    path.write_text(json.dumps(index))
