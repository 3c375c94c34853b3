"""A page in headless Chromium, over the DevTools protocol on two pipes, which needs no package."""

from __future__ import annotations

import fcntl
import json
import os
import select
import shutil
import subprocess
import time
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
REQUESTS, ANSWERS = 3, 4  # the file descriptors that Chromium reads from and writes to
TIMEOUT = 60.0  # seconds; an answer takes milliseconds, but a start on a busy machine can take long


def find_chromium() -> str | None:
    """The path of the first such program, or None."""
    return next(filter(None, map(shutil.which, NAMES)), None)


class Page:
    """One page. `errors` are what its scripts threw or logged and what it could not load."""

    def __init__(self, program: str, profile: Path) -> None:
        requests, self._send_end = os.pipe()
        self._receive_end, answers = os.pipe()

        def as_expected_by_chromium() -> None:
            # Out of the way first: one of the two may have the other's number.
            far_requests, far_answers = (fcntl.fcntl(end, fcntl.F_DUPFD, 64) for end in (requests, answers))
            os.dup2(far_requests, REQUESTS)
            os.dup2(far_answers, ANSWERS)

        flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe", "--no-first-run"]
        self._process = subprocess.Popen(
            [program, *flags, "--disable-dev-shm-usage", f"--user-data-dir={profile}"],
            pass_fds=(REQUESTS, ANSWERS),
            preexec_fn=as_expected_by_chromium,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(requests)
        os.close(answers)
        self.errors: list[str] = []
        self._received = b""
        self._sent = 0
        self._session: dict[str, str] = {}
        target = self.command("Target.createTarget", url="about:blank")["targetId"]
        self._session = {"sessionId": self.command("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]}
        for domain in ("Page", "Runtime", "Log"):
            self.command(f"{domain}.enable")

    def open(self, url: str, width: int, height: int) -> None:
        """Loads the page in a window of that size, in CSS pixels."""
        self.resize(width, height)
        self.command("Page.navigate", url=url)
        while self._message().get("method") != "Page.loadEventFired":
            pass

    def resize(self, width: int, height: int) -> None:
        self.command(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False
        )

    def evaluate(self, expression: str) -> object:
        """The value of a JavaScript expression, through JSON. Raises RuntimeError where it throws."""
        answer = self.command("Runtime.evaluate", expression=expression, returnByValue=True)
        thrown = answer.get("exceptionDetails")
        if thrown:
            raise RuntimeError(f"{expression}: {thrown.get('exception', thrown).get('description', thrown['text'])}")
        return answer["result"].get("value")

    def move_to(self, element: str) -> tuple[float, float]:
        """Moves the mouse to the middle of an element, given by a JavaScript expression, and returns where that is."""
        x, y = self.evaluate(
            f"(() => {{ const it = {element}; it.scrollIntoView({{ block: 'center', inline: 'center' }});"
            " const at = it.getBoundingClientRect();"
            " return [(at.left + at.right) / 2, (at.top + at.bottom) / 2]; })()"
        )
        self._mouse("mouseMoved", x, y)
        return x, y

    def click(self, element: str) -> None:
        x, y = self.move_to(element)
        for kind in ("mousePressed", "mouseReleased"):
            self._mouse(kind, x, y, button="left", clickCount=1)

    def press(self, key: str) -> None:
        for kind in ("keyDown", "keyUp"):
            self.command("Input.dispatchKeyEvent", type=kind, key=key)

    def command(self, method: str, **parameters: object) -> dict:
        """The result of one DevTools command. Raises RuntimeError where that refuses it."""
        self._sent += 1
        message = {"id": self._sent, "method": method, "params": parameters} | self._session
        os.write(self._send_end, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._message()
            if answer.get("id") == self._sent:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]

    def close(self) -> None:
        self._process.terminate()
        self._process.wait(TIMEOUT)
        os.close(self._send_end)
        os.close(self._receive_end)

    def _mouse(self, kind: str, x: float, y: float, **parameters: object) -> None:
        self.command("Input.dispatchMouseEvent", type=kind, x=x, y=y, **parameters)

    def _message(self) -> dict:
        """The next answer or event; errors among the events are kept."""
        deadline = time.monotonic() + TIMEOUT
        while b"\0" not in self._received:
            if not select.select([self._receive_end], [], [], max(0.0, deadline - time.monotonic()))[0]:
                raise TimeoutError(f"no answer from Chromium in {TIMEOUT:.0f} s")
            part = os.read(self._receive_end, 1 << 16)
            if not part:
                raise RuntimeError("Chromium ended")
            self._received += part
        text, _, self._received = self._received.partition(b"\0")
        message = json.loads(text)
        method, parameters = message.get("method"), message.get("params", {})
        logged = method == "Runtime.consoleAPICalled" and parameters["type"] == "error"
        failed = method == "Log.entryAdded" and parameters["entry"]["level"] == "error"
        if logged or failed or method == "Runtime.exceptionThrown":
            self.errors.append(text.decode())
        return message
