"""A headless Chromium, driven over its own debugging pipe: no package needed, no port opened."""

import base64
import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
_FLAGS = (
    "--headless=shell",
    "--remote-debugging-pipe",
    "--no-sandbox",
    "--no-zygote",
    "--no-first-run",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
)


def find_chromium():
    """Return the browser named by UNBIN_CHROMIUM, on the PATH, or of playwright; else None."""
    named = os.environ.get("UNBIN_CHROMIUM")
    if named:
        return named
    on_path = next((found for name in NAMES if (found := shutil.which(name))), None)
    if on_path:
        return on_path
    cache = Path(os.environ.get("PLAYWRIGHT_BROWSERS_PATH", Path.home() / ".cache/ms-playwright"))
    for pattern in ("chromium-*/chrome-linux*/chrome", "chromium_headless*/chrome-*/*headless*"):
        for found in sorted(cache.glob(pattern)):
            if os.access(found, os.X_OK):
                return str(found)
    return None


class Browser:
    """One tab of a browser; a context manager."""

    def __init__(self, path, *flags):
        self.path, self.flags, self.events, self.last = path, flags, [], 0

    def __enter__(self):
        read_by_it, self.write = os.pipe()
        self.read, written_by_it = os.pipe()
        self.home = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        # it reads from descriptor 3 and writes to 4
        shell = f'exec "$0" "$@" 3<&{read_by_it} 4>&{written_by_it}'
        self.process = subprocess.Popen(
            ["bash", "-c", shell, self.path, *_FLAGS, *self.flags,
             f"--user-data-dir={self.home.name}", "about:blank"],
            pass_fds=(read_by_it, written_by_it),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(read_by_it)
        os.close(written_by_it)
        self.buffer, self.session = b"", None
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        attached = self.send("Target.attachToTarget", targetId=target, flatten=True)
        self.session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.send(f"{domain}.enable")
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        os.close(self.read)
        os.close(self.write)
        self.home.cleanup()

    def send(self, method, **params):
        """Send a command and return its answer; what happens meanwhile is kept."""
        self.last += 1
        message = {"id": self.last, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == self.last:
                assert "error" not in answer, answer
                return answer["result"]
            self.events.append(answer)

    def open(self, path, *, width):
        """Open a file in a window of a width, and wait until it is there."""
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=900,
                  deviceScaleFactor=1, mobile=False)  # fmt: skip
        self.events.clear()
        self.send("Page.navigate", url=path.as_uri())
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self.events.append(self._receive())

    def evaluate(self, expression):
        """Return the value of an expression on the page."""
        found = self.send("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def settle(self):
        """Wait until the page has been laid out twice: what depends on scrolling comes second."""
        wait = "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
        self.send("Runtime.evaluate", expression=wait, awaitPromise=True)

    def pdf(self):
        """Return the page as printed."""
        return base64.b64decode(self.send("Page.printToPDF", printBackground=True)["data"])

    def named(self, *methods):
        """Return the parameters of the events of some names since the page was opened."""
        return [event["params"] for event in self.events if event.get("method") in methods]

    def _receive(self):
        while b"\0" not in self.buffer:
            part = os.read(self.read, 1 << 16)
            assert part, "the browser went away"
            self.buffer += part
        message, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(message)
