// The site's search runs in a Worker, which browsers refuse to pages that are opened from a file. There, an empty frame
// does the work: it has the page's own origin, runs the same script, and exchanges the same messages.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe"), script = document.createElement("script");
      frame.hidden = true;
      document.body.append(frame);
      this.inside = frame.contentWindow;
      this.inside.postMessage = data => this.dispatchEvent(new MessageEvent("message", {data}));
      script.src = url;
      this.ready = new Promise(loaded => script.addEventListener("load", loaded));
      frame.contentDocument.body.append(script);
    }

    postMessage(data) {
      this.ready.then(() => this.inside.dispatchEvent(new MessageEvent("message", {data})));
    }

    terminate() {
      this.inside.frameElement.remove();
    }
  };
}
