"""Signatures of commands, which brokers with access control require (rules 4.11)."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Iterable, Mapping

from rmqpull_proto.remoting.codes import V4_9_3

ACCESS_KEY = "AccessKey"
SECURITY_TOKEN = "SecurityToken"
SIGNATURE = "Signature"
_UNIQUE_KEY_QUERY = "_UNIQUE_KEY_QUERY"


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


def verify_signature(fields: Mapping[str, str], body: bytes | memoryview, secret_key: str, version: int) -> bool:
    """Returns whether a request's field ``Signature`` is that of its other fields and its body.

    ``version`` is that of the sender: clients up to 4.9.3 do not sign the mark of a query by unique key.
    """
    unsigned = (_UNIQUE_KEY_QUERY,) if version <= V4_9_3 else ()
    expected = compute_signature(fields, body, secret_key, unsigned)
    return hmac.compare_digest(expected.encode(), fields.get(SIGNATURE, "").encode(errors="replace"))


def compute_signature(
    fields: Mapping[str, str], body: bytes | memoryview, secret_key: str, unsigned: Iterable[str] = ()
) -> str:
    """Returns the signature of all fields except ``Signature`` and the named ones, and of the body."""
    left_out = {SIGNATURE, *unsigned}
    names = sorted((name for name in fields if name not in left_out), key=_order_in_java)
    digest = hmac.new(secret_key.encode(), digestmod=hashlib.sha1)
    digest.update("".join([fields[name] for name in names]).encode(errors="replace"))
    digest.update(body)
    return base64.b64encode(digest.digest()).decode()


def _order_in_java(name: str) -> bytes:
    """Returns a sort key: Java compares texts by UTF-16 units, Python by characters."""
    return name.encode("utf-16-be", errors="surrogatepass")
