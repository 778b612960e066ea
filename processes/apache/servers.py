"""Apache's name server and broker, each as a process with a folder and ports of its own."""

from __future__ import annotations

import os
import ssl
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

from processes.apache.access import Tls
from processes.apache.administration import Administration
from processes.apache.calls import Credentials
from processes.apache.class_archives import name_archive, name_folder
from processes.apache.releases import Release
from processes.children import LOOPBACK, Child, ProcessFailed
from processes.java import compile_java, find_java, make_class_path
from processes.ports import ReservedPorts
from rmqpull_proto.remoting.codes import ResponseCode

READY_WITHIN_S = 90.0
STOPPED_WITHIN_S = 60.0
JAVA = Path(__file__).parent / "java"
GUARDED = JAVA / "rmqpull" / "Guarded.java"

FOR_TESTS = (
    *("-Xms64m", "-Xmx256m", "-XX:MaxDirectMemorySize=512m"),
    *("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData"),
)
"""Options of the JVM for servers that live for seconds or minutes."""
FOR_BENCHMARKS = ("-server", "-Xms1g", "-Xmx1g", "-XX:MaxDirectMemorySize=2g", "-XX:+UseG1GC", "-XX:-UsePerfData")
"""Options of the JVM for servers that are measured."""
_FOR_BROKERS_OF_TESTS = {
    # By default a broker of 5.x writes its whole timer wheel every second. It finds all that is in it in its log, too.
    "timerFlushIntervalMs": "3600000",
    # Until this time has passed since its start, a broker of 5.x keeps a core busy: 10 s by default in 5.5.0, 3 s in
    # 5.3.3 (`TransactionMetricsFlushService.run` waits only after it has written for the first time).
    "transactionMetricFlushInterval": "500",
    # By default a broker refuses messages that waited for 0.2 s, or while a write takes 1 s, as on a busy machine.
    "brokerFastFailureEnable": "false",
    "osPageCacheBusyTimeOutMills": "60000",
}
# 5.5.0 uses a whole core from `transactionOpBatchInterval` after its first transaction on: `batchSendOpMessage` of
# `TransactionalMessageServiceImpl` then takes a queue without operations to write for a late one. With these values it
# writes each operation at once, and the interval does not pass.
_FOR_BROKERS_OF_TESTS_5_5 = {"transactionOpMsgMaxSize": "1", "transactionOpBatchInterval": "3600000"}
# 4.x needs jdk.internal.ref to unmap its files: without it, a stop loses consumer offsets.
_FOR_JAVA_17 = (
    *("--add-exports=java.base/sun.nio.ch=ALL-UNNAMED", "--add-exports=java.base/sun.security.ssl=ALL-UNNAMED"),
    *(
        f"--add-opens=java.base/{package}=ALL-UNNAMED"
        for package in ("java.nio", "sun.nio.ch", "jdk.internal.misc", "jdk.internal.ref", "java.lang", "java.util")
    ),
)
# A broker refuses messages and deletes files when the disk is fuller than this. The disks of developers are full.
_DISK_LIMITS = (
    "-Drocketmq.broker.diskSpaceWarningLevelRatio=0.99",
    "-Drocketmq.broker.diskSpaceCleanForciblyRatio=0.98",
)
# By default a server also allows TLS, and makes a certificate for it: half of the processor time of its start.
_WITHOUT_TLS = "-Dtls.server.mode=disabled"
_LOGGING = """<configuration>
<appender name="output" class="ch.qos.logback.core.ConsoleAppender">
<encoder><pattern>%d %p %t %c{0} - %m%n</pattern></encoder>
</appender>
<root level="INFO"><appender-ref ref="output"/></root>
</configuration>
"""
_LOG_FILES = ("logback_namesrv.xml", "logback_broker.xml")
_REGISTER_EVERY_S = 0.5
_NOT_COPIED = (ResponseCode.SLAVE_NOT_AVAILABLE, ResponseCode.FLUSH_SLAVE_TIMEOUT)


class Role(Enum):
    """What a broker is in its group of master and slaves. The value is RocketMQ's name."""

    ASYNC_MASTER = "ASYNC_MASTER"
    SYNC_MASTER = "SYNC_MASTER"
    SLAVE = "SLAVE"


