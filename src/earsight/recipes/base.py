"""What a recipe is: a known run that can be made, and what is said about it without making it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from earsight.training.job import Job


@dataclass(frozen=True)
class Recipe:
    """A known run. Calling it gives the job; nothing else imports the method.

    Args:
        name: what `--recipe` takes.
        method: the method that is trained.
        on: its training set.
        tests: sets that its source measures it on.
        source: where the run comes from: a paper's table, a repository, or earsight itself.
        make: gives the job.
        data: whether the sets need a folder (--data).
    """

    name: str
    method: str
    on: str
    tests: tuple[str, ...]
    source: str
    make: Callable[[], Job]
    data: bool = True

    def __call__(self) -> Job:
        return self.make()

    @property
    def train(self) -> str:
        """The command that trains a recipe of this one's data."""
        return f"earsight train --recipe NAME{self._folder} --out RUN"

    @property
    def evaluate(self) -> str:
        """The command that measures the trained run."""
        return f"earsight eval RUN --on {' '.join(self.tests)}{self._folder}"

    @property
    def _folder(self) -> str:
        return " --data DIR" if self.data else ""
