"""The baseline in a pytest run: read before the tests, compared and, if asked, brought up to date after them."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, replace

from dispatchcov.compare import baseline
from dispatchcov.compare.baseline import Baseline
from dispatchcov.compare.baseline_update import updated
from dispatchcov.compare.moved import compare, ignored
from dispatchcov.compare.sides import of_baseline, of_data
from dispatchcov.config import Settings
from dispatchcov.drift import Drift
from dispatchcov.errors import UsageError
from dispatchcov.records import Data
from dispatchcov.table import Table


@dataclass(frozen=True)
class Keeper:
    """The baseline ``file`` of a run under ``root``, as it was ``read`` (None: it is to be made)."""

    settings: Settings
    root: str
    file: str
    read: Baseline | None

    @staticmethod
    def of(settings: Settings, root: str | os.PathLike[str]) -> Keeper | None:
        """What ``settings`` ask for; raises :class:`UsageError` for a file that is not there or is no baseline."""
        for key in ("update_baseline", "fail_on_drift"):
            if getattr(settings, key) and not settings.baseline:
                option = f"--dispatch-{key.replace('_', '-')}"
                raise UsageError(f"{option}: expected --dispatch-baseline=FILE with it, got none")
        if not settings.baseline:
            return None
        file = os.path.abspath(settings.baseline)
        new = settings.update_baseline and not os.path.lexists(file)
        if new and not os.path.isdir(os.path.dirname(file)):
            raise UsageError(f"--dispatch-baseline: expected a folder to write {settings.baseline} into, got none")
        return Keeper(settings, os.fspath(root), file, None if new else baseline.read(settings.baseline))

    def drift(self, data: Data, tables: Iterable[Table]) -> Drift:
        """What drifted in the run that ``data`` are of; writes the baseline anew if that was asked for."""
        was = self.read or Baseline({}, ())
        now = of_data("the run", data, tables)
        before = of_baseline(self.settings.baseline, was)
        found = compare(before, now, ignore=self.settings.baseline_ignore, exists=self._exists)
        if not self.settings.update_baseline:
            return found
        entries = updated(was, now, found.gone, ignored(self.settings.baseline_ignore))
        written = baseline.write(self.file, entries)
        return replace(found, update=f"{'written' if written else 'unchanged'}: {self.settings.baseline}")

    def _exists(self, file: str) -> bool:
        return os.path.lexists(os.path.join(self.root, file))
