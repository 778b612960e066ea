"""Writes through TLS and signatures, with files that tasks read for themselves."""

from __future__ import annotations

import pytest
from pyspark.errors import PySparkException

from tests.harness.secured_proxy import CertificateAuthority, StartProxy
from tests.harness.spark_sink import ServeSink

ACCESS_KEY, SECRET = "acc3ssOfTheTests", "s3cr3tOfTheTests"


def test_a_write_and_a_stream_are_signed_and_encrypted(
    serve: ServeSink, authority: CertificateAuthority, start_proxy: StartProxy
) -> None:
    sink = serve({"orders": 2, "copies": 1})
    server, (cert_file, key_file) = authority.issue("server", "127.0.0.1"), authority.issue("client")
    proxy = start_proxy(sink.broker.endpoints, {ACCESS_KEY: SECRET}, server, asks_certificate=True)
    options = {"endpoints": proxy.endpoints, "accessKey": ACCESS_KEY, "secretKey": SECRET, "tlsEnabled": "true"}
    options |= {"tlsCaFile": str(authority.ca_file), "tlsCertFile": str(cert_file), "tlsKeyFile": str(key_file)}

    sink.write(sink.rows("body STRING", ("1",), ("2",)), topic="orders", **options)
    sink.run(sink.stream("orders", **options), topic="copies", **options)
    assert sorted(sink.bodies("copies")) == [b"1", b"2"]

    wrong = options | {"secretKey": "wr0ngOfTheTests"}
    with pytest.raises(PySparkException, match=r"UNAUTHORIZED: check signature failed\.") as refused:
        sink.write(sink.rows("body STRING", ("3",)), topic="orders", **wrong)
    assert "wr0ngOfTheTests" not in str(refused.value)
    assert len(sink.bodies("orders")) == 2