@dataclass(kw_only=True)
class Server:
    """A server process. A restart uses the same folder and ports.

    ``properties`` are added to its configuration file, and ``java_options`` are those of its JVM. Both can change
    between two starts. The process ends when this Python process ends. Without ``tls``, servers of tests allow TLS only
    with ``allows_tls``. When one ends by :meth:`end`, the folder ``archives_to`` gets an archive of its classes.
    """

    release: Release
    folder: Path
    java_options: Sequence[str] = FOR_TESTS
    properties: Mapping[str, str] = field(default_factory=dict)
    tls: Tls | None = None
    allows_tls: bool = False
    archives_to: Path | None = None

    def __post_init__(self) -> None:
        self._ports = ReservedPorts()
        self._process: Child | None = None
        self.folder.mkdir(parents=True, exist_ok=True)

    @property
    def port(self) -> int:
        return self._ports.first + 2  # a broker uses the port two below for fewer kinds of requests

    @property
    def address(self) -> str:
        """``host:port`` of the server."""
        return f"{LOOPBACK}:{self.port}"

    @property
    def log(self) -> Path:
        """The file with what the server has printed. That is the log of 4.x; 5.x has it in ``logs`` beside it."""
        return self.folder / "log"

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.is_running

    @property
    def pid(self) -> int:
        """The process id of the last start. Raises ProcessFailed before the first start."""
        return self._started().pid

    def begin_start(self) -> None:
        """Starts the process and returns at once. Raises ProcessFailed if it runs, and SoftwareMissing."""
        if self.is_running:
            raise ProcessFailed(f"The {self._name} already runs, as process {self.pid}: stop or kill it first.")
        jars = [*self._fetch_jars(), compile_java([GUARDED], ())]
        command = [find_java(), *self.java_options, *self._share_classes(), *_FOR_JAVA_17, *_DISK_LIMITS]
        command += [f"-Duser.home={self.folder}", f"-Drocketmq.home.dir={self.folder}", *self._write_tls()]
        command += ["-cp", make_class_path(*jars), "rmqpull.Guarded", self._main_class]
        command += self._write_arguments()
        self._process = Child(
            self._name, command, self.log, os.environ, folder=self.folder, logs_output=True, has_input=True
        )

    def finish_start(self) -> None:
        """Returns when the server that was started is ready. Raises ProcessFailed, and kills it then."""
        try:
            self._started().wait_for_port(self.port, READY_WITHIN_S)
            self._wait_until_ready()
        except BaseException:
            self.kill()
            raise

    def start(self) -> None:
        """Starts the server and returns when it is ready. Raises ProcessFailed and SoftwareMissing."""
        self.begin_start()
        self.finish_start()

    def stop(self) -> None:
        """Stops the server with SIGTERM. Does nothing when it does not run. Raises ProcessFailed."""
        if self.is_running:
            process = self._started()
            process.terminate()
            process.wait(STOPPED_WITHIN_S)
            process.kill()

    def kill(self) -> None:
        """Kills the server with SIGKILL, like a crash. Does nothing when it does not run."""
        if self._process is not None:
            self._process.kill()

    def end(self) -> None:
        """Lets the server end at once, without a stop. Raises ProcessFailed."""
        process = self._started()
        process.end_input()
        process.wait(STOPPED_WITHIN_S)

    def restart(self) -> None:
        """Kills the server and starts it again."""
        self.kill()
        self.start()

    def release_ports(self) -> None:
        """Kills the server. It cannot be started again."""
        self.kill()
        self._ports.release()

    @property
    def _name(self) -> str:
        raise NotImplementedError

    @property
    def _main_class(self) -> str:
        raise NotImplementedError

    def _configuration(self) -> dict[str, str]:
        raise NotImplementedError

    def _fetch_jars(self) -> list[Path]:
        return self.release.fetch_server_jars()

    def _write_arguments(self) -> list[str]:
        """Writes the files that the server reads, and returns its arguments."""
        return ["-c", str(self._write_configuration())]

    def _wait_until_ready(self) -> None:
        """Returns when the server, which already listens, can be used."""

    def _started(self) -> Child:
        if self._process is None:
            raise ProcessFailed(f"The {self._name} was never started.")
        return self._process

    def _write_configuration(self) -> Path:
        (self.folder / "conf").mkdir(exist_ok=True)
        for name in _LOG_FILES:  # 4.x does not start without them
            (self.folder / "conf" / name).write_text(_LOGGING, encoding="utf-8")
        return write_properties(
            self.folder / "server.conf",
            {"listenPort": str(self.port), "bindAddress": LOOPBACK, **self._configuration(), **self.properties},
        )

    def _share_classes(self) -> list[str]:
        if self.archives_to is not None:
            return [f"-XX:ArchiveClassesAtExit={name_archive(self.archives_to, self._main_class)}"]
        if self.java_options != FOR_TESTS:
            return []
        archive = name_archive(name_folder(self.release.fetch_server_jars()), self._main_class)
        return [f"-XX:SharedArchiveFile={archive}"] if archive.exists() else []

    def _write_tls(self) -> list[str]:
        if self.tls is None:
            return [] if self.allows_tls or self.java_options != FOR_TESTS else [_WITHOUT_TLS]
        file = write_properties(self.folder / "tls.properties", self.tls.as_properties())
        mode, enabled = ("enforcing", "true") if self.tls.is_enforced else ("permissive", "false")
        return [f"-Dtls.config.file={file}", f"-Dtls.server.mode={mode}", f"-Dtls.enable={enabled}"]


