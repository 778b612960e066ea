"""Signatures of commands, which brokers with access control require (rules 4.11)."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Mapping

ACCESS_KEY = "AccessKey"
SECURITY_TOKEN = "SecurityToken"
SIGNATURE = "Signature"


def sign_fields(
    fields: Mapping[str, str],
    body: bytes | memoryview,
    access_key: str,
    secret_key: str,
    security_token: str | None = None,
) -> dict[str, str]:
    """Returns the fields to add to those of a request: access key, security token if there is one, and signature.

    ``fields`` must be all other fields that the request will have, as the signature covers them and the body.
    """
    added = {ACCESS_KEY: access_key}
    if security_token:
        added[SECURITY_TOKEN] = security_token
    return {**added, SIGNATURE: compute_signature({**fields, **added}, body, secret_key)}


def compute_signature(fields: Mapping[str, str], body: bytes | memoryview, secret_key: str) -> str:
    """Returns the signature of all fields except ``Signature``, and of the body."""
    names = sorted((name for name in fields if name != SIGNATURE), key=_order_in_java)
    digest = hmac.new(secret_key.encode(), digestmod=hashlib.sha1)
    digest.update("".join([fields[name] for name in names]).encode(errors="replace"))
    digest.update(body)
    return base64.b64encode(digest.digest()).decode()


def _order_in_java(name: str) -> bytes:
    """Returns a sort key: Java compares texts by UTF-16 units, Python by characters."""
    return name.encode("utf-16-be", errors="surrogatepass")
