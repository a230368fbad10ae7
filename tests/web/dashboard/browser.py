"""A real Chromium, driven by its own protocol: pages are opened, asked, clicked and pictured."""

import asyncio
import base64
import json
import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any

import aiohttp

PROGRAM = next(
    (p for p in ("chromium", "chromium-browser", "google-chrome") if shutil.which(p)), ""
)
COMMAND_TIMEOUT = 60.0
PATIENCE = 90.0
"""Seconds until what is waited for counts as never coming: agents retry within thirty."""


class Page:
    """One open page."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._numbers = count(1)
        self.complaints: list[str] = []
        """What the page's console or its security policy complained about."""

    async def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """One call of the protocol; events that come in between are looked through."""
        number = next(self._numbers)
        await self._socket.send_json({"id": number, "method": method, "params": parameters})
        while True:
            message = json.loads((await self._socket.receive(COMMAND_TIMEOUT)).data)
            if message.get("id") == number:
                assert "error" not in message, message
                return dict(message["result"])
            self._listen(message)

    def _listen(self, message: dict[str, Any]) -> None:
        match message:
            case {"method": "Runtime.exceptionThrown", "params": {"exceptionDetails": why}}:
                self.complaints.append(str(why.get("exception", why).get("description", why)))
            case {"method": "Log.entryAdded", "params": {"entry": {"level": "error"} as entry}}:
                self.complaints.append(str(entry["text"]))

    async def close(self) -> None:
        """Let go of the page."""
        await self._socket.close()

    async def open(self, url: str) -> None:
        await self.call("Page.navigate", url=url)

    async def ask(self, expression: str) -> Any:
        """The value of an expression in the page."""
        result = await self.call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    async def until(self, expression: str) -> None:
        """Wait until an expression holds in the page."""
        loop = asyncio.get_running_loop()
        end = loop.time() + PATIENCE
        while not await self.ask(f"Boolean({expression})"):
            if loop.time() > end:
                text = await self.ask("document.body.innerText")
                raise AssertionError(f"not so: {expression}\n{text}\n{self.complaints}")
            await asyncio.sleep(0.05)

    async def shows(self, text: str) -> None:
        """Wait until a text is to be seen."""
        await self.until(f"document.body?.innerText.includes({json.dumps(text)})")

    async def click(self, selector: str) -> None:
        await self.until(f"document.querySelector({json.dumps(selector)})")
        await self.ask(f"document.querySelector({json.dumps(selector)}).click()")

    async def press(self, key: str) -> None:
        """Press a key that types one letter."""
        await self.call("Input.dispatchKeyEvent", type="keyDown", key=key, text=key)
        await self.call("Input.dispatchKeyEvent", type="keyUp", key=key)

    async def type(self, text: str) -> None:
        await self.call("Input.insertText", text=text)

    async def dress(self, scheme: str) -> None:
        """Let the page believe that the system is light or dark."""
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        await self.call("Emulation.setEmulatedMedia", features=features)

    async def resize(self, width: int, height: int = 860) -> None:
        """Give the page's window another size."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        await self.call("Emulation.setDeviceMetricsOverride", **size)

    async def picture(self, file: Path) -> None:
        result = await self.call("Page.captureScreenshot", format="png")
        _keep(file, base64.b64decode(result["data"]))


def _keep(file: Path, content: bytes) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)


@asynccontextmanager
async def browsing(width: int = 1360, height: int = 860) -> AsyncIterator[Page]:
    """A page in a browser of its own, which ends with the block."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home:
        chromium = await asyncio.create_subprocess_exec(
            *(PROGRAM, "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run"),
            *("--disable-dev-shm-usage", "--remote-debugging-port=0", f"--user-data-dir={home}"),
            *(f"--window-size={width},{height}", "--hide-scrollbars", "about:blank"),
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            async with aiohttp.ClientSession() as http:
                page = await _first_page(chromium, http)
                await page.resize(width, height)
                try:
                    yield page
                finally:
                    await page.close()
        finally:
            chromium.kill()
            await chromium.communicate()


async def _first_page(chromium: asyncio.subprocess.Process, http: aiohttp.ClientSession) -> Page:
    assert chromium.stderr is not None
    async with asyncio.timeout(COMMAND_TIMEOUT):
        while b"listening on" not in (line := await chromium.stderr.readline()):
            assert line, "Chromium ended before it listened"
        address = line.decode().split("ws://")[1].split("/")[0]
        async with http.get(f"http://{address}/json/list") as listed:
            target = next(t for t in await listed.json() if t["type"] == "page")
    socket = await http.ws_connect(target["webSocketDebuggerUrl"], max_msg_size=0)
    page = Page(socket)
    for domain in ("Page", "Runtime", "Log"):
        await page.call(f"{domain}.enable")
    return page
