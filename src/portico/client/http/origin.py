"""The gateway's address, its TLS settings, and what a failed connection to it means."""

import ssl
from dataclasses import dataclass, field
from errno import ECONNREFUSED
from urllib.parse import quote, urlsplit

from portico.client.errors import ConnectionFailed, Unreachable

_TLS_ALERT = b"\x15\x03"


@dataclass(slots=True)
class Origin:
    host: str
    port: int
    prefix: str
    """The path prefix, if the gateway is not at the root of its host."""
    tls: bool
    ca: str | None = None
    context: ssl.SSLContext | None = field(default=None, repr=False)

    @classmethod
    def of(cls, url: str, ca: str | ssl.SSLContext | None) -> "Origin":
        try:
            parts = urlsplit(url if "://" in url else f"https://{url}")
            host, port = parts.hostname, parts.port
            if host and not host.isascii():
                host = host.encode("idna").decode()
        except ValueError:
            host = port = None
        if not host or parts.scheme not in ("http", "https") or parts.query or parts.username:
            raise Unreachable(f"{url!r} is not a valid gateway address; use one like https://files.example.com")
        tls = parts.scheme == "https"
        context, file = (ca, None) if isinstance(ca, ssl.SSLContext) else (None, ca)
        prefix = quote(parts.path.rstrip("/"), safe="/%:@!$&'()*+,;=~")
        return cls(host, port or (443 if tls else 80), prefix, tls, file, context)

    @property
    def authority(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == (443 if self.tls else 80) else f"{host}:{self.port}"

    @property
    def url(self) -> str:
        return f"{'https' if self.tls else 'http'}://{self.authority}{self.prefix}"

    def tls_context(self) -> ssl.SSLContext | None:
        """None without TLS."""
        if self.tls and self.context is None:
            try:
                self.context = ssl.create_default_context(cafile=self.ca)
            except (OSError, ssl.SSLError) as error:
                raise Unreachable(f"The certificate file {self.ca} can't be used: {error}") from None
        return self.context if self.tls else None


def connection_error(origin: Origin, error: Exception, *, sent: bool = False, opening: bool = False) -> Exception:
    """The client's error for a failed connection; `opening` if it was never established."""
    import socket

    place = origin.authority
    if isinstance(error, ssl.SSLCertVerificationError):
        reason = error.verify_message or "it is not trusted"
        return Unreachable(
            f"The certificate of {place} was refused: {reason}. If it is self-signed, pass its file as ca."
        )
    if opening and isinstance(error, ssl.SSLError) and not isinstance(error, ssl.SSLEOFError):
        reason = (error.reason or "it failed").lower().replace("_", " ")
        return Unreachable(
            f"The TLS handshake with {place} failed ({reason}); did you mean http://{place}{origin.prefix}?"
        )
    if isinstance(error, _TlsAlert) and not origin.tls:
        return Unreachable(f"{place} uses TLS; did you mean https://{place}{origin.prefix}?")
    if isinstance(error, socket.gaierror) and error.errno == socket.EAI_NONAME:
        return Unreachable(f"Host {origin.host} not found; check the address.")
    if isinstance(error, TimeoutError):
        return ConnectionFailed(f"{place} didn't respond in time.", sent=sent, opening=opening)
    # If a host has several addresses, asyncio reports why each failed only in the message.
    if opening and (isinstance(error, ConnectionRefusedError) or f"[Errno {ECONNREFUSED}]" in str(error)):
        detail = f"{place} refused the connection; check the address, or start the gateway."
        return ConnectionFailed(detail, opening=True)
    reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return ConnectionFailed(f"The connection to {place} failed: {reason}.", sent=sent, opening=opening)


class _TlsAlert(ConnectionError):
    """The peer expects TLS."""


def closed_early(received: bytes) -> ConnectionError:
    """The error for a connection that was closed before a whole response head was received."""
    return _TlsAlert() if received.startswith(_TLS_ALERT) else ConnectionError("the gateway closed it")
