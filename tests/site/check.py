"""check.py SITE: loads every page of the site in Chromium. Fails on a link or a place on a page that is missing, an error, a request to another
host, a page that is wider than a telephone, a page without a link to it, and if the first result of a search for `unscale`, from a server
or from files, is not the API."""
import functools
import http.server
import sys
import threading
from pathlib import Path
from urllib.parse import unquote, urldefrag

from playwright.sync_api import sync_playwright

site, faults = Path(sys.argv[1]).resolve(), set()
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(http.server.SimpleHTTPRequestHandler, directory=site))
server.RequestHandlerClass.func.log_message = lambda *_: None
threading.Thread(target=server.serve_forever, daemon=True).start()
root = f"http://127.0.0.1:{server.server_port}/"


def read(page):
    places, links, linked = set(), {}, {root + "404.html"}
    for path in site.rglob("*.html"):
        url = root + path.relative_to(site).as_posix()
        page.goto(url)
        places |= {url} | {f"{url}#{place}" for place in page.evaluate("[...document.querySelectorAll('[id],a[name]')].flatMap(e => [e.id, e.name])")}
        if page.evaluate("document.documentElement.scrollWidth > innerWidth + 1"):
            faults.add(f"{url} is wider than the window")
        found = [unquote(link) for link in page.evaluate("[...document.querySelectorAll('a[href]')].map(a => a.href)") if link.startswith(root)]
        links.update((link, url) for link in found)
        linked |= {urldefrag(link).url for link in found} - {url}
    for link, url in links.items():
        file, fragment = urldefrag(link)
        if not (site / file[len(root) :]).exists() or fragment and f"{file}#{fragment}" not in places:
            faults.add(f"{url}: there is no {link}")
    faults.update(f"no link leads to {url}" for url in places - linked if "#" not in url)


with sync_playwright() as playwright:
    page = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"]).new_page(viewport={"width": 390, "height": 844})
    page.on("request", lambda sent: sent.url.startswith((root, "data:", "blob:", "file:")) or faults.add(f"{page.url}: requests {sent.url}"))
    page.on("pageerror", lambda error: faults.add(f"{page.url}: {error}"))
    page.on("response", lambda got: got.status < 400 or faults.add(f"{page.url}: {got.status} for {got.url}"))
    read(page)
    for url in (root + "index.html", (site / "index.html").as_uri()):
        page.goto(url)
        page.locator("label.md-header__button[for=__search]").click()
        page.locator(".md-search__input").press_sequentially("unscale")
        first = page.locator(".md-search-result__link").first.get_attribute("href")
        "api/namespaceheadroom.html" in first or faults.add(f"{url}: the first result for unscale is {first}")
print(*sorted(faults), f"{len(faults)} faults", sep="\n")
sys.exit(bool(faults))
