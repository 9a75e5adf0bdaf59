"""A real browser without a window: Debian's Chromium, driven through its debugging pipe."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Any

CHROMIUM = shutil.which("chromium")
_OPTIONS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--remote-debugging-pipe"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--disable-dev-shm-usage", "--hide-scrollbars", "about:blank"),
)


class Browser:
    """One page of a browser; use it in a `with`."""

    def __init__(self, profile: Path) -> None:
        self.requests: list[str] = []
        """The addresses of everything that the page fetched."""
        self.problems: list[str] = []
        """What the browser wrote to its console, and exceptions of scripts."""
        self._number = 0
        self._rest = b""
        self._session: str | None = None
        to_read, self._write = os.pipe()
        self._read, to_write = os.pipe()
        command = f'exec "$0" "$@" 3<&{to_read} 4>&{to_write}'
        words = ["bash", "-c", command, CHROMIUM or "chromium", f"--user-data-dir={profile}"]
        self._process = subprocess.Popen(
            [*words, *_OPTIONS],
            pass_fds=(to_read, to_write),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_read)
        os.close(to_write)
        self._loaded = False
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Network", "Log", "Runtime"):
            self.call(f"{domain}.enable")

    def __enter__(self) -> Browser:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.terminate()
        self._process.wait()
        os.close(self._read)
        os.close(self._write)

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Call a method of the debugging protocol and return its result."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while (found := self._next()).get("id") != self._number:
            self._note(found)
        assert "error" not in found, found["error"]
        result: dict[str, Any] = found["result"]
        return result

    def open(self, address: str, *, width: int, dark: bool = False) -> None:
        """Load a page in a window of this width, and wait until all of it is there."""
        feature = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[feature])
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=900,
            deviceScaleFactor=1,
            mobile=False,
        )
        self._loaded = False
        self.call("Page.navigate", url=address)
        while not self._loaded:
            self._note(self._next())

    def value(self, expression: str) -> Any:
        """The value of a JavaScript expression in the page."""
        found = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            received = os.read(self._read, 1 << 16)
            assert received, "the browser has ended"
            self._rest += received
        message, _, self._rest = self._rest.partition(b"\0")
        found: dict[str, Any] = json.loads(message)
        return found

    def _note(self, message: dict[str, Any]) -> None:
        """Take what the browser reports by itself."""
        given = message.get("params", {})
        match message.get("method"):
            case "Page.loadEventFired":
                self._loaded = True
            case "Network.requestWillBeSent":
                self.requests.append(given["request"]["url"])
            case "Log.entryAdded":
                self.problems.append(given["entry"]["text"])
            case "Runtime.exceptionThrown" | "Runtime.consoleAPICalled":
                self.problems.append(json.dumps(given))
