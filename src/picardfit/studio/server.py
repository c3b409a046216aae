"""The server of one studio: on this machine only, at a free port, behind the guard."""

from __future__ import annotations

import asyncio
import socket
import sys
import webbrowser
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import uvicorn
from fastapi import FastAPI
from nicegui import app, ui
from starlette.requests import Request

from picardfit.errors import InputError
from picardfit.studio.desk import Desk
from picardfit.studio.guard import Guard, Key
from picardfit.studio.page import Page
from picardfit.studio.settings import DEFAULT, StudioSettings
from picardfit.studio.study import Study

HERE = Path(__file__).parent / "static"
ICON = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><rect width="32" height="32" rx="8" fill="#0b6b67"/>'
    '<path d="M5 22c5 0 5-13 11-13s6 10 11 10" fill="none" stroke="#fff" stroke-width="2.6" stroke-linecap="round"/>'
    '<g fill="#fff"><circle cx="8" cy="19" r="2"/><circle cx="15" cy="10" r="2"/><circle cx="23" cy="20" r="2"/></g>'
    "</svg>"
)


def serve(
    folder: Path,
    browser: bool = True,
    port: int = 0,
    told: Callable[[str], None] = print,
    settings: StudioSettings = DEFAULT,
) -> None:
    """Serve the studio of a folder until Ctrl-C, or until somebody ends it on the page."""
    held = _socket(port)
    key = Key(held.getsockname()[1])
    desk = Desk(Study(folder, settings), settings)
    guarded = Guard(application(desk), key, settings.request_bytes)
    config = uvicorn.Config(
        guarded,
        log_level="warning",
        timeout_graceful_shutdown=1,
        ws_max_size=settings.request_bytes,
        ws_per_message_deflate=False,  # on one machine, packing takes longer than sending
        server_header=False,
    )
    server = _Server(config, lambda: _opened(key, browser, told))
    desk.close = server.end
    try:
        server.run(sockets=[held])
    except KeyboardInterrupt:
        pass
    finally:
        held.close()


class _Server(uvicorn.Server):
    """A server that says when it listens."""

    def __init__(self, config: uvicorn.Config, listening: Callable[[], None]) -> None:
        super().__init__(config)
        self._listening = listening

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=sockets)
        if self.started:
            self._listening()

    def end(self) -> None:
        """End the server soon, when the page has been told."""
        with suppress(RuntimeError):
            asyncio.get_running_loop().call_later(0.4, setattr, self, "should_exit", True)


def _socket(port: int) -> socket.socket:
    held = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        if sys.platform != "win32":
            held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(("127.0.0.1", port))
    except OSError as error:
        held.close()
        if port:
            raise InputError("studio.port_taken", str(port), reason=error.strerror) from None
        raise InputError("studio.no_port", reason=error.strerror) from None
    return held


def _opened(key: Key, browser: bool, told: Callable[[str], None]) -> None:
    told(key.address)
    if browser:
        webbrowser.open(key.address)


def application(desk: Desk) -> FastAPI:
    """The application of a desk; without the guard."""
    api = FastAPI(openapi_url=None, docs_url=None, redoc_url=None)
    app.add_static_files("/studio-static", HERE)

    @ui.page("/", title="picardfit studio", favicon=ICON)
    def first(request: Request) -> None:
        Page(desk, request).build(None)

    @ui.page("/step/{name}", title="picardfit studio", favicon=ICON)
    def step(request: Request, name: str) -> None:
        Page(desk, request).build(name)

    app.on_shutdown(desk.shutdown)
    ui.run_with(
        api,
        title="picardfit studio",
        dark=None,
        tailwind=False,
        show_welcome_message=False,
        reconnect_timeout=20.0,
        gzip_middleware_factory=None,
        binding_refresh_interval=None,
    )
    return api
