"""Certificates for one test: an authority that nobody else knows, and what it vouches for."""

from __future__ import annotations

import ssl
from pathlib import Path

import trustme


class Authority:
    """Somebody who vouches for names."""

    def __init__(self, folder: Path, name: str = "authority") -> None:
        self._folder = folder
        self._ca = trustme.CA()
        self.file = folder / f"{name}.pem"
        self._ca.cert_pem.write_to_path(self.file)

    def server(self, *names: str, asks: bool = False) -> ssl.SSLContext:
        """What a server with these names shows; it may ask clients for a certificate of the same authority."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._ca.issue_cert(*names).configure_cert(context)
        if asks:
            self._ca.configure_trust(context)
            context.verify_mode = ssl.CERT_REQUIRED
        return context

    def client(self) -> tuple[Path, Path]:
        """Write the certificate of a client, and its key."""
        cert, key = self._folder / "client.pem", self._folder / "client.key"
        issued = self._ca.issue_cert("client@example.org")
        issued.cert_chain_pems[0].write_to_path(cert)
        issued.private_key_pem.write_to_path(key)
        return cert, key
