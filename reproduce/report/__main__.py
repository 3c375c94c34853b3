"""python -m reproduce.report: writes report.md, report.html and the figures of a results folder."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from reproduce.records import RecordError
from reproduce.report.reading import SummaryError
from reproduce.report.write import write_report


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns the exit status: 0 if anything was reported, 1 if nothing could be."""
    parser = argparse.ArgumentParser(prog="python -m reproduce.report", description=__doc__.partition(": ")[2])
    parser.add_argument("--results", type=Path, default=Path("results"), metavar="DIR", help="default: results")
    parser.add_argument("--compare", type=Path, metavar="DIR", help="another results folder, to be shown beside")
    options = parser.parse_args(arguments)
    try:
        written = write_report(options.results, options.compare)
    except (OSError, RecordError, SummaryError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(f"{len(written)} files written; read {options.results / 'report.html'} or {options.results / 'report.md'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
