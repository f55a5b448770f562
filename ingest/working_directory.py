"""A directory that one process at a time fills, and publishes when it is complete."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from contracts import written_files
from contracts.errors import UsageError
from contracts.storage import file_lock
from ingest import output_directory

LOCK = ".lock"


class DestinationExistsError(UsageError):
    """The directory to write to exists."""


class WorkingDirectory:
    """A directory for incomplete files.

    The kernel releases its lock when the process ends. So the next process deletes the
    files of a killed process, but never the files of a running one.

    Attributes:
      path: The directory.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock: contextlib.ExitStack | None = None

    @classmethod
    def beside(cls, target: Path) -> WorkingDirectory:
        """Returns the directory next to a target where its files are prepared."""
        return cls(target.with_name(f".{target.name}.incomplete"))

    @classmethod
    @contextlib.contextmanager
    def creating(
        cls, target: Path, wait: Callable[[str], None]
    ) -> Iterator[WorkingDirectory]:
        """Opens the directory of a new target, and deletes it if it is not published.

        Args:
          target: A directory that does not exist.
          wait: As for `open`.

        Raises:
          DestinationExistsError: The target exists.
          UsageError: The directory cannot be written.
        """
        refuse_existing(target)
        working = cls.beside(target)
        working.open(target, wait=wait)
        try:
            refuse_existing(target)  # the process that this one waited for wrote it
            yield working
        finally:
            working.delete()

    def open(
        self, target: Path | None = None, *, wait: Callable[[str], None] | None = None
    ) -> None:
        """Creates the directory, locks it and deletes its other files.

        Args:
          target: Named in an error; None for the parent of this directory.
          wait: Called with a line for the user before waiting for another process
            that uses the directory; None does not wait.

        Raises:
          UsageError: Another process uses it, and `wait` is None; or it cannot be
            written.
        """
        while self._lock is None:
            with output_directory.usage_errors(target or self.path.parent):
                self.path.mkdir(parents=True, exist_ok=True)
                with contextlib.suppress(FileNotFoundError):
                    self._lock = self._acquire(wait)
        for entry in os.scandir(self.path):
            if entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry.path)
            elif entry.name != LOCK:
                os.remove(entry.path)

    def publish(self, target: Path, *, last: str | None = None) -> None:
        """Moves the files to the target and releases the lock.

        The target appears by one rename. If this directory is in the target, which may
        be a mount point that cannot be replaced, the files are moved one by one.

        Args:
          target: A directory on the same file system, new or empty.
          last: The file that is moved last.

        Raises:
          OSError: The target cannot be written. Nothing is deleted.
        """
        if self.path.parent == target:
            names = {entry.name for entry in os.scandir(self.path)} - {LOCK}
            for name in sorted(names, key=lambda name: (name == last, name)):
                os.rename(self.path / name, target / name)
            self._release()  # first: NFS cannot delete a file that is open
            shutil.rmtree(self.path, ignore_errors=True)
        else:
            self.path.rename(target)
            (target / LOCK).unlink()
            self._release()

    def delete(self) -> None:
        """Deletes the directory and releases the lock, if this process holds it."""
        if self._lock is not None:
            shutil.rmtree(self.path, ignore_errors=True)
            self._release()

    def _acquire(
        self, wait: Callable[[str], None] | None
    ) -> contextlib.ExitStack | None:
        """Returns the context of the lock; None if the lock file was moved or deleted.

        Another process may have published or deleted the directory meanwhile.
        """
        path = self.path / LOCK

        def report(owner: str) -> None:
            if wait is not None:
                wait(f"waiting for {owner}, which writes to {self.path}")

        with contextlib.ExitStack() as stack:
            try:
                lock = file_lock.hold(
                    path, f"process {os.getpid()}", wait=report if wait else None
                )
                file = stack.enter_context(lock)
            except file_lock.LockedError as error:
                raise UsageError(
                    str(self.path),
                    f"in use by {error.owner}",
                    advice="wait until it ends, or name another directory",
                    name="E-output-in-use",
                ) from error
            is_in_place = os.path.samestat(os.fstat(file.fileno()), path.stat())
            return stack.pop_all() if is_in_place else None

    def _release(self) -> None:
        assert self._lock is not None
        self._lock.close()
        self._lock = None


def delete_damaged(target: Path, report: Callable[[str], None]) -> None:
    """Deletes a published directory if recorded files are missing or have changed.

    The files that a user added to a directory without damage are kept.

    Args:
      target: A directory, which need not exist.
      report: Called with a line for the user.

    Raises:
      UsageError: The directory next to it cannot be written.
    """
    if not written_files.find_changes(target, counts_additional=False):
        return
    working = WorkingDirectory.beside(target)
    working.open(wait=report)
    try:
        # Again: the process that this one waited for may have written it.
        if changes := written_files.find_changes(target, counts_additional=False):
            report(
                f"{target} is written again: {len(changes)} of its files are missing "
                "or have changed"
            )
            # Its name is free at once, even if this process is killed.
            target.rename(working.path / "damaged")
    finally:
        working.delete()


def refuse_existing(target: Path) -> None:
    """Refuses a target that exists.

    Raises:
      DestinationExistsError: It exists.
    """
    if os.path.lexists(target):
        raise DestinationExistsError(
            str(target),
            "it exists",
            advice="name a new directory",
            name="E-destination-exists",
        )
