"""A headless Chromium, driven over its debugging pipe: standard library only, and no port that another test could take."""
import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

PROGRAM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
PATIENCE = 60  # seconds until something that must happen counts as never happening
# A tab that it takes for hidden gets no frames, and the page would wait for them for ever.
AWAKE = ["--disable-background-timer-throttling", "--disable-backgrounding-occluded-windows", "--disable-renderer-backgrounding"]


def _high(descriptor):
    """Out of the way of 3 and 4, where the browser expects the pipe."""
    moved = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 10)
    os.close(descriptor)
    return moved


class Browser:
    def __init__(self):
        (theirs_in, ours_out), (ours_in, theirs_out) = (map(_high, os.pipe()) for _ in range(2))
        self._profile = tempfile.mkdtemp(prefix="fedgrab-browser-")
        # No sandbox: the pages are ours, and containers often allow none.
        command = [PROGRAM, "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run", "--disable-background-networking",
                   *AWAKE, "--remote-debugging-pipe", f"--user-data-dir={self._profile}", "about:blank"]
        self._process = subprocess.Popen(["bash", "-c", f'exec "$0" "$@" 3<&{theirs_in} 4>&{theirs_out}', *command],
                                         pass_fds=(theirs_in, theirs_out), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(theirs_in)
        os.close(theirs_out)
        self._out, self._in = os.fdopen(ours_out, "wb", buffering=0), os.fdopen(ours_in, "rb", buffering=0)
        self._pending, self._number, self.events = b"", 0, []

    def call(self, method, session=None, **parameters):
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters} | ({"sessionId": session} if session else {})
        self._out.write(json.dumps(message).encode() + b"\0")
        while True:
            answer = self._read()
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]
            self.events.append(answer)

    def _read(self):
        while b"\0" not in self._pending:
            if not select.select([self._in], [], [], 2 * PATIENCE)[0]:
                raise RuntimeError("the browser does not answer")
            more = self._in.read(1 << 16)
            if not more:
                raise RuntimeError("the browser is gone")
            self._pending += more
        message, _, self._pending = self._pending.partition(b"\0")
        return json.loads(message)

    def close(self):
        self._process.terminate()
        self._process.wait()
        self._out.close()
        self._in.close()
        shutil.rmtree(self._profile, ignore_errors=True)


class Page:
    """A page in a tab of its own, and what it complained about."""

    def __init__(self, browser, address, width=1280, height=900, dark=False):
        self._browser = browser
        target = browser.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = browser.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        self.call("Page.navigate", url=address)
        self.wait_for("document.readyState === 'complete' && document.querySelector('#summary') !== null")

    def call(self, method, **parameters):
        return self._browser.call(method, session=self._session, **parameters)

    def run(self, script):
        result = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True, userGesture=True)
        if "exceptionDetails" in result:
            raise RuntimeError(f"{script}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def wait_for(self, condition):
        end = time.monotonic() + PATIENCE
        while not self.run(condition):
            if time.monotonic() > end:
                raise AssertionError(f"never came true: {condition}")
            time.sleep(0.05)

    def draw_everything(self):
        """Charts draw when they come into view: walks down the page, and back."""
        self.call("Page.bringToFront")  # a tab in the background draws nothing
        self.run("""(async () => {
          const next = () => new Promise((done) => { requestAnimationFrame(() => setTimeout(done, 30)); setTimeout(done, 1000); });
          for (let y = 0; y < document.body.scrollHeight; y += 400) { scrollTo(0, y); await next(); }
          scrollTo(0, 0); await next();
        })()""")

    def drag(self, element, start, end):
        """Presses the mouse in an element, given in JavaScript, and moves it; both places are shares of its width and height."""
        self.call("Page.bringToFront")
        left, top, width, height = self.run(f"""(() => {{
          const element = {element};
          element.scrollIntoView({{ block: 'center', behavior: 'instant' }});
          const box = element.getBoundingClientRect();
          return [box.left, box.top, box.width, box.height];
        }})()""")
        for kind, held, share in (("mouseMoved", 0, 0), ("mousePressed", 1, 0), ("mouseMoved", 1, 0.3), ("mouseMoved", 1, 0.6), ("mouseMoved", 1, 1), ("mouseReleased", 0, 1)):
            x, y = (a + share * (b - a) for a, b in zip(start, end))
            self.call("Input.dispatchMouseEvent", type=kind, x=left + x * width, y=top + y * height, buttons=held, clickCount=1,
                      button="none" if kind == "mouseMoved" and not held else "left")

    def save_downloads_in(self, folder):
        self._browser.call("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(folder))

    def complaints(self):
        """Console errors, exceptions, and whatever it asked of a network."""
        own = [event for event in self._browser.events if event.get("sessionId") == self._session]
        found = [event["params"] for event in own if event["method"] in ("Runtime.exceptionThrown", "Log.entryAdded")]
        found += [event["params"] for event in own if event["method"] == "Runtime.consoleAPICalled" and event["params"]["type"] in ("error", "warning")]
        return found

    def requests(self):
        return [event["params"]["request"]["url"] for event in self._browser.events
                if event.get("sessionId") == self._session and event["method"] == "Network.requestWillBeSent"]

    def screenshot(self, path, whole=True):
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        area = {"clip": {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}, "captureBeyondViewport": True} if whole else {}
        picture = base64.b64decode(self.call("Page.captureScreenshot", format="png", **area)["data"])
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(picture)
        return picture
