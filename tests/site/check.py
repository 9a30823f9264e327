"""check.py SITE: loads every page of the site in Chromium. Fails on a link or a place on a page that is missing, an error, a request to another
host, a page or a table that is wider than a telephone, code below 13 px there, a page without a link to it, and if the first result of a
search is not the page that answers (ANSWERS), from a server or, for the last question, from files."""
import functools
import http.server
import sys
import threading
from pathlib import Path
from urllib.parse import quote, unquote, urldefrag

from playwright.sync_api import TimeoutError, sync_playwright

# Pages, and the searches that they answer
ANSWERS = {
    "docs/troubleshooting": ["scale collapses", "overflow every step", "nan"],
    "docs/distributed": ["distributed", "ddp", "mpi"],
    "docs/systems": ["autocast", "tensorflow", "deepspeed", "gradscaler", "hysteresis"],
    "docs/recipes": ["openmp", "checkpoint", "resume", "gradient clipping", "gradient accumulation"],
    "index": ["license", "licence"],
    "docs/quantize": ["fp8"],
    "docs/c": ["python"],
    "docs/installing": ["install", "cmake", "eigen", "pip"],
    "docs/choosing-a-policy": ["choose policy", "bf16"],
    "docs/gpu": ["gpu", "cuda"],
    "docs/faq": ["faq"],
    "examples/index": ["examples"],
    "api/classheadroom_1_1SpikeGuard": ["SpikeGuard"],
    "api/namespaceheadroom": ["DynamicLossScale", "unscale_and_clip"],
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
        for fault, selector, condition in (
            ("a table is wider than the window", "table", "e.getBoundingClientRect().right > innerWidth || e.scrollWidth > e.clientWidth + 1"),
            ("code is smaller than 13 px", ":is(code, pre)", "parseFloat(getComputedStyle(e).fontSize) < 13"),
        ):
            if page.evaluate(f"[...document.querySelectorAll('.md-content {selector}')].some(e => {condition})"):
                faults.add(f"{url}: {fault}")
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
    pairs = [(question, answer) for answer, questions in ANSWERS.items() for question in questions]
    for place, questions in ((root, pairs), (site.as_uri() + "/", pairs[-1:])):
        for question, answer in questions:
            page.goto("about:blank")
            page.goto(f"{place}index.html?q={quote(question)}")
            try:
                link = page.locator(".md-search-result__link").first.get_attribute("href")
            except TimeoutError:
                link = "none"
            first = link.removeprefix(place).partition(".html")[0]
            first == answer or faults.add(f"{place}: the first result for {question} is {first}")
print(*sorted(faults), f"{len(faults)} faults", sep="\n")
sys.exit(bool(faults))
