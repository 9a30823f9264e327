"""check.py SITE PICTURES: loads every page of the site in Chromium and follows every link. Fails on a link that leads nowhere, an error
on a page, a request to another host, a page that is wider than a telephone, a page without a link to it, and if the first result of a
search for `unscale`, from a server or from files, is not the API. Writes pictures of some pages at two widths, light and dark."""
import functools
import http.server
import pathlib
import sys
import threading
from urllib.parse import unquote, urldefrag, urlsplit

from playwright.sync_api import sync_playwright

site, pictures = (pathlib.Path(argument).resolve() for argument in sys.argv[1:])
pictured = ["index", "docs/reference", "docs/benchmarks", "docs/systems", "docs/quantize", "api/classheadroom_1_1GradScaler"]
faults = []


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=site))
threading.Thread(target=server.serve_forever, daemon=True).start()
root = f"http://127.0.0.1:{server.server_port}/"


def watch(page):
    def request(sent):
        url = urlsplit(sent.url)
        if url.scheme not in ("data", "blob", "file") and url.hostname != "127.0.0.1":
            faults.append(f"{page.url}: requests {sent.url}")

    page.on("request", request)
    page.on("pageerror", lambda error: faults.append(f"{page.url}: {error}"))
    page.on("response", lambda got: got.status >= 400 and faults.append(f"{page.url}: {got.status} for {got.url}"))
    return page


def crawl(page):
    """The URLs of all pages that links lead to."""
    waiting, links, targets = [root + "index.html"], {}, {}
    while waiting:
        url = waiting.pop()
        if url in targets or not url.endswith((".html", "/")):
            continue
        if page.goto(url).status != 200:
            faults.append(f"{url} is missing; linked from {links.get(url)}")
        targets[url] = set(page.evaluate("[...document.querySelectorAll('[id],a[name]')].flatMap(e => [e.id, e.name])"))
        if page.evaluate("document.documentElement.scrollWidth > innerWidth + 1"):
            faults.append(f"{url} is wider than {page.viewport_size['width']} pixels")
        for link in page.evaluate("[...document.querySelectorAll('a[href]')].map(a => a.href)"):
            if link.startswith(root):
                links.setdefault(link, url)
                waiting.append(urldefrag(link).url)
    for link, url in links.items():
        target, fragment = urldefrag(link)
        if fragment and target in targets and unquote(fragment) not in targets[target]:
            faults.append(f"{url}: {link} has no such place")
    return {unquote(url[len(root) :]) for url in targets}


def search(page, url):
    page.goto(url)
    page.locator("label.md-header__button[for=__search]").click()
    page.locator(".md-search__input").press_sequentially("unscale")
    results = page.locator(".md-search-result__link")
    results.first.wait_for()
    if "api/namespaceheadroom.html" not in results.first.get_attribute("href"):
        faults.append(f"{url}: the API is not the first result for unscale")
    return results.count()


with sync_playwright() as playwright:
    browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
    narrow = {"width": 390, "height": 844}
    pages = crawl(watch(browser.new_page(viewport=narrow)))
    for path in site.rglob("*.html"):
        if path.relative_to(site).as_posix() not in pages | {"404.html"}:
            faults.append(f"{path}: no link leads to it")
    found = [search(watch(browser.new_page(viewport=narrow)), url) for url in (root + "index.html", (site / "index.html").as_uri())]
    pictures.mkdir(parents=True, exist_ok=True)
    for scheme in ("light", "dark"):
        for width in (1280, 390):
            page = watch(browser.new_page(viewport={"width": width, "height": 844}, color_scheme=scheme))
            for name in pictured:
                page.goto(f"{root}{name}.html")
                page.screenshot(path=pictures / f"{name.replace('/', '_')}_{width}_{scheme}.png")
    browser.close()
print(*sorted(set(faults)), sep="\n")
print(f"{len(pages)} pages, {found} places with unscale, {len(set(faults))} faults")
sys.exit(bool(faults))
