"""The attempts of one request: whether its servers may come back, and the exception when they do not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container

from rmqpull_client.connection import Connection, parse_broker_addresses
from rmqpull_client.errors import BrokerBusy, BrokerUnavailable, HandshakeFailed, RmqpullError
from rmqpull_client.transports.away import ANSWERED, CLOSINGS_MAX, make_key
from rmqpull_client.transports.first_checks import ask_for_restart, name_first_check
from rmqpull_client.transports.remoting.network.cluster import NAME_SERVER, Place, Target
from rmqpull_client.transports.remoting.network.connections import Cause, ConnectionLost
from rmqpull_client.transports.remoting.network.failures import (
    is_left_to_master,
    join_names,
    name_request,
    name_response,
)
from rmqpull_proto.remoting.command import RemotingCommand

_NO_TLS_TEXTS = ("wrong version number", "record layer", "closed", "reset by peer", "no response")
_FATAL = frozenset((Cause.HANDSHAKE, Cause.OTHER_PROTOCOL))


class Attempts:
    """The attempts of one request, with what was seen at each server, over all retries.

    ``is_out_of_tries`` says that the permitted tries ran out, and not the time. ``answered`` has the servers that have
    answered in this process, by ``make_key``.
    """

    def __init__(
        self,
        connection: Connection,
        target: Target,
        request: RemotingCommand,
        answered: Container[str] = ANSWERED,
    ) -> None:
        self.is_out_of_tries = False
        self._connection = connection
        self._target = target
        self._request = request
        self._answered = answered
        self._closings: Counter[Place] = Counter()
        self._seen: dict[Place, ConnectionLost] = {}
        self._busy: tuple[Place, RemotingCommand] | None = None
        self._not_located: RmqpullError | None = None
        self._is_planned = False
        self._tries = 0

    def add_lost(self, place: Place, lost: ConnectionLost) -> None:
        """Records a lost connection. A timeout does not replace a more informative text."""
        self._busy = self._not_located = None
        if lost.cause is not Cause.TIMED_OUT or place not in self._seen:
            self._seen[place] = lost
        if lost.is_wordless and not self._has_answered(place):
            self._closings[place] += 1
        else:
            del self._closings[place]

    def add_busy(self, place: Place, response: RemotingCommand) -> None:
        """Records a response that asks for a later retry."""
        self._busy, self._not_located = (place, response), None

    def add_not_located(self, error: RmqpullError, is_planned: bool = False) -> None:
        """Records that no server for the request is known. ``is_planned``: an earlier route has named its broker."""
        self._busy, self._not_located = None, error
        self._is_planned = is_planned or isinstance(error, BrokerUnavailable)

    @property
    def is_hopeless(self) -> bool:
        """Whether every server seen fails at the protocol or at TLS, so that another try would end the same way."""
        return bool(self._seen) and all(
            lost.cause in _FATAL or self._closes_always(place) for place, lost in self._seen.items()
        )

    def _closes_always(self, place: Place) -> bool:
        return self._closings[place] >= CLOSINGS_MAX

    @property
    def is_away(self) -> bool:
        """Whether a server is away that has answered before, or that a route names. It may come back."""
        if self._busy is not None:
            return self._busy[0].is_slave  # it is asked because its master is away
        if self._not_located is not None:
            return self._is_planned
        return not self.is_hopeless and any(map(self._is_known, self._seen))

    def _is_known(self, place: Place) -> bool:
        is_of_route = not place.is_name_server and not place.is_given
        return is_of_route or self._has_answered(place)

    def _has_answered(self, place: Place) -> bool:
        return make_key(self._connection, place.address) in self._answered

    @property
    def servers(self) -> str:
        """The servers that were asked, for texts."""
        return join_names([str(place) for place in self._seen]) or f"broker {self._target.broker_name}"

    def count_try(self) -> None:
        """Counts one more try of all servers."""
        self._tries += 1

    def make_error(self) -> RmqpullError:
        """Returns the exception for all attempts."""
        if self._not_located is not None:
            return self._not_located
        if self._busy is not None:
            return self._make_busy_error(*self._busy)
        seen = self._seen
        if seen and all(lost.cause in (*_FATAL, Cause.CLOSED_IN_HANDSHAKE) for lost in seen.values()):
            return self._make_handshake_error()
        if any(map(self._closes_always, seen)) and self.is_hopeless:
            return HandshakeFailed(self._describe_closings())
        return BrokerUnavailable(f"{self._describe()}. {self._advise()}")

    def _make_busy_error(self, place: Place, response: RemotingCommand) -> BrokerBusy:
        code, remark = name_response(response.code), (response.remark or "").strip(" .")
        text = f"The {place} responded to {name_request(self._request.code)} with {code} ({response.code}): {remark}. "
        if is_left_to_master(place, response):
            text += "It is a slave that has not learned the topic from its master. Start the master. "
        elif place.is_slave:
            text += "It is a slave. Start its master, or set slaveReadEnable=true if the slave should serve reads too. "
        if place.is_slave:
            text += "It was retried as long and as often as options serverAwayTimeoutMs and requestRetries allow."
        else:
            text += (
                "It was retried as long and as often as the request timeout and the retries allow (options "
                "requestTimeoutMs and requestRetries). Raise them, or send fewer requests."
            )
        return BrokerBusy(code, text)

    def _describe_closings(self) -> str:
        places = ", ".join(str(place) for place in self._seen if self._closes_always(place))
        asks = "Does it require TLS? Then set option tlsEnabled to true."
        if self._connection.tls is not None:
            asks = "Does it require a client certificate? Then set options tlsCertFile and tlsKeyFile."
        return (
            f"The {places} took {CLOSINGS_MAX} connections in a row and closed each without a response to "
            f"{name_request(self._request.code)}. {asks} Otherwise check that this is the address of a RocketMQ server."
        )

    def _describe(self) -> str:
        connection, name = self._connection, name_request(self._request.code)
        limit = f"within {self._limit_ms} ms"
        retries = connection.request_retries
        if self.is_out_of_tries or (retries is not None and self._tries > retries):
            limit = f"in {self._tries} {'try' if self._tries == 1 else 'tries'}"
        whom = "No name server" if self._target == NAME_SERVER else f"Broker {self._target.broker_name}"
        did = "responded" if self._target == NAME_SERVER else "did not respond"
        texts = "; ".join(f"{place.address}: {lost}" for place, lost in self._seen.items())
        return f"{whom} {did} to {name} {limit} ({texts})"

    @property
    def _limit_ms(self) -> int:
        connection = self._connection
        away_ms = connection.server_away_timeout_ms if self.is_away else 0
        return max(connection.request_timeout_ms, away_ms)

    @property
    def _limiting_option(self) -> str | None:
        """The option that ended the waiting, unless the tries were used up."""
        if self.is_out_of_tries or self._connection.request_retries is not None:
            return None
        return "requestTimeoutMs" if self._limit_ms == self._connection.request_timeout_ms else "serverAwayTimeoutMs"

    def _advise(self) -> str:
        closed = any(lost.cause is Cause.CLOSED for lost in self._seen.values())
        tls = ""
        if closed and self._connection.tls is None:
            tls = " If the server requires TLS, enable it (option tlsEnabled)."
        elif closed:
            tls = (
                " If the server requires a client certificate, set it and its key (options tlsCertFile and tlsKeyFile)."
            )
        seen = set(self._seen)
        wrong = {place.address for place in seen if place.is_given}.intersection(self._connection.addresses)
        if wrong:
            return f"{min(wrong)} is the address of a name server: give the broker's address (option brokerAddresses)."
        is_name_server = self._target == NAME_SERVER
        if seen and all(map(self._has_answered, seen)):
            return ask_for_restart("name server" if is_name_server else "broker", self._limiting_option) + tls
        if is_name_server or any(place.is_given for place in seen):
            option = "nameServers" if is_name_server else "brokerAddresses"
            return name_first_check("; ".join(map(str, self._seen.values())), option) + tls
        return (
            f"The name server at {self._connection.name_servers} gave this address. If it cannot be reached from this "
            "machine, as is common with brokers in containers or in other networks, set option brokerAddresses to one "
            f"that can, such as {self._target.broker_name}=HOST:PORT. {self._tell_other_entries()}Otherwise check that "
            f"the broker is running.{tls}"
        )

    def _tell_other_entries(self) -> str:
        """The brokers that brokerAddresses names instead: one of the names may be wrong."""
        if not self._connection.broker_addresses:
            return ""
        names = sorted({name for name, _ in parse_broker_addresses(self._connection.broker_addresses)})
        if self._target.broker_name in names:
            return ""
        return f"That option has entries for {join_names(names)} only: check these names. "

    def _make_handshake_error(self) -> HandshakeFailed:
        lost = next(iter(self._seen.values()))
        where = "; ".join(f"{place}: {lost}" for place, lost in self._seen.items())
        if lost.cause is Cause.OTHER_PROTOCOL:
            return HandshakeFailed(
                f"No server of RocketMQ's remoting protocol: {where}. {self._advise_on_protocol(lost.protocol)}"
            )
        return HandshakeFailed(f"No TLS connection to the {where}. {_advise_on_tls(str(lost), self._target)}")

    def _advise_on_protocol(self, protocol: str) -> str:
        if protocol == "TLS":
            return "The server requires TLS: enable it (option tlsEnabled)."
        speaks = f"The server speaks {protocol}. " if protocol else ""
        if self._target == NAME_SERVER:
            return (
                f"{speaks}Set option nameServers to the address of a name server, whose port is 9876 by default; the "
                "address of rmqpull-broker belongs in option endpoints."
            )
        if any(place.is_given for place in self._seen):
            return f"{speaks}Option brokerAddresses names this address: check that it is the broker's."
        if any(place.is_proxy for place in self._seen):
            return (
                f"{speaks}A proxy gave this address: in local mode it names its gRPC port, which serves no pulls. Set "
                "option nameServers to the addresses of the cluster's name servers, or brokerAddresses to the port of "
                f"the broker itself, such as {self._target.broker_name}=HOST:10911."
            )
        return (
            f"{speaks}The name server at {self._connection.name_servers} gave this address. From this machine it leads "
            "to another server, as is common with brokers in containers or in other networks: set option "
            f"brokerAddresses to one that leads to the broker, such as {self._target.broker_name}=HOST:PORT."
        )


def _advise_on_tls(text: str, target: Target) -> str:
    lower = text.lower()
    if any(words in lower for words in _NO_TLS_TEXTS):
        return "The server does not speak TLS on this port: use another port, or turn TLS off (option tlsEnabled)."
    if "hostname mismatch" in lower or "ip address mismatch" in lower:
        how = "in option nameServers" if target == NAME_SERVER else "with option brokerAddresses"
        return f"The server's certificate is for another host: name the host of the certificate {how}."
    if "expired" in lower:
        return "Renew the server's certificate."
    if "alert" in lower:
        return "The server refuses the client certificate: check tlsCertFile and tlsKeyFile."
    return "Check the CA file (Tls.ca_file, option tlsCaFile): it must hold the authority that signed the certificate."