@dataclass(kw_only=True)
class NameServer(Server):
    """Apache's name server."""

    @property
    def _name(self) -> str:
        return "name server"

    @property
    def _main_class(self) -> str:
        return "org.apache.rocketmq.namesrv.NamesrvStartup"

    def _configuration(self) -> dict[str, str]:
        return {"kvConfigPath": str(self.folder / "kvConfig.json")}


@dataclass(kw_only=True)
class Broker(Server):
    """Apache's broker. It registers at name servers, ``host:port`` with semicolons between them.

    ``credentials`` are those of an administrator, when the broker checks access keys; ``client_tls`` is for
    administration. A restart forgets what ``Administration.update_broker`` has changed: change ``properties`` for that.
    """

    name_servers: str
    name: str = "broker-a"
    cluster: str = "DefaultCluster"
    role: Role = Role.ASYNC_MASTER
    broker_id: int = 0
    credentials: Credentials | None = None
    client_tls: ssl.SSLContext | None = None

    @property
    def administration(self) -> Administration:
        """Creates topics and the like on this broker."""
        return Administration(self.name_servers, self.credentials, self.client_tls)

    def wait_for_slave(self) -> None:
        """Returns when a slave copies the messages of this SYNC_MASTER. Raises ProcessFailed."""
        administration = self.administration

        def is_copied() -> bool:
            sent = administration.send(self.address, "BenchmarkTest", b"probe", refusals_allowed=_NOT_COPIED)
            return sent.code not in _NOT_COPIED

        self._started().wait_until(is_copied, "found a slave that copies its messages", READY_WITHIN_S)

    @property
    def _name(self) -> str:
        return f"broker {self.name} ({self.role.value})"

    @property
    def _main_class(self) -> str:
        return "org.apache.rocketmq.broker.BrokerStartup"

    def _configuration(self) -> dict[str, str]:
        store = self.folder / "store"
        return {
            "brokerName": self.name,
            "brokerClusterName": self.cluster,
            "brokerId": str(self.broker_id),
            "brokerRole": self.role.value,
            "namesrvAddr": self.name_servers,
            "brokerIP1": LOOPBACK,
            "brokerIP2": LOOPBACK,
            "storePathRootDir": str(store),
            "storePathCommitLog": str(store / "commitlog"),
            "enablePropertyFilter": "true",
            "diskMaxUsedSpaceRatio": "95",
            **(self._for_tests() if self.java_options == FOR_TESTS else {}),
        }

    def _for_tests(self) -> dict[str, str]:
        of_release = _FOR_BROKERS_OF_TESTS_5_5 if self.release.server.startswith("5.5.") else {}
        return _FOR_BROKERS_OF_TESTS | of_release

    def _wait_until_ready(self) -> None:
        # After its start, 5.x registers for the first time when 10 s have passed. A change of its permission makes it
        # register at once.
        administration = self.administration
        permission = self.properties.get("brokerPermission", "6")
        asked = time.monotonic()

        def is_registered() -> bool:
            nonlocal asked
            if administration.is_registered(self.name, self.broker_id, self.address):
                return True
            if time.monotonic() > asked + _REGISTER_EVERY_S:
                administration.update_broker(self.address, brokerPermission=permission)
                asked = time.monotonic()
            return False

        self._started().wait_until(is_registered, "registered at the name servers", READY_WITHIN_S)


def write_properties(file: Path, properties: Mapping[str, str]) -> Path:
    """Writes a file of Java properties. Returns the file."""
    file.write_text("".join(f"{name}={value}\n" for name, value in properties.items()), encoding="utf-8")
    return file
