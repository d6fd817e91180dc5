"""The guard in front of all routes: Host and Origin, the token, the size of a request, and headers of every answer.

A page of another site can send requests to this machine from a visitor's browser. Such a request names the other site
in its Host header (DNS rebinding) or in its Origin header (cross-site forgery), and is refused.
"""

from __future__ import annotations

import hmac
import json
import secrets
import time
from collections.abc import Mapping
from http.cookies import CookieError, SimpleCookie

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from recveil.service.prometheus import Measurements
from recveil.service.settings import ServiceSettings

__all__ = ["COOKIE_NAME", "PAGE_POLICY", "RequestGuard", "Sessions"]

COOKIE_NAME = "recveil_session"
READ_METHODS = ("GET", "HEAD", "OPTIONS")
OPEN_PATHS = ("/", "/page.css", "/page.js", "/health", "/session")
"""Paths that need no token: the page, which holds no data, and the exchange of the token for a cookie."""

MAX_APPLY_BYTES = 16 << 20
"""Size of a request to /apply, which is held in memory."""

PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "frame-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": PAGE_POLICY,
    "cache-control": "no-store",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}
"""Headers of every answer, unless a route sets its own."""


class Sessions:
    """The token, and the cookie that a browser gets for it; both are compared in constant time."""

    def __init__(self, token: str | None) -> None:
        self.token = token
        self.cookie = secrets.token_urlsafe(32)

    def accepts_token(self, given: str) -> bool:
        """Whether this is the token."""
        return self.token is None or hmac.compare_digest(given.encode(), self.token.encode())

    def accepts_request(self, headers: Mapping[str, str]) -> bool:
        """Whether a request carries the token or the cookie."""
        if self.token is None:
            return True
        scheme, _, given = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and self.accepts_token(given.strip()):
            return True
        try:
            morsel = SimpleCookie(headers.get("cookie", "")).get(COOKIE_NAME)
        except CookieError:
            return False
        return morsel is not None and hmac.compare_digest(morsel.value.encode(), self.cookie.encode())


class RequestGuard:
    """ASGI middleware that refuses what no route should see, and counts all answers."""

    def __init__(self, app: ASGIApp, *, settings: ServiceSettings, sessions: Sessions, counts: Measurements) -> None:
        self.app = app
        self.settings = settings
        self.sessions = sessions
        self.counts = counts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check one request, hand it on, and add the headers to its answer."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
        elif scope["type"] == "http":
            await self._answer(scope, receive, send)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        start, status = time.perf_counter(), 500

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        refusal = self._find_refusal(scope)
        try:
            if refusal is not None:
                await _send_error(send_with_headers, *refusal)
            else:
                await self.app(scope, self._limit_body(scope, receive), send_with_headers)
        finally:
            route = scope.get("route")
            path = "other" if route is None else str(route.path)
            method = scope["method"] if scope["method"] in (*READ_METHODS, "POST", "PUT", "DELETE") else "other"
            self.counts.count_request(route=path, method=method, status=status, seconds=time.perf_counter() - start)

    def _find_refusal(self, scope: Scope) -> tuple[int, str] | None:
        """Return the status and the sentence for a request that is refused; None for one that is not."""
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        if not self.settings.is_allowed_host(host):
            return 403, "The request names another host. Use the address that the service printed, or --allow-host."
        if scope["method"] not in READ_METHODS and not _is_same_origin(headers, host):
            return 403, "The request comes from a page of another site, which is refused."
        if scope["path"] not in OPEN_PATHS and not self.sessions.accepts_request(headers):
            return 401, "The request carries no valid token. Send it as: Authorization: Bearer TOKEN."
        length = headers.get("content-length", "0")
        if length.isdecimal() and int(length[:20]) > self._find_limit(scope):
            return 413, self._describe_limit(scope)
        return None

    def _find_limit(self, scope: Scope) -> int:
        return min(MAX_APPLY_BYTES, self.settings.max_upload_bytes) if scope["path"] == "/apply" else self.upload_limit

    @property
    def upload_limit(self) -> int:
        """Bytes of an upload."""
        return self.settings.max_upload_bytes

    def _describe_limit(self, scope: Scope) -> str:
        return f"The request is larger than {self._find_limit(scope):,} bytes. Send less, or use the command line."

    def _limit_body(self, scope: Scope, receive: Receive) -> Receive:
        """Return a function that receives the request, and stops one whose size was not announced."""
        limit, size = self._find_limit(scope), 0

        async def receive_limited() -> Message:
            nonlocal size
            message = await receive()
            size += len(message.get("body", b""))
            if size > limit:
                raise HTTPException(413, self._describe_limit(scope))
            return message

        return receive_limited


def _is_same_origin(headers: Headers, host: str) -> bool:
    """Whether a request was sent by our own page, or by no page at all."""
    if headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
        return False
    origin = headers.get("origin")
    return origin is None or origin.split("://")[-1] == host


async def _send_error(send: Send, status: int, sentence: str) -> None:
    body = json.dumps({"error": sentence}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
