// Browsers refuse workers of pages that are read from files. There the search runs in a frame.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.append(frame);
      const inner = frame.contentWindow;
      inner.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      const script = inner.document.createElement("script");
      const loaded = new Promise((resolve) => script.addEventListener("load", resolve));
      this.postMessage = (data) => loaded.then(() => inner.dispatchEvent(new inner.MessageEvent("message", { data })));
      script.src = url;
      inner.document.head.append(script);
    }
  };
}
