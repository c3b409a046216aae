"""A studio as others on the network, and other studios, see it."""

from __future__ import annotations

import http.client
import re
import socket
import subprocess
import sys
from urllib.parse import urlsplit

import pytest

from studio.browsing import studio

pytest.importorskip("nicegui", reason="the studio needs NiceGUI: pip install 'picardfit[studio]'")


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    root = tmp_path_factory.mktemp("studio")
    with studio(root / "study", root / "log.txt") as made:
        yield made


def status(running, path="/", **headers):
    """The status of a request to a studio, and its headers."""
    at = urlsplit(running.address)
    connection = http.client.HTTPConnection("127.0.0.1", at.port, timeout=20)
    connection.putrequest("GET", path, skip_host="Host" in headers)
    for name, value in headers.items():
        connection.putheader(name, value)
    connection.endheaders()
    answer = connection.getresponse()
    answer.read()
    connection.close()
    return answer.status, dict(answer.getheaders())


def token(running) -> str:
    return running.address.partition("token=")[2]


def test_only_the_token_opens_the_page(running):
    assert status(running)[0] == 403
    assert status(running, "/?token=wrong")[0] == 403
    code, headers = status(running, f"/?token={token(running)}")
    assert code == 200
    assert "HttpOnly" in headers["set-cookie"]


def test_files_of_the_page_need_the_token_too(running):
    assert status(running, "/studio-static/studio.css")[0] == 403
    cookie = status(running, f"/?token={token(running)}")[1]["set-cookie"].partition(";")[0]
    assert status(running, "/studio-static/studio.css", Cookie=cookie)[0] == 200
    assert status(running, "/studio-static/../server.py", Cookie=cookie)[0] in (404, 405)


def test_other_hosts_and_origins_are_refused(running):
    path = f"/?token={token(running)}"
    assert status(running, path, Host="evil.example")[0] == 403
    assert status(running, path, Origin="http://evil.example")[0] == 403


SOCKET = "/_nicegui_ws/socket.io/?EIO=4&transport=websocket"


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ({}, 403),
        ({"Origin": "http://evil.example", "token": True}, 403),
        ({"Host": "evil.example", "token": True}, 403),
        ({"token": True}, 101),
    ],
)
def test_the_websocket_is_guarded_as_well(running, given, code):
    port, more = urlsplit(running.address).port, dict(given)
    query = f"&token={token(running)}" if more.pop("token", False) else ""
    headers = {"Host": f"127.0.0.1:{port}", "Upgrade": "websocket", "Connection": "Upgrade", **more}
    headers |= {"Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==", "Sec-WebSocket-Version": "13"}
    lines = [
        f"GET {SOCKET}{query} HTTP/1.1",
        *(f"{name}: {value}" for name, value in headers.items()),
        "",
        "",
    ]
    with socket.create_connection(("127.0.0.1", port), timeout=20) as held:
        held.sendall("\r\n".join(lines).encode())
        assert int(held.recv(200).split()[1]) == code


def test_the_server_listens_on_this_machine_only(running):
    port = urlsplit(running.address).port
    listed = subprocess.run(["ss", "-ltnH", f"sport = :{port}"], capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("ss is not there")
    assert [line.split()[3] for line in listed.stdout.splitlines()] == [f"127.0.0.1:{port}"]


def test_two_studios_have_ports_and_tokens_of_their_own(running, tmp_path):
    with studio(tmp_path / "other", tmp_path / "log.txt") as other:
        assert urlsplit(other.address).port != urlsplit(running.address).port
        assert status(other, f"/?token={token(running)}")[0] == 403
        assert status(other, f"/?token={token(other)}")[0] == 200


def test_a_file_is_no_study(tmp_path):
    (tmp_path / "x.csv").write_text("time,x\n0,1\n", encoding="utf-8")
    command = [sys.executable, "-m", "picardfit", "studio", str(tmp_path / "x.csv"), "--no-browser"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert re.search(r"x\.csv` is a file", done.stderr)


def test_a_port_that_was_named_is_said_to_be_taken(tmp_path):
    from picardfit.errors import InputError
    from picardfit.studio.server import serve

    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        held.listen()
        port = held.getsockname()[1]
        with pytest.raises(InputError) as caught:
            serve(tmp_path, browser=False, port=port)
    assert (caught.value.code, caught.value.subject) == ("studio.port_taken", str(port))
