"""A hook of MkDocs: the site's search finds the classes and functions of the API reference, too."""
import html
import json
import pathlib
import xml.etree.ElementTree as xml


def on_post_build(config):
    path = pathlib.Path(config.site_dir, "search/search_index.json")
    index, found = json.loads(path.read_text()), {}
    for scope in xml.parse("build/api.tag").iterfind("compound"):
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
