"""Who may talk to a cluster: accounts, as a file for 4.x and by calls for 5.x, and certificates."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from processes.apache.administration import Administration
from processes.apache.calls import Credentials
from processes.apache.releases import Release

_CREATE_USER, _CREATE_ACL = 3001, 3006
_AUTH = "org.apache.rocketmq.auth"


@dataclass(frozen=True)
class Account:
    """Who may do what. ``topics`` and ``groups`` have the allowed actions by name: `PUB`, `SUB` or `PUB|SUB`.

    An administrator may do everything; anyone else may do only what is named. 4.x requires keys of more than six
    characters. 5.x has more actions, such as `GET`.
    """

    access_key: str
    secret_key: str = field(repr=False)
    is_admin: bool = False
    topics: Mapping[str, str] = field(default_factory=dict)
    groups: Mapping[str, str] = field(default_factory=dict)

    @property
    def credentials(self) -> Credentials:
        return Credentials(self.access_key, self.secret_key)

    def create(self, administration: Administration, broker: str) -> None:
        """Creates the account on a broker of 5.x, ``host:port``."""
        user = {
            "username": self.access_key,
            "password": self.secret_key,
            "userType": "Super" if self.is_admin else "Normal",
        }
        administration.call(broker, _CREATE_USER, {"username": self.access_key}, json.dumps(user).encode())
        subject = f"User:{self.access_key}"
        entries = [
            {"resource": f"{kind}:{name}", "actions": actions.title().split("|"), "decision": "ALLOW"}
            for kind, allowed in (("Topic", self.topics), ("Group", self.groups))
            for name, actions in allowed.items()
        ]
        if entries:
            acl = {"subject": subject, "policies": [{"policyType": "CUSTOM", "entries": entries}]}
            administration.call(broker, _CREATE_ACL, {"subject": subject}, json.dumps(acl).encode())


@dataclass(frozen=True)
class Tls:
    """The certificate of a server. With ``is_enforced`` the server refuses plain text.

    With ``client_ca_file`` clients must show a certificate of that authority. Brokers show their own to name servers.
    """

    cert_file: Path
    key_file: Path
    is_enforced: bool = True
    client_ca_file: Path | None = None

    def as_properties(self) -> dict[str, str]:
        """Returns RocketMQ's properties of TLS that are read from a file."""
        properties = {
            "tls.test.mode.enable": "false",
            "tls.server.certPath": str(self.cert_file),
            "tls.server.keyPath": str(self.key_file),
            "tls.client.certPath": str(self.cert_file),
            "tls.client.keyPath": str(self.key_file),
            "tls.client.authServer": "false",
        }
        if self.client_ca_file is not None:
            properties["tls.server.need.client.auth"] = "require"
            properties["tls.server.authClient"] = "true"
            properties["tls.server.trustCertPath"] = str(self.client_ca_file)
        return properties


def write_acl_file(file: Path, accounts: Sequence[Account]) -> None:
    """Writes the accounts for a broker of 4.x."""
    lines = ["accounts:"]
    for account in accounts:
        lines += [f"- accessKey: {account.access_key}", f"  secretKey: {account.secret_key}"]
        lines += ["  whiteRemoteAddress:", f"  admin: {str(account.is_admin).lower()}"]
        lines += ["  defaultTopicPerm: DENY", "  defaultGroupPerm: DENY"]
        for title, allowed in (("topicPerms", account.topics), ("groupPerms", account.groups)):
            lines += [f"  {title}:"] if allowed else []
            lines += [f"  - {name}={actions}" for name, actions in allowed.items()]
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")


def write_acl_properties(release: Release, admin: Account) -> dict[str, str]:
    """Returns the properties that let a broker check access keys."""
    if release.has_acl_file:
        return {"aclEnable": "true"}
    keys = {"accessKey": admin.access_key, "secretKey": admin.secret_key}
    return {
        "authenticationEnabled": "true",
        "authenticationProvider": f"{_AUTH}.authentication.provider.DefaultAuthenticationProvider",
        "authenticationMetadataProvider": f"{_AUTH}.authentication.provider.LocalAuthenticationMetadataProvider",
        "initAuthenticationUser": json.dumps({"username": admin.access_key, "password": admin.secret_key}),
        "innerClientAuthenticationCredentials": json.dumps(keys),
        "authorizationEnabled": "true",
        "authorizationProvider": f"{_AUTH}.authorization.provider.DefaultAuthorizationProvider",
        "authorizationMetadataProvider": f"{_AUTH}.authorization.provider.LocalAuthorizationMetadataProvider",
    }


def write_proxy_acl(admin: Account) -> dict[str, object]:
    """Returns the settings that let a proxy check access keys: it asks the brokers for users and their rights.

    Its own requests have the keys of :func:`write_proxy_keys`.
    """
    proxy = "org.apache.rocketmq.proxy.auth"
    return {
        "authenticationEnabled": True,
        "enableAclRpcHookForClusterMode": True,
        "authenticationProvider": f"{_AUTH}.authentication.provider.DefaultAuthenticationProvider",
        "authenticationMetadataProvider": f"{proxy}.ProxyAuthenticationMetadataProvider",
        "innerClientAuthenticationCredentials": json.dumps(
            {"accessKey": admin.access_key, "secretKey": admin.secret_key}
        ),
        "authorizationEnabled": True,
        "authorizationProvider": f"{_AUTH}.authorization.provider.DefaultAuthorizationProvider",
        "authorizationMetadataProvider": f"{proxy}.ProxyAuthorizationMetadataProvider",
    }


def write_proxy_keys(home: Path, admin: Account) -> None:
    """Writes the keys with which a proxy signs its own requests."""
    file = home / "conf" / "tools.yml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"accessKey: {admin.access_key}\nsecretKey: {admin.secret_key}\n", encoding="utf-8")
