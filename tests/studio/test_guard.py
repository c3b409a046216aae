"""Who may talk to the studio."""

from __future__ import annotations

import asyncio

import pytest

from picardfit.studio.guard import Guard, Key

KEY = Key(5000, "right")
HOST = (b"host", b"127.0.0.1:5000")
COOKIE = (b"cookie", f"a=b; {KEY.cookie}=right".encode())


def answer(headers, query=b"", kind="http", most=100):
    """What the guard sends, and whether it let the request through."""
    sent, passed = [], []

    async def app(scope, receive, send):
        passed.append(True)
        if scope["type"] == "http":
            await send({"type": "http.response.start", "status": 200, "headers": []})

    async def receive():
        return {"type": f"{kind}.connect"}

    async def send(message):
        sent.append(message)

    scope = {"type": kind, "headers": headers, "query_string": query, "path": "/"}
    asyncio.run(Guard(app, KEY, most)(scope, receive, send))
    return sent, bool(passed)


@pytest.mark.parametrize("kind", ["http", "websocket"])
@pytest.mark.parametrize(
    ("headers", "query"),
    [
        ([HOST], b""),
        ([HOST], b"token=wrong"),
        ([HOST], b"token="),
        ([HOST, COOKIE], b"token=wrong"),
        ([HOST, (b"cookie", b"picardfit-studio-5001=right")], b""),
        ([(b"host", b"evil.example:5000"), COOKIE], b""),
        ([(b"host", b"127.0.0.1:5001"), COOKIE], b""),
        ([COOKIE], b""),
        ([HOST, COOKIE, (b"origin", b"http://evil.example")], b""),
        ([HOST, COOKIE, (b"origin", b"null")], b""),
        ([HOST, COOKIE, (b"origin", b"http://127.0.0.1:5001")], b""),
    ],
)
def test_strangers_are_refused(kind, headers, query):
    sent, passed = answer(headers, query, kind)
    assert not passed
    assert sent[0].get("status", sent[0].get("code")) in (403, 1008)


@pytest.mark.parametrize("kind", ["http", "websocket"])
@pytest.mark.parametrize(
    ("headers", "query"),
    [
        ([HOST], b"token=right"),
        ([HOST, COOKIE], b""),
        ([(b"host", b"localhost:5000"), COOKIE, (b"origin", b"http://localhost:5000")], b""),
    ],
)
def test_the_page_itself_passes(kind, headers, query):
    assert answer(headers, query, kind)[1]


def test_the_token_of_the_address_becomes_a_cookie_of_this_studio_only():
    sent, _ = answer([HOST], b"token=right")
    cookie = dict(sent[0]["headers"])[b"set-cookie"].decode()
    assert cookie == "picardfit-studio-5000=right; Path=/; HttpOnly; SameSite=Strict"


def test_large_requests_are_refused_before_they_are_read():
    sent, passed = answer([HOST, COOKIE, (b"content-length", b"101")])
    assert not passed
    assert sent[0]["status"] == 413
    sent, passed = answer([HOST, COOKIE, (b"transfer-encoding", b"chunked")])
    assert not passed
    assert sent[0]["status"] == 413


def test_tokens_differ():
    assert Key(1).token != Key(1).token
    assert len(Key(1).token) >= 32
