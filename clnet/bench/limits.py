"""What this device reaches at best; profiles and benchmarks give fractions of it."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict

from ..device import device
from ..profiling import measured_limits


def main(argv: Sequence[str] | None = None) -> None:
    """Measure, keep and print the limits; ``--help`` lists the options."""
    parser = argparse.ArgumentParser(prog="clnet bench limits", description=__doc__)
    parser.add_argument("--device", help="as in clnet.device()")
    parser.add_argument("--known", action="store_true", help="print what was measured before")
    parser.add_argument("--json", action="store_true", help="one JSON line")
    options = parser.parse_args(argv)
    where = device(options.device)
    limits = measured_limits(where, again=not options.known)
    if options.json:
        fields = {"bench": "limits", "device": where.identity.key, **asdict(limits)}
        print(json.dumps(fields))
        return
    print(f"{where.name} ({where.identity.name}): {limits.text()}")


if __name__ == "__main__":
    main()
