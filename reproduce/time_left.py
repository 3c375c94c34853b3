"""One line that tells how far a measurement is, and about how long it still takes."""

import sys
import time

from reproduce.progress import FILE_SECONDS, duration


class TimeLeft:
    """The line is rewritten on a terminal, and written now and then to a file. Costs are in any one unit."""

    def __init__(self, title: str) -> None:
        self.title = title
        self.began, self.told = time.monotonic(), -FILE_SECONDS
        self.total = self.done = 0.0

    def tell(self, text: str) -> None:
        now = time.monotonic()
        if sys.stderr.isatty():
            print(f"\r\x1b[2K{self.title}: {text}", end="", file=sys.stderr, flush=True)
        elif now - self.told > FILE_SECONDS:
            print(f"{self.title}: {text}", file=sys.stderr, flush=True)
            self.told = now

    def expect(self, cost: float) -> None:
        """What there is to do altogether; time is counted from here."""
        self.total, self.began = cost, time.monotonic()

    def skip(self, cost: float) -> None:
        """A part that was there already: it took no time, and says nothing about the rest."""
        self.total -= cost

    def add(self, cost: float, text: str) -> None:
        """A part that was done now."""
        self.done += cost
        so_far = time.monotonic() - self.began
        left = so_far * max(self.total - self.done, 0) / self.done
        self.tell(f"{text}, {duration(so_far)} so far, about {duration(left)} left")

    def end(self) -> None:
        """What is printed next begins a line of its own."""
        if sys.stderr.isatty():
            print(file=sys.stderr)
