"""A Chromium without a window, driven over its DevTools protocol.

    async with open_page(chromium) as page:
        await page.go("http://127.0.0.1:8080/debug/journal/")
        await page.wait("document.title === 'Journal'")

Waiting means checking a condition in the page at each frame: no test waits for a fixed time. A page fails the test if
a script threw an error or the content security policy blocked something.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import trio
from trio_websocket import WebSocketConnection, open_websocket_url

NAMES = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
LONGEST = 60  # seconds that a condition may take on a busy machine
FLAGS = (
    "--headless=new",
    "--remote-debugging-port=0",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-dev-shm-usage",
    "--disable-extensions",
    "--disable-gpu",
    "--disable-sync",
    "--force-color-profile=srgb",
    "--hide-scrollbars",
    "--ignore-certificate-errors",  # those of servers under test
    "--mute-audio",
    "--no-first-run",
)

Document = dict[str, Any]


def find_chromium() -> str | None:
    return next((path for name in NAMES if (path := shutil.which(name))), None)


@contextmanager
def running_chromium(program: str, folder: Path, home: Path | None = None) -> Iterator[str]:
    """Start the browser; the address of its DevTools. Its client certificates are those of `home`."""
    flags = [*FLAGS, f"--user-data-dir={folder}"]
    if os.geteuid() == 0:
        flags.append("--no-sandbox")  # which it does not have as root
    environment = {**os.environ, **({"HOME": str(home)} if home else {})}
    process = subprocess.Popen(
        [program, *flags, "about:blank"],
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
        env=environment,
    )
    try:
        assert process.stderr is not None
        said = []
        for line in process.stderr:
            said.append(line)
            if line.startswith("DevTools listening on "):
                yield line.removeprefix("DevTools listening on ").strip()
                break
        else:
            raise AssertionError(f"{program} did not start: {''.join(said)[-2000:]}")
    finally:
        process.kill()
        process.wait(60)
        assert process.stderr is not None
        process.stderr.close()


class DevTools:
    """The connection to a browser: commands, and events by session."""

    def __init__(self, socket: WebSocketConnection) -> None:
        self._socket = socket
        self._number = 0
        self._replies: dict[int, Document] = {}
        self._arrived = trio.lowlevel.ParkingLot()
        self.pages: dict[str, Page] = {}

    async def run(self) -> None:
        while True:
            message = json.loads(await self._socket.get_message())
            if "id" in message:
                self._replies[message["id"]] = message
                self._arrived.unpark_all()
            elif (page := self.pages.get(message.get("sessionId", ""))) is not None:
                page.note(message["method"], message["params"])

    async def command(self, method: str, session: str = "", **parameters: Any) -> Document:
        self._number += 1
        number = self._number
        message: Document = {"id": number, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        await self._socket.send_message(json.dumps(message))
        while number not in self._replies:
            await self._arrived.park()
        reply = self._replies.pop(number)
        assert "error" not in reply, f"{method}: {reply['error']}"
        found: Document = reply["result"]
        return found


class Page:
    def __init__(self, tools: DevTools, session: str) -> None:
        self._tools = tools
        self._session = session
        self.requests: list[Document] = []  # what it asked for
        self.problems: list[str] = []  # errors of scripts and what the policy blocked
        self.received = 0  # bytes
        self.protocols: set[str] = set()  # over which responses came

    def note(self, method: str, parameters: Document) -> None:
        if method == "Network.requestWillBeSent":
            self.requests.append(parameters["request"])
        elif method == "Network.responseReceived":
            self.protocols.add(parameters["response"].get("protocol", ""))
        elif method == "Network.loadingFinished":
            self.received += int(parameters["encodedDataLength"])
        elif method == "Runtime.exceptionThrown":
            details = parameters["exceptionDetails"]
            self.problems.append(str(details.get("exception", {}).get("description", details["text"])))
        elif method == "Log.entryAdded" and parameters["entry"]["source"] == "security":
            self.problems.append(parameters["entry"]["text"])
        elif method == "Page.javascriptDialogOpening":
            self.problems.append(f"dialog: {parameters['message']}")

    async def command(self, method: str, **parameters: Any) -> Document:
        return await self._tools.command(method, self._session, **parameters)

    async def go(self, url: str) -> None:
        await self.command("Page.navigate", url=url)

    async def run(self, script: str) -> Any:
        """The value of an expression, awaited if it is a promise."""
        found = await self.command(
            "Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True, userGesture=True
        )
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    async def wait(self, condition: str) -> None:
        """Wait until an expression is true in the page, which may be loading another document meanwhile."""
        script = (
            f"new Promise((found) => {{ const look = () => ({condition}) ? found(true) : "
            "requestAnimationFrame(look); look(); })"
        )
        with trio.move_on_after(LONGEST):
            while True:
                found = await self._evaluate(script)
                if found is True:
                    return
        shown = await self.run("document.body?.innerText ?? ''")
        raise AssertionError(f"{condition} did not become true: {self.problems} {shown[:3000]}")

    async def _evaluate(self, script: str) -> object:
        """None if the document was replaced meanwhile."""
        try:
            found = await self.command(
                "Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True
            )
        except AssertionError:
            await trio.lowlevel.checkpoint()
            return None
        return None if "exceptionDetails" in found else found["result"].get("value")

    async def press(self, key: str, text: str = "") -> None:
        for kind in ("keyDown", "keyUp"):
            await self.command(
                "Input.dispatchKeyEvent", type=kind, key=key, text=text if kind == "keyDown" else ""
            )

    async def type(self, selector: str, text: str) -> None:
        await self.run(f"document.querySelector({json.dumps(selector)}).focus()")
        await self.command("Input.insertText", text=text)

    async def click(self, selector: str) -> None:
        await self.run(f"document.querySelector({json.dumps(selector)}).click()")

    async def size(self, width: int, height: int) -> None:
        await self.command(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )

    async def scheme(self, name: str) -> None:
        await self.command(
            "Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": name}]
        )

    async def screenshot(self) -> bytes:
        found = await self.command("Page.captureScreenshot", format="png")
        return base64.b64decode(found["data"])

    async def text(self, selector: str = "body") -> str:
        return str(await self.run(f"document.querySelector({json.dumps(selector)})?.innerText ?? ''"))


@asynccontextmanager
async def open_page(address: str) -> AsyncIterator[Page]:
    """A page in a separate context: without cookies, storage and caches of others."""
    async with (
        open_websocket_url(address, max_message_size=64 << 20) as socket,
        trio.open_nursery() as nursery,
    ):
        tools = DevTools(socket)
        nursery.start_soon(tools.run)
        context = (await tools.command("Target.createBrowserContext"))["browserContextId"]
        target = (await tools.command("Target.createTarget", url="about:blank", browserContextId=context))[
            "targetId"
        ]
        attached = await tools.command("Target.attachToTarget", targetId=target, flatten=True)
        session = attached["sessionId"]
        page = tools.pages[session] = Page(tools, session)
        for domain in ("Page", "Runtime", "Network", "Log"):
            await page.command(f"{domain}.enable")
        await page.size(1280, 900)
        yield page
        assert page.problems == []
        await tools.command("Target.disposeBrowserContext", browserContextId=context)
        nursery.cancel_scope.cancel()
