"""check.py SITE: loads every page of the site in Chromium. Fails on a link or a place on a page that is missing, an error, a request to another
host, a page or a table that is wider than a telephone, code below 13 px there, a page without a link to it, and if the first result of a
search is not the page that answers: of QUESTIONS from a server, of the last one also from files."""
import functools
import http.server
import sys
import threading
from pathlib import Path
from urllib.parse import quote, unquote, urldefrag

from playwright.sync_api import sync_playwright

# What people type: pages that answer
QUESTIONS = {
    "scale collapses": "docs/troubleshooting",
    "overflow every step": "docs/troubleshooting",
    "loss is nan": "docs/troubleshooting",
    "skipped steps": "docs/troubleshooting",
    "distributed": "docs/distributed",
    "ddp": "docs/distributed",
    "mpi": "docs/distributed",
    "autocast": "docs/systems",
    "gradscaler": "docs/systems|api/classheadroom_1_1GradScaler|index",
    "tensorflow": "docs/systems",
    "deepspeed": "docs/systems",
    "pytorch": "docs/systems|index",
    "openmp": "docs/recipes",
    "threads": "docs/recipes",
    "checkpoint": "docs/recipes",
    "resume": "docs/recipes",
    "gradient clipping": "docs/recipes",
    "gradient accumulation": "docs/recipes",
    "license": "index",
    "licence": "index",
    "fp8": "docs/quantize",
    "python": "docs/c",
    "eigen": "docs/installing",
    "install": "docs/installing",
    "cmake": "docs/installing",
    "pip": "docs/installing",
    "hysteresis": "docs/systems|docs/choosing-a-policy",
    "bf16": "docs/choosing-a-policy",
    "choose policy": "docs/choosing-a-policy",
    "gpu": "docs/gpu",
    "cuda": "docs/gpu",
    "examples": "examples/index",
    "find_nonfinite": "api/namespaceheadroom",
    "DynamicLossScale": "api/namespaceheadroom",
    "SpikeGuard": "api/classheadroom_1_1SpikeGuard",
    "unscale_and_clip": "api/namespaceheadroom",
}

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
        if page.evaluate("[...document.querySelectorAll('.md-content table')].some(e => e.getBoundingClientRect().right > innerWidth || e.scrollWidth > e.clientWidth + 1)"):
            faults.add(f"{url}: a table is wider than the window")
        if page.evaluate("[...document.querySelectorAll('.md-content :is(code, pre)')].some(e => parseFloat(getComputedStyle(e).fontSize) < 13)"):
            faults.add(f"{url}: code is smaller than 13 px")
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
    *_, last = QUESTIONS
    for place, questions in ((root, QUESTIONS), (site.as_uri() + "/", [last])):
        for question in questions:
            page.goto("about:blank")
            page.goto(f"{place}index.html?q={quote(question)}")
            first = page.locator(".md-search-result__link").first.get_attribute("href").removeprefix(place).partition(".html")[0]
            first in QUESTIONS[question].split("|") or faults.add(f"{place}: the first result for {question} is {first}")
print(*sorted(faults), f"{len(faults)} faults", sep="\n")
sys.exit(bool(faults))
