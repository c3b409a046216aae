"""Who may talk to the studio: this machine, with the token of the address.

Every request and every WebSocket passes here before anything else sees it. The token comes in the address at first and
in a cookie afterwards. `Host` must name this machine and this port, so that a page elsewhere whose name suddenly leads
here (DNS rebinding) gets nothing; `Origin`, where a browser sends one, must be this page.
"""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qs

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]
HEADERS = (
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; font-src 'self' data:; connect-src 'self' ws://{host}; worker-src 'self' blob:; "
    "frame-ancestors 'none'; base-uri 'self'; form-action 'self'"
)


@dataclass(frozen=True)
class Key:
    """The address of one studio."""

    port: int
    token: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}/?token={self.token}"

    @property
    def hosts(self) -> tuple[str, ...]:
        return (f"127.0.0.1:{self.port}", f"localhost:{self.port}")

    @property
    def cookie(self) -> str:
        """Browsers share cookies between ports, so that every studio has one of its own name."""
        return f"picardfit-studio-{self.port}"

    def opens(self, given: str | None) -> bool:
        return given is not None and secrets.compare_digest(given.encode(), self.token.encode())


class Guard:
    """The application behind the checks of host, origin, token and size."""

    def __init__(self, app: App, key: Key, most_bytes: int) -> None:
        self.app, self.key, self.most = app, key, most_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        status = self._refusal(scope, headers)
        if status is None:
            await self.app(scope, receive, self._with_headers(scope, send))
        elif scope["type"] == "websocket":
            await receive()
            await send(
                {"type": "websocket.close", "code": 1008}
            )  # before it is accepted: the answer is a 403
        else:
            text = {
                403: b"403: open the address that `picardfit studio` printed.\n",
                413: b"413: too large.\n",
            }
            told = [(b"content-type", b"text/plain; charset=utf-8"), *HEADERS]
            await send({"type": "http.response.start", "status": status, "headers": told})
            await send({"type": "http.response.body", "body": text[status]})

    def _refusal(self, scope: Scope, headers: dict[str, str]) -> int | None:
        """The status of a refusal; None for a request that may pass."""
        if headers.get("host", "") not in self.key.hosts:
            return 403
        origin = headers.get("origin")
        if origin is not None and origin not in {f"http://{host}" for host in self.key.hosts}:
            return 403
        given = parse_qs(scope.get("query_string", b"").decode("latin-1")).get("token")
        if not self.key.opens(given[0] if given else self._cookie(headers.get("cookie", ""))):
            return 403
        length = headers.get("content-length", "0")
        if not length.isdecimal() or int(length) > self.most:
            return 413
        chunked = "chunked" in headers.get("transfer-encoding", "").lower()
        return 413 if chunked and scope["type"] == "http" else None

    def _cookie(self, header: str) -> str | None:
        try:
            found = SimpleCookie(header).get(self.key.cookie)
        except CookieError:
            return None
        return None if found is None else found.value

    def _with_headers(self, scope: Scope, send: Send) -> Send:
        """Adds the cookie and the headers that keep the page to itself."""

        async def sending(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                host = dict(scope["headers"]).get(b"host", b"").decode("latin-1")
                policy = POLICY.format(host=host)
                told = [*message.get("headers", []), *HEADERS, (b"content-security-policy", policy.encode())]
                if b"token=" in scope.get("query_string", b""):
                    cookie = f"{self.key.cookie}={self.key.token}; Path=/; HttpOnly; SameSite=Strict"
                    told.append((b"set-cookie", cookie.encode()))
                message = {**message, "headers": told}
            await send(message)

        return sending
