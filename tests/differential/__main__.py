"""Runs seeds by hand. Prints the shortest sequence of each finding, and exits with 1 when there is one.

python -m tests.differential --seeds 1:500 --subject sends
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from processes.apache.cluster import make_cluster
from rmqpull_broker.testing import running_broker
from tests.differential.generator import STEPS, SUBJECTS, make_steps
from tests.differential.runner import LIKE_APACHE, Address
from tests.differential.shrinking import play, shrink


def main() -> None:
    """Starts both servers and plays the seeds."""
    parser = argparse.ArgumentParser(prog="python -m tests.differential")
    parser.add_argument("--seeds", default="1:50", help="the first seed, and the one after the last")
    parser.add_argument("--subject", choices=[*SUBJECTS], default="all", help="what the requests are about")
    parser.add_argument("--steps", type=int, default=STEPS, help="requests in a sequence")
    parser.add_argument("--without", default="", help="request codes not to send, with commas")
    parser.add_argument("--findings", type=int, default=10, help="end after so many")
    options = parser.parse_args()
    codes = {int(code) for code in options.without.split(",") if code}
    begin, end = map(int, options.seeds.split(":"))
    with (
        tempfile.TemporaryDirectory() as folder,
        make_cluster(Path(folder)) as cluster,
        running_broker(remoting=True, properties=LIKE_APACHE) as broker,
    ):
        emulator = Address(broker.remoting_addresses[0], broker.remoting_addresses[0])
        apache = Address(cluster.addresses, cluster.brokers[0].address, is_late=True)
        findings = 0
        known: set[object] = set()
        for seed in range(begin, end):
            steps = [step for step in make_steps(seed, options.subject, options.steps) if step.code not in codes]
            found = play(steps, emulator, apache)
            if found is None:
                continue
            if found.name in known:
                continue
            known.add(found.name)
            print(f"\nseed {seed}\n{shrink(found, lambda s: play(s, emulator, apache)).format()}", flush=True)
            findings += 1
            if findings >= options.findings:
                break
        print(f"{findings} findings up to seed {seed}")
    sys.exit(bool(findings))


if __name__ == "__main__":
    main()
