"""Reverse proxies for tests: nginx as `examples/network/nginx.conf` has it, and a stand-in.

The stand-in reads that file, and is for machines without nginx.
"""

from __future__ import annotations

import http.client
import posixpath
import re
import shutil
import socket
import ssl
import subprocess
import threading
import time
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

CONFIGURATION: Final = Path(__file__).parents[2] / "examples" / "network" / "nginx.conf"

_HOP: Final = ("connection", "keep-alive", "transfer-encoding", "content-length", "host")


def let_through() -> list[str]:
    """Return the prefixes of paths that the configuration passes on."""
    text = CONFIGURATION.read_text()
    found = re.findall(r"location (\S+) \{(.*?)\}", text, re.DOTALL)
    return [prefix for prefix, body in found if "proxy_pass" in body]


def normalised(path: str) -> str:
    """Return a path as nginx compares it: decoded, without dots and double slashes."""
    decoded = urllib.parse.unquote(path.partition("?")[0])
    end = "/" if decoded.endswith("/") else ""
    return posixpath.normpath(re.sub("/+", "/", decoded)) + end


class FleetProxy:
    """Listens with TLS on loopback, and forwards to a superlink on `upstream`."""

    def __init__(self, upstream: int, certificate: Path, key: Path) -> None:
        prefixes = let_through()
        self.refused: list[str] = []
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def forward(self) -> None:
                size = int(self.headers.get("Content-Length") or 0)
                body = self.rfile.read(size)
                if not normalised(self.path).startswith(tuple(prefixes)):
                    proxy.refused.append(self.path)
                    self.send_response(403)
                    self.send_header("Content-Length", "0")
                    self.end_headers()
                    return
                context = ssl.create_default_context(cafile=str(certificate))
                there = http.client.HTTPSConnection("127.0.0.1", upstream, context=context)
                headers = {k: v for k, v in self.headers.items() if k.lower() not in _HOP}
                there.request(self.command, self.path, body, headers)
                answer = there.getresponse()
                content = answer.read()
                self.send_response(answer.status)
                for name, value in answer.getheaders():
                    if name.lower() not in _HOP:
                        self.send_header(name, value)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)
                there.close()

            do_GET = do_POST = do_PUT = do_DELETE = forward  # noqa: N815

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.port: int = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class Nginx:
    """The shipped configuration in a real nginx, with other ports, names and files.

    `refused` are the requests that were not let through.
    """

    def __init__(self, folder: Path, upstream: int, certificate: Path, key: Path) -> None:
        self._log = folder / "access.log"
        self.port = _free_port()
        text = shipped(folder, self.port, upstream, certificate, key)
        (folder / "nginx.conf").write_text(text)
        files = f"daemon off; pid {folder}/nginx.pid; error_log {folder}/error.log;"
        self._command = ["nginx", "-p", str(folder), "-c", str(folder / "nginx.conf"), "-g", files]
        said = subprocess.run([*self._command, "-t"], capture_output=True, text=True, check=False)
        assert said.returncode == 0, said.stderr
        self._process = subprocess.Popen(self._command, stderr=subprocess.DEVNULL)
        end = time.monotonic() + 30
        while not _listens(self.port):
            assert self._process.poll() is None
            assert time.monotonic() < end
            time.sleep(0.05)

    @property
    def refused(self) -> list[str]:
        return [line for line in self._log.read_text().splitlines() if '" 403 ' in line]

    def close(self) -> None:
        self._process.terminate()
        self._process.wait(30)


def has_nginx() -> bool:
    """Return whether nginx is installed."""
    return shutil.which("nginx") is not None


def proxy_in(folder: Path, upstream: int, certificate: Path, key: Path) -> Nginx | FleetProxy:
    """Return nginx where there is one, and else the proxy that reads its configuration."""
    if has_nginx():
        place = folder / "nginx"
        place.mkdir()
        return Nginx(place, upstream, certificate, key)
    return FleetProxy(upstream, certificate, key)


def shipped(folder: Path, port: int, upstream: int, certificate: Path, key: Path) -> str:
    """Return the shipped configuration for loopback; what it lets through stays as it is."""
    text = CONFIGURATION.read_text()
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    temporary = " ".join(f"{kind}_temp_path {folder}/{kind};" for kind in kinds)
    changes = {
        "listen 9092 ssl": f"listen 127.0.0.1:{port} ssl",
        "https://127.0.0.1:8000": f"https://127.0.0.1:{upstream}",
        "/etc/privplan/server.pem": str(certificate),
        "/etc/privplan/server.key": str(key),
        "/etc/privplan/ca.pem": str(certificate),
        "superlink.example.org": "localhost",
        "access_log off;": f"access_log {folder}/access.log; {temporary}",
    }
    for old, new in changes.items():
        assert old in text, old
        text = text.replace(old, new)
    return text


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


def _listens(port: int) -> bool:
    with socket.socket() as there:
        return there.connect_ex(("127.0.0.1", port)) == 0


def certificate_in(folder: Path) -> tuple[Path, Path]:
    """Make a certificate of loopback, which is its own authority; return it and its key."""
    certificate, key = folder / "server.pem", folder / "server.key"
    made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost"]
    files = ["-keyout", str(key), "-out", str(certificate)]
    subprocess.run([*made, *names, *files], check=True, capture_output=True)
    return certificate, key


def node_key_in(folder: Path, name: str) -> tuple[Path, Path]:
    """Make a key by which a superlink knows a supernode (P-384, OpenSSH); return both halves."""
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        NoEncryption,
        PrivateFormat,
        PublicFormat,
    )

    key = ec.generate_private_key(ec.SECP384R1())
    private, public = folder / f"{name}.key", folder / f"{name}.pub"
    private.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()))
    public.write_bytes(key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH))
    return private, public
