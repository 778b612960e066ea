"""Runs the first examples of the README as they are shown: spark_readme.py README ENDPOINTS.

They send two messages, and stream them to the console.
"""

import re
import sys
from pathlib import Path

readme, endpoints = sys.argv[1:]
blocks = re.findall(r"```python\n(.*?)```", Path(readme).read_text(encoding="utf-8"), re.DOTALL)
source, _, send, run, *_ = blocks  # the second one is for a cluster
names: dict[str, object] = {}
for block in (send, source, run):
    exec(block.replace("127.0.0.1:8081", endpoints), names)
